// The types as such: names and sizes, half and bfloat16, elements as float32. Where each bit of a
// block goes is drawn in unpack.c; how blocks are made stands in quantise.c.
#include "weights/quant.h"
#include "base/bytes.h"

#include <assert.h>
#include <string.h>

// Columns: name, elements per block, bytes per block, type number in a GGUF (ggml_type in
// https://github.com/ggml-org/ggml, include/ggml.h). Bytes of a block = its halves d, m and its
// quantised values, for instance Q4_0: 2 + 32 * 4 / 8 = 18. Q8_GROUP is llama2.c's and exists in no
// GGUF; its scales lie apart, so an element counts as a block of one byte.
static const DTypeInfo INFO[DTYPE_COUNT] = {
    [DTYPE_F32] = {"F32", 1, 4, 0},        [DTYPE_F16] = {"F16", 1, 2, 1},
    [DTYPE_BF16] = {"BF16", 1, 2, 30},     [DTYPE_Q4_0] = {"Q4_0", 32, 18, 2},
    [DTYPE_Q4_1] = {"Q4_1", 32, 20, 3},    [DTYPE_Q5_0] = {"Q5_0", 32, 22, 6},
    [DTYPE_Q5_1] = {"Q5_1", 32, 24, 7},    [DTYPE_Q8_0] = {"Q8_0", 32, 34, 8},
    [DTYPE_Q2_K] = {"Q2_K", 256, 84, 10},  [DTYPE_Q3_K] = {"Q3_K", 256, 110, 11},
    [DTYPE_Q4_K] = {"Q4_K", 256, 144, 12}, [DTYPE_Q5_K] = {"Q5_K", 256, 176, 13},
    [DTYPE_Q6_K] = {"Q6_K", 256, 210, 14}, [DTYPE_Q8_GROUP] = {"Q8_GROUP", 1, 1, -1},
};

const DTypeInfo *dtype_info(DType dtype) {
    assert((unsigned)dtype < DTYPE_COUNT);
    return &INFO[dtype];
}

// Rows follow one another without padding.
size_t dtype_row_bytes(DType dtype, size_t cols) {
    const DTypeInfo *info = dtype_info(dtype);
    return cols / info->block * info->block_bytes;
}

// Each K-quant gives way to the type of blocks of 32 that is next in size, as llama.cpp has it.
DType dtype_fitting(DType dtype, size_t cols) {
    static const DType OF_32[DTYPE_COUNT] = {[DTYPE_Q2_K] = DTYPE_Q4_0,
                                             [DTYPE_Q3_K] = DTYPE_Q4_0,
                                             [DTYPE_Q4_K] = DTYPE_Q5_0,
                                             [DTYPE_Q5_K] = DTYPE_Q5_1,
                                             [DTYPE_Q6_K] = DTYPE_Q8_0};
    if (cols % 256 && OF_32[dtype]) dtype = OF_32[dtype];
    return cols % dtype_info(dtype)->block ? DTYPE_F16 : dtype;
}

size_t matrix_data_bytes(const Matrix *matrix) {
    return matrix->data ? matrix->rows * dtype_row_bytes(matrix->dtype, matrix->cols) : 0;
}

size_t matrix_bytes(const Matrix *matrix) {
    bool scales = matrix->data && matrix->dtype == DTYPE_Q8_GROUP;
    size_t groups = scales ? matrix->rows * (matrix->cols / matrix->group_size) : 0;
    return matrix_data_bytes(matrix) + groups * sizeof(float);
}

// memcpy and not a cast of pointers, which would break C's aliasing rule.
static uint32_t float_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

// half: 1 sign, 5 exponent (bias 15), 10 mantissa bits. float: 1, 8 (bias 127), 23.
float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    // All ones: infinity (mantissa 0) or NaN. 112 below is the difference of the biases, 127 - 15.
    if (exponent == 31) return bits_float(sign | 0x7f800000 | mantissa << 13);
    if (exponent) return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
    float subnormal = (float)mantissa * 0x1p-24f; // exact
    return bits_float(sign | float_bits(subnormal));
}

