// convert as a child process: what comes out is the same model, in every container, family and
// type, and a number that a type cannot hold is refused.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/files/gguf_writer.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"
#include "tests/support/same_bits.h"
#include "weights/checkpoint.h"
#include "weights/hf/safetensors.h"
#include "weights/quant.h"

#include <math.h>
#include <sys/stat.h>

// ---- one model, five containers ----

// The same numbers as a llama2.c v1 file: another header, the tensors in another order.
static const char *as_version_1(const char *v0) {
    size_t size;
    char *from = test_read_file(v0, &size), *to = calloc(1, size + 256);
    int32_t h[7];
    memcpy(h, from, sizeof h);
    size_t dim = (size_t)h[0], hidden = (size_t)h[1], layers = (size_t)h[2];
    size_t kv = dim / (size_t)h[3] * (size_t)h[4], vocab = (size_t)h[5];
    // embedding, att_norm, wq, wk, wv, wo, ffn_norm, w1, w2, w3, final norm
    size_t counts[] = {vocab * dim,
                       layers * dim,
                       layers * dim * dim,
                       layers * kv * dim,
                       layers * kv * dim,
                       layers * dim * dim,
                       layers * dim,
                       layers * hidden * dim,
                       layers * hidden * dim,
                       layers * hidden * dim,
                       dim};
    static const int ORDER[] = {1, 6, 10, 0, 2, 3, 4, 5, 7, 8, 9};
    memcpy(to, "24ka\1\0\0\0", 8);
    memcpy(to + 8, h, sizeof h);
    to[36] = 1; // tied
    size_t at = 256;
    for (int i = 0; i < 11; i++) {
        size_t begin = sizeof h;
        for (int j = 0; j < ORDER[i]; j++)
            begin += counts[j] * 4;
        memcpy(to + at, from + begin, counts[ORDER[i]] * 4);
        at += counts[ORDER[i]] * 4;
    }
    const char *path = test_temporary("v1.bin");
    test_write_file(path, to, at);
    free(from);
    free(to);
    return path;
}

// bin, another version of it, what convert makes of them, and a GGUF that another program made.
static void check_containers(const char *bin, const char *tokenizer, const char *foreign) {
    const char *version_1 = as_version_1(bin), *own = test_temporary("own.gguf");
    const char *directory = test_temporary("hf"), *back = test_temporary("back.gguf");
    char line[1000];
    snprintf(line, sizeof line, "%%s|%%s|--force|-z|%s", tokenizer);
    convert(line, bin, own);
    convert("%s|%s|--force", foreign ? foreign : own, directory);
    convert("%s|%s|--force", directory, back);
    const char *paths[] = {bin, version_1, own, directory, back, foreign};
    for (int precision = PRECISION_F32; precision <= PRECISION_A8; precision++)
        check_same_bits(paths, foreign ? 6 : 5, (Precision)precision);
}

Test(convert, one_model_in_five_containers) {
    check_containers(conversion_bin_of_words("words.bin", 0), conversion_tokenizer_bin("words"),
                     NULL);
    const char *bin = test_data_if_any("stories260K/stories260K.bin");
    if (bin)
        check_containers(bin, test_data("stories260K/tok512.bin"),
                         test_data("stories260K/stories260K.gguf"));
}

static void check_told(const char *model, int tokens, const char *wanted, size_t size) {
    TestRun run = program("%s|-t|0|-n|%d|-q", model, tokens);
    check_status(&run, 0);
    CHECK(run.out_size == size && !memcmp(run.out, wanted, size), "got %s", run.out);
    test_run_free(&run);
}

