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
