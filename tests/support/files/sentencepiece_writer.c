#include "tests/support/files/sentencepiece_writer.h"

#include "tests/test.h"
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

void model_writer_free(ModelWriter *w) {
    free(w->bytes);
    *w = (ModelWriter){0};
}

void model_raw(ModelWriter *w, const void *bytes, size_t size) {
    if (w->size + size > w->capacity) {
        w->capacity = 2 * w->capacity + size + 64;
        w->bytes = realloc(w->bytes, w->capacity);
    }
    if (size) memcpy(w->bytes + w->size, bytes, size);
    w->size += size;
}

void model_varint(ModelWriter *w, uint64_t value) {
    do {
        uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        model_raw(w, &byte, 1);
        value >>= 7;
    } while (value);
}

void model_tag(ModelWriter *w, uint32_t field, unsigned wire) {
    model_varint(w, (uint64_t)field << 3 | wire);
}

void model_number(ModelWriter *w, uint32_t field, uint64_t value) {
    model_tag(w, field, 0);
    model_varint(w, value);
}

void model_bytes(ModelWriter *w, uint32_t field, const void *bytes, size_t size) {
    model_tag(w, field, 2);
    model_varint(w, size);
    model_raw(w, bytes, size);
}

void model_piece(ModelWriter *w, const char *text, size_t length, float score, unsigned type) {
    ModelWriter piece = {0};
    model_bytes(&piece, 1, text, length);
    model_tag(&piece, 2, 5);
    model_raw(&piece, &score, sizeof score);
    if (type) model_number(&piece, 3, type);
    model_bytes(w, 1, piece.bytes, piece.size);
    model_writer_free(&piece);
}

void model_trainer(ModelWriter *w, unsigned model_type, bool byte_fallback) {
    ModelWriter spec = {0};
    model_number(&spec, 3, model_type);
    model_number(&spec, 35, byte_fallback);
    model_bytes(w, 2, spec.bytes, spec.size);
    model_writer_free(&spec);
}

void model_normalizer(ModelWriter *w, bool dummy_prefix, const void *charsmap, size_t size) {
    ModelWriter spec = {0};
    if (charsmap) model_bytes(&spec, 2, charsmap, size);
    model_number(&spec, 3, dummy_prefix);
    model_number(&spec, 4, 0);
    model_bytes(w, 3, spec.bytes, spec.size);
    model_writer_free(&spec);
}

void model_usual_pieces(ModelWriter *w, bool bytes) {
    model_piece(w, "<unk>", 5, 0, 2);
    model_piece(w, "<s>", 3, 0, 3);
    model_piece(w, "</s>", 4, 0, 3);
    for (int i = 0; bytes && i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i);
        model_piece(w, text, 6, 0, 6);
    }
}

// Block 0 holds the root, block k the unit for the k-th 'a', and block k + 1 its leaf: text 0.
uint8_t *charsmap_of_runs(unsigned depth, const char *to, size_t *size) {
    uint32_t n_units = 256 * (depth + 2), trie_size = 4 * n_units;
    size_t text_size = strlen(to) + 1;
    *size = 4 + trie_size + text_size;
    uint8_t *bytes = calloc(1, *size);
    uint32_t *units = malloc(n_units * sizeof *units), pos = 0;
    for (uint32_t i = 0; i < n_units; i++)
        units[i] = 1u << 31; // a leaf, which no byte leads to
    for (unsigned k = 0; k <= depth; k++) {
        uint32_t base = 256 * (k + 1);
        units[pos] = (pos ^ base) << 10 | (k ? 1u << 8 | 'a' : 0);
        pos = base ^ 'a';
    }
    memcpy(bytes, &trie_size, 4);
    memcpy(bytes + 4, units, trie_size);
    memcpy(bytes + 4 + trie_size, to, text_size);
    free(units);
    return bytes;
}

Tokenizer *sentencepiece_open_bytes(const void *bytes, size_t size, Error *error) {
    // A copy of exactly that size, so that the sanitizer sees a read past the end.
    uint8_t *copy = malloc(size ? size : 1);
    if (size) memcpy(copy, bytes, size);
    Tokenizer *t = tokenizer_new(error);
    bool good = sentencepiece_open(t, copy, size, error);
    free(copy);
    if (good) return t;
    tokenizer_close(t);
    return NULL;
}

void model_refused(ModelWriter *w, const char *cause) {
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(w->bytes, w->size, &error);
    model_writer_free(w);
    CHECK(!t, "taken: %s", cause);
    CHECK(error.code == ERROR_FILE && strstr(error.message, cause), "%d \"%s\", wanted \"%s\"",
          error.code, error.message, cause);
}

