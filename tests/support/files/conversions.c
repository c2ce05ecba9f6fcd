#include "tests/support/files/conversions.h"

#include "tests/support/program.h"

#include <sys/stat.h>

const char *conversion_gguf(const char *name, GgufFile *file) {
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    const char *path = test_temporary(name);
    test_write_file(path, bytes, size);
    free(bytes);
    gguf_file_free(file);
    return path;
}

const char *conversion_tiny(const char *name) {
    return conversion_gguf(name, gguf_tiny_llama());
}

const char *conversion_endless(void) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_u32(file, "llama.context_length", 1 << 19);
    return conversion_gguf("endless.gguf", file);
}

const char *conversion_bin(const char *name, const BinShape *shape) {
    size_t size;
    char *bin = bin_bytes(&size, shape, 3);
    const char *path = test_temporary(name);
    test_write_file(path, bin, size);
    free(bin);
    return path;
}

// As tokenizer.py of llama2.c writes it: a longest length, then for each token its score, its
// length and its text, in which a blank stands for U+2581.
const char *conversion_tokenizer_bin(const char *name) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open_vocabulary(&checkpoint, small_model(), &error), "%s", error.message);
    const Vocabulary *v = checkpoint_vocabulary(checkpoint);
    char *bytes = calloc(v->n_tokens, 128);
    size_t at = 4;
    uint32_t longest = 0;
    for (size_t i = 0; i < v->n_tokens; i++) {
        char *text = bytes + at + 8;
        uint32_t length = 0;
        for (size_t j = 0; j < v->tokens[i].length;) {
            bool blank = !strncmp(v->tokens[i].text + j, "\xe2\x96\x81", 3);
            text[length++] = blank ? ' ' : v->tokens[i].text[j];
            j += blank ? 3 : 1;
        }
        memcpy(bytes + at, &v->scores[i], 4);
        memcpy(bytes + at + 4, &length, 4);
        at += 8 + length;
        if (length > longest) longest = length;
    }
    memcpy(bytes, &longest, 4);
    const char *path = test_temporary(name);
    test_write_file(path, bytes, at);
    free(bytes);
    checkpoint_close(checkpoint);
    return path;
}

const char *conversion_bin_of_words(const char *name, int version) {
    BinShape shape = bin_shape_blocks();
    shape.version = version;
    shape.tied = true;
    shape.vocab_size = 2048;
    shape.seq_len = 64;
    return conversion_bin(name, &shape);
}

void convert(const char *format, const char *from, const char *to) {
    char line[3000];
    snprintf(line, sizeof line, "convert|%s|-q", format);
    TestRun run = program(line, from, to);
    CHECK(run.status == 0, "%s to %s: %s", from, to, run.err);
    CHECK(run.out_size == 0 && run.err_size == 0, "%s%s", run.out, run.err);
    test_run_free(&run);
}

void check_no_conversion(const char *format, const char *from, const char *to, int status,
                         const char *because) {
    char line[3000];
    snprintf(line, sizeof line, "convert|%s", format);
    TestRun run = program(line, from, to);
    check_refused(&run, status, because);
}

bool exists(const char *path) {
    struct stat status;
    return !lstat(path, &status);
}

Checkpoint *open_converted(const char *path) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s", error.message);
    return checkpoint;
}
