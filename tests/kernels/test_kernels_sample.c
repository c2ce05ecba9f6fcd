// argmax and sample: the definition in kernels.h, spelt out slowly in sample_oracle.c, must give
// the same token on every backend for every rule, row and uniform.
#include "kernels/precision.h"
#include "tests/support/device.h"
#include "tests/support/sample_oracle.h"

static const SampleRule ALL = {1.0f, 0, 1.0f, 0.0f, 1.0f, 0};

// A device with room for `vocab_size` logits: some matrix has that many rows.
static Device *sampling_device(int threads, int vocab_size) {
    static const uint16_t ZEROS[200000];
    Device *device = test_device(threads, PRECISION_F32);
    Matrix m = {.dtype = DTYPE_F16, .rows = (size_t)vocab_size, .cols = 1, .data = ZEROS};
    CHECK(device_matrix(device, &m), "%s", device_error(device)->message);
    device_reserve(device, 8);
    return device;
}

static void sample_rows(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
                        const SampleRule *rule, const float *uniform) {
    float *l = upload_floats(device, logits, (size_t)n * (size_t)vocab_size);
    float *u = upload_floats(device, uniform, (size_t)n);
    int32_t *o = device_alloc(device, (size_t)n * sizeof *o);
    sample(device, o, l, n, vocab_size, rule, u);
    device_download(device, out, o, (size_t)n * sizeof *o);
    device_free(device, l);
    device_free(device, u);
    device_free(device, o);
    CHECK(!device_error(device)->code, "%s", device_error(device)->message);
}

static int sample_one(const float *logits, int vocab_size, const SampleRule *rule, float uniform) {
    int32_t token = -2;
    Device *device = sampling_device(1, vocab_size);
    sample_rows(device, &token, logits, 1, vocab_size, rule, &uniform);
    test_device_close(device);
    return token;
}

static void check_rows(Device *device, const float *logits, int rows, int n, const SampleRule *rule,
                       const float *uniform) {
    enum { MOST_ROWS = 8 };
    int32_t got[MOST_ROWS];
    sample_rows(device, got, logits, rows, n, rule, uniform);
    for (int i = 0; i < rows; i++) {
        int wanted = sample_oracle(logits + (size_t)i * (size_t)n, n, rule, uniform[i]);
        CHECK(got[i] == wanted,
              "row %d of %d, %d logits: got %d, wanted %d (t %g k %d p %g m %g y %g u %g)", i, rows,
              n, got[i], wanted, (double)rule->temperature, rule->top_k, (double)rule->top_p,
              (double)rule->min_p, (double)rule->typical_p, (double)uniform[i]);
    }
}

static SampleRule random_rule(TestRandom *random) {
    SampleRule rule = ALL;
    uint64_t bits = test_random(random);
    rule.temperature = test_random_float(random, 0.2f, 2.0f);
    if (bits & 1) rule.top_k = 1 + (int)(test_random(random) % 70);
    if (bits & 2) rule.top_p = test_random_float(random, 0.0f, 1.0f);
    if (bits & 4) rule.min_p = test_random_float(random, 0.0f, 0.5f);
    if (bits & 8) rule.typical_p = test_random_float(random, 0.0f, 1.0f);
    if ((bits & 48) == 48) rule.xtc = test_random_float(random, 0.001f, 0.5f);
    return rule;
}

Test(sample, follows_the_definition_for_every_rule) {
    enum { MOST = 64 };
    TestRandom random = {1};
    Device *device = sampling_device(2, MOST);
    for (int round = 0; round < EMULATED(320, 3000); round++) {
        int n = 1 + (int)(test_random(&random) % MOST), rows = 1 + round % 3;
        float logits[3 * MOST], uniform[3];
        SampleRule rule = random_rule(&random);
        for (int i = 0; i < rows * n; i++) {
            logits[i] = 3.0f * test_random_normal(&random);
            if (round % 4 == 0) logits[i] = rintf(logits[i]); // many ties
            if (round % 8 == 5 && i % 3) logits[i] = -INFINITY;
        }
        for (int i = 0; i < rows; i++)
            uniform[i] = test_random_float(&random, 0.0f, 1.0f);
        check_rows(device, logits, rows, n, &rule, uniform);
    }
    test_device_close(device);
}

// ---- rows that are larger than what one thread or one block looks at ----

static float pick(TestRandom *random, const float *choices, int n) {
    return choices[test_random(random) % (uint64_t)n];
}

