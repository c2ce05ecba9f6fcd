// How blocks are made: bit-equal to ggml's reference quantisers. The scale d is rounded to a half
// only after its inverse was taken in float32, so quantising twice may differ from quantising once.
//
// Each quantiser follows the same steps: a scale d from the extremes of the block, its inverse, the
// integers, then the bytes in the order that unpack.c draws. The formulas are those of ggml's
// quantize_row_*_ref (https://github.com/ggml-org/ggml, src/ggml-quants.c), including the order of
// the operations and the way they round:
//
//    Q4_0, Q5_0   d = x_max / -8, / -16       q = floor(x / d + 8.5), + 16.5
//    Q4_1, Q5_1   d = (max - min) / 15, / 31  q = floor((x - min) / d + 0.5)
//    Q8_0         d = |x_max| / 127           q = round(x / d), half away from zero
//
// x_max is the value of the largest magnitude, with its sign; x / d is computed as x * (1 / d).
// There is no such quantiser for K-quants, whose scales ggml searches for: see rounding/, which
// convert uses for all types.
#include "weights/quant.h"
#include "weights/rounding/rounding.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

static void store_u16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

static void store_half(uint8_t *p, float value) {
    store_u16(p, float_to_half(value));
}

// 0 for a block of zeros, whose integers then all stand for zero.
static float inverse(float d) {
    return d != 0.0f ? 1.0f / d : 0.0f;
}

// Truncates towards zero into 0 .. top, as ggml's cast to int8_t does; the caller has added 0.5.
// NaN, and values made by an infinite inverse, end at an edge of the range. (The conversion of such
// a float to int would be undefined.)
static uint8_t level(float x, int top) {
    if (!(x > 0.0f)) return 0;
    return (uint8_t)(x < (float)top ? (int)x : top);
}

static float largest(const float *in) { // by magnitude, with its sign; the first of equals
    float max = 0.0f;
    for (int i = 0; i < 32; i++)
        if (fabsf(in[i]) > fabsf(max)) max = in[i];
    return max;
}

// Smallest and largest value of a block. NaN compares false, so it is passed over.
static void extremes(const float *in, float *min, float *max) {
    *min = FLT_MAX;
    *max = -FLT_MAX;
    for (int i = 0; i < 32; i++) {
        if (in[i] < *min) *min = in[i];
        if (in[i] > *max) *max = in[i];
    }
}

// The float types: blocks of one element, little-endian on every machine.
static void f32_make(uint8_t *b, const float *in) {
    uint32_t bits;
    memcpy(&bits, in, sizeof bits);
    store_u16(b, (uint16_t)bits);
    store_u16(b + 2, (uint16_t)(bits >> 16));
}

static void f16_make(uint8_t *b, const float *in) {
    store_half(b, *in);
}
static void bf16_make(uint8_t *b, const float *in) {
    store_u16(b, float_to_bf16(*in));
}

// Symmetric: integers 0 .. 2 half - 1 around the centre `half`. The value of the largest magnitude
// becomes 0, that is -half after centring: the side with one level more serves the larger side of
// the values. A value of opposite sign and nearly the same magnitude would need level 2 half and is
// clipped to 2 half - 1.
static void symmetric(uint8_t *b, uint8_t *q, const float *in, int half) {
    float d = largest(in) / (float)-half, id = inverse(d);
    store_half(b, d);
    for (int i = 0; i < 32; i++)
        q[i] = level(in[i] * id + ((float)half + 0.5f), 2 * half - 1);
}

// Affine: the smallest value becomes 0, the largest the top level; the file keeps min as the
// offset.
static void affine(uint8_t *b, uint8_t *q, const float *in, int top) {
    float min, max;
    extremes(in, &min, &max);
    float d = (max - min) / (float)top, id = inverse(d);
    store_half(b, d);
    store_half(b + 2, min);
    for (int i = 0; i < 32; i++)
        q[i] = level((in[i] - min) * id + 0.5f, top);
}

// From here on one function per type; the offsets into b are those of unpack.c's drawings.
static void q4_0_make(uint8_t *b, const float *in) {
    uint8_t q[32];
    symmetric(b, q, in, 8);
    pack_nibbles(b + 2, q);
}

static void q4_1_make(uint8_t *b, const float *in) {
    uint8_t q[32];
    affine(b, q, in, 15);
    pack_nibbles(b + 4, q);
}

static void q5_0_make(uint8_t *b, const float *in) {
    uint8_t q[32];
    symmetric(b, q, in, 16);
    pack_fifth_bits(b + 2, q);
    pack_nibbles(b + 6, q);
}

static void q5_1_make(uint8_t *b, const float *in) {
    uint8_t q[32];
    affine(b, q, in, 31);
    pack_fifth_bits(b + 4, q);
    pack_nibbles(b + 8, q);
}

static void q8_0_make(uint8_t *b, const float *in) {
    float d = fabsf(largest(in)) / 127.0f, id = inverse(d);
    store_half(b, d);
    for (int i = 0; i < 32; i++) {
        float q = roundf(in[i] * id); // half away from zero
        // Beyond 127 only where d underflowed and its inverse is infinite, or x is not finite.
        b[2 + i] = (uint8_t)(int8_t)(q >= -127.0f && q <= 127.0f ? q : 0.0f);
    }
}

// NULL: the type has no quantiser.
static void (*const MAKE_BLOCK[DTYPE_COUNT])(uint8_t *block, const float *in) = {
    [DTYPE_F32] = f32_make,   [DTYPE_F16] = f16_make,   [DTYPE_BF16] = bf16_make,
    [DTYPE_Q4_0] = q4_0_make, [DTYPE_Q4_1] = q4_1_make, [DTYPE_Q5_0] = q5_0_make,
    [DTYPE_Q5_1] = q5_1_make, [DTYPE_Q8_0] = q8_0_make,
};

bool quantise(void *blocks, DType dtype, const float *in, size_t count) {
    const DTypeInfo *info = dtype_info(dtype);
    uint8_t *block = blocks;
    if (!MAKE_BLOCK[dtype]) return false;
    assert(count % info->block == 0);
    for (size_t i = 0; i < count; i += info->block, block += info->block_bytes)
        MAKE_BLOCK[dtype](block, in + i);
    return true;
}
