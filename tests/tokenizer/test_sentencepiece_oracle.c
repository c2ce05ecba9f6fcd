// Debian's spm_train and spm_encode as an oracle: models trained at test time and random ones,
// encoded by the library, as a .model and as the vocabulary of a GGUF.
#include "tests/support/files/long_texts.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

// Training text: words of one to eight letters from a small alphabet, with repetition.
static char *learning_text(size_t *size) {
    static const char *const LETTERS[] = {"a", "e", "n", "t", "s", "r", "\xc3\xa9", "\xe4\xb8\xad"};
    TestRandom random = {6};
    char(*words)[40] = calloc(200, sizeof *words), *text = malloc(1 << 20);
    *size = 0;
    for (int i = 0; i < 200; i++)
        for (size_t n = 1 + test_random(&random) % 8; n; n--)
            strcat(words[i], LETTERS[test_random(&random) % 8]);
    while (*size < 100000) {
        for (int i = 0; i < 9; i++) {
            const char *word = words[test_random(&random) % (1 + test_random(&random) % 200)];
            *size += (size_t)sprintf(text + *size, "%s%s", i ? " " : "",
                                     test_random(&random) % 50 ? word : "\xe2\x82\xac  Q");
        }
        text[(*size)++] = '\n';
    }
    free(words);
    return text;
}

// Trains a model into the temporary directory and returns its path without ".model".
static const char *train(const char *type, const char *byte_fallback) {
    size_t size;
    char *text = learning_text(&size), input[600], prefix[600], kind[64], bytes[64];
    const char *corpus = test_temporary("learn.txt"), *model = test_temporary(type);
    test_write_file(corpus, text, size);
    free(text);
    snprintf(input, sizeof input, "--input=%s", corpus);
    snprintf(prefix, sizeof prefix, "--model_prefix=%s", model);
    snprintf(kind, sizeof kind, "--model_type=%s", type);
    snprintf(bytes, sizeof bytes, "--byte_fallback=%s", byte_fallback);
    const char *argv[] = {"spm_train",
                          input,
                          prefix,
                          kind,
                          bytes,
                          "--vocab_size=420",
                          "--hard_vocab_limit=false",
                          "--normalization_rule_name=identity",
                          "--remove_extra_whitespaces=false",
                          "--character_coverage=0.9995",
                          "--minloglevel=2",
                          NULL};
    TestRun run = test_run(argv, NULL, 0);
    int status = run.status;
    test_run_free(&run);
    if (status == 127) SKIP("no spm_train on this machine");
    CHECK_INT(status, 0);
    return model;
}

// The same vocabulary as a GGUF has it.
static Tokenizer *open_vocabulary(const char *bytes, size_t size) {
    SentencePieceModel model;
    Error error = {0};
    CHECK(sentencepiece_model_read(&model, (const uint8_t *)bytes, size, &error));
    Vocabulary vocabulary = {.model = "llama",
                             .n_tokens = model.n_pieces,
                             .tokens = model.pieces,
                             .scores = model.scores,
                             .types = model.types,
                             .unk_id = -1,
                             .add_space_prefix = -1};
    Tokenizer *t = tokenizer_open(&(TokenizerSource){.vocabulary = &vocabulary}, &error);
    CHECK(t, "%s", error.message);
    sentencepiece_model_free(&model);
    return t;
}

static void check_against_spm_encode(const char *type, const char *byte_fallback) {
    char path[600];
    snprintf(path, sizeof path, "%s.model", train(type, byte_fallback));
    size_t size, model_size;
    char *text = learning_text(&size), *model = test_read_file(path, &model_size);
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(model, model_size, &error);
    CHECK(t, "%s", error.message);
    same_as_spm_encode(t, model, model_size, text, size);
    tokenizer_close(t);
    if (!strcmp(type, "bpe")) {
        t = open_vocabulary(model, model_size);
        same_as_spm_encode(t, model, model_size, text, size);
        tokenizer_close(t);
    }
    free(model);
    free(text);
}

Test(sentencepiece_oracle, agrees_with_spm_encode_on_bpe_with_bytes) {
    check_against_spm_encode("bpe", "true");
}

