// Penalties, the generator and the options' ranges. The distribution itself is tested in
// test_kernels_sample.c.
#include "model/sampler.h"
#include "tests/support/device.h"

enum { VOCAB = 6 };

static Device *sampler_device(void) {
    static const uint16_t ZEROS[VOCAB];
    Device *device = test_device(1, PRECISION_F32);
    Matrix m = {.dtype = DTYPE_F16, .rows = VOCAB, .cols = 1, .data = ZEROS};
    CHECK(device_matrix(device, &m), "no matrix");
    device_reserve(device, 1);
    return device;
}

static Sampler *open_sampler(Device *device, int context, SamplerOptions options) {
    Error error = {0};
    Sampler *sampler = sampler_open(device, VOCAB, context, &options, &error);
    CHECK(sampler, "%s", error.message);
    return sampler;
}

static int next(Sampler *sampler, const float *logits) {
    Error error = {0};
    int token = sampler_next(sampler, logits, &error);
    CHECK(token >= 0, "%s", error.message);
    return token;
}

static SamplerOptions greedy(void) {
    SamplerOptions options = sampler_defaults();
    options.rule.temperature = 0.0f;
    return options;
}

// Greedy choice under a penalty, after the tokens of `seen` (-1 ends it).
static int choose(SamplerOptions options, const float *logits, const int *seen) {
    Device *device = sampler_device();
    Sampler *sampler = open_sampler(device, 100, options);
    for (; *seen >= 0; seen++)
        sampler_accept(sampler, *seen);
    int token = next(sampler, logits);
    CHECK_INT(next(sampler, logits), token); // nothing is left behind
    sampler_close(sampler);
    test_device_close(device);
    return token;
}

static const int NOTHING[] = {-1};

// 4 / 2 = 2 < 3;  -1 * 2 = -2 < -1.5.
Test(sampler, repetition_penalty_divides_positive_and_multiplies_negative_logits) {
    SamplerOptions options = greedy();
    options.repeat_penalty = 2.0f;
    float positive[VOCAB] = {4.0f, 3.0f, -9, -9, -9, -9};
    float negative[VOCAB] = {-1.0f, -1.5f, -9, -9, -9, -9};
    static const int SEEN[] = {0, -1}, BOTH[] = {0, 1, 0, -1};
    CHECK_INT(choose(options, positive, NOTHING), 0);
    CHECK_INT(choose(options, positive, SEEN), 1);
    CHECK_INT(choose(options, positive, BOTH), 0); // once each, however often seen
    CHECK_INT(choose(options, negative, NOTHING), 0);
    CHECK_INT(choose(options, negative, SEEN), 1);
}

Test(sampler, presence_counts_once_and_frequency_every_time) {
    static const int ONCE[] = {0, -1}, THRICE[] = {0, 0, 0, -1};
    float logits[VOCAB] = {4.0f, 3.0f, -9, -9, -9, -9};
    SamplerOptions options = greedy();
    options.presence_penalty = 0.9f; // 3.1
    CHECK_INT(choose(options, logits, ONCE), 0);
    CHECK_INT(choose(options, logits, THRICE), 0);
    options.presence_penalty = 1.1f; // 2.9
    CHECK_INT(choose(options, logits, ONCE), 1);
    options = greedy();
    options.frequency_penalty = 0.4f; // 3.6, then 2.8
    CHECK_INT(choose(options, logits, ONCE), 0);
    CHECK_INT(choose(options, logits, THRICE), 1);
    options.frequency_penalty = -0.6f; // a negative one rewards
    float other[VOCAB] = {2.0f, 3.0f, -9, -9, -9, -9};
    CHECK_INT(choose(options, other, ONCE), 1);
    CHECK_INT(choose(options, other, THRICE), 0);
}

