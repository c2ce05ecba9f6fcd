// A matrix on the GPU: planes, so that every load of a thread is 16 bytes of one row and the loads
// of a warp lie side by side.
//
// Float types: rows padded with zeros to a multiple of 16 bytes.
//
// Quantised types are cut into chunks of 32 columns. One thread takes a whole chunk:
//
//     low      (rows, chunks, 16 or 32)  nibbles: byte j holds element j below, j + 16 above; or
//     bytes high     (rows, chunks, 4 or 8)    the bits above the nibbles:
//                fifth bit      bit 8 b + w of the word:      element 4 w + b, w < 8
//                two more bits  bits 8 b + 2 w of word 0:     element 4 w + b, w < 4; word 1: 16 on
//     scales   (rows, chunks, 2 or 4)    d, or d and m: halves;   K-quants: sc [2] and sm [2],
//     bytes supers   (rows, blocks of 8, 2|4)  K-quants: d, or d and dmin: halves
//
// so that a mask, or a shift and a mask, make four signed bytes for dot4. Elements are stored
// uncentred, bytes signed. Q2_K and Q3_K take nibbles for their two or three bits; Q8_GROUP has
// float scales, one per chunk, and where its groups do not fill chunks it becomes F32.
#pragma once

#include "kernels/cuda/device.h"

#include <type_traits>

struct Layout {
    int low_bits;  // 4, 8; 0: a float type
    int high_bits; // 0, 1, 2
    int groups;    // scale groups per chunk: 1 or 2
    int centre;    // element = stored - centre
    bool affine;   // element * s + m
    bool k;        // scales are multiples of the block's d and dmin
    bool floats;   // scales are float32
};

// A function and not a table, so that a kernel for one type is compiled with its numbers.
DEVICE_FUNCTION constexpr Layout layout_of(DType dtype) {
    switch (dtype) { // low, high, groups, centre, affine, k, floats
    case DTYPE_Q4_0: return Layout{4, 0, 1, 8, false, false, false};
    case DTYPE_Q4_1: return Layout{4, 0, 1, 0, true, false, false};
    case DTYPE_Q5_0: return Layout{4, 1, 1, 16, false, false, false};
    case DTYPE_Q5_1: return Layout{4, 1, 1, 0, true, false, false};
    case DTYPE_Q8_0: return Layout{8, 0, 1, 0, false, false, false};
    case DTYPE_Q8_GROUP: return Layout{8, 0, 1, 0, false, false, true};
    case DTYPE_Q2_K: return Layout{4, 0, 2, 0, true, true, false};
    case DTYPE_Q3_K: return Layout{4, 0, 2, 4, false, true, false};
    case DTYPE_Q4_K: return Layout{4, 0, 1, 0, true, true, false};
    case DTYPE_Q5_K: return Layout{4, 1, 1, 0, true, true, false};
    case DTYPE_Q6_K: return Layout{4, 2, 2, 32, false, true, false};
    default: return Layout{0, 0, 0, 0, false, false, false};
    }
}
DEVICE_FUNCTION constexpr int low_bytes(Layout l) {
    return 4 * l.low_bits;
}
DEVICE_FUNCTION constexpr int high_bytes(Layout l) {
    return 4 * l.high_bits;
}
DEVICE_FUNCTION constexpr int scale_bytes(Layout l) {
    if (l.k) return l.affine && l.groups == 2 ? 4 : 2;
    return l.affine || l.floats ? 4 : 2;
}
DEVICE_FUNCTION constexpr int super_bytes(Layout l) {
    if (!l.k) return 0;
    return l.affine ? 4 : 2;
}

DEVICE_FUNCTION constexpr bool is_quantised(DType dtype) {
    return layout_of(dtype).low_bits != 0;
}

enum { CHUNK = 32, SUPER_CHUNKS = 8 };

// What a kernel is given; all pointers are device memory.
struct Planes {
    DType dtype;
    size_t rows, cols;
    size_t stride;    // float types: elements from row to row
    size_t row_bytes; // of the low plane
    const uint8_t *low, *high, *scales, *supers;
};

struct DeviceMatrix {
    Planes planes;
    uint8_t *memory; // owned: all planes
    size_t bytes;
};

