// Kernels that overlap, and blocks that take what others have computed: with one mistake each, and
// without (tests/cuda/test_cuda_emulator.c).
#include "kernels/cuda/block.h"
#include "tests/cuda/emulator.h"

enum { COUNT = 64, BLOCKS = 4 };

// ---- kernels that overlap ----

static __global__ void add_one(float *out, const float *x) {
    wait_for_earlier_kernels();
    out[threadIdx.x] = x[threadIdx.x] + 1.0f;
}

// out = weights x. Weights are stored by no kernel, x is the output of an earlier one.
static __global__ void early_load(float *out, const float *x, const float *weights) {
    float weight = weights[threadIdx.x], value = x[threadIdx.x];
    wait_for_earlier_kernels();
    out[threadIdx.x] = weight * value;
}
static __global__ void late_load(float *out, const float *x, const float *weights) {
    float weight = weights[threadIdx.x];
    wait_for_earlier_kernels();
    out[threadIdx.x] = weight * x[threadIdx.x];
}

// The kernel before it may still load x.
static __global__ void early_store(float *x) {
    x[threadIdx.x] = 0.0f;
    wait_for_earlier_kernels();
}

// The copy may begin at once, although it is waited for late.
struct CopyMemory {
    alignas(16) float x[COUNT];
    CopyBarrier full;
};
static __global__ void early_copy(float *out, const float *x) {
    CopyMemory &memory = block_memory<CopyMemory>();
    if (threadIdx.x < COUNT / 4) copy_async(memory.x + 4 * threadIdx.x, x + 4 * threadIdx.x, true);
    wait_for_earlier_kernels();
    wait_for_copies();
    __syncthreads();
    out[threadIdx.x] = memory.x[threadIdx.x];
}

static __global__ void early_bulk_copy(float *out, const float *x) {
    CopyMemory &memory = block_memory<CopyMemory>();
    if (!threadIdx.x) {
        copy_barrier_init(&memory.full);
        copy_barriers_made();
        copies_expected(&memory.full, sizeof memory.x);
        copy_bulk(memory.x, x, sizeof memory.x, &memory.full);
    }
    __syncthreads();
    wait_for_earlier_kernels();
    wait_for_bulk(&memory.full, 0);
    out[threadIdx.x] = memory.x[threadIdx.x];
}

static __global__ void early_tell(uint64_t *host) {
    store_for_host(host, 1);
    wait_for_earlier_kernels();
}

static __global__ void without_wait() {}

// The next kernel may start before this one has waited for the one before it.
static __global__ void pass_on(float *unused) {
    let_next_kernel_start();
    wait_for_earlier_kernels();
    unused[threadIdx.x] = 0.0f;
}

template <class... Wanted, class... Given>
static void overlap(void (*kernel)(Wanted...), Given... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(COUNT);
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(arguments)...);
}

static float *new_floats(float value) {
    float host[COUNT * BLOCKS], *memory = nullptr;
    for (float &h : host)
        h = value;
    if (cudaMalloc((void **)&memory, sizeof host) != cudaSuccess) abort();
    cudaMemcpyAsync(memory, host, sizeof host, cudaMemcpyHostToDevice, nullptr);
    return memory;
}

static void tell_the_host() {
    uint64_t *host = nullptr;
    if (cudaMallocHost((void **)&host, sizeof *host) != cudaSuccess) abort();
    overlap(early_tell, host);
    cudaFreeHost(host);
}

static void run_overlapping(Meeting kind, float *x, float *more, float *out) {
    float *weights = new_floats(2.0f);
    overlap(add_one, more, x);
    switch (kind) {
    case MEET_LOAD_BEFORE_WAIT_IN_CHAIN: overlap(pass_on, out); [[fallthrough]];
    case MEET_LOAD_BEFORE_WAIT: overlap(early_load, out, more, weights); break;
    case MEET_STORE_BEFORE_WAIT: overlap(early_store, x); break;
    case MEET_COPY_BEFORE_WAIT: overlap(early_copy, out, more); break;
    case MEET_BULK_COPY_BEFORE_WAIT: overlap(early_bulk_copy, out, more); break;
    case MEET_TELL_BEFORE_WAIT: tell_the_host(); break;
    case MEET_WITHOUT_WAIT: overlap(without_wait); break;
    default: break;
    }
    overlap(late_load, out, more, weights);
    cudaFree(weights);
}

// ---- blocks that meet ----

struct MeetMemory {
    bool last;
};

// Each of the blocks stores 1 for every thread; whichever takes itself for the last adds them up.
static __global__ void meet(float *out, float *parts, unsigned *counter, Meeting kind) {
    MeetMemory &memory = block_memory<MeetMemory>();
    parts[blockIdx.x * COUNT + threadIdx.x] = 1.0f;
    switch (kind) {
    case MEET_WITHOUT_COUNTER:
        if (!threadIdx.x) memory.last = blockIdx.x == gridDim.x - 1;
        break;
    case MEET_EARLY_COUNT: // there is no barrier between the stores and the count
        if (!threadIdx.x) memory.last = atomicAdd(counter, 1u) == gridDim.x - 1;
        break;
    default: arrives_last(counter, gridDim.x, memory.last);
    }
    __syncthreads();
    if (!memory.last) return;
    float sum = 0.0f;
    for (unsigned b = 0; b < gridDim.x; b++)
        sum += parts[b * COUNT + COUNT - 1 - threadIdx.x];
    out[threadIdx.x] = sum;
}

static void run_blocks(Meeting kind, float *parts, float *out) {
    unsigned *counter = nullptr;
    if (cudaMalloc((void **)&counter, sizeof *counter) != cudaSuccess) abort();
    cudaMemsetAsync(counter, 0, sizeof *counter, nullptr);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(BLOCKS);
    config.blockDim = dim3(COUNT);
    cudaLaunchKernelEx(&config, meet, out, parts, counter, kind);
    cudaFree(counter);
}

extern "C" void emulator_run_meeting(Meeting kind, float *out) {
    float *x = new_floats(1.0f), *more = new_floats(NAN), *result = new_floats(NAN);
    if (kind < MEET_WITHOUT_COUNTER)
        run_overlapping(kind, x, more, result);
    else
        run_blocks(kind, more, result);
    cudaMemcpyAsync(out, result, COUNT * sizeof *out, cudaMemcpyDeviceToHost, nullptr);
    for (float *memory : {x, more, result})
        cudaFree(memory);
}
