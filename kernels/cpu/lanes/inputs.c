// The input rows of a projection as the kernels read them: integers with a scale per 32, as
// precision.h says, in the order of project_kernels.h.
//
// As bytes, z = 256 h + l, a quarter of a cell has the four columns of each of two byte vectors
// (panels.h), h before l:
//
//     digits:  h(0 4 1 5) h(2 6 3 7) l(0 4 1 5) l(2 6 3 7)
//     quads:   l(0 4 1 5) l(2 6 3 7)                           a8, where z = l
//
// In tiles the four quarters of a row are one after another, those of h and of l apart.
#include "kernels/cpu/lanes/project.h"
#include "kernels/cpu/simd.h"
#include "kernels/precision.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ---- sixteen cells at once ----

// x: four cells, sixteen lanes of each. Lane i of every group of four lanes of the result is of
// cell i: f32_transpose_groups brings the four groups of a cell together.
#define FOLD_CELLS(name, fold)                                                                     \
    static inline F32x16 name(const F32x16 x[4]) {                                                 \
        F32x16 even = fold(f32_interleave_low(x[0], x[2]), f32_interleave_high(x[0], x[2]));       \
        F32x16 odd = fold(f32_interleave_low(x[1], x[3]), f32_interleave_high(x[1], x[3]));        \
        return fold(f32_interleave_low(even, odd), f32_interleave_high(even, odd));                \
    }
FOLD_CELLS(largest_of_cells, f32_max)
FOLD_CELLS(sums_of_cells, f32_add)

// Loaded from 31 - i on, lane i of KEEP is 0 and all others are 1; of TAKE the other way around.
static const float KEEP[63] = {[0 ... 30] = 1, [32 ... 62] = 1}, TAKE[63] = {[31] = 1};

typedef struct Cell {
    F32x16 a, b; // columns 0 .. 15 and 16 .. 31
} Cell;

static inline Cell cell_load(const float *x) {
    return (Cell){f32_load(x), f32_load(x + 16)};
}

// With 0 in one column. Of finite numbers.
static inline Cell cell_without(Cell cell, size_t column) {
    const float *keep = KEEP + 31 - column;
    return (Cell){f32_mul(cell.a, f32_load(keep)), f32_mul(cell.b, f32_load(keep + 16))};
}

// With 0 for those of the first `count` outliers that come from cell c of the row. In registers: a
// narrow store is not forwarded to a wider load.
static inline Cell cell_without_outliers(Cell cell, size_t c, const Outlier *outliers, int count) {
    for (int o = 0; o < count; o++)
        if (outliers[o].column / CELL_COLS == c && outliers[o].x != 0.0f)
            cell = cell_without(cell, outliers[o].column % CELL_COLS);
    return cell;
}

static inline F32x16 cell_magnitudes(Cell cell) {
    return f32_max(f32_abs(cell.a), f32_abs(cell.b));
}

// ---- outliers ----

// The largest magnitude of each cell, filled up with zeros to whole vectors. False: some x is not
// finite, and what was written means nothing.
static bool find_largest(float *largest, const float *x, size_t cells) {
    F32x16 zero = f32_zero(), check = zero; // 0 times what is not finite is NaN
    for (size_t first = 0; first < cells; first += 16) {
        F32x16 groups[4];
        for (size_t q = 0; q < 4; q++) {
            F32x16 cell_lanes[4];
            UNROLL(4)
            for (size_t i = 0; i < 4; i++) {
                size_t c = first + 4 * q + i;
                Cell cell = c < cells ? cell_load(x + c * CELL_COLS) : (Cell){zero, zero};
                check = f32_add(check, f32_fma(cell.a, zero, f32_mul(cell.b, zero)));
                cell_lanes[i] = cell_magnitudes(cell);
            }
            groups[q] = largest_of_cells(cell_lanes);
        }
        f32_transpose_groups(groups);
        f32_store(largest + first,
                  f32_max(f32_max(groups[0], groups[1]), f32_max(groups[2], groups[3])));
    }
    return mask_bits(f32_less(check, f32_set(1.0f))) == 0xffff;
}

// Bit i: lane i is not below `top`.
static inline uint32_t not_below(F32x16 x, float top) {
    return ~mask_bits(f32_less(x, f32_set(top))) & 0xffff;
}

// The first of `count` numbers, a multiple of 16, that is not below `top`; there is one.
static size_t first_not_below(const float *x, size_t count, float top) {
    for (size_t start = 0;; start += 64) {
        uint64_t found = 0; // without a branch for each 16
        for (size_t i = 0; i < 64 && start + i < count; i += 16)
            found |= (uint64_t)not_below(f32_load(x + start + i), top) << i;
        if (found) return start + (size_t)__builtin_ctzll(found);
    }
}

