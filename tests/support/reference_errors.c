#include "tests/support/reference_errors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- tensors of the reference ----

// NULL, and `missing` filled, where it is not there or has other dimensions. A dimension of 0 is
// any.
static const TensorPlan *tensor(ReferenceRun *run, const char *what, uint32_t rank,
                                const uint64_t *shape) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", run->prompt, what);
    const SafetensorsTensor *found = safetensors_find(&run->reference, name);
    bool good = found && found->plan.n_dims == rank;
    if (rank > 1) good = good && found->plan.dtype == DTYPE_F32; // ids have one dimension
    for (uint32_t i = 0; good && i < rank; i++)
        good = !shape[i] || found->plan.shape[i] == shape[i];
    if (good) return &found->plan;
    error_set(&run->missing, ERROR_FILE, "the reference has no %s of the model's shape", name);
    return NULL;
}

// int64 at any alignment. The count; 0 where there are none or too many.
static int whole_numbers(ReferenceRun *run, const char *what, int32_t *out, int room) {
    const TensorPlan *plan = tensor(run, what, 1, (const uint64_t[]){0});
    if (!plan || plan->bytes != 8 * plan->shape[0] || plan->shape[0] > (uint64_t)room) return 0;
    for (uint64_t i = 0; i < plan->shape[0]; i++) {
        int64_t number;
        memcpy(&number, plan->data + 8 * i, 8);
        out[i] = (int32_t)number;
    }
    return (int)plan->shape[0];
}

static float element(const TensorPlan *plan, size_t i) {
    float value;
    memcpy(&value, plan->data + 4 * i, 4);
    return value;
}

static double largest_of(const TensorPlan *plan) {
    double largest = 0;
    for (size_t i = 0; i < plan->bytes / 4; i++)
        largest = fmax(largest, fabs((double)element(plan, i)));
    return largest;
}

// The positions that the reference was computed for, which some kinds of rope depend on. longrope's
// references were computed without a limit: it chooses by the length of each prompt.
static int context_of(const ReferenceRun *run, const char *prompt) {
    int longest = checkpoint_config(run->checkpoint)->max_seq_len;
    int32_t context = longest < 128 ? longest : 128;
    const SafetensorsTensor *given = safetensors_find(&run->reference, "context");
    if (given && given->plan.bytes == 8) {
        memcpy(&context, given->plan.data, sizeof context);
    } else if (prompt && checkpoint_config(run->checkpoint)->rope.scaling == ROPE_LONGROPE) {
        char name[64];
        snprintf(name, sizeof name, "%s.input_ids", prompt);
        const SafetensorsTensor *ids = safetensors_find(&run->reference, name);
        if (ids) context = (int32_t)(ids->plan.bytes / 8) + REFERENCE_MAX_GREEDY;
    }
    return context;
}

// ---- comparing ----

// Keeps the largest; NaN, once met, stays.
static void keep(ReferenceRun *run, double *worst, double error, double budget, const char *what,
                 size_t row) {
    if (!(error <= *worst) && !isnan(*worst)) *worst = error;
    if (!(error <= budget))
        error_set(&run->over, ERROR_ANSWER_NO, "%s.%s, row %zu: off by %.3g, more than %.3g",
                  run->prompt, what, row, error, budget);
}

// Row `row` of a reference tensor against `got`, both as a share of `scale`; the largest error.
static double row_error(const TensorPlan *plan, size_t row, const float *got, double scale) {
    size_t width = plan->shape[1];
    double worst = 0;
    for (size_t i = 0; i < width; i++) {
        double error = fabs((double)got[i] - (double)element(plan, row * width + i)) / scale;
        if (!(error <= worst)) worst = error; // NaN stays
    }
    return worst;
}

