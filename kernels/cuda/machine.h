// What a kernel can ask of the GPU beyond plain C++, each behind a small inline function. Below
// `#else` stand the plain twins of what no CPU has, for tests/cuda/cuda_runtime.h: the only place
// in this folder that knows of it.
#pragma once

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { WARP = 32 };
#define ALL_LANES 0xffffffffu

#ifdef __CUDACC__
#include <cuda_fp16.h>
#include <dlfcn.h>

#define DEVICE_FUNCTION __host__ __device__

// Before a loop whose index names registers. For nvcc alone: clang would obey it too, at length.
#define UNROLL _Pragma("unroll")

// The block's shared memory: a kernel has one struct of it.
template <class T> static __device__ __forceinline__ T &block_memory() {
    __shared__ T memory;
    return memory;
}

// sum + a.x b.x + a.y b.y + a.z b.z + a.w b.w of four signed bytes each.
static __device__ __forceinline__ int dot4(int a, int b, int sum) {
    return __dp4a(a, b, sum);
}

static __device__ __forceinline__ float half_value(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}
static __device__ __forceinline__ uint16_t half_bits(float f) {
    return __half_as_ushort(__float2half_rn(f));
}

// Programmatic dependent launch: from here on what earlier kernels wrote is seen, and the next
// kernel may start its prologue.
static __device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
static __device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Asks for the line of `p` before it is needed.
static __device__ __forceinline__ void prefetch(const void *p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

// 16 bytes that nobody reads twice: past the first cache.
static __device__ __forceinline__ int4 load_stream(const void *p) {
    int4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// d += a b of one warp on the tensor cores: a 16 by 16, b 16 by 8 halves, d 16 by 8 floats, two
// neighbours to a word. Lane l, with i = l / 4 and j = l % 4 * 2, holds
//   a[0] a(i, j ..)   a[1] a(i + 8, j ..)   a[2] a(i, j + 8 ..)   a[3] a(i + 8, j + 8 ..)
//   b0   b(j .., i)   b1   b(j + 8 .., i)   d[0], d[1] d(i, j ..)  d[2], d[3] d(i + 8, j ..)
static __device__ __forceinline__ void multiply_halves(float (&d)[4], const unsigned (&a)[4],
                                                       unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A library that is opened by hand, its functions by name. It is never unmapped: what has
// registered kernels with the driver is not meant to leave.
static inline void *library_open(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}
static inline void *library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}
static inline void library_close(void *library) {
    dlclose(library);
}

#else

extern "C" {
#define DEVICE_FUNCTION
#define UNROLL
#include "weights/quant.h"
}

template <class T> static inline T &block_memory() {
    return *(T *)emulator::block_memory(sizeof(T));
}

static inline int dot4(int a, int b, int sum) {
    for (int i = 0; i < 32; i += 8)
        sum += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
    return sum;
}

static inline float half_value(uint16_t h) {
    return half_to_float(h);
}
static inline uint16_t half_bits(float f) {
    return float_to_half(f);
}

static inline void wait_for_earlier_kernels() {}
static inline void let_next_kernel_start() {}
static inline void prefetch(const void *) {}
static inline int4 load_stream(const void *p) {
    return *(const int4 *)p;
}

// Every lane shows the others its twelve numbers: where which of them lies is drawn above.
static inline void multiply_halves(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                   unsigned b1) {
    const unsigned words[6] = {a[0], a[1], a[2], a[3], b0, b1};
    float mine[12];
    for (int w = 0; w < 6; w++) {
        mine[2 * w] = half_value((uint16_t)words[w]);
        mine[2 * w + 1] = half_value((uint16_t)(words[w] >> 16));
    }
    const uint64_t *lanes = emulator::exchange_all((uintptr_t)mine, "multiply_halves");
    int i = (int)emulator::lane() / 4, j = (int)emulator::lane() % 4 * 2;
    for (int e = 0; e < 4; e++) {
        for (int k = 0; k < 16; k++) {
            const float *left = (const float *)lanes[i * 4 + k % 8 / 2];
            const float *right = (const float *)lanes[(j + e % 2) * 4 + k % 8 / 2];
            d[e] =
                fmaf(left[2 * (e / 2 + 2 * (k / 8)) + k % 2], right[8 + 2 * (k / 8) + k % 2], d[e]);
        }
    }
    emulator::sync_warp("multiply_halves");
}

static inline void *library_open(const char *path) {
    return emulator::library_open(path);
}
static inline void *library_symbol(void *library, const char *name) {
    return emulator::library_symbol(library, name);
}
static inline void library_close(void *library) {
    emulator::library_close(library);
}

#endif

// ---- the same on both ----

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

// Sum, or largest, over the 32 lanes of a warp; every lane has it. The order is fixed: butterflies.
// (The emulator makes the same tree out of one exchange: changing fibers is what its time goes to.)
static __device__ __forceinline__ float warp_sum(float v) {
#ifdef __CUDACC__
    for (int bits = WARP / 2; bits; bits /= 2)
        v += __shfl_xor_sync(ALL_LANES, v, bits);
    return v;
#else
    return emulator::tree(v, [](float a, float b) { return a + b; });
#endif
}
static __device__ __forceinline__ float warp_max(float v) {
#ifdef __CUDACC__
    for (int bits = WARP / 2; bits; bits /= 2)
        v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, bits));
    return v;
#else
    return emulator::tree(v, [](float a, float b) { return fmaxf(a, b); });
#endif
}
static __device__ __forceinline__ uint64_t warp_largest(uint64_t v) {
#ifdef __CUDACC__
    unsigned high = __reduce_max_sync(ALL_LANES, (unsigned)(v >> 32));
    unsigned low = __reduce_max_sync(ALL_LANES, v >> 32 == high ? (unsigned)v : 0u);
    return (uint64_t)high << 32 | low;
#else
    return emulator::tree(v, [](uint64_t a, uint64_t b) { return b > a ? b : a; });
#endif
}

// The same over a block of N threads, with `parts` (N / 32 floats of shared memory); every thread
// has it. A barrier stands before and after, so `parts` can be used again at once.
template <int N> static __device__ __forceinline__ float block_sum(float v, float *parts) {
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

// One of `count` blocks says that its part, which its threads wrote to global memory, is done.
// True, for all of its threads, in the last one to say so; that one sees the parts of all, and the
// counter is 0 again.
static __device__ __forceinline__ bool arrives_last(unsigned *counter, unsigned count, bool &last) {
    __threadfence();
    __syncthreads();
    if (!threadIdx.x) {
        last = atomicAdd(counter, 1u) == count - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}
