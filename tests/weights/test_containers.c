// One model, the same bits from every container: rows of wq and wk are stored interleaved in a .bin
// and in a GGUF, half-split in safetensors, and whoever reads them follows the order of the Matrix.
#include "tests/support/files/conversions.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/same_bits.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

// False in a build without JSON, which opens no directory.
static bool reads_safetensors(const char *directory) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    bool good = checkpoint_open(&checkpoint, directory, &error);
    checkpoint_close(checkpoint);
    bool cannot = strstr(error.message, "this build reads no safetensors files") != NULL;
    CHECK(good || cannot, "%s", error.message);
    if (cannot) fprintf(stderr, "SKIPPED the safetensors part: %s\n", error.message);
    return good;
}

// What convert makes of a .bin.
static const char *made_gguf(const char *bin) {
    char line[600];
    const char *path = test_temporary("words.gguf");
    snprintf(line, sizeof line, "%%s|%%s|-z|%s", conversion_tokenizer_bin("words"));
    convert(line, bin, path);
    return path;
}

Test(containers, stories260K_gives_the_same_logits_from_bin_gguf_and_safetensors) {
    size_t size;
    const char *bin_path = test_data_if_any("stories260K/stories260K.bin");
    if (!bin_path) bin_path = conversion_bin_of_words("words.bin", 0);
    const char *gguf_path = test_data_if_any("stories260K/stories260K.gguf");
    if (!gguf_path) gguf_path = made_gguf(bin_path);
    const char *directory = test_temporary("stories260K");
    char *bin = test_read_file(bin_path, &size);
    write_hugging_face(directory, bin, size);
    free(bin);
    const char *paths[] = {bin_path, gguf_path, directory};
    int n_paths = reads_safetensors(directory) ? 3 : 2;
    static const Precision PRECISIONS[] = {PRECISION_F32, PRECISION_A16, PRECISION_A8};
    for (size_t i = 0; i < 3; i++)
        check_same_bits(paths, n_paths, PRECISIONS[i]);
}

// A head of its own, groups of three query heads, head_dim 6: nothing that stories260K has.
Test(containers, an_untied_model_of_odd_shape_too) {
    BinShape shape = {.version = 0,
                      .dim = 36,
                      .hidden_dim = 44,
                      .n_layers = 2,
                      .n_heads = 6,
                      .n_kv_heads = 2,
                      .vocab_size = 53,
                      .seq_len = 40};
    size_t size;
    char *bin = bin_bytes(&size, &shape, 11);
    const char *bin_path = test_temporary("odd.bin"), *directory = test_temporary("odd");
    test_write_file(bin_path, bin, size);
    write_hugging_face(directory, bin, size);
    free(bin);
    const char *paths[] = {bin_path, directory};
    if (reads_safetensors(directory)) check_same_bits(paths, 2, PRECISION_F32);
}

// ---- versions and types ----

static const BinShape ROUNDED = {.tied = true,
                                 .dim = 32,
                                 .hidden_dim = 48,
                                 .n_layers = 2,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .vocab_size = 40,
                                 .seq_len = 30,
                                 .group_size = 16,
                                 .rounded = true};

// At f32 precision an int8 group is the float32 weight that it stands for.
Test(containers, all_versions_of_llama2c_files_hold_the_same_model) {
    char names[3][24];
    const char *paths[3];
    for (int version = 0; version < 3; version++) {
        BinShape shape = ROUNDED;
        size_t size;
        shape.version = version;
        char *bin = bin_bytes(&size, &shape, 5);
        snprintf(names[version], sizeof names[version], "v%d.bin", version);
        paths[version] = test_temporary(names[version]);
        test_write_file(paths[version], bin, size);
        free(bin);
    }
    check_same_bits(paths, 3, PRECISION_F32);
}

Test(containers, bfloat16_is_the_float32_that_it_widens_to) {
    size_t size;
    BinShape shape = ROUNDED;
    char *bin = bin_bytes(&size, &shape, 5);
    for (size_t at = bin_start(&shape); at < size; at += 4)
        memset(bin + at, 0, 2); // the lower half of a float32
    const char *wide = test_temporary("wide"), *narrow = test_temporary("narrow");
    write_hugging_face(wide, bin, size);
    write_hugging_face_bf16(narrow, bin, size);
    free(bin);
    const char *paths[] = {wide, narrow};
    if (!reads_safetensors(wide)) return;
    check_same_bits(paths, 2, PRECISION_F32);
    check_same_bits(paths, 2, PRECISION_A16);
}
