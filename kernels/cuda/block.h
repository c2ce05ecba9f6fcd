// What the threads of a block do together, built on machine.h; and bfloat16.
#pragma once

#include <machine.h> // kernels/cuda's, or the emulator's: by the include path

static __device__ __forceinline__ float bf16_value(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// The nearest one, ties to even; a NaN stays one.
static __device__ __forceinline__ uint16_t bf16_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Sum, or largest, over a block of N threads, with `parts` (N / 32 floats of shared memory); every
// thread has it. There is a barrier before and after, so `parts` can be used again at once.
template <int N> static __device__ __forceinline__ float block_sum(float v, float *parts) {
    // First within each warp, then every thread adds the warps' sums in the same order.
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    v = parts[0];
    for (int i = 1; i < N / WARP; i++)
        v += parts[i];
    return v;
}
template <int N> static __device__ __forceinline__ float block_max(float v, float *parts) {
    v = warp_max(v);
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = v;
    __syncthreads();
    v = parts[0];
    for (int i = 1; i < N / WARP; i++)
        v = fmaxf(v, parts[i]);
    return v;
}

// Called by each of `count` blocks after its threads have written their part to global memory.
// Returns true to all threads of the block that calls last: it sees the parts of all blocks, and
// the counter is 0 again.
//
// One thread speaks for the block: the barrier before it orders the writes of all of them before
// its release, and its acquire is before their reads through the barrier behind it. So the fence is
// paid once a block and not twice a warp.
static __device__ __forceinline__ bool arrives_last(unsigned *counter, unsigned count, bool &last) {
    __syncthreads();
    if (!threadIdx.x) {
        last = arrive(counter, 1) == count - 1;
        // No block of this launch counts any more, so the next launch finds 0.
        if (last) *counter = 0;
    }
    __syncthreads();
    return last;
}
