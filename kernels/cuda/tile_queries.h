// What a lane keeps of a prompt's queries (attention_tiles.cu), and how the scores of a tile of
// keys become weights.
#pragma once

#include "kernels/cuda/steps.h"

enum { QUERIES = 64, THREADS = 128, WARP_QUERIES = 16 };

// Shared memory is 48 kB: long heads have short tiles.
template <int DIM> constexpr int KEYS = DIM > 128 ? 32 : 64;

struct TileWork {
    AttentionOperation op; // out NULL: nothing reads the floats
    InputParts to;         // of the product that follows; a row is a row of out
    KvLayer kv;
    int group, n_queries; // query heads per key-value head; rows times group
};

// Which keys are seen, and what becomes of a score. PLAIN: all keys of a window, and nothing but
// its scale, a positive one. That is compiled separately: with the general code in it the loop over
// tiles would not fit in the instruction cache.
struct ScoreRules {
    KeyPattern pattern;
    float scale, cap;
    bool uncapped; // and the scale is positive: rising products are rising weights
};

static DEVICE_FUNCTION inline bool is_plain(const AttentionShape &shape) {
    return !shape.pattern.n_parts && shape.cap <= 0.0f && shape.scale > 0.0f;
}

template <bool PLAIN>
static __device__ __forceinline__ ScoreRules rules_of(const AttentionShape &shape) {
    if (PLAIN) return ScoreRules{{shape.pattern.window, 0, {}}, shape.scale, 0.0f, true};
    return ScoreRules{shape.pattern, shape.scale, shape.cap,
                      shape.cap <= 0.0f && shape.scale > 0.0f};
}

// Whether a lane has registers for its part of the queries; else they are loaded for every tile.
template <int DIM> constexpr bool KEEPS_QUERIES = DIM <= 128;

// What a lane keeps of its two queries, i and i + 8 of its warp's 16 (multiply_halves).
template <int DIM> struct QueryState {
    const float *q[2];
    bool there[2]; // false past the end
    float up[2], scale[2];
    unsigned high[KEEPS_QUERIES<DIM> ? DIM / 16 : 1][4], low[KEEPS_QUERIES<DIM> ? DIM / 16 : 1][4];
    float largest[2], sums[2]; // of this lane's keys, until the end
    float out[DIM / 8][4];
};

// ---- queries ----

static __device__ __forceinline__ float quad_sum(float v) {
    v += __shfl_xor_sync(ALL_LANES, v, 1);
    return v + __shfl_xor_sync(ALL_LANES, v, 2);
}
static __device__ __forceinline__ float quad_max(float v) {
    v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, 1));
    return fmaxf(v, __shfl_xor_sync(ALL_LANES, v, 2));
}

// The power of two that brings `largest` to 1 .. 2; 1 where there is none.
static __device__ __forceinline__ float power_for(float largest) {
    uint32_t bits, exponent;
    memcpy(&bits, &largest, sizeof bits);
    exponent = bits >> 23;
    if (exponent < 1 || exponent > 253) return 1.0f;
    bits = (254 - exponent) << 23;
    memcpy(&largest, &bits, sizeof bits);
    return largest;
}

// a and b as sums of two f16 values each: `high` packs the nearest ones, `low` the remainders.
static __device__ __forceinline__ void split_pair(unsigned &high, unsigned &low, float a, float b) {
    uint16_t a_high = half_bits(a), b_high = half_bits(b);
    uint16_t a_low = half_bits(a - half_value(a_high)), b_low = half_bits(b - half_value(b_high));
    high = a_high | (unsigned)b_high << 16;
    low = a_low | (unsigned)b_low << 16;
}

// Of channels 16 k .. 16 k + 15 of the warp's queries those of the lane: two neighbours of either
// query, then two of either eight channels on. No branch is around a load, so that all are on their
// way together.
struct QueryPairs {
    float a[4], b[4];
};
template <int DIM>
static __device__ __forceinline__ QueryPairs load_pairs(const QueryState<DIM> &s, int k, int dim) {
    QueryPairs pairs;
    UNROLL
    for (int i = 0; i < 4; i++) {
        int r = i % 2, c = 16 * k + threadIdx.x % 4 * 2 + i / 2 * 8;
        bool there = s.there[r] && c < dim; // dim is even
        const float *q = s.q[r] + (c < dim ? c : 0);
        pairs.a[i] = there ? q[0] : 0.0f, pairs.b[i] = there ? q[1] : 0.0f;
    }
    return pairs;
}

template <int DIM>
static __device__ __forceinline__ void split_queries(unsigned (&high)[4], unsigned (&low)[4],
                                                     const QueryState<DIM> &s,
                                                     const QueryPairs &pairs) {
    UNROLL
    for (int i = 0; i < 4; i++)
        split_pair(high[i], low[i], pairs.a[i] * s.up[i % 2], pairs.b[i] * s.up[i % 2]);
}

static __device__ __forceinline__ int queries_before(int tile) {
    return tile * QUERIES;
}

// Of the quad of lanes that has the query together.
template <int DIM>
static __device__ __forceinline__ void scale_query(QueryState<DIM> &s, const ScoreRules &rules,
                                                   int r, float largest) {
    s.up[r] = power_for(quad_max(largest));
    s.scale[r] = rules.scale / s.up[r];
    s.largest[r] = -INFINITY, s.sums[r] = 0.0f;
}

static __device__ __forceinline__ void take_largest(float (&largest)[2], const QueryPairs &pairs) {
    UNROLL
    for (int i = 0; i < 4; i++)
        largest[i % 2] = fmaxf(largest[i % 2], fmaxf(fabsf(pairs.a[i]), fabsf(pairs.b[i])));
}

