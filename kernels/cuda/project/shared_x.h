// x as a block for few rows has it in shared memory: up to eight rows, as many columns of them
// as there is room for, after the norm, as float32 or as integers with their outliers.
#pragma once

#include "kernels/cuda/project/dot.h"
#include "kernels/cuda/steps.h"

enum { GROUP_ROWS = 8 };                         // rows of x of a block at most
enum { HEADS_AT_ONCE = PROJECT_THREADS / WARP }; // that a block counts its rows of weights to

// Beside x: what the threads of a block tell each other.
struct FewShared {
    float parts[PROJECT_THREADS / WARP];
    float factors[GROUP_ROWS]; // of the norm, by row of x
    bool last[HEADS_AT_ONCE];  // no other block works on that head
};

template <int N> struct FewFloats {
    static constexpr size_t ROOM = float_room(N);
    alignas(16) float x[ROOM];
    FewShared shared;
};

template <int N> struct FewIntegers {
    static constexpr size_t ROOM = integer_room(N);
    alignas(16) int8_t low[ROOM], high[ROOM];
    float scales[ROOM / CHUNK];
    int2 sums[ROOM / CHUNK];
    Outlier outliers[GROUP_ROWS * OUTLIERS];
    OutlierKeys keys[GROUP_ROWS];
    FewShared shared;
};

template <InputForm M, int N>
using Memory = std::conditional_t<digits_of(M) != 0, FewIntegers<N>, FewFloats<N>>;
static_assert(sizeof(FewFloats<GROUP_ROWS>) <= 48 << 10 &&
                  sizeof(FewIntegers<GROUP_ROWS>) <= 48 << 10,
              "what a kernel may declare");

// ---- which part of x ----

// The rows of x that a block works on.
struct Group {
    size_t first;
    int n;
};

// The rows in as many runs as the grid has groups, all but the last equally long.
template <int N> static __device__ __forceinline__ Group group_of_block(const ProjectWork &work) {
    if (N == 1) return Group{0, 1};
    int groups = (int)gridDim.y, most = (work.n + groups - 1) / groups;
    int first = (int)blockIdx.y * most, left = work.n - first;
    return Group{(size_t)first, left < most ? left : most};
}

// Columns first .. end of x are in shared memory, `stride` of them per row: all columns, or as many
// as there is room for in whole passes of a warp, so that a lane meets its columns in one order.
struct ColumnSlice {
    size_t first, end, stride;
};

static __device__ __forceinline__ ColumnSlice first_slice(size_t cols, int n, size_t room) {
    size_t whole = (cols + CHUNK - 1) / CHUNK * CHUNK, share = room / (size_t)n;
    size_t stride = whole <= share ? whole : share / (WARP * CHUNK) * (WARP * CHUNK);
    return ColumnSlice{0, cols < stride ? cols : stride, stride};
}

static __device__ __forceinline__ ColumnSlice slice_after(const ColumnSlice &slice, size_t cols) {
    size_t end = slice.end + slice.stride;
    return ColumnSlice{slice.end, end < cols ? end : cols, slice.stride};
}

// The index of column j of a slice in memory. Lanes read 16 bytes each, 32 or 128 bytes apart, and
// shared memory serves eight lanes at once: every 128 bytes have their eight quads in another
// order, so that no two of the eight lanes access the same bank.
// The number of the 128 bytes, modulo 8, is xored into the number of the quad within them:
//
//     128 bytes 0:   quads 0 1 2 3 4 5 6 7
//               1:         1 0 3 2 5 4 7 6
//               2:         2 3 0 1 6 7 4 5   ...
static __device__ __forceinline__ size_t swizzle_float(size_t j) {
    return j ^ (j >> 3 & 28);
}

// ---- loading it ----

// The factor of rmsnorm for each row of the group. Every block computes it again: the row is in L2,
// and a kernel of its own would have to be waited for.
static __device__ void compute_factors(FewShared &shared, const ProjectWork &work,
                                       const Group &group, size_t cols) {
    for (int i = 0; i < group.n && work.norm_weight; i++) {
        const float *x = work.x + (group.first + (size_t)i) * cols;
        float factor = norm_factor(x, cols, 0.0f, work.norm_eps, shared.parts);
        if (!threadIdx.x) shared.factors[i] = factor;
    }
    __syncthreads();
}

template <int N>
static __device__ __forceinline__ QuantisedRows rows_of(FewIntegers<N> &memory, int digits) {
    return QuantisedRows{digits == 1 ? NULL : memory.high, memory.low, memory.scales, memory.sums,
                         memory.outliers};
}

// Four columns behind a norm with these weights.
static __device__ __forceinline__ float4 normed(const float4 &v, float factor, const float4 &w) {
    return float4{v.x * factor * w.x, v.y * factor * w.y, v.z * factor * w.z, v.w * factor * w.w};
}

// Row i of the group, after the norm where there is one before the product.
struct InputRow {
    const float *x, *weight; // weight NULL: no norm
    float factor;
    struct Loaded {
        float4 x, weight;
    };
    __device__ __forceinline__ Loaded load(unsigned j) const {
        Loaded loaded = {};
        loaded.x = *(const float4 *)(x + j);
        if (weight) loaded.weight = *(const float4 *)(weight + j);
        return loaded;
    }
    __device__ __forceinline__ float4 value(const Loaded &loaded) const {
        return weight ? normed(loaded.x, factor, loaded.weight) : loaded.x;
    }
};

static __device__ __forceinline__ InputRow input_row(const ProjectWork &work,
                                                     const FewShared &shared, const Group &group,
                                                     size_t i) {
    return InputRow{work.x + (group.first + i) * work.weights[0].cols, work.norm_weight,
                    work.norm_weight ? shared.factors[i] : 1.0f};
}

