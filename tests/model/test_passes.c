// The way a pass is run changes nothing: fused and replayed operations give the bits of single
// ones, and a whole prompt gives the logits of its chunks, to the bit or within what two kernels
// may differ by. On a host both sides are nearly the same code; on a GPU, real or emulated, they
// differ.
#include "model/model.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/quant.h"

enum { STEPS = EMULATED(4, 5), ROWS = 3, MOST = 32, WINDOW = 3, PROMPT = EMULATED(66, 70) };

// ---- with a listener every operation runs by itself ----

static void look(void *context, const Model *model, const Stage *stage) {
    (void)context, (void)model, (void)stage;
}

// A token for each of the first n sequences.
static void step_rows(Model *model, int32_t token, int n) {
    int32_t tokens[MOST], sequences[MOST];
    bool wants_logits[MOST];
    for (int i = 0; i < n; i++)
        tokens[i] = token + i, sequences[i] = i, wants_logits[i] = true;
    tiny_model_forward(model, &(Batch){n, tokens, NULL, sequences, wants_logits, false});
}

// Steps of one sequence and of n.
static void check_same_rows(const TinyModel *tiny, Precision precision, int n, const char *what) {
    ModelOptions options = {
        .precision = precision, .max_logit_rows = n, .n_sequences = n, .kv_type = KV_BF16};
    Model *fused = tiny_model_run(tiny, options), *plain = tiny_model_run(tiny, options);
    Error error = {0};
    CHECK(model_listen(plain, look, NULL, false, &error), "%s", error.message);
    for (int32_t i = 0; i < STEPS; i++) {
        int rows = i % 2 ? n : 1;
        step_rows(fused, 3 * i + 1, rows), step_rows(plain, 3 * i + 1, rows);
        const float *a = model_logits(fused, 0), *b = model_logits(plain, 0);
        for (int t = 0; t < rows * tiny->config.vocab_size; t++)
            CHECK(a[t] == b[t], "%s, %s, precision %d, step %d, token %d: fused %.9g, plain %.9g",
                  what, dtype_info(tiny->weights.head.dtype)->name, (int)precision, i, t,
                  (double)a[t], (double)b[t]);
    }
    model_close(fused), model_close(plain);
}

static void check_same(const TinyModel *tiny, Precision precision, const char *what) {
    check_same_rows(tiny, precision, ROWS, what);
}

// Changes what a TinyShape does not have.
typedef void Change(Config *config);

static void check_types(TinyShape shape, Change *change, const char *what) {
    static const struct {
        DType dtype;
        Precision precision;
    } TYPES[] = {{DTYPE_F32, PRECISION_F32},
                 {DTYPE_BF16, PRECISION_A16},
                 {DTYPE_Q8_0, PRECISION_A16},
                 {DTYPE_Q4_0, PRECISION_A8}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        shape.dtype = TYPES[i].dtype;
        TinyModel *tiny = tiny_model_open(&shape);
        if (change) change(&tiny->config);
        check_same(tiny, TYPES[i].precision, what);
        tiny_model_close(tiny);
    }
}

Test(passes, fused_kernels_give_the_bits_of_plain_ones) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0};
    TinyShape shape = tiny_shape_of_blocks();
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        shape.dtype = TYPES[i];
        TinyModel *tiny = tiny_model_open(&shape);
        for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++)
            check_same(tiny, p, "llama");
        tiny_model_close(tiny);
    }
}

Test(passes, and_with_norms_of_queries_and_keys) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.qk_norm = QK_NORM_PER_HEAD;
    check_types(shape, NULL, "norms per head");
    shape.qk_norm = QK_NORM_FULL_WIDTH;
    check_types(shape, NULL, "full norms");
}

// A norm's sum is added in parts of 32 channels, of wider heads in more rounds than one.
Test(passes, and_with_norms_of_wide_heads) {
    static const int HEAD_DIMS[] = {96, 264};
    TinyShape shape = tiny_shape_of_blocks();
    shape.qk_norm = QK_NORM_PER_HEAD;
    shape.n_layers = 1;
    for (size_t i = 0; i < sizeof HEAD_DIMS / sizeof *HEAD_DIMS; i++) {
        shape.head_dim = HEAD_DIMS[i];
        check_types(shape, NULL, "norms of wide heads");
    }
}

Test(passes, and_where_little_can_be_fused) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.biases = shape.layer_norm = shape.plain_ffn = shape.learned = true;
    check_types(shape, NULL, "gpt2");
    shape = tiny_shape_of_blocks();
    shape.post_norms = shape.no_pre_norms = true;
    check_types(shape, NULL, "post norms");
    check_types(tiny_shape(), NULL, "odd sizes");
}

// On a GPU the sequences run in groups.
Test(passes, and_with_many_sequences) {
    static const int COUNTS[] = {8, 9, 20, MOST};
    TinyShape shape = tiny_shape_of_blocks();
    shape.qk_norm = QK_NORM_PER_HEAD;
    shape.n_layers = 1;
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        shape.dtype = i % 2 ? DTYPE_Q8_0 : DTYPE_BF16;
        TinyModel *tiny = tiny_model_open(&shape);
        check_same_rows(tiny, PRECISION_A16, COUNTS[i], "many sequences");
        tiny_model_close(tiny);
    }
}

