// Float panels times float inputs: acc = fma(w[k], x[k], acc) for k ascending, each row in a lane.
//
// Such a chain gives a result every four cycles only, so several run side by side: one input row
// takes the up to four panels of a strip together (64 rows, one stream of memory), two to four rows
// as many panels as there are registers for, more input rows one panel at a time, each row an
// accumulator.
//
// Where a strip takes several tiles, they go through it in chunks of columns that the L1 cache
// holds, each tile prefetching its share of the next chunk: memory is read all the time, not only
// while the first tile meets it.
//
// Measured on Zen 4 (EPYC Genoa, 2 virtual processors, not idle), one thread: one row of F16 or F32
// reads at the full bandwidth of memory (33 GB/s); the tile does 109 GFLOP/s with either set, nine
// tenths of the multiply-adds that the processor has. GFLOP/s of 4, 8, 16 rows out of memory,
// where only the first tile of a strip prefetches, and by chunks:
//
//                AVX-512: F16          F32          AVX2: F16           F32
//     first tile  76   92  103     36   44   62     65   78   95    20   34   51
//     chunks      88  114  113     42  108  110     98  100  108    58   93  104
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

// Sums that several panels share the registers with.
#if defined(ISA_avx512)
enum { CHAINS = 8 };
#else
enum { CHAINS = 4 };
#endif

enum {
    CHUNK_BYTES = 16384, // of a strip; the smallest L1 cache in use has 32 KB
    SIDE_BLOCKS = 4,     // blocks whose sums are kept from chunk to chunk
};

// One column of sixteen rows, widened to float32: exact for both 16-bit types.
ALWAYS_INLINE F32x16 load_elements(const DType dtype, const uint8_t *p) {
    switch (dtype) {
    case DTYPE_F16: return f32_from_half((const uint16_t *)p);
    case DTYPE_BF16: return f32_from_bf16((const uint16_t *)p);
    default: return f32_load((const float *)p);
    }
}

// What lies ahead of a column of one row or a few (lanes/cells.h). F32 in the caches loses by
// prefetches to the L1 cache, so it has none with PREFETCH_L1.
ALWAYS_INLINE void prefetch_row(const DType dtype, Prefetch prefetch, const uint8_t *w,
                                size_t bytes) {
    if (prefetch == PREFETCH_L1_AND_L2) {
        prefetch_l1(w + FLOAT_L1_AHEAD, bytes);
        prefetch_l2(w + FLOAT_L2_AHEAD, bytes);
    } else if (dtype != DTYPE_F32 && prefetch == PREFETCH_L1) {
        prefetch_l1(w + ROW_AHEAD, bytes);
    }
}

// One input row, `width` panels side by side.
// Each column is width * 16 elements in a row, all of which are used once: memory is the limit
// here.
SPECIALISED void dot_strip(F32x16 *acc, const DType dtype, const int width, const uint8_t *w,
                           size_t cols, const float *x, Prefetch prefetch) {
    const int bytes = PANEL_ROWS * panel_format(dtype).low_bits;
    UNROLL(4)
    for (int i = 0; i < width; i++)
        acc[i] = f32_zero();
    for (size_t k = 0; k < cols; k++, w += width * bytes) {
        prefetch_row(dtype, prefetch, w, (size_t)(width * bytes));
        F32x16 xk = f32_set(x[k]);
        UNROLL(4)
        for (int i = 0; i < width; i++)
            acc[i] = f32_fma(load_elements(dtype, w + i * bytes), xk, acc[i]);
    }
}

// Some columns of `width` panels, n input rows. acc (width, n) begins at zero or goes on. A column
// is loaded and widened once for n multiply-adds; x (cols, n) is read in one stream.
typedef struct Tile {
    F32x16 *acc;
    bool begins;
    const uint8_t *w;
    size_t stride; // bytes from one column to the next
    size_t cols;
    const float *x;
    const uint8_t *next; // what later tiles meet, as many bytes as here; or NULL
    Prefetch prefetch;   // for prefetch_row
} Tile;

SPECIALISED void tile(const Tile *t, const DType dtype, const int n, const int width) {
    const int bytes = PANEL_ROWS * panel_format(dtype).low_bits;
    const size_t column_bytes = (size_t)(width * bytes);
    const uint8_t *w = t->w, *next = t->next;
    const float *x = t->x;
    F32x16 sum[MAX_BLOCK_ROWS];
    UNROLL(8)
    for (int i = 0; i < width * n; i++)
        sum[i] = t->begins ? f32_zero() : t->acc[i];
    for (size_t k = 0; k < t->cols; k++, w += t->stride, x += n) {
        if (width == STRIP_PANELS)
            prefetch_row(dtype, t->prefetch, w, column_bytes);
        else if (next)
            prefetch_l2(next + k * column_bytes, column_bytes);
        UNROLL(4)
        for (int i = 0; i < width; i++) {
            F32x16 column = load_elements(dtype, w + i * bytes);
            UNROLL(8)
            for (int j = 0; j < n; j++)
                sum[i * n + j] = f32_fma(column, f32_set(x[j]), sum[i * n + j]);
        }
    }
    UNROLL(8)
    for (int i = 0; i < width * n; i++)
        t->acc[i] = sum[i];
}

