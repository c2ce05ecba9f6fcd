// Quantised panels times several rows of quantised inputs: unpack, then tiles.
//
// A panel is unpacked once into int16 that stay in the L2 cache, and a tile of 16 outputs x n rows
// runs over it: per two columns one load of weights and n i32_dot, each with its two activations
// broadcast from memory.
//
//     tile:   16 weights' rows in the lanes x n <= BLOCK_ROWS inputs, each an accumulator
//
// In a8 an input is one signed byte: the panel becomes unsigned bytes, and four columns are taken
// at a time, half of the instructions and of the room. AVX2 multiplies bytes into 16-bit sums,
// which do not hold Q8: there words remain.
//
// Outliers come last, one column of the unpacked panel for each.
//
// Both compute the integers and the roundings of one row (project_quantised.c), so a row has
// the same bits for any number of rows.
//
// Measured on Zen 4 as there, Q4_0, 504 rows: words 176 Gop/s with AVX-512 (of 234 that its dot
// product instruction has) and 150 with AVX2 (of 189 for a multiplication with its addition); bytes
// 304 and 227. Without outliers 185, 155, 310 and 240.
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

// A panel unpacked: int16 words (cells, 16, 32), centred, or bytes (cells, 8, 64), not centred;
// then per cell s of each group and, in affine types, m of each, 16 floats each.
typedef struct Unpacked {
    int16_t *words;
    float *scales;
} Unpacked;

// 512 int16 are a cell of words, 32 columns of 16 rows. Bytes take half of that room.
static Unpacked unpacked_in(void *scratch, size_t n_cells) {
    int16_t *words = scratch;
    return (Unpacked){words, (float *)(words + n_cells * 512)};
}

// The tiles take long enough that the next panel, `panel_bytes` ahead, is in the L2 cache by then.
SPECIALISED void unpack_panel(const DType dtype, const bool bytes, Unpacked to,
                              const uint8_t *panel, size_t panel_bytes, size_t n_cells) {
    const PanelFormat format = panel_format(dtype);
    const I16x32 centre = i16_set(format.centre);
    for (size_t cell = 0; cell < n_cells; cell += SUPERBLOCK_CELLS) {
        Superblock superblock = superblock_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < superblock.n_cells; c++) {
            const uint8_t *planes = superblock.bytes + cell_planes_at(&format, c);
            const Ahead ahead = cell_ahead(dtype, &superblock, c, PREFETCH_L1_AND_L2, panel_bytes);
            UNROLL(8)
            for (int f = 0; f < 8 && bytes; f++, to.words += 32) {
                prefetch_step(&ahead, f);
                i16_store(to.words, cell_bytes(dtype, planes, f));
            }
            UNROLL(8)
            for (int f = 0; f < 8 && !bytes; f++) {
                prefetch_step(&ahead, f);
                WordPair words = cell_words(dtype, planes, f);
                int16_t *at = to.words + 32 * word_of(f);
                i16_store(at, i16_sub(words.low, centre));
                i16_store(at + 32 * 2, i16_sub(words.high, centre));
            }
            to.words += bytes ? 0 : 32 * 16;
            to.scales = store_scales(dtype, to.scales, cell_scales(dtype, &superblock, c));
        }
        panel += superblock_bytes(&format, superblock.n_cells);
    }
}

// acc + what the outliers of one row of inputs come to (precision.h).
ALWAYS_INLINE F32x16 add_unpacked_outliers(F32x16 acc, const DType dtype, const bool bytes,
                                           Unpacked w, const Outlier *outliers) {
    const PanelFormat format = panel_format(dtype);
    UNROLL(2)
    for (int o = 0; o < OUTLIERS; o++) {
        const size_t column = outliers[o].column;
        // A dot product with (1, 0) or (0, 1) picks one of the two columns in a word vector.
        const int32_t one = column % 2 ? 1 << 16 : 1;
        const int16_t *words = w.words + column / 2 * 32;
        I32x16 q;
        if (bytes) {
            words = w.words + byte_vector_of(column) * 32; // of 32 int16
            q = i32_bits(i32_load((const int32_t *)(const void *)words), 8 * byte_of(column), 8);
            q = i32_sub(q, i32_set(format.centre));
        } else {
            q = i32_pairs(i16_load(words), i16_pair(&one));
        }
        // Per scale group 16 floats of s and, in affine types, 16 of m.
        const float *s = w.scales + column / (32 / format.groups) * (format.affine ? 32 : 16);
        F32x16 weights =
            f32_fma(f32_from_i32(q), f32_load(s), format.affine ? f32_load(s + 16) : f32_zero());
        acc = f32_fma(weights, f32_set(outliers[o].x), acc);
    }
    return acc;
}