// Told with the tokenizer that came along.
Test(convert, the_story_is_told_from_every_container) {
    static const char STORY[] =
        "Once upon a time, there was a little girl named Lily. She loved to "
        "play outside in the sun. One day, she saw a big, red ball\n";
    const char *own = test_temporary("story.gguf"), *directory = test_temporary("story");
    convert("%s|%s", small_model(), directory);
    convert("%s|%s", directory, own);
    check_told(directory, 32, STORY, sizeof STORY - 1);
    check_told(own, 32, STORY, sizeof STORY - 1);
    const char *bin = test_data_if_any("stories260K/stories260K.bin");
    if (!bin) return;
    size_t size;
    char *wanted = test_read_file(test_data("stories260K/expected_t0_n200.txt"), &size);
    char line[1000];
    snprintf(line, sizeof line, "%%s|%%s|--force|-z|%s", test_data("stories260K/tok512.bin"));
    convert(line, bin, own);
    convert("%s|%s|--force", own, directory);
    check_told(own, 200, wanted, size);
    check_told(directory, 200, wanted, size);
    free(wanted);
}

// ---- every family ----

static const char *const FAMILIES[] = {"llama-tied",
                                       "llama-untied",
                                       "llama-rope-llama3",
                                       "mistral-window8",
                                       "qwen2",
                                       "qwen3",
                                       "qwen3-bf16",
                                       "gemma3",
                                       "gemma3-bf16",
                                       "olmo2",
                                       "smollm3",
                                       "phi3",
                                       "gpt2",
                                       "nanochat",
                                       "gemma2",
                                       "granite",
                                       "gpt_neox",
                                       "ministral3",
                                       "hunyuan_v1_dense",
                                       "exaone4",
                                       "olmo3",
                                       "arcee",
                                       "ernie4_5"};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

static bool near(const TensorPlan *a, const TensorPlan *b) {
    for (size_t i = 0; i < a->shape[0]; i++) {
        float x, y;
        dequantise(&x, a->dtype, a->data + 4 * i, 1);
        dequantise(&y, b->dtype, b->data + 4 * i, 1);
        if (!(fabsf(x - y) <= 0x1p-23f * fmaxf(1.0f, fabsf(x)))) return false;
    }
    return true;
}

// The same tensors by name, type and bytes. Only float32 norms of Gemma, which a GGUF has with 1
// added, come back with the bits that 1 + w has room for.
static void check_same_tensors(const char *a, const char *b, bool gemma) {
    SafetensorsFile x, y;
    Error error = {0};
    CHECK(safetensors_open(&x, a, &error) && safetensors_open(&y, b, &error), "%s", error.message);
    CHECK_INT(y.count, x.count);
    for (size_t i = 0; i < x.count; i++) {
        const TensorPlan *wanted = &x.tensors[i].plan;
        const SafetensorsTensor *got = safetensors_find(&y, wanted->name);
        CHECK(got && got->plan.bytes == wanted->bytes && got->plan.dtype == wanted->dtype &&
                  !memcmp(got->plan.shape, wanted->shape, sizeof wanted->shape),
              "%s: %s", b, wanted->name);
        bool rounded = gemma && wanted->n_dims == 1 && wanted->dtype == DTYPE_F32;
        CHECK(rounded ? near(wanted, &got->plan)
                      : !memcmp(got->plan.data, wanted->data, wanted->bytes),
              "%s: %s", b, wanted->name);
    }
    safetensors_close(&x);
    safetensors_close(&y);
}

Test(convert, every_family_to_a_gguf_and_back_bit_for_bit) {
    for (int i = 0; i < N_FAMILIES; i++) {
        char name[100], path[300], other[300];
        const char *from = test_reference_model(FAMILIES[i]);
        // A GGUF cannot say which layers of ours do not rotate.
        if (!strcmp(from, "build/tiny-models/smollm3")) continue;
        snprintf(name, sizeof name, "%s.gguf", FAMILIES[i]);
        char *gguf = strdup(test_temporary(name)), *back = strdup(test_temporary(FAMILIES[i]));
        convert("%s|%s", from, gguf);
        convert("%s|%s", gguf, back);
        const char *paths[] = {from, gguf, back};
        check_same_bits(paths, 3, PRECISION_F32);
        snprintf(path, sizeof path, "%s/model.safetensors", from);
        snprintf(other, sizeof other, "%s/model.safetensors", back);
        if (exists(path)) // one has two shards
            check_same_tensors(path, other, !strncmp(FAMILIES[i], "gemma", 5));
        Checkpoint *a = open_converted(from), *b = open_converted(back);
        CHECK_STRING(checkpoint_config(b)->family, checkpoint_config(a)->family);
        CHECK_INT(checkpoint_config(b)->rope.scaling, checkpoint_config(a)->rope.scaling);
        checkpoint_close(a);
        checkpoint_close(b);
        free(gguf);
        free(back);
    }
}

