// The operations of simd.h on AArch64's Advanced SIMD: four registers each. One header for three
// instruction sets, which differ in how they multiply bytes: neon (every AArch64), dotprod (SDOT)
// and i8mm (USDOT too). simd.h and simd_avx512.h define the operations.
#pragma once

#include <arm_neon.h>
#include <string.h>

#define SIMD_NEON 1

typedef struct F32x16 {
    float32x4_t a, b, c, d; // lanes 0 .. 3, 4 .. 7, 8 .. 11, 12 .. 15
} F32x16;
typedef struct I32x16 {
    int32x4_t a, b, c, d;
} I32x16;
typedef struct I16x32 {
    int16x8_t a, b, c, d;
} I16x32;
typedef struct Mask16 {
    uint32x4_t a, b, c, d; // a lane is all ones or all zeros
} Mask16;

// The same instruction on the four registers of one, two and three operands.
#define SIMD_OF_1(type, f, x) ((type){f((x).a), f((x).b), f((x).c), f((x).d)})
#define SIMD_OF_2(type, f, x, y)                                                                   \
    ((type){f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)})
#define SIMD_OF_3(type, f, x, y, z)                                                                \
    ((type){f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c),                \
            f((x).d, (y).d, (z).d)})

// ---- floats ----

static inline F32x16 f32_set(float x) {
    float32x4_t v = vdupq_n_f32(x);
    return (F32x16){v, v, v, v};
}
static inline F32x16 f32_zero(void) {
    return f32_set(0.0f);
}
static inline F32x16 f32_load(const float *p) {
    return (F32x16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
static inline void f32_store(float *p, F32x16 x) {
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
// There are no masked loads and stores: the part goes through memory.
static inline F32x16 f32_load_part(const float *p, size_t count) {
    float lanes[16] = {0};
    memcpy(lanes, p, (count < 16 ? count : 16) * sizeof *p);
    return f32_load(lanes);
}
static inline void f32_store_part(float *p, F32x16 x, size_t count) {
    float lanes[16];
    f32_store(lanes, x);
    memcpy(p, lanes, (count < 16 ? count : 16) * sizeof *p);
}
static inline F32x16 f32_add(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, vaddq_f32, x, y);
}
static inline F32x16 f32_sub(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, vsubq_f32, x, y);
}
static inline F32x16 f32_mul(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, vmulq_f32, x, y);
}
static inline F32x16 f32_div(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, vdivq_f32, x, y);
}
// FMAX returns NaN where either operand is one; x86 and simd.h return the second operand.
static inline float32x4_t simd_max(float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
static inline float32x4_t simd_min(float32x4_t x, float32x4_t y) {
    return vbslq_f32(vcltq_f32(x, y), x, y);
}
static inline F32x16 f32_max(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, simd_max, x, y);
}
static inline F32x16 f32_min(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, simd_min, x, y);
}
static inline F32x16 f32_abs(F32x16 x) {
    return SIMD_OF_1(F32x16, vabsq_f32, x);
}
static inline F32x16 f32_sqrt(F32x16 x) {
    return SIMD_OF_1(F32x16, vsqrtq_f32, x);
}
// FMLA has the number that is added to first.
static inline F32x16 f32_fma(F32x16 x, F32x16 y, F32x16 z) {
    return SIMD_OF_3(F32x16, vfmaq_f32, z, x, y);
}
static inline F32x16 f32_round(F32x16 x) {
    return SIMD_OF_1(F32x16, vrndnq_f32, x);
}
static inline F32x16 f32_truncate(F32x16 x) {
    return SIMD_OF_1(F32x16, vrndq_f32, x);
}
static inline float32x4_t simd_half(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline F32x16 f32_from_half(const uint16_t *p) {
    return (F32x16){simd_half(p), simd_half(p + 4), simd_half(p + 8), simd_half(p + 12)};
}
static inline uint16x4_t simd_to_half(float32x4_t x) {
    return vreinterpret_u16_f16(vcvt_f16_f32(x));
}
static inline void f32_to_half(uint16_t *p, F32x16 x) {
    vst1_u16(p, simd_to_half(x.a));
    vst1_u16(p + 4, simd_to_half(x.b));
    vst1_u16(p + 8, simd_to_half(x.c));
    vst1_u16(p + 12, simd_to_half(x.d));
}
// float_to_bf16 (weights/quant.c) of four lanes; simd_avx512.h says why this rounds. The
// processors' own instruction is younger than most of them.
static inline uint16x4_t simd_to_bf16(float32x4_t x) {
    uint32x4_t bits = vreinterpretq_u32_f32(x), top = vshrq_n_u32(bits, 16);
    uint32x4_t half = vaddq_u32(vandq_u32(top, vdupq_n_u32(1)), vdupq_n_u32(0x7fff));
    uint32x4_t nearest = vshrq_n_u32(vaddq_u32(bits, half), 16);
    uint32x4_t quiet = vorrq_u32(top, vdupq_n_u32(64)); // NaN
    return vmovn_u32(vbslq_u32(vceqq_f32(x, x), nearest, quiet));
}
static inline void f32_to_bf16(uint16_t *p, F32x16 x) {
    vst1_u16(p, simd_to_bf16(x.a));
    vst1_u16(p + 4, simd_to_bf16(x.b));
    vst1_u16(p + 8, simd_to_bf16(x.c));
    vst1_u16(p + 12, simd_to_bf16(x.d));
}
static inline float32x4_t simd_bf16(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
static inline F32x16 f32_from_bf16(const uint16_t *p) {
    return (F32x16){simd_bf16(p), simd_bf16(p + 4), simd_bf16(p + 8), simd_bf16(p + 12)};
}
static inline F32x16 f32_interleave_low(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, vzip1q_f32, x, y);
}
static inline F32x16 f32_interleave_high(F32x16 x, F32x16 y) {
    return SIMD_OF_2(F32x16, vzip2q_f32, x, y);
}
static inline void f32_transpose_groups(F32x16 x[4]) { // no instruction: registers get other names
    F32x16 p = x[0], q = x[1], r = x[2], s = x[3];
    x[0] = (F32x16){p.a, q.a, r.a, s.a};
    x[1] = (F32x16){p.b, q.b, r.b, s.b};
    x[2] = (F32x16){p.c, q.c, r.c, s.c};
    x[3] = (F32x16){p.d, q.d, r.d, s.d};
}
//    8 lanes:  i + (i + 8)   register c onto a, d onto b
//    4 lanes:  i + (i + 4)   the second of these onto the first
//    2, 1:     the halves of a register, then its two lanes
static inline float f32_sum(F32x16 x) {
    float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
static inline float f32_largest(F32x16 x) {
    float32x4_t four = simd_max(simd_max(x.a, x.c), simd_max(x.b, x.d));
    float32x2_t low = vget_low_f32(four), high = vget_high_f32(four);
    float32x2_t two = vbsl_f32(vcgt_f32(low, high), low, high);
    float first = vget_lane_f32(two, 0), second = vget_lane_f32(two, 1);
    return first > second ? first : second;
}

// ---- comparing ----

static inline Mask16 f32_less(F32x16 x, F32x16 y) {
    return SIMD_OF_2(Mask16, vcltq_f32, x, y);
}
static inline F32x16 f32_choose(Mask16 mask, F32x16 yes, F32x16 no) {
    return SIMD_OF_3(F32x16, vbslq_f32, mask, yes, no);
}
// Each lane keeps a bit of its own of sixteen, and all are added up.
static inline uint32_t mask_bits(Mask16 mask) {
    const uint32_t bit[4] = {1, 2, 4, 8};
    uint32x4_t of = vld1q_u32(bit), sum = vandq_u32(mask.a, of);
    sum = vorrq_u32(sum, vandq_u32(mask.b, vshlq_n_u32(of, 4)));
    sum = vorrq_u32(sum, vandq_u32(mask.c, vshlq_n_u32(of, 8)));
    return vaddvq_u32(vorrq_u32(sum, vandq_u32(mask.d, vshlq_n_u32(of, 12))));
}

// ---- int32 ----

static inline I32x16 i32_set(int32_t x) {
    int32x4_t v = vdupq_n_s32(x);
    return (I32x16){v, v, v, v};
}
static inline I32x16 i32_zero(void) {
    return i32_set(0);
}
static inline I32x16 i32_load(const int32_t *p) {
    return (I32x16){vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
}
static inline void i32_store(int32_t *p, I32x16 x) {
    vst1q_s32(p, x.a);
    vst1q_s32(p + 4, x.b);
    vst1q_s32(p + 8, x.c);
    vst1q_s32(p + 12, x.d);
}
static inline I32x16 i32_add(I32x16 x, I32x16 y) {
    return SIMD_OF_2(I32x16, vaddq_s32, x, y);
}
static inline I32x16 i32_sub(I32x16 x, I32x16 y) {
    return SIMD_OF_2(I32x16, vsubq_s32, x, y);
}
// SSHL and USHL shift left, and right by a negative count. Where the count is a constant, compilers
// take the instructions that hold it.
static inline I32x16 simd_shift_i32(I32x16 x, int left) {
    I32x16 by = i32_set(left);
    return SIMD_OF_2(I32x16, vshlq_s32, x, by);
}
static inline I32x16 i32_shift_right(I32x16 x, int n) {
    return simd_shift_i32(x, -n);
}
static inline I32x16 i32_shift_left(I32x16 x, int n) {
    return simd_shift_i32(x, n);
}
static inline int32x4_t simd_bits(int32x4_t x, int32x4_t shift, uint32x4_t mask) {
    return vreinterpretq_s32_u32(vandq_u32(vshlq_u32(vreinterpretq_u32_s32(x), shift), mask));
}
static inline I32x16 i32_bits(I32x16 x, int from, int count) {
    int32x4_t shift = vdupq_n_s32(-from);
    uint32x4_t mask = vdupq_n_u32((1u << count) - 1);
    return (I32x16){simd_bits(x.a, shift, mask), simd_bits(x.b, shift, mask),
                    simd_bits(x.c, shift, mask), simd_bits(x.d, shift, mask)};
}
static inline int32_t i32_sum(I32x16 x) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(x.a, x.b), vaddq_s32(x.c, x.d)));
}
// Sixteen int16 in two registers, to four of int32.
static inline I32x16 simd_widen(int16x8_t low, int16x8_t high) {
    return (I32x16){vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low),
                    vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
static inline I32x16 i32_from_u8(const uint8_t *p) {
    uint8x16_t bytes = vld1q_u8(p);
    return simd_widen(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))),
                      vreinterpretq_s16_u16(vmovl_high_u8(bytes)));
}
static inline I32x16 i32_from_i8(const uint8_t *p) {
    int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
    return simd_widen(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}
static inline F32x16 f32_from_i32(I32x16 x) {
    return SIMD_OF_1(F32x16, vcvtq_f32_s32, x);
}
// FCVTNS gives 0 for NaN and the nearest int32 for what is too large; simd.h wants INT32_MIN.
static inline int32x4_t simd_to_i32(float32x4_t x) {
    uint32x4_t fits = vcltq_f32(vabsq_f32(x), vdupq_n_f32(0x1p31f));
    return vbslq_s32(fits, vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}
static inline I32x16 f32_to_i32(F32x16 x) {
    return SIMD_OF_1(I32x16, simd_to_i32, x);
}
static inline F32x16 f32_power_of_2(I32x16 n) {
    I32x16 bits = i32_shift_left(i32_add(n, i32_set(127)), 23);
    return SIMD_OF_1(F32x16, vreinterpretq_f32_s32, bits);
}

// ---- int16 ----

static inline I16x32 simd_as_i16(I32x16 x) {
    return SIMD_OF_1(I16x32, vreinterpretq_s16_s32, x);
}
static inline I32x16 simd_as_i32(I16x32 x) {
    return SIMD_OF_1(I32x16, vreinterpretq_s32_s16, x);
}
static inline I16x32 i16_set(int16_t x) {
    int16x8_t v = vdupq_n_s16(x);
    return (I16x32){v, v, v, v};
}
static inline I16x32 i16_load(const void *p) {
    return simd_as_i16(i32_load(p));
}
static inline void i16_store(void *p, I16x32 x) {
    i32_store(p, simd_as_i32(x));
}
static inline int16x8_t simd_narrow(int32x4_t low, int32x4_t high) {
    return vcombine_s16(vmovn_s32(low), vmovn_s32(high));
}
static inline I16x32 i16_from_i32(I32x16 x, I32x16 y) { // 32 that fit
    return (I16x32){simd_narrow(x.a, x.b), simd_narrow(x.c, x.d), simd_narrow(y.a, y.b),
                    simd_narrow(y.c, y.d)};
}
// TBL gives 0 for numbers from 16 on; a negative one, read as unsigned, is such.
static inline int16x8_t simd_pick_bytes(int16x8_t x, int8x16_t pick) {
    return vreinterpretq_s16_s8(vqtbl1q_s8(vreinterpretq_s8_s16(x), vreinterpretq_u8_s8(pick)));
}
static inline I16x32 i16_pick_bytes(I16x32 x, const int8_t numbers[16]) {
    int8x16_t pick = vld1q_s8(numbers);
    return (I16x32){simd_pick_bytes(x.a, pick), simd_pick_bytes(x.b, pick),
                    simd_pick_bytes(x.c, pick), simd_pick_bytes(x.d, pick)};
}
// The even int16 is the lower half of a lane: shifted up and, with its sign, down again.
static inline I32x16 i16_even(I16x32 x) {
    return i32_shift_right(i32_shift_left(simd_as_i32(x), 16), 16);
}
static inline I32x16 i16_odd(I16x32 x) {
    return i32_shift_right(simd_as_i32(x), 16);
}
static inline I16x32 i16_and(I16x32 x, I16x32 y) {
    return SIMD_OF_2(I16x32, vandq_s16, x, y);
}
static inline I16x32 i16_or(I16x32 x, I16x32 y) {
    return SIMD_OF_2(I16x32, vorrq_s16, x, y);
}
static inline I16x32 i16_sub(I16x32 x, I16x32 y) {
    return SIMD_OF_2(I16x32, vsubq_s16, x, y);
}
static inline I16x32 i16_shift_left(I16x32 x, int n) {
    I16x32 by = i16_set((int16_t)n);
    return SIMD_OF_2(I16x32, vshlq_s16, x, by);
}
static inline int16x8_t simd_shift_u16(int16x8_t x, int16x8_t by) {
    return vreinterpretq_s16_u16(vshlq_u16(vreinterpretq_u16_s16(x), by));
}
static inline I16x32 i16_shift_right(I16x32 x, int n) {
    I16x32 by = i16_set((int16_t)-n);
    return SIMD_OF_2(I16x32, simd_shift_u16, x, by);
}
static inline I16x32 i16_shift_signed(I16x32 x, int n) {
    return i16_shift_left(x, -n);
}
static inline I16x32 i16_pair(const void *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return simd_as_i16(i32_set(pair));
}
// Eight products of int32 from the lower and the upper half, neighbours added: ADDP keeps the
// order.
static inline int32x4_t simd_pairs(int16x8_t x, int16x8_t y) {
    return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
static inline I32x16 i32_pairs(I16x32 x, I16x32 y) {
    return SIMD_OF_2(I32x16, simd_pairs, x, y);
}
static inline I32x16 i32_dot(I32x16 acc, I16x32 x, I16x32 y) {
    return i32_add(acc, i32_pairs(x, y));
}

// ---- bytes ----

// Four products to an int32 lane, 64 bytes of each operand.
//     neon      SMULL and SMULL2 give 16 products in int16, ADDP adds neighbours, SADALP adds
//               two of those to a lane. Both factors are signed: numbers of up to 7 bits are what
//               they were, and two products of them, at most 2 * 127 * 128, fit an int16.
//     dotprod   SDOT, signed too
//     i8mm      USDOT: unsigned times signed, so 8 bits as well
typedef I32x16 ByteSums;
static inline int byte_sums_run(int bits) {
#if defined(ISA_i8mm)
    (void)bits;
    return 8;
#else
    return bits <= 7 ? 8 : 0;
#endif
}
static inline int32x4_t simd_dot_bytes(int32x4_t acc, int16x8_t u8, int16x8_t s8) {
    int8x16_t y = vreinterpretq_s8_s16(s8);
#if defined(ISA_i8mm)
    return vusdotq_s32(acc, vreinterpretq_u8_s16(u8), y);
#elif defined(ISA_dotprod)
    return vdotq_s32(acc, vreinterpretq_s8_s16(u8), y);
#else
    int8x16_t x = vreinterpretq_s8_s16(u8);
    int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y)), high = vmull_high_s8(x, y);
    return vpadalq_s16(acc, vpaddq_s16(low, high));
#endif
}
static inline ByteSums byte_sums_add(ByteSums acc, I16x32 u8, I16x32 s8) {
    return SIMD_OF_3(ByteSums, simd_dot_bytes, acc, u8, s8);
}
static inline ByteSums byte_sums_zero(void) {
    return i32_zero();
}
static inline I32x16 byte_sums_i32(ByteSums sums) {
    return sums;
}
static inline I32x16 byte_sums_join(ByteSums high, ByteSums low) {
    return i32_add(i32_shift_left(high, 8), low);
}

#undef SIMD_OF_1
#undef SIMD_OF_2
#undef SIMD_OF_3
