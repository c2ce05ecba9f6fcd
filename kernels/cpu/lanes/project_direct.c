// Quantised panels times a few rows of quantised inputs, straight from the packed panel: it is read
// once and never written in another form.
//
// The elements of a cell are unpacked in registers and meet the inputs of all rows of a block
// there. A row's inputs take one of three forms, which give the same integers:
//
//     words    the pairs of columns of a cell, as int16
//     digits   z = 256 h + l as two signed bytes: a load, a shift and a mask give 64 elements as
//              bytes, 16 rows x 4 columns, which are multiplied with h and l apart. As many
//              multiplications as with words, and half of the unpacking
//     quads    a8, where z = l: one digit does
//
// Which one is taken depends on the type, the rows and the instruction set (lanes/project.h). Each
// row has its own sums, which are joined cell by cell in rising order: as many rows beside it as
// there are, its bits are the same, and those of project_tile.c. Outliers come last, one column of
// a cell for each.
//
// Measured on Zen 4, one thread, a matrix in the cache (bench --projections), Gop/s of a16; 512
// rows are project_tile.c's:
//
//                  1 row   2    4    8   512      AVX2:  1 row   2    4    8   512
//     Q4_0          138   176  181  187  185              100   117  140  142  154
//     Q5_0          106   156  170  175  185               69    90  119  120  155
//     Q6_K           89   128  150  149  171               59    77   88   88  122
//     Q8_0          116   176  181  188  184               93   124  141  144  154
#include "kernels/cpu/lanes/cells.h"
#include "kernels/cpu/lanes/project.h"

#include <assert.h>

// Vectors of less than a line meet a cell's lines in another order than memory's, which hardware
// prefetchers do not always follow: one row of Q5_0 out of memory with AVX2 on Zen 4, 21 GB/s with
// prefetches, 9 without.
#if defined(ISA_avx512)
static const Prefetch LEAST_PREFETCH = PREFETCH_NONE;
#else
static const Prefetch LEAST_PREFETCH = PREFETCH_L1;
#endif

// How far ahead lines go to the L2 cache, in bytes. Where several blocks of three rows and more
// take a panel one after the other, only the first meets lines that are not in a cache; so the last
// one prefetches the next panel.
static size_t prefetch_distance(const PanelWork *work, size_t block) {
    bool again = work->blocks[block].n > 2 && work->n_blocks > 1 && block + 1 == work->n_blocks;
    return again ? work->matrix->panel_bytes : L2_AHEAD;
}

// ---- the integers of a cell: isum[g][t] of scale group g and row t ----

typedef I32x16 CellSums[2][MAX_BLOCK_ROWS];

// Words times words. One row takes several sums, so that the additions do not wait for each other.
ALWAYS_INLINE void dot_words(CellSums isum, const DType dtype, const int n, const uint8_t *planes,
                             const int groups, const int32_t *pairs, const Ahead *ahead) {
    const int per_group = 8 / groups, chains = n == 1 ? 4 / groups : n == 2 ? 2 : 1;
    UNROLL(2)
    for (int g = 0; g < groups; g++) {
        I32x16 sums[4][MAX_BLOCK_ROWS];
        UNROLL(8)
        for (int k = 0; k < per_group; k++) {
            const int f = g * per_group + k;
            prefetch_step(ahead, f);
            WordPair words = cell_words(dtype, planes, f);
            UNROLL(2)
            for (int half = 0; half < 2; half++) {
                const int word = word_of(f) + 2 * half;
                const int32_t *at = pairs + word / 4 * 4 * n + word % 4;
                const int step = 2 * k + half, chain = step % chains;
                I16x32 two = half ? words.high : words.low;
                UNROLL(8)
                for (int t = 0; t < n; t++)
                    // The first vector starts a sum, so it need not be set to zero.
                    sums[chain][t] = step < chains
                                         ? i32_pairs(two, i16_pair(at + 4 * t))
                                         : i32_dot(sums[chain][t], two, i16_pair(at + 4 * t));
            }
        }
        UNROLL(8)
        for (int t = 0; t < n; t++) {
            isum[g][t] = sums[0][t];
            UNROLL(4)
            for (int chain = 1; chain < chains; chain++)
                isum[g][t] = i32_add(isum[g][t], sums[chain][t]);
        }
    }
}

