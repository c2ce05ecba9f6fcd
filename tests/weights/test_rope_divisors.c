// Llama 3's scaling as divisors and back. The divisors of Llama 3.1 were worked out by hand from
// the published numbers: theta 500000, factor 8, low 1, high 4, 8192 positions, 128 channels.
#include "tests/test.h"
#include "weights/config.h"

static RopeConfig llama3(float factor, float low, float high, int original) {
    return (RopeConfig){.scaling = ROPE_LLAMA3,
                        .theta = 500000,
                        .sign = 1,
                        .factor = factor,
                        .low_freq_factor = low,
                        .high_freq_factor = high,
                        .original_max_seq_len = original};
}

// Pair i rotates once in 2 pi 500000^(i / 64) positions: pair 28 in 1956 (below 8192 / 4: not
// scaled), pair 29 in 2401, pair 35 in 8218 (above 8192: scaled whole).
Test(rope_divisors, of_llama_3_1) {
    float d[64];
    RopeConfig rope = llama3(8, 1, 4, 8192);
    rope_llama3_divisors(d, &rope, 128);
    CHECK_NEAR(d[0], 1, 0);
    CHECK_NEAR(d[28], 1, 0);
    double wavelength = 2 * 3.14159265358979 * pow(500000, 29.0 / 64);
    double smooth = (8192 / wavelength - 1) / 3;
    CHECK_NEAR(d[29], 1 / ((1 - smooth) / 8 + smooth), 1e-6);
    CHECK(d[29] > 1.2 && d[29] < 1.3, "%g", (double)d[29]);
    CHECK_NEAR(d[34], 5.257, 1e-3); // 6696 positions: smooth 0.0745, 1 / (0.9255 / 8 + 0.0745)
    CHECK_NEAR(d[35], 8, 0);
    CHECK_NEAR(d[63], 8, 0);
}

static RopeConfig of_divisors(const float *divisors) {
    return (RopeConfig){.theta = 500000, .sign = 1, .divisors = divisors};
}

Test(rope_divisors, are_recognised_as_the_numbers_that_they_came_from) {
    static const int ORIGINALS[] = {16, 64, 8192, 131072, 1 << 20};
    static const float FACTORS[] = {2, 8, 32};
    float d[64];
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 3; j++) {
            RopeConfig from = llama3(FACTORS[j], 1, 4, ORIGINALS[i]);
            rope_llama3_divisors(d, &from, 128);
            for (int k = 0; k < 64; k++)
                d[k] *= k % 2 ? 1.000004f : 0.999996f; // computed in float32 somewhere else
            RopeConfig rope = of_divisors(d);
            rope_recognise_llama3(&rope, 128);
            CHECK_INT(rope.scaling, ROPE_LLAMA3);
            CHECK(!rope.divisors, "the divisors stay");
            CHECK_NEAR(rope.factor, FACTORS[j], 0);
            CHECK_INT(rope.original_max_seq_len, ORIGINALS[i]);
        }
}

Test(rope_divisors, others_stay_as_they_are) {
    float d[64];
    RopeConfig from = llama3(8, 1, 4, 8192);
    // one off, another ramp, no scaling at all, not even numbers
    for (int kind = 0; kind < 5; kind++) {
        if (kind == 1) from.high_freq_factor = 5;
        rope_llama3_divisors(d, &from, 128);
        if (kind == 0) d[31] *= 1.001f;
        if (kind == 2) d[63] = 7.5f;
        for (int i = 0; i < 64 && kind > 2; i++)
            d[i] = kind == 3 ? 1.0f : NAN;
        RopeConfig rope = of_divisors(d);
        rope_recognise_llama3(&rope, 128);
        CHECK(rope.scaling == ROPE_PLAIN && rope.divisors == d, "kind %d was recognised", kind);
        from.high_freq_factor = 4;
    }
    RopeConfig none = of_divisors(NULL);
    rope_recognise_llama3(&none, 128);
    CHECK_INT(none.scaling, ROPE_PLAIN);
}

// Each pair counts, and the tolerance is float32's.
Test(rope_divisors, of_which_one_is_off_stay) {
    float d[64];
    RopeConfig from = llama3(8, 1, 4, 8192);
    for (int off = 0; off < 64; off++) {
        rope_llama3_divisors(d, &from, 128);
        d[off] *= 1.00003f;
        RopeConfig rope = of_divisors(d);
        rope_recognise_llama3(&rope, 128);
        CHECK(rope.scaling == ROPE_PLAIN && rope.divisors == d, "pair %d", off);
    }
}

// Powers of two from 16 to 2^20 are tried.
Test(rope_divisors, of_other_lengths_stay) {
    static const int ORIGINALS[] = {8, 1 << 21, 6000};
    float d[64];
    for (int i = 0; i < 3; i++) {
        RopeConfig from = llama3(8, 1, 4, ORIGINALS[i]);
        rope_llama3_divisors(d, &from, 128);
        CHECK_NEAR(d[63], 8, 0);
        RopeConfig rope = of_divisors(d);
        rope_recognise_llama3(&rope, 128);
        CHECK(rope.scaling == ROPE_PLAIN && rope.divisors == d, "%d", ORIGINALS[i]);
    }
}

// The second of two pairs rotates once in 2 pi 500000^(1 / 2) = 4443 positions, the first in 6.28:
// 32 is the first length that leaves it as it is. One pair alone says nothing of a ramp.
Test(rope_divisors, of_two_pairs_are_enough) {
    static const float D[] = {1, 8};
    RopeConfig rope = of_divisors(D);
    rope_recognise_llama3(&rope, 4);
    CHECK(rope.scaling == ROPE_LLAMA3 && rope.factor == 8 && rope.original_max_seq_len == 32);
    CHECK(rope.low_freq_factor == 1 && rope.high_freq_factor == 4);
    rope = of_divisors(D + 1);
    rope_recognise_llama3(&rope, 2);
    CHECK(rope.scaling == ROPE_PLAIN && rope.divisors == D + 1);
    rope = of_divisors(D);
    rope.scaling = ROPE_LINEAR;
    rope_recognise_llama3(&rope, 4);
    CHECK(rope.scaling == ROPE_LINEAR && rope.divisors == D);
}
