// Real models against transformers in float32 on the same dequantised weights:
// SmolLM2-135M-Instruct (Q4_1) and Gemma 3 270M (Q4_K_M). The expected values of transformers are
// in tests/real/*.txt; scripts/real_models.py writes these files and explains their lines. The
// models are those of scripts/get_model in models/, or of LIMPID_SMOLLM2 and LIMPID_GEMMA3; without
// them the tests are skipped.
#include "model/model.h"
#include "tests/support/program.h"
#include "weights/checkpoint.h"

enum { MOST_PROMPTS = 8, MOST_IDS = 64, MOST_LOGITS = 256, MOST_WINDOWS = 64, LINE = 1 << 16 };

// Windows of the text that a test scores; scripts/how_exact scores more.
enum { TEST_WINDOWS = TEST_SANITIZED ? 1 : 4 };

typedef struct Expected {
    struct Prompt {
        int32_t ids[MOST_IDS], greedy[MOST_IDS], logit_ids[MOST_LOGITS];
        float margins[MOST_IDS], logits[MOST_LOGITS];
        int n_ids, n_greedy, n_margins, n_logits;
    } prompts[MOST_PROMPTS];
    double nll[MOST_WINDOWS];
    int n_prompts, n_windows;
} Expected;

typedef struct RealModel {
    const char *variable, *path, *expected;
} RealModel;

static const RealModel SMOLLM2 = {"LIMPID_SMOLLM2", "models/SmolLM2-135M-Instruct.Q4_1.gguf",
                                  "tests/real/smollm2.txt"};
static const RealModel GEMMA3 = {"LIMPID_GEMMA3", "models/gemma-3-270m-Q4_K_M.gguf",
                                 "tests/real/gemma3-270m.txt"};

static const char *model_path(const RealModel *real) {
    const char *path = getenv(real->variable);
    if (!path) path = real->path;
    FILE *file = fopen(path, "rb");
    if (!file) SKIP("no %s (scripts/get_model, or %s)", path, real->variable);
    fclose(file);
    return path;
}

// ---- expected values ----

static int read_ids(int32_t *out, int room, char *text) {
    int n = 0;
    for (char *end; n < room; n++, text = end) {
        out[n] = (int32_t)strtol(text, &end, 10);
        if (end == text) break;
    }
    return n;
}

static int read_numbers(float *out, int room, char *text) {
    int n = 0;
    for (char *end; n < room; n++, text = end) {
        out[n] = strtof(text, &end);
        if (end == text) break;
    }
    return n;
}

static void read_line(Expected *e, char *line) {
    struct Prompt *p = &e->prompts[e->n_prompts - (e->n_prompts > 0)];
    char *text = line + strcspn(line, " ");
    if (!strncmp(line, "prompt ", 7)) {
        CHECK(e->n_prompts < MOST_PROMPTS);
        p = &e->prompts[e->n_prompts++];
        p->n_ids = read_ids(p->ids, MOST_IDS, text);
    } else if (!strncmp(line, "greedy ", 7)) {
        p->n_greedy = read_ids(p->greedy, MOST_IDS, text);
    } else if (!strncmp(line, "margin ", 7)) {
        p->n_margins = read_numbers(p->margins, MOST_IDS, text);
    } else if (!strncmp(line, "logits ", 7)) {
        for (char *end; p->n_logits < MOST_LOGITS; p->n_logits++, text = end) {
            p->logit_ids[p->n_logits] = (int32_t)strtol(text, &end, 10);
            if (*end != ':') break;
            p->logits[p->n_logits] = strtof(end + 1, &end);
        }
    } else if (!strncmp(line, "nll ", 4)) {
        for (char *end; e->n_windows < MOST_WINDOWS; e->n_windows++, text = end) {
            e->nll[e->n_windows] = strtod(text, &end);
            if (end == text) break;
        }
    }
}

static Expected *read_expected(const RealModel *real) {
    Expected *e = calloc(1, sizeof *e);
    char *line = malloc(LINE);
    FILE *file = fopen(real->expected, "r");
    CHECK(file && e && line, "%s", real->expected);
    while (fgets(line, LINE, file))
        read_line(e, line);
    fclose(file);
    free(line);
    CHECK_INT(e->n_prompts, 6);
    CHECK(e->n_windows >= TEST_WINDOWS);
    for (int i = 0; i < e->n_prompts; i++) {
        const struct Prompt *p = &e->prompts[i];
        CHECK(p->n_ids && p->n_greedy == 64 && p->n_margins == 64 && p->n_logits == 256);
    }
    return e;
}

