// convert as a child process: what comes out is the same model, and nothing comes out where it
// cannot be.
#include "error.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/llama2c_writer.h"
#include "tests/support/program.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/same_bits.h"
#include "weights/checkpoint.h"
#include "weights/quant.h"
#include "weights/safetensors.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static void convert(const char *format, const char *from, const char *to) {
    char line[3000];
    snprintf(line, sizeof line, "convert|%s|-q", format);
    TestRun run = program(line, from, to);
    CHECK(run.status == 0, "%s to %s: %s", from, to, run.err);
    CHECK(run.out_size == 0 && run.err_size == 0, "%s%s", run.out, run.err);
    test_run_free(&run);
}

static void check_no(const char *format, const char *from, const char *to, int status,
                     const char *because) {
    char line[3000];
    snprintf(line, sizeof line, "convert|%s", format);
    TestRun run = program(line, from, to);
    check_refused(&run, status, because);
}

static int entries(const char *directory) {
    DIR *open_directory = opendir(directory);
    int count = 0;
    CHECK(open_directory, "%s", directory);
    for (struct dirent *e; (e = readdir(open_directory));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(open_directory);
    return count;
}

static bool exists(const char *path) {
    struct stat status;
    return !lstat(path, &status);
}

static Checkpoint *open_model(const char *path) {
    Checkpoint *checkpoint = NULL;
    Error error = {0};
    CHECK(checkpoint_open(&checkpoint, path, &error), "%s", error.message);
    return checkpoint;
}

// A file of a small GGUF, bent by the caller.
static const char *write_gguf(const char *name, GgufFile *file) {
    size_t size;
    uint8_t *bytes = gguf_write(file, &size);
    const char *path = test_temporary(name);
    test_write_file(path, bytes, size);
    free(bytes);
    gguf_file_free(file);
    return path;
}

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

Test(convert, one_model_in_five_containers) {
    char *bin = strdup(test_data("stories260K/stories260K.bin"));
    char *gguf = strdup(test_data("stories260K/stories260K.gguf"));
    char line[1000];
    snprintf(line, sizeof line, "%%s|%%s|-z|%s", test_data("stories260K/tok512.bin"));
    char *version_1 = strdup(as_version_1(bin)), *own = strdup(test_temporary("own.gguf"));
    char *directory = strdup(test_temporary("hf")), *back = strdup(test_temporary("back.gguf"));
    convert(line, bin, own);
    convert("%s|%s", gguf, directory);
    convert("%s|%s", directory, back);
    const char *paths[] = {bin, version_1, gguf, own, directory, back};
    for (int precision = PRECISION_F32; precision <= PRECISION_A8; precision++)
        check_same_bits(paths, 6, (Precision)precision);
    free(bin);
    free(gguf);
    free(version_1);
    free(own);
    free(directory);
    free(back);
}

// Told with the tokenizer that came along.
Test(convert, the_story_is_told_from_every_container) {
    size_t size;
    char *wanted = test_read_file(test_data("stories260K/expected_t0_n200.txt"), &size);
    const char *bin = test_data("stories260K/stories260K.bin");
    char *own = strdup(test_temporary("story.gguf"));
    char *directory = strdup(test_temporary("story"));
    char line[1000];
    snprintf(line, sizeof line, "%%s|%%s|-z|%s", test_data("stories260K/tok512.bin"));
    convert(line, bin, own);
    convert("%s|%s", own, directory);
    for (int i = 0; i < 2; i++) {
        TestRun run = program("%s|-t|0|-n|200|-q%s", i ? directory : own, "");
        check_status(&run, 0);
        CHECK(run.out_size == size && !memcmp(run.out, wanted, size), "got %s", run.out);
        test_run_free(&run);
    }
    free(wanted);
    free(own);
    free(directory);
}

// ---- every family ----

static const char *const FAMILIES[] = {
    "llama-tied", "llama-untied", "llama-rope-llama3", "mistral-window8", "qwen2",   "qwen3",
    "qwen3-bf16", "gemma3",       "gemma3-bf16",       "olmo2",           "smollm3", "phi3",
    "gpt2",       "nanochat"};
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
        snprintf(name, sizeof name, "reference-models/%s", FAMILIES[i]);
        char *from = strdup(test_data(name));
        snprintf(name, sizeof name, "%s.gguf", FAMILIES[i]);
        char *gguf = strdup(test_temporary(name)), *back = strdup(test_temporary(FAMILIES[i]));
        convert("%s|%s", from, gguf);
        convert("%s|%s", gguf, back);
        const char *paths[] = {from, gguf, back};
        check_same_bits(paths, 3, PRECISION_F32);
        snprintf(path, sizeof path, "%s/model.safetensors", from);
        snprintf(other, sizeof other, "%s/model.safetensors", back);
        if (exists(path)) // one has two shards
            check_same_tensors(path, other, !strcmp(FAMILIES[i], "gemma3"));
        Checkpoint *a = open_model(from), *b = open_model(back);
        CHECK_STRING(checkpoint_config(b)->family, checkpoint_config(a)->family);
        CHECK_INT(checkpoint_config(b)->rope.scaling, checkpoint_config(a)->rope.scaling);
        checkpoint_close(a);
        checkpoint_close(b);
        free(from);
        free(gguf);
        free(back);
    }
}

