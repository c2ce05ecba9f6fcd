// What the elements of each block are. Layouts are drawn in stored order, one cell a byte unless it
// says otherwise; d, m, dmin are halves, little-endian. "q" counts from 0 in every type.
//
// Bit-equal to ggml: float32, products from left to right, nothing contracted (-ffp-contract=off).
#include "weights/quant_blocks.h"
#include "weights/bytes.h"

static float half_at(const uint8_t *p) {
    return half_to_float(load_u16(p));
}

static void f32_block(float *out, const uint8_t *b) {
    *out = load_f32(b);
}
static void f16_block(float *out, const uint8_t *b) {
    *out = half_at(b);
}
static void bf16_block(float *out, const uint8_t *b) {
    *out = bf16_to_float(load_u16(b));
}

// Q4_0, 18 bytes: | d d | qs[16] |     qs[j]: low nibble element j, high nibble element j + 16
//   x = (q - 8) d
static void q4_0_block(float *out, const uint8_t *b) {
    float d = half_at(b);
    const uint8_t *qs = b + 2;
    for (int j = 0; j < 16; j++) {
        out[j] = (float)((qs[j] & 15) - 8) * d;
        out[j + 16] = (float)((qs[j] >> 4) - 8) * d;
    }
}

// Q4_1, 20 bytes: | d d | m m | qs[16] |     x = q d + m
static void q4_1_block(float *out, const uint8_t *b) {
    float d = half_at(b), m = half_at(b + 2);
    const uint8_t *qs = b + 4;
    for (int j = 0; j < 16; j++) {
        out[j] = (float)(qs[j] & 15) * d + m;
        out[j + 16] = (float)(qs[j] >> 4) * d + m;
    }
}

// The fifth bits of Q5_0 and Q5_1: bit i of qh (32 bits) is bit 4 of element i.
static int five_bits(const uint8_t *qs, uint32_t qh, int i) {
    int nibble = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
    return nibble | (int)(qh >> i & 1) << 4;
}

// Q5_0, 22 bytes: | d d | qh[4] | qs[16] |     x = (q - 16) d
static void q5_0_block(float *out, const uint8_t *b) {
    float d = half_at(b);
    uint32_t qh = load_u32(b + 2);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(five_bits(b + 6, qh, i) - 16) * d;
}

// Q5_1, 24 bytes: | d d | m m | qh[4] | qs[16] |     x = q d + m
static void q5_1_block(float *out, const uint8_t *b) {
    float d = half_at(b), m = half_at(b + 2);
    uint32_t qh = load_u32(b + 4);
    for (int i = 0; i < 32; i++)
        out[i] = (float)five_bits(b + 8, qh, i) * d + m;
}

