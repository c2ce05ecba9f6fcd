#include "tests/support/reference_model.h"

#include "tests/test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(char path[700], const char *directory, const char *name) {
    snprintf(path, 700, "%s/%s", directory, name);
}

// A directory with the same files, in which config.v4.json is the config.json.
static const char *version_4(const char *directory) {
    static int n;
    char name[100], from[700], to[700], *here = getcwd(NULL, 0);
    snprintf(name, sizeof name, "v4-%d", n++);
    const char *copy = test_temporary(name);
    CHECK(!mkdir(copy, 0700));
    DIR *files = opendir(directory);
    for (struct dirent *entry; (entry = readdir(files));) {
        if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "config.json")) continue;
        bool config = !strcmp(entry->d_name, "config.v4.json");
        snprintf(from, sizeof from, "%s/%s/%s", here, directory, entry->d_name);
        path_of(to, copy, config ? "config.json" : entry->d_name);
        CHECK(!symlink(from, to), "%s", to);
    }
    closedir(files);
    free(here);
    return copy;
}

// ---- tensors of the reference ----

static const TensorPlan *tensor(const ReferenceModel *m, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", m->prompt, what);
    const SafetensorsTensor *found = safetensors_find(&m->reference, name);
    CHECK(found, "%s has no %s", m->directory, name);
    return &found->plan;
}

