// Products of stored weights and activations: what a thread does with one load.
#pragma once

#include "kernels/cuda/project/project.h"

// The digits of a group of 32, 16 bytes at a time (swizzle_digit says which half is first).
static __device__ __forceinline__ void load_digits(int (&words)[8], const int8_t *digits,
                                                   size_t group) {
    const int8_t *p = digits + group * CHUNK;
    size_t first = swizzle_digit(group * CHUNK) % CHUNK;
    int4 a = *(const int4 *)(p + first), b = *(const int4 *)(p + (first ^ 16));
    words[0] = a.x, words[1] = a.y, words[2] = a.z, words[3] = a.w;
    words[4] = b.x, words[5] = b.y, words[6] = b.z, words[7] = b.w;
}

// acc += chunk . x, as precision.h says it for DIGITS 1 (a8) and 2 (a16).
template <DType D, int DIGITS>
static __device__ __forceinline__ float dot_chunk(float acc, const Chunk<D> &w,
                                                  const QuantisedRows &x, size_t group) {
    constexpr Layout L = layout_of(D);
    int low[8], high[8];
    load_digits(low, x.low, group);
    if (DIGITS == 2) load_digits(high, x.high, group);
    float d = x.scales[group];
    int2 sums = x.sums[group];
    int isum[2] = {0, 0};
    UNROLL
    for (int half = 0; half < 2; half++) {
        int below = 0, above = 0;
        UNROLL
        for (int i = 4 * half; i < 4 * half + 4; i++) {
            below = dot4(w.q[i], low[i], below);
            if (DIGITS == 2) above = dot4(w.q[i], high[i], above);
        }
        // z = 256 high + low; subtracting centre * sum z is the same as centring each element.
        isum[half] = below + 256 * above - L.centre * (half ? sums.y : sums.x);
    }
    // One scale for both halves: their integers are added before they are rounded.
    if (L.groups == 1) {
        acc = fmaf((float)(isum[0] + isum[1]), w.s[0] * d, acc);
        if (L.affine) acc = fmaf(w.m[0], d * (float)(sums.x + sums.y), acc);
        return acc;
    }
    acc = fmaf((float)isum[0], w.s[0] * d, acc);
    if (L.affine) acc = fmaf(w.m[0], d * (float)sums.x, acc);
    acc = fmaf((float)isum[1], w.s[1] * d, acc);
    if (L.affine) acc = fmaf(w.m[1], d * (float)sums.y, acc);
    return acc;
}

// An outlier and its weight. The weight's load is issued before those of the row's chunks, which
// hide its latency. Lane l has an outlier of row l / OUTLIERS of x; lanes beyond the last row load
// what lane 0 loads.
struct OutlierProduct {
    Outlier outlier;
    StoredElement weight;
};

// No branch around the load: all lanes issue it together.
static __device__ __forceinline__ Outlier own_outlier(const Outlier *outliers, int n) {
    unsigned lane = threadIdx.x % WARP;
    return outliers[lane < (unsigned)(n * OUTLIERS) ? lane : 0];
}

template <DType D>
static __device__ __forceinline__ OutlierProduct load_outlier(const Planes &w, size_t row,
                                                              const Outlier *outliers, int n) {
    OutlierProduct met;
    met.outlier = own_outlier(outliers, n);
    met.weight = load_element<D>(w, row, met.outlier.column);
    return met;
}

// Lane o adds the product of outlier o last to acc[row of x], whichever lane loaded it, so that the
// order of the sum is the same for few rows and for many.
template <DType D, int N>
static __device__ __forceinline__ void add_outlier(float (&acc)[N], const OutlierProduct &met,
                                                   int n) {
    static_assert(N * OUTLIERS <= WARP, "a lane for each");
    unsigned lane = threadIdx.x % WARP;
    ElementValue e = value_of<D>(met.weight, met.outlier.column);
    float product = fmaf(e.q, e.s, e.m) * met.outlier.x; // m first: it may cancel q s
    UNROLL
    for (int i = 0; i < N; i++) {
        if (i >= n) continue;
        float term =
            N == 1 ? product : __shfl_sync(ALL_LANES, product, i * OUTLIERS + lane % OUTLIERS);
        acc[i] += lane < OUTLIERS ? term : 0.0f;
    }
}

