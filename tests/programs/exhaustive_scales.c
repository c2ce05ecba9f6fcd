// Every rule for a scale, on all largest elements of a group and on all stored halves:
// tests/support/exhaustive.h says how it is called. All of it takes up to an hour on two cores.
#include "kernels/cpu/cpu.h"
#include "kernels/precision.h"
#include "tests/support/exhaustive.h"
#include "weights/quant.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- activations: d = amax / LEVELS, z = rint(x (1 / d)) ----

enum { CELL = ACTIVATION_GROUP };

// A group with this largest element, its negative, and parts of it.
static void fill_group(float *x, float amax) {
    for (int i = 0; i < CELL; i++)
        x[i] = amax * ((float)(CELL - 1 - 2 * i) / (CELL - 1));
}

// In units of a step: half a step, and what float32 loses of 1 / d and of the product, where d is
// no subnormal number.
static double group_error(const float *x, const int16_t *z, float d, int levels) {
    double worst = 0;
    for (int i = 0; i < CELL; i++) {
        if (abs(z[i]) > levels) return 1e9;
        double off = d > 0 ? fabs((double)z[i] * (double)d - (double)x[i]) / (double)d : 0;
        if (off > worst) worst = off;
    }
    return worst;
}

// Rows of GROUPS groups behind one that has the two outliers of the row.
enum { GROUPS = 15, CELLS = 1 + GROUPS, COLS = CELLS * CELL };

static void quantise_with(const CpuKernels *isa, const float *x, int levels, int16_t *z,
                          float *scales) {
    int32_t pairs[COLS / 2], sums[CELLS * 3];
    float of_cells[CELLS * 4], scratch[QUANTISE_SCRATCH(COLS)];
    Outlier outliers[OUTLIERS];
    InputBlock block = {
        .n = 1, .pairs = pairs, .scales = of_cells, .sums = sums, .outliers = outliers};
    isa->project->quantise(&block, 0, x, COLS, levels, scratch);
    memcpy(z, pairs, sizeof pairs);
    for (int c = 0; c < CELLS; c++)
        scales[c] = of_cells[4 * c];
}

// The groups of one row, whose largest elements are amax[GROUPS].
static void activation_row(Tally *t, const CpuKernels *const *sets, size_t count, const float *amax,
                           int levels) {
    float x[COLS] = {FLT_MAX, FLT_MAX}, scales[CELLS], others[CELLS];
    int16_t z[COLS], same[COLS];
    int32_t sums[CELLS];
    Outlier outliers[OUTLIERS];
    for (int g = 0; g < GROUPS; g++)
        fill_group(x + (1 + g) * CELL, amax[g]);
    activation_quantise(z, scales, sums, outliers, x, COLS, levels);
    for (int g = 0; g < GROUPS; g++) {
        int at = (1 + g) * CELL;
        double d = (double)amax[g] / levels;
        bool right = scales[1 + g] == ((float)d >= FLT_MIN ? (float)d : 0);
        double error = right ? group_error(x + at, z + at, scales[1 + g], levels) : 1e9;
        tally_take(t, error, 0.5 + 2e-7 * levels, amax[g], levels == A8_LEVELS ? "a8" : "a16");
    }
    for (size_t l = 0; l < count; l++) {
        quantise_with(sets[l], x, levels, same, others);
        for (int c = 1; c < CELLS; c++) {
            bool equal =
                !memcmp(same + c * CELL, z + c * CELL, CELL * sizeof *z) && others[c] == scales[c];
            tally_take(t, equal ? 0 : 1e9, 0.5, amax[c - 1], sets[l]->name);
        }
    }
}

static void activation_scales(Range r, Tally *t) {
    const CpuKernels *sets[MOST_SETS];
    size_t count = supported_sets(sets);
    for (uint64_t b = r.first; b < r.end && b < 0x7f7fffff;) { // finite, positive
        float amax[GROUPS] = {0};
        for (int g = 0; g < GROUPS && b < r.end && b < 0x7f7fffff; g++, b += r.every)
            amax[g] = float_of_bits((uint32_t)b);
        activation_row(t, sets, count, amax, A8_LEVELS);
        activation_row(t, sets, count, amax, A16_LEVELS);
    }
}

// ---- weights: blocks as convert makes them ----

// In units of d: half a step, what rounding d and m to halves takes, and a step where the symmetric
// types clip the end that has a level less.
static double block_error(DType dtype, const float *x, float amax) {
    uint8_t block[34];
    float got[CELL];
    int16_t top = dtype == DTYPE_Q8_0   ? 127
                  : dtype == DTYPE_Q4_0 ? 8
                  : dtype == DTYPE_Q5_0 ? 16
                  : dtype == DTYPE_Q4_1 ? 15
                                        : 31;
    bool affine = dtype_is_affine(dtype), clips = dtype == DTYPE_Q4_0 || dtype == DTYPE_Q5_0;
    double d = (affine ? 2.0 : 1.0) * (double)amax / top, worst = 0;
    quantise(block, dtype, x, CELL);
    dequantise(got, dtype, block, CELL);
    if (d < 0x1p-14 || d > 65504 || (affine && amax > 65504)) return 0; // halves without a bound
    for (int i = 0; i < CELL; i++) {
        double off = fabs((double)got[i] - (double)x[i]) / d;
        double bound = (clips ? 1.0 : 0.5) + top / 2048.0 + (affine ? amax / d / 2048 : 0) + 1e-5;
        if (off / bound > worst) worst = off / bound;
    }
    return worst;
}

