// Tokenizer files that are rewritten in place while they are read. Each reader that counts before
// it fills gets a file of which there is more than was counted.
#include "tests/support/files/rewriting.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

#include <sys/stat.h>

enum { ROOM = 16384 };

typedef struct Made {
    char bytes[ROOM];
    size_t size;
} Made;

static void put(Made *m, const void *bytes, size_t size) {
    CHECK(m->size + size <= ROOM);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put_text(Made *m, const char *text) {
    put(m, text, strlen(text));
}

static Content content_of(const Made *m) {
    return (Content){m->bytes, m->size};
}

// Checks every stop, then races.
static void check(const char *name, const Made *first, const Content *hostile, size_t count) {
    const char *path = test_temporary(name);
    Rewriting rewriting = {read_tokenizer, path, path, false};
    test_write_file(path, first->bytes, first->size);
    rewriting_check(&rewriting, hostile, count);
    rewriting_race(&rewriting, hostile, count, 0.1);
}

static bool opens(bool (*open)(Tokenizer *t, const uint8_t *bytes, size_t size, Error *error),
                  const uint8_t *bytes, size_t size, Error *error) {
    Tokenizer *t = tokenizer_new(error);
    bool good = t && open(t, bytes, size, error);
    tokenizer_close(t);
    return good;
}

// ---- tokenizer.bin ----

static bool open_bin(Tokenizer *t, const uint8_t *bytes, size_t size, Error *error) {
    return tokenizer_bin_open(t, bytes, size, 0, error);
}

static bool read_bin(const uint8_t *bytes, size_t size, Error *error) {
    return opens(open_bin, bytes, size, error);
}

static void put_bin_token(Made *m, uint32_t length, char letter) {
    float score = -(float)m->size;
    put(m, &score, 4);
    put(m, &length, 4);
    CHECK(m->size + length <= ROOM);
    memset(m->bytes + m->size, letter, length);
    m->size += length;
}

Test(changing_tokenizers, a_tokenizer_bin) {
    Made first = {.size = 4}, one_long = {.size = 4}, spaces = {.size = 4};
    for (int i = 0; i < 200; i++)
        put_bin_token(&first, 1, (char)('a' + i % 26));
    put_bin_token(&one_long, 1700, 'a'); // no more tokens than counted, and more text
    for (int i = 0; i < 300; i++)
        put_bin_token(&spaces, 3, ' ');
    Content hostile[] = {content_of(&one_long), content_of(&spaces)};
    check("tokenizer.bin", &first, hostile, 2);
    rewriting_check_bytes(read_bin, content_of(&first), hostile, 2);
}

// ---- tiktoken ----

static void put_rank(Made *m, const char *base64, int rank) {
    char line[300];
    snprintf(line, sizeof line, "%s %d\n", base64, rank);
    put_text(m, line);
}

static bool open_ranks(Tokenizer *t, const uint8_t *bytes, size_t size, Error *error) {
    return tiktoken_open(t, (TextSpan){(const char *)bytes, size}, NULL, error);
}

static bool read_ranks(const uint8_t *bytes, size_t size, Error *error) {
    return opens(open_ranks, bytes, size, error);
}

Test(changing_tokenizers, a_tiktoken_text) {
    static Made first, many, one_long;
    char digits[241] = "";
    for (int i = 0; i < 240; i++)
        digits[i] = "YWJjZGVm"[i % 8];
    for (int i = 0; i < 20; i++)
        put_rank(&first, i < 16 ? digits : "YQ==", i);
    for (int i = 0; i < 500; i++) // beyond the lines counted and the tokens that are added to them
        put_rank(&many, "YQ==", i);
    put_rank(&one_long, digits, 0);
    Content hostile[] = {content_of(&many), content_of(&one_long)};
    check("tokenizer.model", &first, hostile, 2);
    rewriting_check_bytes(read_ranks, content_of(&first), hostile, 2);
}

// ---- SentencePiece .model ----

static void as_made(Made *m, ModelWriter *w) {
    put(m, w->bytes, w->size);
    model_writer_free(w);
}

// One piece of 1,000 bytes, or many short ones, or pieces of other texts, or fewer.
static void make_model(Made *m, unsigned type, int kind) {
    ModelWriter w = {0};
    char text[1000];
    memset(text, 'x', sizeof text);
    model_usual_pieces(&w, true);
    if (kind == 3) model_bytes(&w, 200, text, 33); // an unknown field as long as three pieces
    for (int i = 0; kind != 3 && i < 3; i++)
        model_piece(&w, &"abcab"[i + (kind == 2)], 1, -1.0f - (float)i, 1);
    for (int i = 0; kind == 1 && i < 70; i++)
        model_piece(&w, (char[]){(char)('a' + i % 20), (char)('A' + i / 20)}, 2, -9.0f, 1);
    if (kind != 1) model_piece(&w, text, sizeof text, -9.0f, 1);
    model_piece(&w, "\xe2\x96\x81", 3, -5.0f, 1);
    model_trainer(&w, type, true);
    model_normalizer(&w, false, NULL, 0);
    as_made(m, &w);
}

// The parser alone.
static bool read_model(const uint8_t *bytes, size_t size, Error *error) {
    SentencePieceModel model;
    bool good = sentencepiece_model_read(&model, bytes, size, error);
    for (size_t i = 0; good && i < model.n_pieces; i++)
        CHECK(model.pieces[i].length, "piece %zu was not read", i);
    sentencepiece_model_free(&model);
    return good;
}

static void check_model(unsigned type) {
    static Made first, many, other, fewer;
    first.size = many.size = other.size = fewer.size = 0;
    make_model(&first, type, 0);
    make_model(&many, type, 1);
    make_model(&other, type, 2);
    make_model(&fewer, type, 3);
    CHECK_INT(fewer.size, first.size);
    Content hostile[] = {content_of(&many), content_of(&other), content_of(&fewer)};
    rewriting_check_bytes(read_model, content_of(&first), hostile, 3);
    check("spm.model", &first, hostile, 3);
}

Test(changing_tokenizers, a_bpe_model) {
    check_model(2);
}

Test(changing_tokenizers, a_unigram_model) {
    check_model(1);
}

// A text is looked up in this table without bounds checks.
Test(changing_tokenizers, a_model_with_a_charsmap) {
    static Made first, wild;
    size_t size;
    uint8_t *charsmap = charsmap_of_runs(2, "b", &size);
    for (int kind = 0; kind < 2; kind++) {
        ModelWriter w = {0};
        model_usual_pieces(&w, false);
        model_piece(&w, "a", 1, -1, 1);
        model_piece(&w, "b", 1, -2, 1);
        model_trainer(&w, 1, false);
        // The units of the trie lead far beyond its end.
        for (size_t i = 4; kind && i + 8 < size; i += 4)
            memcpy(charsmap + i, &(uint32_t){0xfffffe00u + 'a'}, 4);
        model_normalizer(&w, true, charsmap, size);
        as_made(kind ? &wild : &first, &w);
    }
    free(charsmap);
    Content hostile[] = {content_of(&wild)};
    check("nfkc.model", &first, hostile, 1);
}

// ---- JSON ----

#define JSON(vocab, unread)                                                                        \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"   \
    "\"decoder\":{\"type\":\"ByteLevel\"},\"truncation\":" unread ",\"model\":{\"type\":\"BPE\","  \
    "\"vocab\":{" vocab "},\"merges\":[\"a b\"]}}"

// Of a text that was checked for depth, one is parsed that was not.
Test(changing_tokenizers, a_tokenizer_json) {
    Made first = {{0}, 0}, deep = {{0}, 0};
    put_text(&first, JSON("\"a\":0,\"b\":1,\"c\":2,\"ab\":3", "[]"));
    const char *other = JSON("\"a\":2,\"b\":1,\"c\":0,\"ab\":3", "@"), *at = strchr(other, '@');
    put(&deep, other, (size_t)(at - other));
    for (int i = 0; i < 200; i++)
        put_text(&deep, i < 100 ? "[" : "]");
    put_text(&deep, at + 1);
    while (first.size < deep.size)
        put_text(&first, " ");
    Content hostile = content_of(&deep);
    check("tokenizer.json", &first, &hostile, 1);
}

static void check_pair(const char *rewritten, Content hostile) {
    char directory[400], vocab[450], merges[450];
    snprintf(directory, sizeof directory, "%s", test_temporary("pair"));
    mkdir(directory, 0700);
    snprintf(vocab, sizeof vocab, "%s/vocab.json", directory);
    snprintf(merges, sizeof merges, "%s/merges.txt", directory);
    static const char VOCAB[] = "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}";
    static const char MERGES[] = "#version: 0.2\na b\nab c\n";
    test_write_file(vocab, VOCAB, strlen(VOCAB));
    test_write_file(merges, MERGES, strlen(MERGES));
    const char *file = strstr(rewritten, "json") ? vocab : merges;
    Rewriting rewriting = {read_tokenizer, directory, file, false};
    rewriting_check(&rewriting, &hostile, 1);
    rewriting_race(&rewriting, &hostile, 1, 0.05);
}

Test(changing_tokenizers, vocab_json_and_merges_txt) {
    Made lines = {{0}, 0};
    for (int i = 0; i < 600; i++)
        put_text(&lines, "a b\n");
    static const char OTHER[] = "{\"c\":0,\"b\":1,\"a\":2,\"ab\":3,\"abc\":4}";
    check_pair("vocab.json", (Content){OTHER, strlen(OTHER)});
    check_pair("merges.txt", content_of(&lines));
}
