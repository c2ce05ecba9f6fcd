// LIMPID_CUDA=persistent: a decoded token is one launch behind its embedding, where the persistent
// kernel can do all of it; the bits are those of a kernel for each step.
#include "tests/cuda/emulator.h"
#include "tests/support/device.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/quant.h"

enum { STEPS = 3 };
enum { POSITIONS = 132, PROMPT = 128 }; // two splits of attention, and a third begun

static Model *open_with(const TinyModel *tiny, ModelOptions options, const char *switches) {
    if (switches) setenv("LIMPID_CUDA", switches, 1);
    Model *model = tiny_model_run(tiny, options);
    unsetenv("LIMPID_CUDA");
    return model;
}

static void step(Model *model, int32_t token) {
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = &token});
}

// Heads of 64 channels; of several layers, so that a token is a chain.
static TinyShape shape_of(DType dtype) {
    TinyShape shape = tiny_shape_of_large_blocks();
    shape.dtype = dtype;
    shape.max_seq_len = POSITIONS;
    return shape;
}

static void begin(Model *model, int positions) {
    int32_t tokens[PROMPT];
    for (int i = 0; i < positions; i++)
        tokens[i] = (5 * i + 1) % model->config.vocab_size;
    if (positions) tiny_model_forward(model, &(Batch){.n = positions, .tokens = tokens});
}

// So many steps of both behind a prompt, and the kernels of the last one with the switch.
static long check_same(const TinyModel *tiny, ModelOptions options, const char *switches,
                       int prompt, const char *what) {
    Model *plain = open_with(tiny, options, NULL), *chained = open_with(tiny, options, switches);
    long kernels = 0;
    begin(plain, prompt), begin(chained, prompt);
    for (int i = 0; i < STEPS; i++) {
        int32_t token = (7 * i + 3) % tiny->config.vocab_size;
        step(plain, token);
        long before = emulator_kernels();
        step(chained, token);
        kernels = emulator_kernels() - before;
        const float *a = model_logits(chained, 0), *b = model_logits(plain, 0);
        for (int t = 0; t < tiny->config.vocab_size; t++)
            CHECK(a[t] == b[t], "%s, %s, step %d, token %d: %.9g, kernel by kernel %.9g", what,
                  switches, i, t, (double)a[t], (double)b[t]);
    }
    model_close(plain), model_close(chained);
    return kernels;
}

static const ModelOptions OPTIONS = {.precision = PRECISION_A16, .kv_type = KV_F16};

static void check_token(TinyShape shape, ModelOptions options, int prompt, const char *what) {
    TinyModel *tiny = tiny_model_open(&shape);
    long kernels = check_same(tiny, options, "persistent", prompt, what);
    CHECK(kernels == 2, "%s: %ld kernels", what, kernels);
    tiny_model_close(tiny);
}

Test(cuda_persistent, a_token_is_its_embedding_and_one_launch_more) {
    static const DType TYPES[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q4_0, DTYPE_Q4_1,
                                  DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_Q2_K, DTYPE_Q3_K,
                                  DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        ModelOptions options = OPTIONS;
        options.precision = i % 2 ? PRECISION_A8 : PRECISION_A16;
        check_token(shape_of(TYPES[i]), options, 0, dtype_info(TYPES[i])->name);
    }
}

// With more processors some warps have no row in a step, and heads lie in three blocks.
Test(cuda_persistent, by_more_blocks_and_fewer_rows_each) {
    static const unsigned PROCESSORS[] = {1, 3, 5};
    TinyShape shape = shape_of(DTYPE_Q8_0);
    shape.qk_norm = QK_NORM_PER_HEAD;
    for (size_t i = 0; i < sizeof PROCESSORS / sizeof *PROCESSORS; i++) {
        emulator_processors(PROCESSORS[i]);
        check_token(shape, OPTIONS, 70, "more processors");
    }
    shape = tiny_shape_of_blocks(); // 64 columns and rows
    shape.head_dim = 64, shape.n_heads = 1, shape.n_kv_heads = 1, shape.dtype = DTYPE_BF16;
    emulator_processors(7);
    check_token(shape, OPTIONS, 0, "warps without rows");
}

Test(cuda_persistent, behind_several_splits_of_attention) {
    TinyShape shape = shape_of(DTYPE_BF16);
    shape.n_layers = 2;
    check_token(shape, OPTIONS, PROMPT, "one after another");
    shape.window = 70;
    check_token(shape, OPTIONS, PROMPT, "in a window");
}

