// What lanes/project_quantised.c and project_amx.c export: input rows into the order of the
// kernels, and panels times inputs.
//
// The input rows of a call are cut into blocks of at most MAX_BLOCK_ROWS rows, of TILE_ROWS where a
// matrix unit multiplies all of them. The integers of a block of n rows are stored by cells. But
// for tiles, those of a cell are by quarters of 8 columns, of each quarter row by row: a kernel
// reads them in one stream.
#pragma once

#include "kernels/cpu/panels.h"
#include "kernels/precision.h"

enum { MAX_BLOCK_ROWS = 8, TILE_ROWS = 16 };
enum { TILE_PANELS = 4 }; // that such a block is multiplied with in turn

// n rows of x; cells = cols / 32. Forms that no matrix of the call takes are NULL. Where quads are
// there, types with byte sums are multiplied as bytes.
typedef struct InputBlock {
    int first, n;      // rows first .. first + n - 1 of the call
    int32_t *pairs;    // (cells, 4, n, 4): z[2j], z[2j + 1] as two int16
    float *scales;     // (cells, n, 4): d, d * sum z over 32, d * sum z over each 16
    int32_t *sums;     // (cells, n, 3): sum z over 32, over each 16
    int32_t *digits;   // (cells, 4, n, 4), of a few rows: z as bytes; layout in lanes/inputs.c
    int32_t *quads;    // (cells, 4, n, 2), a8: z as bytes
    int32_t *tiles;    // (cells, digits, n, 8): z as bytes, for a matrix unit
    Outlier *outliers; // (n, OUTLIERS)
    const float *x;    // (cols, n) float32
} InputBlock;

// Into which caches a stream of weights is asked for in advance.
typedef enum Prefetch { PREFETCH_NONE, PREFETCH_L1, PREFETCH_L1_AND_L2 } Prefetch;

// One matrix, some of its panels, some of the blocks.
typedef struct PanelWork {
    const DeviceMatrix *matrix;
    const float *bias; // (rows) or NULL
    float *out;        // (rows of the call, rows of the matrix)
    size_t first_panel, end_panel;
    const InputBlock *blocks;
    size_t n_blocks;
    bool as_floats;    // quantised weights are multiplied with float32
    int n;             // rows of the call
    int digits;        // bytes of an activation: 1 in a8, 2 in a16
    Prefetch prefetch; // of one or two rows (lanes/cells.h)
    void *scratch;     // PANEL_SCRATCH_BYTES(cols) and TILE_SCRATCH_BYTES(cols), 64-byte aligned
} PanelWork;

// A panel unpacked: 16 rows of floats at most. Of float weights the sums of 4 blocks of 8 rows and
// 4 panels (lanes/project_float.c), which are as many as 128 columns.
#define PANEL_SCRATCH_BYTES(cols)                                                                  \
    ((size_t)((cols) < 128 ? 128 : (cols)) * PANEL_ROWS * sizeof(float))

// Several panels of bytes with their scales (lanes/project_amx.c), and some sums.
#define TILE_SCRATCH_BYTES(cols) (TILE_PANELS * 24 * (size_t)(cols) + 4096)

// Floats that quantising a row takes: one for each cell, in whole vectors; or, of a row that is not
// finite, two for each cell and half a float for each column. A panel has room for them.
#define QUANTISE_SCRATCH(cols) ((cols) / CELL_COLS * 18)

// What inputs are multiplied as (lanes/project_direct.c).
typedef enum InputForm { INPUT_WORDS, INPUT_DIGITS, INPUT_QUADS, INPUT_TILES } InputForm;

typedef struct ProjectKernels {
    // Rows of the largest block of a call of n rows that is fast for this type; quads: a8. `panels`
    // takes all up to MAX_BLOCK_ROWS or what this says of a float type, whichever is less.
    int (*block_rows)(DType dtype, int n, bool quads);
    int tile_rows;  // the same where all matrices of a call take INPUT_TILES; 0: none does
    int digit_rows; // most rows of a call that takes INPUT_DIGITS
    // What a block of so many rows, of a call of n, is multiplied as; quads: a8.
    InputForm (*form)(DType dtype, int n, int block_rows, bool quads);
    // Fills what a block points to of one of its rows, but for x, from x (cols) as precision.h
    // says. scratch: QUANTISE_SCRATCH(cols) floats.
    void (*quantise)(const InputBlock *block, size_t row, const float *x, size_t cols, int levels,
                     float *scratch);
    void (*panels)(const PanelWork *work);
} ProjectKernels;