// Logits of one kind, those that have made cuts difficult before.
static void fill_row(TestRandom *random, float *logits, int n, uint64_t kind) {
    float spread = pick(random, (float[]){0.01f, 1.0f, 4.0f, 1e4f}, 4);
    for (int t = 0; t < n; t++) {
        float x = spread * test_random_normal(random);
        bool rare = test_random(random) % 50 == 0;
        switch (kind) {
        case 0: break;
        case 1: x = -2.5f; break;                                  // all equal
        case 2: x = rintf(x); break;                               // many equal
        case 3: x = rare ? 1.0f : 0.0f; break;                     // two values
        case 4: x = rare ? x : -INFINITY; break;                   // few that can be sampled
        case 5: x = t == n / 2 ? 0.0f : -INFINITY; break;          // one
        case 6: x = t % 2 ? 0.0f : -0.0f; break;                   // equal, with other bits
        case 7: x = 1.0f + 0x1p-23f * (float)(t % 7000); break;    // neighbours
        case 8: x = rare ? 3e38f : t % 2 ? -3e38f : 1e-45f; break; // too far apart for a float
        case 9: x = -0.01f * (float)t; break;                      // falling, and far
        case 10: x = 1e-3f * (float)t - 20.0f; break;              // rising over 0
        default: x = -INFINITY; break;
        }
        logits[t] = x;
    }
    if (kind == 12) logits[n - 1] = NAN;
    if (kind == 13) logits[n / 3] = INFINITY;
}

static SampleRule difficult_rule(TestRandom *random, int n) {
    const float most = (float)n;
    SampleRule rule = ALL;
    uint64_t bits = test_random(random);
    rule.temperature = pick(random, (float[]){1e-30f, 0.01f, 0.7f, 1.0f, 1.0f, 40.0f, 1e30f}, 7);
    if (bits & 3)
        rule.top_k = (int)pick(
            random, (float[]){1, 2, 40, 1000, most / 2, most - 1, most, most + 1, 1e9f}, 9);
    if (bits & 12)
        rule.top_p =
            pick(random, (float[]){0.0f, 1e-9f, 0.3f, 0.5f, 0.9f, 0.999f, 1.0f - 0x1p-24f}, 7);
    if ((bits & 48) == 48) rule.min_p = pick(random, (float[]){1e-9f, 0.02f, 0.5f, 1.0f}, 4);
    if ((bits & 960) == 960) rule.typical_p = pick(random, (float[]){0.0f, 0.2f, 0.95f}, 3);
    if ((bits & 7168) == 7168) rule.xtc = pick(random, (float[]){1e-9f, 0.01f, 0.5f, 1.0f}, 4);
    return rule;
}

// Every row its own kind and its own answer, on one device: nothing of a call may be left for the
// next.
Test(sample, follows_the_definition_for_large_rows) {
    static const int SIZES[] = {1,    2,    31,   33,   1000, 1023, 1024, 1025, 2047,
                                2048, 2049, 3000, 4096, 4097, 6145, 9000, 16385};
    enum { MOST = 16385, ROWS = 8, SMALL = 4097 };
    TestRandom random = {11};
    Device *device = sampling_device(2, MOST);
    float *logits = malloc(ROWS * MOST * sizeof *logits), uniform[ROWS];
    for (int round = 0; round < EMULATED(51, 250); round++) {
        int n = SIZES[round % (int)(sizeof SIZES / sizeof *SIZES)];
        int rows = n > SMALL ? 1 : 1 + (int)(test_random(&random) % (round % 5 ? 3 : ROWS));
        SampleRule rule = difficult_rule(&random, n);
        for (int i = 0; i < rows; i++) {
            fill_row(&random, logits + (size_t)i * (size_t)n, n, test_random(&random) % 14);
            uniform[i] = test_random_float(&random, 0.0f, 1.0f);
            if (round % 4 == 0) uniform[i] = i % 2 ? 0.0f : 1.0f - 0x1p-24f;
        }
        check_rows(device, logits, rows, n, &rule, uniform);
    }
    free(logits);
    test_device_close(device);
}

// As many as a language model has; on the emulator so many that a GPU's blocks share a row in the
// same way.
enum { V = EMULATED(67000, 151936) };

