// convert to llama2.c's .bin files: the same bytes as the file that a model came from, the same
// logits, and a refusal where the format cannot say what the model does.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/hf_directory.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"
#include "tests/support/same_bits.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"

#include <math.h>
#include <stdlib.h>

// .bin -> GGUF -> .bin of this version; the path of the last.
static const char *there_and_back(const char *bin, const char *name, const char *options) {
    char line[200];
    const char *gguf = test_temporary("between.gguf"), *back = test_temporary(name);
    convert("%s|%s|--force", bin, gguf);
    snprintf(line, sizeof line, "%%s|%%s|--force|%s", options);
    convert(line, gguf, back);
    return back;
}

static void check_bytes(const char *a, const char *b, size_t begin, size_t end) {
    size_t size, other;
    char *x = test_read_file(a, &size), *y = test_read_file(b, &other);
    CHECK_INT(size, other);
    if (!end) end = size;
    for (size_t i = begin; i < end && size == other; i++)
        if (x[i] != y[i]) {
            CHECK(false, "byte %zu of %zu differs", i, size);
            break;
        }
    free(x);
    free(y);
}

Test(convert_bin, version_1_comes_back_byte_for_byte) {
    for (int tied = 0; tied < 2; tied++) {
        BinShape shape = bin_shape_blocks();
        shape.version = 1;
        shape.tied = tied;
        char *bin = strdup(conversion_bin("one.bin", &shape));
        check_bytes(bin, there_and_back(bin, "one-back.bin", "--bin-version|1"), 0, 0);
        free(bin);
    }
}

// Between the final norm and the head lie RoPE tables: cos and sin of position times frequency.
Test(convert_bin, version_0_comes_back_with_tables) {
    BinShape s = bin_shape_blocks();
    char *bin = strdup(conversion_bin("zero.bin", &s));
    const char *back = there_and_back(bin, "zero-back.bin", "--bin-version|0");
    size_t size, dim = (size_t)s.dim, hidden = (size_t)s.hidden_dim, vocab = (size_t)s.vocab_size;
    size_t head_dim = dim / (size_t)s.n_heads, kv = head_dim * (size_t)s.n_kv_heads;
    size_t layer = 2 * dim + 2 * dim * dim + 2 * kv * dim + 3 * hidden * dim;
    size_t tables = 28 + 4 * (vocab * dim + (size_t)s.n_layers * layer + dim);
    size_t head = tables + 4 * (size_t)s.seq_len * head_dim;
    check_bytes(bin, back, 0, tables);
    check_bytes(bin, back, head, 0);
    char *bytes = test_read_file(back, &size);
    CHECK_INT(size, head + 4 * vocab * dim);
    float value;
    // position 3, pair 1 of 8: 3 * 10000^(-1/8)
    memcpy(&value, bytes + tables + 4 * (3 * head_dim / 2 + 1), sizeof value);
    CHECK_NEAR(value, cos(3 * pow(10000, -0.125)), 1e-6);
    memcpy(&value, bytes + tables + 4 * ((size_t)s.seq_len * head_dim / 2 + 3 * head_dim / 2 + 1),
           sizeof value);
    CHECK_NEAR(value, sin(3 * pow(10000, -0.125)), 1e-6);
    free(bytes);
    free(bin);
}

Test(convert_bin, every_version_has_the_logits_of_its_source) {
    BinShape shape = bin_shape_blocks();
    char *bin = strdup(conversion_bin("source.bin", &shape));
    char *zero = strdup(there_and_back(bin, "a.bin", "--bin-version|0"));
    char *one = strdup(there_and_back(bin, "b.bin", "--bin-version|1"));
    const char *paths[] = {bin, zero, one};
    for (int precision = PRECISION_F32; precision <= PRECISION_A8; precision++)
        check_same_bits(paths, 3, (Precision)precision);
    free(bin);
    free(zero);
    free(one);
}

