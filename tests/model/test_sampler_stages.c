// DRY and mirostat on their own: values worked out by hand, and DRY against its definition, spelt
// out slowly. What a Sampler makes of them is in test_sampler.c.
#include "model/sampler_stages.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 12, MOST = 60 };

static const DryOptions DRY = {.multiplier = 0.8f, .base = 1.75f, .allowed_length = 2, .last = -1};

// What dry takes from each logit after `text`, the oldest token first.
static void punish(float taken[VOCAB], const DryOptions *dry, const int *text, int count) {
    int newest[MOST], lengths[MOST], longest[VOCAB] = {0};
    for (int i = 0; i < count; i++)
        newest[i] = text[count - 1 - i];
    for (int t = 0; t < VOCAB; t++)
        taken[t] = 0.0f;
    dry_penalise(dry, taken, newest, count, lengths, longest);
    for (int t = 0; t < VOCAB; t++) {
        taken[t] = 0.0f - taken[t];
        CHECK_INT(longest[t], 0); // as it was
    }
}

#define PUNISH(taken, dry, ...)                                                                    \
    punish(taken, dry, (const int[]){__VA_ARGS__}, sizeof(int[]){__VA_ARGS__} / sizeof(int))

// 1 2 3 was followed by 4: three tokens are one more than allowed, 0.8 * 1.75^1.
Test(dry, takes_multiplier_times_base_to_what_is_over_the_allowed_length) {
    float taken[VOCAB];
    PUNISH(taken, &DRY, 1, 2, 3, 4, 5, 1, 2, 3);
    for (int t = 0; t < VOCAB; t++)
        CHECK_NEAR(taken[t], t == 4 ? 1.4 : 0, 1e-6);
    PUNISH(taken, &DRY, 2, 3, 4, 5, 2, 3); // two: 0.8 * 1.75^0
    CHECK_NEAR(taken[4], 0.8, 1e-6);
    PUNISH(taken, &DRY, 3, 4, 5, 3); // one is fewer than allowed
    CHECK_NEAR(taken[4], 0, 0);
}

// After 1 2 3 came 4, after 2 3 alone 5 and then 4 again: the longest counts, once.
Test(dry, counts_the_longest_repetition_of_each_token) {
    float taken[VOCAB];
    PUNISH(taken, &DRY, 1, 2, 3, 4, 2, 3, 5, 2, 3, 4, 1, 2, 3);
    CHECK_NEAR(taken[4], 1.4, 1e-6);
    CHECK_NEAR(taken[5], 0.8, 1e-6);
}

// 7 7 7 7 7: the end stands there before, shifted by one, with four tokens. 0.8 * 1.75^2.
Test(dry, sees_repetitions_that_overlap_themselves) {
    float taken[VOCAB];
    PUNISH(taken, &DRY, 7, 7, 7, 7, 7);
    CHECK_NEAR(taken[7], 2.45, 1e-5);
}

Test(dry, looks_at_the_last_tokens_only) {
    float taken[VOCAB];
    DryOptions dry = DRY;
    dry.last = 7; // the 1 of the first 1 2 3 is out of sight: two tokens, as if they were all
    PUNISH(taken, &dry, 1, 2, 3, 4, 5, 1, 2, 3);
    CHECK_NEAR(taken[4], 0.8, 1e-6);
    dry.last = 0;
    PUNISH(taken, &dry, 1, 2, 3, 4, 5, 1, 2, 3);
    CHECK_NEAR(taken[4], 0, 0);
}

// 9 is a breaker: 1 9 2 3 has two tokens behind it. 4 8 is one of two tokens.
Test(dry, breakers_bound_what_is_a_repetition) {
    static const DryBreaker BREAKERS[] = {{4, 1, {8}}, {9, 0, {0}}};
    DryOptions dry = DRY;
    float taken[VOCAB];
    dry.breakers = BREAKERS;
    dry.n_breakers = 2;
    PUNISH(taken, &dry, 1, 9, 2, 3, 5, 1, 9, 2, 3);
    CHECK_NEAR(taken[5], 0.8, 1e-6);
    PUNISH(taken, &dry, 1, 2, 9, 3, 5, 1, 2, 9, 3); // one token
    CHECK_NEAR(taken[5], 0, 0);
    PUNISH(taken, &dry, 1, 2, 3, 9, 6, 1, 2, 3); // 9 follows the repetition, and is not punished
    CHECK_NEAR(taken[9], 0, 0);
    PUNISH(taken, &dry, 4, 8, 2, 3, 5, 4, 8, 2, 3); // "4 8" breaks, two behind it
    CHECK_NEAR(taken[5], 0.8, 1e-6);
    PUNISH(taken, &dry, 4, 7, 2, 3, 5, 4, 7, 2, 3); // 4 alone does not
    CHECK_NEAR(taken[5], (double)0.8f * 1.75 * 1.75, 1e-5);
    PUNISH(taken, &dry, 1, 2, 3, 4, 6, 1, 2, 3); // 4 only begins a breaker: it is punished
    CHECK_NEAR(taken[4], 1.4, 1e-6);
}