// Where row i of the group goes in norm_out; NULL: it is not kept.
static __device__ __forceinline__ float *kept_row(const ProjectWork &work, const Group &group,
                                                  size_t i, bool keep) {
    if (!keep || !work.norm_weight) return NULL;
    return work.norm_out + (group.first + i) * work.weights[0].cols;
}

static __device__ __forceinline__ void keep_eight(float *to, const float4 (&quads)[2]) {
    *(float4 *)to = quads[0];
    *(float4 *)(to + QUAD) = quads[1];
}

// A slice of x into shared memory, by all threads of the block. `keep`: what the norm gives is
// written to norm_out too.
template <int N>
static __device__ __forceinline__ void take_quads(FewFloats<N> &memory, const ProjectWork &work,
                                                  const Group &group, const ColumnSlice &slice,
                                                  bool keep) {
    unsigned first = (unsigned)slice.first, end = (unsigned)slice.end;
    for (size_t i = 0; i < (size_t)group.n; i++) {
        float *to = memory.x + i * slice.stride, *kept = kept_row(work, group, i, keep);
        for_quads(input_row(work, memory.shared, group, i), first, end,
                  [&](const float4 &x, unsigned j, bool is_inside) {
                      if (!is_inside) return;
                      *(float4 *)(to + swizzle_float(j - first)) = x;
                      if (kept) *(float4 *)(kept + j) = x;
                  });
    }
}

// The same where rows are no multiple of four columns.
template <int N>
static __device__ __forceinline__ void take_scalars(FewFloats<N> &memory, const ProjectWork &work,
                                                    const Group &group, const ColumnSlice &slice,
                                                    bool keep) {
    for (size_t i = 0; i < (size_t)group.n; i++) {
        float *to = memory.x + i * slice.stride, *kept = kept_row(work, group, i, keep);
        InputRow row = input_row(work, memory.shared, group, i);
        for (size_t j = slice.first + threadIdx.x; j < slice.end; j += PROJECT_THREADS) {
            float x = row.weight ? row.x[j] * row.factor * row.weight[j] : row.x[j];
            to[swizzle_float(j - slice.first)] = x;
            if (kept) kept[j] = x;
        }
    }
}

// And as integers. Outliers are defined by row, so collect_outliers has come before.
template <int DIGITS, int N>
static __device__ __forceinline__ void take_integers(FewIntegers<N> &memory,
                                                     const ProjectWork &work, const Group &group,
                                                     const ColumnSlice &slice, bool keep) {
    constexpr int LEVELS = DIGITS == 1 ? A8_LEVELS : A16_LEVELS;
    QuantisedRows z = rows_of(memory, DIGITS);
    unsigned first = (unsigned)slice.first, end = (unsigned)slice.end;
    for (size_t i = 0; i < (size_t)group.n; i++) {
        float *kept = kept_row(work, group, i, keep);
        OutlierColumns taken = outlier_columns(memory.outliers + i * OUTLIERS);
        quantise_row(z, input_row(work, memory.shared, group, i), first, end, taken,
                     i * slice.stride, LEVELS, [&](const float4(&quads)[2], unsigned j) {
                         if (kept) keep_eight(kept + j, quads);
                     });
    }
}

template <InputForm M, int N>
static __device__ __forceinline__ void take(Memory<M, N> &memory, const ProjectWork &work,
                                            const Group &group, const ColumnSlice &slice,
                                            bool keep) {
    if constexpr (M == FLOAT_SCALAR)
        take_scalars(memory, work, group, slice, keep);
    else if constexpr (digits_of(M) != 0)
        take_integers<digits_of(M)>(memory, work, group, slice, keep);
    else
        take_quads(memory, work, group, slice, keep);
}

// Over whole rows, whatever the slices are. x as float32 needs no outliers.
template <InputForm M, int N>
static __device__ __forceinline__ void
collect_outliers(Memory<M, N> &memory, const ProjectWork &work, const Group &group) {
    if constexpr (digits_of(M) != 0)
        find_outliers(memory.outliers, memory.keys, (unsigned)group.n,
                      (unsigned)work.weights[0].cols,
                      [&](unsigned i) { return input_row(work, memory.shared, group, i); });
}

// ---- heads of q, k and v ----

// Counts rows first .. end - 1 of weights, which this block has multiplied, to their heads. The
// block that completes a head for a group finishes it: all of its rows are in global memory.
static __device__ void finish_heads(const ProjectWork &work, const Group &group, unsigned first,
                                    unsigned end, FewShared &shared) {
    unsigned dim = (unsigned)work.heads.kv.head_dim, t = threadIdx.x;
    for (unsigned head = first / dim; head * dim < end; head += HEADS_AT_ONCE) {
        __syncthreads(); // the rows are stored, and no thread still reads `last`
        if (t < HEADS_AT_ONCE) {
            unsigned from = (head + t) * dim, to = from + dim;
            unsigned stop = to < end ? to : end, begin = from > first ? from : first;
            unsigned count = begin < stop ? stop - begin : 0;
            unsigned *arrived = work.arrived + (head + t) * gridDim.y + blockIdx.y;
            bool last = count && arrive(arrived, count) == dim - count;
            if (last) *arrived = 0; // no block counts to it any more
            shared.last[t] = last;
        }
        __syncthreads();
        unsigned mine = t / WARP;
        for (int i = 0; shared.last[mine] && i < group.n; i++)
            norm_and_rotate_head(work.heads, (int)group.first + i, (int)(head + mine));
    }
}
