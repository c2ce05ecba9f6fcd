// Matrix and DType: a weight matrix as its file stores it.
#pragma once

#include <stddef.h>
#include <stdint.h>

// How the elements of a row are stored. The block layouts are drawn in unpack.c.
typedef enum DType {
    DTYPE_F32,
    DTYPE_F16,
    DTYPE_BF16,
    DTYPE_Q4_0,
    DTYPE_Q4_1,
    DTYPE_Q5_0,
    DTYPE_Q5_1,
    DTYPE_Q8_0,
    DTYPE_Q2_K,
    DTYPE_Q3_K,
    DTYPE_Q4_K,
    DTYPE_Q5_K,
    DTYPE_Q6_K,
    DTYPE_Q8_GROUP, // llama2.c v2: int8 elements, float32 scales apart, one per group_size elements
    DTYPE_COUNT
} DType;

// y = W x with W (rows, cols): rows are output features, cols input features.
//
// Row order. `model/` knows one RoPE pairing, half-split. Where a container stores the rows of wq
// and wk interleaved (Meta's order: GGUF architecture llama, llama2.c), rope_dim is not 0 and row r
// of the model is row matrix_stored_row(r) of `data`:
//
//   one head of head_dim rows, rope_dim of them rotated, half = rope_dim / 2
//     model's row   0      1      ...  half-1       half   half+1  ...      rope_dim ..
//     stored row    0      2      ...  rope_dim-2   1      3       ...      rope_dim ..
//
// Whoever reads rows follows it, so that one model has the same bits from every container.
typedef struct Matrix {
    DType dtype;
    size_t rows, cols;
    const void *data;    // rows one after another; borrowed from the checkpoint; maybe unaligned;
                         // NULL: the model has no such matrix
    const void *scales;  // Q8_GROUP: float32, (rows * cols / group_size), maybe unaligned
    uint32_t group_size; // Q8_GROUP: divides cols
    uint32_t head_dim;   // with rope_dim != 0: rows per head
    uint32_t rope_dim;   // 0: rows are in the model's order
} Matrix;

static inline size_t matrix_stored_row(const Matrix *m, size_t row) {
    if (!m->rope_dim) return row;
    size_t head = row / m->head_dim, i = row % m->head_dim, half = m->rope_dim / 2;
    if (i >= m->rope_dim) return row;
    return head * m->head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
}

// Stored bytes of all rows, Q8_GROUP's scales included; 0 for an absent matrix.
size_t matrix_bytes(const Matrix *matrix);
// Those of the rows without the scales.
size_t matrix_data_bytes(const Matrix *matrix);