// Of six tokens the likeliest that is allowed; what others have, NaN even, is not looked at.
Test(sampler, samples_only_what_is_allowed) {
    Device *device = sampler_device();
    SamplerOptions options = greedy();
    options.repeat_penalty = 2.0f;
    Sampler *sampler = open_sampler(device, 100, options);
    float logits[VOCAB] = {5.0f, NAN, 3.0f, 4.0f, -1.0f, INFINITY};
    uint64_t allowed = 1 << 2 | 1 << 3 | 1 << 4;
    sampler_allow(sampler, &allowed);
    CHECK_INT(next(sampler, logits), 3);
    sampler_accept(sampler, 3);
    CHECK_INT(next(sampler, logits), 2); // 4 / 2 < 3
    allowed = 1 << 4;
    CHECK_INT(next(sampler, logits), 4);
    sampler_allow(sampler, NULL);
    logits[1] = logits[5] = 0.0f;
    CHECK_INT(next(sampler, logits), 0);
    sampler_close(sampler);
    options = sampler_defaults();
    options.rule.temperature = 2.0f;
    sampler = open_sampler(device, 100, options);
    CHECK(sampler_is_plain(sampler), "nothing is asked");
    sampler_allow(sampler, &allowed);
    CHECK(!sampler_is_plain(sampler), "a mask");
    allowed = 1 << 1 | 1 << 5;
    int seen = 0;
    for (int i = 0; i < 100; i++)
        seen |= 1 << next(sampler, logits);
    CHECK_INT(seen, 1 << 1 | 1 << 5);
    sampler_close(sampler);
    test_device_close(device);
}

// 2 / 2 - 0.2 = 0.8 < 0.85; in the other order it would be (2 - 0.2) / 2 = 0.9.
Test(sampler, repetition_comes_before_presence) {
    static const int SEEN[] = {2, -1};
    SamplerOptions options = greedy();
    options.repeat_penalty = 2.0f;
    float logits[VOCAB] = {0.85f, -9, 2.0f, -9, -9, -9};
    CHECK_INT(choose(options, logits, NOTHING), 2); // 2
    CHECK_INT(choose(options, logits, SEEN), 2);    // 2 / 2 = 1
    options.presence_penalty = 0.2f;                // 0.8
    CHECK_INT(choose(options, logits, SEEN), 0);
}

// repeat_last 2: the token before the last two is forgotten, as is everything by a reset.
Test(sampler, forgets_what_is_long_ago) {
    Device *device = sampler_device();
    SamplerOptions options = greedy();
    options.presence_penalty = 3.0f;
    options.repeat_last = 2;
    Sampler *sampler = open_sampler(device, 100, options);
    float logits[VOCAB] = {5, 4, 3, 2, 1, 0};
    static const int WANTED[] = {0, 1, 2, 0, 1, 2, 0}; // 0 comes back as soon as it is forgotten
    for (int i = 0; i < 7; i++) {
        int token = next(sampler, logits);
        CHECK_INT(token, WANTED[i]);
        sampler_accept(sampler, token);
    }
    sampler_reset(sampler);
    CHECK_INT(next(sampler, logits), 0);
    sampler_close(sampler);
    // Counts are of the window, too: of 0 0 0 1 the last two hold one 0.
    options.presence_penalty = 0.0f;
    options.frequency_penalty = 0.6f;
    sampler = open_sampler(device, 100, options);
    for (int i = 0; i < 4; i++)
        sampler_accept(sampler, i / 3);
    CHECK_INT(next(sampler, (float[VOCAB]){5, 4.9f}), 0); // 4.4 and 4.3
    sampler_close(sampler);
    test_device_close(device);
}

// The first outputs of xoshiro256** after splitmix64, worked out by a Python program of its own;
// 0x99ec5f36cb75f2b4 is the published first one for seed 0.
Test(sampler, the_generator_is_xoshiro256) {
    static const uint32_t WANTED[2][4] = {{10087519, 12545567, 1728388, 6989204},
                                          {1406987, 6358233, 11409235, 15513773}};
    for (int k = 0; k < 2; k++) {
        Device *device = sampler_device();
        SamplerOptions options = sampler_defaults();
        options.seed = k ? 42 : 0;
        Sampler *sampler = open_sampler(device, 10, options);
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(sampler_uniform(sampler), WANTED[k][i] * 0x1p-24, 0);
        sampler_close(sampler);
        test_device_close(device);
    }
}

