// Quantised panels times many rows of quantised inputs by AMX, the matrix unit of Intel's servers
// since Sapphire Rapids (2023). An instruction multiplies up to 16 rows of signed bytes with 16
// columns, 32 bytes deep here, and adds to int32: what takes AVX-512 128 instructions.
//
//     tile (tiles.h)   rows x bytes of a row    what it holds
//     left             n <= 16 x 32             n inputs, the columns of a cell
//     right            8 x 64                   the cell's eight byte vectors (panels.h)
//     sums             n x 64                   row t is the I32x16 of input t
//
// Types with two scale groups in a cell take halves: 16 bytes of inputs, four byte vectors. In a16
// an input is two signed bytes, 256 h + l, and each has a tile of inputs and one of sums.
//
// The integers are those of project_tile.c, and so are the roundings that follow: a row has the
// same bits. Panels are unpacked once, into signed bytes, and stay in the L2 cache for all blocks.
//
// Tiles reach the vector registers through memory. So the products of a group are begun before the
// sums of the previous one are read: the 100 cycles that they take are hidden.
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

#if defined(ISA_avx512) && defined(WITH_AMX)
#include "kernels/cpu/lanes/tiles.h"

// A panel unpacked: bytes (cells, 8, 64), centred; then of each scale group 16 floats s and, in
// affine types, 16 floats m.
typedef struct Unpacked {
    int8_t *bytes;
    float *scales;
} Unpacked;

// Of one group times one block: 16 int32 for each input, of the low and of the high digits.
typedef int32_t Sums[2][TILE_ROWS * PANEL_ROWS];

// TILE_PANELS of them, and the sums of two groups.
typedef struct Scratch {
    Sums *sums;
    Unpacked panels[TILE_PANELS];
} Scratch;

static Scratch scratch_of(const PanelWork *work, size_t n_cells, const PanelFormat *format) {
    Scratch scratch = {.sums = work->scratch};
    uint8_t *at = (uint8_t *)(scratch.sums + 2);
    size_t n_scales = n_cells * format->groups * (format->affine ? 2 : 1) * PANEL_ROWS;
    for (int i = 0; i < TILE_PANELS; i++) {
        scratch.panels[i].bytes = (int8_t *)at;
        at += n_cells * CELL_COLS * PANEL_ROWS;
        scratch.panels[i].scales = (float *)(void *)at;
        at += n_scales * sizeof(float);
    }
    return scratch;
}

// The tiles take long enough that what lies `far` ahead is in the L2 cache by then.
SPECIALISED void unpack_panel(const DType dtype, Unpacked to, const uint8_t *panel, size_t n_cells,
                              size_t far) {
    const PanelFormat format = panel_format(dtype);
    const __m512i centre = _mm512_set1_epi8((char)format.centre);
    for (size_t cell = 0; cell < n_cells; cell += SUPERBLOCK_CELLS) {
        Superblock superblock = superblock_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < superblock.n_cells; c++) {
            const uint8_t *planes = superblock.bytes + cell_planes_at(&format, c);
            const Ahead ahead = cell_ahead(dtype, &superblock, c, PREFETCH_L1_AND_L2, far);
            UNROLL(8)
            for (int f = 0; f < 8; f++, to.bytes += 64) {
                prefetch_step(&ahead, f);
                i16_store(to.bytes, _mm512_sub_epi8(cell_bytes(dtype, planes, f), centre));
            }
            to.scales = store_scales(dtype, to.scales, cell_scales(dtype, &superblock, c));
        }
        panel += superblock_bytes(&format, superblock.n_cells);
    }
}

// Scale group `group` of the panel times n inputs, begun: they come into `sums`.
ALWAYS_INLINE void multiply(Sums *sums, Unpacked w, size_t group, const int n, const int digits,
                            const int groups, const InputBlock *x) {
    const int8_t *bytes = w.bytes + group * (size_t)(CELL_COLS * PANEL_ROWS / groups);
    const int32_t *high = x->tiles + group / (size_t)groups * (size_t)(8 * n * digits);
    if (groups == 2) high += group % 2 * 4;
    const int32_t *low = high + 8 * n * (digits - 1);
    tile_load(RIGHT_0, bytes, 64);
    if (digits == 2) {
        tile_zero(SUMS_1);
        tile_load(LEFT_1, high, 32);
        tile_multiply(SUMS_1, LEFT_1, RIGHT_0);
        tile_store(SUMS_1, (*sums)[1], 64);
    }
    tile_zero(SUMS_0);
    tile_load(LEFT_0, low, 32);
    tile_multiply(SUMS_0, LEFT_0, RIGHT_0);
    tile_store(SUMS_0, (*sums)[0], 64);
}

