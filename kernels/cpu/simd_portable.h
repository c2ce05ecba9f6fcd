// The operations of simd.h in plain C, one loop over the lanes each: for any machine, and to read
// what the other headers do.
#pragma once

#include "weights/quant.h" // half_to_float, float_to_half

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct F32x16 {
    float v[16];
} F32x16;
typedef struct I32x16 {
    int32_t v[16];
} I32x16;
typedef struct I16x32 {
    int16_t v[32];
} I16x32;
typedef struct Mask16 {
    bool v[16];
} Mask16;

// One result of a lane-wise operation: `expression` in i.
// The loops have constant bounds, so that a compiler can use the vector instructions of any
// machine.
#define SIMD_LANES(type, count, expression)                                                        \
    type out_;                                                                                     \
    for (int i = 0; i < (count); i++)                                                              \
        out_.v[i] = (expression);                                                                  \
    return out_

// ---- floats ----

static inline F32x16 f32_set(float x) {
    SIMD_LANES(F32x16, 16, x);
}
static inline F32x16 f32_zero(void) {
    return f32_set(0.0f);
}
static inline F32x16 f32_load(const float *p) {
    SIMD_LANES(F32x16, 16, p[i]);
}
static inline void f32_store(float *p, F32x16 x) {
    memcpy(p, x.v, sizeof x.v);
}
static inline F32x16 f32_load_part(const float *p, size_t count) {
    SIMD_LANES(F32x16, 16, (size_t)i < count ? p[i] : 0.0f);
}
static inline void f32_store_part(float *p, F32x16 x, size_t count) {
    memcpy(p, x.v, (count < 16 ? count : 16) * sizeof *p);
}
static inline F32x16 f32_add(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, a.v[i] + b.v[i]);
}
static inline F32x16 f32_sub(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, a.v[i] - b.v[i]);
}
static inline F32x16 f32_mul(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, a.v[i] * b.v[i]);
}
static inline F32x16 f32_div(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, a.v[i] / b.v[i]);
}
// Not fmaxf, which returns the number where one operand is a NaN: here the second operand wins.
static inline F32x16 f32_max(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
static inline F32x16 f32_min(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
static inline F32x16 f32_abs(F32x16 a) {
    SIMD_LANES(F32x16, 16, fabsf(a.v[i]));
}
static inline F32x16 f32_sqrt(F32x16 a) {
    SIMD_LANES(F32x16, 16, sqrtf(a.v[i]));
}
// fmaf rounds once even where a compiler has to call a function for it: that is slow, and still
// right.
static inline F32x16 f32_fma(F32x16 a, F32x16 b, F32x16 c) {
    SIMD_LANES(F32x16, 16, fmaf(a.v[i], b.v[i], c.v[i]));
}
static inline F32x16 f32_round(F32x16 a) {
    SIMD_LANES(F32x16, 16, rintf(a.v[i]));
}
static inline F32x16 f32_truncate(F32x16 a) {
    SIMD_LANES(F32x16, 16, truncf(a.v[i]));
}
static inline F32x16 f32_from_half(const uint16_t *p) {
    SIMD_LANES(F32x16, 16, half_to_float(p[i]));
}
static inline void f32_to_half(uint16_t *p, F32x16 x) {
    for (int i = 0; i < 16; i++)
        p[i] = float_to_half(x.v[i]);
}
static inline void f32_to_bf16(uint16_t *p, F32x16 x) {
    for (int i = 0; i < 16; i++)
        p[i] = float_to_bf16(x.v[i]);
}
static inline F32x16 f32_from_bf16(const uint16_t *p) {
    SIMD_LANES(F32x16, 16, bf16_to_float(p[i]));
}
// Lanes 4 q and 4 q + 1 of a result come from lane 4 q (high: 4 q + 2), the next two from the one
// behind it.
static inline F32x16 f32_interleave_low(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, (i % 2 ? b : a).v[i / 4 * 4 + i % 4 / 2]);
}
static inline F32x16 f32_interleave_high(F32x16 a, F32x16 b) {
    SIMD_LANES(F32x16, 16, (i % 2 ? b : a).v[i / 4 * 4 + 2 + i % 4 / 2]);
}
static inline void f32_transpose_groups(F32x16 x[4]) {
    F32x16 from[4] = {x[0], x[1], x[2], x[3]};
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 16; i++)
            x[j].v[i] = from[i / 4].v[4 * j + i % 4];
}
// The order of the vector instructions: half of the lanes onto the other half, four times.
static inline float f32_sum(F32x16 x) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            x.v[i] = x.v[i] + x.v[i + half];
    return x.v[0];
}
static inline float f32_largest(F32x16 x) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
    return x.v[0];
}

