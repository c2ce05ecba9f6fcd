// Models of every family and of every rope scaling, made by scripts/make_tiny_models.py with odd
// sizes, against scripts/reference_numpy.py in float64, which was written from the definitions and
// not from limpid.
//
// Budgets: a float32 pass over these sizes (2 to 4 layers, sums of at most 132 products) is off the
// float64 one by roundings alone. Measured on both backends: at most 2.1e-5 of a logit (the largest
// is 10), 1.8e-6 of a layer's largest value, 2.1e-6 of an attention weight; five times that is
// allowed, and the last test shows that the smallest mistake is twenty times the budget, most are
// ten thousand times it.
#include "tests/support/reference_model.h"
#include "tests/test.h"

#include <unistd.h>

static const char FOLDER[] = "build/tiny-models";
enum { N_MODELS = 61, SEEN = 20 };
static const ReferenceErrors BUDGET = {.logits = 1e-4, .rows = 1e-5, .weights = 1e-5};

typedef char Path[200];

// Whether the measured errors are printed.
static bool figures(void) {
    return getenv("LIMPID_FIGURES") != NULL;
}

// The directories that models.txt lists. Without it there was no numpy to make them.
static void list_models(Path models[N_MODELS]) {
    Path path;
    size_t size;
    int n = 0;
    snprintf(path, sizeof path, "%s/models.txt", FOLDER);
    if (access(path, R_OK))
        SKIP("no %s: they are made with numpy (apt install python3-numpy)", path);
    char *text = test_read_file(path, &size);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), n++)
        if (n < N_MODELS) snprintf(models[n], sizeof models[n], "%s/%s", FOLDER, line);
    free(text);
    CHECK_INT(n, N_MODELS);
}

static void check_model(const char *directory, const char *files) {
    ReferenceModel model;
    reference_model_open(&model, directory, files, &BUDGET);
    reference_model_check(&model, "p0");
    reference_model_check(&model, "p1");
    if (figures())
        fprintf(stderr, "%-44s logits %.1e  rows %.1e  weights %.1e\n", directory,
                model.run.worst.logits, model.run.worst.rows, model.run.worst.weights);
    reference_model_close(&model);
}

// The family comes first in a model's name, and the list is sorted.
static bool same_family(const char *a, const char *b) {
    size_t family = strcspn(strrchr(b, '/'), "-") + (size_t)(strrchr(b, '/') - b);
    return !strncmp(a, b, family);
}

static void skip_on_emulator(void) {
    if (TEST_EMULATED) SKIP("the reader has no part in a device, and it takes minutes");
}

static void check_models(bool spelling_4) {
    Path models[N_MODELS];
    list_models(models);
    for (int i = 0; i < N_MODELS; i++) {
        if (TEST_EMULATED && i && same_family(models[i - 1], models[i])) continue;
        check_model(models[i], spelling_4 ? reference_model_version_4(models[i]) : NULL);
    }
}

Test(tiny_models, logits_layers_weights_and_greedy_ids_are_those_of_numpy) {
    check_models(false);
}

Test(tiny_models, the_spelling_of_transformers_4_is_the_same_model) {
    skip_on_emulator();
    check_models(true);
}

// ---- converted ----

// What GGUF has no key for; the message of the refusal names it.
static const struct {
    const char *model, *reason;
} NOT_IN_GGUF[] = {
    {"gpt2-by-layer", "scaled differently in every layer"},
    {"gpt2-unscaled-erf", "its activation"},
    {"llama-dynamic", "dynamic NTK"},
    {"llama-dynamic-short", "dynamic NTK"},
    {"llama-yarn-mscale", "two mscales"},
    {"llama-yarn-untruncated", "without rounding"},
    {"phi3-partial-odd", "an odd number of rotary channels"},
    {"qwen2-window-from-layer", "windows in some of its layers"},
    {"qwen3-window-listed", "windows in some of its layers"},
    {"smollm3", "which of its layers do not rotate"},
    {"smollm3-interval", "which of its layers do not rotate"},
    {"smollm3-window", "which of its layers do not rotate"},
};

static const char *reason_against_gguf(const char *directory) {
    const char *name = strrchr(directory, '/') + 1;
    for (size_t i = 0; i < sizeof NOT_IN_GGUF / sizeof *NOT_IN_GGUF; i++)
        if (!strcmp(NOT_IN_GGUF[i].model, name)) return NOT_IN_GGUF[i].reason;
    return NULL;
}

// The converted model is the same, or it is refused for a reason listed above.
static void check_converted(const char *suffix) {
    Path models[N_MODELS];
    list_models(models);
    for (int i = 0; i < N_MODELS; i++) {
        char name[40];
        snprintf(name, sizeof name, "tiny-%d%s", i, suffix);
        const char *out = test_temporary(name);
        const char *reason = *suffix ? reason_against_gguf(models[i]) : NULL;
        const char *convert[] = {TEST_RUN, "convert", models[i], out, "-q", NULL};
        TestRun run = test_run(convert, NULL, 0);
        CHECK_INT(run.status, reason ? ERROR_FILE : 0);
        CHECK(!reason || strstr(run.err, reason), "%s: %s", models[i], run.err);
        test_run_free(&run);
        if (!reason) check_model(models[i], out);
    }
}

