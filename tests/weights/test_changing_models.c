// Models and files of tensors that are rewritten in place while they are read, or afterwards: what
// was checked stays, and only weights change with the file.
#include "base/hash.h"
#include "base/mapping.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/rewriting.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/test.h"
#include "weights/hf/safetensors.h"

#include <unistd.h>

enum { ONE_STEP = 65536 }; // of a GGUF's header

static void check(ReadFile *read, const char *path, const char *file, const Content *hostile,
                  size_t count) {
    size_t size;
    free(test_read_file(file, &size));
    Rewriting rewriting = {read, path, file, size > ONE_STEP && read == read_checkpoint};
    rewriting_check(&rewriting, hostile, count);
    rewriting_race(&rewriting, hostile, count, 0.1);
}

static void check_file(const char *name, Content first, const Content *hostile, size_t count) {
    const char *path = test_temporary(name);
    test_write_file(path, first.bytes, first.size);
    check(read_checkpoint, path, path, hostile, count);
}

// ---- GGUF ----

enum { MANY_TOKENS = 5000, LONGEST = 60000 };

// So many tokens that the header is loaded in some steps, and that their list is allocated between
// two passes; `letter` is in each of them.
static Content gguf_of_many_tokens(char letter) {
    GgufFile *file = gguf_tiny_llama();
    static char texts[MANY_TOKENS][40];
    const char *tokens[MANY_TOKENS];
    static float scores[MANY_TOKENS];
    static int32_t types[MANY_TOKENS];
    for (int i = 0; i < MANY_TOKENS; i++) {
        snprintf(texts[i], sizeof texts[i], "%04d %c and some more letters", i, letter);
        tokens[i] = texts[i];
        types[i] = 1;
    }
    gguf_set_strings(file, "tokenizer.ggml.tokens", tokens, MANY_TOKENS);
    gguf_set_array(file, "tokenizer.ggml.scores", GGUF_F32, scores, MANY_TOKENS);
    gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, types, MANY_TOKENS);
    uint64_t dim = gguf_find_tensor(file, "token_embd.weight")->dims[0];
    gguf_remove_tensor(file, "token_embd.weight");
    gguf_add_tensor(file, "token_embd.weight", DTYPE_F32, dim, MANY_TOKENS);
    gguf_add_tensor(file, "far.away", DTYPE_F32, dim, MANY_TOKENS);
    Content content;
    content.bytes = gguf_write(file, &content.size);
    gguf_file_free(file);
    return content;
}

// From the token that begins with `text` on, `count` times eight bytes are a length that leads far
// behind the tokens.
static Content with_long_tokens(Content first, const char *text, size_t count) {
    uint8_t *bytes = malloc(first.size);
    memcpy(bytes, first.bytes, first.size);
    uint8_t *at = memmem(bytes, first.size, text, strlen(text));
    CHECK(at);
    for (at -= 8; count && at + 8 <= bytes + first.size; at += 8, count--)
        memcpy(at, &(uint64_t){LONGEST}, 8);
    return (Content){bytes, first.size};
}

static bool read_gguf(const uint8_t *bytes, size_t size, Error *error) {
    Checkpoint *checkpoint = NULL;
    bool good = checkpoint_open_memory(&checkpoint, "memory", bytes, size, error);
    if (good) print_checkpoint(checkpoint);
    checkpoint_close(checkpoint);
    return good;
}

Test(changing_models, a_gguf_with_a_vocabulary) {
    Content first = gguf_of_many_tokens('a'), other = gguf_of_many_tokens('b');
    CHECK(first.size > 100000, "%zu bytes are one step", first.size);
    Content hostile[] = {with_long_tokens(first, "4999 ", 1),
                         with_long_tokens(first, "0000 ", SIZE_MAX), other};
    check_file("many.gguf", first, hostile, 3);
    rewriting_check_bytes(read_gguf, first, hostile, 3);
    for (int i = 0; i < 3; i++)
        free((void *)hostile[i].bytes);
    free((void *)first.bytes);
}

Test(changing_models, a_small_gguf) {
    GgufFile *file = gguf_tiny_llama();
    Content first, other;
    first.bytes = gguf_write(file, &first.size);
    gguf_set_text(file, "general.name", "tony");
    gguf_set_u32(file, "llama.context_length", 128);
    other.bytes = gguf_write(file, &other.size);
    gguf_file_free(file);
    check_file("small.gguf", first, &other, 1);
    free((void *)first.bytes);
    free((void *)other.bytes);
}