// By the rules that a language model is asked with.
Test(sample, follows_the_definition_for_a_vocabulary) {
    static const SampleRule RULES[] = {
        {0.8f, 0, 0.9f, 0.0f, 1.0f, 0},          {1.0f, 40, 0.95f, 0.05f, 1.0f, 0},
        {1.5f, V - V / 3, 0.99f, 0.0f, 1.0f, 0}, {1.0f, 40, 1.0f, 0.0f, 1.0f, 0},
        {1.0f, 0, 1.0f, 0.1f, 1.0f, 0},          {0.7f, 20, 0.8f, 0.0f, 0.9f, 0},
        {1.0f, 0, 1.0f, 0.0f, 1.0f, 0.001f},     {1.0f, 40, 0.95f, 0.05f, 1.0f, 0.05f},
    };
    TestRandom random = {12};
    Device *device = sampling_device(2, V);
    float *logits = random_floats(&random, V, 3.0f);
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        float uniform = test_random_float(&random, 0.0f, 1.0f);
        check_rows(device, logits, 1, V, &RULES[i], &uniform);
    }
    for (int t = 0; t < V; t++)
        logits[t] = 1.0f; // one bucket, one logit: ids decide
    check_rows(device, logits, 1, V, &RULES[1], (float[]){0.999f});
    check_rows(device, logits, 1, V, &RULES[2], (float[]){0.999f});
    free(logits);
    test_device_close(device);
}

// p = 0.1, 0.2, 0.3, 0.4 in order of id.
Test(sample, four_tokens_by_hand) {
    float logits[] = {logf(1), logf(2), logf(3), logf(4)};
    SampleRule rule = ALL;
    CHECK_INT(sample_one(logits, 4, &rule, 0.05f), 0);
    CHECK_INT(sample_one(logits, 4, &rule, 0.15f), 1);
    CHECK_INT(sample_one(logits, 4, &rule, 0.35f), 2);
    CHECK_INT(sample_one(logits, 4, &rule, 0.65f), 3);
    CHECK_INT(sample_one(logits, 4, &rule, 1.0f - 0x1p-24f), 3);
    rule.top_k = 2; // 3/7, 4/7
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 2);
    CHECK_INT(sample_one(logits, 4, &rule, 0.42f), 2);
    CHECK_INT(sample_one(logits, 4, &rule, 0.44f), 3);
    rule = ALL;
    rule.top_p = 0.39f; // 0.4 alone
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 3);
    rule.top_p = 0.41f; // 0.4 and 0.3
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 2);
    rule = ALL;
    rule.min_p = 0.49f; // 0.2 and up
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 1);
    rule.min_p = 0.51f;
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 2);
    rule = ALL;
    rule.temperature = 0.5f; // 1, 4, 9, 16 of 30
    CHECK_INT(sample_one(logits, 4, &rule, 0.03f), 0);
    CHECK_INT(sample_one(logits, 4, &rule, 0.04f), 1);
    // H = 1.2799; -log p = 2.303, 1.609, 1.204, 0.916: the third token is the most typical.
    rule = ALL;
    rule.typical_p = 0.25f;
    CHECK_INT(sample_one(logits, 4, &rule, 0.99f), 2);
    rule.typical_p = 0.45f; // then the second
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 1);
    CHECK_INT(sample_one(logits, 4, &rule, 0.99f), 2);
}

// p = 0.4, 0.3, 0.1, 0.2: of those with 0.15 or more the least likely stays, 0.1 and 0.2 of 0.3.
Test(sample, exclude_top_choices_leaves_the_least_likely_of_them) {
    float logits[] = {logf(4), logf(3), logf(1), logf(2)}, equal[] = {1, 1, 1};
    SampleRule rule = ALL;
    rule.xtc = 0.15f;
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 2);
    CHECK_INT(sample_one(logits, 4, &rule, 0.32f), 2);
    CHECK_INT(sample_one(logits, 4, &rule, 0.34f), 3);
    CHECK_INT(sample_one(logits, 4, &rule, 0.99f), 3);
    rule.xtc = 0.25f; // 0.3, 0.1 and 0.2 of 0.6
    CHECK_INT(sample_one(logits, 4, &rule, 0.49f), 1);
    CHECK_INT(sample_one(logits, 4, &rule, 0.51f), 2);
    rule.xtc = 0.35f; // 0.4 alone has it, and stays
    CHECK_INT(sample_one(logits, 4, &rule, 0.39f), 0);
    rule.xtc = 0.35f, rule.top_k = 2; // 4/7 and 3/7 have it now, after the cut
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 1);
    rule.xtc = 0.15f, rule.typical_p = 0.45f, rule.top_k = 0; // 0.3 and 0.2 are left: 0.6 and 0.4
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 3);
    rule = ALL;
    rule.xtc = 0.3f; // among equals the first ids leave
    CHECK_INT(sample_one(equal, 3, &rule, 0.0f), 2);
    rule.temperature = 0.0f;
    CHECK_INT(sample_one(logits, 4, &rule, 0.0f), 0);
}

