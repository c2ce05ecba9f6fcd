// What lanes/project_quantised.c exports for each instruction set: input rows into the order of the
// kernels, and panels times inputs.
//
// The input rows of a call are cut into blocks of at most TILE rows, and everything about a block
// of n rows is stored with those n side by side, in the order in which the tile reads it.
#pragma once

#include "kernels/cpu/panels.h"
#include "kernels/precision.h"

enum { MAX_BLOCK_ROWS = 8 };

// n rows of x; cells = cols / 32. One form per kind of weight, NULL where no matrix needs it.
typedef struct InputBlock {
    int first, n;    // rows first .. first + n - 1 of the call
    int32_t *pairs;  // (cells, 16, n): z[2j], z[2j + 1] as two int16
    float *scales;   // (cells, 4, n): d, d * sum z over 32, d * sum z over each 16
    int32_t *sums;   // (cells, 3, n): sum z over 32, over each 16
    int32_t *digits; // (cells, 16, n), of a few rows: z as bytes; layout in lanes/inputs.c
    int32_t *quads;  // (cells, 8, n), a8: z as bytes, four columns to each byte vector of panels.h
    Outlier *outliers; // (n, OUTLIERS)
    const float *x;    // (cols, n) float32
} InputBlock;

// One matrix, some of its panels, some of the blocks.
typedef struct PanelWork {
    const DeviceMatrix *matrix;
    const float *bias; // (rows) or NULL
    float *out;        // (rows of the call, rows of the matrix)
    size_t first_panel, end_panel;
    const InputBlock *blocks;
    size_t n_blocks;
    bool as_floats; // quantised weights are multiplied with float32
    int n;          // rows of the call
    void *scratch;  // PANEL_SCRATCH_BYTES(cols), 64-byte aligned
} PanelWork;

// A panel unpacked: 16 rows of floats at most.
#define PANEL_SCRATCH_BYTES(cols) ((size_t)(cols)*PANEL_ROWS * sizeof(float))

// What inputs are multiplied as (lanes/project_direct.c).
typedef enum InputForm { INPUT_WORDS, INPUT_DIGITS, INPUT_QUADS } InputForm;

typedef struct ProjectKernels {
    int block_rows;  // largest block that `panels` takes
    int direct_rows; // most rows of a call that are multiplied without unpacking panels first
    // What most blocks of a call of n rows are multiplied as; quads: a8.
    InputForm (*form)(DType dtype, int n, bool quads);
    // Fills what a block points to, but for x, from its rows x (n, cols) as precision.h says.
    void (*quantise)(const InputBlock *block, const float *x, size_t cols, int levels);
    void (*panels)(const PanelWork *work);
} ProjectKernels;