// ---- types ----

static const BinShape WHOLE_BLOCKS = {.tied = false,
                                      .dim = 64,
                                      .hidden_dim = 96,
                                      .n_layers = 2,
                                      .n_heads = 4,
                                      .n_kv_heads = 2,
                                      .vocab_size = 50,
                                      .seq_len = 40};

static const char *write_bin(const char *name, const BinShape *shape) {
    size_t size;
    char *bin = bin_bytes(&size, shape, 3);
    const char *path = test_temporary(name);
    test_write_file(path, bin, size);
    free(bin);
    return path;
}

// Every row of `got` is what quantise makes of the row of `from`.
static void check_rows(const Matrix *got, const Matrix *from, DType wanted, const char *name) {
    float values[256];
    uint8_t blocks[1024];
    size_t row_bytes = dtype_row_bytes(wanted, from->cols);
    CHECK(got->dtype == wanted && got->rows == from->rows && got->cols == from->cols, "%s", name);
    for (size_t r = 0; r < from->rows; r++) {
        matrix_row(values, from, r);
        quantise(blocks, wanted, values, from->cols);
        const uint8_t *stored = (const uint8_t *)got->data + matrix_stored_row(got, r) * row_bytes;
        CHECK(!memcmp(stored, blocks, row_bytes), "%s, row %zu", name, r);
    }
}

