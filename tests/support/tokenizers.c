#include "tests/support/tokenizers.h"

#include "tests/test.h"

Tokenizer *test_open_tokenizer(const char *path, Error *error) {
    TokenizerSource source = {.path = path};
    return tokenizer_open(&source, error);
}

Tokenizer *test_open_tokenizer_text(const char *name, const void *text, size_t size, Error *error) {
    const char *path = test_temporary(name);
    test_write_file(path, text, size);
    return test_open_tokenizer(path, error);
}

Tokenizer *test_open_vocabulary(const Vocabulary *vocabulary) {
    Error error = {0};
    TokenizerSource source = {.vocabulary = vocabulary};
    Tokenizer *t = tokenizer_open(&source, &error);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

const char *test_pieces(const Tokenizer *t, const char *text, bool special) {
    static char out[512];
    Error error = {0};
    IdList ids = {0};
    CHECK(tokenizer_encode(t, &ids, text, strlen(text), special, &error), "%s", error.message);
    out[0] = '\0';
    for (size_t i = 0; i < ids.count; i++) {
        TextSpan s = tokenizer_spelling(t, ids.ids[i]);
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%.*s", i ? "|" : "", (int)s.length,
                 s.text);
    }
    id_list_free(&ids);
    return out;
}

void test_check_ids(Tokenizer *t, const char *text, bool special, const int *wanted) {
    IdList ids = {0};
    Error error = {0};
    if (!tokenizer_encode(t, &ids, text, strlen(text), special, &error))
        TEST_FAIL("%s", error.message);
    size_t n = 0;
    for (; wanted[n] >= 0; n++)
        CHECK(n < ids.count && ids.ids[n] == wanted[n], "\"%s\": id %zu is %d, wanted %d", text, n,
              n < ids.count ? ids.ids[n] : -1, wanted[n]);
    CHECK(ids.count == n, "\"%s\": %zu ids, wanted %zu", text, ids.count, n);
    id_list_free(&ids);
}