Test(sample, temperature_zero_is_argmax) {
    float logits[] = {1.0f, 5.0f, -2.0f, 5.0f};
    SampleRule rule = ALL;
    rule.temperature = 0.0f;
    CHECK_INT(sample_one(logits, 4, &rule, 0.99f), 1);
}

Test(sample, has_defined_results_at_the_edges) {
    float equal[] = {2.0f, 2.0f, 2.0f}, nowhere[] = {-INFINITY, -INFINITY};
    float nan[] = {1.0f, NAN, 0.0f}, infinite[] = {1.0f, INFINITY, 0.0f};
    float far[] = {3e38f, -3e38f, 3e38f};
    SampleRule rule = ALL, top = ALL;
    top.top_k = 1;
    CHECK_INT(sample_one(equal, 3, &rule, 0.0f), 0);
    CHECK_INT(sample_one(equal, 3, &rule, 0.5f), 1);
    CHECK_INT(sample_one(equal, 3, &rule, 0.9f), 2);
    CHECK_INT(sample_one(equal, 3, &top, 0.9f), 0);
    // Two of weight 2^40: half of the whole is reached by one, and is passed by two only.
    CHECK_INT(sample_one(equal, 2, &rule, 0.5f), 1);
    CHECK_INT(sample_one(equal, 2, &rule, 0.5f - 0x1p-24f), 0);
    top = ALL;
    top.top_p = 0.5f;
    CHECK_INT(sample_one(equal, 2, &top, 0.9f), 0);
    CHECK_INT(sample_one(nowhere, 2, &rule, 0.9f), 0);
    CHECK_INT(sample_one(nan, 3, &rule, 0.0f), -1);
    CHECK_INT(sample_one(infinite, 3, &rule, 0.0f), -1);
    CHECK_INT(sample_one(far, 3, &rule, 0.4f), 0);
    CHECK_INT(sample_one(far, 3, &rule, 0.6f), 2);
    rule.temperature = 1e-30f;
    CHECK_INT(sample_one((float[]){1.0f, 1.0001f, 1.0f}, 3, &rule, 0.999f), 1);
    rule.temperature = 1e30f;
    CHECK_INT(sample_one((float[]){-5.0f, 5.0f}, 2, &rule, 0.49f), 0);
    rule = ALL;
    rule.top_p = 0.0f;
    CHECK_INT(sample_one(equal, 3, &rule, 0.9f), 0);
}

// A vocabulary of real size: with the same uniform, the weights' sums decide, worked out here.
Test(sample, a_large_vocabulary) {
    TestRandom random = {3};
    float *logits = random_floats(&random, V, 2.5f);
    Device *device = sampling_device(2, V);
    uint64_t *weights = malloc(V * sizeof *weights), sum = 0;
    float largest = -INFINITY;
    for (int t = 0; t < V; t++)
        largest = fmaxf(largest, logits[t]);
    for (int t = 0; t < V; t++)
        sum += weights[t] = (uint64_t)(0x1p40f * exp_float(logits[t] - largest));
    for (int round = 0; round < 5; round++) {
        float uniform = (float)round * 0.2f + 0.1f;
        uint64_t target = (uint64_t)((unsigned __int128)sum * (uint64_t)(uniform * 0x1p24f) >> 24);
        int32_t got = -2, wanted = 0;
        for (uint64_t at = weights[0]; at <= target; at += weights[wanted])
            wanted++;
        sample_rows(device, &got, logits, 1, V, &ALL, &uniform);
        CHECK_INT(got, wanted);
    }
    free(weights), free(logits);
    test_device_close(device);
}

static const SampleRule GREEDY = {.temperature = 0.0f};

static int argmax_one(const float *logits, int n) {
    Device *device = sampling_device(2, n);
    int32_t *out = device_alloc(device, sizeof *out), got = -2;
    sample(device, out, upload_floats(device, logits, (size_t)n), 1, n, &GREEDY, NULL);
    device_download(device, &got, out, sizeof got);
    test_device_close(device);
    return got;
}