template <int DIM>
static __device__ __forceinline__ void open_queries(QueryState<DIM> &s, const TileWork &w,
                                                    const ScoreRules &rules, int tile) {
    int lane = threadIdx.x % WARP, dim = w.op.shape.head_dim;
    UNROLL
    for (int r = 0; r < 2; r++) {
        int query = queries_before(tile) + threadIdx.x / WARP * WARP_QUERIES + lane / 4 + 8 * r;
        s.there[r] = query < w.n_queries;
        if (!s.there[r]) query = 0;
        size_t head =
            (size_t)(query / w.group) * w.op.shape.n_heads + blockIdx.y * w.group + query % w.group;
        s.q[r] = w.op.q + head * dim;
    }
    float largest[2] = {0.0f, 0.0f};
    if constexpr (KEEPS_QUERIES<DIM>) {
        QueryPairs pairs[DIM / 16];
        UNROLL
        for (int k = 0; k < DIM / 16; k++)
            pairs[k] = load_pairs<DIM>(s, k, dim);
        UNROLL
        for (int k = 0; k < DIM / 16; k++)
            take_largest(largest, pairs[k]);
        scale_query<DIM>(s, rules, 0, largest[0]), scale_query<DIM>(s, rules, 1, largest[1]);
        UNROLL
        for (int k = 0; k < DIM / 16; k++)
            split_queries<DIM>(s.high[k], s.low[k], s, pairs[k]);
    } else {
        UNROLL
        for (int k = 0; k < DIM / 16; k++)
            take_largest(largest, load_pairs<DIM>(s, k, dim));
        scale_query<DIM>(s, rules, 0, largest[0]), scale_query<DIM>(s, rules, 1, largest[1]);
    }
    UNROLL
    for (int n = 0; n < DIM / 8; n++)
        UNROLL
    for (int e = 0; e < 4; e++)
        s.out[n][e] = 0.0f;
}

// ---- scores and weights ----

// Whether a query sees the whole tile, as most do: then no key is tested by itself.
template <int DIM>
static __device__ __forceinline__ bool sees_tile(const KeyPattern &pattern, int position,
                                                 int from) {
    return !pattern.n_parts && from + KEYS<DIM> - 1 <= position &&
           (!pattern.window || position - from < pattern.window);
}

// Which of a lane's scores its queries see: bit 4 n + e. A loop, since the code for all of them
// side by side would not fit in the instruction cache.
template <int DIM>
static __device__ __forceinline__ uint32_t seen_scores(const KeyPattern &pattern,
                                                       const int (&positions)[2], int from) {
    static_assert(KEYS<DIM> <= 64, "a bit for each of a lane's scores");
    if (sees_tile<DIM>(pattern, positions[0], from) && sees_tile<DIM>(pattern, positions[1], from))
        return ~0u;
    uint32_t seen = 0;
    NO_UNROLL
    for (int i = 0; i < KEYS<DIM> / 2; i++) {
        int key = from + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        seen |= (uint32_t)key_visible(&pattern, i & 2 ? positions[1] : positions[0], key) << i;
    }
    return seen;
}

// Scales and caps scores. Without a cap the multiplier of weigh_scores scales them.
template <int DIM>
static __device__ __forceinline__ void cap_scores(float (&scores)[KEYS<DIM> / 8][4],
                                                  const QueryState<DIM> &s, float cap) {
    UNROLL
    for (int n = 0; n < KEYS<DIM> / 8; n++)
        UNROLL
    for (int e = 0; e < 4; e++)
        scores[n][e] = bend(scores[n][e] * s.scale[e / 2], cap);
}

// Scores -> e^(scale (score - largest)); what was summed before is brought to the new largest. A
// NaN is no largest, and makes the sum NaN.
template <int DIM>
static __device__ __forceinline__ void weigh_scores(float (&scores)[KEYS<DIM> / 8][4],
                                                    QueryState<DIM> &s, const ScoreRules &rules,
                                                    const int (&positions)[2], int from) {
    constexpr float LOG2_E = 1.44269504f;
    uint32_t seen = seen_scores<DIM>(rules.pattern, positions, from);
    if (!rules.uncapped) cap_scores<DIM>(scores, s, rules.cap);
    if (seen != ~0u) {
        UNROLL
        for (int n = 0; n < KEYS<DIM> / 8; n++)
            UNROLL
        for (int e = 0; e < 4; e++)
            if (!(seen >> (4 * n + e) & 1)) scores[n][e] = -INFINITY;
    }
    // e^(scale (score - largest)) = 2^(multiplier score - shift)
    float factor[2], multiplier[2], shift[2];
    UNROLL
    for (int r = 0; r < 2; r++) {
        float largest = s.largest[r];
        UNROLL
        for (int n = 0; n < KEYS<DIM> / 8; n++)
            largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        largest = quad_max(largest);
        multiplier[r] = rules.uncapped ? s.scale[r] * LOG2_E : LOG2_E;
        shift[r] = largest == -INFINITY ? 0.0f : largest * multiplier[r];
        // Rounded as the shift is (no fma): exactly 1 where the largest stays, or sums of early
        // keys would drift from those of late ones by an error of each tile.
        factor[r] = power_of_2(s.largest[r] * multiplier[r] - shift[r]);
        s.largest[r] = largest;
        s.sums[r] *= factor[r];
    }
    UNROLL
    for (int n = 0; n < KEYS<DIM> / 8; n++)
        UNROLL
    for (int e = 0; e < 4; e++) {
        scores[n][e] = power_of_2(fmaf(scores[n][e], multiplier[e / 2], -shift[e / 2]));
        s.sums[e / 2] += scores[n][e];
    }
    UNROLL
    for (int n = 0; n < DIM / 8; n++)
        UNROLL
    for (int e = 0; e < 4; e++)
        s.out[n][e] *= factor[e / 2];
}
