// What the options of sampling become: --logit-bias as numbers, DRY's sequence breakers as tokens.
#include "commands/shared/generation.h"
#include "tests/support/files/made_vocabulary.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { AB = 256, XA, A_NEWLINE };

typedef struct Scene {
    MadeVocabulary made;
    Config config;
    Options options;
    Session session;
    SamplerOptions sampling;
    SamplingLists lists;
} Scene;

// Letters of one byte, then "ab", "xa" and "a\n".
static void scene_open(Scene *s) {
    memset(s, 0, sizeof *s);
    made_vocabulary(&s->made, "gpt2", (const char *const[]){"a b", "x a", "a \xc4\x8a", NULL});
    s->config.vocab_size = 300;
    s->options.dry_multiplier = 1;
    s->options.dry_last = -1;
    s->session.options = &s->options;
    s->session.config = &s->config;
    s->session.tokenizer = test_open_vocabulary(&s->made.vocabulary);
}

static void scene_close(Scene *s) {
    sampling_free(&s->lists);
    tokenizer_close(s->session.tokenizer);
}

static void add_options(Scene *s) {
    Error error = {0};
    CHECK(sampling_add(&s->sampling, &s->lists, &s->session, &error), "%s", error.message);
}

static void check_breaker(const Scene *s, size_t i, int head, int tail_length, int tail) {
    CHECK(i < s->sampling.dry.n_breakers, "breaker %zu", i);
    const DryBreaker *b = &s->sampling.dry.breakers[i];
    CHECK_INT(b->head, head);
    CHECK_INT(b->tail_length, tail_length);
    if (tail_length) CHECK_INT(b->tail[0], tail);
}

// "ab" is in one token, and two end with its beginning.
Test(sampling, a_breaker_is_every_row_of_tokens_that_holds_it) {
    static Scene s;
    scene_open(&s);
    s.options.dry_breakers = (TextList){{"ab"}, 1};
    add_options(&s);
    check_breaker(&s, 0, 'a', 1, 'b');
    check_breaker(&s, 1, AB, 0, 0);
    check_breaker(&s, 2, XA, 1, 'b');
    CHECK_INT(s.sampling.dry.n_breakers, 3);
    scene_close(&s);
}

Test(sampling, breakers_are_newline_colon_quote_and_star_unless_others_are_given) {
    static Scene s;
    scene_open(&s);
    add_options(&s);
    CHECK_INT(s.sampling.dry.n_breakers, 5); // each alone, and "a\n"
    check_breaker(&s, 4, A_NEWLINE, 0, 0);
    scene_close(&s);
    scene_open(&s);
    s.options.dry_breakers = (TextList){{"none"}, 1};
    add_options(&s);
    CHECK_INT(s.sampling.dry.n_breakers, 0);
    scene_close(&s);
    scene_open(&s);
    s.options.dry_multiplier = 0;
    add_options(&s);
    CHECK_INT(s.sampling.dry.n_breakers, 0);
    scene_close(&s);
}

Test(sampling, breakers_need_a_tokenizer) {
    static Scene s;
    Error error = {0};
    scene_open(&s);
    limpid_model file = {.no_tokenizer = {.code = ERROR_FILE, .message = "no tokenizer here"}};
    tokenizer_close(s.session.tokenizer);
    s.session.tokenizer = NULL;
    s.session.file = &file;
    CHECK(!sampling_add(&s.sampling, &s.lists, &s.session, &error));
    CHECK(strstr(error.message, "--dry-sequence-breaker none"), "%s", error.message);
    sampling_free(&s.lists);
    s.options.dry_breakers = (TextList){{"none"}, 1};
    add_options(&s);
    scene_close(&s);
}

Test(sampling, biases_are_read_as_written) {
    static const LogitBias WANTED[] = {{5, 1.5f},  {0, -INFINITY},     {15043, -1},
                                       {7, 0.25f}, {15043, -INFINITY}, {9, 2}};
    static Scene s;
    scene_open(&s);
    s.options.logit_biases = (TextList){{"5:+1.5,0:-inf,15043-1", "7:.25", "15043-inf,9+2"}, 3};
    add_options(&s);
    CHECK_INT(s.sampling.n_biases, 6);
    for (size_t i = 0; i < 6; i++) {
        CHECK_INT(s.sampling.biases[i].token, WANTED[i].token);
        CHECK(s.sampling.biases[i].bias == WANTED[i].bias, "%zu", i);
    }
    scene_close(&s);
}

Test(sampling, what_is_no_bias_is_refused) {
    static const char *const TEXTS[] = {
        "",       "5",      "5:",   ":1",           "5:nan",
        "5:inf",  "5:+inf", "5:1,", "5:1,,6:1",     "x:1",
        "5:1e7",  "-5:1",   "5x1",  "5 :1",         "5:1 ",
        "51",     "5:0x1",  "5--1", "4294967296:1", "99999999999999999999:1",
        "5:-inf1"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        Options o = {.logit_biases = {{TEXTS[i]}, 1}};
        Error error = {0};
        CHECK(!sampling_check(&o, &error), "\"%s\"", TEXTS[i]);
        CHECK_INT(error.code, ERROR_USAGE);
    }
}