// Panels of a strip that are taken together with n input rows.
ALWAYS_INLINE int tile_width(int n) {
    return n * 4 <= CHAINS ? 4 : n * 2 <= CHAINS ? 2 : 1;
}

// The sizes that blocks come in, for one panel or for tile_width(n) of them. What is
// larger than this instruction set's BLOCK_ROWS is not compiled.
#define TILE(rows)                                                                                 \
    case rows:                                                                                     \
        if (rows > BLOCK_ROWS) break;                                                              \
        tile(t, dtype, rows, several ? tile_width(rows) : 1);                                      \
        break
ALWAYS_INLINE void tile_of(const Tile *t, const DType dtype, int n, const bool several) {
    switch (n) {
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
    Tile whole = {.acc = acc,
                  .begins = true,
                  .w = (const uint8_t *)w,
                  .stride = PANEL_ROWS * sizeof *w,
                  .cols = work->matrix->cols,
                  .x = block->x};
    tile_of(&whole, DTYPE_F32, block->n, false);
    store_rows(work, panel, block, acc);
}

typedef F32x16 StripSums[STRIP_PANELS * MAX_BLOCK_ROWS]; // (panels, n) of a block

// Columns `first` .. `first` + `cols` - 1 of a strip times all blocks: some panels for all blocks
// before the next ones. The tiles of the first block prefetch as many columns behind them.
ALWAYS_INLINE void project_chunk(StripSums *sums, const DType dtype, const PanelWork *work,
                                 const uint8_t *strip, size_t width, size_t first, size_t cols) {
    const size_t bytes = PANEL_ROWS * panel_format(dtype).low_bits, stride = width * bytes;
    const uint8_t *w = strip + first * stride, *next = w + cols * stride;
    const size_t some = (size_t)tile_width(work->blocks->n);
    for (size_t i = 0; i < width; i += some)
        for (size_t b = 0; b < work->n_blocks; b++) {
            const InputBlock *block = work->blocks + b;
            const size_t n = (size_t)block->n, end = i + some < width ? i + some : width;
            size_t wide = (size_t)tile_width(block->n);
            for (size_t j = i; j < end; j += wide) {
                if (j + wide > end) wide = 1;
                Tile t = {.acc = sums[b] + j * n,
                          .begins = first == 0,
                          .w = w + j * bytes,
                          .stride = stride,
                          .cols = cols,
                          .x = block->x + first * n,
                          .next = b == 0 ? next + j * bytes * cols : NULL,
                          .prefetch = work->prefetch};
                if (wide > 1)
                    tile_of(&t, dtype, block->n, true);
                else
                    tile_of(&t, dtype, block->n, false);
            }
        }
}

static void store_strip(const PanelWork *work, size_t first, size_t width, const InputBlock *block,
                        const F32x16 *acc) {
    for (size_t i = 0; i < width; i++)
        store_rows(work, first + i, block, acc + i * (size_t)block->n);
}

SPECIALISED void project_strip(const DType dtype, const PanelWork *work, size_t first,
                               size_t width) {
    const DeviceMatrix *m = work->matrix;
    const uint8_t *strip = m->panels + first * m->panel_bytes;
    StripSums *sums = work->scratch;
    if (work->n_blocks == 1 && work->blocks->n == 1) {
        // The width is a constant in each case, so that the accumulators stay in registers; in
        // work->scratch, which the compiler takes for possible weights, they would not.
        const float *x = work->blocks->x;
        const Prefetch prefetch = work->prefetch;
        F32x16 acc[STRIP_PANELS];
        switch (width) {
        case 1: dot_strip(acc, dtype, 1, strip, m->cols, x, prefetch); break;
        case 2: dot_strip(acc, dtype, 2, strip, m->cols, x, prefetch); break;
        case 3: dot_strip(acc, dtype, 3, strip, m->cols, x, prefetch); break;
        default: dot_strip(acc, dtype, 4, strip, m->cols, x, prefetch); break;
        }
        store_strip(work, first, width, work->blocks, acc);
        return;
    }
    PanelWork some = *work;
    for (size_t left = work->n_blocks; left > 0; left -= some.n_blocks) {
        some.n_blocks = left < SIDE_BLOCKS ? left : SIDE_BLOCKS;
        bool one_tile = some.n_blocks == 1 && tile_width(some.blocks->n) == (int)width;
        size_t chunk = one_tile ? m->cols : CHUNK_BYTES / (width * m->panel_bytes / m->cols);
        for (size_t k = 0; k < m->cols; k += chunk)
            project_chunk(sums, dtype, &some, strip, width, k,
                          chunk < m->cols - k ? chunk : m->cols - k);
        for (size_t b = 0; b < some.n_blocks; b++)
            store_strip(work, first, width, some.blocks + b, sums[b]);
        some.blocks += some.n_blocks;
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
