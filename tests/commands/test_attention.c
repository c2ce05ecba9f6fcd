// attention: its numbers are those of the reference models' attention (transformers, or numpy in a
// plain clone), its scores give its weights, its pictures and refusals are what the help says.
#include "base/error.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"
#include "tests/support/traces.h"

#include <unistd.h>

enum { MOST = 40 }; // tokens

typedef struct Head {
    int layer, head;
    double values[MOST][MOST]; // NaN: not in the file
} Head;

// The next matrix of a CSV: rows of one layer and head. False at the end.
static bool next_head(const char **at, Head *h) {
    int layer, head, query, key, length;
    double value;
    for (int i = 0; i < MOST * MOST; i++)
        h->values[i / MOST][i % MOST] = NAN;
    for (bool any = false;; any = true) {
        if (sscanf(*at, "%d,%d,%d,%d,%lf\n%n", &layer, &head, &query, &key, &value, &length) != 5)
            return any;
        if (any && (layer != h->layer || head != h->head)) return true;
        CHECK(query < MOST && key <= query, "query %d, key %d", query, key);
        h->layer = layer;
        h->head = head;
        h->values[query][key] = value;
        *at += length;
    }
}

static TestRun numbers(const char *model, const char *options) {
    TestRun r = program("attention|%s|--csv|--precision|f32|--kv|f32|%s", model, options);
    CHECK(r.status == 0, "%s %s: %s", model, options, r.err);
    CHECK(!strncmp(r.out, "layer,head,query,key,value\n", 27), "%.40s", r.out);
    return r;
}

static const char *after_header(const TestRun *r) {
    return strchr(r->out, '\n') + 1;
}

// ---- against references ----

// p1 of a reference as an option; returns the number of its tokens.
static size_t ids_option(char *out, const SafetensorsFile *file) {
    const SafetensorsTensor *t = safetensors_find(file, "p1.input_ids");
    CHECK(t && t->plan.shape[0] <= MOST, "p1.input_ids");
    out += sprintf(out, "--prompt-ids|");
    for (size_t i = 0; i < t->plan.shape[0]; i++) {
        int64_t id;
        memcpy(&id, t->plan.data + 8 * i, sizeof id);
        out += sprintf(out, "%s%d", i ? "," : "", (int)id);
    }
    return t->plan.shape[0];
}

// Visible keys are in the file and equal the reference, hidden ones are not and are 0 there.
static void check_head(const char *model, const Head *h, const float *wanted, size_t n) {
    for (size_t q = 0; q < n; q++)
        for (size_t k = 0; k < n; k++) {
            double got = h->values[q][k], want = (double)wanted[((size_t)h->head * n + q) * n + k];
            bool good = isnan(got) ? want == 0 : fabs(got - want) <= 2e-5;
            CHECK(good, "%s layer %d head %d [%zu, %zu]: got %g, wanted %g", model, h->layer,
                  h->head, q, k, got, want);
        }
}

static void check_reference(const char *model) {
    char path[600], options[1000], name[32];
    snprintf(path, sizeof path, "%s/reference.safetensors", test_reference_model(model));
    SafetensorsFile file = open_trace(path);
    size_t n = ids_option(options, &file), heads = 0;
    TestRun r = numbers(test_reference_model(model), options);
    Head h;
    for (const char *at = after_header(&r); next_head(&at, &h); heads++) {
        snprintf(name, sizeof name, "p1.attn.%02d", h.layer);
        const SafetensorsTensor *t = safetensors_find(&file, name);
        CHECK(t && heads == (size_t)h.layer * t->plan.shape[0] + (size_t)h.head, "%s", name);
        float *wanted = trace_values(&file, name, 0, n);
        check_head(model, &h, wanted, n);
        free(wanted);
    }
    CHECK(heads >= 4, "%s: %zu heads", model, heads);
    test_run_free(&r);
    safetensors_close(&file);
}

