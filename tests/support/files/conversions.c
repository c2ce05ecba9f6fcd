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

const char *conversion_bin(const char *name, const BinShape *shape) {
    size_t size;
    char *bin = bin_bytes(&size, shape, 3);
    const char *path = test_temporary(name);
    test_write_file(path, bin, size);
    free(bin);
    return path;
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
