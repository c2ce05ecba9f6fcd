// Stands in for the CUDA runtime where there is no GPU: the .cu files of kernels/cuda, unchanged,
// become C++ for the CPU. For correctness, not for speed.
//
// A block's threads are fibers that run one at a time and switch at barriers and shuffles
// (fibers.cpp). Mistakes of a kernel are found, not simulated: reading or writing past device
// memory (AddressSanitizer), shared memory read before it is set (it is full of NaN), a barrier
// that not every thread reaches, a shuffle whose mask names a lane that is not there, a missing
// barrier (five orders of running the threads: EMULATOR_SCHEDULE=0..4).
//
// A cooperative launch runs all of its blocks at once, under every schedule. A thread that polls a
// counter or waits for a bulk copy lets others run; where none can, the program ends.
//
// From EMULATOR_SCHEDULE=5 on several blocks of a kernel run side by side (fibers.cpp), so a block
// that takes what another has not finished is seen; and a kernel launched to overlap the one before
// it may, until it waits for that one, read only what no kernel writes, and store nothing
// (hidden_memory.cpp). Not modelled: stores that become visible late or out of order, so a missing
// __threadfence; threads of a warp out of step between two shuffles; speed.
//
// Only what kernels/cuda uses is here, under the runtime's own names.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// ---- qualifiers and vector types ----

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct uint3 {
    unsigned x, y, z;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

// ---- what a kernel sees ----

namespace emulator {

struct Place { // of the thread that is running
    uint3 thread, block;
    dim3 block_size, grid_size;
};
extern Place place;

extern bool side_by_side; // several blocks run
void switch_now(const char *where);
void wait_for_earlier_kernels();
// Other threads and blocks may run here.
static inline void may_switch(const char *where) {
    if (side_by_side) switch_now(where);
}

[[noreturn]] void give_up();
void sync_block(const char *where);
void sync_warp(const char *where);
uint64_t exchange(uint64_t value, unsigned lane, unsigned mask, const char *where);
unsigned ballot(bool predicate, unsigned mask, const char *where);
unsigned lane();
const uint64_t *exchange_all(uint64_t value, const char *where); // of the 32 lanes
void *block_memory(size_t bytes);    // the block's shared memory, the same for all of its threads
void *launched_memory(size_t bytes); // of which a launch says the size

// A thread has loaded `value`. Where it found the same at its last poll, others run: then true.
bool poll(const void *address, unsigned value, const char *where);

// Bulk copies, and the barriers that count their bytes (shared_memory.cpp).
void copy_barrier_init(uint64_t *barrier);
void copies_expected(uint64_t *barrier, unsigned bytes);
void copy_bulk(void *to, const void *from, unsigned bytes, uint64_t *barrier);
void wait_for_bulk(uint64_t *barrier, unsigned parity);

// These touch nothing but locals and the slots of an exchange: checking every byte of them would
// take more time than the kernels.
#define EMULATOR_UNCHECKED __attribute__((no_sanitize("address", "undefined")))

template <class T>
EMULATOR_UNCHECKED T shuffle(T value, unsigned from, unsigned mask, const char *where) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = exchange(bits, from, mask, where);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// What butterflies of __shfl_xor_sync over all 32 lanes give, from one exchange. join(a, b) is
// inlined here.
template <class T, class Join> EMULATOR_UNCHECKED T tree(T value, Join join) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "an exchange moves at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    const uint64_t *slots = exchange_all(bits, "a sum over a warp");
    T values[32];
    for (int i = 0; i < 32; i++)
        __builtin_memcpy(&values[i], &slots[i], sizeof values[i]);
    for (int half = 16; half; half /= 2)
        for (int i = 0; i < half; i++)
            values[i] = join(values[i], values[i + half]);
    return values[0];
}

} // namespace emulator

// Names and not macros: cudaLaunchConfig_t has fields of these names.
inline const uint3 &threadIdx = emulator::place.thread;
inline const uint3 &blockIdx = emulator::place.block;
inline const dim3 &blockDim = emulator::place.block_size;
inline const dim3 &gridDim = emulator::place.grid_size;

#define EMULATOR_TEXT_(x) #x
#define EMULATOR_TEXT(x) EMULATOR_TEXT_(x)
#define EMULATOR_HERE __FILE__ ":" EMULATOR_TEXT(__LINE__)
#define __syncthreads() emulator::sync_block("__syncthreads " EMULATOR_HERE)
#define __syncwarp(...) emulator::sync_warp("__syncwarp " EMULATOR_HERE)
#define __shfl_sync(mask, value, from)                                                             \
    emulator::shuffle(value, from, mask, "__shfl_sync " EMULATOR_HERE)