// ---- types ----

// Every row of `got` is what quantise_searched makes of the row of `from`.
static void check_rows(const Matrix *got, const Matrix *from, DType wanted, const char *name) {
    float values[256], weights[256];
    uint8_t blocks[1024];
    size_t row_bytes = dtype_row_bytes(wanted, from->cols);
    CHECK(got->dtype == wanted && got->rows == from->rows && got->cols == from->cols, "%s", name);
    for (size_t r = 0; r < from->rows; r++) {
        matrix_row(values, from, r);
        quantise_importance(weights, values, NULL, from->cols);
        quantise_searched(blocks, wanted, values, weights, from->cols);
        const uint8_t *stored = (const uint8_t *)got->data + matrix_stored_row(got, r) * row_bytes;
        CHECK(!memcmp(stored, blocks, row_bytes), "%s, row %zu", name, r);
    }
}

// `head`: of the embedding and the head.
static void check_type(const char *from, const char *type, DType wanted, DType head) {
    char line[100];
    const char *to = test_temporary("typed.gguf");
    snprintf(line, sizeof line, "%%s|%%s|--force|--type|%s", type);
    convert(line, from, to);
    Checkpoint *a = open_converted(from), *b = open_converted(to);
    const Weights *x = checkpoint_weights(a), *y = checkpoint_weights(b);
    check_rows(&y->token_embedding, &x->token_embedding, head, "embedding");
    check_rows(&y->head, &x->head, head, "head");
    for (int l = 0; l < checkpoint_config(a)->n_layers; l++) {
        const LayerWeights *p = &x->layers[l], *q = &y->layers[l];
        check_rows(&q->wq, &p->wq, wanted, "wq");
        check_rows(&q->wk, &p->wk, wanted, "wk");
        check_rows(&q->wv, &p->wv, wanted, "wv");
        check_rows(&q->wo, &p->wo, wanted, "wo");
        check_rows(&q->w_gate, &p->w_gate, wanted, "w_gate");
        check_rows(&q->w_up, &p->w_up, wanted, "w_up");
        check_rows(&q->w_down, &p->w_down, wanted, "w_down");
        CHECK(!memcmp(p->att_norm, q->att_norm, 64 * sizeof(float)), "norms are F32");
    }
    checkpoint_close(a);
    checkpoint_close(b);
}

Test(convert, rows_are_what_the_search_makes_of_them) {
    BinShape shape = bin_shape_blocks();
    char *from = strdup(conversion_bin("whole.bin", &shape));
    check_type(from, "f32", DTYPE_F32, DTYPE_F32);
    check_type(from, "f16", DTYPE_F16, DTYPE_F16);
    check_type(from, "bf16", DTYPE_BF16, DTYPE_BF16);
    check_type(from, "q8_0", DTYPE_Q8_0, DTYPE_Q8_0);
    check_type(from, "q4_0", DTYPE_Q4_0, DTYPE_Q8_0);
    check_type(from, "q5_1", DTYPE_Q5_1, DTYPE_Q8_0);
    check_type(from, "q4_0|--head-type|q4_0", DTYPE_Q4_0, DTYPE_Q4_0);
    check_type(from, "q4_0|--head-type|f16", DTYPE_Q4_0, DTYPE_F16);
    check_type(from, "f16|--head-type|q8_0", DTYPE_F16, DTYPE_Q8_0);
    free(from);
}

