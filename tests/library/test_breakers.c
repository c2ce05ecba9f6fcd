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
    CHECK(breakers_find(&s->list, &s->model, &sampling, NULL, &error), "%s", error.message);
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
    CHECK(!breakers_find(&list, &model, &sampling, NULL, &error));
    CHECK_STRING(error.message, "sequence breakers (DRY works without any): no tokenizer here");
    sampling.dry_breakers = (const char *const[]){NULL};
    CHECK(breakers_find(&list, &model, &sampling, NULL, &error));
}

// Every breaker begins with "aaaaaa", and every token made ends with it: a row for each number of
// letters that the token has of the breaker.
Test(breakers, are_not_more_than_fit_and_stop_when_they_are_told_to) {
    enum { MANY = 1024, LETTERS = 50 };
    static char texts[MANY][12], merges[LETTERS][16];
    static const char *breakers[MANY],
        *rules[LETTERS + 6] = {"a a", "a aa", "a aaa", "a aaaa", "a aaaaa"};
    static Scene s;
    Error error = {0};
    int stop = 0;
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof texts[i], "aaaaaa%04d", i);
        breakers[i] = texts[i];
    }
    for (int i = 0; i < LETTERS; i++) {
        snprintf(merges[i], sizeof merges[i], "%c aaaaaa", i < 25 ? 'A' + i : 'b' + i - 25);
        rules[5 + i] = merges[i];
    }
    memset(&s, 0, sizeof s);
    made_vocabulary(&s.made, "gpt2", rules);
    s.config.vocab_size = 256 + 5 + LETTERS;
    s.model.config = &s.config;
    s.model.own.tokenizer = test_open_vocabulary(&s.made.vocabulary);
    limpid_sampling sampling = {.dry_breakers = breakers, .n_dry_breakers = MANY};
    CHECK(!breakers_find(&s.list, &s.model, &sampling, &stop, &error), "%zu rows", s.list.count);
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK_STRING(error.message,
                 "the sequence breakers are more than 262144 rows of tokens: give fewer");
    stop = 1;
    error = (Error){0};
    CHECK(!breakers_find(&s.list, &s.model, &sampling, &stop, &error));
    CHECK_INT(error.code, ERROR_INTERRUPTED);
    scene_close(&s);
}