// Bytes times each digit of the activations. The products with h and with l are summed apart, each
// in as many vectors as byte sums hold, and then joined: 256 high + low. A run never crosses from
// one scale group into the next.
ALWAYS_INLINE void dot_digits(CellSums isum, const DType dtype, const int n, const uint8_t *planes,
                              const int groups, const int32_t *digits, const Ahead *ahead) {
    const int per_group = 8 / groups, run = byte_run(dtype);
    UNROLL(4)
    for (int first = 0; first < 8; first += run) {
        ByteSums high[MAX_BLOCK_ROWS], low[MAX_BLOCK_ROWS];
        UNROLL(8)
        for (int t = 0; t < n; t++)
            high[t] = low[t] = byte_sums_zero();
        UNROLL(8)
        for (int f = first; f < first + run; f++) {
            // Four words for two byte vectors: h, h, l, l (lanes/inputs.c).
            const int32_t *at = digits + f / 2 * 4 * n + f % 2;
            prefetch_step(ahead, f);
            I16x32 elements = cell_bytes(dtype, planes, f);
            UNROLL(8)
            for (int t = 0; t < n; t++) {
                high[t] = byte_sums_add(high[t], elements, i16_pair(at + 4 * t));
                low[t] = byte_sums_add(low[t], elements, i16_pair(at + 2 + 4 * t));
            }
        }
        UNROLL(8)
        for (int t = 0; t < n; t++) {
            I32x16 sum = byte_sums_join(high[t], low[t]), *to = &isum[first / per_group][t];
            *to = first % per_group ? i32_add(*to, sum) : sum;
        }
    }
}

// Bytes times bytes.
ALWAYS_INLINE void dot_quads(CellSums isum, const DType dtype, const int n, const uint8_t *planes,
                             const int groups, const int32_t *quads, const Ahead *ahead) {
    const int per_group = 8 / groups, run = byte_run(dtype);
    UNROLL(4)
    for (int first = 0; first < 8; first += run) {
        ByteSums sums[MAX_BLOCK_ROWS];
        UNROLL(8)
        for (int t = 0; t < n; t++)
            sums[t] = byte_sums_zero();
        UNROLL(8)
        for (int f = first; f < first + run; f++) {
            const int32_t *at = quads + f / 2 * 2 * n + f % 2;
            prefetch_step(ahead, f);
            I16x32 elements = cell_bytes(dtype, planes, f);
            UNROLL(8)
            for (int t = 0; t < n; t++)
                sums[t] = byte_sums_add(sums[t], elements, i16_pair(at + 2 * t));
        }
        UNROLL(8)
        for (int t = 0; t < n; t++) {
            I32x16 sum = byte_sums_i32(sums[t]), *to = &isum[first / per_group][t];
            *to = first % per_group ? i32_add(*to, sum) : sum;
        }
    }
}

// ---- a panel ----

// acc[t] gets group g of a cell: its integers times the scales of both sides and, in affine types,
// m times the inputs' sum. scales (n, 4) and sums (n, 3) are the cell's.
ALWAYS_INLINE void add_group(F32x16 *acc, const I32x16 *isum, const int n, const int g,
                             const PanelFormat *format, const CellScales *w, const float *scales,
                             const int32_t *sums) {
    const int groups = format->groups, centre = format->centre;
    // sum (q - centre) z = sum q z - centre * sum z: one subtraction for a group instead of one for
    // each vector of elements, and the integer is the same. A shift multiplies.
    const int32_t *sum_z = sums + (groups == 1 ? 0 : 1 + g);
    // scales[1 ..] are d * sum z of the cell and of its halves.
    const float *offsets = scales + (groups == 1 ? 1 : 2 + g);
    UNROLL(8)
    for (int t = 0; t < n; t++) {
        I32x16 sum = isum[t];
        if (centre)
            sum = i32_sub(sum, i32_shift_left(i32_set(sum_z[3 * t]), __builtin_ctz(centre)));
        acc[t] = f32_fma(f32_from_i32(sum), f32_mul(w->s[g], f32_set(scales[4 * t])), acc[t]);
        if (format->affine) acc[t] = f32_fma(w->m[g], f32_set(offsets[4 * t]), acc[t]);
    }
}

