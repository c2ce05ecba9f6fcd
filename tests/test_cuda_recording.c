// What the CUDA backend makes of a recorded pass: fused kernels give the bits of the operations
// that they stand for, a replayed graph those of its first run, and a decode step is as few kernels
// as fused.cu says. And every host call fails once.
#include "model/feedback.h"
#include "tests/cuda/emulator.h"
#include "tests/support/tiny_model.h"
#include "tests/test.h"

enum { STEPS = 5, ROWS = 3 };

static Model *open_model(const TinyModel *tiny, Precision precision, int max_rows) {
    Error error = {0};
    ModelOptions options = {.precision = precision,
                            .max_rows = max_rows,
                            .max_logit_rows = ROWS,
                            .n_sequences = ROWS,
                            .kv_type = KV_BF16};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, &error);
    CHECK(model, "%s", error.message);
    return model;
}

// A token for each of the first n sequences.
static void step_rows(Model *model, int32_t token, int n) {
    Error error = {0};
    int32_t tokens[ROWS] = {token, token + 1, token + 2}, sequences[ROWS] = {0, 1, 2};
    bool wants_logits[ROWS] = {true, true, true};
    Batch batch = {n, tokens, NULL, sequences, wants_logits};
    CHECK(model_forward(model, &batch, &error), "%s", error.message);
}

static void step(Model *model, int32_t token) {
    step_rows(model, token, 1);
}

static void look(void *context, const Model *model, const Stage *stage) {
    (void)context, (void)model, (void)stage;
}

// Who looks makes every operation run by itself.
static void check_same(const TinyShape *shape, Precision precision, const char *what) {
    TinyModel *tiny = tiny_model_open(shape);
    Model *fused = open_model(tiny, precision, 0), *plain = open_model(tiny, precision, 0);
    Error error = {0};
    CHECK(model_listen(plain, look, NULL, false, &error), "%s", error.message);
    for (int32_t i = 0; i < STEPS; i++) {
        int n = i % 2 ? ROWS : 1;
        step_rows(fused, 3 * i + 1, n), step_rows(plain, 3 * i + 1, n);
        const float *a = model_logits(fused, 0), *b = model_logits(plain, 0);
        for (int t = 0; t < n * shape->vocab_size; t++)
            CHECK(a[t] == b[t], "%s, step %d, token %d: fused %.9g, plain %.9g", what, i, t,
                  (double)a[t], (double)b[t]);
    }
    model_close(fused), model_close(plain);
    tiny_model_close(tiny);
}

static void check_types(TinyShape shape, const char *what) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        shape.dtype = TYPES[i];
        for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++)
            check_same(&shape, p, what);
    }
}

static TinyShape whole_shape(void) { // rows that hold whole blocks
    return (TinyShape){.dim = 64,
                       .hidden_dim = 96,
                       .n_layers = 2,
                       .n_heads = 4,
                       .n_kv_heads = 2,
                       .head_dim = 16,
                       .vocab_size = 70,
                       .max_seq_len = 32,
                       .seed = 5};
}

Test(cuda_recording, fused_kernels_give_the_bits_of_plain_ones) {
    check_types(whole_shape(), "llama");
}

Test(cuda_recording, and_with_norms_of_queries_and_keys) {
    TinyShape shape = whole_shape();
    shape.qk_norm = QK_NORM_PER_HEAD;
    check_types(shape, "norms per head");
    shape.qk_norm = QK_NORM_FULL_WIDTH;
    check_types(shape, "full norms");
}

Test(cuda_recording, and_where_little_can_be_fused) {
    TinyShape shape = whole_shape();
    shape.biases = shape.layer_norm = shape.plain_ffn = shape.learned = true;
    check_types(shape, "gpt2");
    shape = whole_shape();
    shape.post_norms = shape.no_pre_norms = true;
    check_types(shape, "post norms");
    check_types(tiny_shape(), "odd sizes");
}

