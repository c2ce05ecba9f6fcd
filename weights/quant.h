// Block formats of quantised weights: sizes, and the specification of what every element is.
//
// Layouts are those of GGUF (ggml); the values are bit-equal to ggml's reference dequantisers in
// float32, products taken from left to right. Nothing here is tuned: it is the oracle of the
// kernels, the embedding lookup of the reference backend, and the writer's quantiser.
#pragma once

#include "weights/matrix.h"

#include <stdbool.h>

typedef struct DTypeInfo {
    const char *name;     // "Q4_0"
    uint32_t block;       // elements per block (1 for float types)
    uint32_t block_bytes; // stored bytes per block
    int gguf_type;        // number in a GGUF tensor info, -1: not a GGUF type
} DTypeInfo;

// Names, block sizes and type numbers. `dtype` < DTYPE_COUNT.
const DTypeInfo *dtype_info(DType dtype);

// Bytes of one row of `cols` elements; cols is a multiple of the block. (Q8_GROUP: without scales.)
size_t dtype_row_bytes(DType dtype, size_t cols);

// The type of rows of `cols` elements where `dtype` is wanted: if they are no whole superblocks,
// one of blocks of 32, and if they are no whole blocks of 32, F16.
DType dtype_fitting(DType dtype, size_t cols);

// F32, F16, BF16.
static inline bool dtype_is_float(DType dtype) {
    return dtype <= DTYPE_BF16;
}

// IEEE half and bfloat16 to and from float32, round to nearest even, NaN stays NaN.
float half_to_float(uint16_t h);
uint16_t float_to_half(float f);
float bf16_to_float(uint16_t h);
uint16_t float_to_bf16(float f);

// out[cols] = row `row` of the model (row order applied), in float32.
void matrix_row(float *out, const Matrix *matrix, size_t row);

// out[count] = `count` elements from blocks at `blocks`; count is a multiple of the block.
// `dtype` is not Q8_GROUP.
void dequantise(float *out, DType dtype, const void *blocks, size_t count);

// What a quantised row is made of: element i = q[i] * s[g] + m[g] in float32, g = i / matrix_group,
// q centred (Q4_0's nibble - 8, Q3_K's - 4, Q6_K's - 32), s the block's scale or d * sc, m the
// offset or -(dmin * mn), 0 where the type has none. `dequantise` gives the same products.
// `dtype` is a block type; for Q8_GROUP there is matrix_unpack. (unpack.c draws the blocks.)
void unpack(int8_t *q, float *s, float *m, DType dtype, const void *blocks, size_t count);
void matrix_unpack(int8_t *q, float *s, float *m, const Matrix *matrix, size_t row);
uint32_t matrix_group(const Matrix *matrix); // elements per scale; 0 for float types
bool dtype_is_affine(DType dtype);           // m counts

// One superblock (256 elements) of a K-quant as integers, for backends that repack weights: q[256],
// and per scale group s = d * sc and m = -(dmin * sm); sc of Q3_K and Q6_K is signed. halves: d and
// dmin (0 where the type has none) as they are stored.
void unpack_scales(int8_t *q, uint8_t *sc, uint8_t *sm, uint16_t halves[2], DType dtype,
                   const void *block);

// blocks = in[count] in type F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0, bit-equal to ggml's
// reference quantisers; false for a type that has no quantiser here.
bool quantise(void *blocks, DType dtype, const float *in, size_t count);

// The same with scales searched for the least sum of importance[i] (in[i] - stored[i])^2, and of
// K-quants too. importance (count), not negative; NULL: 1. Never worse than quantise. False: the
// type is Q8_GROUP. (rounding/)
bool quantise_searched(void *blocks, DType dtype, const float *in, const float *importance,
                       size_t count);

// The importance that convert gives the elements of a row: out[i] = by[i] sqrt(m + in[i]^2), m the
// mean square of the row; by (count) or NULL: 1. Where large weights meet strong channels more
// often than small ones their errors cost more: rounding SmolLM2 to Q4_0 so, its KL divergence
// falls from 0.32 to 0.30.
void quantise_importance(float *out, const float *in, const float *by, size_t count);
