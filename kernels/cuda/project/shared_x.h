// x as a block of project_few.cu has it in shared memory: up to eight rows, as many columns of them
// as there is room for, after the norm, as float32 or as integers with their outliers.
#pragma once

#include "kernels/cuda/project/project.h"
#include "kernels/cuda/steps.h"

// 8,192 floats are 32 KiB; 12,288 integers of two digits with their scales and sums 28.5 KiB. A
// kernel may declare 48 KiB of shared memory.
enum { GROUP_ROWS = 8 };                          // rows of x of a block at most
enum { FEW_FLOATS = 8192, FEW_INTEGERS = 12288 }; // of x at once, all rows together

// In which form weights are multiplied by x; what shared memory holds follows from it.
enum InputForm {
    FLOAT_SCALAR, // float weights, one column at a time
    FLOAT_VECTOR, // float weights, eight columns at a time
    DEQUANTISED,  // quantised weights and x in float32, or
    ONE_DIGIT,    // as integers of one signed byte,
    TWO_DIGITS,   // or of two
};
DEVICE_FUNCTION constexpr int digits_of(InputForm m) {
    return m > DEQUANTISED ? m - DEQUANTISED : 0;
}
DEVICE_FUNCTION constexpr bool accepts(InputForm m, DType dtype) {
    return is_quantised(dtype) == (m >= DEQUANTISED);
}

// Beside x: what the threads of a block tell each other.
struct FewShared {
    float parts[PROJECT_THREADS / WARP];
    float factors[GROUP_ROWS]; // of the norm, by row of x
    bool last;                 // no other block works on the head
};

struct FewFloats {
    alignas(16) float x[FEW_FLOATS];
    FewShared shared;
};

struct FewIntegers {
    alignas(16) int8_t low[FEW_INTEGERS], high[FEW_INTEGERS];
    float scales[FEW_INTEGERS / CHUNK];
    int2 sums[FEW_INTEGERS / CHUNK];
    Outlier outliers[GROUP_ROWS * OUTLIERS];
    OutlierKeys keys[GROUP_ROWS];
    FewShared shared;
};

template <InputForm M> using Memory = std::conditional_t<digits_of(M) != 0, FewIntegers, FewFloats>;

// ---- which part of x ----

// The rows of x that a block works on.
struct Group {
    size_t first;
    int n;
};

template <int N> static __device__ __forceinline__ Group group_of_block(const ProjectWork &work) {
    if (N == 1) return Group{0, 1};
    int first = (int)blockIdx.y * GROUP_ROWS, left = work.n - first;
    return Group{(size_t)first, left < GROUP_ROWS ? left : GROUP_ROWS};
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

// Element j of row i of the group after the norm; `keep`: it is written to norm_out too.
static __device__ __forceinline__ float normed(const ProjectWork &work, const FewShared &shared,
                                               const Group &group, size_t i, size_t j, bool keep) {
    size_t at = (group.first + i) * work.weights[0].cols + j;
    float x = work.x[at];
    if (!work.norm_weight) return x;
    float y = x * shared.factors[i] * work.norm_weight[j];
    if (keep) work.norm_out[at] = y;
    return y;
}

// A slice of x into shared memory, by all threads of the block.
static __device__ void take(FewFloats &memory, const ProjectWork &work, const Group &group,
                            const ColumnSlice &slice, int digits, bool keep) {
    (void)digits;
    for (size_t i = 0; i < (size_t)group.n; i++)
        for (size_t j = slice.first + threadIdx.x; j < slice.end; j += PROJECT_THREADS)
            memory.x[i * slice.stride + swizzle_float(j - slice.first)] =
                normed(work, memory.shared, group, i, j, keep);
}

static __device__ __forceinline__ QuantisedRows rows_of(FewIntegers &memory, int digits) {
    return QuantisedRows{digits == 1 ? NULL : memory.high, memory.low, memory.scales, memory.sums,
                         memory.outliers};
}

// x as float32 needs no outliers.
static __device__ void collect_outliers(FewFloats &memory, const ProjectWork &work,
                                        const Group &group) {
    (void)memory, (void)work, (void)group;
}

// Over whole rows, whatever the slices are: outliers are defined by row.
static __device__ void collect_outliers(FewIntegers &memory, const ProjectWork &work,
                                        const Group &group) {
    find_outliers(
        memory.outliers, memory.keys, (size_t)group.n, work.weights[0].cols,
        [&](size_t i, size_t j) { return normed(work, memory.shared, group, i, j, false); });
}

// The same as integers: a warp has 32 neighbouring columns, which are one group.
static __device__ void take(FewIntegers &memory, const ProjectWork &work, const Group &group,
                            const ColumnSlice &slice, int digits, bool keep) {
    QuantisedRows z = rows_of(memory, digits);
    int levels = digits == 1 ? A8_LEVELS : A16_LEVELS;
    for (size_t i = 0; i < (size_t)group.n; i++)
        for (size_t j = slice.first + threadIdx.x; j < slice.end; j += PROJECT_THREADS) {
            size_t at = i * slice.stride + (j - slice.first); // whole warps
            float x = normed(work, memory.shared, group, i, j, keep);
            if (is_outlier(memory.outliers + i * OUTLIERS, j)) x = 0.0f;
            quantise_group(z, x, at, at / CHUNK, levels);
        }
}