// sum[t] gets group g of a cell: its integers times the scales of both sides and, in affine
// types, m times the inputs' sum. `w_scales` moves on.
ALWAYS_INLINE void add_group(F32x16 *sum, const I32x16 *isum, const int n, const int groups,
                             const int g, const bool affine, const float **w_scales,
                             const float *scales) {
    F32x16 s = f32_load(*w_scales);
    *w_scales += 16;
    UNROLL(8)
    for (int t = 0; t < n; t++)
        sum[t] = f32_fma(f32_from_i32(isum[t]), f32_mul(s, f32_set(scales[4 * t])), sum[t]);
    if (!affine) return;
    F32x16 m = f32_load(*w_scales);
    const float *sums = scales + (groups == 1 ? 1 : 2 + g);
    *w_scales += 16;
    UNROLL(8)
    for (int t = 0; t < n; t++)
        sum[t] = f32_fma(m, f32_set(sums[4 * t]), sum[t]);
}

// isum[t] gets the products of eight columns of a cell, or begins with them, which saves setting it
// to zero.
ALWAYS_INLINE void add_quarter(I32x16 *isum, const int n, const bool begins, const int16_t *words,
                               const int32_t *pairs) {
    UNROLL(4)
    for (int j = 0; j < 4; j++) {
        I16x32 w = i16_load(words + 32 * j);
        UNROLL(8)
        for (int t = 0; t < n; t++) {
            I16x32 z = i16_pair(pairs + 4 * t + j);
            isum[t] = begins && j == 0 ? i32_pairs(w, z) : i32_dot(isum[t], w, z);
        }
    }
}

// acc[t] for the n rows of a block, n a constant.
SPECIALISED void tile(F32x16 *acc, const int n, const int groups, const bool affine, Unpacked w,
                      size_t n_cells, const InputBlock *x) {
    const int32_t *pairs = x->pairs;
    const float *scales = x->scales, *w_scales = w.scales;
    F32x16 sum[MAX_BLOCK_ROWS];
    UNROLL(8)
    for (int t = 0; t < n; t++)
        sum[t] = f32_zero();
    for (size_t c = 0; c < n_cells; c++, scales += 4 * n) {
        UNROLL(2)
        for (int g = 0; g < groups; g++) {
            I32x16 isum[MAX_BLOCK_ROWS];
            add_quarter(isum, n, true, w.words, pairs);
            w.words += 128, pairs += 4 * n;
            for (int quarter = 1; quarter < 4 / groups; quarter++, w.words += 128, pairs += 4 * n)
                add_quarter(isum, n, false, w.words, pairs);
            add_group(sum, isum, n, groups, g, affine, &w_scales, scales);
        }
    }
    UNROLL(8)
    for (int t = 0; t < n; t++)
        acc[t] = sum[t];
}

// One function for each number of rows, so that its sums are in registers of their own: a register
// cannot be indexed. Sizes beyond BLOCK_ROWS are left out.
#define TILE(rows, groups, affine)                                                                 \
    case rows:                                                                                     \
        if (rows <= BLOCK_ROWS) tile(acc, rows, groups, affine, w, n_cells, x);                    \
        break
#define TILES(name, groups, affine)                                                                \
    static void name(F32x16 *acc, Unpacked w, size_t n_cells, const InputBlock *x) {               \
        switch (x->n) {                                                                            \
            TILE(1, groups, affine);                                                               \
            TILE(2, groups, affine);                                                               \
            TILE(3, groups, affine);                                                               \
            TILE(4, groups, affine);                                                               \
            TILE(6, groups, affine);                                                               \
            TILE(8, groups, affine);                                                               \
        }                                                                                          \
    }

// The same of bytes. They are not centred, so centre times the inputs' sum is taken off.
// int32 after `run` vectors, since byte sums of AVX2 are int16 and hold no more.
SPECIALISED void byte_tile(F32x16 *acc, const int n, const DType dtype, Unpacked w, size_t n_cells,
                           const InputBlock *x) {
    const PanelFormat format = panel_format(dtype);
    const int groups = format.groups, run = byte_run(dtype), centre = format.centre;
    const int32_t *quads = x->quads, *sum_z = x->sums;
    const float *scales = x->scales, *w_scales = w.scales;
    F32x16 sum[MAX_BLOCK_ROWS];
    UNROLL(8)
    for (int t = 0; t < n; t++)
        sum[t] = f32_zero();
    for (size_t c = 0; c < n_cells; c++, scales += 4 * n, sum_z += 3 * n) {
        UNROLL(2)
        for (int g = 0; g < groups; g++) {
            I32x16 isum[MAX_BLOCK_ROWS];
            UNROLL(8)
            for (int t = 0; t < n; t++)
                isum[t] = i32_set(0);
            for (int first = 0; first < 8 / groups; first += run, quads += run * n) {
                ByteSums sums[MAX_BLOCK_ROWS];
                UNROLL(8)
                for (int f = 0; f < run; f++, w.words += 32) {
                    const int32_t *at = quads + f / 2 * 2 * n + f % 2;
                    I16x32 bytes = i16_load(w.words);
                    UNROLL(8)
                    for (int t = 0; t < n; t++)
                        sums[t] = byte_sums_add(f ? sums[t] : byte_sums_zero(), bytes,
                                                i16_pair(at + 2 * t));
                }
                UNROLL(8)
                for (int t = 0; t < n; t++) {
                    I32x16 total = byte_sums_i32(sums[t]);
                    isum[t] = i32_add(isum[t], total);
                }
            }
            // A shift multiplies.
            const int32_t *of_group = sum_z + (groups == 1 ? 0 : 1 + g);
            UNROLL(8)
            for (int t = 0; t < n && centre; t++)
                isum[t] = i32_sub(isum[t],
                                  i32_shift_left(i32_set(of_group[3 * t]), __builtin_ctz(centre)));
            add_group(sum, isum, n, groups, g, format.affine, &w_scales, scales);
        }
    }
    UNROLL(8)
    for (int t = 0; t < n; t++)
        acc[t] = sum[t];
}