Test(tiny_models, converted_to_gguf_they_are_the_same_or_refused_by_name) {
    skip_on_emulator();
    check_converted(".gguf");
}

Test(tiny_models, converted_to_a_directory_they_are_the_same) {
    skip_on_emulator();
    check_converted("");
}

// ---- mistakes ----

enum {
    PLAIN = 1 << ROPE_PLAIN,
    LLAMA3 = 1 << ROPE_LLAMA3,
    YARN = 1 << ROPE_YARN,
    LONGROPE = 1 << ROPE_LONGROPE,
    STRETCHED = 1 << ROPE_LINEAR | 1 << ROPE_DYNAMIC_NTK | LLAMA3 | YARN,
    ALL = PLAIN | STRETCHED | LONGROPE,
};

// A wrong number of the config: a fifth too large, unless `make` changes it.
typedef struct Mistake {
    const char *what;
    unsigned scalings;            // of the models that have it
    size_t number;                // where in RopeConfig the float stands, or
    bool (*make)(Config *config); // false: this model has no such thing
} Mistake;

static bool window_one_more(Config *c) {
    bool any = false;
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].window) any = ++c->layers[l].window;
    return any;
}

static bool window_one_less(Config *c) {
    bool any = false;
    for (int l = 0; l < c->n_layers; l++)
        if (c->layers[l].window) any = --c->layers[l].window;
    return any;
}

static bool no_windows(Config *c) {
    bool any = false;
    for (int l = 0; l < c->n_layers; l++) {
        any |= c->layers[l].window > 0;
        c->layers[l].window = 0;
    }
    return any;
}

static bool one_theta(Config *c) {
    bool any = false;
    for (int l = 0; l < c->n_layers; l++) {
        any |= c->layers[l].local_rope;
        c->layers[l].local_rope = false;
    }
    return any;
}

static bool rope_everywhere(Config *c) {
    bool any = false;
    for (int l = 0; l < c->n_layers; l++) {
        any |= c->layers[l].no_rope;
        c->layers[l].no_rope = false;
    }
    return any;
}

static bool scale_of_scores(Config *c) {
    for (int l = 0; l < c->n_layers; l++)
        c->layers[l].attention_scale *= 1.02f;
    return true;
}

static bool no_scaling(Config *c) {
    bool scaled = c->rope.scaling != ROPE_PLAIN;
    c->rope.scaling = ROPE_PLAIN;
    return scaled;
}

static bool other_way_round(Config *c) {
    c->rope.sign = -c->rope.sign;
    return c->position == POSITION_ROPE;
}

static bool whole_heads_turn(Config *c) {
    bool partial = c->rope_dim && c->rope_dim < c->head_dim;
    c->rope_dim = c->head_dim;
    return partial && c->rope.scaling != ROPE_LONGROPE; // which has no factors for the rest
}

static bool even_exponents(Config *c) {
    bool odd = c->rope.exponent_dim != 0;
    c->rope.exponent_dim = 0;
    return odd;
}

static bool original_length(Config *c) {
    c->rope.original_max_seq_len = c->rope.original_max_seq_len * 5 / 4;
    return c->rope.scaling == ROPE_LLAMA3 || c->rope.scaling == ROPE_YARN ||
           c->rope.scaling == ROPE_DYNAMIC_NTK;
}

static bool long_for_short(Config *c) {
    const float *other = c->rope.long_factor;
    c->rope.long_factor = c->rope.short_factor;
    c->rope.short_factor = other;
    return c->rope.scaling == ROPE_LONGROPE;
}

static bool truncation(Config *c) {
    c->rope.no_truncate = !c->rope.no_truncate;
    return c->rope.scaling == ROPE_YARN;
}

static bool other_gelu(Config *c) {
    bool gelu = c->activation == ACTIVATION_GELU_TANH || c->activation == ACTIVATION_GELU_ERF;
    c->activation =
        c->activation == ACTIVATION_GELU_ERF ? ACTIVATION_GELU_TANH : ACTIVATION_GELU_ERF;
    return gelu;
}

static bool norm_before_rope(Config *c) {
    c->qk_norm_after_rope = !c->qk_norm_after_rope;
    return c->qk_norm == QK_NORM_PER_HEAD && c->rope.sign > 0; // without weights it is the same
}

static bool rounded_embedding_scale(Config *c) {
    bool scaled = c->embedding_scale != 1.0f;
    c->embedding_scale *= 1.002f; // as bfloat16 would have it
    return scaled;
}

