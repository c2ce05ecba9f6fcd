// The input rows of a projection as the kernels read them: integers with a scale per 32, as
// precision.h says, the rows of a block side by side.
//
//     pairs:   cell 0: j = 0: row 0 .. n-1 | j = 1: row 0 .. n-1 | ... j = 15   | cell 1 ...
//
// A few rows are also stored as bytes, z = 256 h + l, for weights of less than 8 bits: the four
// columns of each byte vector (panels.h), two vectors side by side, h before l, each of them for
// row 0 .. n-1:
//
//     digits:  v = 0: h(0 4 1 5) h(2 6 3 7) l(0 4 1 5) l(2 6 3 7) | v = 1: the same of 8 .. 15 |
//     ...
//
// In a8, where z = l, the rows of a block as bytes in the same order:
//
//     quads:   cell 0: f = 0: l(0 4 1 5) of row 0 .. n-1 | f = 1: l(2 6 3 7) of row 0 .. n-1 | ...
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
        if (outliers[o].x == 0.0f || outliers[o].column / CELL_COLS != cell) continue;
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

// 32 numbers as z, with their scale and the sums of both halves.
typedef struct QuantisedCell {
    int16_t z[CELL_COLS], high[CELL_COLS]; // high: h, in the lower byte
    int32_t sums[2];
    float d;
} QuantisedCell;

static inline QuantisedCell quantise_cell(const float *x, float largest, float levels) {
    QuantisedCell cell;
    F32x16 a = f32_load(x), b = f32_load(x + 16), infinite = f32_set(INFINITY);
    uint32_t finite =
        mask_bits(f32_less(f32_abs(a), infinite)) & mask_bits(f32_less(f32_abs(b), infinite));
    float d = largest / levels;
    float inverse = d >= FLT_MIN ? 1.0f / d : 0.0f;
    cell.d = d >= FLT_MIN ? d : 0.0f;
    I32x16 za = f32_to_i32(f32_mul(a, f32_set(inverse)));
    I32x16 zb = f32_to_i32(f32_mul(b, f32_set(inverse)));
    // The whole group becomes NaN, as precision.h says.
    if (finite != 0xffff) {
        cell.d = NAN;
        za = zb = i32_zero();
    }
    // h = floor((z + 128) / 256), so that z - 256 h is in -128 .. 127. Its lower byte is that of z.
    const I32x16 half = i32_set(128); // l is in -128 .. 127
    i16_from_i32(cell.z, za);
    i16_from_i32(cell.z + 16, zb);
    i16_from_i32(cell.high, i32_shift_right(i32_add(za, half), 8));
    i16_from_i32(cell.high + 16, i32_shift_right(i32_add(zb, half), 8));
    cell.sums[0] = i32_sum(za);
    cell.sums[1] = i32_sum(zb);
    return cell;
}

// The lower bytes of words w[0 .. 7] in the order 0 4 1 5 2 6 3 7.
static inline void join_bytes(int32_t *to, const int16_t *w) {
    const uint64_t lower = 0x00ff00ff00ff00ff;
    uint64_t a, b;
    memcpy(&a, w, sizeof a);
    memcpy(&b, w + 4, sizeof b);
    //    a:  w0 -- w1 -- w2 -- w3 --        lower bytes, lowest address first
    //    b:  w4 -- w5 -- w6 -- w7 --        shifted up by one byte and put between
    a = (a & lower) | (b & lower) << 8;
    memcpy(to, &a, sizeof a);
}

void ISA_NAME(quantise_block)(const InputBlock *block, const float *x, size_t cols, int levels) {
    size_t n = (size_t)block->n, cells = cols / CELL_COLS;
    // Pairs are not needed where bytes are used, except for a single row of Q8.
    bool with_pairs = n == 1 || !block->quads || !byte_sums_run(8);
    for (size_t i = 0; i < n; i++, x += cols) {
        Outlier *outliers = block->outliers + i * OUTLIERS;
        // The place of each cell's scale holds its largest |x| until the scale is made from it.
        find_outliers(outliers, block->scales + i, 4 * n, x, cells);
        for (size_t c = 0; c < cells; c++) {
            float rest[CELL_COLS], *scales = block->scales + 4 * c * n + i;
            const float *left = without(rest, x, c, outliers, OUTLIERS);
            QuantisedCell cell = quantise_cell(left, scales[0], (float)levels);
            // All strides are n: the rows of a block lie side by side, so that a tile reads them in
            // one stream.
            int32_t *pairs = block->pairs + 16 * c * n + i;
            for (size_t j = 0; j < 16 && with_pairs; j++)
                memcpy(pairs + j * n, cell.z + 2 * j, sizeof *pairs);
            scales[0] = cell.d;
            scales[n] = cell.d * (float)(cell.sums[0] + cell.sums[1]);
            scales[2 * n] = cell.d * (float)cell.sums[0];
            scales[3 * n] = cell.d * (float)cell.sums[1];
            int32_t *sums = block->sums + 3 * c * n + i;
            sums[0] = cell.sums[0] + cell.sums[1];
            sums[n] = cell.sums[0];
            sums[2 * n] = cell.sums[1];
            for (size_t v = 0; v < 4 && block->digits; v++) {
                int32_t four[4];
                join_bytes(four, cell.high + 8 * v);
                join_bytes(four + 2, cell.z + 8 * v);
                for (size_t k = 0; k < 4; k++)
                    block->digits[(16 * c + 4 * v + k) * n + i] = four[k];
            }
            for (size_t v = 0; v < 4 && block->quads; v++) {
                int32_t two[2];
                join_bytes(two, cell.z + 8 * v);
                block->quads[(8 * c + 2 * v) * n + i] = two[0];
                block->quads[(8 * c + 2 * v + 1) * n + i] = two[1];
            }
        }
    }
}
