// Readers that are short of memory: each allocation in turn fails, once, and so does each that an
// arena makes. The file is refused with the exit code for that and nothing stays allocated (the
// sanitizers see it), or it opens as ever. Linked with --wrap for these calls (Makefile).
#include "base/arena.h"
#include "base/json.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/hf/safetensors.h"

#include <unistd.h>

static long countdown; // the call that fails; 0: none
static bool failed;

static bool fails_now(void) {
    bool now = countdown && !--countdown;
    failed |= now;
    return now;
}

#define FAILING(name, parameters, ...)                                                             \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        return fails_now() ? NULL : __real_##name(__VA_ARGS__);                                    \
    }
FAILING(calloc, (size_t count, size_t size), count, size)
FAILING(realloc, (void *old, size_t size), old, size)

static size_t largest; // that malloc was asked for

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) {
    if (size > largest) largest = size;
    return fails_now() ? NULL : __real_malloc(size);
}

// jansson's own calls are another library's: with these, its parser is short of memory too.
__attribute__((constructor)) static void let_jansson_fail(void) {
    json_set_alloc_funcs(malloc, free);
}

// As arena.c does where it has no memory: the error is filled.
static void *no_room(Error *error) {
    error_set(error, ERROR_MEMORY, "out of memory: a test said so");
    return NULL;
}

void *__real_arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error);
void *__wrap_arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error);
void *__wrap_arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error) {
    return fails_now() ? no_room(error) : __real_arena_alloc(arena, count, size, error);
}

char *__real_arena_text(Arena *arena, const void *bytes, size_t length, Error *error);
char *__wrap_arena_text(Arena *arena, const void *bytes, size_t length, Error *error);
char *__wrap_arena_text(Arena *arena, const void *bytes, size_t length, Error *error) {
    return fails_now() ? no_room(error) : __real_arena_text(arena, bytes, length, error);
}

// jansson is a library of its own, whose calls of malloc are not wrapped: it gets the wrapped one
// as from a program that has chosen its allocator, before the first JSON is read.
__attribute__((constructor)) static void give_jansson_our_malloc(void) {
    json_set_alloc_funcs(malloc, free);
}

// Opens and closes what is at `path`.
typedef bool Read(const char *path, Error *error);

static bool read_model(const char *path, Error *error) {
    Checkpoint *checkpoint = NULL;
    bool opened = checkpoint_open(&checkpoint, path, error);
    checkpoint_close(checkpoint);
    return opened;
}

static bool read_vocabulary(const char *path, Error *error) {
    Checkpoint *checkpoint = NULL;
    bool opened = checkpoint_open_vocabulary(&checkpoint, path, error);
    checkpoint_close(checkpoint);
    return opened;
}

static bool read_tokenizer(const char *path, Error *error) {
    Tokenizer *tokenizer = test_open_tokenizer(path, error);
    bool opened = tokenizer != NULL;
    tokenizer_close(tokenizer);
    return opened;
}

// Encodes too: a text takes memory, and so does what the normalizer makes of it.
static bool read_and_encode(const char *path, Error *error) {
    Tokenizer *tokenizer = test_open_tokenizer(path, error);
    IdList ids = {0};
    char text[2000]; // with a piece "bb" every place in it is inside of one
    memset(text, 'b', sizeof text);
    bool good = tokenizer && tokenizer_encode(tokenizer, &ids, text, sizeof text, false, error);
    id_list_free(&ids);
    tokenizer_close(tokenizer);
    return good;
}

static bool read_json(const char *text, Error *error) {
    static const JsonLimits LIMITS = {.bytes = 8 << 20, .values = 1 << 20};
    json_t *root = json_parse(text, strlen(text), &LIMITS, error);
    json_decref(root);
    return root;
}

static void each_fails(Read *read, const char *path) {
    long refused = 0;
    for (long at = 1;; at++) {
        Error error = {0};
        countdown = at;
        failed = false;
        bool opened = read(path, &error);
        countdown = 0;
        CHECK(opened || error.code == ERROR_MEMORY, "%.200s, call %ld: %d, %s", path, at,
              error.code, error.message);
        CHECK(!opened || !error.code, "%.200s, call %ld: opened, and %s", path, at, error.message);
        refused += !opened;
        if (failed) continue;
        CHECK(opened && refused, "%.200s: %ld of %ld calls", path, refused, at);
        return;
    }
}

static const char *written(const char *name, const void *bytes, size_t size) {
    const char *path = test_temporary(name);
    test_write_file(path, bytes, size);
    return path;
}

Test(no_memory, for_json) {
    each_fails(read_json, "{\"a\": [1, \"a word that is longer than the ones before it\", {}]}");
    // A list that grows beyond what the reserve has.
    enum { COUNT = 150000 };
    char *text = malloc(5 * COUNT + 7), *at = text;
    at += sprintf(at, "[");
    for (int i = 0; i < COUNT; i++)
        at += sprintf(at, "null,");
    sprintf(at, "null]");
    each_fails(read_json, text);
    free(text);
}

// What is kept for a failure does not grow with the text.
Test(no_memory, for_which_json_keeps_a_little) {
    enum { COUNT = 400000 };
    char *text = __real_malloc(2 * COUNT + 3);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(text + 1 + 2 * i, "1,", 2);
    text[0] = '[';
    memcpy(text + 2 * COUNT, "]", 2);
    Error error = {0};
    largest = 0;
    CHECK(read_json(text, &error), "%s", error.message);
    CHECK(largest < 16 << 20, "%zu bytes at once", largest); // the list itself takes some
    free(text);
}

