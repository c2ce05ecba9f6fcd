// The kernels of one instruction set that lanes/project_quantised.c joins into a table.
#pragma once

#include "kernels/cpu/lanes/cells.h"

// Rows of a block: what the registers hold beside a sum for each, without moving sums to memory and
// back. More do not help: reading weights is hidden from 6 on. The 16 registers of AVX2 hold six
// sums of floats or of bytes of one plane; six of words, of two planes or of two scale groups spill
// to memory, so that calls of more than six rows have blocks of FEWER_ROWS. Gop/s of 128
// rows, one thread of a Zen 3, blocks of six and of four:
//
//              Q4_1  a8   Q5_0  a8   Q6_K  a8   Q2_K  a8   F16
//     six       123  203   128  158   106  128   100  138   91
//     four      126  201   130  177   128  145   114  172   88
//
// A call of few rows multiplies panels as they are packed; more rows pay for unpacking a panel to
// memory once. At most DIRECT_ROWS, of fewer than 8 bits NIBBLE_ROWS, of two planes (more
// instructions to unpack) TWO_PLANE_ROWS, of two groups in a cell (more sums to join)
// TWO_GROUP_ROWS: the smallest of those that apply. AVX-512 was measured on Zen 4, with matrices
// that no cache holds, AVX2 on Zen 3, which has nothing wider.
//
// DIGIT_ROWS: blocks of up to so many rows of which two digits each stay in registers.
#if defined(ISA_avx512)
enum { BLOCK_ROWS = 8, FEWER_ROWS = 8, DIGIT_ROWS = 8 };
enum { DIRECT_ROWS = 64, NIBBLE_ROWS = 64, TWO_PLANE_ROWS = 16, TWO_GROUP_ROWS = 32 };
#elif defined(ISA_avx2)
enum { BLOCK_ROWS = 6, FEWER_ROWS = 4, DIGIT_ROWS = 2 };
enum { DIRECT_ROWS = 20, NIBBLE_ROWS = 16, TWO_PLANE_ROWS = 6, TWO_GROUP_ROWS = 8 };
#else
enum { BLOCK_ROWS = 4, FEWER_ROWS = 4, DIGIT_ROWS = 8 };
enum { DIRECT_ROWS = 8, NIBBLE_ROWS = 8, TWO_PLANE_ROWS = 4, TWO_GROUP_ROWS = 8 };
#endif

// Whether a call of n rows is multiplied straight from the packed panels.
ALWAYS_INLINE bool takes_direct(const DType dtype, const int n) {
    const PanelFormat format = panel_format(dtype);
    return n <= DIRECT_ROWS && (format.low_bits == 8 || n <= NIBBLE_ROWS) &&
           (!format.high_bits || n <= TWO_PLANE_ROWS) &&
           (format.groups == 1 || n <= TWO_GROUP_ROWS);
}

// What a block of n rows is multiplied as by project_direct.c; quads: a8.
ALWAYS_INLINE InputForm input_form(const DType dtype, const int n, const bool quads) {
    if (!byte_run(dtype)) return INPUT_WORDS;
    if (quads) return INPUT_QUADS;
    return n <= DIGIT_ROWS ? INPUT_DIGITS : INPUT_WORDS;
}

extern const ProjectKernels ISA_NAME(project_kernels);
void ISA_NAME(quantise_row)(const InputBlock *block, size_t row, const float *x, size_t cols,
                            int levels, float *scratch);
void ISA_NAME(project_float)(const PanelWork *work);
#if defined(ISA_avx512)
// One row of 16-bit weights: Zen 4 widens 512 bits slower than twice 256. Out of its L3 cache, one
// thread: F16 56 -> 95 GB/s, BF16 56 -> 60. The bits are the same: each output has its own chain.
void project_float_avx2(const PanelWork *work);
#endif
void ISA_NAME(project_quantised)(const PanelWork *work);
// Quantised panels times blocks of a few rows: straight from the packed panels.
void ISA_NAME(project_direct)(const PanelWork *work);
// One quantised panel times blocks of many rows.
void ISA_NAME(project_tile)(const PanelWork *work, size_t panel);
// F32 panels in strips of one panel, `w` (cols, 16), times one block.
void ISA_NAME(project_floats)(const PanelWork *work, size_t panel, const float *w,
                              const InputBlock *block);

// out[row] = acc + bias, for the rows of a block and the outputs of a panel that exist.
static inline void store_rows(const PanelWork *work, size_t panel, const InputBlock *block,
                              const F32x16 *acc) {
    size_t rows = work->matrix->rows, row = panel * PANEL_ROWS;
    size_t count = rows - row < PANEL_ROWS ? rows - row : PANEL_ROWS;
    float *out = work->out + (size_t)block->first * rows + row;
    F32x16 bias = work->bias ? f32_load_part(work->bias + row, count) : f32_zero();
    for (int t = 0; t < block->n; t++, out += rows) {
        F32x16 y = work->bias ? f32_add(acc[t], bias) : acc[t];
        if (count == PANEL_ROWS)
            f32_store(out, y); // masked stores are slow
        else
            f32_store_part(out, y, count);
    }
}
