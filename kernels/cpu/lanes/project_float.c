// Float panels times float inputs: acc = fma(w[k], x[k], acc) for k ascending, each row in a lane.
//
// Such a chain gives a result every four cycles only, so several run side by side: one input row
// takes the up to four panels of a strip together (64 rows, one stream of memory), two to four rows
// as many panels as there are registers for, more input rows one panel at a time, each row an
// accumulator.
//
// Measured on Zen 4 (EPYC Genoa, 2 virtual processors, not idle), one thread: one row of F16 or F32
// reads at the full bandwidth of memory (33 GB/s); the tile does 109 GFLOP/s with either set, nine
// tenths of the multiply-adds that the processor has.
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

// Sums that several panels share the registers with.
#if defined(ISA_avx512)
enum { CHAINS = 8 };
#else
enum { CHAINS = 4 };
#endif

// One column of sixteen rows, widened to float32: exact for both 16-bit types.
ALWAYS_INLINE F32x16 load_elements(const DType dtype, const uint8_t *p) {
    switch (dtype) {
    case DTYPE_F16: return f32_from_half((const uint16_t *)p);
    case DTYPE_BF16: return f32_from_bf16((const uint16_t *)p);
    default: return f32_load((const float *)p);
    }
}

// One input row, `width` panels side by side.
// Each column is width * 16 elements in a row, all of which are used once: memory is the limit
// here.
SPECIALISED void dot_strip(F32x16 *acc, const DType dtype, const int width, const uint8_t *w,
                           size_t cols, const float *x) {
    const int bytes = PANEL_ROWS * panel_format(dtype).low_bits;
    UNROLL(4)
    for (int i = 0; i < width; i++)
        acc[i] = f32_zero();
    for (size_t k = 0; k < cols; k++, w += width * bytes) {
        // F32 in the cache loses by it.
        if (dtype != DTYPE_F32) prefetch_lines(w, (size_t)(width * bytes), PREFETCH_AHEAD);
        F32x16 xk = f32_set(x[k]);
        UNROLL(4)
        for (int i = 0; i < width; i++)
            acc[i] = f32_fma(load_elements(dtype, w + i * bytes), xk, acc[i]);
    }
}

// `width` panels, n input rows; `stride` bytes from one column to the next. acc (width, n).
// `fetch`: these are the first panels of a strip, which comes from memory, all of it. A column is
// loaded and widened once for n multiply-adds; x (cols, n) is read in one stream.
SPECIALISED void tile(F32x16 *acc, const DType dtype, const int n, const int width,
                      const bool fetch, const uint8_t *w, size_t stride, size_t cols,
                      const float *x) {
    const int bytes = PANEL_ROWS * panel_format(dtype).low_bits;
    F32x16 sum[MAX_BLOCK_ROWS];
    UNROLL(8)
    for (int i = 0; i < width * n; i++)
        sum[i] = f32_zero();
    for (size_t k = 0; k < cols; k++, w += stride, x += n) {
        if (fetch && dtype != DTYPE_F32) prefetch_lines(w, stride, PREFETCH_AHEAD);
        UNROLL(4)
        for (int i = 0; i < width; i++) {
            F32x16 column = load_elements(dtype, w + i * bytes);
            UNROLL(8)
            for (int t = 0; t < n; t++)
                sum[i * n + t] = f32_fma(column, f32_set(x[t]), sum[i * n + t]);
        }
    }
    UNROLL(8)
    for (int i = 0; i < width * n; i++)
        acc[i] = sum[i];
}

// Panels of a strip that are taken together with n input rows.
ALWAYS_INLINE int tile_width(int n) {
    return n * 4 <= CHAINS ? 4 : n * 2 <= CHAINS ? 2 : 1;
}