// Six tokens of equal probability: u samples token floor(6 u), in order of the ids. 70 given
// numbers are more than one run on the device; behind them the generator's 71st of the same seed
// comes.
Test(sampler, given_numbers_take_the_place_of_the_generators_first) {
    enum { GIVEN = 70 };
    static const float LOGITS[VOCAB] = {0};
    Device *device = sampler_device();
    SamplerOptions options = sampler_defaults();
    options.seed = 42;
    Sampler *sampler = open_sampler(device, 100, options);
    Sampler *own = open_sampler(device, 100, options);
    float numbers[GIVEN];
    for (int i = 0; i < GIVEN; i++)
        numbers[i] = ((float)(i * 5 % VOCAB) + 0.5f) / VOCAB;
    CHECK_NEAR(sampler_last_uniform(own), 0, 0);
    next(own, LOGITS); // before numbers are given a run may be on the device
    CHECK_NEAR(sampler_last_uniform(own), 1406987 * 0x1p-24, 0);
    sampler_give(sampler, numbers, GIVEN);
    for (int i = 0; i < GIVEN; i++) {
        CHECK_INT(next(sampler, LOGITS), i * 5 % VOCAB);
        CHECK_NEAR(sampler_last_uniform(sampler), numbers[i], 0);
    }
    for (int i = 1; i < GIVEN; i++)
        sampler_uniform(own);
    CHECK_INT(next(sampler, LOGITS), next(own, LOGITS));
    CHECK_NEAR(sampler_last_uniform(sampler), sampler_last_uniform(own), 0);
    sampler_close(sampler);
    sampler_close(own);
    test_device_close(device);
}

// 60,000 samples from p = 0.1 .. 0.3: each count within five standard deviations.
Test(sampler, draws_as_often_as_the_probabilities_say) {
    enum { DRAWS = 60000 };
    static const double P[VOCAB] = {0.1, 0.3, 0.05, 0.25, 0.2, 0.1};
    float logits[VOCAB];
    int counts[VOCAB] = {0};
    for (int t = 0; t < VOCAB; t++)
        logits[t] = (float)log(P[t]);
    Device *device = sampler_device();
    SamplerOptions options = sampler_defaults();
    options.seed = 7;
    Sampler *sampler = open_sampler(device, 10, options),
            *again = open_sampler(device, 10, options);
    for (int i = 0; i < DRAWS; i++) {
        int token = next(sampler, logits);
        counts[token]++;
        if (i < 500) CHECK_INT(next(again, logits), token); // the same seed, the same text
    }
    for (int t = 0; t < VOCAB; t++)
        CHECK_NEAR(counts[t], P[t] * DRAWS, 5.0 * sqrt(P[t] * (1 - P[t]) * DRAWS));
    sampler_close(sampler);
    sampler_close(again);
    test_device_close(device);
}

Test(sampler, logits_stay_as_they_are_and_bad_ones_are_an_error) {
    Device *device = sampler_device();
    SamplerOptions options = sampler_defaults();
    options.repeat_penalty = 3.0f;
    Sampler *sampler = open_sampler(device, 10, options);
    sampler_accept(sampler, 1);
    float logits[VOCAB] = {1, 2, 3, 4, 5, 6}, kept[VOCAB];
    memcpy(kept, logits, sizeof kept);
    next(sampler, logits);
    CHECK(!memcmp(kept, logits, sizeof kept), "changed");
    for (int k = 0; k < 2; k++) {
        Error error = {0};
        logits[3] = k ? INFINITY : NAN;
        CHECK_INT(sampler_next(sampler, logits, &error), -1);
        CHECK_INT(error.code, ERROR_NONFINITE);
    }
    for (int t = 0; t < VOCAB; t++)
        logits[t] = -INFINITY;
    CHECK_INT(next(sampler, logits), 0);
    sampler_close(sampler);
    sampler_close(NULL);
    test_device_close(device);
}