static void weight_scales(Range r, Tally *t) {
    static const DType TYPES[] = {DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0};
    for (uint64_t b = r.first; b < r.end && b <= 0x7f7fffff; b += r.every) {
        float x[CELL], amax = float_of_bits((uint32_t)b);
        fill_group(x, amax);
        for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
            tally_take(t, block_error(TYPES[i], x, amax), 1, amax, dtype_info(TYPES[i])->name);
    }
}

// ---- weights: s and m as they are read, all halves times all scales of a group ----

static void put_half(uint8_t *p, uint16_t h) {
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

// Q4_K, Q5_K: six bits of sc and mn for eight groups in twelve bytes.
static void put_six_bits(uint8_t *p, int g, int sc, int mn) {
    if (g < 4) {
        p[g] = (uint8_t)((p[g] & 0xc0) | sc);
        p[g + 4] = (uint8_t)((p[g + 4] & 0xc0) | mn);
    } else {
        p[g + 4] = (uint8_t)((sc & 15) | (mn & 15) << 4);
        p[g - 4] = (uint8_t)((p[g - 4] & 63) | (sc >> 4) << 6);
        p[g] = (uint8_t)((p[g] & 63) | (mn >> 4) << 6);
    }
}

// Group g of a superblock gets the scale sc (and mn, where it has one) as the type stores it.
static void put_scale(DType dtype, uint8_t *block, int g, int sc, int mn) {
    uint8_t *at = block + (dtype == DTYPE_Q6_K ? 192 : dtype == DTYPE_Q3_K ? 96 : 4);
    if (dtype == DTYPE_Q6_K) at[g] = (uint8_t)sc;
    if (dtype == DTYPE_Q2_K) block[g] = (uint8_t)((sc & 15) | (mn & 15) << 4);
    if (dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K) put_six_bits(at, g, sc & 63, mn & 63);
    if (dtype != DTYPE_Q3_K) return;
    at[g % 8] |= (uint8_t)((sc & 15) << (g < 8 ? 0 : 4));
    at[8 + g % 4] |= (uint8_t)((sc >> 4 & 3) << g / 4 * 2);
}

static double scale_wanted(DType dtype, uint16_t d, int sc) {
    int factor = dtype == DTYPE_Q2_K   ? sc & 15
                 : dtype == DTYPE_Q3_K ? (sc & 63) - 32
                 : dtype == DTYPE_Q6_K ? (int8_t)sc
                                       : sc & 63;
    return half_value(d) * factor; // 11 bits times 8: exact in float32 too
}

// Where the halves d and dmin of a superblock lie; dmin 0: it has none.
static void half_places(DType dtype, size_t *d, size_t *dmin) {
    static const size_t PLACES[DTYPE_COUNT][2] = {[DTYPE_Q2_K] = {80, 82},
                                                  [DTYPE_Q3_K] = {108, 0},
                                                  [DTYPE_Q4_K] = {0, 2},
                                                  [DTYPE_Q5_K] = {0, 2},
                                                  [DTYPE_Q6_K] = {208, 0}};
    *d = PLACES[dtype][0];
    *dmin = PLACES[dtype][1];
}

static void superblock_scales(Tally *t, DType dtype, uint16_t h, int first) {
    uint8_t block[256] = {0};
    int8_t q[256];
    float s[16], m[16];
    size_t d, dmin;
    int groups = dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K ? 8 : 16;
    half_places(dtype, &d, &dmin);
    put_half(block + d, h);
    if (dmin) put_half(block + dmin, (uint16_t)(h ^ 0x55));
    for (int g = 0; g < groups; g++)
        put_scale(dtype, block, g, first + g, first + 3 * g);
    unpack(q, s, m, dtype, block, 256);
    for (int g = 0; g < groups; g++) {
        double wanted = scale_wanted(dtype, h, first + g);
        bool good = isnan(wanted) ? isnan(s[g]) : (double)s[g] == wanted;
        if (dmin) {
            double offset = -scale_wanted(dtype, (uint16_t)(h ^ 0x55), first + 3 * g);
            good = good && (isnan(offset) ? isnan(m[g]) : (double)m[g] == offset);
        }
        tally_take(t, good ? 0 : 1, 0, (float)h, dtype_info(dtype)->name);
    }
}

static void stored_scales(Range r, Tally *t) {
    (void)r;
    for (int h = 0; h < 65536; h++)
        for (DType dtype = DTYPE_Q2_K; dtype <= DTYPE_Q6_K; dtype++)
            for (int first = 0; first < (dtype == DTYPE_Q6_K ? 256 : 64); first += 8)
                superblock_scales(t, dtype, (uint16_t)h, first);
}

static const Part PARTS[] = {
    {"activations", "a16, a8: steps from the input (0.5 and rounding)", activation_scales, true},
    {"blocks", "Q4_0 .. Q8_0: share of the error's bound (1)", weight_scales, true},
    {"scales", "d sc and dmin mn of K-quants are exact", stored_scales, false},
};

int main(int argc, char **argv) {
    return exhaustive(argc, argv, PARTS, sizeof PARTS / sizeof *PARTS);
}
