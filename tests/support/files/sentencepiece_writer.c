#include "tests/support/files/sentencepiece_writer.h"

#include "tests/test.h"
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/sentencepiece/sentencepiece_c.h"

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

// ---- the library as it is, beside the tokenizer that uses it ----

typedef struct Oracle {
    SentencePiece *library;
    Tokenizer *tokenizer;
} Oracle;

static Oracle oracle_open(const void *model, size_t size) {
    Oracle o;
    Error error = {0};
    char reason[SENTENCEPIECE_REASON_SIZE];
    CHECK(sentencepiece_load(&o.library, model, size, reason) == SENTENCEPIECE_OK);
    o.tokenizer = sentencepiece_open_bytes(model, size, &error);
    CHECK(o.tokenizer, "%s", error.message);
    return o;
}

static void oracle_close(const Oracle *o) {
    tokenizer_close(o->tokenizer);
    sentencepiece_free(o->library);
}

static void check_text(const Oracle *o, const char *text, size_t length) {
    Error error = {0};
    IdList ids = {0};
    const int *wanted;
    size_t count;
    char reason[SENTENCEPIECE_REASON_SIZE];
    CHECK(tokenizer_encode(o->tokenizer, &ids, text, length, false, &error));
    CHECK(!sentencepiece_encode(o->library, text, length, &wanted, &count, reason));
    CHECK_INT(ids.count, count);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(ids.ids[i], wanted[i]);
    id_list_free(&ids);
}

void model_same_as_library(const void *model, size_t size, const char *const *units, size_t n_units,
                           size_t longest) {
    enum { SIZE = 9000 };
    Oracle o = oracle_open(model, size);
    TestRandom random = {7};
    char text[SIZE + 100];
    for (int round = 0; round < (TEST_SANITIZED ? 20 : 150); round++) {
        size_t length = 0;
        while (length < SIZE) {
            const char *a = units[test_random(&random) % n_units];
            const char *b = units[test_random(&random) % n_units];
            for (size_t n = test_random(&random) % longest; n && length < SIZE; n--)
                length += (size_t)sprintf(text + length, "%s", n % 2 ? a : b);
        }
        check_text(&o, text, length);
    }
    oracle_close(&o);
}