// ---- logit bias, xtc, dry, mirostat ----

Test(sampler, a_bias_is_added_and_minus_infinity_forbids) {
    static const LogitBias BIASES[] = {{1, 1.5f}, {0, -INFINITY}, {2, 0.6f}, {2, 0.6f}};
    float logits[VOCAB] = {9, 3, 3.2f, 4.3f, -9, -9};
    SamplerOptions options = greedy();
    CHECK_INT(choose(options, logits, NOTHING), 0);
    options.biases = BIASES;
    options.n_biases = 2; // 4.5
    CHECK_INT(choose(options, logits, NOTHING), 1);
    options.n_biases = 4; // 3.2 + 0.6 + 0.6 = 4.4
    CHECK_INT(choose(options, logits, NOTHING), 1);
    logits[2] = 3.4f;
    CHECK_INT(choose(options, logits, NOTHING), 2);
}

// (-1 + 3) / 2 = 1; the other way round it would be -1 * 2 + 3 = 1, so with 4: 1.5 and 2.
Test(sampler, a_bias_comes_before_penalties) {
    static const LogitBias BIAS = {0, 4.0f};
    static const int SEEN[] = {0, -1};
    float logits[VOCAB] = {-1, 1.6f, -9, -9, -9, -9};
    SamplerOptions options = greedy();
    options.biases = &BIAS;
    options.n_biases = 1;
    options.repeat_penalty = 2.0f;
    CHECK_INT(choose(options, logits, NOTHING), 0); // 3
    CHECK_INT(choose(options, logits, SEEN), 1);    // 1.5
}

// After 0 1 2 came 3: 0.8 * 1.75 = 1.4.
Test(sampler, dry_is_about_the_text_so_far) {
    static const int SEEN[] = {0, 1, 2, 3, 4, 0, 1, 2, -1};
    float logits[VOCAB] = {-9, -9, -9, 3.0f, -9, 1.5f};
    SamplerOptions options = greedy();
    CHECK_INT(choose(options, logits, SEEN), 3);
    options.dry.multiplier = 0.8f;
    CHECK_INT(choose(options, logits, SEEN), 3);
    logits[5] = 1.7f;
    CHECK_INT(choose(options, logits, SEEN), 5);
    CHECK_INT(choose(options, logits, NOTHING), 3);
}

// p = 0.5, 0.4, 0.1: with xtc above 0.3 the first never comes, without it half the time.
Test(sampler, xtc_applies_as_often_as_its_probability_says) {
    enum { DRAWS = 20000 };
    float logits[VOCAB] = {logf(5), logf(4), 0, -INFINITY, -INFINITY, -INFINITY};
    Device *device = sampler_device();
    for (int tenths = 0; tenths <= 10; tenths += 5) {
        SamplerOptions options = sampler_defaults();
        options.rule.xtc = 0.3f;
        options.xtc_probability = (float)tenths / 10;
        options.seed = 3;
        Sampler *sampler = open_sampler(device, 10, options);
        int first = 0, tokens[50];
        for (int i = 0; i < DRAWS; i++) {
            int token = next(sampler, logits);
            first += token == 0;
            if (i < 50) tokens[i] = token;
        }
        double p = 0.5 * (10 - tenths) / 10;
        CHECK_NEAR(first, p * DRAWS, 5.0 * sqrt(p * (1 - p) * DRAWS));
        sampler_rewind(sampler, DRAWS); // the same tokens once more
        for (int i = 0; i < 50; i++)
            CHECK_INT(next(sampler, logits), tokens[i]);
        sampler_close(sampler);
    }
    test_device_close(device);
}