static bool no_cap(Config *c) {
    bool capped = c->logit_softcap != 0.0f;
    c->logit_softcap = 0;
    return capped;
}

static bool no_score_cap(Config *c) {
    bool capped = c->score_softcap != 0.0f;
    c->score_softcap = 0;
    return capped;
}

static bool whole_branches(Config *c) {
    bool scaled = c->residual_scale != 1.0f;
    c->residual_scale = 1.0f;
    return scaled;
}

static bool undivided_logits(Config *c) {
    bool divided = c->logit_divisor != 1.0f;
    c->logit_divisor = 1.0f;
    return divided;
}

static bool queries_of_one_size(Config *c) {
    bool grow = c->rope.query_growth != 0.0f;
    c->rope.query_growth = 0;
    return grow;
}

static bool one_block_after_another(Config *c) {
    bool parallel = c->parallel_residual;
    c->parallel_residual = false;
    return parallel;
}

static const Mistake MISTAKES[] = {
    {"theta", ALL, offsetof(RopeConfig, theta), NULL},
    {"factor", STRETCHED, offsetof(RopeConfig, factor), NULL},
    {"low_freq_factor", LLAMA3, offsetof(RopeConfig, low_freq_factor), NULL},
    {"high_freq_factor", LLAMA3, offsetof(RopeConfig, high_freq_factor), NULL},
    {"beta_fast", YARN, offsetof(RopeConfig, beta_fast), NULL},
    {"beta_slow", YARN, offsetof(RopeConfig, beta_slow), NULL},
    {"mscale", YARN, offsetof(RopeConfig, mscale), NULL},
    {"mscale_all_dim", YARN, offsetof(RopeConfig, mscale_all_dim), NULL},
    {"attention_factor", YARN | LONGROPE, offsetof(RopeConfig, attention_factor), NULL},
    {"longrope's factor", LONGROPE, offsetof(RopeConfig, factor), NULL},
    {"window + 1", 0, 0, window_one_more},
    {"window - 1", 0, 0, window_one_less},
    {"no windows", 0, 0, no_windows},
    {"one theta", 0, 0, one_theta},
    {"rope everywhere", 0, 0, rope_everywhere},
    {"scale of the scores", 0, 0, scale_of_scores},
    {"no scaling", 0, 0, no_scaling},
    {"other way round", 0, 0, other_way_round},
    {"whole heads turn", 0, 0, whole_heads_turn},
    {"even exponents", 0, 0, even_exponents},
    {"original length", 0, 0, original_length},
    {"long for short", 0, 0, long_for_short},
    {"truncation", 0, 0, truncation},
    {"other GELU", 0, 0, other_gelu},
    {"norm before rope", 0, 0, norm_before_rope},
    {"rounded embedding scale", 0, 0, rounded_embedding_scale},
    {"no cap", 0, 0, no_cap},
    {"no cap of the scores", 0, 0, no_score_cap},
    {"whole branches", 0, 0, whole_branches},
    {"undivided logits", 0, 0, undivided_logits},
    {"queries of one size", 0, 0, queries_of_one_size},
    {"one block after another", 0, 0, one_block_after_another},
};
enum { N_MISTAKES = sizeof MISTAKES / sizeof *MISTAKES };

// False where the model has nothing that this mistake could change.
static bool make_mistake(Config *config, const Mistake *mistake) {
    if (mistake->make) return mistake->make(config);
    float *number = (float *)((char *)&config->rope + mistake->number);
    bool has = config->position == POSITION_ROPE && *number > 0.0f &&
               (mistake->scalings >> config->rope.scaling & 1);
    *number *= 1.2f;
    return has;
}

// The largest error of each mistake over all models, and of each model over all mistakes.
Test(tiny_models, every_mistake_is_twenty_times_the_budget_and_every_model_sees_one) {
    skip_on_emulator();
    Path models[N_MODELS];
    double worst[N_MISTAKES] = {0};
    list_models(models);
    for (int i = 0; i < N_MODELS; i++) {
        ReferenceModel model;
        double in_model = 0;
        reference_model_open(&model, models[i], NULL, &BUDGET);
        for (int j = 0; j < N_MISTAKES; j++) {
            Config config = *checkpoint_config(model.run.checkpoint);
            if (!make_mistake(&config, &MISTAKES[j])) continue;
            double error = reference_model_error(&model, &config, "p1");
            in_model = fmax(in_model, error);
            worst[j] = fmax(worst[j], error);
        }
        CHECK(in_model > SEEN * BUDGET.logits, "%s: %g", models[i], in_model);
        reference_model_close(&model);
    }
    for (int j = 0; j < N_MISTAKES; j++) {
        if (figures()) fprintf(stderr, "%-24s %.3g\n", MISTAKES[j].what, worst[j]);
        CHECK(worst[j] > SEEN * BUDGET.logits, "%s: %g", MISTAKES[j].what, worst[j]);
    }
}
