// How much memory a file can make the program take: 32 MiB and twice its size; for a tokenizer.json
// eight times, since jansson needs six. Most files here are vocabularies of many short tokens, the
// most memory for a byte; headers have many tensors.
#include "base/buffer.h"
#include "base/bytes.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/program.h"

#include <sys/resource.h>
#include <unistd.h>

enum { TOKENS = 200000, LENGTH = 12 };

static const char *token(size_t i) {
    static char text[LENGTH + 1];
    snprintf(text, sizeof text, "%012zu", i);
    return text;
}

static void need_plain_memory(void) {
    if (TEST_SANITIZED) SKIP("sanitizers take memory of their own");
}

// Checks the most memory that a child of this test has had.
static void check_memory(const char *name, size_t size, size_t factor) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    size_t peak = (size_t)usage.ru_maxrss * 1024, bound = (32u << 20) + factor * size;
    CHECK(peak <= bound, "%s of %zu bytes: %zu bytes of memory, at most %zu", name, size, peak,
          bound);
}

// Opens the tokenizer of a file.
static void check_peak(const char *name, const void *bytes, size_t size, size_t factor) {
    const char *path = test_temporary(name);
    test_write_file(path, bytes, size);
    TestRun r = program("tokenize|-z|%s|-i|000000000001", path);
    check_status(&r, 0);
    test_run_free(&r);
    check_memory(name, size, factor);
}

// Ranks of three bytes each, in base64.
Test(peak_memory, of_a_tiktoken_file) {
    need_plain_memory();
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    Buffer b = {0};
    for (unsigned i = 0; i < 256; i++)
        buffer_print(&b, "%c%c== %u\n", DIGITS[i >> 2], DIGITS[(i & 3) << 4], i);
    for (unsigned i = 256; i < TOKENS; i++)
        buffer_print(&b, "%c%c%c%c %u\n", DIGITS[i >> 18 & 63], DIGITS[i >> 12 & 63],
                     DIGITS[i >> 6 & 63], DIGITS[i & 63], i);
    check_peak("vocabulary.tiktoken", b.bytes, b.size, 2);
    buffer_free(&b);
}

// A trace of 65,536 tensors of one number each, compared with itself: a file that is opened twice.
Test(peak_memory, of_a_safetensors_header) {
    need_plain_memory();
    enum { TENSORS = 65536 };
    Buffer b = {0};
    buffer_zeros(&b, 8);
    for (int i = 0; i < TENSORS; i++)
        buffer_print(&b,
                     "%c\"layers.%d.o_proj\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":"
                     "[%d,%d]}",
                     i ? ',' : '{', i, 4 * i, 4 * i + 4);
    buffer_print(&b, "}");
    uint64_t length = b.size - 8;
    memcpy(b.bytes, &length, sizeof length);
    buffer_zeros(&b, 4 * (size_t)TENSORS);
    const char *path = test_temporary("many.safetensors");
    test_write_file(path, b.bytes, b.size);
    TestRun r = program("diff|%s|%s|-q", path, path);
    check_status(&r, 0);
    test_run_free(&r);
    check_memory("diff", 2 * b.size, 2);
    buffer_free(&b);
}

// An index of 65,536 tensors in shards that are not there.
Test(peak_memory, of_an_index_of_shards) {
    need_plain_memory();
    const char *directory = hf_tiny_model("peak", true);
    char path[700];
    Buffer b = {0};
    buffer_print(&b, "{\"metadata\":{},\"weight_map\":{");
    for (int i = 0; i < 65536; i++)
        buffer_print(&b, "%s\"model.layers.%d.self_attn.q_proj.weight\":\"model-%d.safetensors\"",
                     i ? "," : "", i, i % 400);
    buffer_print(&b, "}}");
    hf_path(path, directory, "model.safetensors");
    unlink(path);
    hf_path(path, directory, "model.safetensors.index.json");
    test_write_file(path, b.bytes, b.size);
    TestRun r = program("inspect|%s", directory);
    check_refused(&r, ERROR_FILE, "model-");
    check_memory("index", b.size, 2);
    buffer_free(&b);
}

Test(peak_memory, of_a_tokenizer_bin) {
    need_plain_memory();
    Buffer b = {0};
    buffer_u32(&b, LENGTH);
    for (size_t i = 0; i < TOKENS; i++) {
        buffer_f32(&b, -(float)i);
        buffer_u32(&b, LENGTH);
        buffer_put(&b, token(i), LENGTH);
    }
    check_peak("tokenizer.bin", b.bytes, b.size, 2);
    buffer_free(&b);
}

