// DRY's sequence breakers as tokens of a made vocabulary.
#include "library/handles.h"
#include "tests/support/files/made_vocabulary.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { AB = 256, XA, A_NEWLINE };

typedef struct Scene {
    MadeVocabulary made;
    Config config;
    limpid_model model;
    BreakerList list;
} Scene;

// Letters of one byte, then "ab", "xa" and "a\n".
static void scene_open(Scene *s) {
    memset(s, 0, sizeof *s);
    made_vocabulary(&s->made, "gpt2", (const char *const[]){"a b", "x a", "a \xc4\x8a", NULL});
    s->config.vocab_size = 300;
    s->model.config = &s->config;
    s->model.own.tokenizer = test_open_vocabulary(&s->made.vocabulary);
}

static void scene_close(Scene *s) {
    free(s->list.at);
    tokenizer_close(s->model.own.tokenizer);
}

// `texts` NULL: the usual ones.
static void find(Scene *s, const char *const *texts, size_t count) {
    Error error = {0};
    limpid_sampling sampling = {.dry_breakers = texts, .n_dry_breakers = count};
    CHECK(breakers_find(&s->list, &s->model, &sampling, &error), "%s", error.message);
}

static void check_breaker(const Scene *s, size_t i, int head, int tail_length, int tail) {
    CHECK(i < s->list.count, "breaker %zu", i);
    const DryBreaker *b = &s->list.at[i];
    CHECK_INT(b->head, head);
    CHECK_INT(b->tail_length, tail_length);
    if (tail_length) CHECK_INT(b->tail[0], tail);
}

// "ab" is in one token, and two end with its beginning.
Test(breakers, a_breaker_is_every_row_of_tokens_that_holds_it) {
    static Scene s;
    scene_open(&s);
    find(&s, (const char *const[]){"ab"}, 1);
    check_breaker(&s, 0, 'a', 1, 'b');
    check_breaker(&s, 1, AB, 0, 0);
    check_breaker(&s, 2, XA, 1, 'b');
    CHECK_INT(s.list.count, 3);
    scene_close(&s);
}

Test(breakers, are_newline_colon_quote_and_star_unless_others_are_given) {
    static Scene s;
    scene_open(&s);
    find(&s, NULL, 0);
    CHECK_INT(s.list.count, 5); // each alone, and "a\n"
    check_breaker(&s, 4, A_NEWLINE, 0, 0);
    scene_close(&s);
    scene_open(&s);
    find(&s, (const char *const[]){NULL}, 0);
    CHECK_INT(s.list.count, 0);
    scene_close(&s);
}

Test(breakers, need_a_tokenizer_where_there_are_any) {
    Error error = {0};
    BreakerList list = {0};
    limpid_model model = {.no_tokenizer = {.code = ERROR_FILE, .message = "no tokenizer here"}};
    limpid_sampling sampling = {0};
    CHECK(!breakers_find(&list, &model, &sampling, &error));
    CHECK_STRING(error.message, "sequence breakers (DRY works without any): no tokenizer here");
    sampling.dry_breakers = (const char *const[]){NULL};
    CHECK(breakers_find(&list, &model, &sampling, &error));
}
