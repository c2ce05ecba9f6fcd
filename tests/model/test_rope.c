// Rotary frequencies of every scaling. The vectors were computed from the published formulas by a
// separate Python program (plain `math`, no shared code), and are exact to the digits shown. The
// meaning of each scaling is checked too.
#include "model/internal.h"
#include "tests/test.h"

typedef struct Value {
    int pair;
    double frequency;
} Value;

static const RopeConfig PLAIN = {.theta = 10000.0f, .sign = 1.0f};

static void check(const RopeConfig *rope, int rope_dim, int context, const Value *values,
                  size_t count, double magnitude) {
    double f[128], got = 0.0;
    rope_frequencies(f, &got, rope, rope_dim, context);
    for (size_t i = 0; i < count; i++)
        CHECK_NEAR(f[values[i].pair], values[i].frequency, values[i].frequency * 1e-13);
    CHECK_NEAR(got, magnitude, 1e-7);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

// theta^(-2i/8) for theta 10^4: 1, 1/10, 1/100, 1/1000.
Test(rope, plain) {
    static const Value V[] = {{0, 1}, {1, 0.1}, {2, 0.01}, {3, 0.001}};
    check(&PLAIN, 8, 100, V, COUNT(V), 1.0);
}

Test(rope, linear) {
    static const Value V[] = {
        {0, 0.125}, {1, 0.112210891555914}, {64, 0.000125}, {127, 1.3924673249935e-07}};
    RopeConfig rope = {.theta = 1e6f, .sign = 1, .scaling = ROPE_LINEAR, .factor = 8};
    check(&rope, 256, 100, V, COUNT(V), 1.0);
}

// Llama 3.1 and 3.2 1B: both sides of the band between wavelengths 8192 / 4 and 8192 / 1.
Test(rope, llama3) {
    static const Value V31[] = {
        {0, 1},
        {1, 0.814617233856545},
        {25, 0.00594073037567497},
        {28, 0.00321144599475259},
        {29, 0.00216657076350336},
        {30, 0.00137189356776114},
        {32, 0.000524846160992955},
        {34, 0.000178507812767996},
        {35, 9.55621235396468e-05},
        {36, 7.78465527393245e-05},
        {37, 6.34151434577762e-05},
        {63, 3.06892598891451e-07},
    };
    static const Value V32[] = {
        {0, 1},
        {13, 0.00483942134571989},
        {14, 0.00321144599475259},
        {15, 0.00129054792820926},
        {16, 0.000429556796559368},
        {17, 9.70828780262767e-05},
        {18, 1.94616381848311e-05},
        {31, 9.41830672543491e-08},
    };
    RopeConfig rope = {.theta = 5e5f,
                       .sign = 1,
                       .scaling = ROPE_LLAMA3,
                       .factor = 8,
                       .low_freq_factor = 1,
                       .high_freq_factor = 4,
                       .original_max_seq_len = 8192};
    check(&rope, 128, 100, V31, COUNT(V31), 1.0);
    rope.factor = 32;
    check(&rope, 64, 100, V32, COUNT(V32), 1.0);
}

// DeepSeek's shape: the ramp runs from pair 10 to pair 23.
Test(rope, yarn) {
    static const Value V[] = {
        {0, 1},
        {9, 0.0749894209332456},
        {10, 0.0562341325190349},
        {11, 0.0390069265671439},
        {16, 0.0055},
        {22, 0.000177827941003892},
        {23, 3.33380358040831e-05},
        {24, 2.5e-05},
        {31, 3.33380358040831e-06},
    };
    RopeConfig rope = {
        .theta = 1e4f, .sign = 1, .scaling = ROPE_YARN, .factor = 40, .original_max_seq_len = 4096};
    check(&rope, 64, 100, V, COUNT(V), 1.3688879454113936);
    rope.mscale = 0.707f;
    rope.mscale_all_dim = 1.0f;
    check(&rope, 64, 100, V, COUNT(V), 0.9210423553163399);
    rope.attention_factor = 1.5f;
    check(&rope, 64, 100, V, COUNT(V), 1.5);
}

Test(rope, yarn_without_rounding_of_the_range) {
    static const Value V[] = {
        {0, 1},
        {20, 0.0133352143216332},
        {23, 0.00697830584859866},
        {24, 0.00551727047513412},
        {39, 6.1878068124507e-05},
        {40, 4.44569852509731e-05},
        {41, 3.58253142559241e-05},
        {63, 3.1023444018793e-07},
    };
    RopeConfig rope = {.theta = 1e6f,
                       .sign = 1,
                       .scaling = ROPE_YARN,
                       .factor = 4,
                       .no_truncate = true,
                       .original_max_seq_len = 32768};
    check(&rope, 128, 100, V, COUNT(V), 0.1 * log(4.0) + 1.0);
}

// A ramp that would begin below pair 0, and one that would end beyond the last channel.
Test(rope, yarn_keeps_its_range_inside_the_head) {
    static const Value LOW[] = {
        {0, 1},
        {1, 0.698765058696152},
        {5, 0.156295085145882},
        {10, 0.0178926785287838},
        {14, 0.00444569852509731},
        {31, 3.33380358040831e-05},
    };
    static const Value HIGH[] = {{0, 1}, {1, 0.1}, {2, 0.00875}, {3, 0.00075}};
    RopeConfig rope = {
        .theta = 1e4f, .sign = 1, .scaling = ROPE_YARN, .factor = 4, .original_max_seq_len = 128};
    check(&rope, 64, 100, LOW, COUNT(LOW), 0.1 * log(4.0) + 1.0);
    rope.original_max_seq_len = 4096;
    rope.beta_fast = 32;
    rope.beta_slow = 1e-9f;
    check(&rope, 8, 100, HIGH, COUNT(HIGH), 0.1 * log(4.0) + 1.0);
}

// Twice the context with factor 2; up to the model's own length nothing changes.
Test(rope, dynamic_ntk) {
    static const Value V[] = {
        {0, 1}, {1, 0.850994291341216}, {32, 0.00572338150838124}, {63, 3.84927328229819e-05}};
    RopeConfig rope = {.theta = 1e4f,
                       .sign = 1,
                       .scaling = ROPE_DYNAMIC_NTK,
                       .factor = 2,
                       .original_max_seq_len = 2048};
    check(&rope, 128, 4096, V, COUNT(V), 1.0);
    double scaled[64], plain[64], magnitude;
    rope_frequencies(scaled, &magnitude, &rope, 128, 2048);
    rope_frequencies(plain, &magnitude, &PLAIN, 128, 2048);
    for (int i = 0; i < 64; i++)
        CHECK_NEAR(scaled[i], plain[i], 0);
}

// One list of divisors up to the original length, the other beyond it.
Test(rope, longrope) {
    static const float SHORT[] = {1.0f, 1.5f, 2.0f, 4.0f}, LONG[] = {1.0f, 3.0f, 20.0f, 50.0f};
    static const Value VS[] = {{0, 1}, {1, 0.1 / 1.5}, {2, 0.005}, {3, 0.00025}};
    static const Value VL[] = {{0, 1}, {1, 0.1 / 3.0}, {2, 0.0005}, {3, 0.00002}};
    RopeConfig rope = {.theta = 1e4f,
                       .sign = 1,
                       .scaling = ROPE_LONGROPE,
                       .factor = 32,
                       .short_factor = SHORT,
                       .long_factor = LONG,
                       .original_max_seq_len = 4096};
    check(&rope, 8, 4096, VS, COUNT(VS), 1.1902380714238083);
    check(&rope, 8, 4097, VL, COUNT(VL), 1.1902380714238083);
    rope.factor = 1;
    check(&rope, 8, 4096, VS, COUNT(VS), 1.0);
}

// GGUF's rope_freqs for llama3 scaling are divisors: the same frequencies, stored differently.
Test(rope, divisors_give_the_frequencies_of_llama3) {
    RopeConfig llama3 = {.theta = 5e5f,
                         .sign = 1,
                         .scaling = ROPE_LLAMA3,
                         .factor = 32,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_seq_len = 8192};
    RopeConfig gguf = {.theta = 5e5f, .sign = 1};
    double wanted[32], plain[32], got[32], magnitude;
    float divisors[32];
    rope_frequencies(wanted, &magnitude, &llama3, 64, 100);
    rope_frequencies(plain, &magnitude, &gguf, 64, 100);
    for (int i = 0; i < 32; i++)
        divisors[i] = (float)(plain[i] / wanted[i]);
    gguf.divisors = divisors;
    rope_frequencies(got, &magnitude, &gguf, 64, 100);
    for (int i = 0; i < 32; i++)
        CHECK_NEAR(got[i], wanted[i], wanted[i] * 1e-7);
}

Test(rope, tables_are_cos_and_sin_rounded_once) {
    enum { POSITIONS = 40000, HALF = 4 };
    float *c = malloc(sizeof *c * POSITIONS * HALF), *s = malloc(sizeof *s * POSITIONS * HALF);
    rope_tables(c, s, &PLAIN, 2 * HALF, POSITIONS);
    static const double F[] = {1, 0.1, 0.01, 0.001};
    for (int t = 0; t < POSITIONS; t += 1 + t / 7)
        for (int i = 0; i < HALF; i++) {
            CHECK_NEAR(c[t * HALF + i], cos(t * F[i]), 6.1e-8); // half a unit of the last place
            CHECK_NEAR(s[t * HALF + i], sin(t * F[i]), 6.1e-8);
        }
    free(c), free(s);
}

// nanochat rotates in the other direction; YaRN's magnitude scales both tables.
Test(rope, sign_and_magnitude_reach_the_tables) {
    float c[20], s[20], c2[20], s2[20];
    RopeConfig back = PLAIN, yarn = PLAIN;
    back.sign = -1.0f;
    rope_tables(c, s, &PLAIN, 4, 10);
    rope_tables(c2, s2, &back, 4, 10);
    for (int i = 0; i < 20; i++)
        CHECK(c[i] == c2[i] && s[i] == -s2[i], "entry %d", i);
    yarn.scaling = ROPE_YARN;
    yarn.factor = 1.0f;
    yarn.attention_factor = 2.0f;
    yarn.original_max_seq_len = 4096;
    rope_tables(c2, s2, &yarn, 4, 10);
    for (int i = 0; i < 20; i++) {
        CHECK_NEAR(c2[i], 2 * c[i], 1e-7);
        CHECK_NEAR(s2[i], 2 * s[i], 1e-7);
    }
}