// p = 1/2, 1/4, 1/8, 1/8; tau 1.1, so mu begins at 2.2 and keeps the first two, 2/3 and 1/3. eta 1.
static Sampler *mirostat(Device *device) {
    SamplerOptions options = sampler_defaults();
    options.rule.top_k = 1; // mirostat takes its place
    options.mirostat_tau = 1.1f;
    options.mirostat_eta = 1.0f;
    return open_sampler(device, 10, options);
}

Test(sampler, mirostat_follows_the_surprise_of_the_text) {
    static const float NUMBERS[] = {0.5f, 0.99f, 0.5f, 0.5f, 0.95f, 0.99f, 0.99f};
    // 0: 0.585 bits, mu 2.715. 1: 1.585 bits, mu 2.230. 0 twice: mu 2.745, then 3.260, which keeps
    // all. 3: 3 bits, mu 1.360, which keeps 0 alone, of 0 bits: mu 2.460 keeps two again.
    static const int WANTED[] = {0, 1, 0, 0, 3, 0, 1};
    float logits[VOCAB] = {logf(4), logf(2), 0, 0, -INFINITY, -INFINITY};
    Device *device = sampler_device();
    Sampler *sampler = mirostat(device);
    sampler_give(sampler, NUMBERS, 7);
    for (int i = 0; i < 7; i++)
        CHECK_INT(next(sampler, logits), WANTED[i]);
    sampler_rewind(sampler, 3); // mu goes back too
    for (int i = 4; i < 7; i++)
        CHECK_INT(next(sampler, logits), WANTED[i]);
    sampler_close(sampler);
    sampler = mirostat(device); // a known text, gone through: the same mu
    sampler_give(sampler, NUMBERS, 7);
    for (int i = 0; i < 4; i++)
        sampler_follow(sampler, logits, WANTED[i]);
    CHECK_INT(next(sampler, logits), 3);
    sampler_begin_text(sampler); // 2.2 again: two tokens
    CHECK_INT(next(sampler, logits), 1);
    sampler_close(sampler);
    test_device_close(device);
}

// llama.cpp's words in doubles: sort, cut where the surprise exceeds mu, sample, measure.
static int mirostat_oracle(const float *logits, float uniform, double *mu, double tau, double eta) {
    int order[VOCAB], kept = 0, id = 0;
    double p[VOCAB], sum = 0, total = 0, at = 0;
    for (int t = 0; t < VOCAB; t++)
        sum += p[t] = exp((double)logits[t]);
    for (int t = 0; t < VOCAB; t++) {
        int i = t;
        for (; i > 0 && p[order[i - 1]] < p[t]; i--)
            order[i] = order[i - 1];
        order[i] = t;
    }
    while (kept < VOCAB && (!kept || -log2(p[order[kept]] / sum) <= *mu))
        total += p[order[kept++]];
    for (int t = 0; t < VOCAB; t++) { // by rising id, as limpid does
        bool stays = false;
        for (int i = 0; i < kept; i++)
            stays = stays || order[i] == t;
        if (!stays) continue;
        id = t;
        if ((at += p[t]) > (double)uniform * total) break;
    }
    *mu -= eta * (-log2(p[id] / total) - tau);
    return id;
}

Test(sampler, mirostat_is_its_definition_for_any_logits) {
    TestRandom random = {8};
    Device *device = sampler_device();
    SamplerOptions options = sampler_defaults();
    options.mirostat_tau = 1.2f;
    options.mirostat_eta = 0.3f;
    options.seed = 9;
    Sampler *sampler = open_sampler(device, 10, options);
    double mu = 2.4;
    for (int i = 0; i < 2000; i++) {
        float logits[VOCAB];
        for (int t = 0; t < VOCAB; t++)
            logits[t] = 2.0f * test_random_normal(&random);
        int token = next(sampler, logits);
        CHECK_INT(mirostat_oracle(logits, sampler_last_uniform(sampler), &mu, 1.2, 0.3), token);
    }
    sampler_close(sampler);
    test_device_close(device);
}