// A hidden width of 100 is no whole number of blocks: w_down stays in halves, and it is said.
Test(convert, rows_that_are_no_whole_blocks_are_halves) {
    BinShape shape = bin_shape_blocks();
    shape.hidden_dim = 100;
    const char *from = conversion_bin("ragged.bin", &shape), *to = test_temporary("ragged.gguf");
    TestRun run = program("convert|%s|%s|--type|q4_0", from, to);
    check_status(&run, 0);
    CHECK(strstr(run.err, "2 tensors have rows that are no whole blocks and are written as F16, "
                          "the first is blk.0.ffn_down.weight"),
          "%s", run.err);
    test_run_free(&run);
    Checkpoint *c = open_converted(to);
    CHECK_INT(checkpoint_weights(c)->layers[1].w_down.dtype, DTYPE_F16);
    CHECK_INT(checkpoint_weights(c)->layers[1].w_up.dtype, DTYPE_Q4_0);
    checkpoint_close(c);
}

// Of one superblock a row.
static const char *superblock_model(int layers) {
    BinShape shape = bin_shape_blocks();
    shape.dim = shape.hidden_dim = 256;
    shape.n_layers = layers;
    return conversion_bin("superblocks.bin", &shape);
}

// Sixteen layers show a type that is not the same in all of them; under a sanitizer, where the
// search takes ten times as long, two reach the same code.
Test(convert, rows_become_superblocks) {
    char *from = strdup(superblock_model(TEST_SANITIZED ? 2 : 16));
    check_type(from, "q2_k", DTYPE_Q2_K, DTYPE_Q8_0);
    check_type(from, "q3_k", DTYPE_Q3_K, DTYPE_Q8_0);
    check_type(from, "q4_k", DTYPE_Q4_K, DTYPE_Q8_0);
    check_type(from, "q5_k", DTYPE_Q5_K, DTYPE_Q8_0);
    check_type(from, "q6_k|--head-type|q6_k", DTYPE_Q6_K, DTYPE_Q6_K);
    free(from);
}

// wv and w_down of the first and the last two of sixteen layers and of every third between.
static void check_mix(const char *from, const char *type, DType wanted) {
    static const char MORE[] = "1100100100100111";
    const char *to = test_temporary("mix.gguf");
    convert(test_text("%%s|%%s|--force|--type|%s", type), from, to);
    Checkpoint *c = open_converted(to);
    CHECK_INT(checkpoint_weights(c)->head.dtype, DTYPE_Q6_K);
    for (int l = 0; l < 16; l++) {
        const LayerWeights *w = &checkpoint_weights(c)->layers[l];
        CHECK_INT(w->wv.dtype, MORE[l] == '1' ? DTYPE_Q6_K : wanted);
        CHECK_INT(w->w_down.dtype, MORE[l] == '1' ? DTYPE_Q6_K : wanted);
        CHECK_INT(w->wq.dtype, wanted);
        CHECK_INT(w->w_up.dtype, wanted);
    }
    checkpoint_close(c);
}

Test(convert, a_mix_has_more_bits_where_they_matter) {
    char *from = strdup(superblock_model(16));
    check_mix(from, "q4_k_m", DTYPE_Q4_K);
    check_mix(from, "q5_k_m", DTYPE_Q5_K);
    free(from);
}