Test(cuda_persistent, with_what_models_have_besides) {
    TinyShape shape = shape_of(DTYPE_Q8_0);
    shape.qk_norm = QK_NORM_PER_HEAD;
    check_token(shape, OPTIONS, 0, "norms of queries and keys");
    shape = shape_of(DTYPE_BF16);
    shape.biases = true;
    check_token(shape, OPTIONS, 0, "biases");
    shape = shape_of(DTYPE_Q4_0);
    shape.head_dim = 128;
    shape.n_heads = 6; // three for a key-value head
    check_token(shape, OPTIONS, 0, "heads of 128 channels");
    shape = shape_of(DTYPE_F16);
    shape.dim = 264, shape.hidden_dim = 1032; // rows of no whole pieces
    check_token(shape, OPTIONS, 0, "odd rows");
}

// ---- what it leaves to the other kernels ----

static void check_as_before(TinyShape shape, ModelOptions options, const char *switches,
                            const char *what) {
    TinyModel *tiny = tiny_model_open(&shape);
    long kernels = check_same(tiny, options, switches, 0, what);
    Model *plain = open_with(tiny, options, NULL);
    long before = emulator_kernels();
    step(plain, 1);
    CHECK(emulator_kernels() - before == kernels, "%s: %ld kernels, without the switch %ld", what,
          kernels, emulator_kernels() - before);
    model_close(plain);
    tiny_model_close(tiny);
}

Test(cuda_persistent, what_it_cannot_do_runs_kernel_by_kernel) {
    TinyShape shape = shape_of(DTYPE_Q8_0);
    ModelOptions options = OPTIONS;
    options.precision = PRECISION_F32;
    check_as_before(shape, options, "persistent", "quantised weights as floats");
    options = OPTIONS;
    options.kv_type = KV_F32;
    check_as_before(shape, options, "persistent", "a cache of float32");
    shape.head_dim = 32;
    check_as_before(shape, OPTIONS, "persistent", "narrow heads");
    shape = shape_of(DTYPE_Q8_0);
    shape.post_norms = true;
    check_as_before(shape, OPTIONS, "persistent", "norms behind the blocks");
    shape = shape_of(DTYPE_Q8_0);
    shape.n_layers = 1;
    check_as_before(shape, OPTIONS, "persistent", "six steps");
    shape = shape_of(DTYPE_Q8_0);
    check_as_before(shape, OPTIONS, "persistent,nograph", "without a graph");
    check_as_before(shape, OPTIONS, "persistent,noprefetch", "nothing read ahead");
}

// Two rows are no chain; a token behind them is.
Test(cuda_persistent, batches_and_single_tokens_take_turns) {
    TinyShape shape = shape_of(DTYPE_Q8_0);
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = OPTIONS;
    options.n_sequences = options.max_logit_rows = 2;
    Model *plain = open_with(tiny, options, NULL),
          *chained = open_with(tiny, options, "persistent");
    for (int i = 0; i < 4; i++) {
        int32_t tokens[] = {i, i + 1}, sequences[] = {0, 1};
        Batch batch = {.n = 1 + i % 2, .tokens = tokens, .sequences = sequences};
        tiny_model_forward(plain, &batch), tiny_model_forward(chained, &batch);
        const float *a = model_logits(chained, 0), *b = model_logits(plain, 0);
        for (int t = 0; t < tiny->config.vocab_size; t++)
            CHECK(a[t] == b[t], "pass %d, token %d: %.9g, kernel by kernel %.9g", i, t,
                  (double)a[t], (double)b[t]);
    }
    model_close(plain), model_close(chained);
    tiny_model_close(tiny);
}

// ---- faults ----

static bool try_steps(const TinyModel *tiny, long *calls, Error *error) {
    Model *model = model_open(&tiny->config, &tiny->weights, &OPTIONS, error);
    int32_t token = 1;
    bool done = model != NULL;
    for (int i = 0; i < STEPS && done; i++)
        done = model_forward(model, &(Batch){.n = 1, .tokens = &token}, error);
    *calls = emulator_calls();
    model_close(model);
    return done;
}

Test(cuda_persistent, each_host_call_may_fail) {
    TinyShape shape = shape_of(DTYPE_Q8_0);
    TinyModel *tiny = tiny_model_open(&shape);
    Error error = {0};
    long calls, made, objects = emulator_live_objects();
    setenv("LIMPID_CUDA", "persistent", 1);
    emulator_fail_call(0, 0);
    CHECK(try_steps(tiny, &calls, &error), "%s", error.message);
    for (long i = 1; i <= calls; i++) {
        error = (Error){0};
        emulator_fail_call(i, i % 2 ? 719 : 2); // a failed launch, out of memory
        CHECK(!try_steps(tiny, &made, &error), "call %ld of %ld failed, and nothing was said", i,
              calls);
        CHECK(error.code == ERROR_DEVICE && error.message[0], "call %ld: %d \"%s\"", i,
              (int)error.code, error.message);
        emulator_fail_call(0, 0);
        CHECK(emulator_live_objects() == objects, "call %ld leaves %ld objects", i,
              emulator_live_objects() - objects);
    }
    unsetenv("LIMPID_CUDA");
    tiny_model_close(tiny);
}
