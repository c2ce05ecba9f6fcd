// Unpacks every block format into integers and scales: the layout of each block is drawn here.
// dequantise multiplies these integers by the scales; the kernels sum the same integers.
//
// One function per format takes one block: q (its elements, centred), and per scale group s and m:
// element = q * s + m. K-quants are blocks of 256 with scales of their own for every 16 or 32.
//
// The drawings give byte offsets from left to right, name:bytes. d and m are halves, little-endian.
// Layouts are ggml's (https://github.com/ggml-org/ggml, src/ggml-common.h), the integers those of
// its dequantize_row_* in src/ggml-quants.c.
//
//     bits a weight   Q4_0 4.5   Q4_1 5   Q5_0 5.5   Q5_1 6   Q8_0 8.5
//                     Q2_K 2.625   Q3_K 3.4375   Q4_K 4.5   Q5_K 5.5   Q6_K 6.5625
#include "weights/quant.h"

#include <string.h>

typedef void Unpack(int8_t *q, float *s, float *m, const uint8_t *block);

static float half_at(const uint8_t *bytes) {
    uint16_t h;
    memcpy(&h, bytes, sizeof h); // little-endian; blocks may lie at any address
    return half_to_float(h);
}

// 16 bytes: low nibbles are elements 0 .. 15, high ones 16 .. 31. Elements j and j + 16 share byte
// j, so that one mask and one shift of 16 bytes give 16 consecutive elements each.
static void nibbles(int8_t *q, const uint8_t *bytes, int centre) {
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)((bytes[j] & 15) - centre);
        q[j + 16] = (int8_t)((bytes[j] >> 4) - centre);
    }
}

// As nibbles, with a fifth bit: bit j of the 32-bit word belongs to element j.
static void nibbles_and_bits(int8_t *q, const uint8_t *word, const uint8_t *bytes, int centre) {
    nibbles(q, bytes, centre);
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)(q[j] + 16 * ((word[j / 8] >> (j % 8)) & 1));
}

// d:2 | nibbles:16
//
//     bytes   0   1 | 2       3       ...  17
//             d     | q0 q16  q1 q17  ...  q15 q31       low nibble first;  w = (q - 8) d
static void unpack_q4_0(int8_t *q, float *s, float *m, const uint8_t *b) {
    s[0] = half_at(b), m[0] = 0.0f;
    nibbles(q, b + 2, 8);
}

// d:2 | m:2 | nibbles:16
// w = q d + m.
static void unpack_q4_1(int8_t *q, float *s, float *m, const uint8_t *b) {
    s[0] = half_at(b), m[0] = half_at(b + 2);
    nibbles(q, b + 4, 0);
}

// d:2 | fifth bits:4 | nibbles:16
// w = (q - 16) d.
static void unpack_q5_0(int8_t *q, float *s, float *m, const uint8_t *b) {
    s[0] = half_at(b), m[0] = 0.0f;
    nibbles_and_bits(q, b + 2, b + 6, 16);
}

// d:2 | m:2 | fifth bits:4 | nibbles:16
// w = q d + m.
static void unpack_q5_1(int8_t *q, float *s, float *m, const uint8_t *b) {
    s[0] = half_at(b), m[0] = half_at(b + 2);
    nibbles_and_bits(q, b + 4, b + 8, 0);
}

// d:2 | int8:32
// w = q d; Q8_0 has no centre, its integers are signed.
static void unpack_q8_0(int8_t *q, float *s, float *m, const uint8_t *b) {
    s[0] = half_at(b), m[0] = 0.0f;
    memcpy(q, b + 2, 32);
}

// scales:16 (low nibble scale, high nibble minimum, one per 16) | two bits:64 | d:2 | dmin:2
// Bits 2k, 2k+1 of bytes 0 .. 31 are elements 32k .. 32k+31; bytes 32 .. 63 hold the second 128.
//
//     byte 16 + i, i = 0 .. 31     bits 7 6    5 4    3 2    1 0
//                      element     96 + i   64 + i   32 + i   i
//
// w = d sc q - dmin mn, for the group of 16 that the element is in.
static void unpack_q2_k(int8_t *q, float *s, float *m, const uint8_t *b) {
    float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int g = 0; g < 16; g++) {
        s[g] = d * (float)(b[g] & 15);
        m[g] = -(dmin * (float)(b[g] >> 4));
    }
    for (int i = 0; i < 256; i++) {
        int half = i / 128, shift = i % 128 / 32 * 2;
        q[i] = (int8_t)((b[16 + 32 * half + i % 32] >> shift) & 3);
    }
}

