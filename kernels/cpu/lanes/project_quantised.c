// Quantised panels times quantised inputs: whole numbers inside a scale group, then one fused
// multiply-add per group, in order (precision.h).
//
// One row reads the panel as it is packed. Elements of less than 8 bits: a load, a shift and a mask
// give 64 of them as bytes, 16 rows x 4 columns, which are multiplied with both signed bytes of
// z = 256 h + l apart: half of the instructions that 16-bit words take. Q8 is widened to words.
//
// For more rows the panel is unpacked once into int16 that stay in the L2 cache, and a tile of 16
// outputs x n rows runs over it: per two columns one load of weights and n i32_dot, each with its
// two activations broadcast from memory.
//
//     tile:   16 weights' rows in the lanes x n <= BLOCK_ROWS inputs, each an accumulator
//
// All compute the same whole numbers and the same roundings, so a row has the same bits either way.
//
// Measured on Zen 4 (EPYC Genoa, 2 virtual processors, not idle), one thread. One row in the cache,
// GB/s of stored weights (memory gives 31):
//
//                 Q2_K  Q3_K  Q4_0  Q4_1  Q4_K  Q5_0  Q6_K  Q8_0
//     AVX2        12.0  15.0  32.0  34.5  29.5  23.0  26.0  52.0
//     AVX-512     18.0  20.5  41.1  45.3  39.6  35.7  37.2  61.0
//
// The tile does 185 Gop/s with AVX-512 (of 234 that its dot product instruction has) and 155 with
// AVX2, where a multiplication with its addition comes to 189.
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

// ---- one row, straight from the packed panel ----

// isum[g] of a cell of bytes: words times words.
ALWAYS_INLINE void dot_words(I32x16 *isum, const uint8_t *planes, const int groups,
                             const int32_t *pairs) {
    I32x16 sums[4]; // several, so that the additions do not wait for each other
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        sums[i] = i32_zero();
    UNROLL(16)
    for (int j = 0; j < 16; j++) {
        const int i = j / 8 * 2 + j % 2;
        sums[i] = i32_dot(sums[i], i16_from_i8(planes + 32 * j), i16_pair(pairs + j));
    }
    isum[0] = i32_add(sums[0], sums[1]);
    isum[1] = i32_add(sums[2], sums[3]);
    if (groups == 1) isum[0] = i32_add(isum[0], isum[1]);
}

// isum[g] of a cell of smaller elements: bytes times each digit of the activations.
ALWAYS_INLINE void dot_digits(I32x16 *isum, const DType dtype, const uint8_t *planes,
                              const int groups, const int32_t *digits) {
    const PanelFormat format = panel_format(dtype);
    const int per_group = 8 / groups, most = byte_sums_run(format.low_bits + format.high_bits);
    const int run = most < per_group ? most : per_group;
    UNROLL(4)
    for (int first = 0; first < 8; first += run) {
        ByteSums high = i32_zero(), low = i32_zero();
        UNROLL(8)
        for (int f = first; f < first + run; f++) {
            const int32_t *at = digits + f / 2 * 4 + f % 2;
            I16x32 elements = cell_bytes(dtype, planes, f);
            high = byte_sums_add(high, elements, i16_pair(at));
            low = byte_sums_add(low, elements, i16_pair(at + 2));
        }
        I32x16 sum = byte_sums_join(high, low), *to = isum + first / per_group;
        *to = first % per_group ? i32_add(*to, sum) : sum;
    }
}

SPECIALISED F32x16 dot_panel(const DType dtype, const uint8_t *panel, size_t n_cells,
                             const InputBlock *x) {
    const PanelFormat format = panel_format(dtype);
    const int groups = format.groups;
    const float *scales = x->scales;
    F32x16 acc = f32_zero();
    for (size_t cell = 0; cell < n_cells; cell += PIECE_CELLS) {
        Piece piece = piece_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < piece.n_cells; c++, scales += 4) {
            const uint8_t *planes = piece.bytes + cell_planes_at(&format, c);
            const int32_t *sums = x->sums + 2 * (cell + c);
            I32x16 isum[2];
            if (format.low_bits == 8)
                dot_words(isum, planes, groups, x->pairs + 16 * (cell + c));
            else
                dot_digits(isum, dtype, planes, groups, x->digits + 16 * (cell + c));
            CellScales w = cell_scales(dtype, &piece, c);
            F32x16 d = f32_set(scales[0]);
            UNROLL(2)
            for (int g = 0; g < groups; g++) {
                int32_t sum_z = groups == 1 ? sums[0] + sums[1] : sums[g];
                if (format.centre) isum[g] = i32_sub(isum[g], i32_set(format.centre * sum_z));
                acc = f32_fma(f32_from_i32(isum[g]), f32_mul(w.s[g], d), acc);
                const int sum = groups == 1 ? 1 : 2 + g;
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
                i16_store(to.words, i16_sub(cell_words(dtype, planes, j), centre));
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
    F32x16 sum[MAX_BLOCK_ROWS];
    UNROLL(8)
    for (int t = 0; t < n; t++)
        sum[t] = f32_zero();
    for (size_t c = 0; c < n_cells; c++, scales += 4 * n) {
        UNROLL(2)
        for (int g = 0; g < groups; g++) {
            I32x16 isum[MAX_BLOCK_ROWS];
            I16x32 first = i16_load(w.words);
            UNROLL(8)
            for (int t = 0; t < n; t++)
                isum[t] = i32_pairs(first, i16_pair(pairs + t));
            w.words += 32, pairs += n;
            UNROLL(5)
            for (int j = 1; j < 16 / groups; j++, w.words += 32, pairs += n) {
                I16x32 words = i16_load(w.words);
                UNROLL(8)
                for (int t = 0; t < n; t++)
                    isum[t] = i32_dot(isum[t], words, i16_pair(pairs + t));
            }
            F32x16 s = f32_load(w.scales);
            w.scales += 16;
            UNROLL(8)
            for (int t = 0; t < n; t++)
                sum[t] = f32_fma(f32_from_i32(isum[t]), f32_mul(s, f32_set(scales[t])), sum[t]);
            if (!affine) continue;
            F32x16 m = f32_load(w.scales);
            const float *sums = scales + (groups == 1 ? 1 : 2 + g) * n;
            w.scales += 16;
            UNROLL(8)
            for (int t = 0; t < n; t++)
                sum[t] = f32_fma(m, f32_set(sums[t]), sum[t]);
        }
    }
    UNROLL(8)
    for (int t = 0; t < n; t++)
        acc[t] = sum[t];
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
                I16x32 q = i16_sub(cell_words(dtype, planes, j), centre);
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
