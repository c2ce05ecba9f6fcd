// quantise_searched: bytes worked by hand, and errors against the plain way, from the extremes.
#include "tests/test.h"
#include "weights/quant.h"

#include <math.h>

enum { COUNT = 64 * 256 };

static const DType TYPES[] = {DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0,
                              DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
enum { N_TYPES = sizeof TYPES / sizeof *TYPES };

// ---- bytes by hand ----

static void check_bytes(DType dtype, const float *in, const uint8_t *wanted) {
    const DTypeInfo *info = dtype_info(dtype);
    uint8_t block[256];
    CHECK(quantise_searched(block, dtype, in, NULL, info->block));
    for (uint32_t i = 0; i < info->block_bytes; i++)
        CHECK(block[i] == wanted[i], "%s: byte %u is 0x%02x, wanted 0x%02x", info->name, i,
              block[i], wanted[i]);
}

// Elements low .. high of a type, over and over, times `scale`, plus `offset`.
static void count_up(float *in, int low, int high, float scale, float offset) {
    for (int i = 0; i < 256; i++)
        in[i] = scale * (float)(low + i % (high - low + 1)) + offset;
}

Test(rounding, blocks_of_32_are_the_bytes_worked_by_hand) {
    float in[256];
    uint8_t wanted[34];
    // Q4_0, d = 0.5 (0x3800): elements 0 and 16 are both level 0, 1 and 17 level 1, ...
    count_up(in, -8, 7, 0.5f, 0);
    memcpy(wanted, "\x00\x38", 2);
    for (int j = 0; j < 16; j++)
        wanted[2 + j] = (uint8_t)(j * 17);
    check_bytes(DTYPE_Q4_0, in, wanted);
    // Q4_1, d = 2 (0x4000), m = -3 (0xc200)
    count_up(in, 0, 15, 2, -3);
    memcpy(wanted, "\x00\x40\x00\xc2", 4);
    for (int j = 0; j < 16; j++)
        wanted[4 + j] = (uint8_t)(j * 17);
    check_bytes(DTYPE_Q4_1, in, wanted);
    // Q5_0, d = 1 (0x3c00): the fifth bit is that of elements 16 .. 31, the nibbles as above
    count_up(in, -16, 15, 1, 0);
    memcpy(wanted, "\x00\x3c\x00\x00\xff\xff", 6);
    for (int j = 0; j < 16; j++)
        wanted[6 + j] = (uint8_t)(j * 17);
    check_bytes(DTYPE_Q5_0, in, wanted);
    // Q5_1, d = 0.25 (0x3400), m = 1
    count_up(in, 0, 31, 0.25f, 1);
    memcpy(wanted, "\x00\x34\x00\x3c\x00\x00\xff\xff", 8);
    for (int j = 0; j < 16; j++)
        wanted[8 + j] = (uint8_t)(j * 17);
    check_bytes(DTYPE_Q5_1, in, wanted);
    // Q8_0, d = 1: -127, -126, ... and 127 at the end, so that the scale is no other
    count_up(in, -127, 127, 1, 0);
    in[31] = 127;
    memcpy(wanted, "\x00\x3c", 2);
    for (int j = 0; j < 32; j++)
        wanted[2 + j] = (uint8_t)(j < 31 ? j - 127 : 127);
    check_bytes(DTYPE_Q8_0, in, wanted);
}

// All groups alike, so that every scale is the largest integer: d is the step divided by it.
Test(rounding, superblocks_with_offsets_are_the_bytes_worked_by_hand) {
    float in[256];
    uint8_t wanted[256] = {0};
    // Q2_K: step 15 d, d = 0.25 (0x3400); lowest -15 dmin, dmin = 0.5 (0x3800); sc = mn = 15.
    // Levels 0 1 2 3 0 1 ...: a byte has the same level four times.
    count_up(in, 0, 3, 15 * 0.25f, -15 * 0.5f);
    memset(wanted, 0xff, 16);
    for (int i = 0; i < 64; i++)
        wanted[16 + i] = (uint8_t)(i % 4 * 0x55);
    memcpy(wanted + 80, "\x00\x34\x00\x38", 4);
    check_bytes(DTYPE_Q2_K, in, wanted);
    // Q4_K: step 63 d, d = 1/64 (0x2400); lowest -63 dmin, dmin = 2 (0x4000). sc = mn = 63: bytes 0
    // to 7 have six ones and the two top ones of group 4 + g, bytes 8 to 11 the low nibbles.
    // Nibbles: elements i and i + 32 have level i % 16 both.
    memset(wanted, 0, sizeof wanted);
    count_up(in, 0, 15, 63.0f / 64, -126);
    memcpy(wanted, "\x00\x24\x00\x40", 4);
    memset(wanted + 4, 0xff, 12);
    for (int i = 0; i < 128; i++)
        wanted[16 + i] = (uint8_t)(i % 16 * 17);
    check_bytes(DTYPE_Q4_K, in, wanted);
    // Q5_K: the same, nothing below 0: mn = 0, dmin = 0. The fifth bit is that of i % 32 >= 16.
    memset(wanted, 0, sizeof wanted);
    count_up(in, 0, 31, 63.0f / 64, 0);
    memcpy(wanted, "\x00\x24", 2);
    memset(wanted + 4, 0xff, 4);  // six ones, and the top bits of scale 4 .. 7
    memset(wanted + 12, 0x0f, 4); // their low nibbles; those of the minima are 0
    memset(wanted + 16 + 16, 0xff, 16);
    for (int i = 0; i < 128; i++)
        wanted[48 + i] = (uint8_t)(i % 16 * 17);
    check_bytes(DTYPE_Q5_K, in, wanted);
}

Test(rounding, superblocks_without_offsets_are_the_bytes_worked_by_hand) {
    float in[256];
    uint8_t wanted[256] = {0};
    // Q3_K: step 1 = -32 d, d = -1/32 (0xa800), sc = -32, stored as 0. Levels 0 .. 7 over and over:
    // the third bit is that of i % 8 >= 4.
    count_up(in, -4, 3, 1, 0);
    for (int i = 0; i < 32; i++)
        wanted[i] = i % 8 >= 4 ? 0xff : 0;
    for (int i = 0; i < 64; i++)
        wanted[32 + i] = (uint8_t)(i % 4 * 0x55);
    memcpy(wanted + 108, "\x00\xa8", 2);
    check_bytes(DTYPE_Q3_K, in, wanted);
    // Q6_K: step 1 = -128 d, d = -1/128 (0xa000), sc = -128 (0x80). A group of 16 has a quarter of
    // the 64 levels: each quarter has a value of its own that says which scale it is.
    memset(wanted, 0, sizeof wanted);
    for (int i = 0; i < 256; i++)
        in[i] = (float)(i % 16 == 15 ? -32 : i % 16);
    for (int i = 0; i < 64; i++) // levels 32 + i % 16, and 0 at the end of a group
        wanted[i] = wanted[64 + i] = (uint8_t)(i % 16 == 15 ? 0 : i % 16 * 17);
    for (int i = 0; i < 64; i++)
        wanted[128 + i] = (uint8_t)(i % 16 == 15 ? 0 : 0xaa); // 2 four times
    memset(wanted + 192, 0x80, 16);
    memcpy(wanted + 208, "\x00\xa0", 2);
    check_bytes(DTYPE_Q6_K, in, wanted);
}

// ---- errors ----

// Sums of twelve: nearly a normal distribution, with outliers, as weights have it.
static void weights_like(float *in, float *importance) {
    TestRandom random = {7};
    for (int i = 0; i < COUNT; i++) {
        double sum = 0;
        for (int k = 0; k < 12; k++)
            sum += (double)(test_random(&random) >> 40) * 0x1p-24 - 0.5;
        in[i] = (float)(0.02 * sum * (i % 97 ? 1 : 4));
        importance[i] = (float)(1 + (test_random(&random) >> 40) % 16);
    }
}

static double error_of(const float *in, const float *out, const float *w, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)(w ? w[i] : 1) * pow((double)in[i] - (double)out[i], 2);
    return sum;
}