// sign | size: `size` is the float without its sign, so that the cases are ranges of one integer.
uint16_t float_to_half(float f) {
    uint32_t bits = float_bits(f), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);  // NaN
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); // 65520 and up: infinity
    if (size < 0x38800000) { // below 2^-14: a multiple of 2^-24, rounded by the float adder
        float shifted = bits_float(size) + 0.5f; // one unit in the last place is 2^-24 here
        return (uint16_t)(sign | (float_bits(shifted) - float_bits(0.5f)));
    }
    // Adding half of the dropped 13 bits (0xfff + odd of 0x2000) rounds; a carry out of the
    // mantissa raises the exponent, which is the correct result.
    uint32_t odd = size >> 13 & 1; // nearest, ties to even
    return (uint16_t)(sign | (size - (112u << 23) + 0xfff + odd) >> 13);
}

// bfloat16 is the upper half of a float32: 1 sign, 8 exponent, 7 mantissa bits.
float bf16_to_float(uint16_t h) {
    return bits_float((uint32_t)h << 16);
}

// Rounds as float_to_half does. Setting a mantissa bit keeps a NaN whose payload is in the lower
// half from becoming an infinity.
uint16_t float_to_bf16(float f) {
    uint32_t bits = float_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 64); // NaN, kept quiet
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// The bytes may lie at any address: safetensors promises no alignment.
static float float_element(DType dtype, const uint8_t *at) {
    if (dtype == DTYPE_F32) return load_f32(at);
    return dtype == DTYPE_F16 ? half_to_float(load_u16(at)) : bf16_to_float(load_u16(at));
}

// One product per element, one more sum in the affine types; ggml does the same, so the bits agree.
static void dequantise_block(float *out, DType dtype, const uint8_t *block) {
    const Matrix kind = {.dtype = dtype};
    uint32_t group = matrix_group(&kind), size = dtype_info(dtype)->block;
    // Room for the largest block (256 elements) and its most groups (256 / 16).
    int8_t q[256];
    float s[16], m[16];
    unpack(q, s, m, dtype, block, size);
    for (uint32_t i = 0; i < size; i++) {
        float product = s[i / group] * (float)q[i];
        out[i] = dtype_is_affine(dtype) ? product + m[i / group] : product;
    }
}

void dequantise(float *out, DType dtype, const void *blocks, size_t count) {
    const DTypeInfo *info = dtype_info(dtype);
    const uint8_t *block = blocks;
    assert(dtype != DTYPE_Q8_GROUP && count % info->block == 0);
    for (size_t i = 0; i < count; i += info->block, block += info->block_bytes) {
        if (info->block == 1)
            out[i] = float_element(dtype, block);
        else
            dequantise_block(out + i, dtype, block);
    }
}

// `row` is the model's; `stored` is where the container put it (Matrix, row order).
void matrix_row(float *out, const Matrix *matrix, size_t row) {
    size_t stored = matrix_stored_row(matrix, row), cols = matrix->cols;
    const uint8_t *data =
        (const uint8_t *)matrix->data + stored * dtype_row_bytes(matrix->dtype, cols);
    assert(row < matrix->rows);
    if (matrix->dtype != DTYPE_Q8_GROUP) {
        dequantise(out, matrix->dtype, data, cols);
        return;
    }
    // Q8_GROUP: the scales of all rows follow one another, cols / group_size for each row.
    const uint8_t *scales =
        (const uint8_t *)matrix->scales + stored * (cols / matrix->group_size) * sizeof(float);
    for (size_t j = 0; j < cols; j++)
        out[j] = (float)(int8_t)data[j] * load_f32(scales + j / matrix->group_size * sizeof(float));
}
