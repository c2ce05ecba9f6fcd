// Ids from the reference libraries for difficult strings and whole texts: published golden outputs.
// One row per tokenizer.
#include "base/hash.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

#include <jansson.h>
#include <unistd.h>

typedef struct VectorRow {
    const char *tokenizer; // below ../shared/data
    const char *vectors;
} VectorRow;

static Tokenizer *open_tokenizer(const char *path) {
    Error error = {0};
    TokenizerSource source = {.path = path};
    Tokenizer *tokenizer = tokenizer_open(&source, &error);
    if (!tokenizer) TEST_FAIL("%s", error.message);
    return tokenizer;
}

static json_t *load(const char *path) {
    size_t size;
    char *text = test_read_file(path, &size);
    json_error_t cause;
    json_t *root = json_loadb(text, size, 0, &cause);
    free(text);
    CHECK(root, "%s: %s", path, cause.text);
    return root;
}

static void encode(Tokenizer *t, IdList *ids, const char *text, size_t length) {
    Error error = {0};
    ids->count = 0;
    if (!tokenizer_encode(t, ids, text, length, false, &error)) TEST_FAIL("%s", error.message);
}

// got[0 .. ) against a JSON list of ids.
static void check_ids(const int32_t *got, size_t count, const json_t *wanted, const char *text) {
    for (size_t i = 0; i < json_array_size(wanted) && i < count; i++) {
        int id = (int)json_integer_value(json_array_get(wanted, i));
        CHECK(got[i] == id, "\"%s\": id %zu is %d, wanted %d", text, i, got[i], id);
    }
    CHECK(count == json_array_size(wanted), "\"%s\": %zu ids, wanted %zu", text, count,
          json_array_size(wanted));
}

static void check_strings(Tokenizer *t, const json_t *strings) {
    IdList ids = {0};
    for (size_t i = 0; i < json_array_size(strings); i++) {
        const json_t *entry = json_array_get(strings, i);
        const json_t *text = json_object_get(entry, "text");
        encode(t, &ids, json_string_value(text), json_string_length(text));
        check_ids(ids.ids, ids.count, json_object_get(entry, "ids"), json_string_value(text));
        const char *decoded = json_string_value(json_object_get(entry, "decoded"));
        if (decoded) test_decodes_to(t, &ids, decoded, strlen(decoded));
    }
    id_list_free(&ids);
}

static size_t remove_all(char *text, size_t size, const char *marker) {
    size_t kept = 0, length = strlen(marker);
    for (size_t i = 0; i < size;)
        if (size - i >= length && !memcmp(text + i, marker, length))
            i += length;
        else
            text[kept++] = text[i++];
    return kept;
}

static void check_file(Tokenizer *t, const char *name, const json_t *wanted) {
    size_t size;
    char sum[65], *text = test_read_file(test_data(name), &size);
    size = remove_all(text, size, "<|endoftext|>");
    IdList ids = {0};
    encode(t, &ids, text, size);
    const json_t *first = json_object_get(wanted, "first32"),
                 *last = json_object_get(wanted, "last16");
    size_t n_last = json_array_size(last);
    CHECK_INT(ids.count, json_integer_value(json_object_get(wanted, "n")));
    check_ids(ids.ids, json_array_size(first), first, name);
    check_ids(ids.ids + ids.count - n_last, n_last, last, name);
    sha256_hex(sum, ids.ids, ids.count * sizeof *ids.ids); // this machine is little-endian
    CHECK_STRING(sum, json_string_value(json_object_get(wanted, "sha256_int32le")));
    id_list_free(&ids);
    free(text);
}

static void check_vectors(Tokenizer *t, const char *path) {
    json_t *vectors = load(test_data(path)), *entry;
    CHECK(json_array_size(json_object_get(vectors, "strings")) > 0);
    check_strings(t, json_object_get(vectors, "strings"));
    const char *name;
    json_object_foreach(json_object_get(vectors, "files"), name, entry) check_file(t, name, entry);
    json_decref(vectors);
}

static void check_row(const VectorRow *row) {
    Tokenizer *t = open_tokenizer(test_data(row->tokenizer));
    check_vectors(t, row->vectors);
    tokenizer_close(t);
}

Test(tokenizer_vectors, gpt2) {
    check_row(&(VectorRow){"tokenizers/gpt2", "tokenizers/gpt2/vectors.json"});
}

