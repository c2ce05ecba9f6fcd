// The error of each precision in a whole model: random models whose rows are multiples of 32 and of
// 256, with weights of every type, against float32 arithmetic on the same weights dequantised.
//
// Budgets, as shares of the largest value. f32 is the same arithmetic, so the same bits. In a16 and
// a8 an activation is off by at most half of amax / LEVELS of its 32 (precision.h): with amax about
// 2.5 deviations, one product is off by 2.2e-5 (a16) or 5.7e-3 (a8) of its deviation; eight
// products in a row and the worst of 1,212 logits make some three times that. Measured on both
// backends: a16 at most 5.2e-5 of a logit and 8.9e-5 of a layer, a8 1.5e-2 and 2.5e-2; twice that
// is allowed. In random blocks of Q2_K, Q4_K and Q5_K offsets nearly cancel what they are added
// to, which a trained model has no need of: 8.2e-5 and 1.2e-4, 3.3e-2 and 6.1e-2.
#include "model/model.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"
#include "weights/quant.h"

enum { TOKENS = 12 };

// Largest error, as a share of the largest value: of the logits, of any layer's residual stream.
typedef struct Errors {
    double logits, rows;
} Errors;

typedef struct Run {
    float *logits; // (TOKENS, vocab_size)
    float *rows;   // (n_layers, TOKENS, dim)
} Run;

static void keep_rows(void *context, const Model *model, const Stage *stage) {
    Run *run = context;
    size_t size = stage_size(stage);
    (void)model;
    if (stage->id == STAGE_LAYER_OUT)
        memcpy(run->rows + (size_t)stage->layer * size, stage->data, size * sizeof(float));
}

static Run run_model(const TinyModel *tiny, Precision precision) {
    const Config *c = &tiny->config;
    size_t vocab = (size_t)c->vocab_size;
    Run run = {malloc(TOKENS * vocab * sizeof(float)),
               malloc((size_t)c->n_layers * TOKENS * (size_t)c->dim * sizeof(float))};
    ModelOptions options = {.threads = 2, .precision = precision, .max_logit_rows = TOKENS};
    Error error = {0};
    int32_t tokens[TOKENS];
    bool all[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * 37 + 11) % c->vocab_size;
        all[i] = true;
    }
    Model *model = model_open(c, &tiny->weights, &options, &error);
    CHECK(model && run.logits && run.rows, "%s", error.message);
    CHECK(model_listen(model, keep_rows, &run, false, &error), "%s", error.message);
    Batch batch = {.n = TOKENS, .tokens = tokens, .wants_logits = all};
    CHECK(model_forward(model, &batch, &error), "%s", error.message);
    for (int i = 0; i < TOKENS; i++)
        memcpy(run.logits + (size_t)i * vocab, model_logits(model, i), vocab * sizeof(float));
    model_close(model);
    return run;
}

static void run_free(Run *run) {
    free(run->logits);
    free(run->rows);
}

static double error_of(const float *got, const float *wanted, size_t count) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - (double)wanted[i]);
        largest = fmax(largest, fabs((double)wanted[i]));
        if (!(error <= worst)) worst = error; // NaN stays
    }
    return worst / largest;
}

static Errors errors_of(const TinyModel *tiny, Precision precision, const Run *exact) {
    const Config *c = &tiny->config;
    Run run = run_model(tiny, precision);
    Errors errors = {error_of(run.logits, exact->logits, TOKENS * (size_t)c->vocab_size), 0};
    size_t size = TOKENS * (size_t)c->dim;
    for (size_t l = 0; l < (size_t)c->n_layers; l++)
        errors.rows =
            fmax(errors.rows, error_of(run.rows + l * size, exact->rows + l * size, size));
    run_free(&run);
    return errors;
}

static const char *const NAMES[] = {
    [PRECISION_F32] = "f32", [PRECISION_A16] = "a16", [PRECISION_A8] = "a8"};

static const Errors BUDGETS[] = {{0, 0}, {1e-4, 2e-4}, {3e-2, 5e-2}};
static const Errors CANCELLING[] = {{0, 0}, {1.6e-4, 2.5e-4}, {6e-2, 1.2e-1}};

// The three precisions on quantised weights; the exact ones are float32.
static void check_type(const TinyShape *shape, DType dtype) {
    bool cancels = dtype == DTYPE_Q2_K || dtype == DTYPE_Q4_K || dtype == DTYPE_Q5_K;
    const Errors *budgets = cancels ? CANCELLING : BUDGETS;
    Errors errors[3];
    TinyShape typed = *shape;
    typed.dtype = dtype;
    TinyModel *tiny = tiny_model_open(&typed), *plain = tiny_model_open(&typed);
    tiny_model_dequantise(plain);
    Run exact = run_model(plain, PRECISION_F32);
    for (Precision p = PRECISION_F32; p <= PRECISION_A8; p++) {
        errors[p] = errors_of(tiny, p, &exact);
        if (getenv("LIMPID_FIGURES"))
            fprintf(stderr, "%4d wide %-5s %-4s logits %.1e  rows %.1e\n", shape->dim,
                    dtype_info(dtype)->name, NAMES[p], errors[p].logits, errors[p].rows);
        CHECK(errors[p].logits <= budgets[p].logits && errors[p].rows <= budgets[p].rows,
              "%s %s: logits off by %.3g, rows by %.3g", dtype_info(dtype)->name, NAMES[p],
              errors[p].logits, errors[p].rows);
    }
    // 257 times the levels: a16 that is no better than a8 would be another precision.
    if (dtype_info(dtype)->block > 1)
        CHECK(errors[PRECISION_A8].logits > 50 * errors[PRECISION_A16].logits);
    run_free(&exact);
    tiny_model_close(plain);
    tiny_model_close(tiny);
}

// Rows of 256 and 512: whole blocks of every type.
Test(model_precisions, every_type_within_its_budget) {
    TinyShape shape = {.dim = 256,
                       .hidden_dim = 512,
                       .n_layers = 2,
                       .n_heads = 8,
                       .n_kv_heads = 2,
                       .head_dim = 32,
                       .vocab_size = 101,
                       .max_seq_len = 32,
                       .seed = 11};
    int types = 0;
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype_info(dtype)->gguf_type < 0) continue;
        check_type(&shape, dtype);
        types++;
    }
    CHECK_INT(types, 13);
}

// Rows of 96, 160 and 192, which blocks of 32 fill.
Test(model_precisions, rows_that_are_multiples_of_32) {
    static const DType TYPES[] = {DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0};
    TinyShape shape = {.dim = 96,
                       .hidden_dim = 160,
                       .n_layers = 2,
                       .n_heads = 6,
                       .n_kv_heads = 2,
                       .head_dim = 32,
                       .vocab_size = 101,
                       .max_seq_len = 32,
                       .seed = 12};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        check_type(&shape, TYPES[i]);
}
