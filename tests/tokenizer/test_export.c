// Any tokenizer, exported to the vocabulary of a GGUF and written as tokenizer.model or
// tokenizer.json, gives the same ids.
#include "tests/support/files/made_vocabulary.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

#include <sys/stat.h>

// Tests of hundreds of thousands of tokens are slow under sanitizers, so texts are short there.
enum { TEXT_BYTES = TEST_SANITIZED ? 4000 : 60000 };

// Valid UTF-8 only: SentencePiece and llama.cpp encode invalid bytes differently.
static const char *const PIECES[] = {
    "Hello, world!  Two   spaces\n\n\tand a tab.",
    "caf\xc3\xa9 na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f\x98\x80 12345.67",
    "don't WE'LL they're",
    " ",
    "",
    "x",
    "<|endoftext|> <s> </s> <0x0A> \xe2\x96\x81",
};

static void encode(Tokenizer *t, IdList *ids, const char *text, size_t length, bool special) {
    Error error = {0};
    ids->count = 0;
    CHECK(tokenizer_encode(t, ids, text, length, special, &error), "%s", error.message);
}

static void check_same(Tokenizer *a, Tokenizer *b, const char *text, size_t length,
                       const char *what) {
    IdList x = {0}, y = {0};
    for (int special = 0; special < 2; special++) {
        encode(a, &x, text, length, special);
        encode(b, &y, text, length, special);
        bool same =
            x.count == y.count && (!x.count || !memcmp(x.ids, y.ids, x.count * sizeof *x.ids));
        char shown[200];
        size_t at = 0;
        while (at < x.count && at < y.count && x.ids[at] == y.ids[at])
            at++;
        CHECK(same, "%s, special %d: \"%s\": id %zu is %d, was %d", what, special,
              escape_bytes(shown, sizeof shown, text, length), at, at < y.count ? y.ids[at] : -1,
              at < x.count ? x.ids[at] : -1);
    }
    id_list_free(&x);
    id_list_free(&y);
}

static void check_all(Tokenizer *a, Tokenizer *b, const char *what) {
    size_t size;
    CHECK_INT(tokenizer_size(b), tokenizer_size(a));
    CHECK_INT(tokenizer_adds_bos(b), tokenizer_adds_bos(a));
    if (tokenizer_adds_bos(a)) CHECK_INT(tokenizer_bos(b), tokenizer_bos(a));
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++)
        check_same(a, b, PIECES[i], strlen(PIECES[i]), what);
    const char *texts[] = {"LICENSE", "README.md", test_data_if_any("text/wiki.test.raw"),
                           test_data_if_any("text/tinystories_sample.txt")};
    for (size_t i = 0; i < 4 && texts[i]; i++) {
        char *text = test_read_file(texts[i], &size);
        check_same(a, b, text, size < TEXT_BYTES ? size : TEXT_BYTES, what);
        free(text);
    }
    for (int id = 0; id < tokenizer_size(a); id++) {
        TextSpan x = tokenizer_spelling(a, id), y = tokenizer_spelling(b, id);
        CHECK(x.length == y.length && !memcmp(x.text, y.text, x.length), "%s: token %d", what, id);
    }
}

// Compares ids after tokenizer_export, and after vocabulary_write.
static void check_trip(Tokenizer *t, const char *what) {
    Vocabulary vocabulary;
    Arena arena = {0};
    Buffer bytes = {0};
    const char *name;
    Error error = {0};
    CHECK(tokenizer_export(t, &vocabulary, &arena, &error), "%s: %s", what, error.message);
    Tokenizer *again = test_open_vocabulary(&vocabulary);
    check_all(t, again, what);
    tokenizer_close(again);
    CHECK(vocabulary_write(&bytes, &vocabulary, &name, &error), "%s: %s", what, error.message);
    again = test_open_tokenizer_text(name, bytes.bytes, bytes.size, &error);
    CHECK(again, "%s: %s", what, error.message);
    check_all(t, again, what);
    tokenizer_close(again);
    buffer_free(&bytes);
    arena_free(&arena);
}

static void check_file(const char *name) {
    Error error = {0};
    Tokenizer *t = test_open_tokenizer(test_data(name), &error);
    CHECK(t, "%s", error.message);
    check_trip(t, name);
    tokenizer_close(t);
}

// 256 bytes and merges under this splitting pattern, and the public tokenizer where it exists.
static void check_byte_level(const char *name, const char *pattern) {
    MadeVocabulary made;
    made_vocabulary(&made, pattern,
                    (const char *const[]){"t h", "th e", "\xc4\xa0 the", "i n", "in g", "e r",
                                          "\xc4\xa0 a", "1 1", "\xc4\x8a \xc4\x8a", NULL});
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    check_trip(t, pattern);
    tokenizer_close(t);
    if (test_data_if_any(name)) check_file(name);
}

static void check_gguf(const char *path) {
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    CHECK(checkpoint_open_vocabulary(&checkpoint, path, &error), "%s", error.message);
    Tokenizer *t = test_open_vocabulary(checkpoint_vocabulary(checkpoint));
    check_trip(t, path);
    tokenizer_close(t);
    checkpoint_close(checkpoint);
}