Test(convert, tensors_are_named_by_patterns_and_the_last_one_counts) {
    char *from = strdup(superblock_model(4));
    const char *to = test_temporary("named.gguf");
    convert("%s|%s|--type|q4_k|--tensor-type|*ffn*=q6_k|--tensor-type|blk.3.*=f16|--tensor-type|"
            "token_embd.weight=q5_0",
            from, to);
    Checkpoint *c = open_converted(to);
    const Weights *w = checkpoint_weights(c);
    CHECK_INT(w->token_embedding.dtype, DTYPE_Q5_0);
    CHECK_INT(w->layers[2].w_up.dtype, DTYPE_Q6_K);
    CHECK_INT(w->layers[2].wq.dtype, DTYPE_Q4_K);
    CHECK_INT(w->layers[3].w_up.dtype, DTYPE_F16);
    CHECK_INT(w->layers[3].wq.dtype, DTYPE_F16);
    checkpoint_close(c);
    const char *none = test_temporary("none.gguf");
    check_no_conversion("%s|%s|--tensor-type|ffn=q6_k", from, none, ERROR_USAGE, "no matrix");
    check_no_conversion("%s|%s|--tensor-type|ffn", from, none, ERROR_USAGE, "PATTERN=TYPE");
    check_no_conversion("%s|%s|--tensor-type|ffn=q7", from, none, ERROR_USAGE, "one of f32|f16");
    free(from);
}

// A width of 96 is whole blocks of 32, but no superblock.
Test(convert, rows_that_are_no_superblocks_get_the_next_type_of_32) {
    static const struct {
        const char *type;
        DType got;
    } CASES[] = {{"q2_k", DTYPE_Q4_0},
                 {"q3_k", DTYPE_Q4_0},
                 {"q4_k", DTYPE_Q5_0},
                 {"q5_k", DTYPE_Q5_1},
                 {"q6_k", DTYPE_Q8_0}};
    BinShape shape = bin_shape_blocks();
    shape.hidden_dim = 96;
    char *from = strdup(conversion_bin("no-superblocks.bin", &shape));
    const char *to = test_temporary("no-superblocks.gguf");
    for (int i = 0; i < 5; i++) {
        TestRun run = program("convert|%s|%s|--force|--type|%s", from, to, CASES[i].type);
        check_status(&run, 0);
        CHECK(strstr(run.err, test_text("are no whole blocks and are written as %s",
                                        dtype_info(CASES[i].got)->name)),
              "%s", run.err);
        test_run_free(&run);
        Checkpoint *c = open_converted(to);
        CHECK_INT(checkpoint_weights(c)->layers[1].w_down.dtype, CASES[i].got);
        checkpoint_close(c);
    }
    free(from);
}

// A head of fewer bytes than Q8_0 is copied, and what is rounded a second time is said.
Test(convert, a_quantised_source_is_named_and_its_small_head_kept) {
    BinShape shape = bin_shape_blocks();
    char *bin = strdup(conversion_bin("whole.bin", &shape));
    char *small = strdup(test_temporary("small.gguf"));
    const char *again = test_temporary("again.gguf");
    convert("%s|%s|--force|--type|q4_0|--head-type|q4_0", bin, small);
    TestRun run = program("convert|%s|%s|--type|q8_0", small, again);
    check_status(&run, 0);
    CHECK(strstr(run.err, "matrices are quantised already (the first is Q4_0)") &&
              strstr(run.err, "F16 or BF16, is the better source"),
          "%s", run.err);
    test_run_free(&run);
    run = program("convert|%s|%s|--force|--type|f16", small, again);
    check_status(&run, 0);
    CHECK(!strstr(run.err, "quantised already"), "%s", run.err);
    test_run_free(&run);
    convert("%s|%s|--force|--type|q4_0", small, again);
    Checkpoint *c = open_converted(again);
    CHECK_INT(checkpoint_weights(c)->head.dtype, DTYPE_Q4_0);
    checkpoint_close(c);
    free(bin);
    free(small);
}

// What safetensors has no type for is written as the float32 that it stands for.
Test(convert, a_quantised_gguf_becomes_float32_exactly) {
    BinShape shape = bin_shape_blocks();
    char *bin = strdup(conversion_bin("whole.bin", &shape));
    char *gguf = strdup(test_temporary("q4.gguf")), *hf = strdup(test_temporary("q4"));
    convert("%s|%s|--type|q4_0", bin, gguf);
    TestRun run = program("convert|%s|%s", gguf, hf);
    check_status(&run, 0);
    CHECK(strstr(run.err, "16 quantised tensors are written as F32, which is exact"), "%s",
          run.err);
    test_run_free(&run);
    const char *paths[] = {gguf, hf};
    check_same_bits(paths, 2, PRECISION_F32);
    free(bin);
    free(gguf);
    free(hf);
}