// ---- comparing ----

static inline Mask16 f32_less(F32x16 a, F32x16 b) {
    SIMD_LANES(Mask16, 16, a.v[i] < b.v[i]);
}
static inline F32x16 f32_choose(Mask16 mask, F32x16 yes, F32x16 no) {
    SIMD_LANES(F32x16, 16, mask.v[i] ? yes.v[i] : no.v[i]);
}
static inline uint32_t mask_bits(Mask16 mask) {
    uint32_t bits = 0;
    for (int i = 0; i < 16; i++)
        bits |= (uint32_t)mask.v[i] << i;
    return bits;
}

// ---- int32 ----

static inline I32x16 i32_set(int32_t x) {
    SIMD_LANES(I32x16, 16, x);
}
static inline I32x16 i32_zero(void) {
    return i32_set(0);
}
static inline I32x16 i32_load(const int32_t *p) {
    SIMD_LANES(I32x16, 16, p[i]);
}
static inline void i32_store(int32_t *p, I32x16 x) {
    memcpy(p, x.v, sizeof x.v);
}
static inline I32x16 i32_add(I32x16 a, I32x16 b) {
    SIMD_LANES(I32x16, 16, a.v[i] + b.v[i]);
}
static inline I32x16 i32_sub(I32x16 a, I32x16 b) {
    SIMD_LANES(I32x16, 16, a.v[i] - b.v[i]);
}
static inline I32x16 i32_shift_right(I32x16 a, int n) {
    SIMD_LANES(I32x16, 16, a.v[i] >> n);
}
// Shifted as unsigned: a signed shift that overflows is undefined in C.
static inline I32x16 i32_shift_left(I32x16 a, int n) {
    SIMD_LANES(I32x16, 16, (int32_t)((uint32_t)a.v[i] << n));
}
static inline I32x16 i32_bits(I32x16 a, int from, int count) {
    SIMD_LANES(I32x16, 16, (int32_t)((uint32_t)a.v[i] >> from & ((1u << count) - 1)));
}
static inline int32_t i32_sum(I32x16 a) {
    int32_t sum = 0;
    for (int i = 0; i < 16; i++)
        sum += a.v[i];
    return sum;
}
static inline I32x16 i32_from_u8(const uint8_t *p) {
    SIMD_LANES(I32x16, 16, p[i]);
}
static inline I32x16 i32_from_i8(const uint8_t *p) {
    SIMD_LANES(I32x16, 16, (int8_t)p[i]);
}
static inline F32x16 f32_from_i32(I32x16 a) {
    SIMD_LANES(F32x16, 16, (float)a.v[i]);
}
// What no int32 holds, NaN too, becomes INT32_MIN, as AVX has it.
static inline I32x16 f32_to_i32(F32x16 a) {
    SIMD_LANES(I32x16, 16, fabsf(a.v[i]) < 2147483648.0f ? (int32_t)rintf(a.v[i]) : INT32_MIN);
}
// The exponent field of a float is n + 127, above 23 bits of mantissa.
static inline F32x16 f32_power_of_2(I32x16 n) {
    I32x16 bits;
    for (int i = 0; i < 16; i++)
        bits.v[i] = (int32_t)((uint32_t)(n.v[i] + 127) << 23);
    F32x16 out;
    memcpy(out.v, bits.v, sizeof out.v);
    return out;
}

// ---- int16 ----

