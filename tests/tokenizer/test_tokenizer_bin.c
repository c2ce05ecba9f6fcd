// llama2.c's tokenizer.bin: rows L08 to L12 of the hostile corpus, every length, and a real file.
#include "tests/support/changed_bytes.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/long_texts.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/internal.h"
#include "weights/checkpoint.h"

typedef struct Bin {
    uint8_t bytes[8192];
    size_t size;
} Bin;

static void put_u32(Bin *bin, uint32_t value) {
    memcpy(bin->bytes + bin->size, &value, 4);
    bin->size += 4;
}

static void put_token(Bin *bin, float score, const char *text) {
    uint32_t bits;
    memcpy(&bits, &score, 4);
    put_u32(bin, bits);
    put_u32(bin, (uint32_t)strlen(text));
    memcpy(bin->bytes + bin->size, text, strlen(text));
    bin->size += strlen(text);
}

static Tokenizer *open_bytes(const void *bytes, size_t size, int vocab_size, Error *error) {
    // A copy of exactly that size, so that the sanitizer sees a read past the end.
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    Tokenizer *t = tokenizer_new(error);
    bool good = tokenizer_bin_open(t, copy, size, vocab_size, error);
    free(copy);
    if (good) return t;
    tokenizer_close(t);
    return NULL;
}

static void check_refused(const Bin *bin, int vocab_size, const char *cause) {
    Error error = {0};
    CHECK(!open_bytes(bin->bytes, bin->size, vocab_size, &error), "taken: %s", cause);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, cause), "\"%s\" does not say \"%s\"", error.message, cause);
}