Test(no_memory, for_a_gguf) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "tokenizer.ggml.pre", "smollm");
    gguf_set_strings(file, "tokenizer.ggml.merges", (const char *const[]){"a b"}, 1);
    gguf_set_text(file, "tokenizer.chat_template", "{{ a }}");
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    const char *path = written("memory.gguf", bytes, size);
    free(bytes);
    each_fails(read_model, path);
    each_fails(read_vocabulary, path);
}

Test(no_memory, for_a_directory) {
    const char *directory = hf_tiny_model("memory", true);
    hf_write(directory, "generation_config.json", "{\"temperature\": 0.5}");
    hf_write(directory, "tokenizer_config.json", "{\"chat_template\": \"{{ a }}\"}");
    each_fails(read_model, directory);
    hf_write(directory, "chat_template.jinja", "{{ a }}");
    each_fails(read_model, directory);
    each_fails(read_model, hf_sharded_model("memory-shards", HF_SHARD));
}

// What would refuse a file takes memory too: without it, the file is not taken for a good one.
Test(no_memory, to_see_what_is_wrong_with_a_file) {
    static const float DATA[2] = {1, 2};
    const WriterTensor twice[] = {{"x", "F32", 1, {1}, DATA, 4}, {"x", "F32", 1, {1}, DATA, 4}};
    size_t size;
    char *bytes = safetensors_bytes(&size, twice, 2, 0);
    const char *path = written("memory.safetensors", bytes, size);
    free(bytes);
    failed = true;
    for (long at = 1; failed; at++) {
        SafetensorsFile file;
        Error error = {0};
        countdown = at;
        failed = false;
        bool opened = safetensors_open(&file, path, &error);
        countdown = 0;
        CHECK(!opened && error.code == (failed ? ERROR_MEMORY : ERROR_FILE), "call %ld: %d, %s", at,
              error.code, error.message);
    }
}

Test(no_memory, to_see_that_a_directory_is_no_model) {
    const char *directory = hf_tiny_model("memory-none", true);
    char path[700];
    hf_path(path, directory, "model.safetensors");
    CHECK(!unlink(path));
    failed = true;
    for (long at = 1; failed; at++) {
        Error error = {0};
        countdown = at;
        failed = false;
        bool opened = read_model(directory, &error);
        countdown = 0;
        CHECK(!opened && error.code == (failed ? ERROR_MEMORY : ERROR_FILE), "call %ld: %d, %s", at,
              error.code, error.message);
    }
}

Test(no_memory, for_a_llama2c_file) {
    for (int version = 0; version <= 2; version++) {
        size_t size;
        BinShape shape = bin_shape_tiny(version, false);
        char *bytes = bin_bytes(&size, &shape, 1);
        const char *path = written("memory.bin", bytes, size);
        free(bytes);
        each_fails(read_model, path);
    }
}

Test(no_memory, for_a_tokenizer_bin) {
    static const char BIN[] = "\2\0\0\0" // the longest token
                              "\0\0\0\0\1\0\0\0a"
                              "\0\0\0\0\1\0\0\0b"
                              "\0\0\0\0\2\0\0\0ab";
    each_fails(read_tokenizer, written("tokenizer.bin", BIN, sizeof BIN - 1));
}

Test(no_memory, for_a_tokenizer_json) {
    static const char JSON[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<x>\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    each_fails(read_tokenizer, written("tokenizer.json", JSON, sizeof JSON - 1));
}

Test(no_memory, for_a_vocab_json_and_its_merges) {
    static const char VOCAB[] = "{\"a\":0,\"b\":1,\"ab\":2}", MERGES[] = "a b\n";
    written("merges.txt", MERGES, sizeof MERGES - 1);
    each_fails(read_tokenizer, written("vocab.json", VOCAB, sizeof VOCAB - 1));
}

Test(no_memory, for_a_tiktoken_text) { // a, b, ab
    static const char RANKS[] = "YQ== 0\nYg== 1\nYWI= 2\n";
    each_fails(read_tokenizer, written("ranks.tiktoken", RANKS, sizeof RANKS - 1));
}

Test(no_memory, for_a_sentencepiece_model) {
    ModelWriter w = model_small();
    const char *path = written("memory.model", w.bytes, w.size);
    model_writer_free(&w);
    each_fails(read_tokenizer, path);
}

// With rules and a user-defined piece.
Test(no_memory, for_a_unigram_model_and_its_texts) {
    size_t size;
    uint8_t *charsmap = charsmap_of_runs(2, "b", &size);
    ModelWriter w = model_small();
    model_piece(&w, "<mask>", 6, 0, 4);
    model_piece(&w, "bb", 2, -1, 1);
    model_trainer(&w, 1, false);
    model_normalizer(&w, true, charsmap, size);
    free(charsmap);
    const char *path = written("memory.model", w.bytes, w.size);
    model_writer_free(&w);
    each_fails(read_and_encode, path);
}

// No failure is passed over.
Test(no_memory, for_a_unigram_model) {
    ModelWriter w = model_small();
    model_piece(&w, "<mask>", 6, 0, 4);
    model_trainer(&w, 1, false);
    const char *path = written("unigram.model", w.bytes, w.size);
    model_writer_free(&w);
    failed = true;
    for (long at = 1; failed; at++) {
        Error error = {0};
        countdown = at;
        failed = false;
        bool opened = read_tokenizer(path, &error);
        countdown = 0;
        CHECK(opened == !failed, "call %ld", at);
        CHECK_INT(error.code, failed ? ERROR_MEMORY : 0);
    }
}