static inline I16x32 i16_set(int16_t x) {
    SIMD_LANES(I16x32, 32, x);
}
static inline I16x32 i16_load(const void *p) {
    I16x32 out;
    memcpy(out.v, p, sizeof out.v);
    return out;
}
static inline void i16_store(void *p, I16x32 x) {
    memcpy(p, x.v, sizeof x.v);
}
static inline I16x32 i16_from_i32(I32x16 a, I32x16 b) {
    SIMD_LANES(I16x32, 32, (int16_t)(i < 16 ? a.v[i] : b.v[i - 16]));
}
static inline I16x32 i16_pick_bytes(I16x32 a, const int8_t numbers[16]) {
    uint8_t from[64], to[64];
    memcpy(from, a.v, sizeof from);
    for (int i = 0; i < 64; i++)
        to[i] = numbers[i % 16] < 0 ? 0 : from[i / 16 * 16 + numbers[i % 16]];
    return i16_load(to);
}
static inline I32x16 i16_even(I16x32 a) {
    SIMD_LANES(I32x16, 16, a.v[2 * i]);
}
static inline I32x16 i16_odd(I16x32 a) {
    SIMD_LANES(I32x16, 16, a.v[2 * i + 1]);
}
static inline I16x32 i16_and(I16x32 a, I16x32 b) {
    SIMD_LANES(I16x32, 32, (int16_t)(a.v[i] & b.v[i]));
}
static inline I16x32 i16_or(I16x32 a, I16x32 b) {
    SIMD_LANES(I16x32, 32, (int16_t)(a.v[i] | b.v[i]));
}
static inline I16x32 i16_sub(I16x32 a, I16x32 b) {
    SIMD_LANES(I16x32, 32, (int16_t)(a.v[i] - b.v[i]));
}
static inline I16x32 i16_shift_left(I16x32 a, int n) {
    SIMD_LANES(I16x32, 32, (int16_t)((uint16_t)a.v[i] << n));
}
// As unsigned, so that zeros come in.
static inline I16x32 i16_shift_right(I16x32 a, int n) {
    SIMD_LANES(I16x32, 32, (int16_t)((uint16_t)a.v[i] >> n));
}
static inline I16x32 i16_shift_signed(I16x32 a, int n) {
    SIMD_LANES(I16x32, 32, (int16_t)(a.v[i] >> n));
}
static inline I16x32 i16_pair(const void *p) {
    int16_t pair[2];
    memcpy(pair, p, sizeof pair);
    SIMD_LANES(I16x32, 32, pair[i & 1]);
}
static inline I32x16 i32_pairs(I16x32 a, I16x32 b) {
    SIMD_LANES(I32x16, 16, a.v[2 * i] * b.v[2 * i] + a.v[2 * i + 1] * b.v[2 * i + 1]);
}
static inline I32x16 i32_dot(I32x16 acc, I16x32 a, I16x32 b) {
    SIMD_LANES(I32x16, 16, acc.v[i] + a.v[2 * i] * b.v[2 * i] + a.v[2 * i + 1] * b.v[2 * i + 1]);
}

// ---- bytes ----

typedef I32x16 ByteSums;
static inline int byte_sums_run(int bits) {
    (void)bits;
    return 8;
}
// The 32 int16 of each operand are read as 64 bytes; byte 4i + 0 .. 3 belong to lane i.
static inline ByteSums byte_sums_add(ByteSums acc, I16x32 u8, I16x32 s8) {
    uint8_t a[64];
    int8_t b[64];
    memcpy(a, u8.v, sizeof a);
    memcpy(b, s8.v, sizeof b);
    for (int i = 0; i < 64; i++)
        acc.v[i / 4] += a[i] * b[i];
    return acc;
}
static inline ByteSums byte_sums_zero(void) {
    return i32_zero();
}
static inline I32x16 byte_sums_i32(ByteSums sums) {
    return sums;
}
static inline I32x16 byte_sums_join(ByteSums high, ByteSums low) {
    SIMD_LANES(I32x16, 16, high.v[i] * 256 + low.v[i]);
}

#undef SIMD_LANES