// What cuBLASLt likes a row's length to be, and a row of halves in planes has.
static inline size_t whole_eights(size_t cols) {
    return (cols + 7) / 8 * 8;
}

// Whether the planes are what project_blas.cu multiplies; else it unpacks them for every use.
static inline bool is_blas_operand(const Device *device, DType dtype) {
    if (dtype == DTYPE_F32) return device->precision != PRECISION_A8;
    return dtype == DTYPE_BF16 && device->precision != PRECISION_F32;
}

// ---- reading ----

// 32 elements of a row, uncentred, four to a word, and their scales.
template <DType D> struct Chunk {
    int q[8];
    float s[2], m[2];
};

static __device__ __forceinline__ uint16_t load_u16(const uint8_t *p) {
    return *(const uint16_t *)p;
}

template <DType D>
static __device__ __forceinline__ void load_scales(Chunk<D> &c, const Planes &w, size_t at,
                                                   size_t block) {
    constexpr Layout L = layout_of(D);
    const uint8_t *scales = w.scales + at * scale_bytes(L);
    if (L.floats) {
        c.s[0] = *(const float *)scales;
        return;
    }
    if (!L.k) {
        c.s[0] = half_value(load_u16(scales));
        if (L.affine) c.m[0] = half_value(load_u16(scales + 2));
        return;
    }
    const uint8_t *super = w.supers + block * super_bytes(L);
    float d = half_value(load_u16(super));
    for (int g = 0; g < L.groups; g++)
        c.s[g] = d * (float)(int8_t)scales[g];
    if (!L.affine) return;
    float dmin = half_value(load_u16(super + 2));
    for (int g = 0; g < L.groups; g++)
        c.m[g] = -(dmin * (float)scales[L.groups + g]);
}

// Chunk `chunk` of row `row`; a row has `chunks`.
template <DType D>
static __device__ __forceinline__ Chunk<D> load_chunk(const Planes &w, size_t row, size_t chunk,
                                                      size_t chunks) {
    constexpr Layout L = layout_of(D);
    Chunk<D> c;
    size_t at = row * chunks + chunk;
    int4 a = load_stream(w.low + at * low_bytes(L));
    if (L.low_bits == 8) {
        int4 b = load_stream(w.low + at * low_bytes(L) + 16);
        c.q[0] = a.x, c.q[1] = a.y, c.q[2] = a.z, c.q[3] = a.w;
        c.q[4] = b.x, c.q[5] = b.y, c.q[6] = b.z, c.q[7] = b.w;
    } else {
        const int low[4] = {a.x, a.y, a.z, a.w};
        for (int i = 0; i < 4; i++) {
            c.q[i] = low[i] & 0x0f0f0f0f;
            c.q[4 + i] = (int)((unsigned)low[i] >> 4) & 0x0f0f0f0f;
        }
    }
    const unsigned *high = (const unsigned *)(w.high + at * high_bytes(L));
    for (int i = 0; L.high_bits == 1 && i < 8; i++)
        c.q[i] |= (int)(high[0] >> i & 0x01010101u) << 4;
    for (int i = 0; L.high_bits == 2 && i < 8; i++)
        c.q[i] |= (int)(high[i / 4] >> (i % 4 * 2) & 0x03030303u) << 4;
    size_t blocks = (chunks + SUPER_CHUNKS - 1) / SUPER_CHUNKS;
    load_scales<D>(c, w, at, row * blocks + chunk / SUPER_CHUNKS);
    return c;
}

// One element: q s, or q s + m.
struct ChunkElement {
    float q, s, m;
};
template <DType D>
static __device__ __forceinline__ ChunkElement element_in_chunk(const Planes &w, size_t row,
                                                                size_t col) {
    constexpr Layout L = layout_of(D);
    size_t chunks = w.cols / CHUNK, at = row * chunks + col / CHUNK, j = col % CHUNK;
    int q;
    if (L.low_bits == 8)
        q = (int8_t)w.low[at * low_bytes(L) + j];
    else
        q = w.low[at * low_bytes(L) + j % 16] >> (j / 16 * 4) & 15;
    const unsigned *high = (const unsigned *)(w.high + at * high_bytes(L));
    if (L.high_bits == 1) q |= (int)(high[0] >> (j % 4 * 8 + j / 4) & 1) << 4;
    if (L.high_bits == 2) q |= (int)(high[j / 16] >> (j % 4 * 8 + j % 16 / 4 * 2) & 3) << 4;
    Chunk<D> c; // its scales alone
    load_scales<D>(c, w, at,
                   row * ((chunks + SUPER_CHUNKS - 1) / SUPER_CHUNKS) + at % chunks / SUPER_CHUNKS);
    bool second = L.groups == 2 && j >= 16;
    return ChunkElement{(float)(q - L.centre), second ? c.s[1] : c.s[0],
                        !L.affine ? 0.0f
                        : second  ? c.m[1]
                                  : c.m[0]};
}