// A superblock by the extremes of its groups: what each type of 256 can do without any search.
static void plain_superblock(float *out, DType dtype, const float *in) {
    bool offsets = dtype_is_affine(dtype);
    int group = dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K ? 32 : 16, n = 256 / group;
    int bits = dtype == DTYPE_Q2_K ? 2 : dtype == DTYPE_Q3_K ? 3 : dtype == DTYPE_Q4_K ? 4 : 5;
    if (dtype == DTYPE_Q6_K) bits = 6;
    int most = dtype == DTYPE_Q2_K ? 15 : dtype == DTYPE_Q3_K ? 31 : dtype == DTYPE_Q6_K ? 127 : 63;
    float low[16], step[16], top = 0, deep = 0, levels = (float)((1 << bits) - 1);
    for (int g = 0; g < n; g++) {
        float min = 0, max = 0;
        for (int i = g * group; i < (g + 1) * group; i++)
            min = fminf(min, in[i]), max = fmaxf(max, in[i]);
        step[g] = offsets ? (max - min) / levels : fmaxf(max, -min) / (float)(1 << (bits - 1));
        low[g] = offsets ? -min : 0;
        top = fmaxf(top, step[g]), deep = fmaxf(deep, low[g]);
    }
    float d = half_to_float(float_to_half(top / (float)most));
    float dmin = half_to_float(float_to_half(deep / (float)most));
    for (int i = 0; i < 256; i++) {
        int g = i / group;
        float s = d * roundf(step[g] / d), m = offsets ? dmin * roundf(low[g] / dmin) : 0;
        float least = offsets ? 0 : -(levels + 1) / 2;
        float q = s > 0 ? fminf(fmaxf(roundf((in[i] + m) / s), least), least + levels) : 0;
        out[i] = s * q - m;
    }
}