Test(dry, never_overflows) {
    int text[MOST];
    float taken[VOCAB];
    DryOptions dry = DRY;
    dry.base = 1000.0f;
    for (int i = 0; i < MOST; i++)
        text[i] = 3;
    punish(taken, &dry, text, MOST);
    CHECK(taken[3] > 1e38f && !isnan(taken[3]), "%g", (double)taken[3]);
}

// ---- against the definition ----

// The most tokens at the end of the text that stand somewhere before t too.
static int repetition_before(const int *text, int count, int most, int t) {
    int longest = -1;
    for (int at = 1; at < count; at++) { // text[at] is t, and what is before it is compared
        int n = 0;
        if (text[at] != t) continue;
        while (n < most && at - 1 - n >= 0 && text[at - 1 - n] == text[count - 1 - n])
            n++;
        if (n > longest) longest = n;
    }
    return longest;
}

Test(dry, is_its_definition_for_any_text) {
    static const DryBreaker BREAKERS[] = {{0, 0, {0}}, {1, 2, {2, 1}}};
    TestRandom random = {5};
    for (int round = 0; round < 3000; round++) {
        int count = 1 + (int)(test_random(&random) % MOST), letters = 2 + round % 5;
        int text[MOST], most = count;
        DryOptions dry = DRY;
        dry.allowed_length = round % 4;
        if (round % 3) dry.breakers = BREAKERS, dry.n_breakers = 2;
        for (int i = 0; i < count; i++)
            text[i] = (int)(test_random(&random) % (uint64_t)letters);
        for (int at = count - 1; dry.n_breakers && at >= 0 && most == count; at--) {
            bool whole = at + 2 < count && text[at] == 1 && text[at + 1] == 2 && text[at + 2] == 1;
            if (text[at] == 0) most = count - 1 - at;
            if (whole) most = count - 3 - at;
        }
        float taken[VOCAB];
        punish(taken, &dry, text, count);
        for (int t = 0; t < VOCAB; t++) {
            int length = repetition_before(text, count, most, t);
            bool looks = count > dry.allowed_length && length >= dry.allowed_length;
            double wanted = looks ? (double)0.8f * pow(1.75, length - dry.allowed_length) : 0;
            if (t == 0 && dry.n_breakers) wanted = 0;
            CHECK_NEAR(taken[t], wanted, 1e-5 * wanted);
        }
    }
}

// ---- mirostat ----

// p = 1/2, 1/4, 1/8, 1/8: mu bits keep those with p >= 2^-mu, and the largest weight is that of
// 1/2.
Test(mirostat, cuts_what_has_more_surprise_than_mu) {
    static const struct {
        float mu, least;
    } CASES[] = {{2.0f, 0.5f}, {1.5f, 0.7071068f}, {3.0f, 0.25f}, {0.5f, 1.0f}, {-5.0f, 1.0f}};
    float logits[] = {logf(4), logf(2), 0, 0};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        CHECK_NEAR(mirostat_min_p(logits, 4, 1.0f, CASES[i].mu), CASES[i].least, 1e-6);
    logits[1] = NAN;
    CHECK_NEAR(mirostat_min_p(logits, 4, 1.0f, 2.0f), 1, 0);
}

// Of 1/2 and 1/4, as they are left: 2/3 and 1/3.
Test(mirostat, measures_the_surprise_among_the_kept_tokens) {
    float logits[] = {logf(4), logf(2), 0, -INFINITY};
    SampleRule rule = {.temperature = 1.0f, .min_p = 0.5f};
    CHECK_NEAR(mirostat_surprise(logits, 4, &rule, 0), log2(1.5), 1e-6);
    CHECK_NEAR(mirostat_surprise(logits, 4, &rule, 1), log2(3), 1e-6);
    rule.min_p = 0;
    CHECK_NEAR(mirostat_surprise(logits, 4, &rule, 2), log2(7), 1e-6);
    CHECK(isnan(mirostat_surprise(logits, 4, &rule, 3)), "a token without weight");
    rule.temperature = 0.5f; // 16, 4, 1
    CHECK_NEAR(mirostat_surprise(logits, 4, &rule, 1), log2(21.0 / 4), 1e-6);
}
