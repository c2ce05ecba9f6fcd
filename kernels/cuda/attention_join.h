// How the splits of a row of attention become one. Each split is a part: m = max score,
// l = sum e^(score - m), a = sum e^(score - m) v. Parts are joined JOINED at a time, by the last of
// their blocks to end; what comes of them is a part of the next level, in the place of the first:
//
//   M = max m;   l' = sum l e^(m - M);   a' = sum a e^(m - M)      at last:  out = a' / l'
//
//   level 0    0 1 2 .. 15    16 .. 31    32 .. 39      blocks, a split of keys each
//   level 1    0              16          32            of three blocks, which work side by side
//   level 2    0                                        of one of them: the result
//
// So of 256 splits no block reads more than 16 parts a level. Parts are counted from the first that
// has keys to see: which ones meet, and in what order, depends on the row's position and on its
// pattern alone, not on the batch and not on the GPU.
#pragma once

#include "kernels/cuda/device.h"

enum { JOINED = 16, IN_FLIGHT = 8, JOIN_THREADS = 256, JOIN_HEADS = JOIN_THREADS / JOINED };

// The parts of the rows and heads of a launch, and the counters of their groups.
struct Parts {
    float *sums_of_values; // (rows, n_heads, splits, stride)
    float *largest, *sums; // (rows, n_heads, splits)
    unsigned *arrived;     // (rows, tiles of heads, groups_of(splits)), 0 before and after
    int splits, stride;    // of the longest row; head_dim rounded up to whole float4s
};

struct JoinMemory {
    float factors[JOIN_HEADS][JOINED]; // e^(m - M)
    float sums[JOIN_HEADS];            // l'
    bool last;                         // the other parts of the group are there
};

// Groups of all levels: 17 of 256 splits.
static DEVICE_FUNCTION inline int groups_of(int splits) {
    int groups = 0;
    while (splits > 1)
        groups += splits = (splits + JOINED - 1) / JOINED;
    return groups;
}

static DEVICE_FUNCTION inline int part_stride(int head_dim) {
    return (head_dim + 3) / 4 * 4;
}

// Neighbouring parts of one row for n_heads heads, at most JOIN_HEADS.
struct JoinGroup {
    size_t first;    // part of the first head, as an index into `sums`
    int step, count; // splits from one part to the next; parts, at most JOINED
    int n_heads;
};

// A thread for each part of each head, all of their loads at once. A part that saw no key has
// m = -infinity and l = 0: its factor is 0, and so is its a.
static __device__ __forceinline__ void find_factors(JoinMemory &memory, const Parts &parts,
                                                    const JoinGroup &g) {
    int h = (int)threadIdx.x / JOINED, i = (int)threadIdx.x % JOINED;
    bool there = h < g.n_heads && i < g.count;
    size_t at = g.first + (size_t)h * (size_t)parts.splits + (size_t)i * (size_t)g.step;
    float largest = there ? parts.largest[at] : -INFINITY, sum = there ? parts.sums[at] : 0.0f;
    float most = largest, total = 0.0f;
    for (int bits = JOINED / 2; bits; bits /= 2)
        most = fmaxf(most, __shfl_xor_sync(ALL_LANES, most, bits));
    bool empty = largest == -INFINITY && !isnan(sum); // NaN is no largest: the sum carries it
    float factor = empty ? 0.0f : expf(largest - most);
    UNROLL
    for (int k = 0; k < JOINED; k++) { // in order; what is not there adds 0
        unsigned from = threadIdx.x % WARP / JOINED * JOINED + k;
        total =
            fmaf(__shfl_sync(ALL_LANES, sum, from), __shfl_sync(ALL_LANES, factor, from), total);
    }
    memory.factors[h][i] = factor;
    if (i) return;
    memory.sums[h] = total;
    if (there) parts.largest[at] = most, parts.sums[at] = total; // this lane alone has read them
}

struct Column {
    float4 x[IN_FLIGHT];
};

// Four channels of parts `from` on, without a branch: those past the end read the last one again.
static __device__ __forceinline__ void load_column(Column &c, const Parts &parts,
                                                   const JoinGroup &g, size_t at, int from) {
    UNROLL
    for (int u = 0; u < IN_FLIGHT; u++) {
        int i = from + u < g.count ? from + u : g.count - 1;
        c.x[u] = *(const float4 *)(parts.sums_of_values + at +
                                   (size_t)(i * g.step) * (size_t)parts.stride);
    }
}

static __device__ __forceinline__ void add_column(float4 &sum, const Column &c,
                                                  const float *factors, int count) {
    UNROLL
    for (int u = 0; u < IN_FLIGHT; u++) {
        if (u >= count) continue;
        sum.x = fmaf(c.x[u].x, factors[u], sum.x);
        sum.y = fmaf(c.x[u].y, factors[u], sum.y);
        sum.z = fmaf(c.x[u].z, factors[u], sum.z);
        sum.w = fmaf(c.x[u].w, factors[u], sum.w);
    }
}

// Joins the group into the place of its first part; with `out` (n_heads, head_dim) to there, as
// the result.
static __device__ __forceinline__ void join_group(JoinMemory &memory, const Parts &parts,
                                                  const JoinGroup &g, float *out, int head_dim) {
    int width = parts.stride / 4, columns = g.n_heads * width;
    int at_first = (int)threadIdx.x < columns ? (int)threadIdx.x : 0;
    Column c; // the first loads are on their way while the factors are found
    auto place = [&](int column) {
        size_t part = g.first + (size_t)(column / width) * (size_t)parts.splits;
        return part * (size_t)parts.stride + (size_t)(column % width) * 4;
    };
    load_column(c, parts, g, place(at_first), 0);
    find_factors(memory, parts, g);
    __syncthreads();
    for (int column = (int)threadIdx.x; column < columns; column += JOIN_THREADS) {
        int h = column / width;
        float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int from = 0; from < g.count; from += IN_FLIGHT) {
            if (from || column >= JOIN_THREADS) load_column(c, parts, g, place(column), from);
            add_column(sum, c, memory.factors[h] + from, g.count - from);
        }
        if (!out) {
            *(float4 *)(parts.sums_of_values + place(column)) = sum;
            continue;
        }
        const float values[4] = {sum.x, sum.y, sum.z, sum.w};
        UNROLL
        for (int k = 0; k < 4; k++) {
            int j = column % width * 4 + k;
            if (j < head_dim) out[h * head_dim + j] = values[k] / memory.sums[h];
        }
    }
}

// Called by the block of split `index` of a row, of `count` that have keys to see, when it has
// stored its part; `first` is that of the row's first split and first head, `arrived` the row's and
// the tile's counters. Blocks return as soon as others of their group are still to come; the last
// of them all leaves the result.
static __device__ __forceinline__ void join_parts(JoinMemory &memory, const Parts &parts,
                                                  size_t first, int n_heads, int index, int count,
                                                  unsigned *arrived, float *out, int head_dim) {
    for (int step = 1;; step *= JOINED) {
        int group = index / JOINED, left = count - group * JOINED;
        int members = left < JOINED ? left : JOINED;
        if (!arrives_last(arrived + group, (unsigned)members, memory.last)) return;
        JoinGroup g = {first + (size_t)(group * JOINED) * (size_t)step, step, members, n_heads};
        join_group(memory, parts, g, count <= JOINED ? out : NULL, head_dim);
        if (count <= JOINED) return;
        index = group;
        count = (count + JOINED - 1) / JOINED;
        arrived += count; // one for each group of this level
    }
}