static Tokenizer *check_taken(const Bin *bin, int vocab_size) {
    Error error = {0};
    Tokenizer *t = open_bytes(bin->bytes, bin->size, vocab_size, &error);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

// Ids of `text` as one string.
static const char *ids_of(Tokenizer *t, const char *text) {
    static char out[256];
    Error error = {0};
    IdList ids = {0};
    CHECK(tokenizer_encode(t, &ids, text, strlen(text), false, &error));
    out[0] = '\0';
    for (size_t i = 0; i < ids.count; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%d", i ? " " : "", ids.ids[i]);
    id_list_free(&ids);
    return out;
}

static Bin small_bin(void) {
    static const char *const TOKENS[] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x21>", " ", "a",
                                         "b",     "ab",      " a",       " ab",    "aa"};
    static const float SCORES[] = {0, 0, 0, 0, -9, -8, -7, -2, -1, -3, -2};
    Bin bin = {.size = 0};
    put_u32(&bin, 6);
    for (size_t i = 0; i < sizeof TOKENS / sizeof *TOKENS; i++)
        put_token(&bin, SCORES[i], TOKENS[i]);
    return bin;
}

Test(tokenizer_bin, joins_the_best_score_first) {
    Bin bin = small_bin();
    Tokenizer *t = check_taken(&bin, 11);
    // " ab": "ab" scores -2 and " a" -1, so " a" is merged first, then " ab".
    CHECK_STRING(ids_of(t, "ab"), "9");
    CHECK_STRING(ids_of(t, "b"), "4 6");
    // " aab": " a" first (-1), then of "ab" (-2) and " aa" (none) "ab".
    CHECK_STRING(ids_of(t, "aab"), "8 7");
    // "b aab" after "b": "aa" and "ab" both -2: the leftmost, "aa".
    CHECK_STRING(ids_of(t, "baab"), "4 6 10 6");
    CHECK_STRING(ids_of(t, "!"), "4 3"); // a byte token
    CHECK_STRING(ids_of(t, "?!?"), "4 0 3 0");
    CHECK_STRING(ids_of(t, ""), "");
    // Special tokens lose their newlines, and text never matches them.
    CHECK_INT(tokenizer_find(t, "<s>"), 1);
    CHECK_INT(tokenizer_bos(t), 1);
    CHECK(tokenizer_adds_bos(t));
    CHECK_INT(tokenizer_type(t, 3), TOKEN_BYTE);
    int32_t stops[8];
    CHECK_INT(tokenizer_stops(t, stops, 8), 2); // llama2.c stops at BOS too
    CHECK(stops[0] == 2 && stops[1] == 1);
    tokenizer_close(t);
}

Test(tokenizer_bin, only_the_two_special_tokens_lose_their_newlines) {
    static const char *const TOKENS[] = {"\n<unk>", "\n<s>\n", "\n</s>\n", "\n", "\na\n"};
    Bin bin = {.size = 0};
    put_u32(&bin, 6);
    for (int i = 0; i < 5; i++)
        put_token(&bin, 0, TOKENS[i]);
    Tokenizer *t = check_taken(&bin, 5);
    CHECK_INT(tokenizer_find(t, "\n<unk>"), 0);
    CHECK_INT(tokenizer_find(t, "<s>"), 1);
    CHECK_INT(tokenizer_find(t, "</s>"), 2);
    CHECK_INT(tokenizer_find(t, "\n"), 3);
    CHECK_INT(tokenizer_find(t, "\na\n"), 4);
    tokenizer_close(t);
}

Test(tokenizer_bin, every_length_but_the_right_one_is_refused) { // L08
    Bin bin = small_bin();
    for (size_t size = 0; size < bin.size; size++) {
        Bin cut = bin;
        cut.size = size;
        Error error = {0};
        CHECK(!open_bytes(cut.bytes, size, 11, &error), "%zu bytes", size);
        CHECK_INT(error.code, ERROR_FILE);
        CHECK(strstr(error.message, "offset "), "%s", error.message);
    }
    tokenizer_close(check_taken(&bin, 11));
    tokenizer_close(check_taken(&bin, 0)); // the model's size is not known
    bin.bytes[bin.size++] = 0;
    check_refused(&bin, 11, "truncated: score wants 4 bytes, 1 are left");
}

static bool takes_and_encodes(const void *bytes, size_t size, Error *error) {
    Tokenizer *t = open_bytes(bytes, size, 11, error);
    if (t) ids_of(t, "ab !"); // any ids, but no failure
    tokenizer_close(t);
    return t;
}

Test(tokenizer_bin, any_byte_changed_is_a_vocabulary_or_an_error) {
    Bin bin = small_bin();
    check_changed_bytes(takes_and_encodes, bin.bytes, bin.size, bin.size, NULL, 0);
}

Test(tokenizer_bin, the_longest_token_of_the_header_is_not_trusted) { // L09
    static const uint32_t SAID[] = {0, 1, UINT32_MAX, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        Bin bin = small_bin();
        memcpy(bin.bytes, &SAID[i], 4);
        Tokenizer *t = check_taken(&bin, 11);
        CHECK_STRING(ids_of(t, "ab"), "9");
        tokenizer_close(t);
    }
}

// The length comes first in the file and may be the byte that another format begins with: 123 is
// '{', 10 a .model's first byte.
Test(tokenizer_bin, is_known_by_any_length_of_its_longest_token) {
    for (uint32_t length = 6; length < 65536; length += length < 600 ? 1 : 97) {
        Bin bin = small_bin();
        Error error = {0};
        memcpy(bin.bytes, &length, 4);
        Tokenizer *t = test_open_tokenizer_text("tokenizer.bin", bin.bytes, bin.size, &error);
        CHECK(t, "%u: %s", length, error.message);
        CHECK_INT(tokenizer_size(t), 11);
        tokenizer_close(t);
    }
}

Test(tokenizer_bin, holds_so_many_tokens_and_no_more) {
    enum { SIZE = 4 + 8 * (LIMIT_VOCAB + 1) }; // tokens of no bytes, of score 0
    uint8_t *bytes = calloc(1, SIZE);
    Error error = {0};
    Tokenizer *t = open_bytes(bytes, SIZE - 8, 0, &error);
    CHECK(t, "%s", error.message);
    CHECK_INT(tokenizer_size(t), LIMIT_VOCAB);
    tokenizer_close(t);
    CHECK(!open_bytes(bytes, SIZE, 0, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "more than 4194304 tokens"), "%s",
          error.message);
    free(bytes);
}

Test(tokenizer_bin, lengths_are_held_against_what_is_there) { // L10
    static const uint32_t LENGTHS[] = {UINT32_MAX, 2000000000, 65537, 65536, 100};
    static const char *const CAUSES[] = {
        "offset 21: token length: got ", "offset 21: token length: got ",
        "offset 21: token length: got ",
        "offset 25: truncated: token wants 65536 bytes, 99 are left",
        "offset 25: truncated: token wants 100 bytes, 99 are left"};
    for (int i = 0; i < 5; i++) {
        Bin bin = {.size = 0};
        put_u32(&bin, 5);
        put_token(&bin, 0, "<unk>");
        put_u32(&bin, 0);
        put_u32(&bin, LENGTHS[i]);
        memset(bin.bytes + bin.size, 'x', 99);
        bin.size += 99;
        check_refused(&bin, 2, CAUSES[i]);
        bin.bytes[bin.size++] = 'x';
        if (i == 4) tokenizer_close(check_taken(&bin, 2));
    }
    Bin bin = {.size = 0}; // an empty token is accepted and never matches
    put_u32(&bin, 5);
    put_token(&bin, 0, "<unk>");
    put_token(&bin, 0, "");
    Tokenizer *t = check_taken(&bin, 2);
    CHECK_STRING(ids_of(t, "a"), "0"); // a run of unknown characters is one token
    tokenizer_close(t);
}

Test(tokenizer_bin, must_hold_as_many_tokens_as_the_model) { // L11
    Bin bin = small_bin();
    check_refused(&bin, 10, "11 tokens, but the model has 10");
    check_refused(&bin, 12, "11 tokens, but the model has 12");
    check_refused(&bin, 32000, "11 tokens, but the model has 32000");
    check_refused(&bin, 1, "11 tokens, but the model has 1");
    tokenizer_close(check_taken(&bin, 11));
    bin.size = 4; // the header alone, for a model of any size
    check_refused(&bin, 0, "offset 4: no tokens");
}

Test(tokenizer_bin, odd_vocabularies_have_defined_results) { // L12
    Bin bin = {.size = 0};
    put_u32(&bin, 1);
    for (int i = 0; i < 8; i++) // all alike: the lowest id that is no special one
        put_token(&bin, 1, i < 3 ? "<x>" : "a");
    Tokenizer *t = check_taken(&bin, 8);
    CHECK_STRING(ids_of(t, "a"), "0 3"); // no token for a space
    CHECK_STRING(ids_of(t, "b"), "0");
    tokenizer_close(t);

    bin.size = 0;
    put_u32(&bin, 1);
    put_token(&bin, 0, "a"); // one token: the unknown one
    t = check_taken(&bin, 1);
    CHECK_STRING(ids_of(t, "aab"), "0");
    CHECK_INT(tokenizer_bos(t), -1);
    tokenizer_close(t);

    for (int i = 0; i < 3; i++) {
        bin = small_bin();
        uint32_t bits = i == 0 ? 0x7fc00000 : i == 1 ? 0x7f800000 : 0xff800000; // NaN, +-infinity
        memcpy(bin.bytes + 4 + 13, &bits, 4);
        if (i == 0)
            check_refused(&bin, 11, "token 1: its score is NaN");
        else
            tokenizer_close(check_taken(&bin, 11));
    }
}

Test(tokenizer_bin, real_file_refuses_every_cut) {
    size_t size;
    char *bytes = test_read_file(test_data("stories260K/tok512.bin"), &size);
    Error error = {0};
    Tokenizer *t = open_bytes(bytes, size, 512, &error);
    CHECK(t, "%s", error.message);
    tokenizer_close(t);
    for (size_t cut = 0; cut < size; cut++) {
        error = (Error){0};
        if (open_bytes(bytes, cut, 512, &error)) TEST_FAIL("%zu of %zu bytes taken", cut, size);
        CHECK_INT(error.code, ERROR_FILE);
    }
    free(bytes);
}

// Two containers of one vocabulary give the same ids, and their text comes back.
Test(tokenizer_bin, agrees_with_the_gguf_of_the_same_model) {
    Error error = {0};
    Checkpoint *checkpoint;
    const char *path = test_data_if_any("stories260K/stories260K.gguf");
    const char *bin =
        path ? test_data("stories260K/tok512.bin") : conversion_tokenizer_bin("words");
    // Any text without U+2581, which is a space in these vocabularies.
    const char *texts = path ? test_data("text/tinystories_val.txt") : "docs/measuring.md";
    if (!path) path = "weights/builtin.gguf";
    CHECK(checkpoint_open_vocabulary(&checkpoint, path, &error), "%s", error.message);
    TokenizerSource of_gguf = {.vocabulary = checkpoint_vocabulary(checkpoint)};
    TokenizerSource of_bin = {.path = bin,
                              .vocab_size = (int)checkpoint_vocabulary(checkpoint)->n_tokens};
    Tokenizer *a = tokenizer_open(&of_gguf, &error), *b = tokenizer_open(&of_bin, &error);
    CHECK(a && b, "%s", error.message);
    size_t size;
    char *text = test_read_file(texts, &size);
    IdList x = {0}, y = {0};
    CHECK(tokenizer_encode(a, &x, text, size, false, &error));
    CHECK(tokenizer_encode(b, &y, text, size, false, &error));
    CHECK(x.count == y.count && !memcmp(x.ids, y.ids, x.count * sizeof *x.ids));
    test_decodes_to(b, &y, text, size);
    id_list_free(&x);
    id_list_free(&y);
    free(text);
    tokenizer_close(a);
    tokenizer_close(b);
    checkpoint_close(checkpoint);
}

Test(tokenizer_bin, a_long_text_takes_n_log_n_steps) {
    Error error = {0};
    const char *public = test_data_if_any("tokenizers/llama2/tokenizer.bin");
    TokenizerSource source = {.path = public ? public : conversion_tokenizer_bin("words"),
                              .vocab_size = public ? 32000 : 2048};
    Tokenizer *t = tokenizer_open(&source, &error);
    CHECK(t, "%s", error.message);
    test_long_texts(t);
    CHECK(tokenizer_steps(t) > 1000);
    tokenizer_close(t);
}