Test(rounding, the_error_is_not_larger_than_from_the_extremes) {
    static float in[COUNT], importance[COUNT], plain[COUNT], found[COUNT];
    static uint8_t blocks[COUNT * 2];
    weights_like(in, importance);
    for (int t = 0; t < N_TYPES; t++) {
        const DTypeInfo *info = dtype_info(TYPES[t]);
        if (quantise(blocks, TYPES[t], in, COUNT))
            dequantise(plain, TYPES[t], blocks, COUNT);
        else
            for (int i = 0; i < COUNT; i += 256)
                plain_superblock(plain + i, TYPES[t], in + i);
        CHECK(quantise_searched(blocks, TYPES[t], in, NULL, COUNT));
        dequantise(found, TYPES[t], blocks, COUNT);
        for (size_t i = 0; i < COUNT; i += info->block)
            CHECK(error_of(in + i, found + i, NULL, info->block) <=
                      error_of(in + i, plain + i, NULL, info->block),
                  "%s: block %zu is worse", info->name, i / info->block);
        double all = error_of(in, found, NULL, COUNT), was = error_of(in, plain, NULL, COUNT);
        CHECK(all < 0.96 * was, "%s: %g of the plain error", info->name, all / was);
    }
}

// Weighted, the weighted error is smaller than that of blocks that were made without.
Test(rounding, importance_moves_the_error_to_where_it_matters_less) {
    static float in[COUNT], importance[COUNT], without[COUNT], with[COUNT];
    static uint8_t blocks[COUNT * 2];
    weights_like(in, importance);
    for (int t = 0; t < N_TYPES; t++) {
        quantise_searched(blocks, TYPES[t], in, NULL, COUNT);
        dequantise(without, TYPES[t], blocks, COUNT);
        quantise_searched(blocks, TYPES[t], in, importance, COUNT);
        dequantise(with, TYPES[t], blocks, COUNT);
        double weighted = error_of(in, with, importance, COUNT);
        CHECK(weighted < 0.99 * error_of(in, without, importance, COUNT), "%s",
              dtype_info(TYPES[t])->name);
        CHECK(error_of(in, with, NULL, COUNT) > error_of(in, without, NULL, COUNT), "%s",
              dtype_info(TYPES[t])->name);
    }
}

// Zeros stay zeros; what is no number ends in the block as something, or as what reads as none.
Test(rounding, any_numbers_end_in_a_block) {
    float in[256] = {0}, out[256];
    uint8_t block[256];
    for (int t = 0; t < N_TYPES; t++) {
        CHECK(quantise_searched(block, TYPES[t], in, NULL, 256 / (t < 5 ? 8 : 1)));
        dequantise(out, TYPES[t], block, t < 5 ? 32 : 256);
        for (int i = 0; i < (t < 5 ? 32 : 256); i++)
            CHECK(out[i] == 0.0f, "%s", dtype_info(TYPES[t])->name);
    }
    static const float ODD[] = {NAN, INFINITY, -INFINITY, 1e38f, -1e38f, 1e-42f, 1e30f};
    for (int i = 0; i < 256; i++)
        in[i] = ODD[i % 7] * (i > 128 ? 1e-40f : 1);
    for (int t = 0; t < N_TYPES; t++)
        CHECK(quantise_searched(block, TYPES[t], in, NULL, 256 / (t < 5 ? 8 : 1)));
    for (int i = 0; i < 256; i++)
        in[i] = 1e-42f * (float)i;
    for (int t = 0; t < N_TYPES; t++)
        CHECK(quantise_searched(block, TYPES[t], in, in, 256 / (t < 5 ? 8 : 1)));
}