Test(sentencepiece_oracle, agrees_with_spm_encode_on_bpe) {
    check_against_spm_encode("bpe", "false");
}

Test(sentencepiece_oracle, agrees_with_spm_encode_on_unigram) {
    check_against_spm_encode("unigram", "true");
}

Test(sentencepiece_oracle, cuts_of_a_trained_model_are_refused_or_whole) {
    char path[600];
    snprintf(path, sizeof path, "%s.model", train("bpe", "true"));
    size_t size;
    char *model = test_read_file(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        Error error = {0};
        Tokenizer *t = sentencepiece_open_bytes(model, cut, &error);
        // A file is valid without what follows the pieces, but not without the byte pieces.
        if (t)
            CHECK(tokenizer_size(t) > 3 + 256, "%zu of %zu bytes", cut, size);
        else
            CHECK_INT(error.code, ERROR_FILE);
        tokenizer_close(t);
    }
    free(model);
}

// ---- random models ----

// Lines of up to sixty of what the models of model_random have, and of what they do not.
static size_t random_lines(char *text, TestRandom *random, int lines) {
    static const char *const UNITS[] = {"a", "b", "\xc3\xa9", " ", "z", "\xe2\x96\x81"};
    char *end = text;
    for (int i = 0; i < lines; i++) {
        for (size_t n = test_random(random) % 60; n; n--)
            end += sprintf(end, "%s", UNITS[test_random(random) % 6]);
        *end++ = '\n';
    }
    *end = '\0';
    return (size_t)(end - text);
}

static void check_random_models(unsigned model_type) {
    enum { MODELS = TEST_SANITIZED ? 40 : 200, LINES = 50 };
    TestRandom random = {model_type};
    static char text[LINES * 200];
    for (int i = 0; i < MODELS; i++) {
        ModelWriter w = model_random(&random, model_type, false);
        Error error = {0};
        Tokenizer *t = sentencepiece_open_bytes(w.bytes, w.size, &error);
        CHECK(t, "model %d: %s", i, error.message);
        same_as_spm_encode(t, w.bytes, w.size, text, random_lines(text, &random, LINES));
        tokenizer_close(t);
        model_writer_free(&w);
    }
}

Test(sentencepiece_oracle, agrees_with_spm_encode_on_random_unigram_models) {
    check_random_models(SENTENCEPIECE_UNIGRAM);
}

Test(sentencepiece_oracle, agrees_with_spm_encode_on_random_bpe_models) {
    check_random_models(SENTENCEPIECE_BPE);
}

// ---- published models ----

static void check_same_as_library(const char *name) {
    // With jamo that compose, marks, '<', which stands in control pieces only, and no UTF-8.
    static const char *const UNITS[] = {
        "\xc2\x85",     "\xf0\x9f\x98\x80", "\xff",         "a",        " ",        "\xc2\xa0",
        "\xef\xbc\xa1", "\xe4\xb8\xad",     "\t",           "Q",        "<",        ">",
        "\xe1\x84\x80", "\xe1\x85\xa1",     "\xe1\x86\xa8", "\xcc\x81", "\xcc\xa3", "\xef\xb7\xba",
        "\xe4\xb8",     "\xf4\x80\x80\x80"};
    size_t size;
    char *model = test_read_file(test_data(name), &size);
    model_same_as_library(model, size, UNITS, 20, 60);
    model_same_as_library(model, size, UNITS, 20, 700);
    free(model);
}

Test(sentencepiece_oracle, agrees_with_spm_encode_on_published_models) {
    check_same_as_library("tokenizers/sentencepiece/test_model.model");
    check_same_as_library("tokenizers/sentencepiece/test_ja_model.model");
}

static void check_long_texts(const char *name) {
    Error error = {0};
    Tokenizer *t = test_open_tokenizer(test_data(name), &error);
    CHECK(t, "%s", error.message);
    test_long_texts(t);
    tokenizer_close(t);
}

Test(sentencepiece_oracle, a_megabyte_of_anything_is_not_quadratic) {
    check_long_texts("tokenizers/sentencepiece/test_model.model");
    check_long_texts("tokenizers/sentencepiece/test_ja_model.model");
    check_long_texts("tokenizers/llama2/tokenizer.model");
}