// DIGITS 0 (f32): the elements themselves against float32; x(i): elements 4 i .. 4 i + 3.
template <DType D, class Quads>
static __device__ __forceinline__ float dot_chunk_floats(float acc, const Chunk<D> &w,
                                                         const Quads &x) {
    constexpr Layout L = layout_of(D);
    UNROLL
    for (int i = 0; i < 8; i++) {
        float s = w.s[L.groups == 2 ? i / 4 : 0];
        const float4 quad = x(i);
        const float four[4] = {quad.x, quad.y, quad.z, quad.w};
        UNROLL
        for (int b = 0; b < 4; b++) {
            int q = L.low_bits == 8 ? (int)(int8_t)(w.q[i] >> (8 * b)) : w.q[i] >> (8 * b) & 0xff;
            float element = (float)(q - L.centre) * s;
            if (L.affine) element += w.m[L.groups == 2 ? i / 4 : 0];
            acc = fmaf(element, four[b], acc);
        }
    }
    return acc;
}

static inline bool whole_loads(const Planes &w, const float *x) {
    return w.cols % FLOAT_LOAD == 0 && is_aligned(x);
}

// Eight elements of one row as they are stored, from `col` on: loaded, not yet decoded.
//    16-bit types: one int4, two elements to a word, the lower half first
//    float32:      two int4, four elements each
template <DType D> struct Eight { int4 bits[D == DTYPE_F32 ? 2 : 1]; };
template <DType D, class Load = Streamed>
static __device__ __forceinline__ Eight<D> load_eight(const Planes &planes, size_t row,
                                                      size_t col) {
    const size_t size = D == DTYPE_F32 ? 4 : 2;
    const uint8_t *p = planes.low + (row * planes.stride + col) * size;
    Eight<D> w;
    w.bits[0] = Load::load(p);
    if constexpr (D == DTYPE_F32) w.bits[1] = Load::load(p + 16);
    return w;
}

template <DType D> static __device__ __forceinline__ float element_of(const Eight<D> &w, int i) {
    const int4 &bits = w.bits[D == DTYPE_F32 ? i / 4 : 0];
    const int words[4] = {bits.x, bits.y, bits.z, bits.w};
    unsigned word = (unsigned)words[D == DTYPE_F32 ? i % 4 : i / 2];
    uint16_t half = (uint16_t)(i % 2 ? word >> 16 : word & 0xffff);
    float element = 0.0f;
    if (D == DTYPE_F32) memcpy(&element, &word, sizeof element);
    if (D == DTYPE_F16) element = half_value(half);
    if (D == DTYPE_BF16) element = bf16_value(half);
    return element;
}

// acc += w . x, in their order.
template <DType D>
static __device__ __forceinline__ float dot_eight(float acc, const Eight<D> &w, const float4 &low,
                                                  const float4 &high) {
    const float x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    UNROLL
    for (int i = 0; i < 8; i++)
        acc = fmaf(element_of<D>(w, i), x[i], acc);
    return acc;
}

// LOAD elements of one row, eight or one, from `col` on.
template <DType D, int LOAD>
static __device__ __forceinline__ void load_elements(float (&w)[LOAD], const Planes &planes,
                                                     size_t row, size_t col) {
    if constexpr (LOAD == FLOAT_LOAD) {
        Eight<D> eight = load_eight<D>(planes, row, col);
        UNROLL
        for (int i = 0; i < LOAD; i++)
            w[i] = element_of<D>(eight, i);
    } else {
        const size_t size = D == DTYPE_F32 ? 4 : 2;
        const uint8_t *p = planes.low + (row * planes.stride + col) * size;
        if (D == DTYPE_F32) w[0] = *(const float *)p;
        if (D == DTYPE_F16) w[0] = half_value(load_u16(p));
        if (D == DTYPE_BF16) w[0] = bf16_value(load_u16(p));
    }
}
