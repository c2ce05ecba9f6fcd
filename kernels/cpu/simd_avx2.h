// The operations of simd.h on AVX2 with FMA and F16C: two registers each. simd.h and simd_avx512.h
// define them.
#pragma once

#include <immintrin.h>

typedef struct F32x16 {
    __m256 a, b; // lanes 0 .. 7 and 8 .. 15
} F32x16;
typedef struct I32x16 {
    __m256i a, b;
} I32x16;
typedef I32x16 I16x32;
typedef F32x16 Mask16;

// A mask for maskload: the first `count` of 8 lanes.
static inline __m256i simd_first(size_t count) {
    int n = count < 8 ? (int)count : 8;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
// The same for lanes 8 .. 15 of sixteen.
static inline __m256i simd_rest(size_t count) {
    return simd_first(count < 8 ? 0 : count - 8);
}

// ---- floats ----

static inline F32x16 f32_zero(void) {
    return (F32x16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline F32x16 f32_set(float x) {
    __m256 v = _mm256_set1_ps(x);
    return (F32x16){v, v};
}
static inline F32x16 f32_load(const float *p) {
    return (F32x16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline void f32_store(float *p, F32x16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline F32x16 f32_load_part(const float *p, size_t count) {
    return (F32x16){_mm256_maskload_ps(p, simd_first(count)),
                    _mm256_maskload_ps(p + 8, simd_rest(count))};
}
// maskload and maskstore do not touch memory where the mask is 0: a page behind the array need not
// exist.
static inline void f32_store_part(float *p, F32x16 x, size_t count) {
    _mm256_maskstore_ps(p, simd_first(count), x.a);
    _mm256_maskstore_ps(p + 8, simd_rest(count), x.b);
}
static inline F32x16 f32_add(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline F32x16 f32_sub(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline F32x16 f32_mul(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline F32x16 f32_div(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline F32x16 f32_max(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
static inline F32x16 f32_min(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
static inline F32x16 f32_abs(F32x16 x) {
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (F32x16){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
static inline F32x16 f32_sqrt(F32x16 x) {
    return (F32x16){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}
static inline F32x16 f32_fma(F32x16 x, F32x16 y, F32x16 z) {
    return (F32x16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
static inline F32x16 f32_round(F32x16 x) {
    return (F32x16){_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                    _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline F32x16 f32_truncate(F32x16 x) {
    return (F32x16){_mm256_round_ps(x.a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
                    _mm256_round_ps(x.b, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
}
static inline F32x16 f32_from_half(const uint16_t *p) {
    return (F32x16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
static inline void f32_to_half(uint16_t *p, F32x16 x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
// float_to_bf16 (weights/quant.c) of eight lanes.
// Adding 0x7fff, and 1 more where the last bit that stays is odd, carries into the upper half
// exactly where rounding to nearest, ties to even, goes up. All numbers are then below 2^16, where
// packus does not clamp.
static inline __m128i simd_to_bf16(__m256 x) {
    __m256i bits = _mm256_castps_si256(x), top = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i nearest = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(64)); // NaN
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i h = _mm256_blendv_epi8(nearest, quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}
static inline void f32_to_bf16(uint16_t *p, F32x16 x) {
    _mm_storeu_si128((__m128i *)p, simd_to_bf16(x.a));
    _mm_storeu_si128((__m128i *)(p + 8), simd_to_bf16(x.b));
}
static inline __m256 simd_bf16(const uint16_t *p) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
static inline F32x16 f32_from_bf16(const uint16_t *p) {
    return (F32x16){simd_bf16(p), simd_bf16(p + 8)};
}
static inline F32x16 f32_interleave_low(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_unpacklo_ps(x.a, y.a), _mm256_unpacklo_ps(x.b, y.b)};
}
static inline F32x16 f32_interleave_high(F32x16 x, F32x16 y) {
    return (F32x16){_mm256_unpackhi_ps(x.a, y.a), _mm256_unpackhi_ps(x.b, y.b)};
}
// Of two registers 0x20 takes the lower groups of four lanes, 0x31 the upper ones.
static inline void f32_transpose_groups(F32x16 x[4]) {
    F32x16 p = x[0], q = x[1], r = x[2], s = x[3];
    x[0] = (F32x16){_mm256_permute2f128_ps(p.a, q.a, 0x20), _mm256_permute2f128_ps(r.a, s.a, 0x20)};
    x[1] = (F32x16){_mm256_permute2f128_ps(p.a, q.a, 0x31), _mm256_permute2f128_ps(r.a, s.a, 0x31)};
    x[2] = (F32x16){_mm256_permute2f128_ps(p.b, q.b, 0x20), _mm256_permute2f128_ps(r.b, s.b, 0x20)};
    x[3] = (F32x16){_mm256_permute2f128_ps(p.b, q.b, 0x31), _mm256_permute2f128_ps(r.b, s.b, 0x31)};
}
//    8 lanes:  i + (i + 8)       across the two registers
//    4 lanes:  i + (i + 4)       across the halves of one
//    2, 1:     movehl brings lanes 2 and 3 down to 0 and 1, movehdup lane 1 to lane 0
static inline float f32_sum(F32x16 x) {
    __m256 a = _mm256_add_ps(x.a, x.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float f32_largest(F32x16 x) {
    __m256 a = _mm256_max_ps(x.a, x.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

// ---- comparing ----

static inline Mask16 f32_less(F32x16 x, F32x16 y) {
    return (Mask16){_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
// A lane of a mask is all ones or all zeros; blendv and movemask look at its sign bit.
static inline F32x16 f32_choose(Mask16 mask, F32x16 yes, F32x16 no) {
    return (F32x16){_mm256_blendv_ps(no.a, yes.a, mask.a), _mm256_blendv_ps(no.b, yes.b, mask.b)};
}
static inline uint32_t mask_bits(Mask16 mask) {
    return (uint32_t)_mm256_movemask_ps(mask.a) | (uint32_t)_mm256_movemask_ps(mask.b) << 8;
}

// ---- int32 ----

static inline I32x16 i32_zero(void) {
    return (I32x16){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
static inline I32x16 i32_set(int32_t x) {
    __m256i v = _mm256_set1_epi32(x);
    return (I32x16){v, v};
}
static inline I32x16 i32_load(const int32_t *p) {
    return (I32x16){_mm256_loadu_si256((const __m256i *)p),
                    _mm256_loadu_si256((const __m256i *)(p + 8))};
}
static inline void i32_store(int32_t *p, I32x16 x) {
    _mm256_storeu_si256((__m256i *)p, x.a);
    _mm256_storeu_si256((__m256i *)(p + 8), x.b);
}
static inline I32x16 i32_add(I32x16 x, I32x16 y) {
    return (I32x16){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
static inline I32x16 i32_sub(I32x16 x, I32x16 y) {
    return (I32x16){_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
static inline I32x16 i32_shift_right(I32x16 x, int n) {
    return (I32x16){_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
static inline I32x16 i32_shift_left(I32x16 x, int n) {
    return (I32x16){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
static inline I32x16 i32_bits(I32x16 x, int from, int count) {
    const __m128i shift = _mm_cvtsi32_si128(from);
    const __m256i mask = _mm256_set1_epi32((1 << count) - 1);
    return (I32x16){_mm256_and_si256(_mm256_srl_epi32(x.a, shift), mask),
                    _mm256_and_si256(_mm256_srl_epi32(x.b, shift), mask)};
}
// 0x4e swaps the halves of four lanes, 0xb1 swaps neighbours. Integers: any order gives the same
// sum.
static inline int32_t i32_sum(I32x16 x) {
    __m256i a = _mm256_add_epi32(x.a, x.b);
    __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1)));
}
static inline I32x16 i32_from_u8(const uint8_t *p) {
    return (I32x16){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                    _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}
static inline I32x16 i32_from_i8(const uint8_t *p) {
    return (I32x16){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                    _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}
static inline F32x16 f32_from_i32(I32x16 x) {
    return (F32x16){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
static inline I32x16 f32_to_i32(F32x16 x) {
    return (I32x16){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
static inline F32x16 f32_power_of_2(I32x16 n) {
    I32x16 e = i32_add(n, i32_set(127));
    return (F32x16){_mm256_castsi256_ps(_mm256_slli_epi32(e.a, 23)),
                    _mm256_castsi256_ps(_mm256_slli_epi32(e.b, 23))};
}

// ---- int16 ----

static inline I16x32 i16_set(int16_t x) {
    __m256i v = _mm256_set1_epi16(x);
    return (I16x32){v, v};
}
static inline I16x32 i16_load(const void *p) {
    return i32_load(p);
}
static inline void i16_store(void *p, I16x32 x) {
    i32_store(p, x);
}
// 32 that fit. packs works in each half of a register by itself; the permutation puts the quarters
// in order:
//    packs:   a 0..3 | b 0..3 | a 4..7 | b 4..7      0xd8: quarters 0, 2, 1, 3
static inline I16x32 i16_from_i32(I32x16 x, I32x16 y) {
    return (I16x32){_mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8),
                    _mm256_permute4x64_epi64(_mm256_packs_epi32(y.a, y.b), 0xd8)};
}
static inline I16x32 i16_pick_bytes(I16x32 x, const int8_t numbers[16]) {
    __m256i pick = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)numbers));
    return (I16x32){_mm256_shuffle_epi8(x.a, pick), _mm256_shuffle_epi8(x.b, pick)};
}
// The even int16 is the lower half of a lane: shifted up and, with its sign, down again.
static inline I32x16 i16_even(I16x32 x) {
    return i32_shift_right(i32_shift_left(x, 16), 16);
}
static inline I32x16 i16_odd(I16x32 x) {
    return i32_shift_right(x, 16);
}
static inline I16x32 i16_and(I16x32 x, I16x32 y) {
    return (I16x32){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
static inline I16x32 i16_or(I16x32 x, I16x32 y) {
    return (I16x32){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
static inline I16x32 i16_sub(I16x32 x, I16x32 y) {
    return (I16x32){_mm256_sub_epi16(x.a, y.a), _mm256_sub_epi16(x.b, y.b)};
}
static inline I16x32 i16_shift_left(I16x32 x, int n) {
    return (I16x32){_mm256_slli_epi16(x.a, n), _mm256_slli_epi16(x.b, n)};
}
static inline I16x32 i16_shift_right(I16x32 x, int n) {
    return (I16x32){_mm256_srli_epi16(x.a, n), _mm256_srli_epi16(x.b, n)};
}
static inline I16x32 i16_shift_signed(I16x32 x, int n) {
    return (I16x32){_mm256_srai_epi16(x.a, n), _mm256_srai_epi16(x.b, n)};
}
static inline I16x32 i16_pair(const void *p) {
    typedef int32_t __attribute__((aligned(2), may_alias)) Pair; // a memcpy is a call under ASan
    return i32_set(*(const Pair *)p);
}
// From plain additions gcc 12 makes all products of an unrolled loop first and keeps them in
// memory. So a sum is added to in the order written, for a tile also in its own register.
static inline __m256i simd_in_order(__m256i sum) {
    __asm__("" : "+x"(sum));
    return sum;
}
static inline __m256i simd_add_to(__m256i sum, __m256i x) {
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(x));
    return sum;
}
static inline I32x16 i32_pairs(I16x32 x, I16x32 y) {
    return (I32x16){_mm256_madd_epi16(x.a, y.a), _mm256_madd_epi16(x.b, y.b)};
}
// AVX2 has no instruction that multiplies and adds to a sum: two here, where VNNI has one.
static inline I32x16 i32_dot(I32x16 acc, I16x32 x, I16x32 y) {
    return (I32x16){simd_add_to(acc.a, _mm256_madd_epi16(x.a, y.a)),
                    simd_add_to(acc.b, _mm256_madd_epi16(x.b, y.b))};
}

// ---- bytes ----

// int16 lanes, two to a row: |sum| <= run * 2 * (2^bits - 1) * 128 must fit.
// maddubs multiplies unsigned with signed bytes and adds neighbours into int16, saturating. The
// bound above keeps every sum from that: 8 vectors of 4 bits are at most 30,720, 4 of 5 bits
// 31,744, 2 of 6 bits 32,256. A single pair of 8 bits may be 65,280, hence 0.
typedef I16x32 ByteSums;
static inline int byte_sums_run(int bits) {
    return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 0;
}
static inline ByteSums byte_sums_add(ByteSums acc, I16x32 u8, I16x32 s8) {
    return (ByteSums){simd_in_order(_mm256_add_epi16(acc.a, _mm256_maddubs_epi16(u8.a, s8.a))),
                      simd_in_order(_mm256_add_epi16(acc.b, _mm256_maddubs_epi16(u8.b, s8.b)))};
}
static inline ByteSums byte_sums_zero(void) {
    return i32_zero();
}
// The two int16 of a row, added up.
static inline I32x16 byte_sums_i32(ByteSums sums) {
    return i32_pairs(sums, i16_set(1));
}
static inline I32x16 byte_sums_join(ByteSums high, ByteSums low) {
    return i32_dot(i32_dot(i32_zero(), high, i16_set(256)), low, i16_set(1));
}