static void check_model(unsigned model_type, size_t factor) {
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    for (size_t i = 0; i < TOKENS; i++)
        model_piece(&w, token(i), LENGTH, -(float)i, 1);
    model_trainer(&w, model_type, false);
    model_normalizer(&w, true, NULL, 0);
    check_peak("tokenizer.model", w.bytes, w.size, factor);
    model_writer_free(&w);
}

Test(peak_memory, of_a_bpe_model) {
    need_plain_memory();
    check_model(2, 2);
}

Test(peak_memory, of_a_unigram_model) {
    need_plain_memory();
    check_model(1, 2);
}

// Seven bytes of the file each: three of text, no score and no type.
Test(peak_memory, of_a_model_of_the_shortest_pieces) {
    need_plain_memory();
    for (unsigned type = 1; type <= 2; type++) {
        ModelWriter w = {0};
        model_usual_pieces(&w, false);
        for (unsigned i = 0; i < LIMIT_PIECES - 3; i++) {
            char piece[8] = {'\n', 5, '\n', 3, (char)(i >> 16), (char)(i >> 8), (char)i};
            model_raw(&w, piece, 7);
        }
        model_trainer(&w, type, false);
        check_peak("shortest.model", w.bytes, w.size, 2);
        model_writer_free(&w);
    }
}

// Eight megabytes of text, words of which are emitted one after another: the program holds the
// text, its normal form and the ids, but not the sums of all of it.
Test(peak_memory, of_a_long_text_of_a_unigram_model) {
    need_plain_memory();
    enum { WORDS = 8 << 20 };
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    model_piece(&w,
                "\xe2\x96\x81"
                "ab",
                5, -1, 1);
    model_trainer(&w, 1, false);
    const char *model = test_temporary("words.model"), *path = test_temporary("words.txt");
    test_write_file(model, w.bytes, w.size);
    model_writer_free(&w);
    char *text = malloc(WORDS);
    for (size_t i = 0; i < WORDS; i++)
        text[i] = " ab"[i % 3];
    test_write_file(path, text, WORDS);
    free(text);
    TestRun r = program("tokenize|-z|%s|-f|%s", model, path);
    check_status(&r, 0);
    test_run_free(&r);
    check_memory("words", WORDS, 8);
}

Test(peak_memory, of_a_tokenizer_json) {
    need_plain_memory();
    Buffer b = {0};
    buffer_print(&b, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                     "\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
                     "\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (size_t i = 0; i < TOKENS; i++)
        buffer_print(&b, "%s\"%s\":%zu", i ? "," : "", token(i), i);
    buffer_print(&b, "},\"merges\":[]}}");
    check_peak("tokenizer.json", b.bytes, b.size, 8);
    buffer_free(&b);
}

Test(peak_memory, of_a_vocabulary_in_a_gguf) {
    need_plain_memory();
    GgufFile *file = gguf_tiny_llama();
    const char **texts = calloc(TOKENS, sizeof *texts);
    float *scores = calloc(TOKENS, sizeof *scores);
    int32_t *types = calloc(TOKENS, sizeof *types);
    for (size_t i = 0; i < TOKENS; i++) {
        texts[i] = strdup(token(i));
        types[i] = 1;
    }
    gguf_set_strings(file, "tokenizer.ggml.tokens", texts, TOKENS);
    gguf_set_array(file, "tokenizer.ggml.scores", 6, scores, TOKENS);
    gguf_set_array(file, "tokenizer.ggml.token_type", 5, types, TOKENS);
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    gguf_file_free(file);
    check_peak("vocabulary.gguf", bytes, size, 2);
    for (size_t i = 0; i < TOKENS; i++)
        free((char *)(uintptr_t)texts[i]);
    free(texts);
    free(scores);
    free(types);
    free(bytes);
}

// So that the bound holds for all that are read.
Test(peak_memory, a_model_too_large_is_refused) {
    size_t size = LIMIT_SENTENCEPIECE + 1;
    char *bytes = calloc(1, size);
    memcpy(bytes, "\n\a\n\5<unk>", 9);
    const char *path = test_temporary("large.model");
    test_write_file(path, bytes, size);
    TestRun r = program("tokenize|-z|%s|-i|a", path);
    check_refused(&r, ERROR_FILE,
                  "8388609 bytes: too large for a SentencePiece model (at most "
                  "8388608)");
    test_write_file(path, bytes, size - 1); // zeros are no protobuf
    r = program("tokenize|-z|%s|-i|a", path);
    check_refused(&r, ERROR_FILE, "not protobuf");
    free(bytes);
}