// wv and w_down are of another type, as in files of Q4_K_M; of every other model w_up too.
Test(passes, and_where_matrices_are_of_several_types) {
    static const DType TYPES[][2] = {{DTYPE_Q4_K, DTYPE_Q6_K},
                                     {DTYPE_Q5_0, DTYPE_Q8_0},
                                     {DTYPE_Q8_0, DTYPE_F16},
                                     {DTYPE_BF16, DTYPE_F32}};
    TinyShape shape = tiny_shape_of_large_blocks();
    shape.n_layers = 1;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        shape.dtype = TYPES[i][0];
        TinyModel *tiny = tiny_model_open(&shape);
        tiny_model_mix(tiny, TYPES[i][1], i % 2);
        for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++)
            check_same_rows(tiny, p, i % 2 ? 2 : 10, "several types");
        tiny_model_close(tiny);
    }
}

// On a GPU x is read into shared memory in several steps, and the weights of a norm have no room
// there.
Test(passes, and_where_rows_are_wide) {
    TinyShape shape = tiny_shape_of_blocks();
    shape.hidden_dim = 4224;
    shape.n_layers = 1;
    check_types(shape, NULL, "wide rows");
    shape.dim = 4128, shape.hidden_dim = 96, shape.dtype = DTYPE_BF16;
    TinyModel *tiny = tiny_model_open(&shape);
    check_same_rows(tiny, PRECISION_A16, 2, "a wide norm");
    tiny_model_close(tiny);
}

static void change_half(Config *c) { // Phi 3: half of the channels rotate
    c->rope_dim = c->head_dim / 2;
}

static void change_smollm3(Config *c) {
    c->layers[0].no_rope = true;
}

static void change_gemma(Config *c) {
    c->layers[1].window = 0;
    c->layers[0].local_rope = true;
    c->rope_local.theta = 100.0f;
    c->embedding_scale = sqrtf((float)c->dim);
    c->activation = ACTIVATION_GELU_TANH;
}

static void change_nanochat(Config *c) {
    c->logit_softcap = 15.0f;
    c->rope.sign = -1.0f;
    c->qk_norm_after_rope = true;
}

static void change_gemma2(Config *c) {
    c->layers[1].window = 0;
    c->score_softcap = 2.0f;
    c->logit_softcap = 30.0f;
}

static void change_granite(Config *c) {
    c->embedding_scale = 6.0f;
    c->residual_scale = 0.4f;
    c->logit_divisor = 5.0f;
}

static void change_ministral(Config *c) {
    c->rope.query_growth = 0.5f;
    c->rope.original_max_seq_len = 2; // queries grow from the third position on
}

static void change_gpt_neox(Config *c) {
    c->parallel_residual = true;
}

Test(passes, and_with_what_else_families_have) {
    TinyShape shape = tiny_shape_of_blocks();
    check_types(shape, change_smollm3, "a layer that does not rotate");
    shape.window = WINDOW; // fewer keys than steps
    check_types(shape, change_half, "a window, and half of a head's channels rotate");
    shape.post_norms = true;
    shape.qk_norm = QK_NORM_PER_HEAD;
    check_types(shape, change_gemma, "gemma");
    shape = tiny_shape_of_blocks();
    check_types(shape, change_granite, "granite");
    check_types(shape, change_ministral, "ministral");
    check_types(shape, change_gpt_neox, "gpt_neox");
    shape.qk_norm = QK_NORM_PER_HEAD;
    check_types(shape, change_nanochat, "nanochat");
    shape.post_norms = true;
    shape.window = WINDOW;
    check_types(shape, change_gemma2, "gemma 2");
}

// ---- a prompt in one pass ----

// Logits after a prompt in passes of so many rows; malloced.
static float *logits_behind(const TinyModel *tiny, Precision precision, int max_rows) {
    int32_t tokens[PROMPT];
    size_t bytes = (size_t)tiny->config.vocab_size * sizeof(float);
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (7 * i + 3) % tiny->config.vocab_size;
    Model *model =
        tiny_model_run(tiny, (ModelOptions){.precision = precision, .max_rows = max_rows});
    tiny_model_forward(model, &(Batch){.n = PROMPT, .tokens = tokens});
    float *logits = malloc(bytes);
    CHECK(logits, "memory");
    memcpy(logits, model_logits(model, 0), bytes);
    model_close(model);
    return logits;
}

// On a GPU: the tensor cores against our own kernels, for 16 rows at a time.
Test(passes, a_whole_prompt_gives_nearly_the_logits_of_small_chunks) {
    static const DType TYPES[] = {DTYPE_BF16, DTYPE_Q8_0};
    static const double ALLOWED[] = {1e-4, 4e-3, 1.5}; // f32, a16, a8; logits of up to 8
    TinyShape shape = tiny_shape();
    shape.max_seq_len = 80;
    shape.n_layers = EMULATED(1, 3);
    shape.dim = 64, shape.head_dim = 32, shape.hidden_dim = 96;
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        shape.dtype = TYPES[t];
        TinyModel *tiny = tiny_model_open(&shape);
        for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++) {
            float *a = logits_behind(tiny, p, PROMPT), *b = logits_behind(tiny, p, 16);
            for (int i = 0; i < shape.vocab_size; i++)
                CHECK(fabs((double)a[i] - (double)b[i]) <= ALLOWED[p],
                      "type %d, precision %d, token %d: %.6g in one pass, %.6g in pieces",
                      (int)TYPES[t], (int)p, i, (double)a[i], (double)b[i]);
            free(a), free(b);
        }
        tiny_model_close(tiny);
    }
}

