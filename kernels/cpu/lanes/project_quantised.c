// Quantised panels times quantised inputs: whole numbers inside a scale group, then one fused
// multiply-add per group, in order (precision.h).
//
// One row reads the panel as it is packed: a load, a mask and a shift give 16 rows x 2 columns, one
// i32_dot multiplies them with two activations. For more rows the panel is unpacked once into int16
// that stay in the L2 cache, and a tile of 16 outputs x n rows runs over it: per two columns one
// load of weights and n i32_dot, each with its two activations broadcast from memory.
//
//     tile:   16 weights' rows in the lanes x n <= BLOCK_ROWS inputs, each an accumulator
//
// Both compute the same whole numbers and the same roundings, so a row has the same bits either
// way.
//
// Measured on Zen 4 (EPYC Genoa, 2 virtual processors, not idle), one thread: decoding a model of
// SmolLM2's shape reads 89 % (Q4_0) and 91 % (Q8_0) of the bandwidth measured in the same run. The
// tile does 159 Gop/s with AVX-512 and 143 with AVX2; 512 tokens of Q8_0 take two thirds of the
// time of llama.cpp's 8-bit activations.
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

// ---- one row, straight from the packed panel ----

SPECIALISED F32x16 dot_panel(const DType dtype, const uint8_t *panel, size_t n_cells,
                             const InputBlock *x) {
    const PanelFormat format = panel_format(dtype);
    const int32_t *pairs = x->pairs, *sums = x->sums;
    const float *scales = x->scales;
    F32x16 acc = f32_zero();
    for (size_t cell = 0; cell < n_cells; cell += PIECE_CELLS) {
        Piece piece = piece_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < piece.n_cells; c++, pairs += 16, sums += 2, scales += 4) {
            const uint8_t *planes = piece.bytes + cell_planes_at(&format, c);
            I32x16 isum[4]; // several, so that the additions do not wait for each other
            UNROLL(4)
            for (int i = 0; i < 4; i++)
                isum[i] = i32_zero();
            UNROLL(16)
            for (int j = 0; j < 16; j++) {
                const int i = j / 8 * 2 + j % 2;
                isum[i] = i32_dot(isum[i], cell_vector(dtype, planes, j), i16_pair(pairs + j));
            }
            UNROLL(2)
            for (int g = 0; g < 2; g++) {
                isum[g] = i32_add(isum[2 * g], isum[2 * g + 1]);
                if (format.centre) isum[g] = i32_sub(isum[g], i32_set(format.centre * sums[g]));
            }
            if (format.groups == 1) isum[0] = i32_add(isum[0], isum[1]);
            CellScales w = cell_scales(dtype, &piece, c);
            F32x16 d = f32_set(scales[0]);
            UNROLL(2)
            for (int g = 0; g < format.groups; g++) {
                acc = f32_fma(f32_from_i32(isum[g]), f32_mul(w.s[g], d), acc);
                const int sum = format.groups == 1 ? 1 : 2 + g;
                if (format.affine) acc = f32_fma(w.m[g], f32_set(scales[sum]), acc);
            }
        }
        panel += piece_bytes(&format, piece.n_cells);
    }
    return acc;
}

// ---- several rows: unpack, then tiles ----

// A panel unpacked: int16 words (cells, 16, 32), centred; then per cell s of each group and, in
// affine types, m of each, 16 floats each.
typedef struct Unpacked {
    int16_t *words;
    float *scales;
} Unpacked;

static Unpacked unpacked_in(void *scratch, size_t n_cells) {
    int16_t *words = scratch;
    return (Unpacked){words, (float *)(words + n_cells * 512)};
}

SPECIALISED void unpack_panel(const DType dtype, Unpacked to, const uint8_t *panel,
                              size_t n_cells) {
    const PanelFormat format = panel_format(dtype);
    const I16x32 centre = i16_set(format.centre);
    for (size_t cell = 0; cell < n_cells; cell += PIECE_CELLS) {
        Piece piece = piece_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < piece.n_cells; c++) {
            const uint8_t *planes = piece.bytes + cell_planes_at(&format, c);
            UNROLL(16)
            for (int j = 0; j < 16; j++, to.words += 32)
                i16_store(to.words, i16_sub(cell_vector(dtype, planes, j), centre));
            CellScales w = cell_scales(dtype, &piece, c);
            UNROLL(2)
            for (int g = 0; g < format.groups; g++, to.scales += 16) {
                f32_store(to.scales, w.s[g]);
                if (format.affine) f32_store(to.scales += 16, w.m[g]);
            }
        }
        panel += piece_bytes(&format, piece.n_cells);
    }
}

// acc[t] for the n rows of a block, n a constant.
SPECIALISED void tile(F32x16 *acc, const int n, const int groups, const bool affine, Unpacked w,
                      size_t n_cells, const InputBlock *x) {
    const int32_t *pairs = x->pairs;
    const float *scales = x->scales;
    UNROLL(8)
    for (int t = 0; t < n; t++)
        acc[t] = f32_zero();
    for (size_t c = 0; c < n_cells; c++, scales += 4 * n) {
        UNROLL(2)
        for (int g = 0; g < groups; g++) {
            I32x16 isum[MAX_BLOCK_ROWS];
            UNROLL(8)
            for (int t = 0; t < n; t++)
                isum[t] = i32_zero();
            UNROLL(4)
            for (int j = 0; j < 16 / groups; j++, w.words += 32, pairs += n) {
                I16x32 words = i16_load(w.words);
                UNROLL(8)
                for (int t = 0; t < n; t++)
                    isum[t] = i32_dot(isum[t], words, i16_pair(pairs + t));
            }
            F32x16 s = f32_load(w.scales);
            w.scales += 16;
            UNROLL(8)
            for (int t = 0; t < n; t++)
                acc[t] = f32_fma(f32_from_i32(isum[t]), f32_mul(s, f32_set(scales[t])), acc[t]);
            if (!affine) continue;
            F32x16 m = f32_load(w.scales);
            const float *sums = scales + (groups == 1 ? 1 : 2 + g) * n;
            w.scales += 16;
            UNROLL(8)
            for (int t = 0; t < n; t++)
                acc[t] = f32_fma(m, f32_set(sums[t]), acc[t]);
        }
    }
}

