// A kernel whose blocks stay and wait for each other, and whose warps have rings of weights that
// bulk copies fill: with one mistake each, and without (tests/cuda/test_cuda_emulator.c).
#include "kernels/cuda/block.h"
#include "tests/cuda/emulator.h"

#include <cstdio>
#include <cstdlib>

enum { THREADS = 64, BLOCKS = 2, SLOTS = 2, CHUNKS = 4 };

// 2 is their sum. That of those in the first two slots, twice, is less.
static const float CHUNK_WEIGHTS[CHUNKS] = {0.25f, 0.5f, 0.5f, 0.75f};

struct Ring {
    CopyBarrier full[SLOTS];
    alignas(16) float weights[SLOTS][WARP];
};
struct ResidentMemory {
    Ring rings[THREADS / WARP];
};

static __device__ void grid_barrier(unsigned *counter, unsigned n) { // the nth of a launch
    __syncthreads();
    if (!threadIdx.x) {
        arrive(counter, 1);
        while (load_counter(counter) < n * gridDim.x)
            continue;
    }
    __syncthreads();
}

// One lane: asks for a chunk of its warp.
static __device__ void fill_slot(Ring &ring, const float *weights, int chunk, Resident kind) {
    CopyBarrier *full = &ring.full[chunk % SLOTS];
    unsigned bytes = sizeof ring.weights[0];
    bool is_last = chunk == CHUNKS - 1;
    const float *from = weights + chunk * WARP;
    copies_expected(full, kind == RESIDENT_FEWER_BYTES && is_last ? bytes + 16 : bytes);
    if (kind == RESIDENT_COPY_PAST_THE_END && is_last) from += 4;
    copy_bulk(ring.weights[chunk % SLOTS], from, bytes, full);
    if (kind == RESIDENT_MORE_BYTES && is_last) copy_bulk(ring.weights[0], from, 16, full);
}

static __device__ void open_ring(Ring &ring, Resident kind) {
    if (threadIdx.x % WARP) return;
    for (int s = 0; s < SLOTS; s++)
        if (kind != RESIDENT_WITHOUT_INIT || s) copy_barrier_init(&ring.full[s]);
    copy_barriers_made();
}

// The chunks' weights of this lane, times x.
static __device__ float multiply_chunks(Ring &ring, const float *weights, float x, Resident kind) {
    unsigned lane = threadIdx.x % WARP;
    float sum = 0.0f;
    for (int c = 0; c < SLOTS && !lane; c++)
        fill_slot(ring, weights, c, kind);
    for (int c = 0; c < CHUNKS; c++) {
        unsigned parity = (unsigned)c / SLOTS % 2;
        if (kind == RESIDENT_WRONG_PARITY) parity ^= 1;
        CopyBarrier *full = &ring.full[c % SLOTS];
        bool waits = kind != RESIDENT_ENDS_EARLY || c < CHUNKS - 1;
        if (waits && kind != RESIDENT_READ_BEFORE_WAIT) wait_for_bulk(full, parity);
        sum += ring.weights[c % SLOTS][lane] * x;
        if (kind == RESIDENT_READ_BEFORE_WAIT) wait_for_bulk(full, parity);
        if (kind != RESIDENT_WITHOUT_SYNCWARP) __syncwarp(); // all lanes have read the slot
        if (!lane && c + SLOTS < CHUNKS) fill_slot(ring, weights, c + SLOTS, kind);
    }
    return sum;
}

// x and parts (BLOCKS, THREADS): each block stores its x, multiplies that of the other by weights
// whose sum is 2, and the first adds up the parts.
static __global__ void resident(float *out, float *x, float *parts, const float *weights,
                                unsigned *counter, Resident kind) {
    Ring &ring = launched_memory<ResidentMemory>().rings[threadIdx.x / WARP];
    unsigned other = gridDim.x - 1 - blockIdx.x;
    open_ring(ring, kind);
    __syncwarp();
    x[blockIdx.x * THREADS + threadIdx.x] = 1.0f;
    if (kind != RESIDENT_WITHOUT_GRID_BARRIER) grid_barrier(counter, 1);
    float sum = multiply_chunks(ring, weights, x[other * THREADS + threadIdx.x], kind);
    parts[blockIdx.x * THREADS + threadIdx.x] = sum;
    grid_barrier(counter, kind == RESIDENT_WITHOUT_GRID_BARRIER ? 1 : 2);
    if (!blockIdx.x) out[threadIdx.x] = parts[threadIdx.x] + parts[THREADS + threadIdx.x];
}

// The rules of launches, without a kernel that does anything.
static __global__ void idle_kernel() {}

template <class... Wanted, class... Given>
static cudaError_t launch_cooperative(cudaStream_t stream, unsigned blocks, size_t memory,
                                      bool cooperative, void (*kernel)(Wanted...),
                                      Given... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = cooperative;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = memory;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(arguments)...);
}

extern "C" int emulator_try_launch(unsigned blocks, size_t most_memory, size_t memory) {
    if (most_memory) {
        cudaError_t error =
            cudaFuncSetAttribute((const void *)idle_kernel,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most_memory);
        if (error != cudaSuccess) return error;
    }
    return launch_cooperative(nullptr, blocks, memory, true, idle_kernel);
}

static void succeed(cudaError_t error) {
    if (error == cudaSuccess) return;
    fprintf(stderr, "broken_resident.cu: %s\n", cudaGetErrorName(error));
    abort();
}

static void *allocate(size_t bytes) {
    void *memory = nullptr;
    succeed(cudaMalloc(&memory, bytes));
    return memory;
}

// Captured into a graph, which runs twice.
extern "C" void emulator_run_resident(Resident kind, float *out) {
    constexpr size_t MEMORY = 64 << 10; // more than a launch has that does not ask
    float host[CHUNKS][WARP];
    for (int c = 0; c < CHUNKS * WARP; c++)
        host[c / WARP][c % WARP] = CHUNK_WEIGHTS[c / WARP];
    float *weights = (float *)allocate(sizeof host), *x = (float *)allocate(512);
    float *parts = (float *)allocate(512), *result = (float *)allocate(256);
    unsigned *counter = (unsigned *)allocate(sizeof *counter);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
    cudaFuncAttributes unused; // asking loads the kernel's code
    succeed(cudaFuncGetAttributes(&unused, (const void *)resident));
    succeed(cudaFuncSetAttribute((const void *)resident,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, MEMORY));
    succeed(cudaMemcpyAsync(weights, host, sizeof host, cudaMemcpyHostToDevice, nullptr));
    succeed(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    succeed(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    succeed(cudaMemsetAsync(counter, 0, sizeof *counter, stream));
    succeed(cudaMemsetAsync(x, 0xff, 512, stream));
    succeed(launch_cooperative(stream, BLOCKS, MEMORY, kind != RESIDENT_NOT_COOPERATIVE, resident,
                               result, x, parts, weights, counter, kind));
    succeed(cudaStreamEndCapture(stream, &graph));
    succeed(cudaGraphInstantiate(&instance, graph, 0));
    succeed(cudaGraphLaunch(instance, stream));
    succeed(cudaGraphLaunch(instance, stream));
    succeed(cudaMemcpyAsync(out, result, 256, cudaMemcpyDeviceToHost, stream));
    succeed(cudaGraphExecDestroy(instance));
    succeed(cudaGraphDestroy(graph));
    succeed(cudaStreamDestroy(stream));
    for (void *memory :
         {(void *)weights, (void *)x, (void *)parts, (void *)result, (void *)counter})
        cudaFree(memory);
}
