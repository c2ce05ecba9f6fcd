// A matrix on the GPU: planes, so that every load of a thread is 16 bytes of one row and the loads
// of a warp lie side by side.
//
// Float types: rows padded with zeros to a multiple of 16 bytes.
//
// Quantised types are cut into chunks of 32 columns. One thread takes a whole chunk:
//
//     low      (rows, chunks, 16 or 32)  nibbles: byte j holds elements j (low bits) and j + 16;
//                                        or bytes
//     high     (rows, chunks, 4 or 8)    the bits above the nibbles:
//                fifth bit      bit 8 b + w of the word:      element 4 w + b, w < 8
//                two more bits  bits 8 b + 2 w of word 0:     element 4 w + b, w < 4; word 1: 16 on
//     scales   (rows, chunks, 2 or 4)    d, or d and m, as f16; of K-quants sc[2], or sc[2] and
//                                        sm[2], as bytes
//     supers   (rows, superblocks, 2 or 4)   of K-quants d, or d and dmin, as f16
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
    size_t stride; // float types: elements from row to row
    const uint8_t *low, *high, *scales, *supers;
    unsigned row_bytes[4]; // of these planes
};

struct DeviceMatrix {
    Planes planes; // one block of device memory
};

// The row length that cuBLASLt multiplies fastest, and that F16 rows have in planes.
static inline size_t round_up_8(size_t cols) {
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
static __device__ __forceinline__ unsigned load_word(const uint8_t *p, int bytes) {
    return bytes == 4 ? *(const unsigned *)p : load_u16(p);
}

// The scales of a chunk as they are stored, in the order of the planes: loaded, not yet decoded.
struct StoredScales {
    unsigned scales, supers;
};

template <DType D>
static __device__ __forceinline__ StoredScales load_scales(const Planes &w, size_t row,
                                                           size_t chunk, size_t chunks) {
    constexpr Layout L = layout_of(D);
    size_t blocks = (chunks + SUPER_CHUNKS - 1) / SUPER_CHUNKS;
    StoredScales stored = {};
    stored.scales = load_word(w.scales + (row * chunks + chunk) * scale_bytes(L), scale_bytes(L));
    if (L.k)
        stored.supers = load_word(w.supers + (row * blocks + chunk / SUPER_CHUNKS) * super_bytes(L),
                                  super_bytes(L));
    return stored;
}

// s and m of group g, as numbers.
template <DType D>
static __device__ __forceinline__ float scale_of(const StoredScales &stored, int g) {
    constexpr Layout L = layout_of(D);
    float s;
    if (L.floats)
        memcpy(&s, &stored.scales, sizeof s);
    else if (L.k)
        s = half_value((uint16_t)stored.supers) * (float)(int8_t)(stored.scales >> 8 * g);
    else
        s = half_value((uint16_t)stored.scales);
    return s;
}

template <DType D>
static __device__ __forceinline__ float shift_of(const StoredScales &stored, int g) {
    constexpr Layout L = layout_of(D);
    if (!L.affine) return 0.0f;
    if (!L.k) return half_value((uint16_t)(stored.scales >> 16));
    float sm = (float)(int8_t)(stored.scales >> 8 * (L.groups + g));
    return -(half_value((uint16_t)(stored.supers >> 16)) * sm);
}

// Where weights are read from, 16 bytes at a time: global memory, where they are read once; or
// shared memory (persistent/ring.h).
struct Streamed {
    static __device__ __forceinline__ int4 load(const uint8_t *p) {
        return load_stream(p);
    }
};
struct FromShared {
    static __device__ __forceinline__ int4 load(const uint8_t *p) {
        return *(const int4 *)p;
    }
};

// Chunk `chunk` of row `row`; a row has `chunks`.
template <DType D, class Load = Streamed>
static __device__ __forceinline__ Chunk<D> load_chunk(const Planes &w, size_t row, size_t chunk,
                                                      size_t chunks) {
    constexpr Layout L = layout_of(D);
    Chunk<D> c;
    size_t at = row * chunks + chunk;
    int4 a = Load::load(w.low + at * low_bytes(L));
    if (L.low_bits == 8) {
        int4 b = Load::load(w.low + at * low_bytes(L) + 16);
        c.q[0] = a.x, c.q[1] = a.y, c.q[2] = a.z, c.q[3] = a.w;
        c.q[4] = b.x, c.q[5] = b.y, c.q[6] = b.z, c.q[7] = b.w;
    } else {
        // Words 0 .. 3 are elements 0 .. 15, from the lower nibbles; words 4 .. 7 elements 16 ..
        // 31.
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
    StoredScales stored = load_scales<D>(w, row, chunk, chunks);
    for (int g = 0; g < L.groups; g++) {
        c.s[g] = scale_of<D>(stored, g);
        if (L.affine) c.m[g] = shift_of<D>(stored, g);
    }
    return c;
}

// One element as it is stored: loaded, not yet decoded.
// Loading and decoding apart: the caller can issue other loads before it waits for this one.
struct StoredElement {
    unsigned low, high;
    StoredScales scales;
};
template <DType D>
static __device__ __forceinline__ StoredElement load_element(const Planes &w, size_t row,
                                                             size_t col) {
    constexpr Layout L = layout_of(D);
    size_t chunks = w.cols / CHUNK, at = row * chunks + col / CHUNK, j = col % CHUNK;
    StoredElement e = {};
    e.low = w.low[at * low_bytes(L) + (L.low_bits == 8 ? j : j % 16)];
    if (L.high_bits)
        e.high = ((const unsigned *)(w.high + at * high_bytes(L)))[L.high_bits == 2 ? j / 16 : 0];
    e.scales = load_scales<D>(w, row, col / CHUNK, chunks);
    return e;
}

// Then its value: q s, or q s + m.
struct ElementValue {
    float q, s, m;
};
template <DType D>
static __device__ __forceinline__ ElementValue value_of(const StoredElement &e, size_t col) {
    constexpr Layout L = layout_of(D);
    unsigned j = col % CHUNK, q = e.low;
    if (L.low_bits == 4) q = q >> (j / 16 * 4) & 15;
    if (L.high_bits == 1) q |= (e.high >> (j % 4 * 8 + j / 4) & 1) << 4;
    if (L.high_bits == 2) q |= (e.high >> (j % 4 * 8 + j % 16 / 4 * 2) & 3) << 4;
    int number = L.low_bits == 8 ? (int)(int8_t)q : (int)q - L.centre;
    int g = L.groups == 2 ? (int)(j / 16) : 0;
    return ElementValue{(float)number, scale_of<D>(e.scales, g), shift_of<D>(e.scales, g)};
}

// For embed, which reads few.
template <DType D>
static __device__ __forceinline__ float chunk_element(const Planes &w, size_t row, size_t col) {
    ElementValue e = value_of<D>(load_element<D>(w, row, col), col);
    return layout_of(D).affine ? e.q * e.s + e.m : e.q * e.s;
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