// The sizes that blocks come in, for one panel (width 1) or for tile_width(n) of them. What is
// larger than this instruction set's BLOCK_ROWS is not compiled.
#define TILE(rows)                                                                                 \
    case rows:                                                                                     \
        if (rows > BLOCK_ROWS) break;                                                              \
        if (width > 1 && tile_width(rows) > 1)                                                     \
            tile(acc, dtype, rows, tile_width(rows), true, w, stride, cols, block->x);             \
        else if (fetch)                                                                            \
            tile(acc, dtype, rows, 1, true, w, stride, cols, block->x);                            \
        else                                                                                       \
            tile(acc, dtype, rows, 1, false, w, stride, cols, block->x);                           \
        break
ALWAYS_INLINE void tile_of(F32x16 *acc, const DType dtype, int width, bool fetch, const uint8_t *w,
                           size_t stride, size_t cols, const InputBlock *block) {
    switch (block->n) {
        TILE(1);
        TILE(2);
        TILE(3);
        TILE(4);
        TILE(6);
        TILE(8);
    }
}

// For a quantised panel that project_quantised.c has widened: a strip of one panel.
void ISA_NAME(project_floats)(const PanelWork *work, size_t panel, const float *w,
                              const InputBlock *block) {
    F32x16 acc[MAX_BLOCK_ROWS];
    size_t stride = PANEL_ROWS * sizeof *w;
    tile_of(acc, DTYPE_F32, 1, false, (const uint8_t *)w, stride, work->matrix->cols, block);
    store_rows(work, panel, block, acc);
}

SPECIALISED void project_strip(const DType dtype, const PanelWork *work, size_t first,
                               size_t width) {
    const DeviceMatrix *m = work->matrix;
    const uint8_t *strip = m->panels + first * m->panel_bytes;
    const InputBlock *blocks = work->blocks;
    size_t bytes = PANEL_ROWS * panel_format(dtype).low_bits;
    F32x16 acc[MAX_BLOCK_ROWS];
    // The width is a constant in each case, so that the accumulators stay in registers.
    if (work->n_blocks == 1 && blocks->n == 1) {
        switch (width) {
        case 1: dot_strip(acc, dtype, 1, strip, m->cols, blocks->x); break;
        case 2: dot_strip(acc, dtype, 2, strip, m->cols, blocks->x); break;
        case 3: dot_strip(acc, dtype, 3, strip, m->cols, blocks->x); break;
        default: dot_strip(acc, dtype, 4, strip, m->cols, blocks->x); break;
        }
        for (size_t i = 0; i < width; i++)
            store_rows(work, first + i, blocks, acc + i);
        return;
    }
    // Some panels for all blocks before the next ones: they come from memory for the first block,
    // and from the cache for the others.
    size_t stride = width * bytes, some = (size_t)tile_width(blocks->n);
    for (size_t i = 0; i < width; i += some)
        for (size_t b = 0; b < work->n_blocks; b++)
            for (size_t j = i, step; j < i + some && j < width; j += step) {
                int n = blocks[b].n, wide = tile_width(n);
                step = j + (size_t)wide <= i + some && j + (size_t)wide <= width ? (size_t)wide : 1;
                tile_of(acc, dtype, (int)step, !b && !j, strip + j * bytes, stride, m->cols,
                        blocks + b);
                for (size_t p = 0; p < step; p++)
                    store_rows(work, first + j + p, blocks + b, acc + p * (size_t)n);
            }
}

SPECIALISED void project_type(const DType dtype, const PanelWork *work) {
    size_t n_panels = work->matrix->n_panels;
    for (size_t p = work->first_panel; p < work->end_panel; p += STRIP_PANELS)
        project_strip(dtype, work, p, n_panels - p < STRIP_PANELS ? n_panels - p : STRIP_PANELS);
}

void ISA_NAME(project_float)(const PanelWork *work) {
    switch (work->matrix->dtype) {
    case DTYPE_F16: project_type(DTYPE_F16, work); break;
    case DTYPE_BF16: project_type(DTYPE_BF16, work); break;
    default: project_type(DTYPE_F32, work); break;
    }
}