// The same in float32, for embed, which reads few.
template <DType D>
static __device__ __forceinline__ float chunk_element(const Planes &w, size_t row, size_t col) {
    ChunkElement e = element_in_chunk<D>(w, row, col);
    float x = e.q * e.s;
    return layout_of(D).affine ? x + e.m : x;
}

// f(type) with the type as a constant: one branch, then code for that type alone.
template <DType D> using TypeConstant = std::integral_constant<DType, D>;
template <class F> static __device__ __forceinline__ void with_type(DType dtype, F f) {
    switch (dtype) {
    case DTYPE_F32: return f(TypeConstant<DTYPE_F32>());
    case DTYPE_F16: return f(TypeConstant<DTYPE_F16>());
    case DTYPE_BF16: return f(TypeConstant<DTYPE_BF16>());
    case DTYPE_Q4_0: return f(TypeConstant<DTYPE_Q4_0>());
    case DTYPE_Q4_1: return f(TypeConstant<DTYPE_Q4_1>());
    case DTYPE_Q5_0: return f(TypeConstant<DTYPE_Q5_0>());
    case DTYPE_Q5_1: return f(TypeConstant<DTYPE_Q5_1>());
    case DTYPE_Q8_0: return f(TypeConstant<DTYPE_Q8_0>());
    case DTYPE_Q8_GROUP: return f(TypeConstant<DTYPE_Q8_GROUP>());
    case DTYPE_Q2_K: return f(TypeConstant<DTYPE_Q2_K>());
    case DTYPE_Q3_K: return f(TypeConstant<DTYPE_Q3_K>());
    case DTYPE_Q4_K: return f(TypeConstant<DTYPE_Q4_K>());
    case DTYPE_Q5_K: return f(TypeConstant<DTYPE_Q5_K>());
    case DTYPE_Q6_K: return f(TypeConstant<DTYPE_Q6_K>());
    case DTYPE_COUNT: return;
    }
}

static __device__ __forceinline__ float plane_element(const Planes &w, size_t row, size_t col) {
    size_t at = row * w.stride + col;
    float element = 0.0f;
    with_type(w.dtype, [&](auto type) {
        if constexpr (type.value == DTYPE_F32)
            element = ((const float *)w.low)[at];
        else if constexpr (type.value == DTYPE_F16)
            element = half_value(((const uint16_t *)w.low)[at]);
        else if constexpr (type.value == DTYPE_BF16)
            element = bf16_value(((const uint16_t *)w.low)[at]);
        else
            element = chunk_element<type.value>(w, row, col);
    });
    return element;
}

// {f<DTYPE_F32>, ..}, in the order of DType: what a type of weights is looked up in.
#define OF_EVERY_DTYPE(f)                                                                          \
    {                                                                                              \
        f<DTYPE_F32>, f<DTYPE_F16>, f<DTYPE_BF16>, f<DTYPE_Q4_0>, f<DTYPE_Q4_1>, f<DTYPE_Q5_0>,    \
            f<DTYPE_Q5_1>, f<DTYPE_Q8_0>, f<DTYPE_Q2_K>, f<DTYPE_Q3_K>, f<DTYPE_Q4_K>,             \
            f<DTYPE_Q5_K>, f<DTYPE_Q6_K>, f<DTYPE_Q8_GROUP>                                        \
    }
static_assert(DTYPE_F32 == 0 && DTYPE_Q4_0 == 3 && DTYPE_Q2_K == 8 && DTYPE_Q8_GROUP == 13 &&
                  DTYPE_COUNT == 14,
              "OF_EVERY_DTYPE lists the types in another order");