// acc[t] for the n rows of a block, n a constant.
SPECIALISED void dot_tiles(F32x16 *acc, const int n, const int digits, const int groups,
                           const bool affine, Unpacked w, size_t n_cells, const InputBlock *x,
                           Sums *sums) {
    const size_t n_groups = n_cells * (size_t)groups;
    const float *scales = x->scales, *w_scales = w.scales;
    F32x16 sum[TILE_ROWS];
    UNROLL(16)
    for (int t = 0; t < n; t++)
        sum[t] = f32_zero();
    multiply(sums, w, 0, n, digits, groups, x);
    for (size_t group = 0; group < n_groups; group++) {
        if (group + 1 < n_groups)
            multiply(&sums[(group + 1) % 2], w, group + 1, n, digits, groups, x);
        const int32_t *low = sums[group % 2][0], *high = sums[group % 2][1];
        const F32x16 s = f32_load(w_scales), m = affine ? f32_load(w_scales + 16) : f32_zero();
        w_scales += affine ? 32 : 16;
        const int sum_z = groups == 1 ? 1 : 2 + (int)(group % 2);
        UNROLL(16)
        for (int t = 0; t < n; t++) {
            I32x16 isum = i32_load(low + 16 * t);
            if (digits == 2) isum = byte_sums_join(i32_load(high + 16 * t), isum);
            sum[t] = f32_fma(f32_from_i32(isum), f32_mul(s, f32_set(scales[4 * t])), sum[t]);
            if (affine) sum[t] = f32_fma(m, f32_set(scales[4 * t + sum_z]), sum[t]);
        }
        if (groups == 1 || group % 2) scales += 4 * n;
    }
    UNROLL(16)
    for (int t = 0; t < n; t++)
        acc[t] = sum[t];
}

// One function for each size of block, so that its sums are in registers of their own.
#define TILE(rows, digits, groups, affine)                                                         \
    case rows:                                                                                     \
        dot_tiles(acc, rows, digits, groups, affine, w, n_cells, x, sums);                         \
        break
#define TILES(name, digits, groups, affine)                                                        \
    static void name(F32x16 *acc, Unpacked w, size_t n_cells, const InputBlock *x, Sums *sums) {   \
        switch (x->n) {                                                                            \
            TILE(2, digits, groups, affine);                                                       \
            TILE(3, digits, groups, affine);                                                       \
            TILE(4, digits, groups, affine);                                                       \
            TILE(6, digits, groups, affine);                                                       \
            TILE(8, digits, groups, affine);                                                       \
            TILE(16, digits, groups, affine);                                                      \
        }                                                                                          \
    }
TILES(a8_of_32, 1, 1, false)
TILES(a8_of_32_affine, 1, 1, true)
TILES(a8_of_16, 1, 2, false)
TILES(a8_of_16_affine, 1, 2, true)
TILES(a16_of_32, 2, 1, false)
TILES(a16_of_32_affine, 2, 1, true)
TILES(a16_of_16, 2, 2, false)
TILES(a16_of_16_affine, 2, 2, true)

typedef void Tile(F32x16 *acc, Unpacked w, size_t n_cells, const InputBlock *x, Sums *sums);

// acc + what the outliers of one row of inputs come to (precision.h).
ALWAYS_INLINE F32x16 add_outliers(F32x16 acc, const PanelFormat *format, Unpacked w,
                                  const Outlier *outliers) {
    UNROLL(2)
    for (int o = 0; o < OUTLIERS; o++) {
        const size_t column = outliers[o].column;
        const int8_t *bytes = w.bytes + byte_vector_of(column) * 64;
        const int at = byte_of(column);
        I32x16 q = _mm512_sll_epi32(i32_load((const int32_t *)(const void *)bytes),
                                    _mm_cvtsi32_si128(24 - 8 * at));
        const float *s =
            w.scales + column / (size_t)(32 / format->groups) * (format->affine ? 32 : 16);
        F32x16 weights = f32_fma(f32_from_i32(i32_shift_right(q, 24)), f32_load(s),
                                 format->affine ? f32_load(s + 16) : f32_zero());
        acc = f32_fma(weights, f32_set(outliers[o].x), acc);
    }
    return acc;
}