// outliers[OUTLIERS] of a row of finite numbers; in `largest` (find_largest) their cells get what
// they keep. kernels/precision.c goes through the whole row for each.
static void find_outliers(Outlier *outliers, float *largest, const float *x, size_t cells) {
    size_t count = (cells + 15) / 16 * 16;
    for (int o = 0; o < OUTLIERS; o++) {
        F32x16 most = f32_load(largest);
        for (size_t i = 16; i < count; i += 16)
            most = f32_max(most, f32_load(largest + i));
        float top = f32_largest(most);
        outliers[o] = (Outlier){0};
        if (top == 0.0f) continue;
        // Among equals the first cell, and the first column in it.
        size_t c = first_not_below(largest, count, top);
        Cell cell = cell_without_outliers(cell_load(x + c * CELL_COLS), c, outliers, o);
        uint32_t equal = not_below(f32_abs(cell.a), top) | not_below(f32_abs(cell.b), top) << 16;
        size_t i = (size_t)__builtin_ctz(equal);
        outliers[o] = (Outlier){(uint32_t)(c * CELL_COLS + i), x[c * CELL_COLS + i]};
        float rest = f32_largest(cell_magnitudes(cell_without(cell, i)));
        float *of = largest + c / 16 * 16;
        const float *keep = KEEP + 31 - c % 16, *take = TAKE + 31 - c % 16;
        f32_store(of,
                  f32_fma(f32_set(rest), f32_load(take), f32_mul(f32_load(of), f32_load(keep))));
    }
}

// Bit i: an outlier comes from cell first + i, of 16.
static uint32_t cells_of(const Outlier *outliers, size_t first) {
    uint32_t cells = 0;
    for (int o = 0; o < OUTLIERS; o++) {
        size_t cell = outliers[o].column / CELL_COLS;
        if (outliers[o].x != 0.0f && cell / 16 == first / 16) cells |= 1u << cell % 16;
    }
    return cells;
}

// ---- integers ----

// The digits of 32 z as bytes. Of z + 128 the upper byte is h = floor((z + 128) / 256); the lower
// byte of z is that of l = z - 256 h. Each 16 bytes are eight z.
static inline I16x32 low_digits_of(I16x32 z) {
    static const int8_t LOW[16] = {-1, -1, -1, -1, -1, -1, -1, -1, // of z 0 4 1 5 2 6 3 7
                                   0,  8,  2,  10, 4,  12, 6,  14};
    return i16_pick_bytes(z, LOW);
}
static inline I16x32 digits_of(I16x32 z) {
    static const int8_t HIGH[16] = {1, 9, 3, 11, 5, 13, 7, 15, -1, -1, -1, -1, -1, -1, -1, -1};
    return i16_or(i16_pick_bytes(i16_sub(z, i16_set(-128)), HIGH), low_digits_of(z));
}

// The last `count` of the four words of each quarter to their place in a block of n rows.
static inline void put_quarters(int32_t *to, size_t n, size_t count, I16x32 cell) {
    int32_t words[16];
    i16_store(words, cell);
    for (size_t q = 0; q < 4; q++)
        memcpy(to + q * n * count, words + 4 * q + 4 - count, count * sizeof *to);
}

// The same into tiles, of `n_digits` digits.
static inline void put_tiles(int32_t *to, size_t n, size_t n_digits, I16x32 cell) {
    int32_t words[16];
    i16_store(words, cell);
    for (size_t digit = 0; digit < n_digits; digit++, to += 8 * n)
        for (size_t q = 0; q < 4; q++)
            memcpy(to + 2 * q, words + 4 * q + 2 * (2 - n_digits + digit), 2 * sizeof *to);
}

// z (count, 32): the integers of cells first .. first + count - 1, to their places in the block. A
// loop for each form, so that each is short.
static void put_integers(const InputBlock *block, size_t first, size_t count, size_t row,
                         size_t n_digits, const int16_t *z) {
    size_t n = (size_t)block->n;
    for (size_t i = 0; block->pairs && i < count; i++)
        put_quarters(block->pairs + 16 * n * (first + i) + 4 * row, n, 4,
                     i16_load(z + CELL_COLS * i));
    for (size_t i = 0; block->digits && i < count; i++)
        put_quarters(block->digits + 16 * n * (first + i) + 4 * row, n, 4,
                     digits_of(i16_load(z + CELL_COLS * i)));
    for (size_t i = 0; block->quads && i < count; i++)
        put_quarters(block->quads + 8 * n * (first + i) + 2 * row, n, 2,
                     low_digits_of(i16_load(z + CELL_COLS * i)));
    for (size_t i = 0; block->tiles && i < count; i++)
        put_tiles(block->tiles + 8 * (n_digits * n * (first + i) + row), n, n_digits,
                  digits_of(i16_load(z + CELL_COLS * i)));
}