// Groups of 32, since 64 does not divide the hidden width of 96: no value is further off than half
// a step of its group.
Test(convert_bin, version_2_has_int8_groups) {
    BinShape shape = bin_shape_blocks();
    char *bin = strdup(conversion_bin("source.bin", &shape));
    const char *two = there_and_back(bin, "two.bin", "--type|q8_0");
    Checkpoint *a = open_converted(bin), *b = open_converted(two);
    CHECK_STRING(checkpoint_container_name(b), "llama2.c v2");
    const Matrix *x = &checkpoint_weights(a)->layers[1].w_down;
    const Matrix *y = &checkpoint_weights(b)->layers[1].w_down;
    CHECK_INT(y->dtype, DTYPE_Q8_GROUP);
    CHECK_INT(y->group_size, 32);
    float in[96], out[96];
    for (size_t row = 0; row < x->rows; row++) {
        matrix_row(in, x, row);
        matrix_row(out, y, row);
        for (int g = 0; g < 96; g += 32) {
            float largest = 0;
            for (int i = g; i < g + 32; i++)
                largest = fmaxf(largest, fabsf(in[i]));
            for (int i = g; i < g + 32; i++)
                CHECK_NEAR(out[i], in[i], largest / 127 * 0.5001);
        }
    }
    checkpoint_close(a);
    checkpoint_close(b);
    free(bin);
}

// A scale below the normal numbers is zero: what it divides would not fit an int8.
Test(convert_bin, version_2_of_subnormal_numbers_is_zero) {
    BinShape shape = bin_shape_blocks();
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 1);
    static const float TINY[] = {2e-43f, -2e-43f, 1.5e-43f, 1e-39f};
    for (size_t at = bin_start(&shape); at + 4 <= size; at += 4)
        memcpy(bytes + at, &TINY[at / 4 % 4], 4);
    char *bin = strdup(test_temporary("subnormal.bin"));
    test_write_file(bin, bytes, size);
    convert("%s|%s|--type|q8_0|--force", bin, test_temporary("subnormal2.bin"));
    Checkpoint *two = open_converted(test_temporary("subnormal2.bin"));
    const Matrix *x = &checkpoint_weights(two)->layers[1].w_down;
    float row[96];
    matrix_row(row, x, 0);
    for (int i = 0; i < 96; i++)
        CHECK(row[i] == 0, "%g", (double)row[i]);
    checkpoint_close(two);
    free(bytes);
    free(bin);
}

// run.c and its like begin with token 1 and end at 1 and 2.
Test(convert_bin, says_that_texts_end_elsewhere) {
    GgufFile *file = gguf_tiny_llama();
    gguf_set_u32(file, "tokenizer.ggml.eos_token_id", 5);
    const char *from = conversion_gguf("ends.gguf", file), *to = test_temporary("ends.bin");
    TestRun r = program("convert|%s|%s", from, to);
    CHECK(!r.status && strstr(r.err, "names no BOS and EOS"), "%d %s", r.status, r.err);
    test_run_free(&r);
}

Test(convert_bin, what_the_format_cannot_say_is_refused) {
    char *tiny = strdup(conversion_tiny("tiny.gguf"));
    const char *to = test_temporary("no.bin");
    BinShape shape = bin_shape_blocks();
    char *bin = strdup(conversion_bin("source.bin", &shape));
    check_no_conversion("builtin%s|%s", "", to, ERROR_FILE, "holds llama models");
    check_no_conversion("%s|%s|--type|q4_0", bin, to, ERROR_USAGE, "version 0 has f32");
    check_no_conversion("%s|%s|--bin-version|2|--type|f32", bin, to, ERROR_USAGE, "has q8_0");
    check_no_conversion("%s|%s|--head-type|f32", bin, to, ERROR_USAGE, "no --head-type");
    check_no_conversion("%s|%s|--bin-version|1", bin, test_temporary("x.gguf"), ERROR_USAGE,
                        "is no .bin");
    check_no_conversion("%s|%s|--bin-version|3", bin, to, ERROR_USAGE, "bin-version");
    GgufFile *file = gguf_tiny_llama();
    gguf_set_f32(file, "llama.rope.freq_base", 50000);
    check_no_conversion("%s|%s", conversion_gguf("theta.gguf", file), to, ERROR_FILE,
                        "theta 50000");
    char *gelu = strdup(hf_tiny_model("gelu", true));
    hf_patch(gelu, "config.json", "silu", "gelu");
    check_no_conversion("%s|%s", gelu, to, ERROR_FILE, "another activation");
    check_no_conversion("%s|%s|--type|q8_0|--importance|LICENSE", bin, to, ERROR_USAGE,
                        "--importance weighs");
    free(gelu);
    CHECK(!exists(to), "left behind");
    free(tiny);
    free(bin);
}
