// The reference models: what transformers computed in float32, against the whole path from the
// files to the logits. Tolerances are those of ../shared/data/reference-models/README.md: another
// order of summation stays within 2.5e-4 of the logits, 3e-5 of a layer's largest value and 1e-4 of
// the attention weights, and every mistake that it lists (a window off by one, another theta, no
// scaling) is a thousand times that.
#include "model/model.h"
#include "tests/test.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const MODELS[] = {
    "llama-tied", "llama-untied", "llama-rope-llama3", "mistral-window8", "qwen2",   "qwen3",
    "qwen3-bf16", "gemma3",       "gemma3-bf16",       "olmo2",           "smollm3", "phi3",
    "gpt2",       "nanochat"};
enum { N_MODELS = sizeof MODELS / sizeof *MODELS, MAX_PROMPT = 64, N_GREEDY = 32 };

typedef struct Loaded {
    Checkpoint *checkpoint;
    Model *model;
    SafetensorsFile reference;
    const char *name, *prompt;                // "llama-tied", "p1"
    int layers_seen, weights_seen, ends_seen; // stages that were compared
} Loaded;

static void path_of(char path[700], const char *directory, const char *name) {
    snprintf(path, 700, "%s/%s", directory, name);
}

// A directory with the same files, in which config.v4.json is the config.json.
static const char *version_4(const char *model, const char *directory) {
    char name[100], from[700], to[700], *here = getcwd(NULL, 0);
    snprintf(name, sizeof name, "v4-%s", model);
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

static Loaded load(const char *name, bool spelling_4) {
    Loaded loaded = {.name = name};
    char relative[100], path[700];
    Error error = {0};
    snprintf(relative, sizeof relative, "reference-models/%s", name);
    const char *directory = test_data(relative);
    path_of(path, directory, "reference.safetensors");
    CHECK(safetensors_open(&loaded.reference, path, &error), "%s", error.message);
    if (spelling_4) directory = version_4(name, directory);
    CHECK(checkpoint_open(&loaded.checkpoint, directory, &error), "%s", error.message);
    int longest = checkpoint_config(loaded.checkpoint)->max_seq_len;
    ModelOptions options = {.threads = 2,
                            .precision = PRECISION_F32,
                            .context = longest < 128 ? longest : 128,
                            .max_logit_rows = MAX_PROMPT};
    loaded.model = model_open(checkpoint_config(loaded.checkpoint),
                              checkpoint_weights(loaded.checkpoint), &options, &error);
    CHECK(loaded.model, "%s", error.message);
    return loaded;
}

static void unload(Loaded *loaded) {
    model_close(loaded->model);
    checkpoint_close(loaded->checkpoint);
    safetensors_close(&loaded->reference);
}

static const TensorPlan *reference(const Loaded *loaded, const char *what) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", loaded->prompt, what);
    const SafetensorsTensor *tensor = safetensors_find(&loaded->reference, name);
    CHECK(tensor, "%s has no %s", loaded->name, name);
    return &tensor->plan;
}

// ids of the reference, int64 at any alignment.
static int ids(const Loaded *loaded, const char *what, int32_t *out, int room) {
    const TensorPlan *plan = reference(loaded, what);
    int count = (int)plan->shape[0];
    CHECK(count <= room);
    for (int i = 0; i < count; i++) {
        int64_t id;
        memcpy(&id, plan->data + 8 * i, 8);
        out[i] = (int32_t)id;
    }
    return count;
}

// Row `row` of a reference tensor against `got`.
static void check_row(const Loaded *loaded, const char *what, const TensorPlan *plan, size_t row,
                      const float *got, double tolerance) {
    size_t width = plan->shape[1];
    for (size_t i = 0; i < width; i++) {
        float wanted;
        memcpy(&wanted, plan->data + 4 * (row * width + i), 4);
        double difference = fabs((double)got[i] - (double)wanted);
        if (!(difference <= tolerance))
            TEST_FAIL("%s %s.%s[%zu, %zu]: got %.9g, wanted %.9g", loaded->name, loaded->prompt,
                      what, row, i, (double)got[i], (double)wanted);
    }
}

static double largest_of(const TensorPlan *plan) {
    double largest = 0;
    for (size_t i = 0; i < plan->bytes / 4; i++) {
        float value;
        memcpy(&value, plan->data + 4 * i, 4);
        largest = fmax(largest, fabs((double)value));
    }
    return largest;
}

// A stage of rows as wide as the model.
static void compare_rows(const Loaded *loaded, const Stage *stage, const char *what) {
    const TensorPlan *plan = reference(loaded, what);
    double tolerance = 3e-5 * largest_of(plan);
    CHECK_INT(stage->rows.n, plan->shape[0]);
    for (int i = 0; i < stage->rows.n; i++)
        check_row(loaded, what, plan, (size_t)stage->rows.positions[i],
                  stage->data + (size_t)i * plan->shape[1], tolerance);
}