// third bits:32 | two bits:64 (as Q2_K) | scales:12 | d:2
// Bit k of third-bit byte i is element 32 k + i. Sixteen 6-bit scales, centred at 32: low four bits
// in nibbles (0 .. 7 low, 8 .. 15 high) of bytes 0 .. 7, top two bits of scale g in byte 8 + g % 4.
// w = d (sc - 32) (q - 4); the third bit is bit 2 of q.
static void unpack_q3_k(int8_t *q, float *s, float *m, const uint8_t *b) {
    const uint8_t *scales = b + 96;
    float d = half_at(b + 108);
    for (int g = 0; g < 16; g++) {
        int low = (scales[g % 8] >> (g / 8 * 4)) & 15;
        int high = (scales[8 + g % 4] >> (g / 4 * 2)) & 3;
        s[g] = d * (float)((low | high << 4) - 32);
        m[g] = 0.0f;
    }
    for (int i = 0; i < 256; i++) {
        int half = i / 128, shift = i % 128 / 32 * 2;
        int low = (b[32 + 32 * half + i % 32] >> shift) & 3;
        q[i] = (int8_t)(low | ((b[i % 32] >> (i / 32)) & 1) << 2);
        q[i] = (int8_t)(q[i] - 4);
    }
}

// Eight 6-bit scales and minima in 12 bytes, of Q4_K and Q5_K:
//   bytes 0 .. 3   scale 0 .. 3 in bits 0-5,  top bits of scale 4 .. 7 in bits 6-7
//   bytes 4 .. 7   the same of the minima
//   bytes 8 .. 11  low nibble: low bits of scale 4 .. 7,  high nibble: of minimum 4 .. 7
// (get_scale_min_k4 in ggml-quants.c.) dmin mn is subtracted, so m is its negative.
static void scales_and_minima(float *s, float *m, const uint8_t *b, float d, float dmin) {
    for (int g = 0; g < 8; g++) {
        int sc = b[g] & 63, mn = b[g + 4] & 63;
        if (g >= 4) {
            sc = (b[g + 4] & 15) | (b[g - 4] >> 6) << 4;
            mn = (b[g + 4] >> 4) | (b[g] >> 6) << 4;
        }
        s[g] = d * (float)sc;
        m[g] = -(dmin * (float)mn);
    }
}

// d:2 | dmin:2 | scales:12 | nibbles:128
// Of every 32 bytes the low nibbles are 32 elements and the high ones the next 32.
// w = d sc q - dmin mn.
static void unpack_q4_k(int8_t *q, float *s, float *m, const uint8_t *b) {
    scales_and_minima(s, m, b + 4, half_at(b), half_at(b + 2));
    for (int i = 0; i < 256; i++)
        q[i] = (int8_t)((b[16 + 32 * (i / 64) + i % 32] >> (i % 64 / 32 * 4)) & 15);
}

// d:2 | dmin:2 | scales:12 | fifth bits:32 | nibbles:128 (as Q4_K)
// Bit k of fifth-bit byte i is element 32 k + i.
// w = d sc q - dmin mn.
static void unpack_q5_k(int8_t *q, float *s, float *m, const uint8_t *b) {
    scales_and_minima(s, m, b + 4, half_at(b), half_at(b + 2));
    for (int i = 0; i < 256; i++) {
        int low = (b[48 + 32 * (i / 64) + i % 32] >> (i % 64 / 32 * 4)) & 15;
        q[i] = (int8_t)(low | ((b[16 + i % 32] >> (i / 32)) & 1) << 4);
    }
}

// low nibbles:128 | two bits:64 | int8 scales:16 (one per 16) | d:2
// Of each 128 elements: nibble k of bytes 0 .. 63 (low 0 .. 63, high 64 .. 127), and bits 2k, 2k+1
// of 32 bytes for elements 32k .. 32k+31; centred at 32.
// w = d sc (q - 32); the scales are signed.
static void unpack_q6_k(int8_t *q, float *s, float *m, const uint8_t *b) {
    float d = half_at(b + 208);
    for (int g = 0; g < 16; g++) {
        s[g] = d * (float)(int8_t)b[192 + g];
        m[g] = 0.0f;
    }
    for (int i = 0; i < 256; i++) {
        int half = i / 128, j = i % 128;
        int low = (b[64 * half + j % 64] >> (j / 64 * 4)) & 15;
        int high = (b[128 + 32 * half + j % 32] >> (j / 32 * 2)) & 3;
        q[i] = (int8_t)((low | high << 4) - 32);
    }
}