// ---- llama2.c ----

static void check_bin(int version) {
    BinShape shape = bin_shape_tiny(version, true);
    Content first, other;
    first.bytes = bin_bytes(&first.size, &shape, 1);
    shape.seq_len *= 2;
    other.bytes = bin_bytes(&other.size, &shape, 2);
    check_file("model.bin", first, &other, 1);
    free((void *)first.bytes);
    free((void *)other.bytes);
}

Test(changing_models, a_bin_of_every_version) {
    for (int version = 0; version < 3; version++)
        check_bin(version);
}

// ---- a Hugging Face directory ----

enum { DEEP = 100, SPACES = 300 }; // brackets; at the end of a text, in place of what is added

// The JSON text with two members more. One is shown and one ignored, but it is nested too deep.
static Content with_deep_member(const char *text, size_t size) {
    char *bytes = calloc(1, size + SPACES), *at = bytes;
    at += sprintf(at, "{\"license\":\"other\",\"transformers_version\":");
    for (int i = 0; i < 2 * DEEP; i++)
        *at++ = i < DEEP ? '[' : ']';
    *at++ = ',';
    memcpy(at, text + 1, size - 1);
    size_t length = (size_t)(at - bytes) + size - 1;
    memset(bytes + length, ' ', size + SPACES - length);
    return (Content){bytes, size + SPACES};
}

// Of a text that was checked for depth, one is parsed that was not.
static void check_json(const char *name, const char *text) {
    const char *directory = hf_tiny_model(name, true);
    char path[700];
    const char *file = strchr(name, '.') ? name : "config.json";
    if (text) hf_write(directory, file, text);
    hf_path(path, directory, file);
    size_t size;
    char *whole = test_read_file(path, &size), *first = malloc(size + SPACES);
    memcpy(first, whole, size);
    memset(first + size, ' ', SPACES);
    test_write_file(path, first, size + SPACES);
    Content deep = with_deep_member(whole, size);
    check(read_checkpoint, directory, path, &deep, 1);
    free((void *)deep.bytes);
    free(first);
    free(whole);
}

Test(changing_models, the_json_files_of_a_directory) {
    check_json("config", NULL);
    check_json("generation_config.json", "{\"temperature\":0.5,\"top_k\":40}");
    check_json("tokenizer_config.json", "{\"chat_template\":\"<|im_start|> and so on\"}");
}

Test(changing_models, a_chat_template) {
    const char *directory = hf_tiny_model("template", true);
    char path[700];
    hf_write(directory, "chat_template.jinja", "{{ bos_token }} <start_of_turn> and so on");
    hf_path(path, directory, "chat_template.jinja");
    check(read_checkpoint, directory, path, &(Content){"{{ eos_token }} [INST]", 22}, 1);
}

Test(changing_models, the_tensors_of_a_directory) {
    const char *directory = hf_tiny_model("tensors", true);
    char path[700];
    hf_path(path, directory, "model.safetensors");
    check(read_checkpoint, directory, path, NULL, 0);
}

Test(changing_models, a_shard_and_its_index) {
    const char *directory = hf_sharded_model("shards", HF_SHARD);
    char path[700];
    hf_path(path, directory, HF_SHARD);
    check(read_checkpoint, directory, path, NULL, 0);
    hf_path(path, directory, "model.safetensors.index.json");
    static const char OTHER[] = "{\"weight_map\":{\"a\":\"../../etc/passwd\"}}";
    check(read_checkpoint, directory, path, &(Content){OTHER, strlen(OTHER)}, 1);
}

// ---- files of tensors: traces, saved logits ----

static bool read_tensors(const char *path, uint64_t *print, Error *error) {
    SafetensorsFile file;
    const char *text;
    if (!safetensors_open(&file, path, error)) return false;
    bool good = safetensors_metadata(&file, "key", &text, error);
    *print = good && text ? fnv1a(FNV_START, text, strlen(text)) : FNV_START;
    for (size_t i = 0; i < file.count; i++) {
        const TensorPlan *plan = &file.tensors[i].plan;
        *print = fnv1a(*print, plan->name, strlen(plan->name));
        *print = fnv1a(*print, plan->shape, sizeof plan->shape);
    }
    safetensors_close(&file);
    return good;
}