// ---- a prompt with a listener, and without ----

// A prompt that fits one pass, and its second half again behind it. On the emulator a sum has the
// same order either way; on a GPU cuBLASLt may add the residual stream elsewhere in it.
static void check_same_prompt(const TinyModel *tiny, Precision precision, KvType type,
                              const char *what) {
    static const double ALLOWED[] = {1e-4, 4e-3, 1.5}; // as in the test above
    int32_t tokens[PROMPT];
    Error error = {0};
    ModelOptions options = {.precision = precision, .kv_type = type, .max_rows = PROMPT};
    Model *fused = tiny_model_run(tiny, options), *plain = tiny_model_run(tiny, options);
    CHECK(model_listen(plain, look, NULL, false, &error), "%s", error.message);
    for (int i = 0; i < PROMPT; i++)
        tokens[i] = (7 * i + 3) % tiny->config.vocab_size;
    bool is_gpu = !strcmp(TEST_BACKEND, "cuda") && !EMULATED(1, 0);
    for (int pass = 0; pass < 2; pass++) {
        Batch batch = {.n = PROMPT, .tokens = tokens};
        tiny_model_forward(fused, &batch), tiny_model_forward(plain, &batch);
        const float *a = model_logits(fused, 0), *b = model_logits(plain, 0);
        for (int t = 0; t < tiny->config.vocab_size; t++)
            CHECK(is_gpu ? fabs((double)a[t] - (double)b[t]) <= ALLOWED[precision] : a[t] == b[t],
                  "%s, %s, precision %d, pass %d, token %d: fused %.9g, plain %.9g", what,
                  dtype_info(tiny->weights.head.dtype)->name, (int)precision, pass, t, (double)a[t],
                  (double)b[t]);
    }
    model_close(fused), model_close(plain);
}

static void check_prompts(TinyShape shape, Change *change, const char *what) {
    static const struct {
        DType dtype;
        Precision precision;
        KvType type;
    } TYPES[] = {{DTYPE_F32, PRECISION_A16, KV_F16},
                 {DTYPE_BF16, PRECISION_A16, KV_F16},
                 {DTYPE_Q8_0, PRECISION_A16, KV_F32},
                 {DTYPE_Q4_0, PRECISION_A8, KV_F16}};
    shape.max_seq_len = 2 * PROMPT;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        shape.dtype = TYPES[i].dtype;
        TinyModel *tiny = tiny_model_open(&shape);
        if (change) change(&tiny->config);
        check_same_prompt(tiny, TYPES[i].precision, TYPES[i].type, what);
        tiny_model_close(tiny);
    }
}

Test(passes, a_prompt_gives_the_same_fused_and_in_single_operations) {
    TinyShape shape = tiny_shape_of_blocks();
    check_prompts(shape, NULL, "llama");
    shape.qk_norm = QK_NORM_PER_HEAD;
    shape.post_norms = true;
    check_prompts(shape, change_gemma, "gemma");
    shape = tiny_shape_of_blocks();
    check_prompts(shape, change_granite, "granite");
    check_prompts(shape, change_gpt_neox, "gpt_neox");
    shape.biases = shape.layer_norm = shape.plain_ffn = shape.learned = true;
    check_prompts(shape, NULL, "gpt2");
    shape = tiny_shape_of_blocks();
    shape.post_norms = shape.no_pre_norms = true;
    check_prompts(shape, NULL, "post norms");
}

// Rows of 41 and 70 columns: parts have zeros behind them; and a model of two types of matrices.
Test(passes, and_with_odd_sizes_and_several_types) {
    static const DType TYPES[][2] = {{DTYPE_BF16, DTYPE_F32}, {DTYPE_Q8_0, DTYPE_F16}};
    TinyShape shape = tiny_shape();
    shape.max_seq_len = 2 * PROMPT;
    shape.n_layers = 1;
    shape.dim = 41, shape.hidden_dim = 70;
    shape.dtype = DTYPE_BF16;
    TinyModel *tiny = tiny_model_open(&shape);
    for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++)
        check_same_prompt(tiny, p, KV_F16, "odd sizes");
    tiny_model_close(tiny);
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        shape = tiny_shape_of_blocks();
        shape.max_seq_len = 2 * PROMPT;
        shape.dtype = TYPES[i][0];
        tiny = tiny_model_open(&shape);
        tiny_model_mix(tiny, TYPES[i][1], i % 2);
        for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++)
            check_same_prompt(tiny, p, KV_F16, "several types");
        tiny_model_close(tiny);
    }
}