// Rows of the table: what one block unpacks to.
// Columns: function; elements that share a scale; whether m counts (an affine type). Types without
// a function are floats or Q8_GROUP.
static const struct {
    Unpack *unpack;
    uint32_t group;
    bool affine;
} FORMATS[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = {unpack_q4_0, 32, false}, [DTYPE_Q4_1] = {unpack_q4_1, 32, true},
    [DTYPE_Q5_0] = {unpack_q5_0, 32, false}, [DTYPE_Q5_1] = {unpack_q5_1, 32, true},
    [DTYPE_Q8_0] = {unpack_q8_0, 32, false}, [DTYPE_Q2_K] = {unpack_q2_k, 16, true},
    [DTYPE_Q3_K] = {unpack_q3_k, 16, false}, [DTYPE_Q4_K] = {unpack_q4_k, 32, true},
    [DTYPE_Q5_K] = {unpack_q5_k, 32, true},  [DTYPE_Q6_K] = {unpack_q6_k, 16, false},
};

// 0 for float types, whose rows of the table are zeros.
uint32_t matrix_group(const Matrix *matrix) {
    if (matrix->dtype == DTYPE_Q8_GROUP) return matrix->group_size;
    return FORMATS[matrix->dtype].group;
}

bool dtype_is_affine(DType dtype) {
    return FORMATS[dtype].affine;
}

// s and m advance by the groups of a block: group g of block b is s[b * groups + g].
void unpack(int8_t *q, float *s, float *m, DType dtype, const void *blocks, size_t count) {
    const DTypeInfo *info = dtype_info(dtype);
    const uint8_t *block = blocks;
    size_t groups = info->block / FORMATS[dtype].group;
    for (size_t i = 0; i < count; i += info->block, block += info->block_bytes) {
        FORMATS[dtype].unpack(q + i, s, m, block);
        s += groups;
        m += groups;
    }
}

// Group scales are whole multiples of d and dmin: unpacked from a copy whose d and dmin are 1 they
// come out as those.
void unpack_scales(int8_t *q, uint8_t *sc, uint8_t *sm, uint16_t halves[2], DType dtype,
                   const void *block) {
    // Where a block keeps d and dmin; -1: it has none.
    static const int AT[DTYPE_COUNT][2] = {[DTYPE_Q2_K] = {80, 82},
                                           [DTYPE_Q3_K] = {108, -1},
                                           [DTYPE_Q4_K] = {0, 2},
                                           [DTYPE_Q5_K] = {0, 2},
                                           [DTYPE_Q6_K] = {208, -1}};
    uint8_t copy[256];
    float s[16], m[16];
    uint16_t one = float_to_half(1.0f);
    memcpy(copy, block, dtype_info(dtype)->block_bytes);
    for (int i = 0; i < 2; i++) {
        halves[i] = 0;
        if (AT[dtype][i] < 0) continue;
        memcpy(&halves[i], copy + AT[dtype][i], 2);
        memcpy(copy + AT[dtype][i], &one, 2);
    }
    unpack(q, s, m, dtype, copy, 256);
    for (uint32_t g = 0; g < 256 / FORMATS[dtype].group; g++) {
        // Through int: converting a negative float to an unsigned type is undefined.
        sc[g] = (uint8_t)(int)s[g];
        sm[g] = (uint8_t)(int)-m[g];
    }
}

void matrix_unpack(int8_t *q, float *s, float *m, const Matrix *matrix, size_t row) {
    size_t stored = matrix_stored_row(matrix, row);
    const uint8_t *data = matrix->data;
    data += stored * dtype_row_bytes(matrix->dtype, matrix->cols);
    if (matrix->dtype != DTYPE_Q8_GROUP) {
        unpack(q, s, m, matrix->dtype, data, matrix->cols);
        return;
    }
    size_t groups = matrix->cols / matrix->group_size;
    memcpy(q, data, matrix->cols);
    memcpy(s, (const uint8_t *)matrix->scales + stored * groups * sizeof *s, groups * sizeof *s);
    for (size_t g = 0; g < groups; g++)
        m[g] = 0.0f;
}
