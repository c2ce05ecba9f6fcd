// The passes over a whole vocabulary that sampling needs, on sixteen lanes.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd.h"

#include <string.h>

enum { LANES = 16, STEPS = SAMPLE_BLOCK / LANES };

// Block b of the logits; the last one is filled up with -infinity in `room`.
// A weight of -infinity is 0 and it is never the largest, so the loops need no special case for the
// end of the row.
static const float *block(float room[SAMPLE_BLOCK], const float *logits, size_t count, size_t b) {
    size_t start = b * SAMPLE_BLOCK, rest = count - start;
    if (rest >= SAMPLE_BLOCK) return logits + start;
    for (size_t i = 0; i < SAMPLE_BLOCK; i++)
        room[i] = i < rest ? logits[start + i] : -INFINITY;
    return room;
}

// Two maxima side by side, of even and odd steps, since each waits for the one before it. f32_less
// is false for +infinity and for NaN; `bad` keeps 1 in a lane that has met one.
static bool scan_blocks(float *largest, const float *logits, size_t count) {
    float room[SAMPLE_BLOCK];
    F32x16 infinity = f32_set(INFINITY), bad = f32_zero(), one = f32_set(1.0f);
    for (size_t b = 0; b * SAMPLE_BLOCK < count; b++) {
        const float *x = block(room, logits, count, b);
        F32x16 even = f32_set(-INFINITY), odd = even;
        for (int i = 0; i < STEPS; i += 2) {
            F32x16 v = f32_load(x + i * LANES), w = f32_load(x + (i + 1) * LANES);
            even = f32_max(even, v);
            odd = f32_max(odd, w);
            bad = f32_choose(f32_less(v, infinity), bad, one);
            bad = f32_choose(f32_less(w, infinity), bad, one);
        }
        largest[b] = f32_largest(f32_max(even, odd));
    }
    return f32_largest(bad) == 0;
}

// Sixteen weights of 40 bits, as two integers of 20: exact in floats, and in sums of int32.
// The definition is (uint64_t)(e * 2^40) with e = e^x <= 1, which has 24 bits. Multiplying by 2^20
// twice and cutting off what is behind the point loses nothing else:
//
//     e * 2^20 = whole . rest      whole <= 2^20,   rest * 2^20 cut off: the lower 20 bits
typedef struct Weights {
    I32x16 high, low;
} Weights;

// logits - max <= 0, so f32_exp_below is enough.
static inline Weights weights_of(F32x16 logits, F32x16 max, F32x16 temperature, bool divide) {
    F32x16 x = f32_sub(logits, max), scale = f32_set(0x1p20f);
    if (divide) x = f32_div(x, temperature); // by 1 it changes nothing
    F32x16 y = f32_mul(f32_exp_below(x), scale), whole = f32_truncate(y);
    F32x16 rest = f32_truncate(f32_mul(f32_sub(y, whole), scale));
    return (Weights){f32_to_i32(whole), f32_to_i32(rest)};
}

// A lane adds STEPS = 16 numbers of at most 2^20, far from the end of int32. Integer sums do not
// depend on the order: all backends have the same total.
static void sum_blocks(uint64_t *sums, const float *logits, size_t count, float max,
                       float temperature) {
    float room[SAMPLE_BLOCK];
    int32_t high[LANES], low[LANES];
    F32x16 m = f32_set(max), t = f32_set(temperature);
    for (size_t b = 0; b * SAMPLE_BLOCK < count; b++) {
        const float *x = block(room, logits, count, b);
        Weights sum = {i32_zero(), i32_zero()};
        for (int i = 0; i < STEPS; i++) {
            Weights w = weights_of(f32_load(x + i * LANES), m, t, temperature != 1.0f);
            sum.high = i32_add(sum.high, w.high);
            sum.low = i32_add(sum.low, w.low);
        }
        i32_store(high, sum.high);
        i32_store(low, sum.low);
        sums[b] = 0;
        for (int i = 0; i < LANES; i++)
            sums[b] += ((uint64_t)high[i] << 20) + (uint64_t)low[i];
    }
}

// Sixteen scattered logits at a time; lanes beyond `some` still hold older ones and are not stored.
static void weights_of_ids(uint64_t *weights, const uint32_t *ids, size_t n, const float *logits,
                           float max, float temperature) {
    float x[LANES] = {0};
    int32_t high[LANES], low[LANES];
    for (size_t i = 0; i < n; i += LANES) {
        size_t some = n - i < LANES ? n - i : LANES;
        for (size_t j = 0; j < some; j++)
            x[j] = logits[ids[i + j]];
        Weights w =
            weights_of(f32_load(x), f32_set(max), f32_set(temperature), temperature != 1.0f);
        i32_store(high, w.high);
        i32_store(low, w.low);
        for (size_t j = 0; j < some; j++)
            weights[i + j] = ((uint64_t)high[j] << 20) + (uint64_t)low[j];
    }
}

// Most blocks have no logit that is large enough, and `largest` says so without reading them. Of
// the others each vector of sixteen gives a mask, and each set bit an id, lowest first.
static size_t gather_ids(uint32_t *ids, const float *logits, size_t count, const float *largest,
                         float threshold) {
    float room[SAMPLE_BLOCK];
    F32x16 limit = f32_set(threshold);
    size_t n = 0;
    for (size_t b = 0; b * SAMPLE_BLOCK < count; b++) {
        if (largest[b] < threshold) continue;
        const float *x = block(room, logits, count, b);
        size_t end = count - b * SAMPLE_BLOCK;
        for (size_t i = 0; i < SAMPLE_BLOCK && i < end; i += LANES) {
            uint32_t bits = ~mask_bits(f32_less(f32_load(x + i), limit)) & 0xffff;
            // A threshold of -infinity would also take the filled-up lanes.
            if (end - i < LANES) bits &= (1u << (end - i)) - 1;
            for (; bits; bits &= bits - 1)
                ids[n++] = (uint32_t)(b * SAMPLE_BLOCK + i) + (uint32_t)__builtin_ctz(bits);
        }
    }
    return n;
}

extern const SampleKernels ISA_NAME(sample_kernels);
const SampleKernels ISA_NAME(sample_kernels) = {
    .scan = scan_blocks,
    .sum_weights = sum_blocks,
    .gather = gather_ids,
    .weights = weights_of_ids,
};
