#include "tests/support/tokenizers.h"

#include "base/text.h"
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

// ---- decoding gives the text back ----

void test_decodes_to(Tokenizer *t, const IdList *ids, const char *text, size_t length) {
    size_t at = 0;
    for (size_t i = 0; i < ids->count; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, ids->ids[i], i == 0, false, &n);
        CHECK(n <= length - at && !memcmp(text + at, piece, n), "id %zu, byte %zu of \"%.60s\"", i,
              at, text);
        at += n;
    }
    CHECK(at == length, "\"%.60s\": %zu bytes of %zu", text, at, length);
}

static void check_round_trip(Tokenizer *t, const char *text, size_t length) {
    Error error = {0};
    IdList ids = {0};
    CHECK(tokenizer_encode(t, &ids, text, length, false, &error));
    test_decodes_to(t, &ids, text, length);
    id_list_free(&ids);
}

void test_gives_bytes_back(Tokenizer *t) {
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++)
            check_round_trip(t, (char[]){(char)a, (char)b}, 2);
        check_round_trip(t, (char[]){(char)a}, 1);
    }
    for (uint32_t c = 0; c < 0x110000; c += TEST_SANITIZED ? 7 : 1) {
        char text[4];
        bool surrogate = c >= 0xd800 && c < 0xe000;
        if (!surrogate && c != 0x2581) check_round_trip(t, text, utf8_encode(text, c));
    }
    TestRandom random = {4};
    for (int i = 0; i < 3000; i++) {
        char text[64];
        size_t length = test_random(&random) % sizeof text;
        for (size_t j = 0; j < length; j++) {
            text[j] = (char)test_random(&random);
            if (text[j] == '\x81') text[j] = ' ';
        }
        check_round_trip(t, text, length);
    }
    check_round_trip(t, "", 0);
    check_round_trip(t, "   a\0b  ", 8);
}