Test(attention, weights_are_those_of_the_references) {
    static const char *const MODELS[] = {"llama-tied", "mistral-window8", "qwen2",       "qwen3",
                                         "gemma3",     "olmo2",           "smollm3",     "phi3",
                                         "gpt2",       "nanochat",        "llama-untied"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        check_reference(MODELS[i]);
}

// ---- identities, on the built-in model ----

static const char PROMPT[] = "-i|Once upon a time there was a little dog";

// softmax of the scores = weights; scaled = raw * attention_scale (32^-1/2).
Test(attention, scores_give_the_weights) {
    char options[3][200];
    static const char *const STAGES[] = {"raw", "scaled", "weights"};
    TestRun r[3];
    const char *at[3];
    Head h[3];
    for (int i = 0; i < 3; i++) {
        snprintf(options[i], sizeof options[i], "%s|--stage|%s", PROMPT, STAGES[i]);
        r[i] = numbers(small_model(), options[i]);
        at[i] = after_header(&r[i]);
    }
    int heads = 0;
    while (next_head(&at[0], &h[0]) && next_head(&at[1], &h[1]) && next_head(&at[2], &h[2])) {
        for (int q = 0; q < MOST && !isnan(h[2].values[q][q]); q++) {
            double sum = 0;
            for (int k = 0; k <= q; k++)
                sum += exp(h[1].values[q][k]);
            for (int k = 0; k <= q; k++) {
                CHECK_NEAR(h[1].values[q][k], h[0].values[q][k] / sqrt(32.0), 2e-5);
                CHECK_NEAR(exp(h[1].values[q][k]) / sum, h[2].values[q][k], 2e-5);
            }
        }
        heads++;
    }
    CHECK_INT(heads, 36);
    for (int i = 0; i < 3; i++)
        test_run_free(&r[i]);
}

static Head one_head(const char *options) {
    char all[300];
    Head h;
    snprintf(all, sizeof all, "%s|%s", PROMPT, options);
    TestRun r = numbers(small_model(), all);
    const char *at = after_header(&r);
    // "mean" and "rollout" stand where a number would be
    char *text = strdup(at), *out = text;
    for (const char *in = at; *in;) {
        size_t word = strspn(in, "abcdefghijklmnopqrstuvwxyz");
        in += word;
        if (word > 1)
            *out++ = '0';
        else if (word)
            *out++ = in[-1];
        else
            *out++ = *in++;
    }
    *out = '\0';
    at = text;
    CHECK(next_head(&at, &h) && !*at, "one matrix: %.60s", text);
    bool joined = !strncmp(after_header(&r), "all,", 4), layer = strstr(options, "--layer");
    CHECK(joined == (strstr(options, "--rollout") || !layer), "%.40s", after_header(&r));
    free(text);
    test_run_free(&r);
    return h;
}

// The mean of layer 2 is the mean of its six heads; rows of every kind sum to 1.
Test(attention, means_and_rollout_keep_the_sum) {
    Head mean = one_head("--mean|--layer|2"), all = one_head("--mean"), sum = {0};
    Head rolled = one_head("--rollout"), first = one_head("--rollout|--layer|0");
    Head of_first = one_head("--mean|--layer|0");
    for (int head = 0; head < 6; head++) {
        char options[40];
        snprintf(options, sizeof options, "--layer|2|--head|%d", head);
        Head h = one_head(options);
        for (int i = 0; i < MOST * MOST; i++)
            sum.values[i / MOST][i % MOST] += h.values[i / MOST][i % MOST] / 6;
    }
    for (int q = 0; q < MOST && !isnan(mean.values[q][q]); q++) {
        double sums[3] = {0};
        for (int k = 0; k <= q; k++) {
            CHECK_NEAR(mean.values[q][k], sum.values[q][k], 1e-6);
            CHECK_NEAR(first.values[q][k], (of_first.values[q][k] + (q == k)) / 2, 1e-6);
            sums[0] += mean.values[q][k];
            sums[1] += all.values[q][k];
            sums[2] += rolled.values[q][k];
        }
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(sums[i], 1, 1e-5);
    }
}

// Worked out again from the CSV.
Test(attention, entropy_is_that_of_the_weights) {
    Head h = one_head("--layer|4|--head|3");
    double entropy = 0, largest = 0, distance = 0, first = 0;
    int n = 0;
    for (; n < MOST && !isnan(h.values[n][n]); n++) {
        double most = 0;
        for (int k = 0; k <= n; k++) {
            double w = h.values[n][k];
            if (w > 0) entropy -= w * log2(w);
            distance += w * (n - k);
            most = fmax(most, w);
        }
        largest += most;
        if (n) first += h.values[n][0];
    }
    TestRun r =
        program("attention|%s|%s|--layer|4|--head|3|--precision|f32|--kv|f32|--entropy|--json",
                small_model(), PROMPT);
    char value[4000];
    check_status(&r, 0);
    CHECK_NEAR(atof(json_value(value, r.out, "entropy_bits")), entropy / n, 1e-4);
    CHECK_NEAR(atof(json_value(value, r.out, "largest_weight")), largest / n, 1e-4);
    CHECK_NEAR(atof(json_value(value, r.out, "mean_distance")), distance / n, 1e-4);
    CHECK_NEAR(atof(json_value(value, r.out, "first_token")), first / (n - 1), 1e-4);
    test_run_free(&r);
}

// ---- outputs ----

Test(attention, draws_a_row_for_each_token) {
    TestRun r = program("attention|%s|%s|--layer|1|--head|2", small_model(), PROMPT);
    check_status(&r, 0);
    CHECK(strstr(r.out, "attention weights\nlayer 1, head 2\n") == r.out, "%s", r.out);
    CHECK(strstr(r.out, " \xe2\x90\xa3time"), "a space is shown: %s", r.out);
    CHECK(!strchr(r.out, '\x1b'), "no colours in a pipe");
    test_run_free(&r);
    r = program("attention|%s|%s|--color|always", small_model(), PROMPT);
    CHECK(r.status == 0 && strstr(r.out, "\x1b[48;"), "%s", r.out);
    CHECK(strstr(r.out, "all layers, mean of heads\n"), "%s", r.out);
    test_run_free(&r);
}

Test(attention, writes_svg_and_png_files) {
    const char *svg = test_temporary("heads.svg"), *png = test_temporary("heads.png");
    unlink(svg);
    unlink(png);
    TestRun r =
        program("attention|%s|%s|--layer|0|--svg|%s|--png|%s", small_model(), PROMPT, svg, png);
    check_status(&r, 0);
    CHECK_STRING(r.out, "");
    test_run_free(&r);
    size_t size;
    char *text = test_read_file(svg, &size);
    CHECK(size < 100000 && strstr(text, ">layer 0, head 5</text>"), "%zu bytes", size);
    free(text);
    text = test_read_file(png, &size);
    CHECK(size > 100 && !memcmp(text, "\x89PNG\r\n\x1a\n", 8), "%zu bytes", size);
    free(text);
    r = program("attention|%s|%s|--svg|%s", small_model(), PROMPT, svg);
    check_refused(&r, ERROR_USAGE, "--force");
    r = program("attention|%s|%s|--svg|%s|--force", small_model(), PROMPT, svg);
    check_status(&r, 0);
    test_run_free(&r);
    const char *text_file = test_temporary("prompt.txt");
    test_write_file(text_file, "Once upon a time", 16);
    r = program("attention|%s|-f|%s|--png|%s|--force", small_model(), text_file, text_file);
    check_refused(&r, ERROR_USAGE, "prompt.txt");
}

Test(attention, refuses_what_it_cannot_do) {
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"--layer|6", "the model has layers 0 .. 5"},
        {"--head|6", "the model has heads 0 .. 5"},
        {"--mean|--rollout", "exclude each other"},
        {"--mean|--head|1", "--head chooses one head"},
        {"--rollout|--stage|raw", "--stage weights"},
        {"--entropy|--stage|scaled", "--stage weights"},
        {"--grid|heads", "--layer L"},
        {"--grid|layers", "--head H, or --mean"},
        {"--csv|--json", "one of them"},
        {"--stage|soft", "raw|scaled|weights"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("attention|%s|%s|%s", small_model(), PROMPT, CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

// 64 matrices of 3,000 x 3,000 take 2.3 GB.
Test(attention, refuses_matrices_that_fill_the_memory) {
    enum { TOKENS = 3000 };
    BinShape shape = bin_shape_blocks();
    shape.n_heads = 32;
    shape.seq_len = TOKENS;
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 1), ids[2 * TOKENS + 1];
    const char *path = test_temporary("long.bin");
    test_write_file(path, bytes, size);
    free(bytes);
    for (int i = 0; i < 2 * TOKENS; i++)
        ids[i] = i % 2 ? ',' : '1';
    ids[2 * TOKENS - 1] = '\0';
    TestRun r = program("attention|%s|--csv|--prompt-ids|%s", path, ids);
    check_refused(&r, ERROR_USAGE, "--layer and --head");
    r = program("attention|%s|--csv|--layer|0|--head|0|-q|--entropy|--prompt-ids|%s", path, ids);
    check_status(&r, 0);
    test_run_free(&r);
}
