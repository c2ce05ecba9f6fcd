// x as a block of project_few.cu has it in shared memory: up to eight rows, as many columns of them
// as there is room for, after the norm, as float32 or as whole numbers with their outliers.
#pragma once

#include "kernels/cuda/norm.h"
#include "kernels/cuda/project/project.h"

enum { GROUP_ROWS = 8 };                          // rows of x of a block at most
enum { FEW_FLOATS = 8192, FEW_INTEGERS = 12288 }; // of x at once, all rows together

// How weights meet x; what shared memory holds follows from it.
enum Meeting {
    ONES,       // float weights, one column at a time
    EIGHTS,     // float weights, eight columns at a time
    FLOATS,     // quantised weights and x in float32, or
    ONE_DIGIT,  // in whole numbers of one signed byte,
    TWO_DIGITS, // or of two
};
DEVICE_FUNCTION constexpr int digits_of(Meeting m) {
    return m > FLOATS ? m - FLOATS : 0;
}
DEVICE_FUNCTION constexpr bool meets(Meeting m, DType dtype) {
    return is_quantised(dtype) == (m >= FLOATS);
}

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

template <Meeting M> using Memory = std::conditional_t<digits_of(M) != 0, FewIntegers, FewFloats>;

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
struct Piece {
    size_t first, end, stride;
};

static __device__ __forceinline__ Piece first_piece(size_t cols, int n, size_t room) {
    size_t whole = (cols + CHUNK - 1) / CHUNK * CHUNK, share = room / (size_t)n;
    size_t stride = whole <= share ? whole : share / (WARP * CHUNK) * (WARP * CHUNK);
    return Piece{0, cols < stride ? cols : stride, stride};
}

static __device__ __forceinline__ Piece piece_after(const Piece &piece, size_t cols) {
    size_t end = piece.end + piece.stride;
    return Piece{piece.end, end < cols ? end : cols, piece.stride};
}

// Where column j of a piece lies. Lanes read 16 bytes each, 32 or 128 bytes apart, and shared
// memory serves eight lanes at once: every 128 bytes have their eight quads in another order, so
// that no two of the eight meet in a bank.
static __device__ __forceinline__ size_t float_place(size_t j) {
    return j ^ (j >> 3 & 28);
}

// ---- taking it ----

static __device__ void take_factors(FewShared &shared, const ProjectWork &work, const Group &group,
                                    size_t cols) {
    for (int i = 0; i < group.n && work.norm_weight; i++) {
        const float *x = work.x + (group.first + (size_t)i) * cols;
        float factor = norm_factor(x, cols, 0.0f, work.norm_eps, shared.parts);
        if (!threadIdx.x) shared.factors[i] = factor;
    }
    __syncthreads();
}

// Element j of row i of the group after the norm; `keep`: for whoever asks.
static __device__ __forceinline__ float normed(const ProjectWork &work, const FewShared &shared,
                                               const Group &group, size_t i, size_t j, bool keep) {
    size_t at = (group.first + i) * work.weights[0].cols + j;
    float x = work.x[at];
    if (!work.norm_weight) return x;
    float y = x * shared.factors[i] * work.norm_weight[j];
    if (keep) work.norm_out[at] = y;
    return y;
}

static __device__ void take(FewFloats &memory, const ProjectWork &work, const Group &group,
                            const Piece &piece, int digits, bool keep) {
    (void)digits;
    for (size_t i = 0; i < (size_t)group.n; i++)
        for (size_t j = piece.first + threadIdx.x; j < piece.end; j += PROJECT_THREADS)
            memory.x[i * piece.stride + float_place(j - piece.first)] =
                normed(work, memory.shared, group, i, j, keep);
}

static __device__ __forceinline__ QuantisedRows rows_of(FewIntegers &memory, int digits) {
    return QuantisedRows{digits == 1 ? NULL : memory.high, memory.low, memory.scales, memory.sums,
                         memory.outliers};
}

static __device__ void take_outliers(FewFloats &memory, const ProjectWork &work,
                                     const Group &group) {
    (void)memory, (void)work, (void)group;
}

static __device__ void take_outliers(FewIntegers &memory, const ProjectWork &work,
                                     const Group &group) {
    find_outliers(
        memory.outliers, memory.keys, (size_t)group.n, work.weights[0].cols,
        [&](size_t i, size_t j) { return normed(work, memory.shared, group, i, j, false); });
}

static __device__ void take(FewIntegers &memory, const ProjectWork &work, const Group &group,
                            const Piece &piece, int digits, bool keep) {
    QuantisedRows z = rows_of(memory, digits);
    int levels = digits == 1 ? A8_LEVELS : A16_LEVELS;
    for (size_t i = 0; i < (size_t)group.n; i++)
        for (size_t j = piece.first + threadIdx.x; j < piece.end; j += PROJECT_THREADS) {
            size_t at = i * piece.stride + (j - piece.first); // whole warps
            float x = normed(work, memory.shared, group, i, j, keep);
            if (has_left(memory.outliers + i * OUTLIERS, j)) x = 0.0f;
            quantise_group(z, x, at, at / CHUNK, levels);
        }
}
