// Kernels that are wrong on purpose, one for each thing that check_sass.py looks for, and a good
// one. test_check_sass.py compiles them for sm_90; nothing else does.
#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ void wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
static __device__ __forceinline__ int4 load(const int4 *p) {
    int4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
static __device__ __forceinline__ float bf16(unsigned bits) {
    return __uint_as_float(bits << 16);
}

// LOADS vectors of BF16 asked for before the first is used, times x.
template <int LOADS>
static __device__ __forceinline__ float dot(const int4 *w, const float *x, int count) {
    float sum = 0.0f;
#pragma unroll 1
    for (int i = threadIdx.x; i < count; i += LOADS * 32) {
        int4 v[LOADS];
#pragma unroll
        for (int k = 0; k < LOADS; k++)
            v[k] = load(w + i + k * 32);
#pragma unroll
        for (int k = 0; k < LOADS; k++)
            sum = fmaf(bf16(v[k].x ^ v[k].y), x[k], fmaf(bf16(v[k].z ^ v[k].w), x[k + 1], sum));
    }
    return sum;
}

extern "C" __global__ void good(float *out, const int4 *w, const float *x, int count) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(w + threadIdx.x));
    wait();
    out[threadIdx.x] = dot<4>(w, x, count);
}

extern "C" __global__ void one_load(float *out, const int4 *w, const float *x, int count) {
    wait();
    out[threadIdx.x] = dot<1>(w, x, count);
}

// What an earlier kernel writes is read before the wait; on one of two ways only.
extern "C" __global__ void early_read(float *out, const int4 *w, const volatile float *x,
                                      int count) {
    float first = 0.0f;
    if (count > 7) first = x[threadIdx.x];
    wait();
    out[threadIdx.x] = first;
}

extern "C" __global__ void early_store(float *out, const int4 *w, const float *x, int count) {
    out[threadIdx.x] = 0.0f;
    wait();
}

// Weights, which no kernel writes: allowed where the table says so. Without a use before the wait,
// ptxas moves the load behind it.
extern "C" __global__ void early_weights(float *out, const int4 *w, const float *x, int count) {
    int4 v = load(w + threadIdx.x);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(w + (v.x ^ v.y ^ v.z ^ v.w)));
    wait();
    out[threadIdx.x] = bf16(v.x) * x[0];
}

extern "C" __global__ void no_wait(float *out, const int4 *w, const float *x, int count) {
    out[threadIdx.x] = dot<4>(w, x, count);
}

// The last of the blocks adds up what all have stored: with the counter of machine.h, and with one
// that orders nothing.
template <bool FENCED>
static __device__ __forceinline__ void meet(float *out, unsigned *counter, const float *x) {
    __shared__ bool last;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (!threadIdx.x) {
        unsigned before;
        if (FENCED)
            asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                         : "=r"(before)
                         : "l"(counter)
                         : "memory");
        else
            before = atomicAdd(counter, 1u);
        last = before == gridDim.x - 1;
    }
    __syncthreads();
    if (last) out[threadIdx.x] += out[blockDim.x + threadIdx.x];
}
extern "C" __global__ void fenced(float *out, const int4 *w, const float *x, int count) {
    wait();
    meet<true>(out, (unsigned *)w, x);
}
extern "C" __global__ void unfenced(float *out, const int4 *w, const float *x, int count) {
    wait();
    meet<false>(out, (unsigned *)w, x);
}

// The compiler is told that nothing writes to x.
extern "C" __global__ void incoherent(float *out, const int4 *w, const float *__restrict__ x,
                                      int count) {
    wait();
    out[threadIdx.x] = x[threadIdx.x] + x[count];
}

// 2048 threads a processor leave 32 registers, and 64 sums are alive at once.
extern "C" __global__ void __launch_bounds__(1024, 2)
    spills(float *out, const int4 *w, const float *x, int count) {
    wait();
    float sums[64];
#pragma unroll
    for (int k = 0; k < 64; k++)
        sums[k] = x[k];
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        float v = x[i + threadIdx.x];
#pragma unroll
        for (int k = 0; k < 64; k++)
            sums[k] = fmaf(sums[k], v, sums[(k + 1) % 64]);
    }
#pragma unroll
    for (int k = 0; k < 64; k++)
        out[k * 1024 + threadIdx.x] = sums[k];
}