// embed, five per layer, the head with the norm before it.
Test(cuda_recording, a_step_is_five_kernels_per_layer) {
    TinyShape shape = whole_shape();
    for (int layers = 1; layers <= 6; layers++) {
        shape.n_layers = (layers + 1) / 2;
        shape.qk_norm = layers % 2 ? QK_NORM_NONE : QK_NORM_PER_HEAD;
        TinyModel *tiny = tiny_model_open(&shape);
        Model *model = open_model(tiny, PRECISION_A16, 0);
        for (int32_t i = 0; i < 3; i++) { // captured, then replayed
            long before = emulator_kernels();
            step(model, i);
            CHECK_INT(emulator_kernels() - before, 1 + 5 * shape.n_layers + 1);
        }
        model_close(model);
        tiny_model_close(tiny);
    }
}

// Norms behind the blocks: one more each.
Test(cuda_recording, norms_behind_the_blocks_are_two_more) {
    TinyShape shape = whole_shape();
    shape.post_norms = true;
    shape.qk_norm = QK_NORM_PER_HEAD;
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = open_model(tiny, PRECISION_A16, 0);
    long before = emulator_kernels();
    step(model, 7);
    CHECK_INT(emulator_kernels() - before, 1 + 7 * shape.n_layers + 1);
    model_close(model);
    tiny_model_close(tiny);
}

// Two calls: the graph and the copy of the logits; the rows' tokens, positions, sequences before.
Test(cuda_recording, a_replay_is_one_launch) {
    TinyShape shape = whole_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    Model *model = open_model(tiny, PRECISION_A16, 0);
    step(model, 1), step(model, 2);
    emulator_fail_call(0, 0);
    step(model, 3);
    CHECK(emulator_calls() <= 6, "%ld host calls", emulator_calls());
    model_close(model);
    tiny_model_close(tiny);
}

// ---- faults ----

// *calls: host calls but those of closing, whose failures nobody could do anything about.
static bool try_all(const TinyModel *tiny, long *calls, Error *error) {
    ModelOptions options = {.precision = PRECISION_A16, .max_rows = 3};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, error);
    int32_t tokens[] = {1, 2, 3, 4, 5};
    bool done = model && model_forward(model, &(Batch){.n = 5, .tokens = tokens}, error) &&
                model_forward(model, &(Batch){.n = 1, .tokens = tokens}, error);
    if (done) CHECK(isfinite(model_logits(model, 0)[0]), "no logits");
    SamplerOptions rule = sampler_defaults();
    Sampler *sampler =
        done ? sampler_open(model->device, tiny->config.vocab_size, 10, &rule, error) : NULL;
    done = sampler;
    Feedback feedback = {0};
    if (done) feedback_begin(&feedback, model, sampler, 5);
    for (int i = 0; i < 3 && done; i++)
        done = feedback_next(&feedback, error) >= 0;
    if (done) feedback_end(&feedback);
    *calls = emulator_calls();
    sampler_close(sampler);
    model_close(model);
    return done;
}

Test(cuda_recording, every_host_call_fails_once) {
    TinyShape shape = whole_shape();
    shape.n_layers = 1;
    TinyModel *tiny = tiny_model_open(&shape);
    Error error = {0};
    long calls, made;
    emulator_fail_call(0, 0);
    CHECK(try_all(tiny, &calls, &error), "%s", error.message);
    CHECK(calls > 50, "only %ld host calls", calls);
    for (long i = 1; i <= calls; i++) {
        static const int ERRORS[] = {2, 719}; // out of memory, a failed launch
        error = (Error){0};
        emulator_fail_call(i, ERRORS[i % 2]);
        bool done = try_all(tiny, &made, &error);
        CHECK(!done && error.code == ERROR_DEVICE, "call %ld: %d %s", i, error.code, error.message);
        CHECK(strstr(error.message, "GPU: cuda") || strstr(error.message, "_kernel"),
              "call %ld: %s", i, error.message);
        CHECK_INT(emulator_live_objects(), 0);
    }
    emulator_fail_call(0, 0);
    tiny_model_close(tiny);
}
