// The input rows of a projection as the kernels read them: integers with a scale per 32, as
// precision.h says, the rows of a block side by side.
//
//     pairs:   cell 0: j = 0: row 0 .. n-1 | j = 1: row 0 .. n-1 | ... j = 15   | cell 1 ...
#include "kernels/cpu/lanes/project.h"
#include "kernels/cpu/simd.h"
#include "kernels/precision.h"

#include <float.h>
#include <math.h>

// 32 numbers -> z as 16 pairs, their scale, the sums of both halves.
static inline void quantise_cell(int16_t *z, float *scale, int32_t *sums, const float *x,
                                 float levels) {
    F32x16 a = f32_load(x), b = f32_load(x + 16), size_a = f32_abs(a), size_b = f32_abs(b);
    F32x16 infinite = f32_set(INFINITY);
    uint32_t finite = mask_bits(f32_less(size_a, infinite)) & mask_bits(f32_less(size_b, infinite));
    float d = f32_largest(f32_max(size_a, size_b)) / levels;
    float inverse = d >= FLT_MIN ? 1.0f / d : 0.0f;
    *scale = d >= FLT_MIN ? d : 0.0f;
    I32x16 za = f32_to_i32(f32_mul(a, f32_set(inverse)));
    I32x16 zb = f32_to_i32(f32_mul(b, f32_set(inverse)));
    if (finite != 0xffff) {
        *scale = NAN;
        za = zb = i32_zero();
    }
    i16_from_i32(z, za);
    i16_from_i32(z + 16, zb);
    sums[0] = i32_sum(za);
    sums[1] = i32_sum(zb);
}

void ISA_NAME(quantise_block)(int32_t *pairs, float *scales, int32_t *sums, const float *x, int n,
                              size_t cols, int levels) {
    size_t step = (size_t)n;
    for (size_t i = 0; i < step; i++) {
        const float *row = x + i * cols;
        int32_t *to = pairs + i;
        for (size_t c = 0; c < cols / CELL_COLS; c++, row += CELL_COLS, to += 16 * step) {
            union {
                int16_t z[CELL_COLS];
                int32_t pairs[CELL_COLS / 2];
            } cell;
            float d;
            int32_t halves[2];
            quantise_cell(cell.z, &d, halves, row, (float)levels);
            for (size_t j = 0; j < 16; j++)
                to[j * step] = cell.pairs[j];
            float *s = scales + 4 * c * step + i;
            s[0] = d;
            s[step] = d * (float)(halves[0] + halves[1]);
            s[2 * step] = d * (float)halves[0];
            s[3 * step] = d * (float)halves[1];
            sums[2 * c * step + i] = halves[0];
            sums[2 * c * step + step + i] = halves[1];
        }
    }
}