Test(tokenizer_vectors, llama3) {
    check_row(&(VectorRow){"tokenizers/llama3/tokenizer.json", "tokenizers/llama3/vectors.json"});
}

Test(tokenizer_vectors, qwen3) {
    check_row(&(VectorRow){"tokenizers/qwen3/tokenizer.json", "tokenizers/qwen3/vectors.json"});
}

Test(tokenizer_vectors, llama2_model) {
    check_row(&(VectorRow){"tokenizers/llama2/tokenizer.model", "tokenizers/llama2/vectors.json"});
}

Test(tokenizer_vectors, llama2_tokenizer_bin) {
    check_row(&(VectorRow){"tokenizers/llama2/tokenizer.bin", "tokenizers/llama2/vectors.json"});
}

Test(tokenizer_vectors, sentencepiece_unigram) {
    check_row(&(VectorRow){"tokenizers/sentencepiece/test_model.model",
                           "tokenizers/sentencepiece/sp_test_model_unigram1000.vectors.json"});
}

Test(tokenizer_vectors, sentencepiece_japanese) {
    check_row(&(VectorRow){"tokenizers/sentencepiece/test_ja_model.model",
                           "tokenizers/sentencepiece/sp_test_ja_model.vectors.json"});
}

// ---- llama.cpp's .inp and .out: texts between marker lines, one line of ids per text ----

static const char MARKER[] = "\n__ggml_vocab_test__\n";

// The ids of the next line; advances *line.
static json_t *line_of_ids(char **line) {
    json_t *ids = json_array();
    char *end = strchr(*line, '\n'), *p = *line;
    for (char *after; p < end; p = after) {
        long id = strtol(p, &after, 10);
        if (after == p || after > end) break;
        json_array_append_new(ids, json_integer(id));
    }
    *line = end + 1;
    return ids;
}

static void check_ggml(Tokenizer *t, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "ggml-vocab/ggml-vocab-%s.gguf.inp", name);
    char *inputs = test_read_file(test_data(path), NULL);
    snprintf(path, sizeof path, "ggml-vocab/ggml-vocab-%s.gguf.out", name);
    char *outputs = test_read_file(test_data(path), NULL), *line = outputs;
    IdList ids = {0};
    int count = 0;
    for (char *text = inputs, *end; text; text = end ? end + strlen(MARKER) : NULL, count++) {
        end = strstr(text, MARKER);
        if (!end && !*text) break;
        if (end) *end = '\0';
        json_t *wanted = line_of_ids(&line);
        encode(t, &ids, text, strlen(text));
        check_ids(ids.ids, ids.count, wanted, text);
        json_decref(wanted);
    }
    CHECK(count > 40 && !*line, "%d texts", count);
    id_list_free(&ids);
    free(inputs);
    free(outputs);
}

static void check_ggml_file(const char *tokenizer, const char *name) {
    Tokenizer *t = open_tokenizer(test_data(tokenizer));
    check_ggml(t, name);
    tokenizer_close(t);
}

Test(tokenizer_vectors, ggml_llama_bpe) {
    check_ggml_file("tokenizers/llama3/tokenizer.json", "llama-bpe");
}

Test(tokenizer_vectors, ggml_qwen2) {
    check_ggml_file("tokenizers/qwen3/tokenizer.json", "qwen2");
}

// A vocabulary-only GGUF; it may have further vectors.
static void check_ggml_vocabulary(const char *name, const char *vectors) {
    char path[128];
    snprintf(path, sizeof path, "ggml-vocab/ggml-vocab-%s.gguf", name);
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    if (!checkpoint_open_vocabulary(&checkpoint, test_data(path), &error))
        TEST_FAIL("%s", error.message);
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(checkpoint)};
    Tokenizer *t = tokenizer_open(&source, &error);
    if (!t) TEST_FAIL("%s", error.message);
    check_ggml(t, name);
    if (vectors) check_vectors(t, vectors);
    tokenizer_close(t);
    checkpoint_close(checkpoint);
}

Test(tokenizer_vectors, ggml_gpt2) {
    check_ggml_vocabulary("gpt-2", "tokenizers/gpt2/vectors.json");
}

Test(tokenizer_vectors, ggml_llama_spm) {
    check_ggml_vocabulary("llama-spm", "tokenizers/llama2/vectors.json");
}

Test(tokenizer_vectors, ggml_phi3) {
    check_ggml_vocabulary("phi-3", NULL);
}