// A header of one tensor and much metadata, or of many tensors (more than a block of the arena has
// room for), and as long.
static Content header_of(bool many) {
    enum { HEADER = 60000, DATA = 16 };
    char *bytes = calloc(1, 8 + HEADER + DATA), *json = bytes + 8;
    int n = sprintf(json, "{\"__metadata__\":{\"key\":\"value\"");
    for (int i = 0; !many && n < 55000; i++)
        n += sprintf(json + n, ",\"%d\":\"%030d\"", i, i);
    n += sprintf(json + n, "},\"first\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}");
    for (int i = 0; many && n < 59000; i++)
        n += sprintf(json + n, ",\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[16,16]}",
                     i);
    json[n++] = '}';
    memset(json + n, ' ', (size_t)(HEADER - n));
    memcpy(bytes, &(uint64_t){HEADER}, 8);
    return (Content){bytes, 8 + HEADER + DATA};
}

// Metadata whose strings are large enough to be allocated alone; in `open` one does not end.
static Content long_string(bool open) {
    enum { HEADER = 50000 };
    char *bytes = calloc(1, 8 + HEADER), *json = bytes + 8;
    memset(json, 'x', HEADER);
    static const char BEGIN[] = "{\"__metadata__\":{\"key\":\"", END[] = "\"}}";
    memcpy(json, BEGIN, sizeof BEGIN - 1);
    if (!open)
        json[30000] = '"', memcpy(json + 30001, "}}", 2), memset(json + 30003, ' ', HEADER - 30003);
    if (open) memcpy(json + HEADER - 3, END, 3);
    memcpy(bytes, &(uint64_t){HEADER}, 8);
    return (Content){bytes, 8 + HEADER};
}

static bool read_header(const uint8_t *bytes, size_t size, Error *error) {
    SafetensorsTensor *tensors;
    size_t count;
    Arena arena = {0};
    bool good = safetensors_parse(&tensors, &count, bytes_over(bytes, size, error), &arena);
    arena_free(&arena);
    return good;
}

static void check_tensors(const char *name, Content first, Content other) {
    const char *path = test_temporary(name);
    test_write_file(path, first.bytes, first.size);
    check(read_tensors, path, path, &other, 1);
    rewriting_check_bytes(read_header, first, &other, 1);
    free((void *)first.bytes);
    free((void *)other.bytes);
}

Test(changing_models, a_file_of_tensors) {
    check_tensors("trace.safetensors", header_of(false), header_of(true));
    check_tensors("long.safetensors", long_string(false), long_string(true));
}

// ---- afterwards ----

Test(changing_models, what_was_read_of_a_model_stays) {
    Content first = gguf_of_many_tokens('a');
    const char *path = test_temporary("stays.gguf");
    test_write_file(path, first.bytes, first.size);
    mapping_guard();
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s", error.message);
    uint64_t before = print_checkpoint(checkpoint);
    uint8_t *ones = malloc(first.size);
    memset(ones, 0xff, first.size);
    rewrite_in_place(path, ones, first.size);
    CHECK(print_checkpoint(checkpoint) == before, "it changed with the file");
    CHECK(!truncate(path, 1));
    CHECK(print_checkpoint(checkpoint) == before, "it was cut with the file");
    const char *damaged = checkpoint_damaged(checkpoint);
    CHECK(damaged && !strcmp(damaged, path), "its weights were cut too");
    checkpoint_close(checkpoint);
    free(ones);
    free((void *)first.bytes);
}

Test(changing_models, what_was_read_of_a_file_of_tensors_stays) {
    mapping_guard();
    Content first = header_of(false);
    const char *path = test_temporary("stays.safetensors"), *value = NULL;
    test_write_file(path, first.bytes, first.size);
    SafetensorsFile file;
    Error error = {0};
    CHECK(safetensors_open(&file, path, &error), "%s", error.message);
    memset((char *)first.bytes, '"', first.size);
    rewrite_in_place(path, first.bytes, first.size);
    CHECK(safetensors_metadata(&file, "key", &value, &error), "%s", error.message);
    CHECK_STRING(value, "value");
    CHECK(!truncate(path, 1));
    CHECK(safetensors_metadata(&file, "key", &value, &error), "%s", error.message);
    CHECK_STRING(value, "value");
    safetensors_close(&file);
    free((void *)first.bytes);
}