// Scales and sums of `count` cells, at most 16, from the d of each and the sums of the z of its two
// halves: integers below 2^24, which float32 holds exactly.
static inline void put_scales(const InputBlock *block, size_t first, size_t count, size_t row,
                              F32x16 d, F32x16 low, F32x16 high) {
    size_t n = (size_t)block->n;
    F32x16 both = f32_add(low, high), b = f32_mul(d, both);
    F32x16 l = f32_mul(d, low), h = f32_mul(d, high);
    // Cell 4 i + k is group i of four lanes of scales[k].
    F32x16 dl_low = f32_interleave_low(d, l), dl_high = f32_interleave_high(d, l);
    F32x16 bh_low = f32_interleave_low(b, h), bh_high = f32_interleave_high(b, h);
    float scales[4][16];
    f32_store(scales[0], f32_interleave_low(dl_low, bh_low));
    f32_store(scales[1], f32_interleave_high(dl_low, bh_low));
    f32_store(scales[2], f32_interleave_low(dl_high, bh_high));
    f32_store(scales[3], f32_interleave_high(dl_high, bh_high));
    int32_t sums[3][16];
    i32_store(sums[0], f32_to_i32(both));
    i32_store(sums[1], f32_to_i32(low));
    i32_store(sums[2], f32_to_i32(high));
    float *to_scales = block->scales + 4 * (n * first + row);
    int32_t *to_sums = block->sums + 3 * (n * first + row);
    for (size_t i = 0; i < count; i++, to_scales += 4 * n, to_sums += 3 * n) {
        memcpy(to_scales, scales[i % 4] + i / 4 * 4, 4 * sizeof *to_scales);
        to_sums[0] = sums[0][i], to_sums[1] = sums[1][i], to_sums[2] = sums[2][i];
    }
}

// A row in which something is not finite: as kernels/precision.c says.
static void quantise_plainly(const InputBlock *block, size_t row, const float *x, size_t cols,
                             int levels, float *scratch) {
    size_t cells = cols / CELL_COLS;
    float *scales = scratch;
    int32_t *sums = (int32_t *)(scales + cells);
    int16_t *z = (int16_t *)(sums + cells);
    activation_quantise(z, scales, sums, block->outliers + row * OUTLIERS, x, cols, levels);
    for (size_t c = 0; c < cells; c++, z += CELL_COLS) {
        int low = 0;
        for (int i = 0; i < CELL_COLS / 2; i++)
            low += z[i];
        put_integers(block, c, 1, row, levels == A8_LEVELS ? 1 : 2, z);
        put_scales(block, c, 1, row, f32_set(scales[c]), f32_set((float)low),
                   f32_set((float)(sums[c] - low)));
    }
}

// `count` cells, at most 16; bit i of `lost`: cell first + i lost an outlier.
static inline void quantise_cells(const InputBlock *block, size_t first, size_t count, size_t row,
                                  const float *x, F32x16 largest, uint32_t lost, int levels) {
    F32x16 zero = f32_zero(), scale = f32_div(largest, f32_set((float)levels));
    Mask16 none = f32_less(scale, f32_set(FLT_MIN));
    F32x16 d = f32_choose(none, zero, scale);
    float inverse[16]; // sixteen divisions take as long as one
    f32_store(inverse, f32_choose(none, zero, f32_div(f32_set(1.0f), scale)));
    int16_t z[16 * CELL_COLS];
    for (size_t i = 0; i < count; i++) {
        Cell cell = cell_load(x + (first + i) * CELL_COLS);
        if (lost >> i & 1)
            cell =
                cell_without_outliers(cell, first + i, block->outliers + row * OUTLIERS, OUTLIERS);
        I32x16 a = f32_to_i32(f32_mul(cell.a, f32_set(inverse[i])));
        I32x16 b = f32_to_i32(f32_mul(cell.b, f32_set(inverse[i])));
        i16_store(z + CELL_COLS * i, i16_from_i32(a, b));
    }
    size_t quarters = (count + 3) / 4;
    memset(z + CELL_COLS * count, 0, (4 * quarters - count) * CELL_COLS * sizeof *z);
    F32x16 sums[4] = {zero, zero, zero, zero};
    for (size_t q = 0; q < quarters; q++) {
        F32x16 cell_lanes[4];
        UNROLL(4)
        for (size_t i = 0; i < 4; i++)
            cell_lanes[i] =
                f32_from_i32(i32_pairs(i16_load(z + CELL_COLS * (4 * q + i)), i16_set(1)));
        sums[q] = sums_of_cells(cell_lanes);
    }
    f32_transpose_groups(sums);
    put_integers(block, first, count, row, levels == A8_LEVELS ? 1 : 2, z);
    put_scales(block, first, count, row, d, f32_add(sums[0], sums[1]), f32_add(sums[2], sums[3]));
}

void ISA_NAME(quantise_row)(const InputBlock *block, size_t row, const float *x, size_t cols,
                            int levels, float *scratch) {
    InputBlock to = *block; // so that no store can change it
    Outlier *outliers = to.outliers + row * OUTLIERS;
    size_t cells = cols / CELL_COLS;
    if (!find_largest(scratch, x, cells)) {
        quantise_plainly(&to, row, x, cols, levels, scratch);
        return;
    }
    find_outliers(outliers, scratch, x, cells);
    for (size_t first = 0; first < cells; first += 16) {
        size_t count = cells - first < 16 ? cells - first : 16;
        quantise_cells(&to, first, count, row, x, f32_load(scratch + first),
                       cells_of(outliers, first), levels);
    }
}