static void check_type(const char *from, const char *type, DType wanted) {
    char line[100];
    const char *to = test_temporary(test_text("%s.gguf", type));
    snprintf(line, sizeof line, "%%s|%%s|--type|%s", type);
    convert(line, from, to);
    Checkpoint *a = open_model(from), *b = open_model(to);
    const Weights *x = checkpoint_weights(a), *y = checkpoint_weights(b);
    check_rows(&y->token_embedding, &x->token_embedding, wanted, "embedding");
    check_rows(&y->head, &x->head, wanted, "head");
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

Test(convert, rows_are_what_quantise_makes_of_them) {
    char *from = strdup(write_bin("whole.bin", &WHOLE_BLOCKS));
    check_type(from, "f32", DTYPE_F32);
    check_type(from, "f16", DTYPE_F16);
    check_type(from, "bf16", DTYPE_BF16);
    check_type(from, "q8_0", DTYPE_Q8_0);
    check_type(from, "q4_0", DTYPE_Q4_0);
    free(from);
}

// A hidden width of 100 is no whole number of blocks: w_down stays in halves, and it is said.
Test(convert, rows_that_are_no_whole_blocks_are_halves) {
    BinShape shape = WHOLE_BLOCKS;
    shape.hidden_dim = 100;
    const char *from = write_bin("ragged.bin", &shape), *to = test_temporary("ragged.gguf");
    TestRun run = program("convert|%s|%s|--type|q4_0", from, to);
    check_status(&run, 0);
    CHECK(strstr(run.err, "2 tensors have rows that are no whole blocks and are written as F16, "
                          "the first is blk.0.ffn_down.weight"),
          "%s", run.err);
    test_run_free(&run);
    Checkpoint *c = open_model(to);
    CHECK_INT(checkpoint_weights(c)->layers[1].w_down.dtype, DTYPE_F16);
    CHECK_INT(checkpoint_weights(c)->layers[1].w_up.dtype, DTYPE_Q4_0);
    checkpoint_close(c);
}

// What safetensors has no type for is written as the float32 that it stands for.
Test(convert, a_quantised_gguf_becomes_float32_exactly) {
    char *bin = strdup(write_bin("whole.bin", &WHOLE_BLOCKS));
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
    BinShape shape = WHOLE_BLOCKS;
    shape.version = 2;
    shape.group_size = 32;
    char *bin = strdup(write_bin("v2.bin", &shape)), *gguf = strdup(test_temporary("v2.gguf"));
    convert("%s|%s", bin, gguf);
    const char *paths[] = {bin, gguf};
    check_same_bits(paths, 2, PRECISION_F32);
    free(bin);
    free(gguf);
}

// ---- numbers that do not fit ----

static void check_number(float value, const char *type, int status) {
    const char *directory = test_temporary(test_text("n-%s-%g", type, (double)value));
    CHECK_INT(mkdir(directory, 0700), 0);
    GgufFile *file = gguf_tiny_llama();
    memcpy(gguf_find_tensor(file, "blk.1.ffn_up.weight")->data + 8, &value, sizeof value);
    const char *from = write_gguf("number.gguf", file);
    char line[300];
    snprintf(line, sizeof line, "convert|%%s|%s/out.gguf|--type|%s%%s", directory, type);
    TestRun run = program(line, from, "");
    if (status == ERROR_NONE)
        check_status(&run, 0);
    else
        CHECK(run.status == status && strstr(run.err, "blk.1.ffn_up.weight") &&
                  strstr(run.err, "is not a number that"),
              "%g as %s: %d, %s", (double)value, type, run.status, run.err);
    CHECK_INT(entries(directory), status == ERROR_NONE);
    test_run_free(&run);
}

Test(convert, numbers_that_a_type_cannot_hold_are_refused_and_nothing_is_left) {
    check_number(1e5f, "f16", ERROR_NONFINITE);
    check_number(NAN, "f16", ERROR_NONFINITE);
    check_number(-INFINITY, "bf16", ERROR_NONFINITE);
    check_number(65504, "f16", ERROR_NONE);
    check_number(1e5f, "bf16", ERROR_NONE);
    check_number(1e-42f, "f16", ERROR_NONE);
}

// The tiny model's rows are 4 long, so the blocks are tried with one that has whole ones.
Test(convert, scales_that_overflow_are_refused) {
    size_t size;
    char *bin = bin_bytes(&size, &WHOLE_BLOCKS, 3);
    static const float LARGE[] = {1e7f, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        memcpy(bin + bin_start(&WHOLE_BLOCKS) + 400, &LARGE[i], sizeof(float));
        const char *from = test_temporary("large.bin"), *to = test_temporary("large.gguf");
        test_write_file(from, bin, size);
        check_no("%s|%s|--type|q8_0|-q", from, to, ERROR_NONFINITE, "token_embd.weight\", row 1");
        check_no("%s|%s|--type|q4_0|-q", from, to, ERROR_NONFINITE, "token_embd.weight\", row 1");
        CHECK(!exists(to), "left behind");
    }
    free(bin);
}

// ---- outputs ----

static const char *tiny(const char *name) {
    return write_gguf(name, gguf_tiny_llama());
}

Test(convert, an_output_that_is_there_wants_force) {
    char *from = strdup(tiny("a.gguf")), *to = strdup(test_temporary("there.gguf"));
    test_write_file(to, "precious", 8);
    check_no("%s|%s", from, to, ERROR_USAGE, "is there already; --force replaces it");
    size_t size;
    char *text = test_read_file(to, &size);
    CHECK_STRING(text, "precious");
    free(text);
    convert("%s|%s|--force", from, to);
    checkpoint_close(open_model(to));
    free(from);
    free(to);
}

Test(convert, the_model_itself_is_never_replaced) {
    char *from = strdup(tiny("self.gguf"));
    char *link_path = strdup(test_temporary("link.gguf")), *hard = strdup(test_temporary("h.gguf"));
    CHECK(!symlink(from, link_path) && !link(from, hard));
    const char *outs[] = {from, link_path, hard};
    for (int i = 0; i < 3; i++)
        check_no("%s|%s|--force", from, outs[i], ERROR_USAGE, "is what is converted");
    checkpoint_close(open_model(from));
    free(from);
    free(link_path);
    free(hard);
}

Test(convert, a_directory_is_not_converted_into_itself) {
    char *from = strdup(test_temporary("dir"));
    BinShape shape = bin_shape_tiny(0, true);
    size_t size;
    char *bin = bin_bytes(&size, &shape, 7);
    write_hugging_face(from, bin, size);
    free(bin);
    char inside[300];
    snprintf(inside, sizeof inside, "%s/other.safetensors", from);
    check_no("%s|%s|--force", from, from, ERROR_USAGE, "what is converted");
    check_no("%s|%s|--force", from, inside, ERROR_USAGE, "is what is converted");
    // Nor by a link that leads back.
    char *to = strdup(test_temporary("linked")), config[300], link_path[300];
    CHECK_INT(mkdir(to, 0700), 0);
    snprintf(config, sizeof config, "%s/config.json", from);
    snprintf(link_path, sizeof link_path, "%s/config.json", to);
    CHECK_INT(symlink(config, link_path), 0);
    check_no("%s|%s|--force", from, to, ERROR_USAGE, "config.json is what is converted");
    // Beside a GGUF lies no config.json, but it would seem to be its.
    char *gguf = strdup(tiny("alone.gguf"));
    snprintf(inside, sizeof inside, "%s", test_temporary("alone.safetensors"));
    check_no("%s|%s", gguf, inside, ERROR_USAGE, "would lie beside");
    free(gguf);
    free(to);
    convert("%s|%s", from, test_temporary("elsewhere"));
    free(from);
}

// Files that a user had beside the tensors are as good as the tensors.
Test(convert, a_config_that_is_there_wants_force) {
    char *from = strdup(tiny("b.gguf"));
    const char *directory = test_temporary("mine");
    char config[300];
    CHECK_INT(mkdir(directory, 0700), 0);
    snprintf(config, sizeof config, "%s/config.json", directory);
    test_write_file(config, "{}", 2);
    check_no("%s|%s", from, directory, ERROR_USAGE, "config.json is there already");
    CHECK_INT(entries(directory), 1);
    free(from);
}

Test(convert, outputs_that_cannot_be) {
    char *from = strdup(tiny("c.gguf"));
    char *fifo = strdup(test_temporary("fifo.gguf")), *directory = strdup(test_temporary("d.gguf"));
    char below[300];
    CHECK(!mkfifo(fifo, 0600) && !mkdir(directory, 0700));
    snprintf(below, sizeof below, "%s/no/such.gguf", directory);
    check_no("%s|%s|--force", from, fifo, ERROR_IO, "a pipe");
    check_no("%s|%s", from, below, ERROR_IO, "No such file or directory");
    check_no("%s|%s", from, "/dev/full", ERROR_IO, "/dev/full/");
    check_no("%s|%s", from, "out.bin", ERROR_USAGE, "convert writes .gguf, .safetensors");
    check_no("%s|%s", from, "", ERROR_USAGE, "no name");
    check_no("%s%s", from, "", ERROR_USAGE, "convert wants a model and an output");
    check_no("%s|%s|third", from, "x.gguf", ERROR_USAGE, "one argument too many");
    check_no("%s|%s|--type|q5_0", from, "x.gguf", ERROR_USAGE, "one of f32|f16|bf16|q8_0|q4_0");
    check_no("%s|%s|--type|q8_0", from, test_temporary("refused"), ERROR_USAGE,
             "bf16 for safetensors");
    check_no("%s|%s", "no-such-model.gguf", "x.gguf", ERROR_IO, "no-such-model.gguf");
    CHECK(!exists(test_temporary("refused")), "a directory was made");
    free(from);
    free(fifo);
    free(directory);
}

// A limit on file sizes stands for a full disk.
Test(convert, a_full_disk_is_exit_4_and_leaves_nothing) {
    char script[600];
    const char *directory = test_temporary("full");
    CHECK_INT(mkdir(directory, 0700), 0);
    snprintf(script, sizeof script, "ulimit -f 64; $RUN convert $MODEL %s/out.gguf --type f32",
             directory);
    TestRun run = program_shell(script);
    check_refused(&run, ERROR_IO, "bytes on the disk");
    CHECK_INT(entries(directory), 0);
}

// ---- what a container cannot say ----

static void check_model(void (*bend)(GgufFile *file), const char *to, const char *because) {
    GgufFile *file = gguf_tiny_llama();
    bend(file);
    char *from = strdup(write_gguf("odd.gguf", file));
    check_no("%s|%s", from, to, ERROR_FILE, because);
    CHECK(!exists(to), "something was made");
    free(from);
}

static void odd_divisors(GgufFile *file) {
    GgufTensor *divisors = gguf_add_tensor(file, "rope_freqs.weight", DTYPE_F32, 1, 0);
    memcpy(divisors->data, &(const float){3.3f}, 4);
}

static void two_biases(GgufFile *file) {
    gguf_add_tensor(file, "blk.0.attn_q.bias", DTYPE_F32, 4, 0);
}

Test(convert, what_the_other_container_has_no_key_for_is_refused_by_name) {
    const char *to = test_temporary("odd");
    check_model(odd_divisors, to, "LlamaForCausalLM has no key for the divisors");
    check_model(two_biases, to, "has no key for biases on some of its attention matrices");
}

// ---- every way to say positions ----

// A directory of the usual shape with more members in its config.json.
static const char *directory_with(const char *name, const char *members) {
    const char *directory = test_temporary(name);
    size_t size;
    char path[300], *bin = bin_bytes(&size, &WHOLE_BLOCKS, 3);
    write_hugging_face(directory, bin, size);
    free(bin);
    snprintf(path, sizeof path, "%s/config.json", directory);
    char *config = test_read_file(path, &size), *more = malloc(size + strlen(members) + 2);
    *strrchr(config, '}') = '\0';
    sprintf(more, "%s,%s}", config, members);
    test_write_file(path, more, strlen(more));
    free(config);
    free(more);
    return directory;
}

Test(convert, rope_scalings_and_windows_there_and_back) {
    static const char *const MEMBERS[] = {
        "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
        "\"original_max_position_embeddings\":10}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":3,\"attention_factor\":1.07,"
        "\"beta_fast\":16,\"original_max_position_embeddings\":10}",
        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":3,\"mscale\":1,"
        "\"mscale_all_dim\":1,\"original_max_position_embeddings\":10}",
        "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":16}",
    };
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++) {
        char *from = strdup(directory_with(test_text("from%zu", i), MEMBERS[i]));
        char *gguf = strdup(test_temporary(test_text("rope%zu.gguf", i)));
        char *back = strdup(test_temporary(test_text("back%zu", i)));
        convert("%s|%s", from, gguf);
        convert("%s|%s", gguf, back);
        const char *paths[] = {from, gguf, back};
        check_same_bits(paths, 3, PRECISION_F32);
        free(from);
        free(gguf);
        free(back);
    }
}

