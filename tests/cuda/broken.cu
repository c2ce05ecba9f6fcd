// Kernels with one mistake each, to see that the emulator finds it
// (tests/cuda/test_cuda_emulator.c).
#include "kernels/cuda/block.h"
#include "tests/cuda/emulator.h"

struct Memory {
    float numbers[64];
};

static __global__ void divergent_barrier() {
    if (threadIdx.x < 40)
        __syncthreads();
    else
        (void)__shfl_xor_sync(ALL_LANES, 1.0f, 1);
}

static __global__ void shuffle_with_absent_lanes(float *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(ALL_LANES, 1.0f, 1);
}

static __global__ void unset_shared_memory(float *out) {
    out[threadIdx.x] = block_memory<Memory>().numbers[threadIdx.x];
}

// Each thread reads what its neighbour wrote, without a barrier between.
static __global__ void missing_barrier(float *out) {
    Memory &memory = block_memory<Memory>();
    memory.numbers[threadIdx.x] = (float)threadIdx.x;
    out[threadIdx.x] = memory.numbers[63 - threadIdx.x];
}

static __global__ void past_the_end(float *out) {
    out[threadIdx.x + 1] = 0.0f;
}

static __global__ void past_the_end_of_shared(float *out) {
    Memory &memory = block_memory<Memory>();
    volatile float *p = memory.numbers;
    p[threadIdx.x + 1] = 0.0f;
    out[threadIdx.x] = 0.0f;
}

static void run(void (*kernel)(float *), float *out, unsigned threads) {
    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(threads);
    cudaLaunchKernelEx(&config, kernel, out);
}

extern "C" void emulator_run_broken(BrokenKernel kind, float *out) {
    cudaLaunchConfig_t config = {};
    config.blockDim = dim3(64);
    switch (kind) {
    case BROKEN_DIVERGENT_BARRIER: cudaLaunchKernelEx(&config, divergent_barrier); break;
    case BROKEN_ABSENT_LANES: run(shuffle_with_absent_lanes, out, 64); break;
    case BROKEN_UNSET_SHARED: run(unset_shared_memory, out, 64); break;
    case BROKEN_MISSING_BARRIER: run(missing_barrier, out, 64); break;
    case BROKEN_PAST_THE_END: run(past_the_end, out, 64); break;
    case BROKEN_PAST_SHARED: run(past_the_end_of_shared, out, 64); break;
    }
}