static void compare_logits(ReferenceRun *run, const char *what, size_t row, const float *got) {
    uint64_t vocab_size = (uint64_t)checkpoint_config(run->checkpoint)->vocab_size;
    const TensorPlan *plan = tensor(run, what, 2, (const uint64_t[]){0, vocab_size});
    if (plan && row < plan->shape[0])
        keep(run, &run->worst.logits, row_error(plan, row, got, 1), run->budget.logits, what, row);
}

// A stage of rows as wide as the model.
static void compare_rows(ReferenceRun *run, const Stage *stage, const char *what) {
    uint64_t n = (uint64_t)stage->rows.n;
    uint64_t dim = (uint64_t)checkpoint_config(run->checkpoint)->dim;
    const TensorPlan *plan = tensor(run, what, 2, (const uint64_t[]){n, dim});
    if (!plan) return;
    double scale = largest_of(plan);
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)stage->rows.positions[i];
        double error = row_error(plan, row, stage->data + i * dim, scale);
        keep(run, &run->worst.rows, error, run->budget.rows, what, row);
    }
}

// (n, n_heads, context) here, (n_heads, T, T) there, where what is masked is exactly 0.
static void compare_weights(ReferenceRun *run, const Stage *stage, const char *what) {
    size_t length = (size_t)stage->shape[0], heads = (size_t)stage->shape[1];
    size_t room = (size_t)stage->shape[2];
    const TensorPlan *plan = tensor(run, what, 3, (const uint64_t[]){heads, length, length});
    if (!plan) return;
    for (size_t i = 0; i < length; i++)
        for (size_t h = 0; h < heads; h++)
            for (size_t t = 0; t < length; t++) {
                float got = stage->data[(i * heads + h) * room + t];
                float wanted = element(plan, (h * length + i) * length + t);
                double error = fabs((double)got - (double)wanted);
                bool leaks = wanted == 0.0f && got != 0.0f;
                keep(run, &run->worst.weights, leaks ? INFINITY : error, run->budget.weights, what,
                     i);
            }
}

static void compare_stage(void *context, const Model *model, const Stage *stage) {
    ReferenceRun *run = context;
    char what[40];
    (void)model;
    if (stage->id == STAGE_EMBEDDING || stage->id == STAGE_FINAL_NORM) {
        compare_rows(run, stage, stage->id == STAGE_EMBEDDING ? "embed" : "final_norm");
        run->ends_seen++;
    }
    if (stage->id == STAGE_LAYER_OUT) {
        snprintf(what, sizeof what, "layer_out.%02d", stage->layer);
        compare_rows(run, stage, what);
        run->layers_seen++;
    }
    if (stage->id == STAGE_ATT_WEIGHTS) {
        snprintf(what, sizeof what, "attn.%02d", stage->layer);
        compare_weights(run, stage, what);
        run->weights_seen++;
    }
}