#define __shfl_xor_sync(mask, value, bits)                                                         \
    emulator::shuffle(value, emulator::lane() ^ (bits), mask, "__shfl_xor_sync " EMULATOR_HERE)
#define __ballot_sync(mask, predicate)                                                             \
    emulator::ballot(predicate, mask, "__ballot_sync " EMULATOR_HERE)

static inline int __ffsll(long long v) {
    return __builtin_ffsll(v);
}
template <class T> T __ldg(const T *p) {
    return *p;
}
template <class T> T atomicAdd(T *p, T v) {
    emulator::may_switch("atomicAdd");
    T before = *p;
    *p = before + v;
    emulator::may_switch("atomicAdd");
    return before;
}
static inline void __threadfence() {
    emulator::may_switch("__threadfence");
}

// ---- the host's side ----

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorStubLibrary = 34,
    cudaErrorInsufficientDriver = 35,
    cudaErrorCallRequiresNewerDriver = 36,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorNoDevice = 100,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719,
    cudaErrorCooperativeLaunchTooLarge = 720,
    cudaErrorStreamCaptureUnsupported = 900,
} cudaError_t;

typedef enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
} cudaMemcpyKind;

typedef struct EmulatorStream *cudaStream_t;
typedef struct EmulatorEvent *cudaEvent_t;
typedef struct EmulatorGraph *cudaGraph_t;
typedef struct EmulatorGraph *cudaGraphExec_t;

typedef struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlockOptin;
    int multiProcessorCount, major, minor;
} cudaDeviceProp;

typedef struct cudaFuncAttributes {
    int ptxVersion;
} cudaFuncAttributes;

typedef enum cudaDeviceAttr {
    cudaDevAttrClockRate = 13,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
} cudaDeviceAttr;

typedef enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
} cudaFuncAttribute;

typedef enum cudaLaunchAttributeID {
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
} cudaLaunchAttributeID;
typedef union cudaLaunchAttributeValue {
    int cooperative;
    int programmaticStreamSerializationAllowed;
} cudaLaunchAttributeValue;
typedef struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    cudaLaunchAttributeValue val;
} cudaLaunchAttribute;
typedef struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

enum { cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2 };
typedef enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 } cudaStreamCaptureMode;

const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel);
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)()) {
    return cudaFuncGetAttributes(attributes, (const void *)kernel);
}
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **memory, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance);
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream);

namespace emulator {
// Runs every block of the grid, or keeps it for the graph that the stream is capturing, which it
// does not where the kernel was neither launched nor asked about before: its code would be loaded.
// With LIMPID_PTX the kernel of that name in nvcc's PTX runs instead (tests/ptx), with the same
// arguments.
cudaError_t launch(const cudaLaunchConfig_t *config, std::function<void()> body, const void *kernel,
                   const std::vector<std::string> &arguments);

template <class T> std::string bytes_of(const T &argument) {
    return std::string((const char *)&argument, sizeof argument);
}

// For stand-ins of other libraries, and launches: whether a test makes this call fail, what exists
// and is not yet freed, and work that runs now or with the graph that the stream is capturing.
bool call_fails(cudaError_t *error);
int compute_capability(); // 90: sm_90
bool is_capturing(cudaStream_t stream);
void count_objects(long more);
void run_in(cudaStream_t stream, std::function<void()> work);
void finish(); // all that was given to a stream

// The allocation that has this address, of the GPU or pinned; false: none.
bool memory_at(uint64_t address, uint64_t *begin, uint64_t *end);

// A kernel's store to the host: ends the program where the memory is not pinned.
void store_for_host(uint64_t *p, uint64_t value);

// The loader's: cublaslt.cpp has what there is to open.
void *library_open(const char *path);
void *library_symbol(void *library, const char *name);
void library_close(void *library);
} // namespace emulator

template <class... Wanted, class... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Wanted...),
                               Given &&...arguments) {
    // Arguments are copied at the call, as the runtime does.
    return emulator::launch(config, std::bind(kernel, static_cast<Wanted>(arguments)...),
                            (const void *)kernel,
                            {emulator::bytes_of<Wanted>(static_cast<Wanted>(arguments))...});
}
