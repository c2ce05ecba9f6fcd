// The input rows of a projection as the kernels read them: integers with a scale per 32, as
// precision.h says, in the order of project_kernels.h.
//
// As bytes, z = 256 h + l, a quarter of a cell has the four columns of each of two byte vectors
// (panels.h), h before l:
//
//     digits:  h(0 4 1 5) h(2 6 3 7) l(0 4 1 5) l(2 6 3 7)
//     quads:   l(0 4 1 5) l(2 6 3 7)                           a8, where z = l
#include "kernels/cpu/lanes/project.h"
#include "kernels/cpu/simd.h"
#include "kernels/precision.h"

#include <float.h>
#include <math.h>
#include <string.h>

// ---- outliers ----

// The largest |x| of 32; what is not finite counts as 0.
// f32_less is false for NaN too.
static inline float cell_largest(const float *x) {
    const F32x16 infinite = f32_set(INFINITY), zero = f32_zero();
    F32x16 a = f32_abs(f32_load(x)), b = f32_abs(f32_load(x + 16));
    a = f32_choose(f32_less(a, infinite), a, zero);
    b = f32_choose(f32_less(b, infinite), b, zero);
    return f32_largest(f32_max(a, b));
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

// outliers[OUTLIERS] of one row, and the largest |x| that each cell keeps: largest[cell * stride].
// One pass over the row. After that only the cells that lost an outlier are looked at again, where
// kernels/precision.c goes through the whole row for each.
static void find_outliers(Outlier *outliers, float *largest, size_t stride, const float *x,
                          size_t cells) {
    for (size_t c = 0; c < cells; c++)
        largest[c * stride] = cell_largest(x + c * CELL_COLS);
    for (int o = 0; o < OUTLIERS; o++) {
        float rest[CELL_COLS];
        size_t cell = 0, i = 0;
        for (size_t c = 1; c < cells; c++)
            // ">": among equals the first cell, and below the first column in it.
            if (largest[c * stride] > largest[cell * stride]) cell = c;
        const float *left = without(rest, x, cell, outliers, o);
        while (i < CELL_COLS - 1 && fabsf(left[i]) != largest[cell * stride])
            i++;
        bool found = largest[cell * stride] > 0.0f;
        outliers[o] = found ? (Outlier){(uint32_t)(cell * CELL_COLS + i), left[i]} : (Outlier){0};
        largest[cell * stride] = cell_largest(without(rest, x, cell, outliers, o + 1));
    }
}

// ---- integers ----

// Of a row: largest[stride * cell] becomes the scale d of the cell, and behind it stands 1 / d.
// Sixteen cells at a time: sixteen divisions take as long as one.
static void make_scales(float *largest, size_t stride, size_t cells, float levels) {
    for (size_t first = 0; first < cells; first += 16, largest += 16 * stride) {
        size_t count = cells - first < 16 ? cells - first : 16;
        float x[16] = {0}, d[16], inverse[16];
        for (size_t i = 0; i < count; i++)
            x[i] = largest[i * stride];
        F32x16 scale = f32_div(f32_load(x), f32_set(levels));
        Mask16 none = f32_less(scale, f32_set(FLT_MIN));
        f32_store(d, f32_choose(none, f32_zero(), scale));
        f32_store(inverse, f32_choose(none, f32_zero(), f32_div(f32_set(1.0f), scale)));
        for (size_t i = 0; i < count; i++) {
            largest[i * stride] = d[i];
            largest[i * stride + 1] = inverse[i];
        }
    }
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

// One cell of a row of the block: its z, d and sums.
static inline void quantise_cell(const InputBlock *block, size_t cell, size_t row, const float *x,
                                 float d, float inverse) {
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
    const int32_t sums[3] = {i32_sum(za) + i32_sum(zb), i32_sum(za), i32_sum(zb)};
    memcpy(block->sums + 3 * (n * cell + row), sums, sizeof sums);
    float *scales = block->scales + 4 * (n * cell + row);
    scales[0] = d;
    for (size_t i = 0; i < 3; i++)
        scales[1 + i] = d * (float)sums[i];
}

void ISA_NAME(quantise_row)(const InputBlock *block, size_t row, const float *x, size_t cols,
                            int levels) {
    Outlier *outliers = block->outliers + row * OUTLIERS;
    size_t n = (size_t)block->n, cells = cols / CELL_COLS;
    // The place of each cell's scale holds its largest |x| until the scale is made from it.
    float *scales = block->scales + 4 * row;
    find_outliers(outliers, scales, 4 * n, x, cells);
    make_scales(scales, 4 * n, cells, (float)levels);
    for (size_t c = 0; c < cells; c++) {
        float rest[CELL_COLS];
        quantise_cell(block, c, row, without(rest, x, c, outliers, OUTLIERS), scales[4 * n * c],
                      scales[4 * n * c + 1]);
    }
}