// Several panels for each block: each row of the output then gets neighbouring cache lines, and its
// page is looked up once.
static void project_tiles(const PanelWork *work) {
    static Tile *const RUN[2][2][2] = {
        {{a16_of_32, a16_of_32_affine}, {a16_of_16, a16_of_16_affine}},
        {{a8_of_32, a8_of_32_affine}, {a8_of_16, a8_of_16_affine}}};
    const DType dtype = work->matrix->dtype;
    const PanelFormat format = panel_format(dtype);
    const size_t n_cells = work->matrix->cols / CELL_COLS, bytes = work->matrix->panel_bytes;
    const Scratch scratch = scratch_of(work, n_cells, &format);
    Tile *run = RUN[2 - work->digits][format.groups - 1][format.affine];
    int rows = 0; // that the tiles are configured for
    for (size_t first = work->first_panel; first < work->end_panel; first += TILE_PANELS) {
        const uint8_t *panel = work->matrix->panels + first * bytes;
        size_t left = work->end_panel - first, n_panels = left < TILE_PANELS ? left : TILE_PANELS;
        for (size_t p = 0; p < n_panels; p++)
            WITH_CONSTANT_TYPE(dtype, unpack_panel, scratch.panels[p], panel + p * bytes, n_cells,
                               TILE_PANELS * bytes);
        tiles_see_memory();
        for (size_t b = 0; b < work->n_blocks; b++) {
            const InputBlock *x = work->blocks + b;
            if (x->n != rows) tiles_configure(rows = x->n, CELL_COLS / format.groups);
            for (size_t p = 0; p < n_panels; p++) {
                const Unpacked w = scratch.panels[p];
                F32x16 acc[TILE_ROWS];
                run(acc, w, n_cells, x, scratch.sums);
                for (int t = 0; t < x->n; t++)
                    acc[t] = add_outliers(acc[t], &format, w, x->outliers + t * OUTLIERS);
                store_rows(work, first + p, x, acc);
            }
        }
    }
    tiles_release();
}

// ---- the table: AVX-512's, but for many rows of quantised weights ----

// So many rows are worth unpacking a panel: Gop/s of one thread, amx and avx512, on a Xeon
// (docs/performance.md), 1536 x 576, Q8_0; bench calls the peak of the tiles as used here 3,200:
//
//     rows      4         6         8        16        32       512
//     a16   104 202   149 212   185 217   261 216   303 210   321 228
//     a8    133 297   182 328   232 338   304 326   375 331   454 310
enum { A16_ROWS_LEAST = 16, A8_ROWS_LEAST = 32 };

static bool takes_tiles(DType dtype, int n, bool a8) {
    return !dtype_is_float(dtype) && n >= (a8 ? A8_ROWS_LEAST : A16_ROWS_LEAST);
}

static void panels(const PanelWork *work) {
    if (!work->as_floats && takes_tiles(work->matrix->dtype, work->n, work->digits == 1))
        project_tiles(work);
    else
        project_kernels_avx512.panels(work);
}

static int block_rows(DType dtype, int n, bool quads) {
    return project_kernels_avx512.block_rows(dtype, n, quads);
}

static InputForm form_of(DType dtype, int n, int rows, bool quads) {
    return takes_tiles(dtype, n, quads) ? INPUT_TILES
                                        : project_kernels_avx512.form(dtype, n, rows, quads);
}

extern const ProjectKernels project_kernels_amx;
const ProjectKernels project_kernels_amx = {
    .block_rows = block_rows,
    .tile_rows = TILE_ROWS,
    .digit_rows = A16_ROWS_LEAST,
    .form = form_of,
    .quantise = ISA_NAME(quantise_row),
    .panels = panels,
};
#endif