Test(convert, a_llama2c_file_of_int8_groups_becomes_float32) {
    BinShape shape = bin_shape_blocks();
    shape.version = 2;
    shape.group_size = 32;
    char *bin = strdup(conversion_bin("v2.bin", &shape)), *gguf = strdup(test_temporary("v2.gguf"));
    convert("%s|%s", bin, gguf);
    const char *paths[] = {bin, gguf};
    check_same_bits(paths, 2, PRECISION_F32);
    free(bin);
    free(gguf);
}

// ---- threads ----

static const char *wide_model(void) {
    BinShape shape = bin_shape_blocks();
    shape.dim = 256;
    shape.hidden_dim = 1024;
    return conversion_bin("wide.bin", &shape);
}

static void convert_with(const char *type, int threads, const char *from, const char *to) {
    convert(test_text("%%s|%%s|--type|%s|-j|%d|--force", type, threads), from, to);
}

static void check_same_file(const char *a, const char *b) {
    size_t size, other_size;
    char *bytes = test_read_file(a, &size), *other = test_read_file(b, &other_size);
    CHECK(size == other_size && !memcmp(bytes, other, size), "%s, %s", a, b);
    free(bytes);
    free(other);
}

// Tensors of 1024 x 256 are large enough to be shared.
Test(convert, every_number_of_threads_writes_the_same_bytes) {
    static const char *const TYPES[] = {"f16", "q8_0", "q4_k"};
    const char *from = wide_model(), *to[] = {test_temporary("1.gguf"), test_temporary("n.gguf")};
    for (size_t t = 0; t < 3; t++) {
        convert_with(TYPES[t], 1, from, to[0]);
        for (int threads = 2; threads <= 7; threads += 5) {
            convert_with(TYPES[t], threads, from, to[1]);
            check_same_file(to[0], to[1]);
        }
    }
}

// Of two rows that cannot be written the error names the first, whichever thread is faster.
Test(convert, the_first_row_that_fails_is_named) {
    BinShape shape = bin_shape_blocks();
    shape.dim = shape.hidden_dim = 256;
    shape.vocab_size = 700;
    size_t size, row_bytes = 256 * sizeof(float);
    char *bin = bin_bytes(&size, &shape, 3);
    const float nan = NAN;
    memcpy(bin + bin_start(&shape) + 22 * row_bytes, &nan, sizeof nan);
    memcpy(bin + bin_start(&shape) + 13 * row_bytes, &nan, sizeof nan);
    const char *from = test_temporary("two-nans.bin"), *to = test_temporary("two-nans.gguf");
    test_write_file(from, bin, size);
    for (int i = 0; i < 10; i++)
        check_no_conversion("%s|%s|--type|f16|--head-type|q8_0|-j|4|-q", from, to, ERROR_NONFINITE,
                            "token_embd.weight\", row 13:");
    free(bin);
}

// ---- numbers that do not fit ----

static void check_number(float value, const char *type, int status) {
    const char *directory = test_temporary(test_text("n-%s-%g", type, (double)value));
    CHECK_INT(mkdir(directory, 0700), 0);
    GgufFile *file = gguf_tiny_llama();
    memcpy(gguf_find_tensor(file, "blk.1.ffn_up.weight")->data + 8, &value, sizeof value);
    const char *from = conversion_gguf("number.gguf", file);
    char line[300];
    snprintf(line, sizeof line, "convert|%%s|%s/out.gguf|--type|%s%%s", directory, type);
    TestRun run = program(line, from, "");
    if (status == ERROR_NONE)
        check_status(&run, 0);
    else
        CHECK(run.status == status && strstr(run.err, "blk.1.ffn_up.weight") &&
                  strstr(run.err, test_text(": %g is not a number that", (double)value)),
              "%g as %s: %d, %s", (double)value, type, run.status, run.err);
    CHECK_INT(test_entries(directory), status == ERROR_NONE);
    test_run_free(&run);
}

