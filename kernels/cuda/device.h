// What the files of the CUDA backend share: the device, how kernels are launched, how a failed call
// is reported. Device memory is cudaMalloc's; everything runs in one stream, in the order of the
// calls.
#pragma once

#include "kernels/cuda/block.h"

extern "C" {
#include "kernels/kernels.h"
#include "kernels/precision.h"
}

#include "kernels/cuda/operations.h"

// One piece of memory that belongs to the device, on the GPU or on the host.
enum Place { ON_GPU, ON_HOST, PINNED };
struct Allocation {
    Allocation *next;
    void *memory;
    size_t bytes; // of the GPU's memory
    Place place;
};

// Pinned memory through which the host's bytes travel: one half is filled while the other is
// copied.
struct Halves {
    uint8_t *halves[2];
    cudaEvent_t copied[2]; // the copies out of a half have ended
    size_t used;           // bytes in the current half
    int current;
};

// That of weights.
struct Staging : Halves {
    uint8_t *to; // where on the GPU they go
};
constexpr size_t STAGING_BYTES = 4 << 20; // of a half

// And of device_upload: hundreds of passes' tokens, positions and sequences fit into a half.
constexpr size_t UPLOAD_BYTES = 1 << 20;

// The activations of a call as integers (precision.h), for n rows.
//   z = 256 high + low: two signed bytes, so that a GPU multiplies four of them at once.
struct QuantisedRows {
    int8_t *high, *low; // (n, cols); a8 has no high
    float *scales;      // (n, groups of 32)
    int2 *sums;         // (n, groups of 32): of the first 16 z of a group, and of the others
    Outlier *outliers;  // (n, OUTLIERS)
};

// What LIMPID_CUDA turns off (switches.cu).
struct Switches {
    bool nograph, nofuse, nopdl, noprefetch, notiles, noblas, nofew, nofeed, sync;
    bool persistent; // this one turns a part on
};

// From this number of rows on a pass is a prompt and not a batch of decoding sequences: matrix
// products go to cuBLASLt, attention to the tensor cores. More than the 32 rows of a recorded
// decode step, which give the same bits in any batch. For products this is estimated: unpacking
// writes up to 4 bytes per weight, which takes about as long as our own kernel for some twenty
// rows. Not yet measured on a GPU.
enum { PROMPT_ROWS = 64 };

// Passes in flight before the host reads their tokens. A pass takes longer than the host's work on
// a token; a depth above 1 absorbs delays of the host.
enum { PIPELINE_DEPTH = 3 };

// A token on its way to the host (feedback.cu): where a kernel writes it, and as which draw.
struct Sent {
    uint64_t *word; // pinned; NULL: the host does not want it
    uint32_t number;
};
struct Sends {
    uint64_t *words;        // (SEND_SLOTS + 1), owned
    Sent slots[SEND_SLOTS]; // what device_send has sent
    Sent next;              // the last draw, not yet in a slot
    const int32_t *drawn;   // where that draw is on the GPU; NULL: written to since, or sent
};

static __device__ __forceinline__ void send_token(const Sent &sent, int32_t token) {
    if (sent.word) store_for_host(sent.word, (uint64_t)sent.number << 32 | (uint32_t)token);
}

struct Chains;
struct MadeChain;

struct Device {
    Precision precision;
    Error error;   // the first failure; operations do nothing after it
    char name[80]; // the GPU's; empty until it is known
    DeviceInfo info;
    Switches switches;
    Allocation *allocations;
    cudaStream_t stream;
    Staging staging;
    Halves uploads;
    size_t planned;                   // bytes of the matrices told to device_plan_matrix
    size_t taken;                     // bytes of the allocations on the device
    size_t max_cols, max_matrix_rows; // of all matrices so far
    size_t max_unpacked;              // most elements of one that cuBLASLt cannot take as it is
    int max_rows, n_processors;
    bool programmatic;   // a kernel can start before the one before it has ended
    bool loading;        // launches load their kernels' code and do no more
    bool capturing;      // what is launched becomes a graph
    bool persistent;     // one row of x goes through all layers in one launch (persistent/chain.h)
    bool steps_waiting;  // of a chain: they run before anything else is launched
    size_t block_memory; // shared memory that a block can have

    Recording *recording;
    Chains *chains;
    Blas *blas;                // blas.cu
    BlasScratch *blas_scratch; // project_blas.cu
    Clock *clock;              // limits.cu; NULL until it is first used
    QuantisedRows quantised;   // (max_rows, max_cols)
    unsigned *head_counters;   // (MAX_HEAD_COUNTERS) of rows of a head that are projected
    SampleScratch *sampling;   // sample.cu
    float *attention_scratch;  // parts of attention over long caches, then their counters
    size_t attention_floats, attention_counters;
    Sends sends;
};

// Whether launches can be programmatic: this GPU has them, and the code that it runs was compiled
// for GPUs that have them.
bool has_programmatic_launches(const cudaDeviceProp *properties, cudaError_t *error);

static inline bool device_ok(const Device *device) {
    return !device->error.code;
}

