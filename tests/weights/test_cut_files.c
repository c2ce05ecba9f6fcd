// Real model files cut at a thousand random lengths: each cut is refused with its cause, and
// nothing behind it is read.
#include "tests/support/files/llama2c_writer.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

#if TEST_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

static void check_cut(const char *bytes, size_t size, size_t length) {
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    ASAN_POISON_MEMORY_REGION(bytes + length, size - length);
    bool good = checkpoint_open_memory(&checkpoint, "cut", bytes, length, &error);
    ASAN_UNPOISON_MEMORY_REGION(bytes + length, size - length);
    CHECK(!good && !checkpoint, "%zu of %zu bytes were taken", length, size);
    CHECK(error.code == ERROR_FILE && !strncmp(error.message, "cut: ", 5), "%zu bytes: %d, \"%s\"",
          length, error.code, error.message);
}

// Every other cut falls into the part in front, where the header is; none into the last 32 bytes,
// which may be a GGUF's padding.
static void check_cuts(const char *path, int cuts, size_t front) {
    size_t size;
    char *bytes = test_read_file(path, &size);
    Checkpoint *checkpoint;
    Error error = {0};
    CHECK(checkpoint_open_memory(&checkpoint, "whole", bytes, size, &error), "%s", error.message);
    checkpoint_close(checkpoint);
    TestRandom random = {260};
    for (int i = 0; i < cuts; i++)
        check_cut(bytes, size, test_random(&random) % (i % 2 ? front : size - 32));
    free(bytes);
}

Test(cut_files, a_thousand_cuts_of_a_gguf) {
    const char *other = test_data_if_any("stories260K/stories260K.gguf");
    if (other) check_cuts(other, 1000, 12000);
    check_cuts("weights/builtin.gguf", other ? 100 : 1000, 60000);
}

Test(cut_files, a_thousand_cuts_of_a_bin) {
    const char *other = test_data_if_any("stories260K/stories260K.bin");
    if (other) check_cuts(other, 1000, 28);
    BinShape shape = bin_shape_blocks();
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 3);
    const char *made = test_temporary("made.bin");
    test_write_file(made, bytes, size);
    free(bytes);
    check_cuts(made, 1000, 28);
}

Test(cut_files, a_thousand_cuts_of_smollm2) {
    check_cuts(test_model_file("SmolLM2-135M-Instruct.Q4_1.gguf"), 1000, 1 << 21);
}