Test(convert, numbers_that_a_type_cannot_hold_are_refused_and_nothing_is_left) {
    check_number(1e5f, "f16", ERROR_NONFINITE);
    check_number(NAN, "f16", ERROR_NONFINITE);
    check_number(-INFINITY, "bf16", ERROR_NONFINITE);
    check_number(65504, "f16", ERROR_NONE);
    check_number(1e5f, "bf16", ERROR_NONE);
    check_number(1e-42f, "f16", ERROR_NONE);
    check_number(3e7f, "q4_0", ERROR_NONFINITE); // its whole block becomes infinite
    check_number(NAN, "q8_0", ERROR_NONFINITE);
}

// With one such number every error that a K-quant looks at is beyond float32: no zeros.
Test(convert, numbers_too_large_for_k_quants_are_no_zeros) {
    static const DType TYPES[] = {DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    static const float LARGE[] = {1e12f, -3e19f, 3e38f};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t i = 0; i < 3; i++) {
            float row[256], back[256], importance[256];
            uint8_t block[300];
            for (int k = 0; k < 256; k++)
                row[k] = (float)(k % 7) * 0.01f - 0.02f;
            row[77] = LARGE[i];
            quantise_importance(importance, row, NULL, 256);
            CHECK(quantise_searched(block, TYPES[t], row, importance, 256));
            dequantise(back, TYPES[t], block, 256);
            CHECK(!isfinite(back[77]) || fabsf(back[77] / row[77] - 1) < 0.1f,
                  "type %d: %g from %g", (int)TYPES[t], (double)back[77], (double)row[77]);
        }
}

// No type was asked for: what the model has is copied, of vectors as of matrices.
Test(convert, numbers_of_the_model_are_copied_whatever_they_are) {
    static const char *const NAMES[] = {"blk.0.attn_norm.weight", "blk.1.ffn_up.weight"};
    static const float VALUES[] = {NAN, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        GgufFile *file = gguf_tiny_llama();
        memcpy(gguf_find_tensor(file, NAMES[i / 2])->data + 4, &VALUES[i % 2], sizeof(float));
        const char *from = conversion_gguf("odd.gguf", file), *to = test_temporary("odd-out.gguf");
        convert("%s|%s|--force", from, to);
        Checkpoint *checkpoint = open_converted(to);
        const Weights *w = checkpoint_weights(checkpoint);
        const void *got = i < 2 ? (const void *)w->layers[0].att_norm : w->layers[1].w_up.data;
        CHECK(!memcmp((const float *)got + 1, &VALUES[i % 2], sizeof(float)), "%s", NAMES[i / 2]);
        checkpoint_close(checkpoint);
    }
}

// The tiny model's rows are 4 long, so the blocks are tried with one that has whole ones.
Test(convert, scales_that_overflow_are_refused) {
    BinShape shape = bin_shape_blocks();
    size_t size;
    char *bin = bin_bytes(&size, &shape, 3);
    static const float LARGE[] = {1e7f, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        memcpy(bin + bin_start(&shape) + 400, &LARGE[i], sizeof(float));
        const char *from = test_temporary("large.bin"), *to = test_temporary("large.gguf");
        test_write_file(from, bin, size);
        check_no_conversion("%s|%s|--type|q8_0|-q", from, to, ERROR_NONFINITE,
                            "token_embd.weight\", row 1");
        check_no_conversion("%s|%s|--type|q4_0|-q", from, to, ERROR_NONFINITE,
                            "token_embd.weight\", row 1");
        CHECK(!exists(to), "left behind");
    }
    free(bin);
}