// From one directory to another everything can be said.
Test(convert, what_a_gguf_has_no_key_for_is_refused_and_goes_to_a_directory) {
    static const struct {
        const char *members, *because;
    } CASES[] = {
        {"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", "dynamic NTK"},
        {"\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"truncate\":false}", "truncate"},
        {"\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"mscale\":1,"
         "\"mscale_all_dim\":0.5}",
         "two mscales"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *from = strdup(directory_with(test_text("only%zu", i), CASES[i].members));
        char *to = strdup(test_temporary(test_text("only%zu.gguf", i)));
        char *hf = strdup(test_temporary(test_text("other%zu", i)));
        check_no("%s|%s|-q", from, to, ERROR_FILE, CASES[i].because);
        CHECK(!exists(to), "left behind");
        convert("%s|%s", from, hf);
        const char *paths[] = {from, hf};
        check_same_bits(paths, 2, PRECISION_F32);
        free(from);
        free(to);
        free(hf);
    }
}

// ---- what goes along ----

Test(convert, template_names_and_ids_go_along) {
    static const char TEMPLATE[] = "{% for m in messages %}\n<|im_start|>{{ m }}";
    GgufFile *file = gguf_tiny_llama();
    gguf_set_text(file, "tokenizer.chat_template", TEMPLATE);
    gguf_set_text(file, "general.name", "a small one");
    gguf_set_text(file, "general.license", "mit");
    static const int32_t TYPES[] = {2, 3, 3, 1, 1, 1, 1, 4};
    gguf_set_array(file, "tokenizer.ggml.token_type", GGUF_I32, TYPES, 8);
    char *from = strdup(write_gguf("along.gguf", file)), *hf = strdup(test_temporary("along"));
    char *back = strdup(test_temporary("along-back.gguf"));
    convert("%s|%s", from, hf);
    convert("%s|%s", hf, back);
    Checkpoint *a = open_model(from), *b = open_model(back);
    const Vocabulary *x = checkpoint_vocabulary(a), *y = checkpoint_vocabulary(b);
    CHECK(y->chat_template.length == sizeof TEMPLATE - 1 &&
              !memcmp(y->chat_template.text, TEMPLATE, sizeof TEMPLATE - 1),
          "%.*s", (int)y->chat_template.length, y->chat_template.text);
    CHECK(checkpoint_about(b)[ABOUT_LICENSE].length == 3, "the licence");
    CHECK_INT(y->n_tokens, x->n_tokens);
    for (size_t i = 0; i < x->n_tokens; i++) {
        CHECK(x->tokens[i].length == y->tokens[i].length &&
                  !memcmp(x->tokens[i].text, y->tokens[i].text, x->tokens[i].length),
              "token %zu", i);
        CHECK_INT(y->types[i], x->types[i]);
    }
    CHECK_INT(checkpoint_config(b)->bos_id, checkpoint_config(a)->bos_id);
    CHECK_INT(checkpoint_config(b)->n_eos_ids, checkpoint_config(a)->n_eos_ids);
    CHECK_INT(checkpoint_config(b)->eos_ids[0], checkpoint_config(a)->eos_ids[0]);
    checkpoint_close(a);
    checkpoint_close(b);
    convert("%s|%s|--force", from, back);
    a = open_model(back);
    CHECK_STRING(checkpoint_config(a)->name, "a small one");
    checkpoint_close(a);
    free(from);
    free(hf);
    free(back);
}

// A vocabulary smaller than the embedding is filled up, as llama.cpp's converter does.
Test(convert, rows_without_a_token_get_names) {
    const char *tokenizer = test_data("stories260K/tok512.bin");
    BinShape shape = WHOLE_BLOCKS;
    shape.vocab_size = 520;
    char *from = strdup(write_bin("padded.bin", &shape)), line[600];
    char *to = strdup(test_temporary("padded.gguf")), *model = strdup(test_temporary("small"));
    snprintf(line, sizeof line, "convert|%%s|%%s|-z|%s", tokenizer);
    TestRun run = program(line, from, to); // a tokenizer.bin must fit its model
    check_refused(&run, ERROR_FILE, "512 tokens, but the model has 520");
    // The same vocabulary as a .model need not.
    snprintf(line, sizeof line, "%%s|%%s|-z|%s/tokenizer.model", model);
    convert("%s|%s", small_model(), model);
    convert(line, from, to);
    Checkpoint *c = open_model(to);
    const Vocabulary *v = checkpoint_vocabulary(c);
    CHECK_INT(v->n_tokens, 520);
    CHECK(v->tokens[519].length == 8 && !memcmp(v->tokens[519].text, "[PAD519]", 8), "%.*s",
          (int)v->tokens[519].length, v->tokens[519].text);
    CHECK_INT(v->types[519], TOKEN_UNUSED);
    checkpoint_close(c);
    free(from);
    free(to);
    free(model);
}

Test(convert, keys_that_llama_cpp_looks_for_are_there) {
    const char *from = tiny("keys-from.gguf"), *to = test_temporary("keys.gguf");
    convert("%s|%s|--type|f16", from, to);
    size_t size;
    char *bytes = test_read_file(to, &size);
    static const char *const KEYS[] = {"general.architecture",
                                       "general.file_type",
                                       "llama.block_count",
                                       "llama.context_length",
                                       "llama.embedding_length",
                                       "llama.feed_forward_length",
                                       "llama.attention.head_count",
                                       "llama.attention.head_count_kv",
                                       "llama.attention.layer_norm_rms_epsilon",
                                       "llama.rope.freq_base",
                                       "llama.rope.dimension_count",
                                       "tokenizer.ggml.model",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.token_type"};
    CHECK(!memcmp(bytes, "GGUF\3\0\0\0", 8), "GGUF v3");
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        CHECK(memmem(bytes, size, KEYS[i], strlen(KEYS[i])), "no %s", KEYS[i]);
    free(bytes);
}