Test(argmax, the_lowest_of_equals_and_nan_is_an_error) {
    float zeros[100] = {0};
    CHECK_INT(argmax_one(zeros, 100), 0);
    for (int at = 0; at < 100; at += EMULATED(32, 3)) {
        zeros[at] = 1.0f;
        zeros[99] = 1.0f;
        CHECK_INT(argmax_one(zeros, 100), at);
        CHECK_INT(argmax_one(zeros, at + 1), at);
        zeros[at] = NAN;
        CHECK_INT(argmax_one(zeros, 100), -1);
        zeros[at] = INFINITY;
        CHECK_INT(argmax_one(zeros, 100), -1);
        zeros[at] = 0.0f;
    }
    float low[] = {-INFINITY, -INFINITY, -INFINITY}, signs[] = {-0.0f, 0.0f};
    CHECK_INT(argmax_one(low, 3), 0);
    CHECK_INT(argmax_one(signs, 2), 0);
}

Test(argmax, of_many_rows) {
    enum { COLS = 1003, ROWS = 8 };
    TestRandom random = {9};
    float *logits = random_floats(&random, COLS * ROWS, 1.0f);
    Device *device = sampling_device(3, COLS);
    int32_t *out = device_alloc(device, ROWS * sizeof *out), got[ROWS];
    sample(device, out, upload_floats(device, logits, COLS * ROWS), ROWS, COLS, &GREEDY, NULL);
    device_download(device, got, out, sizeof got);
    for (int i = 0; i < ROWS; i++) {
        int wanted = 0;
        for (int t = 0; t < COLS; t++)
            if (logits[i * COLS + t] > logits[i * COLS + wanted]) wanted = t;
        CHECK_INT(got[i], wanted);
    }
    free(logits);
    test_device_close(device);
}

Test(exp_float, is_within_two_units_of_the_last_place) {
    for (float x = -87.0f; x <= 88.0f; x += 0.00037f) {
        double wanted = exp((double)x);
        CHECK_NEAR(exp_float(x), wanted, wanted * 0x1p-22);
    }
    CHECK_NEAR(exp_float(0.0f), 1.0, 0);
    CHECK_NEAR(exp_float(-87.01f), 0.0, 0);
    CHECK_NEAR(exp_float(-INFINITY), 0.0, 0);
    CHECK(isinf(exp_float(88.1f)) && isnan(exp_float(NAN)), "edges");
}

// The distance from ln x in doubles of its size; long double has 11 bits more on x86-64, elsewhere
// perhaps none.
static double log_ulps(double x) {
    long double wanted = logl((long double)x);
    double near = fabs((double)wanted);
    return fabs((double)((long double)log_double(x) - wanted)) / (nextafter(near, INFINITY) - near);
}

Test(log_double, is_within_one_and_a_half_units_of_the_last_place) {
    TestRandom random = {3};
    double worst = 0.0;
    for (int i = 0; i < 300000; i++) {
        double share = (double)((test_random(&random) >> 20) + 1) * 0x1p-44; // as weights are
        double near = 1.0 + ldexp((double)(test_random(&random) >> 11), -60) - 0x1p-8;
        double any = ldexp(0.5 + near, (int)(test_random(&random) % 2000) - 1000);
        worst = fmax(fmax(worst, log_ulps(share)), fmax(log_ulps(near), log_ulps(any)));
    }
    CHECK(worst <= 1.5, "%g units", worst);
    for (int k = -1074; k < 1024; k++)
        CHECK(log_ulps(ldexp(1.0, k)) <= 1.5, "2^%d", k);
    CHECK(log_double(1.0) == 0.0 && log_double(0.0) == -INFINITY, "edges");
    CHECK(isnan(log_double(-1.0)) && isnan(log_double(NAN)), "edges");
    CHECK(log_double(INFINITY) == INFINITY, "edges");
}

// FNV-1a over the results: the same number from every compiler, processor and backend.
Test(log_double, has_the_same_bits_everywhere) {
    uint64_t hash = 14695981039346656037u;
    TestRandom random = {4};
    for (int i = 0; i < 200000; i++) {
        double x = (double)((test_random(&random) >> 20) + 1) * 0x1p-44, y = log_double(x);
        uint64_t bits;
        memcpy(&bits, &y, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    CHECK(hash == 0xfb570546d03603f7, "%#llx", (unsigned long long)hash);
}