// ids of the reference, int64 at any alignment.
static int whole_numbers(const TensorPlan *plan, int32_t *out, int room) {
    int count = (int)plan->shape[0];
    CHECK(count <= room);
    for (int i = 0; i < count; i++) {
        int64_t number;
        memcpy(&number, plan->data + 8 * i, 8);
        out[i] = (int32_t)number;
    }
    return count;
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

// The positions that the reference was computed for, which some kinds of rope depend on.
static int context_of(const ReferenceModel *m) {
    int longest = checkpoint_config(m->checkpoint)->max_seq_len;
    int32_t context = longest < 128 ? longest : 128;
    const SafetensorsTensor *given = safetensors_find(&m->reference, "context");
    if (given) whole_numbers(&given->plan, &context, 1);
    return context;
}

// ---- comparing ----

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

static void check_error(const ReferenceModel *m, const char *what, size_t row, double error,
                        double budget, double *worst) {
    if (!(error <= budget))
        TEST_FAIL("%s %s.%s, row %zu: off by %.3g, more than %.3g", m->directory, m->prompt, what,
                  row, error, budget);
    *worst = fmax(*worst, error);
}

static void check_logits(ReferenceModel *m, const char *what, size_t row, const float *got) {
    check_error(m, what, row, row_error(tensor(m, what), row, got, 1), m->budget.logits,
                &m->worst.logits);
}

// A stage of rows as wide as the model.
static void compare_rows(ReferenceModel *m, const Stage *stage, const char *what) {
    const TensorPlan *plan = tensor(m, what);
    double scale = largest_of(plan);
    CHECK_INT(stage->rows.n, plan->shape[0]);
    for (int i = 0; i < stage->rows.n; i++) {
        size_t row = (size_t)stage->rows.positions[i];
        double error = row_error(plan, row, stage->data + (size_t)i * plan->shape[1], scale);
        check_error(m, what, row, error, m->budget.rows, &m->worst.rows);
    }
}

// (n, n_heads, context) here, (n_heads, T, T) there, where what is masked is exactly 0.
static void compare_weights(ReferenceModel *m, const Stage *stage, const char *what) {
    const TensorPlan *plan = tensor(m, what);
    size_t heads = plan->shape[0], length = plan->shape[1], room = (size_t)stage->shape[2];
    CHECK(stage->shape[0] == (int)length && stage->shape[1] == (int)heads && room >= length);
    for (size_t i = 0; i < length; i++)
        for (size_t h = 0; h < heads; h++)
            for (size_t t = 0; t < length; t++) {
                float got = stage->data[(i * heads + h) * room + t];
                float wanted = element(plan, (h * length + i) * length + t);
                check_error(m, what, i, fabs((double)got - (double)wanted),
                            wanted == 0.0f ? 0 : m->budget.weights, &m->worst.weights);
            }
}

static void compare_stage(void *context, const Model *model, const Stage *stage) {
    ReferenceModel *m = context;
    char what[40];
    (void)model;
    if (stage->id == STAGE_EMBEDDING || stage->id == STAGE_FINAL_NORM) {
        compare_rows(m, stage, stage->id == STAGE_EMBEDDING ? "embed" : "final_norm");
        m->ends_seen++;
    }
    if (stage->id == STAGE_LAYER_OUT) {
        snprintf(what, sizeof what, "layer_out.%02d", stage->layer);
        compare_rows(m, stage, what);
        m->layers_seen++;
    }
    if (stage->id == STAGE_ATT_WEIGHTS) {
        snprintf(what, sizeof what, "attn.%02d", stage->layer);
        compare_weights(m, stage, what);
        m->weights_seen++;
    }
}

static int best(const float *logits, int n) {
    int at = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

static void check_prompt(ReferenceModel *m, Batch *batch) {
    const Config *config = checkpoint_config(m->checkpoint);
    Error error = {0};
    m->layers_seen = m->weights_seen = m->ends_seen = 0;
    kv_cache_reset(&m->model->cache, 0);
    CHECK(model_listen(m->model, compare_stage, m, true, &error), "%s", error.message);
    CHECK(model_forward(m->model, batch, &error), "%s", error.message);
    CHECK_INT(m->layers_seen, config->n_layers);
    CHECK_INT(m->weights_seen, config->n_layers);
    CHECK_INT(m->ends_seen, 2);
    CHECK(model_listen(m->model, NULL, NULL, false, &error), "%s", error.message);
    for (int i = 0; i < batch->n; i++)
        check_logits(m, "logits", (size_t)i, model_logits(m->model, i));
}

static void check_greedy(ReferenceModel *m, const float *logits) {
    int32_t greedy[REFERENCE_MAX_GREEDY];
    Error error = {0};
    int n = whole_numbers(tensor(m, "greedy_ids"), greedy, REFERENCE_MAX_GREEDY);
    CHECK(n > 0);
    for (int i = 0; i < n; i++) {
        check_logits(m, "greedy_logits", (size_t)i, logits);
        int32_t id = best(logits, checkpoint_config(m->checkpoint)->vocab_size);
        CHECK_INT(id, greedy[i]);
        Batch next = {.n = 1, .tokens = &id};
        CHECK(model_forward(m->model, &next, &error), "%s", error.message);
        logits = model_logits(m->model, 0);
    }
}

// ---- the header's functions ----

static Model *open_model(const ReferenceModel *m, const Config *config) {
    Error error = {0};
    ModelOptions options = {.threads = 2,
                            .precision = PRECISION_F32,
                            .context = context_of(m),
                            .max_logit_rows = REFERENCE_MAX_PROMPT};
    Model *model = model_open(config, checkpoint_weights(m->checkpoint), &options, &error);
    CHECK(model, "%s: %s", m->directory, error.message);
    return model;
}

void reference_model_open(ReferenceModel *m, const char *directory, bool spelling_4,
                          const ReferenceErrors *budget) {
    char path[700];
    Error error = {0};
    *m = (ReferenceModel){.directory = directory, .budget = *budget};
    path_of(path, directory, "reference.safetensors");
    CHECK(safetensors_open(&m->reference, path, &error), "%s", error.message);
    const char *files = spelling_4 ? version_4(directory) : directory;
    CHECK(checkpoint_open(&m->checkpoint, files, &error), "%s: %s", directory, error.message);
    m->model = open_model(m, checkpoint_config(m->checkpoint));
}

void reference_model_check(ReferenceModel *m, const char *prompt) {
    int32_t tokens[REFERENCE_MAX_PROMPT];
    bool all[REFERENCE_MAX_PROMPT];
    memset(all, true, sizeof all);
    m->prompt = prompt;
    Batch batch = {.tokens = tokens, .wants_logits = all};
    batch.n = whole_numbers(tensor(m, "input_ids"), tokens, REFERENCE_MAX_PROMPT);
    check_prompt(m, &batch);
    check_greedy(m, model_logits(m->model, batch.n - 1));
}

double reference_model_error(const ReferenceModel *m, const Config *config, const char *prompt) {
    int32_t tokens[REFERENCE_MAX_PROMPT];
    bool all[REFERENCE_MAX_PROMPT];
    Error error = {0};
    ReferenceModel bent = *m;
    bent.prompt = prompt;
    bent.model = open_model(m, config);
    memset(all, true, sizeof all);
    Batch batch = {.tokens = tokens, .wants_logits = all};
    batch.n = whole_numbers(tensor(&bent, "input_ids"), tokens, REFERENCE_MAX_PROMPT);
    CHECK(model_forward(bent.model, &batch, &error), "%s", error.message);
    double worst = 0;
    for (int i = 0; i < batch.n; i++)
        worst = fmax(worst,
                     row_error(tensor(&bent, "logits"), (size_t)i, model_logits(bent.model, i), 1));
    model_close(bent.model);
    return worst;
}

void reference_model_close(ReferenceModel *m) {
    model_close(m->model);
    checkpoint_close(m->checkpoint);
    safetensors_close(&m->reference);
}