// acc[t] becomes the dot products of row t of the block with the sixteen rows of a panel, for t
// below n. All but the pointers, n_cells and `far` (Ahead) are constants.
SPECIALISED void dot_panel(F32x16 *acc, const DType dtype, const InputForm form, const int n,
                           const Prefetch prefetch, const uint8_t *panel, size_t n_cells,
                           const InputBlock *x, size_t far) {
    const PanelFormat format = panel_format(dtype);
    const int groups = format.groups;
    const float *scales = x->scales;
    F32x16 total[MAX_BLOCK_ROWS];
    UNROLL(8)
    for (int t = 0; t < n; t++)
        total[t] = f32_zero();
    for (size_t cell = 0; cell < n_cells; cell += SUPERBLOCK_CELLS) {
        Superblock superblock = superblock_open(dtype, panel, n_cells - cell);
        for (size_t c = 0; c < superblock.n_cells; c++, scales += 4 * n) {
            const uint8_t *planes = superblock.bytes + cell_planes_at(&format, c);
            const size_t at = (cell + c) * (size_t)n;
            CellSums isum;
            const Ahead ahead = cell_ahead(dtype, &superblock, c, prefetch, far);
            if (form == INPUT_QUADS)
                dot_quads(isum, dtype, n, planes, groups, x->quads + 8 * at, &ahead);
            else if (form == INPUT_DIGITS)
                dot_digits(isum, dtype, n, planes, groups, x->digits + 16 * at, &ahead);
            else
                dot_words(isum, dtype, n, planes, groups, x->pairs + 16 * at, &ahead);
            CellScales w = cell_scales(dtype, &superblock, c);
            UNROLL(2)
            for (int g = 0; g < groups; g++)
                add_group(total, isum[g], n, g, &format, &w, scales, x->sums + 3 * at);
        }
        panel += superblock_bytes(&format, superblock.n_cells);
    }
    UNROLL(8)
    for (int t = 0; t < n; t++)
        acc[t] = total[t];
}

// ---- outliers ----

// Where the weights of an outlier's column are, the same in all panels of a matrix. Byte offsets:
// `superblock` in the panel, the others in the superblock.
typedef struct OutlierPlace {
    uint32_t superblock;
    uint16_t scales, low, high;    // the vectors with its low and high bits
    uint8_t low_shift, high_shift; // bit offsets in each int32 of them
    uint8_t group;                 // of its cell's scale groups
    float x;
} OutlierPlace;

// All superblocks before the outlier's are whole, so their size is one. An empty slot has x = 0 and
// adds 0 times column 0.
ALWAYS_INLINE OutlierPlace outlier_place(const DType dtype, Outlier outlier) {
    const PanelFormat format = panel_format(dtype);
    const int low = format.low_bits, high = format.high_bits ? format.high_bits : 1;
    size_t column = outlier.column % CELL_COLS, cell = outlier.column / CELL_COLS;
    size_t c = cell % SUPERBLOCK_CELLS, planes = cell_planes_at(&format, c);
    // Field f of the four bytes of a row; a byte of a plane has several (panels.h).
    int f = (int)byte_vector_of(column), byte = 8 * byte_of(column);
    return (OutlierPlace){
        .superblock =
            (uint32_t)(cell / SUPERBLOCK_CELLS * superblock_bytes(&format, SUPERBLOCK_CELLS)),
        .scales = (uint16_t)cell_scales_at(&format, c),
        .low = (uint16_t)(planes + 64 * (size_t)(f / (8 / low))),
        .high = (uint16_t)(planes + 64 * (size_t)(low + f / (8 / high))),
        .low_shift = (uint8_t)(byte + f % (8 / low) * low),
        .high_shift = (uint8_t)(byte + f % (8 / high) * high),
        .group = format.groups == 1 ? 0 : (uint8_t)(column / 16),
        .x = outlier.x,
    };
}