#define BYTE_TILE(rows, dtype)                                                                     \
    case rows:                                                                                     \
        if (rows <= BLOCK_ROWS) byte_tile(acc, rows, dtype, w, n_cells, x);                        \
        break
#define BYTE_TILES(name, dtype)                                                                    \
    static void name(F32x16 *acc, Unpacked w, size_t n_cells, const InputBlock *x) {               \
        switch (x->n) {                                                                            \
            BYTE_TILE(1, dtype);                                                                   \
            BYTE_TILE(2, dtype);                                                                   \
            BYTE_TILE(3, dtype);                                                                   \
            BYTE_TILE(4, dtype);                                                                   \
            BYTE_TILE(6, dtype);                                                                   \
            BYTE_TILE(8, dtype);                                                                   \
        }                                                                                          \
    }
TILES(tile_of_32, 1, false)
TILES(tile_of_32_affine, 1, true)
TILES(tile_of_16, 2, false)
TILES(tile_of_16_affine, 2, true)
BYTE_TILES(byte_tile_q8, DTYPE_Q8_0)
BYTE_TILES(byte_tile_q4, DTYPE_Q4_0)
BYTE_TILES(byte_tile_q4_affine, DTYPE_Q4_1)
BYTE_TILES(byte_tile_q5, DTYPE_Q5_0)
BYTE_TILES(byte_tile_q5_affine, DTYPE_Q5_1)
BYTE_TILES(byte_tile_q2_k, DTYPE_Q2_K)
BYTE_TILES(byte_tile_q3_k, DTYPE_Q3_K)
BYTE_TILES(byte_tile_q6_k, DTYPE_Q6_K)

typedef void Tile(F32x16 *acc, Unpacked w, size_t n_cells, const InputBlock *x);

ALWAYS_INLINE Tile *tile_of(const DType dtype, const bool bytes) {
    const PanelFormat format = panel_format(dtype);
    if (!bytes && format.groups == 1) return format.affine ? tile_of_32_affine : tile_of_32;
    if (!bytes) return format.affine ? tile_of_16_affine : tile_of_16;
    switch (dtype) {
    case DTYPE_Q4_0: return byte_tile_q4;
    case DTYPE_Q4_1:
    case DTYPE_Q4_K: return byte_tile_q4_affine;
    case DTYPE_Q5_0: return byte_tile_q5;
    case DTYPE_Q5_1:
    case DTYPE_Q5_K: return byte_tile_q5_affine;
    case DTYPE_Q2_K: return byte_tile_q2_k;
    case DTYPE_Q3_K: return byte_tile_q3_k;
    case DTYPE_Q6_K: return byte_tile_q6_k;
    default: return byte_tile_q8; // Q8_0, Q8_GROUP
    }
}

// ---- one type ----

SPECIALISED void tile_type(const DType dtype, const PanelWork *work, size_t p) {
    size_t n_cells = work->matrix->cols / CELL_COLS, panel_bytes = work->matrix->panel_bytes;
    const uint8_t *panel = work->matrix->panels + p * panel_bytes;
    // A type that comes here takes the same form of every block, so the first answers for all.
    bool bytes = takes_bytes(dtype, work->blocks);
    Unpacked unpacked = unpacked_in(work->scratch, n_cells);
    if (bytes)
        unpack_panel(dtype, true, unpacked, panel, panel_bytes, n_cells);
    else
        unpack_panel(dtype, false, unpacked, panel, panel_bytes, n_cells);
    Tile *run = tile_of(dtype, bytes);
    for (size_t b = 0; b < work->n_blocks; b++) {
        F32x16 acc[MAX_BLOCK_ROWS];
        const InputBlock *x = work->blocks + b;
        run(acc, unpacked, n_cells, x);
        for (int t = 0; t < x->n; t++) {
            const Outlier *outliers = x->outliers + t * OUTLIERS;
            acc[t] = bytes ? add_unpacked_outliers(acc[t], dtype, true, unpacked, outliers)
                           : add_unpacked_outliers(acc[t], dtype, false, unpacked, outliers);
        }
        store_rows(work, p, work->blocks + b, acc);
    }
}

void ISA_NAME(project_tile)(const PanelWork *work, size_t panel) {
    WITH_CONSTANT_TYPE(work->matrix->dtype, tile_type, work, panel);
}