#define TILE(rows, groups, affine)                                                                 \
    case rows:                                                                                     \
        if (rows <= BLOCK_ROWS) tile(acc, rows, groups, affine, w, n_cells, x);                    \
        break
#define TILES(name, groups, affine)                                                                \
    static void name(F32x16 *acc, Unpacked w, size_t n_cells, const InputBlock *x) {               \
        switch (x->n) {                                                                            \
            TILE(1, groups, affine);                                                               \
            TILE(2, groups, affine);                                                               \
            TILE(4, groups, affine);                                                               \
            TILE(6, groups, affine);                                                               \
            TILE(8, groups, affine);                                                               \
        }                                                                                          \
    }
TILES(tile_of_32, 1, false)
TILES(tile_of_32_affine, 1, true)
TILES(tile_of_16, 2, false)
TILES(tile_of_16_affine, 2, true)

// ---- float32 inputs: the panel becomes floats ----

SPECIALISED void widen_panel(const DType dtype, float *to, const uint8_t *panel, size_t n_cells) {
    const PanelFormat format = panel_format(dtype);
    const I16x32 centre = i16_set(format.centre);
    for (size_t cell = 0; cell < n_cells; cell += PIECE_CELLS) {
        Piece piece = piece_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < piece.n_cells; c++) {
            const uint8_t *planes = piece.bytes + cell_planes_at(&format, c);
            CellScales w = cell_scales(dtype, &piece, c);
            UNROLL(16)
            for (int j = 0; j < 16; j++, to += 32) {
                const int g = format.groups == 1 ? 0 : j / 8;
                I16x32 q = i16_sub(cell_vector(dtype, planes, j), centre);
                F32x16 even = f32_mul(f32_from_i32(i16_even(q)), w.s[g]);
                F32x16 odd = f32_mul(f32_from_i32(i16_odd(q)), w.s[g]);
                f32_store(to, format.affine ? f32_add(even, w.m[g]) : even);
                f32_store(to + 16, format.affine ? f32_add(odd, w.m[g]) : odd);
            }
        }
        panel += piece_bytes(&format, piece.n_cells);
    }
}

// ---- all of it for one type ----

SPECIALISED void project_type(const DType dtype, const PanelWork *work) {
    const PanelFormat format = panel_format(dtype);
    size_t n_cells = work->matrix->cols / CELL_COLS;
    bool single = work->n_blocks == 1 && work->blocks->n == 1;
    Unpacked unpacked = unpacked_in(work->scratch, n_cells);
    F32x16 acc[MAX_BLOCK_ROWS];
    for (size_t p = work->first_panel; p < work->end_panel; p++) {
        const uint8_t *panel = work->matrix->panels + p * work->matrix->panel_bytes;
        if (work->as_floats) {
            widen_panel(dtype, work->scratch, panel, n_cells);
            for (size_t b = 0; b < work->n_blocks; b++)
                ISA_NAME(project_floats)(work, p, work->scratch, work->blocks + b);
            continue;
        }
        if (single) {
            acc[0] = dot_panel(dtype, panel, n_cells, work->blocks);
            store_rows(work, p, work->blocks, acc);
            continue;
        }
        unpack_panel(dtype, unpacked, panel, n_cells);
        for (size_t b = 0; b < work->n_blocks; b++) {
            const InputBlock *x = work->blocks + b;
            if (format.groups == 1 && !format.affine) tile_of_32(acc, unpacked, n_cells, x);
            if (format.groups == 1 && format.affine) tile_of_32_affine(acc, unpacked, n_cells, x);
            if (format.groups == 2 && !format.affine) tile_of_16(acc, unpacked, n_cells, x);
            if (format.groups == 2 && format.affine) tile_of_16_affine(acc, unpacked, n_cells, x);
            store_rows(work, p, x, acc);
        }
    }
}

void ISA_NAME(project_quantised)(const PanelWork *work) {
    switch (work->matrix->dtype) {
    case DTYPE_Q4_0: project_type(DTYPE_Q4_0, work); break;
    case DTYPE_Q4_1: project_type(DTYPE_Q4_1, work); break;
    case DTYPE_Q5_0: project_type(DTYPE_Q5_0, work); break;
    case DTYPE_Q5_1: project_type(DTYPE_Q5_1, work); break;
    case DTYPE_Q8_0: project_type(DTYPE_Q8_0, work); break;
    case DTYPE_Q2_K: project_type(DTYPE_Q2_K, work); break;
    case DTYPE_Q3_K: project_type(DTYPE_Q3_K, work); break;
    case DTYPE_Q4_K: project_type(DTYPE_Q4_K, work); break;
    case DTYPE_Q5_K: project_type(DTYPE_Q5_K, work); break;
    case DTYPE_Q6_K: project_type(DTYPE_Q6_K, work); break;
    case DTYPE_Q8_GROUP: project_type(DTYPE_Q8_GROUP, work); break;
    default: break; // float types are project_float's
    }
}
