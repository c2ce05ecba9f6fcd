// The passes over a whole vocabulary that sampling needs, on sixteen lanes.
#include "kernels/cpu/sample.h"
#include "kernels/cpu/simd.h"

#include <string.h>

enum { LANES = 16, STEPS = SAMPLE_BLOCK / LANES };

// Block b of the logits; the last one is filled up with -infinity in `room`.
static const float *block(float room[SAMPLE_BLOCK], const float *logits, size_t count, size_t b) {
    size_t start = b * SAMPLE_BLOCK, rest = count - start;
    if (rest >= SAMPLE_BLOCK) return logits + start;
    for (size_t i = 0; i < SAMPLE_BLOCK; i++)
        room[i] = i < rest ? logits[start + i] : -INFINITY;
    return room;
}

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

// The largest whole number that is not above x >= 0.
static inline F32x16 floor_of(F32x16 x) {
    F32x16 near = f32_round(x);
    return f32_choose(f32_less(x, near), f32_sub(near, f32_set(1.0f)), near);
}

// A weight of 40 bits is two whole numbers of 20, exact in floats and in sums of int32.
static void weigh_blocks(uint64_t *sums, const float *logits, size_t count, float max,
                         float temperature) {
    float room[SAMPLE_BLOCK];
    int32_t lanes[2][LANES];
    F32x16 m = f32_set(max), t = f32_set(temperature), scale = f32_set(0x1p20f);
    for (size_t b = 0; b * SAMPLE_BLOCK < count; b++) {
        const float *x = block(room, logits, count, b);
        I32x16 high = i32_zero(), low = i32_zero();
        for (int i = 0; i < STEPS; i++) {
            F32x16 e = f32_exp(f32_div(f32_sub(f32_load(x + i * LANES), m), t));
            F32x16 y = f32_mul(e, scale), whole = floor_of(y);
            F32x16 rest = floor_of(f32_mul(f32_sub(y, whole), scale));
            high = i32_add(high, f32_to_i32(whole));
            low = i32_add(low, f32_to_i32(rest));
        }
        i32_store(lanes[0], high);
        i32_store(lanes[1], low);
        sums[b] = 0;
        for (int i = 0; i < LANES; i++)
            sums[b] += ((uint64_t)lanes[0][i] << 20) + (uint64_t)lanes[1][i];
    }
}

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
    .weigh = weigh_blocks,
    .gather = gather_ids,
};