ALWAYS_INLINE I32x16 plane_element(const uint8_t *plane, int bits, int shift) {
    return i32_bits(i32_load((const int32_t *)(const void *)plane), shift, bits);
}

// acc + what the outliers of one row of inputs come to (precision.h).
ALWAYS_INLINE F32x16 add_outliers(F32x16 acc, const DType dtype, const uint8_t *panel,
                                  const OutlierPlace *places) {
    const PanelFormat format = panel_format(dtype);
    const int low = format.low_bits, high = format.high_bits;
    UNROLL(2)
    for (int o = 0; o < OUTLIERS; o++) {
        const OutlierPlace *at = &places[o];
        const uint8_t *bytes = panel + at->superblock;
        Superblock superblock = superblock_open(dtype, bytes, 1);
        CellScales w = cell_scales_from(dtype, &superblock, bytes + at->scales);
        I32x16 q = plane_element(bytes + at->low, low, at->low_shift);
        if (high)
            q = i32_add(q,
                        i32_shift_left(plane_element(bytes + at->high, high, at->high_shift), low));
        if (format.centre) q = i32_sub(q, i32_set(format.centre));
        int g = format.groups == 1 ? 0 : at->group;
        F32x16 weights = f32_fma(f32_from_i32(q), g ? w.s[1] : w.s[0], g ? w.m[1] : w.m[0]);
        acc = f32_fma(weights, f32_set(at->x), acc);
    }
    return acc;
}

// ---- one type ----

// One function for each type and size of block: a register cannot be indexed, so each size has sums
// of its own. Three rows and more always prefetch. Sizes beyond BLOCK_ROWS and what is below
// LEAST_PREFETCH are left out.
typedef void Dot(F32x16 *acc, const uint8_t *panel, size_t n_cells, const InputBlock *x,
                 size_t far);

#define DOT(name, dtype, rows, prefetch)                                                           \
    static __attribute__((noinline)) void name(F32x16 *acc, const uint8_t *panel, size_t n_cells,  \
                                               const InputBlock *x, size_t far) {                  \
        if (rows > BLOCK_ROWS || prefetch < LEAST_PREFETCH) return;                                \
        if (x->quads && input_form(dtype, rows, true) == INPUT_QUADS)                              \
            dot_panel(acc, dtype, INPUT_QUADS, rows, prefetch, panel, n_cells, x, far);            \
        else                                                                                       \
            dot_panel(acc, dtype, input_form(dtype, rows, false), rows, prefetch, panel, n_cells,  \
                      x, far);                                                                     \
    }

typedef Dot *const DotTable[PREFETCH_L1_AND_L2 + 1][MAX_BLOCK_ROWS + 1];

ALWAYS_INLINE void project_type(const DType dtype, DotTable table, const PanelWork *work) {
    Dot *const *dots = table[work->prefetch < LEAST_PREFETCH ? LEAST_PREFETCH : work->prefetch];
    const size_t n_cells = work->matrix->cols / CELL_COLS;
    const uint8_t *panel = work->matrix->panels + work->first_panel * work->matrix->panel_bytes;
    const InputBlock *last = work->blocks + work->n_blocks - 1;
    const int first_row = work->blocks->first, n_rows = last->first + last->n - first_row;
    OutlierPlace places[DIRECT_ROWS][OUTLIERS];
    F32x16 acc[MAX_BLOCK_ROWS];
    assert(n_rows <= DIRECT_ROWS); // takes_direct
    for (int row = 0; row < n_rows; row++)
        for (int i = 0; i < OUTLIERS; i++)
            places[row][i] = outlier_place(dtype, work->blocks->outliers[row * OUTLIERS + i]);
    for (size_t p = work->first_panel; p < work->end_panel; p++) {
        for (size_t b = 0; b < work->n_blocks; b++) {
            const InputBlock *x = work->blocks + b;
            dots[x->n](acc, panel, n_cells, x, prefetch_distance(work, b));
            for (int t = 0; t < x->n; t++)
                acc[t] = add_outliers(acc[t], dtype, panel, places[x->first - first_row + t]);
            store_rows(work, p, x, acc);
        }
        panel += work->matrix->panel_bytes;
    }
}