static int best(const float *logits, int n) {
    int at = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

static bool measure_prompt(ReferenceRun *run, const Batch *batch, Error *error) {
    const Config *config = checkpoint_config(run->checkpoint);
    run->layers_seen = run->weights_seen = run->ends_seen = 0;
    kv_cache_reset(&run->model->cache, 0);
    bool good = model_listen(run->model, compare_stage, run, true, error) &&
                model_forward(run->model, batch, error);
    for (int i = 0; good && i < batch->n; i++)
        compare_logits(run, "logits", (size_t)i, model_logits(run->model, i));
    if (good && (run->layers_seen != config->n_layers || run->weights_seen != config->n_layers ||
                 run->ends_seen != 2))
        good = error_set(error, ERROR_ANSWER_NO, "%d layers, %d of attention weights, %d ends seen",
                         run->layers_seen, run->weights_seen, run->ends_seen);
    return model_listen(run->model, NULL, NULL, false, error) && good;
}

// The reference's ids are fed, so that one that differs is counted once.
static bool measure_greedy(ReferenceRun *run, const float *logits, Error *error) {
    int32_t greedy[REFERENCE_MAX_GREEDY];
    int n = whole_numbers(run, "greedy_ids", greedy, REFERENCE_MAX_GREEDY);
    if (run->max_greedy && n > run->max_greedy) n = run->max_greedy;
    for (int i = 0; i < n; i++) {
        compare_logits(run, "greedy_logits", (size_t)i, logits);
        int32_t id = best(logits, checkpoint_config(run->checkpoint)->vocab_size);
        run->greedy++;
        run->greedy_equal += id == greedy[i];
        if (id != greedy[i])
            error_set(&run->over, ERROR_ANSWER_NO, "%s.greedy_ids[%d]: got %d, wanted %d",
                      run->prompt, i, id, greedy[i]);
        Batch next = {.n = 1, .tokens = &greedy[i]};
        if (!model_forward(run->model, &next, error)) return false;
        logits = model_logits(run->model, 0);
    }
    return n || error_set(error, ERROR_FILE, "the reference has no %s.greedy_ids", run->prompt);
}

// ---- the header's functions ----

static Model *open_model(const ReferenceRun *run, const Config *config, Error *error) {
    ModelOptions options = {.threads = 2,
                            .precision = PRECISION_F32,
                            .context = context_of(run, run->prompt),
                            .max_logit_rows = REFERENCE_MAX_PROMPT};
    return model_open(config, checkpoint_weights(run->checkpoint), &options, error);
}

bool reference_open(ReferenceRun *run, const char *reference, const char *model, Error *error) {
    *run = (ReferenceRun){.budget = {INFINITY, INFINITY, INFINITY}};
    if (!safetensors_open(&run->reference, reference, error)) return false;
    if (checkpoint_open(&run->checkpoint, model, error))
        run->model = open_model(run, checkpoint_config(run->checkpoint), error);
    if (run->model) return true;
    reference_close(run);
    return false;
}

void reference_close(ReferenceRun *run) {
    model_close(run->model);
    checkpoint_close(run->checkpoint);
    safetensors_close(&run->reference);
}

bool reference_measure(ReferenceRun *run, const char *prompt, Error *error) {
    int32_t tokens[REFERENCE_MAX_PROMPT];
    bool all[REFERENCE_MAX_PROMPT];
    memset(all, true, sizeof all);
    run->prompt = prompt;
    if (context_of(run, prompt) != run->model->options.context) {
        model_close(run->model);
        run->model = open_model(run, checkpoint_config(run->checkpoint), error);
        if (!run->model) return false;
    }
    Batch batch = {.tokens = tokens, .wants_logits = all};
    batch.n = whole_numbers(run, "input_ids", tokens, REFERENCE_MAX_PROMPT);
    if (!batch.n) return error_set(error, ERROR_FILE, "the reference has no %s.input_ids", prompt);
    bool good = measure_prompt(run, &batch, error) &&
                measure_greedy(run, model_logits(run->model, batch.n - 1), error);
    if (good && run->missing.code) good = error_copy(error, &run->missing);
    return good;
}

bool reference_mistake(const ReferenceRun *run, const Config *config, const char *prompt,
                       double *worst, Error *error) {
    int32_t tokens[REFERENCE_MAX_PROMPT];
    bool all[REFERENCE_MAX_PROMPT];
    memset(all, true, sizeof all);
    ReferenceRun changed = *run;
    changed.prompt = prompt;
    changed.worst = (ReferenceErrors){0};
    changed.model = open_model(run, config, error);
    if (!changed.model) return false;
    Batch batch = {.tokens = tokens, .wants_logits = all};
    batch.n = whole_numbers(&changed, "input_ids", tokens, REFERENCE_MAX_PROMPT);
    bool good = model_forward(changed.model, &batch, error);
    for (int i = 0; good && i < batch.n; i++)
        compare_logits(&changed, "logits", (size_t)i, model_logits(changed.model, i));
    model_close(changed.model);
    *worst = changed.worst.logits;
    return good;
}
