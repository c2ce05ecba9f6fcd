// Debian's spm_train and spm_encode as an oracle: models trained at test time, encoded by
// spm_encode, by the library through sentencepiece_c.h, and by spm_bpe.c.
#include "tests/support/files/long_texts.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/sentencepiece/sentencepiece_c.h"

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

// The ids of all lines, as spm_encode prints them, from one tokenizer.
static char *ids_of_lines(Tokenizer *t, const char *text, size_t size) {
    char *out = malloc(12 * size), *end = out;
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

// spm_bpe.c on the same file, even if the library is there.
static Tokenizer *open_own(const char *bytes, size_t size) {
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
    char path[600], option[640];
    snprintf(path, sizeof path, "%s.model", train(type, byte_fallback));
    snprintf(option, sizeof option, "--model=%s", path);
    size_t size, model_size;
    char *text = learning_text(&size), *model = test_read_file(path, &model_size);
    const char *argv[] = {"spm_encode", option, "--output_format=id", NULL};
    TestRun run = test_run(argv, text, size);
    CHECK_INT(run.status, 0);
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(model, model_size, &error);
    CHECK(t || !sentencepiece_available(), "%s", error.message);
    if (t) {
        char *ids = ids_of_lines(t, text, size);
        CHECK(!strcmp(ids, run.out));
        free(ids);
    }
    tokenizer_close(t);
    if (!strcmp(type, "bpe")) {
        t = open_own(model, model_size);
        char *ids = ids_of_lines(t, text, size);
        CHECK(!strcmp(ids, run.out), "our own encoder");
        free(ids);
        tokenizer_close(t);
    }
    free(model);
    free(text);
    test_run_free(&run);
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

// ---- long runs of unknown characters: the library gets a shorter text, the ids are the same ----

static void check_same_as_library(const char *name) {
    // With jamo that compose, marks, and '<', which stands in control pieces only.
    static const char *const UNITS[] = {
        "\n",           "\xf0\x9f\x98\x80", "\xff",         "a",        " ",        "\xc2\xa0",
        "\xef\xbc\xa1", "\xe4\xb8\xad",     "\t",           "Q",        "<",        ">",
        "\xe1\x84\x80", "\xe1\x85\xa1",     "\xe1\x86\xa8", "\xcc\x81", "\xcc\xa3", "\xef\xb7\xba",
        "\xe4\xb8",     "\xf4\x80\x80\x80"};
    size_t size;
    char *model = test_read_file(test_data(name), &size);
    model_same_as_library(model, size, UNITS, 20, 60);
    model_same_as_library(model, size, UNITS, 20, 700);
    free(model);
}

Test(sentencepiece_oracle, runs_of_unknown_characters_keep_their_ids) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    check_same_as_library("tokenizers/sentencepiece/test_model.model");
    check_same_as_library("tokenizers/sentencepiece/test_ja_model.model");
}

// A megabyte of newlines, which test_model.model lacks, takes the library alone 23 seconds.
static void check_long_texts(const char *name) {
    Error error = {0};
    Tokenizer *t = test_open_tokenizer(test_data(name), &error);
    CHECK(t, "%s", error.message);
    test_long_texts(t);
    tokenizer_close(t);
}

Test(sentencepiece_oracle, a_megabyte_of_anything_is_not_quadratic) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    check_long_texts("tokenizers/sentencepiece/test_model.model");
    check_long_texts("tokenizers/sentencepiece/test_ja_model.model");
    check_long_texts("tokenizers/llama2/tokenizer.model");
}