// ---- the model ----

typedef struct Opened {
    Checkpoint *checkpoint;
    Model *model;
    int vocab_size;
} Opened;

static Opened open_real(const RealModel *real, Precision precision, KvType kv) {
    Opened o = {0};
    Error error = {0};
    CHECK(checkpoint_open(&o.checkpoint, model_path(real), &error), "%s", error.message);
    ModelOptions options = {.precision = precision, .kv_type = kv, .context = 128};
    o.model = model_open(checkpoint_config(o.checkpoint), checkpoint_weights(o.checkpoint),
                         &options, &error);
    CHECK(o.model, "%s", error.message);
    o.vocab_size = checkpoint_config(o.checkpoint)->vocab_size;
    return o;
}

static void close_real(Opened *o) {
    model_close(o->model);
    checkpoint_close(o->checkpoint);
}

static const float *feed(Opened *o, const int32_t *ids, int n) {
    Error error = {0};
    CHECK(model_forward(o->model, &(Batch){.n = n, .tokens = ids}, &error), "%s", error.message);
    return model_logits(o->model, 0);
}

static int32_t likeliest(const Opened *o, const float *logits) {
    int32_t best = 0;
    for (int i = 1; i < o->vocab_size; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static double worst_error(const struct Prompt *p, const float *logits) {
    double worst = 0;
    for (int i = 0; i < p->n_logits; i++)
        worst = fmax(worst, fabs((double)logits[p->logit_ids[i]] - (double)p->logits[i]));
    return worst;
}

// Sanitized code is ten times slower, so it checks fewer tokens.
static int prompts_of(const Expected *e) {
    return TEST_SANITIZED ? 1 : e->n_prompts;
}
static int tokens_of(const struct Prompt *p) {
    return TEST_SANITIZED ? 4 : p->n_greedy;
}

// Feeds the reference's own text, so that one close choice does not change what follows.
static void check_f32(const RealModel *real) {
    Opened o = open_real(real, PRECISION_F32, KV_F32);
    Expected *e = read_expected(real);
    double worst = 0;
    for (int i = 0; i < prompts_of(e); i++) {
        const struct Prompt *p = &e->prompts[i];
        kv_cache_reset(&o.model->cache, 0);
        const float *logits = feed(&o, p->ids, p->n_ids);
        worst = fmax(worst, worst_error(p, logits));
        CHECK(worst <= 1e-3, "prompt %d: a logit is %g off", i, worst);
        for (int t = 0; t < tokens_of(p); t++) {
            int32_t id = likeliest(&o, logits);
            CHECK(id == p->greedy[t] || p->margins[t] <= 0.01f,
                  "prompt %d, token %d: %d, wanted %d, which leads by %g", i, t, id, p->greedy[t],
                  (double)p->margins[t]);
            logits = feed(&o, &p->greedy[t], 1);
        }
    }
    fprintf(stderr, "%s, f32: logits within %.2g of transformers\n", real->expected, worst);
    free(e);
    close_real(&o);
}

// Over the logits that both models have just computed.
static double largest_difference(const Opened *a, const Opened *b) {
    const float *x = model_logits(a->model, 0), *y = model_logits(b->model, 0);
    double worst = 0;
    for (int i = 0; i < a->vocab_size; i++)
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    return worst;
}

// The default precision with a cache in f32: every logit, at every position of the prompts and of
// the text that the reference appends, is compared with f32 (which check_f32 checks).
static void check_a16(const RealModel *real) {
    Opened o = open_real(real, PRECISION_A16, KV_F32),
           exact = open_real(real, PRECISION_F32, KV_F32);
    Expected *e = read_expected(real);
    double worst = 0;
    int equal = 0, n = prompts_of(e);
    for (int i = 0; i < n; i++) {
        const struct Prompt *p = &e->prompts[i];
        kv_cache_reset(&o.model->cache, 0), kv_cache_reset(&exact.model->cache, 0);
        bool same = true;
        for (int t = 0; t < p->n_ids + tokens_of(p) - 1; t++) {
            int32_t id = t < p->n_ids ? p->ids[t] : p->greedy[t - p->n_ids];
            const float *logits = feed(&o, &id, 1);
            feed(&exact, &id, 1);
            worst = fmax(worst, largest_difference(&o, &exact));
            if (t < p->n_ids - 1) continue;
            if (t == p->n_ids - 1) CHECK(worst_error(p, logits) <= 1e-2, "prompt %d", i);
            same &= likeliest(&o, logits) == p->greedy[t - p->n_ids + 1];
        }
        equal += same;
    }
    fprintf(stderr, "%s, a16: logits within %.2g of f32, %d of %d greedy texts equal\n",
            real->expected, worst, equal, n);
    CHECK(worst <= 1e-2, "a logit is %g off", worst);
    CHECK(equal >= n - 1, "%d of %d texts are the reference's", equal, n);
    free(e);
    close_real(&exact);
    close_real(&o);
}

// ---- through the program ----

static TestRun run_real(const RealModel *real, const char *format, const char *more) {
    char line[1000];
    snprintf(line, sizeof line, format, model_path(real), more);
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    return r;
}

static double number(const char *json, const char *key) {
    const char *at = strstr(json, key);
    CHECK(at, "no %s in %s", key, json);
    return strtod(at + strlen(key), NULL);
}

static void check_perplexity(const RealModel *real, const char *precision) {
    char format[1000];
    model_path(real); // absent: skipped before anything else
    snprintf(format, sizeof format,
             "perplexity|%%s|-f|%s|--window|512|--second-half|--windows|%d|--json|-q|%%s",
             test_data("text/wiki.test.raw"), TEST_WINDOWS);
    Expected *e = read_expected(real);
    double mean = 0;
    for (int i = 0; i < TEST_WINDOWS; i++)
        mean += e->nll[i] / TEST_WINDOWS;
    free(e);
    TestRun r = run_real(real, format, precision);
    CHECK_INT(number(r.out, "\"tokens\":"), 255 * TEST_WINDOWS);
    double perplexity = number(r.out, "\"perplexity\":");
    test_run_free(&r);
    fprintf(stderr, "%s, %s: perplexity %.5f, transformers %.5f\n", real->expected, precision,
            perplexity, exp(mean));
    CHECK_NEAR(perplexity, exp(mean), 1e-3 * exp(mean));
}

Test(real_models, smollm2_f32_is_what_transformers_computes) {
    check_f32(&SMOLLM2);
}

Test(real_models, smollm2_a16_writes_what_float32_writes) {
    check_a16(&SMOLLM2);
}

Test(real_models, smollm2_perplexity_is_that_of_transformers) {
    check_perplexity(&SMOLLM2, "--precision=f32");
    check_perplexity(&SMOLLM2, "--precision=a16");
}

Test(real_models, smollm2_converses_in_its_own_format) {
    TestRun r = run_real(&SMOLLM2, "chat|%s|-i|What is the capital of France?|-t|0|%s", "-q");
    CHECK(strstr(r.out, "Paris"), "%s", r.out);
    test_run_free(&r);
}

// With the command above it and the prompt below.
Test(real_models, inspect_of_smollm2_fits_a_screen_of_24_lines) {
    TestRun r = program("inspect|%s", model_path(&SMOLLM2));
    int lines = 0;
    for (char *rest = r.out, *line; (line = strsep(&rest, "\n")) && rest;)
        lines += 1 + (*line ? ((int)strlen(line) - 1) / 80 : 0);
    CHECK(lines <= 23, "%d lines", lines);
    test_run_free(&r);
}

Test(real_models, gemma3_f32_is_what_transformers_computes) {
    check_f32(&GEMMA3);
}

Test(real_models, gemma3_a16_writes_what_float32_writes) {
    check_a16(&GEMMA3);
}

Test(real_models, gemma3_perplexity_is_that_of_transformers) {
    check_perplexity(&GEMMA3, "--precision=f32");
    check_perplexity(&GEMMA3, "--precision=a16");
}

Test(real_models, gemma3_continues_sensibly) {
    TestRun r = run_real(&GEMMA3, "%s|-i|Once upon a time|-t|0|--max-tokens|16|%s", "-q");
    CHECK(strstr(r.out, "Once upon a time, there was a little girl"), "%s", r.out);
    test_run_free(&r);
}