// (n, n_heads, context) here, (n_heads, T, T) there, where what is masked is exactly 0.
static void compare_weights(const Loaded *loaded, const Stage *stage, const char *what) {
    const TensorPlan *plan = reference(loaded, what);
    size_t heads = plan->shape[0], length = plan->shape[1], room = (size_t)stage->shape[2];
    CHECK(stage->shape[0] == (int)length && stage->shape[1] == (int)heads && room >= length);
    for (size_t i = 0; i < length; i++)
        for (size_t h = 0; h < heads; h++)
            for (size_t t = 0; t < length; t++) {
                float got = stage->data[(i * heads + h) * room + t], wanted;
                memcpy(&wanted, plan->data + 4 * ((h * length + i) * length + t), 4);
                if (!(fabsf(got - wanted) <= (wanted == 0.0f ? 0.0f : 1e-4f)))
                    TEST_FAIL("%s %s.%s[%zu, %zu, %zu]: got %.9g, wanted %.9g", loaded->name,
                              loaded->prompt, what, h, i, t, (double)got, (double)wanted);
            }
}

static void compare_stage(void *context, const Model *model, const Stage *stage) {
    Loaded *loaded = context;
    char what[40];
    (void)model;
    if (stage->id == STAGE_EMBEDDING || stage->id == STAGE_FINAL_NORM) {
        compare_rows(loaded, stage, stage->id == STAGE_EMBEDDING ? "embed" : "final_norm");
        loaded->ends_seen++;
    }
    if (stage->id == STAGE_LAYER_OUT) {
        snprintf(what, sizeof what, "layer_out.%02d", stage->layer);
        compare_rows(loaded, stage, what);
        loaded->layers_seen++;
    }
    if (stage->id == STAGE_ATT_WEIGHTS) {
        snprintf(what, sizeof what, "attn.%02d", stage->layer);
        compare_weights(loaded, stage, what);
        loaded->weights_seen++;
    }
}

static int best(const float *logits, int n) {
    int at = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

// The prompt in one batch with all its logits, then 32 tokens one at a time.
static void check_prompt(Loaded *loaded, const char *prompt) {
    int32_t tokens[MAX_PROMPT], greedy[N_GREEDY];
    bool all[MAX_PROMPT];
    Error error = {0};
    loaded->prompt = prompt;
    loaded->layers_seen = loaded->weights_seen = loaded->ends_seen = 0;
    memset(all, true, sizeof all);
    int n = ids(loaded, "input_ids", tokens, MAX_PROMPT);
    int n_greedy = ids(loaded, "greedy_ids", greedy, N_GREEDY);
    const Config *config = checkpoint_config(loaded->checkpoint);
    kv_cache_reset(&loaded->model->cache, 0);
    CHECK(model_listen(loaded->model, compare_stage, loaded, true, &error), "%s", error.message);
    Batch batch = {.n = n, .tokens = tokens, .wants_logits = all};
    CHECK(model_forward(loaded->model, &batch, &error), "%s", error.message);
    CHECK_INT(loaded->layers_seen, config->n_layers);
    CHECK_INT(loaded->weights_seen, config->n_layers);
    CHECK_INT(loaded->ends_seen, 2);
    CHECK(model_listen(loaded->model, NULL, NULL, false, &error), "%s", error.message);
    for (int i = 0; i < n; i++)
        check_row(loaded, "logits", reference(loaded, "logits"), (size_t)i,
                  model_logits(loaded->model, i), 2.5e-4);
    const float *logits = model_logits(loaded->model, n - 1);
    for (int i = 0; i < n_greedy; i++) {
        check_row(loaded, "greedy_logits", reference(loaded, "greedy_logits"), (size_t)i, logits,
                  2.5e-4);
        int32_t id = best(logits, config->vocab_size);
        CHECK_INT(id, greedy[i]);
        CHECK(model_forward(loaded->model, &(Batch){.n = 1, .tokens = &id}, &error), "%s",
              error.message);
        logits = model_logits(loaded->model, 0);
    }
}

static void check_models(bool spelling_4) {
    for (int i = 0; i < N_MODELS; i++) {
        Loaded loaded = load(MODELS[i], spelling_4);
        check_prompt(&loaded, "p0");
        check_prompt(&loaded, "p1");
        unload(&loaded);
    }
}

Test(reference_models, logits_layers_and_greedy_ids_are_those_of_transformers) {
    check_models(false);
}

Test(reference_models, the_spelling_of_transformers_4_is_the_same_model) {
    check_models(true);
}
