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

// ---- outliers ----

// |x| of 16, 0 for what is not finite. f32_less is false for NaN too.
static inline F32x16 magnitudes(const float *x) {
    F32x16 a = f32_abs(f32_load(x));
    return f32_choose(f32_less(a, f32_set(INFINITY)), a, f32_zero());
}

// The largest magnitude of a cell.
static inline float cell_largest(const float *x) {
    return f32_largest(f32_max(magnitudes(x), magnitudes(x + 16)));
}

// Bit i: lane i is not below `top`.
static inline uint32_t not_below(F32x16 x, float top) {
    return ~mask_bits(f32_less(x, f32_set(top))) & 0xffff;
}

// The first of `count` numbers, a multiple of 16, that none is above.
static size_t first_largest(const float *x, size_t count) {
    F32x16 most = f32_load(x);
    for (size_t i = 16; i < count; i += 16)
        most = f32_max(most, f32_load(x + i));
    float top = f32_largest(most);
    size_t first = 0;
    uint32_t found;
    while (!(found = not_below(f32_load(x + first), top)))
        first += 16;
    return first + (size_t)__builtin_ctz(found);
}

// The cell without the first `count` outliers: itself, or a copy in `rest` with zeros for them.
static const float *without(float *rest, const float *x, size_t cell, const Outlier *outliers,
                            int count) {
    const float *from = x + cell * CELL_COLS;
    for (int o = 0; o < count; o++) {
        if (outliers[o].column / CELL_COLS != cell || outliers[o].x == 0.0f) continue;
        if (from != rest) memcpy(rest, from, CELL_COLS * sizeof *rest);
        from = rest;
        rest[outliers[o].column % CELL_COLS] = 0.0f;
    }
    return from;
}

// outliers[OUTLIERS] of one row, and the largest magnitude that each cell keeps; `largest` is
// filled up with zeros to a multiple of 16. One pass over the row. After that only the cells that
// lost an outlier are looked at again, where kernels/precision.c goes through the whole row for
// each.
static void find_outliers(Outlier *outliers, float *largest, const float *x, size_t cells) {
    size_t count = (cells + 15) / 16 * 16;
    for (size_t c = 0; c < cells; c++)
        largest[c] = cell_largest(x + c * CELL_COLS);
    memset(largest + cells, 0, (count - cells) * sizeof *largest);
    for (int o = 0; o < OUTLIERS; o++) {
        float rest[CELL_COLS];
        // Among equals the first cell, and the first column in it.
        size_t cell = first_largest(largest, count);
        const float *left = without(rest, x, cell, outliers, o);
        uint32_t equal = not_below(magnitudes(left), largest[cell]) |
                         not_below(magnitudes(left + 16), largest[cell]) << 16;
        size_t i = (size_t)__builtin_ctz(equal);
        bool found = largest[cell] > 0.0f;
        outliers[o] = found ? (Outlier){(uint32_t)(cell * CELL_COLS + i), left[i]} : (Outlier){0};
        largest[cell] = cell_largest(without(rest, x, cell, outliers, o + 1));
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

// The scale d of 16 cells, and 1 / d. Sixteen divisions take as long as one.
static void make_scales(float *d, float *inverse, const float *largest, float levels) {
    F32x16 scale = f32_div(f32_load(largest), f32_set(levels));
    Mask16 none = f32_less(scale, f32_set(FLT_MIN));
    f32_store(d, f32_choose(none, f32_zero(), scale));
    f32_store(inverse, f32_choose(none, f32_zero(), f32_div(f32_set(1.0f), scale)));
}

// The digits of 32 z as bytes. Of z + 128 the upper byte is h = floor((z + 128) / 256); the lower
// byte of z is that of l = z - 256 h. Each 16 bytes are eight z.
static inline I16x32 digits_of(I16x32 z) {
    static const int8_t HIGH[16] = {1,  9,  3,  11, 5,  13, 7,  15, // of z 0 4 1 5 2 6 3 7
                                    -1, -1, -1, -1, -1, -1, -1, -1};
    static const int8_t LOW[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 8, 2, 10, 4, 12, 6, 14};
    return i16_or(i16_pick_bytes(i16_sub(z, i16_set(-128)), HIGH), i16_pick_bytes(z, LOW));
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

// One cell of a row of the block: its z, d and sums.
static inline void quantise_cell(const InputBlock *block, size_t cell, size_t row, const float *x,
                                 float d, float inverse, size_t n_digits) {
    size_t n = (size_t)block->n;
    F32x16 a = f32_load(x), b = f32_load(x + 16);
    I32x16 za = f32_to_i32(f32_mul(a, f32_set(inverse)));
    I32x16 zb = f32_to_i32(f32_mul(b, f32_set(inverse)));
    // 0 times what is not finite is NaN, and then the whole group becomes NaN, as precision.h says.
    F32x16 zero = f32_fma(a, f32_zero(), f32_mul(b, f32_zero()));
    if (mask_bits(f32_less(zero, f32_set(1.0f))) != 0xffff) {
        d = NAN;
        za = zb = i32_zero();
    }
    I16x32 z = i16_from_i32(za, zb);
    if (block->pairs) put_quarters(block->pairs + 16 * n * cell + 4 * row, n, 4, z);
    if (block->digits) put_quarters(block->digits + 16 * n * cell + 4 * row, n, 4, digits_of(z));
    if (block->quads) put_quarters(block->quads + 8 * n * cell + 2 * row, n, 2, digits_of(z));
    if (block->tiles)
        put_tiles(block->tiles + 8 * (n_digits * n * cell + row), n, n_digits, digits_of(z));
    // Stored one by one: copied from an array, a wide load would wait for two narrow stores, since
    // a processor forwards a store only to a load inside it.
    int32_t low = i32_sum(za), high = i32_sum(zb), both = low + high;
    int32_t *sums = block->sums + 3 * (n * cell + row);
    float *scales = block->scales + 4 * (n * cell + row);
    sums[0] = both, sums[1] = low, sums[2] = high;
    scales[0] = d;
    scales[1] = d * (float)both, scales[2] = d * (float)low, scales[3] = d * (float)high;
}

void ISA_NAME(quantise_row)(const InputBlock *block, size_t row, const float *x, size_t cols,
                            int levels, float *scratch) {
    Outlier *outliers = block->outliers + row * OUTLIERS;
    size_t cells = cols / CELL_COLS;
    find_outliers(outliers, scratch, x, cells);
    for (size_t first = 0; first < cells; first += 16) {
        float d[16], inverse[16], rest[CELL_COLS];
        uint32_t lost = cells_of(outliers, first);
        make_scales(d, inverse, scratch + first, (float)levels);
        for (size_t i = 0; i < 16 && first + i < cells; i++) {
            const float *from = x + (first + i) * CELL_COLS;
            if (lost >> i & 1) from = without(rest, x, first + i, outliers, OUTLIERS);
            quantise_cell(block, first + i, row, from, d[i], inverse[i],
                          levels == A8_LEVELS ? 1 : 2);
        }
    }
}