// Q8_0, 34 bytes: | d d | qs[32] signed |     x = q d
static void q8_0_block(float *out, const uint8_t *b) {
    float d = half_at(b);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

// The two-bit field of element i of 256 (Q2_K, Q3_K): each 32 bytes hold 128 elements, the bytes
// running within a plane of 32 and the planes being the bit pairs 0-1, 2-3, 4-5, 6-7.
static int two_bits(const uint8_t *qs, int i) {
    return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

// Q2_K, 84 bytes: | scales[16] | qs[64] | d d | dmin dmin |
//   16 groups of 16; scales[g]: low nibble sc, high nibble sm;  x = d sc q - dmin sm
static void q2_k_block(float *out, const uint8_t *b) {
    float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int g = 0; g < 16; g++) {
        float scale = d * (float)(b[g] & 15), offset = dmin * (float)(b[g] >> 4);
        for (int i = g * 16; i < g * 16 + 16; i++)
            out[i] = scale * (float)two_bits(b + 16, i) - offset;
    }
}

// Q3_K, 110 bytes: | hmask[32] | qs[64] | scales[12] | d d |
//   16 groups of 16 with six-bit scales: the low four bits of scale g are a nibble of scales[g % 8]
//   (low for g < 8), the high two are bit pair g / 4 of scales[8 + g % 4].
//   Bit i / 32 of hmask[i % 32] is the third bit of element i.  x = d (sc - 32) (q - 4)
static void q3_k_block(float *out, const uint8_t *b) {
    const uint8_t *scales = b + 96;
    float d = half_at(b + 108);
    for (int g = 0; g < 16; g++) {
        int low = scales[g % 8] >> (g / 8 * 4) & 15, high = scales[8 + g % 4] >> (g / 4 * 2) & 3;
        float scale = d * (float)((low | high << 4) - 32);
        for (int i = g * 16; i < g * 16 + 16; i++) {
            int third = b[i % 32] >> (i / 32) & 1;
            out[i] = scale * (float)(two_bits(b + 32, i) - (third ? 0 : 4));
        }
    }
}

// Scale and minimum j of 8, six bits each, in the 12 bytes of Q4_K and Q5_K:
//   bytes 0-3:  sc[j] in bits 0-5,    bits 4-5 of sc[j + 4] in bits 6-7      j = 0 .. 3
//   bytes 4-7:  sm[j] in bits 0-5,    bits 4-5 of sm[j + 4] in bits 6-7
//   bytes 8-11: bits 0-3 of sc[j + 4] in the low nibble, of sm[j + 4] in the high one
static void six_bits(const uint8_t *s, int j, int *scale, int *minimum) {
    if (j < 4) {
        *scale = s[j] & 63;
        *minimum = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *minimum = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

// Q4_K, 144 bytes: | d d | dmin dmin | scales[12] | qs[128] |     8 groups of 32
//   qs[32 k + l]: low nibble element 64 k + l, high nibble element 64 k + 32 + l
//   x = d sc q - dmin sm
// Q5_K, 176 bytes: | d d | dmin dmin | scales[12] | qh[32] | qs[128] |
//   bit g of qh[l] is bit 4 of element 32 g + l
static void q45_k_block(float *out, const uint8_t *b, const uint8_t *qh, const uint8_t *qs) {
    float d = half_at(b), dmin = half_at(b + 2);
    for (int g = 0; g < 8; g++) {
        int sc, sm;
        six_bits(b + 4, g, &sc, &sm);
        float scale = d * (float)sc, offset = dmin * (float)sm;
        for (int l = 0; l < 32; l++) {
            int q = qs[g / 2 * 32 + l] >> (g % 2 * 4) & 15;
            if (qh) q |= (qh[l] >> g & 1) << 4;
            out[g * 32 + l] = scale * (float)q - offset;
        }
    }
}

static void q4_k_block(float *out, const uint8_t *b) {
    q45_k_block(out, b, NULL, b + 16);
}
static void q5_k_block(float *out, const uint8_t *b) {
    q45_k_block(out, b, b + 16, b + 48);
}

// Q6_K, 210 bytes: | ql[128] | qh[64] | scales[16] signed | d d |     16 groups of 16
//   of each 128 elements (64 bytes of ql, 32 of qh), plane p = 0 .. 3 of 32 elements, l = 0 .. 31:
//   low four bits: ql[32 (p % 2) + l], low nibble for p < 2; high two: bit pair p of qh[l]
//   x = d sc (q - 32)
static void q6_k_block(float *out, const uint8_t *b) {
    float d = half_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int plane = i % 128 / 32, l = i % 32;
        int low = b[i / 128 * 64 + plane % 2 * 32 + l] >> (plane / 2 * 4) & 15;
        int high = b[128 + i / 128 * 32 + l] >> (plane * 2) & 3;
        out[i] = d * (float)(int8_t)b[192 + i / 16] * (float)((low | high << 4) - 32);
    }
}

void (*const DEQUANTISE_BLOCK[DTYPE_COUNT])(float *, const uint8_t *) = {
    [DTYPE_F32] = f32_block,   [DTYPE_F16] = f16_block,   [DTYPE_BF16] = bf16_block,
    [DTYPE_Q4_0] = q4_0_block, [DTYPE_Q4_1] = q4_1_block, [DTYPE_Q5_0] = q5_0_block,
    [DTYPE_Q5_1] = q5_1_block, [DTYPE_Q8_0] = q8_0_block, [DTYPE_Q2_K] = q2_k_block,
    [DTYPE_Q3_K] = q3_k_block, [DTYPE_Q4_K] = q4_k_block, [DTYPE_Q5_K] = q5_k_block,
    [DTYPE_Q6_K] = q6_k_block,
};