Tokenizer *model_taken(ModelWriter *w) {
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(w->bytes, w->size, &error);
    model_writer_free(w);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

void model_fine(ModelWriter *w) {
    tokenizer_close(model_taken(w));
}

ModelWriter model_small(void) {
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    model_piece(&w, "\xe2\x96\x81", 3, -3, 1);
    model_piece(&w, "a", 1, -3, 1);
    model_piece(&w, "b", 1, -3, 0); // the type is left out: a normal piece
    model_piece(&w, "ab", 2, -1, 1);
    model_trainer(&w, SENTENCEPIECE_BPE, false);
    model_normalizer(&w, true, NULL, 0);
    return w;
}

// ---- random models ----

ModelWriter model_random(TestRandom *random, unsigned model_type, bool plain) {
    static const char *const LETTERS[] = {"a", "b", "\xc3\xa9", "\xe2\x96\x81"};
    ModelWriter w = {0}, spec = {0};
    bool bytes = test_random(random) % 2;
    char seen[64][24];
    size_t n_seen = 0;
    model_usual_pieces(&w, bytes);
    for (int i = 0; i < 40; i++) {
        char text[24] = "";
        size_t letters = 1 + test_random(random) % (i < 4 ? 1 : 5);
        for (size_t j = 0; j < letters; j++)
            strcat(text, LETTERS[i < 4 ? (size_t)i : test_random(random) % 4]);
        bool again = false;
        for (size_t j = 0; j < n_seen; j++)
            again |= !strcmp(seen[j], text);
        if (again) continue;
        strcpy(seen[n_seen++], text);
        unsigned kind = (unsigned)(test_random(random) % 10);
        bool defined = kind == 4 && !(plain && strchr(text, '\x81'));
        float score = (float)(test_random(random) % 8); // both zeros are among them
        model_piece(&w, text, strlen(text), test_random(random) % 8 ? -score : score,
                    kind < 4  ? TOKEN_UNUSED
                    : defined ? TOKEN_USER_DEFINED
                              : TOKEN_NORMAL);
    }
    model_trainer(&w, model_type, bytes);
    model_normalizer(&w, false, NULL, 0);
    if (plain) return w;
    if (test_random(random) % 2) {
        static const char *const GIVES[] = {"b", "b ", "  b", " "};
        size_t size;
        uint8_t *charsmap = charsmap_of_runs(2, GIVES[test_random(random) % 4], &size);
        model_bytes(&spec, 2, charsmap, size);
        free(charsmap);
    }
    for (uint32_t field = 3; field <= 5; field++) // dummy prefix, extra white space, escapes
        model_number(&spec, field, test_random(random) % 3 > 0);
    model_bytes(&w, 3, spec.bytes, spec.size);
    model_writer_free(&spec);
    model_number(&spec, 24, test_random(random) % 4 == 0);
    model_bytes(&w, 2, spec.bytes, spec.size);
    model_writer_free(&spec);
    return w;
}

// ---- the library as an oracle ----

// The ids of every line as spm_encode prints them. malloced.
static char *ids_of_lines(Tokenizer *t, const char *text, size_t size) {
    char *out = malloc(12 * size + 1), *end = out;
    IdList ids = {0};
    Error error = {0};
    for (size_t at = 0; at < size;) {
        size_t length = (size_t)((char *)memchr(text + at, '\n', size - at) - (text + at));
        ids.count = 0;
        CHECK(tokenizer_encode(t, &ids, text + at, length, false, &error));
        for (size_t i = 0; i < ids.count; i++)
            end += sprintf(end, "%s%d", i ? " " : "", ids.ids[i]);
        *end++ = '\n';
        at += length + 1;
    }
    *end = '\0';
    id_list_free(&ids);
    return out;
}

// What spm_encode prints; skips the test where there is none.
static TestRun spm_encode(const void *model, size_t size, const char *text, size_t length) {
    char option[700];
    const char *path = test_temporary("oracle.model");
    test_write_file(path, model, size);
    snprintf(option, sizeof option, "--model=%s", path);
    const char *argv[] = {"spm_encode", option, "--output_format=id", NULL};
    TestRun run = test_run(argv, text, length);
    if (run.status == 127) SKIP("no spm_encode on this machine");
    CHECK(!run.status, "%s", run.err);
    return run;
}

// Tells the first line that differs.
static void compare_lines(const char *got, const char *wanted, const char *text) {
    for (int line = 1; *got || *wanted; line++) {
        size_t n = strcspn(got, "\n"), m = strcspn(wanted, "\n"), length = strcspn(text, "\n");
        CHECK(n == m && !memcmp(got, wanted, n), "line %d, \"%.*s\": %.*s, wanted %.*s", line,
              (int)length, text, (int)n, got, (int)m, wanted);
        got += n + 1;
        wanted += m + 1;
        text += length + 1;
    }
}

void same_as_spm_encode(Tokenizer *t, const void *model, size_t size, const char *text,
                        size_t length) {
    TestRun run = spm_encode(model, size, text, length);
    char *ids = ids_of_lines(t, text, length);
    compare_lines(ids, run.out, text);
    free(ids);
    test_run_free(&run);
}

void model_same_as_library(const void *model, size_t size, const char *const *units, size_t n_units,
                           size_t longest) {
    enum { LINE = 9000, LINES = TEST_SANITIZED ? 20 : 150 };
    TestRandom random = {7};
    char *text = malloc(LINES * (LINE + 100));
    size_t length = 0;
    for (int round = 0; round < LINES; round++) {
        for (size_t start = length; length < start + LINE;) {
            const char *a = units[test_random(&random) % n_units];
            const char *b = units[test_random(&random) % n_units];
            for (size_t n = test_random(&random) % longest; n && length < start + LINE; n--)
                length += (size_t)sprintf(text + length, "%s", n % 2 ? a : b);
        }
        text[length++] = '\n';
    }
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(model, size, &error);
    CHECK(t, "%s", error.message);
    same_as_spm_encode(t, model, size, text, length);
    tokenizer_close(t);
    free(text);
}