// Keeps the first failure.
void device_fail(Device *device, ErrorCode code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// false where `error` is one; the device's message names the call, the GPU and the sizes.
bool cuda_check(Device *device, cudaError_t error, const char *what, const char *sizes = "");
bool bytes_check(Device *device, cudaError_t error, const char *call, size_t bytes);
bool launch_check(Device *device, cudaError_t error, const char *kernel, dim3 grid,
                  unsigned threads);
#define CUDA_CHECK(device, call) cuda_check(device, call, #call)
#define BYTES_CHECK(device, call, bytes) bytes_check(device, call, #call, bytes)

// Zeroed host memory that lives as long as the device does, for the backend's own structs.
void *host_alloc(Device *device, size_t bytes);
void host_free(Device *device, void *memory);

// Appends bytes to what is being copied to `to`, `to + 1`, ..: returns where to write at most
// STAGING_BYTES of them; NULL after a failure. staging_end sends what is left.
bool staging_begin(Device *device, void *to);
uint8_t *staging_take(Device *device, size_t bytes);
void staging_end(Device *device);

// What device_send needs, made with the device.
bool sends_open(Device *device);
void sends_close(Device *device);

// The switches of this process; false where it names one that there is not. The second appends them
// to a text that has `size` bytes.
bool switches_read(Device *device);
void switches_describe(const Switches *switches, char *text, size_t size);

// With the switch `sync`: waits for what was just launched, and fails under its name.
void launch_wait(Device *device, const char *name, dim3 grid, unsigned threads);

// For a kernel that draws tokens into `out`: where it sends the first of them.
Sent sends_draw(Device *device, const int32_t *out);

// Milliseconds between two events, the second of which is waited for; false after a failure.
bool elapsed(Device *device, cudaEvent_t begin, cudaEvent_t end, double *ms);

// The driver loads a kernel's code when it is first used, which may wait for the GPU and allocate:
// what a stream that is being captured does not allow. This does it before (recording.cu).
void kernel_load(Device *device, const char *name, const void *kernel);

// Steps of a pass that run in one launch (persistent/chain.cu). Before a capture kernels are loaded
// and chains are made, from chains_begin on; chains_rewind comes before the capture itself; then
// the graph takes them, and frees them with itself. chain_run launches the steps that wait.
bool chains_have_room(const Device *device); // in a block's shared memory
bool chains_open(Device *device);
void chains_begin(Device *device);
void chains_rewind(Device *device);
MadeChain *chains_take(Device *device);
void chains_free(Device *device, MadeChain *chains); // NULL is fine
void chain_run(Device *device);

// Copies what the host may change at once, behind what the stream has so far: not while it is being
// captured.
void upload_now(Device *device, void *to, const void *from_host, size_t bytes);

// Every kernel starts here. `attribute`: NULL, or of the launch. `memory`: bytes of shared memory
// that launched_memory gives it.
template <class... Wanted, class... Given>
void launch_with(Device *device, const char *name, void (*kernel)(Wanted...), dim3 grid,
                 unsigned threads, size_t memory, cudaLaunchAttribute *attribute,
                 Given... arguments) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = memory;
    config.stream = device->stream;
    config.attrs = attribute;
    config.numAttrs = attribute != NULL;
    launch_check(device, cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(arguments)...),
                 name, grid, threads);
    if (device->switches.sync) launch_wait(device, name, grid, threads);
}

// One that calls wait_for_earlier_kernels before it touches what others write may overlap: it
// starts before the one before it has ended.
template <class... Wanted, class... Given>
void launch(Device *device, const char *name, bool overlaps, void (*kernel)(Wanted...), dim3 grid,
            unsigned threads, Given... arguments) {
    if (device->steps_waiting) chain_run(device); // they come before it
    if (!device_ok(device)) return;
    if (device->loading) {
        kernel_load(device, name, (const void *)kernel);
        return;
    }
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    launch_with(device, name, kernel, grid, threads, 0,
                overlaps && device->programmatic ? &attribute : NULL, arguments...);
}
#define LAUNCH(device, kernel, grid, threads, ...)                                                 \
    launch(device, #kernel, false, kernel, grid, threads, __VA_ARGS__)
#define LAUNCH_OVERLAPPED(device, kernel, grid, threads, ...)                                      \
    launch(device, #kernel, true, kernel, grid, threads, __VA_ARGS__)

// A kernel whose blocks wait for each other (persistent/persistent.cu): all of them run at once, or
// the launch fails. The driver is told of its memory before a capture.
template <class... Wanted, class... Given>
void launch_cooperative(Device *device, const char *name, void (*kernel)(Wanted...), dim3 grid,
                        unsigned threads, size_t memory, Given... arguments) {
    if (!device_ok(device)) return;
    if (device->loading) kernel_load(device, name, (const void *)kernel);
    if (!device->capturing &&
        !cuda_check(device,
                    cudaFuncSetAttribute((const void *)kernel,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, (int)memory),
                    name))
        return;
    if (device->loading) return;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    launch_with(device, name, kernel, grid, threads, memory, &attribute, arguments...);
}
#define LAUNCH_COOPERATIVE(device, kernel, grid, threads, memory, ...)                             \
    launch_cooperative(device, #kernel, kernel, grid, threads, memory, __VA_ARGS__)

static inline unsigned blocks_for(size_t count, size_t each) {
    return (unsigned)((count + each - 1) / each);
}

// Scratch for device_reserve to make, each beside the operation that needs it, and its bytes.
void project_reserve(Device *device);
void sample_reserve(Device *device);
size_t project_bytes(const Device *device, int max_rows);
size_t project_blas_bytes(const Device *device, int max_rows);
size_t sample_bytes(const Device *device);
size_t attention_bytes(const MemoryPlan *plan); // made by the first attention

// ---- limits.cu: the clock that device_idle_seconds reads, two events around every pass ----

// Before the first launches of a pass (a second call changes nothing), behind its last, and behind
// what follows it without the host. They do nothing while the clock is stopped.
void clock_begin(Device *device);
void clock_end(Device *device);
void clock_extend(Device *device);
void clock_close(Device *device);