static void check_refused(SamplerOptions options, const char *message) {
    Device *device = sampler_device();
    Error error = {0};
    Sampler *sampler = sampler_open(device, VOCAB, 10, &options, &error);
    CHECK(!sampler, "accepted: %s", message);
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK_STRING(error.message, message);
    test_device_close(device);
}

Test(sampler, options_out_of_range_are_named) {
    SamplerOptions o = sampler_defaults();
    o.rule.temperature = -1.0f;
    check_refused(o, "temperature: wanted 0 to 1e+30, got -1");
    o.rule.temperature = NAN;
    check_refused(o, "temperature: wanted 0 to 1e+30, got nan");
    o.rule.temperature = INFINITY;
    check_refused(o, "temperature: wanted 0 to 1e+30, got inf");
    o = sampler_defaults();
    o.rule.top_p = 1.5f;
    check_refused(o, "top-p: wanted 0 to 1, got 1.5");
    o = sampler_defaults();
    o.rule.min_p = -0.1f;
    check_refused(o, "min-p: wanted 0 to 1, got -0.1");
    o = sampler_defaults();
    o.rule.typical_p = NAN;
    check_refused(o, "typical-p: wanted 0 to 1, got nan");
    o = sampler_defaults();
    o.rule.top_k = -1;
    check_refused(o, "top-k: wanted 0 or more, got -1");
    o = sampler_defaults();
    o.repeat_penalty = 0.0f;
    check_refused(o, "repeat-penalty: wanted 0.001 to 1000, got 0");
    o = sampler_defaults();
    o.repeat_last = -2;
    check_refused(o, "repeat-last: wanted 0 or more, got -2");
    o = sampler_defaults();
    o.xtc_probability = NAN;
    check_refused(o, "xtc-probability: wanted 0 to 1, got nan");
    o = sampler_defaults();
    o.rule.xtc = 1.5f;
    check_refused(o, "xtc-threshold: wanted 0 to 1, got 1.5");
    o = sampler_defaults();
    o.dry.base = 0.5f;
    check_refused(o, "dry-base: wanted 1 to 1000, got 0.5");
    o = sampler_defaults();
    o.mirostat_tau = -1.0f;
    check_refused(o, "mirostat-tau: wanted 0 to 100, got -1");
    o = sampler_defaults();
    o.mirostat_eta = NAN;
    check_refused(o, "mirostat-eta: wanted 0 to 10, got nan");
    o = sampler_defaults();
    o.n_biases = 1;
    o.biases = &(LogitBias){VOCAB, 1.0f};
    check_refused(o, "logit-bias: wanted a token 0 to 5, got 6");
    o.biases = &(LogitBias){1, INFINITY};
    check_refused(o, "logit-bias: wanted -1e+06 to 1e+06, got inf");
    o.biases = &(LogitBias){1, NAN};
    check_refused(o, "logit-bias: wanted -1e+06 to 1e+06, got nan");
}

// Extremes inside the ranges stay finite and choose something.
Test(sampler, extremes_in_range_work) {
    static const SampleRule RULES[] = {
        {1e-45f, 0, 1, 0, 1, 0},     {1e30f, 0, 1, 0, 1, 0},       {1, 1 << 30, 1, 0, 1, 0},
        {1, 0, 0, 0, 1, 0},          {1, 0, 1, 1, 1, 0},           {1, 0, 1, 0, 0, 0},
        {0, 3, 0.5f, 0.5f, 0.5f, 0}, {1, 1, 1e-30f, 1, 1e-30f, 0},
    };
    float logits[VOCAB] = {-3e38f, 3e38f, 0, -INFINITY, 1e-45f, 3e38f};
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        Device *device = sampler_device();
        SamplerOptions options = sampler_defaults();
        options.rule = RULES[i];
        Sampler *sampler = open_sampler(device, 0, options);
        for (int k = 0; k < 20; k++) {
            int token = next(sampler, logits);
            CHECK(token >= 0 && token < VOCAB && token != 3, "rule %zu: %d", i, token);
            sampler_accept(sampler, token);
        }
        sampler_close(sampler);
        test_device_close(device);
    }
}