#define OF_TYPE(name, dtype)                                                                       \
    DOT(name##_1, dtype, 1, PREFETCH_NONE)                                                         \
    DOT(name##_2, dtype, 2, PREFETCH_NONE)                                                         \
    DOT(name##_1_l1, dtype, 1, PREFETCH_L1)                                                        \
    DOT(name##_2_l1, dtype, 2, PREFETCH_L1)                                                        \
    DOT(name##_1_l2, dtype, 1, PREFETCH_L1_AND_L2)                                                 \
    DOT(name##_2_l2, dtype, 2, PREFETCH_L1_AND_L2)                                                 \
    DOT(name##_3, dtype, 3, PREFETCH_L1_AND_L2)                                                    \
    DOT(name##_4, dtype, 4, PREFETCH_L1_AND_L2)                                                    \
    DOT(name##_6, dtype, 6, PREFETCH_L1_AND_L2)                                                    \
    DOT(name##_8, dtype, 8, PREFETCH_L1_AND_L2)                                                    \
    static __attribute__((noinline)) void name(const PanelWork *work) {                            \
        static DotTable TABLE = {                                                                  \
            {NULL, name##_1, name##_2, MORE_ROWS(name)},                                           \
            {NULL, name##_1_l1, name##_2_l1, MORE_ROWS(name)},                                     \
            {NULL, name##_1_l2, name##_2_l2, MORE_ROWS(name)},                                     \
        };                                                                                         \
        project_type(dtype, TABLE, work);                                                          \
    }
#define MORE_ROWS(name) name##_3, name##_4, NULL, name##_6, NULL, name##_8
OF_TYPE(project_q4_0, DTYPE_Q4_0)
OF_TYPE(project_q4_1, DTYPE_Q4_1)
OF_TYPE(project_q5_0, DTYPE_Q5_0)
OF_TYPE(project_q5_1, DTYPE_Q5_1)
OF_TYPE(project_q8_0, DTYPE_Q8_0)
OF_TYPE(project_q8_group, DTYPE_Q8_GROUP)
OF_TYPE(project_q2_k, DTYPE_Q2_K)
OF_TYPE(project_q3_k, DTYPE_Q3_K)
OF_TYPE(project_q4_k, DTYPE_Q4_K)
OF_TYPE(project_q5_k, DTYPE_Q5_K)
OF_TYPE(project_q6_k, DTYPE_Q6_K)

void ISA_NAME(project_direct)(const PanelWork *work) {
    switch (work->matrix->dtype) {
    case DTYPE_Q4_0: project_q4_0(work); break;
    case DTYPE_Q4_1: project_q4_1(work); break;
    case DTYPE_Q5_0: project_q5_0(work); break;
    case DTYPE_Q5_1: project_q5_1(work); break;
    case DTYPE_Q8_0: project_q8_0(work); break;
    case DTYPE_Q8_GROUP: project_q8_group(work); break;
    case DTYPE_Q2_K: project_q2_k(work); break;
    case DTYPE_Q3_K: project_q3_k(work); break;
    case DTYPE_Q4_K: project_q4_k(work); break;
    case DTYPE_Q5_K: project_q5_k(work); break;
    case DTYPE_Q6_K: project_q6_k(work); break;
    default: break;
    }
}
