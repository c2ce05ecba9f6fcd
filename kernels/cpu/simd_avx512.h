// The operations of simd.h on AVX-512 (F, BW, VL, DQ, VNNI, BF16): one register each.
#pragma once

#include <immintrin.h>

typedef __m512 F32x16;
typedef __m512i I32x16;
typedef __m512i I16x32;
typedef __mmask16 Mask16;

static inline __mmask16 simd_first(size_t count) {
    return count >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1);
}

// ---- floats ----

static inline F32x16 f32_zero(void) {
    return _mm512_setzero_ps();
}
static inline F32x16 f32_set(float x) {
    return _mm512_set1_ps(x);
}
static inline F32x16 f32_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void f32_store(float *p, F32x16 x) {
    _mm512_storeu_ps(p, x);
}
// The first `count` (at most 16) floats; the lanes beyond are 0 and their memory is not touched.
static inline F32x16 f32_load_part(const float *p, size_t count) {
    return _mm512_maskz_loadu_ps(simd_first(count), p);
}
static inline void f32_store_part(float *p, F32x16 x, size_t count) {
    _mm512_mask_storeu_ps(p, simd_first(count), x);
}
static inline F32x16 f32_add(F32x16 a, F32x16 b) {
    return _mm512_add_ps(a, b);
}
static inline F32x16 f32_sub(F32x16 a, F32x16 b) {
    return _mm512_sub_ps(a, b);
}
static inline F32x16 f32_mul(F32x16 a, F32x16 b) {
    return _mm512_mul_ps(a, b);
}
static inline F32x16 f32_div(F32x16 a, F32x16 b) {
    return _mm512_div_ps(a, b);
}
static inline F32x16 f32_max(F32x16 a, F32x16 b) {
    return _mm512_max_ps(a, b);
}
static inline F32x16 f32_min(F32x16 a, F32x16 b) {
    return _mm512_min_ps(a, b);
}
static inline F32x16 f32_abs(F32x16 a) {
    return _mm512_abs_ps(a);
}
static inline F32x16 f32_sqrt(F32x16 a) {
    return _mm512_sqrt_ps(a);
}
// a * b + c, rounded once.
static inline F32x16 f32_fma(F32x16 a, F32x16 b, F32x16 c) {
    return _mm512_fmadd_ps(a, b, c);
}
// To the nearest integer, ties to even.
static inline F32x16 f32_round(F32x16 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// To the next integer towards 0.
static inline F32x16 f32_truncate(F32x16 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
static inline F32x16 f32_from_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
static inline void f32_to_half(uint16_t *p, F32x16 x) {
    __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((__m256i *)p, h);
}
// float_to_bf16 (weights/quant.c); the processor's own conversion loses subnormal numbers.
// Adding 0x7fff, and 1 more where the last bit that stays is odd, carries into the upper half
// exactly where rounding to nearest, ties to even, goes up.
static inline void f32_to_bf16(uint16_t *p, F32x16 x) {
    __m512i bits = _mm512_castps_si512(x), top = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    __m512i nearest = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    __m512i quiet = _mm512_or_si512(top, _mm512_set1_epi32(64)); // NaN
    Mask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i h = _mm512_mask_blend_epi32(nan, nearest, quiet);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(h));
}
static inline F32x16 f32_from_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
static inline F32x16 f32_interleave_low(F32x16 a, F32x16 b) {
    return _mm512_unpacklo_ps(a, b);
}
static inline F32x16 f32_interleave_high(F32x16 a, F32x16 b) {
    return _mm512_unpackhi_ps(a, b);
}
// Of two vectors 0x44 takes groups 0 and 1 of each, 0xee groups 2 and 3, 0x88 the even groups, 0xdd
// the odd ones.
static inline void f32_transpose_groups(F32x16 x[4]) {
    __m512 a = _mm512_shuffle_f32x4(x[0], x[1], 0x44), b = _mm512_shuffle_f32x4(x[2], x[3], 0x44);
    __m512 c = _mm512_shuffle_f32x4(x[0], x[1], 0xee), d = _mm512_shuffle_f32x4(x[2], x[3], 0xee);
    x[0] = _mm512_shuffle_f32x4(a, b, 0x88);
    x[1] = _mm512_shuffle_f32x4(a, b, 0xdd);
    x[2] = _mm512_shuffle_f32x4(c, d, 0x88);
    x[3] = _mm512_shuffle_f32x4(c, d, 0xdd);
}
// Halves as simd.h says: 16 lanes to 8, 4, 2, 1.
static inline float f32_sum(F32x16 x) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
static inline float f32_largest(F32x16 x) {
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

// ---- comparing ----

static inline Mask16 f32_less(F32x16 a, F32x16 b) { // false where either is NaN
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline F32x16 f32_choose(Mask16 mask, F32x16 yes, F32x16 no) {
    return _mm512_mask_blend_ps(mask, no, yes);
}
static inline uint32_t mask_bits(Mask16 mask) {
    return mask;
} // lane i in bit i

// ---- int32 ----

static inline I32x16 i32_zero(void) {
    return _mm512_setzero_si512();
}
static inline I32x16 i32_set(int32_t x) {
    return _mm512_set1_epi32(x);
}
static inline I32x16 i32_load(const int32_t *p) {
    return _mm512_loadu_si512(p);
}
static inline void i32_store(int32_t *p, I32x16 x) {
    _mm512_storeu_si512(p, x);
}
static inline I32x16 i32_add(I32x16 a, I32x16 b) {
    return _mm512_add_epi32(a, b);
}
static inline I32x16 i32_sub(I32x16 a, I32x16 b) {
    return _mm512_sub_epi32(a, b);
}
// Arithmetic shift; `count` is a constant.
static inline I32x16 i32_shift_right(I32x16 a, int count) {
    return _mm512_srai_epi32(a, (unsigned)count);
}
static inline I32x16 i32_shift_left(I32x16 a, int count) {
    return _mm512_slli_epi32(a, (unsigned)count);
}
// Bits from .. from + count - 1, count below 32; `from` need not be a constant.
static inline I32x16 i32_bits(I32x16 a, int from, int count) {
    return _mm512_and_si512(_mm512_srl_epi32(a, _mm_cvtsi32_si128(from)),
                            _mm512_set1_epi32((1 << count) - 1));
}
static inline int32_t i32_sum(I32x16 a) {
    return _mm512_reduce_add_epi32(a);
}
static inline I32x16 i32_from_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
static inline I32x16 i32_from_i8(const uint8_t *p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}
static inline F32x16 f32_from_i32(I32x16 a) {
    return _mm512_cvtepi32_ps(a);
}
// Nearest, ties to even; INT32_MIN where it does not fit.
static inline I32x16 f32_to_i32(F32x16 a) {
    return _mm512_cvtps_epi32(a);
}
// 2^n for -126 <= n <= 127.
static inline F32x16 f32_power_of_2(I32x16 n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}

// ---- int16 ----

static inline I16x32 i16_set(int16_t x) {
    return _mm512_set1_epi16(x);
}
static inline I16x32 i16_load(const void *p) {
    return _mm512_loadu_si512(p);
}
static inline void i16_store(void *p, I16x32 x) {
    _mm512_storeu_si512(p, x);
}
// 32 that fit. packs takes a quarter of each in turn; the permutation puts those of `a` first.
static inline I16x32 i16_from_i32(I32x16 a, I32x16 b) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7),
                                    _mm512_packs_epi32(a, b));
}
// Each 16 bytes become those with these numbers, 0 .. 15, of them; 0 where the number is negative.
static inline I16x32 i16_pick_bytes(I16x32 a, const int8_t numbers[16]) {
    __m128i pick = _mm_loadu_si128((const __m128i *)numbers);
    return _mm512_shuffle_epi8(a, _mm512_broadcast_i32x4(pick));
}
// The even or the odd ones, widened.
// In each lane the even int16 is the lower half; it is shifted up and, with its sign, down again.
static inline I32x16 i16_even(I16x32 a) {
    return i32_shift_right(i32_shift_left(a, 16), 16);
}
static inline I32x16 i16_odd(I16x32 a) {
    return i32_shift_right(a, 16);
}
static inline I16x32 i16_and(I16x32 a, I16x32 b) {
    return _mm512_and_si512(a, b);
}
static inline I16x32 i16_or(I16x32 a, I16x32 b) {
    return _mm512_or_si512(a, b);
}
static inline I16x32 i16_sub(I16x32 a, I16x32 b) {
    return _mm512_sub_epi16(a, b);
}
// Shifts by a constant: zeros come in, but i16_shift_signed copies the sign.
static inline I16x32 i16_shift_left(I16x32 a, int n) {
    return _mm512_slli_epi16(a, (unsigned)n);
}
static inline I16x32 i16_shift_right(I16x32 a, int n) {
    return _mm512_srli_epi16(a, (unsigned)n);
}
static inline I16x32 i16_shift_signed(I16x32 a, int n) {
    return _mm512_srai_epi16(a, (unsigned)n);
}
// Two neighbouring int16 in every lane.
static inline I16x32 i16_pair(const void *p) {
    typedef int32_t __attribute__((aligned(2), may_alias)) Pair; // a memcpy is a call under ASan
    return _mm512_set1_epi32(*(const Pair *)p);
}
// a[2i] b[2i] + a[2i+1] b[2i+1]: where a sum begins.
static inline I32x16 i32_pairs(I16x32 a, I16x32 b) {
    return _mm512_madd_epi16(a, b);
}
// acc[i] + a[2i] b[2i] + a[2i+1] b[2i+1], exact as long as it fits.
// One VNNI instruction; AVX2 needs a multiplication and an addition.
static inline I32x16 i32_dot(I32x16 acc, I16x32 a, I16x32 b) {
    return _mm512_dpwssd_epi32(acc, a, b);
}

// ---- bytes ----

// Sums of products of 64 unsigned with 64 signed bytes, four to each of sixteen rows, in lanes as
// wide as the instruction set likes. They hold the products of `run` vectors of `bits`-bit numbers,
// 0: not even of one.
typedef I32x16 ByteSums;
static inline int byte_sums_run(int bits) {
    (void)bits;
    return 8;
}
// VNNI adds four products to an int32 lane. 8 vectors of 8 bits are at most 8 * 4 * 255 * 128, some
// 2^20.
static inline ByteSums byte_sums_add(ByteSums acc, I16x32 u8, I16x32 s8) {
    return _mm512_dpbusd_epi32(acc, u8, s8);
}
static inline ByteSums byte_sums_zero(void) {
    return i32_zero();
}
static inline I32x16 byte_sums_i32(ByteSums sums) {
    return sums;
}
// 256 high + low: what two digits of the signed factor, summed apart, come to.
static inline I32x16 byte_sums_join(ByteSums high, ByteSums low) {
    return i32_add(i32_shift_left(high, 8), low);
}