Test(export, byte_level_of_a_vocab_json) {
    check_byte_level("tokenizers/gpt2/vocab.json", "gpt2");
}

Test(export, byte_level_of_llama_3_and_qwen_3) {
    check_byte_level("tokenizers/llama3/tokenizer.json", "llama3");
    check_byte_level("tokenizers/qwen3/tokenizer.json", "qwen2");
}

Test(export, sentencepiece_and_tokenizer_bin) {
    check_file("tokenizers/llama2/tokenizer.model");
    check_file("stories260K/tok512.bin");
}

// Not phi-3: user-defined pieces, around which llama.cpp and the library treat spaces differently.
Test(export, vocabularies_of_llama_cpp) {
    check_gguf("weights/builtin.gguf");
    if (!test_data_if_any("ggml-vocab")) return;
    check_gguf(test_data("ggml-vocab/ggml-vocab-gpt-2.gguf"));
    check_gguf(test_data("ggml-vocab/ggml-vocab-llama-spm.gguf"));
}

// ---- BPE with byte fallback: scores have the order of the merges ----

Test(export, merges_by_rank_become_scores) {
    static const char JSON[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true}],"
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
        "\"content\":\"\xe2\x96\x81\"},"
        "\"decoder\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},"
        "\"content\":\" \"},"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,"
        "\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"bc\":4,\"ab\":5,"
        "\"abc\":6,\"\xe2\x96\x81\":7,\"\xe2\x96\x81"
        "a\":8},"
        "\"merges\":[\"b c\",\"a b\",\"a bc\",\"\xe2\x96\x81 a\",\"ab c\"]}}";
    Error error = {0};
    Vocabulary v;
    Arena arena = {0};
    Tokenizer *t = test_open_tokenizer_text("tokenizer.json", JSON, sizeof JSON - 1, &error);
    CHECK(t, "%s", error.message);
    CHECK(tokenizer_export(t, &v, &arena, &error), "%s", error.message);
    CHECK_STRING(v.model, "llama");
    CHECK_INT(v.unk_id, 0);
    CHECK_INT(v.types[0], TOKEN_UNKNOWN);
    CHECK_INT(v.add_space_prefix, 0);
    CHECK_NEAR(v.scores[4], 0, 0);  // b c is the first merge
    CHECK_NEAR(v.scores[5], -1, 0); // a b
    CHECK_NEAR(v.scores[6], -2, 0); // a bc, before ab c
    CHECK_NEAR(v.scores[8], -3, 0);
    Tokenizer *again = test_open_vocabulary(&v);
    test_check_ids(t, "abc ab a", false, IDS(6, 7, 5, 8));
    test_check_ids(again, "abc ab a", false, IDS(6, 7, 5, 8));
    tokenizer_close(again);
    tokenizer_close(t);
    arena_free(&arena);
}

// ---- tokenizers that a GGUF cannot express ----

static void check_refused(Tokenizer *t, const char *because) {
    Vocabulary v;
    Arena arena = {0};
    Error error = {0};
    CHECK(!tokenizer_export(t, &v, &arena, &error), "exported");
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, because), "\"%s\" is not in \"%s\"", because, error.message);
    arena_free(&arena);
    tokenizer_close(t);
}

Test(export, a_unigram_model_is_none_of_them) {
    Error error = {0};
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    model_piece(&w, "a", 1, -1, 1);
    model_trainer(&w, 1, false);
    Tokenizer *t = sentencepiece_open_bytes(w.bytes, w.size, &error);
    CHECK(t, "%s", error.message);
    check_refused(t, "unigram");
    model_writer_free(&w);
}

Test(export, ranks_without_merges_are_none_of_them) {
    static const char RANKS[] = "YQ== 0\nYg== 1\nYWI= 2\n"; // a, b, ab
    Error error = {0};
    Tokenizer *t = test_open_tokenizer_text("tokenizer.model", RANKS, sizeof RANKS - 1, &error);
    CHECK(t, "%s", error.message);
    check_refused(t, "token ranks instead of merges");
}

Test(export, a_pattern_that_gguf_has_no_name_for) {
    static const char JSON[] =
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
        "\"individual_digits\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"use_regex\":true}]},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    Error error = {0};
    Tokenizer *t = test_open_tokenizer_text("tokenizer.json", JSON, sizeof JSON - 1, &error);
    CHECK(t, "%s", error.message);
    check_refused(t, "no name in a GGUF");
}

Test(export, tokens_that_json_cannot_spell_are_refused) {
    TextSpan tokens[] = {{"a", 1}, {"\xff", 1}};
    uint8_t types[] = {TOKEN_NORMAL, TOKEN_CONTROL};
    Vocabulary v = VOCABULARY_ABSENT;
    v.model = "gpt2";
    v.n_tokens = 2;
    v.tokens = tokens;
    v.types = types;
    Buffer bytes = {0};
    const char *name;
    Error error = {0};
    CHECK(!vocabulary_write(&bytes, &v, &name, &error), "written");
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, "token 1 is not UTF-8"), "%s", error.message);
    buffer_free(&bytes);
}
