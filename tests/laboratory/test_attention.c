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
    static const char *const MODELS[] = {
        "llama-tied", "mistral-window8", "qwen2",        "qwen3",
        "gemma3",     "olmo2",           "smollm3",      "phi3",
        "gpt2",       "nanochat",        "llama-untied", "gemma2",
        "granite",    "gpt_neox",        "ministral3",   "hunyuan_v1_dense",
        "exaone4",    "olmo3",           "arcee",        "ernie4_5"};
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
    // "mean", "rollout" and "0-0" stand where a number would be
    char *text = strdup(at), *out = text;
    for (const char *in = at; *in;) {
        size_t word = strspn(in, "abcdefghijklmnopqrstuvwxyz");
        in += word;
        if (word > 1)
            *out++ = '0';
        else if (word)
            *out++ = in[-1];
        else if (*in == '-' && in > at && in[-1] == '0')
            in += strcspn(in, ",");
        else
            *out++ = *in++;
    }
    *out = '\0';
    at = text;
    CHECK(next_head(&at, &h) && !*at, "one matrix: %.60s", text);
    bool joined = !strncmp(after_header(&r), "all,", 4) || !strncmp(after_header(&r), "0-0,", 4),
         layer = strstr(options, "--layer");
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

// A key that a layer's window hides has weight 0 there.
Test(attention, a_mean_over_layers_with_windows_keeps_the_sum) {
    enum { TOKENS = 12 };
    TestRun r =
        numbers(test_reference_model("gemma3"), "--prompt-ids|1,2,3,4,5,6,7,8,9,10,11,12|--mean");
    double sums[TOKENS] = {0}, value;
    int query, key, length, cells = 0;
    for (const char *at = after_header(&r);
         sscanf(at, "all,mean,%d,%d,%lf\n%n", &query, &key, &value, &length) == 3; at += length) {
        CHECK(query < TOKENS, "query %d", query);
        sums[query] += value;
        cells++;
    }
    CHECK_INT(cells, TOKENS * (TOKENS + 1) / 2);
    for (int q = 0; q < TOKENS; q++)
        CHECK_NEAR(sums[q], 1, 1e-5);
    test_run_free(&r);
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

// ---- --explain: a head's output as a weighted sum ----

enum { WIDEST = 256 }; // channels of a head

// [1.5,2,...] after "key" in JSON; returns how many, and what is behind them in *at.
static size_t json_floats(double *out, const char **at, const char *key) {
    char pattern[40];
    size_t count = 0;
    snprintf(pattern, sizeof pattern, "\"%s\":[", key);
    const char *found = strstr(*at, pattern);
    CHECK(found, "no %s", pattern);
    char *end = (char *)found + strlen(pattern) - 1;
    do {
        CHECK(count < WIDEST, "%s is too long", key);
        out[count++] = strtod(end + 1, &end);
    } while (*end == ',');
    *at = end;
    return count;
}

// The row of the head in a trace's att_heads: (head_dim), malloced.
static float *traced_output(const char *model, const char *ids, int layer, int head, size_t width,
                            size_t query) {
    char options[1200], name[80];
    snprintf(options, sizeof options, "%s|--precision|f32|--kv|f32", ids);
    char *path = write_trace(model, options, "explained.safetensors");
    SafetensorsFile trace = open_trace(path);
    snprintf(name, sizeof name, "transformer.h.%d.attn.heads", layer);
    if (!safetensors_find(&trace, name))
        snprintf(name, sizeof name, "model.layers.%d.self_attn.heads", layer);
    if (!safetensors_find(&trace, name))
        snprintf(name, sizeof name, "gpt_neox.layers.%d.attention.heads", layer);
    const SafetensorsTensor *t = safetensors_find(&trace, name);
    CHECK(t, "no %s", name);
    size_t all = t->plan.bytes / sizeof(float) / t->plan.shape[0];
    float *values = trace_values(&trace, name, 0, 0), *row = malloc(width * sizeof *row);
    memcpy(row, values + query * all + (size_t)head * width, width * sizeof *row);
    free(values);
    safetensors_close(&trace);
    free(path);
    return row;
}

// Weights are those of --csv, the output is the trace's, and the weighted values add up to it.
static void check_explanation(const char *model, const char *ids, int layer, int head, int query) {
    char options[1200], value[4000];
    double output[WIDEST], v[WIDEST], sum[WIDEST] = {0}, square = 0, shares = 0;
    Head h;
    snprintf(options, sizeof options, "%s|--layer|%d|--head|%d", ids, layer, head);
    TestRun csv = numbers(model, options);
    const char *at = after_header(&csv);
    CHECK(next_head(&at, &h), "%s", csv.out);
    TestRun r = program("attention|%s|%s|--precision|f32|--kv|f32|--explain|%d|--json", model,
                        options, query);
    check_status(&r, 0);
    at = r.out;
    int row = atoi(json_value(value, at, "query"));
    size_t width = json_floats(output, &at, "output");
    float *traced = traced_output(model, ids, layer, head, width, (size_t)row);
    for (size_t j = 0; j < width; j++) {
        CHECK((float)output[j] == traced[j], "%s: channel %zu: %g", model, j, output[j]);
        square += output[j] * output[j];
    }
    for (int key = 0; key <= row; key++) {
        if (isnan(h.values[row][key])) continue; // the window hides it
        CHECK_INT(atoi(json_value(value, at, "key")), key);
        double weight = atof(json_value(value, at, "weight")), length = 0, along = 0;
        double wanted_length = atof(json_value(value, at, "length"));
        double share = atof(json_value(value, at, "share"));
        CHECK((float)weight == (float)h.values[row][key], "%s: key %d: weight %.9g", model, key,
              weight);
        CHECK_INT(json_floats(v, &at, "value"), width);
        for (size_t j = 0; j < width; j++) {
            sum[j] += weight * v[j];
            length += weight * v[j] * weight * v[j];
            along += weight * v[j] * output[j];
        }
        CHECK(fabs(sqrt(length) - wanted_length) <= 1e-6 * wanted_length, "%g", sqrt(length));
        CHECK_NEAR(share, along / square, 1e-6);
        shares += share;
    }
    CHECK(!strstr(at, "\"key\""), "%s: a hidden key is listed", model);
    CHECK_NEAR(shares, 1, 1e-5);
    for (size_t j = 0; j < width; j++)
        CHECK(fabs(sum[j] - output[j]) <= 2e-6 * sqrt(square), "%s: channel %zu: %.9g, wanted %.9g",
              model, j, sum[j], output[j]);
    free(traced);
    test_run_free(&r);
    test_run_free(&csv);
}

Test(attention, explained_contributions_add_up_to_the_traced_output) {
    check_explanation(small_model(), "--prompt-ids|1,403,407,261,390,410", 3, 5, -1);
    check_explanation(small_model(), "--prompt-ids|1,403,407,261,390,410", 0, 1, 0);
    check_explanation(small_model(), "--prompt-ids|1,403,407,261,390,410", 5, 2, 4);
}

// Grouped heads, windows, learned positions.
Test(attention, explanations_hold_in_every_family) {
    static const char *const MODELS[] = {
        "llama-tied", "mistral-window8", "qwen2",        "qwen3",
        "gemma3",     "olmo2",           "smollm3",      "phi3",
        "gpt2",       "nanochat",        "llama-untied", "gemma2",
        "granite",    "gpt_neox",        "ministral3",   "hunyuan_v1_dense",
        "exaone4",    "olmo3",           "arcee",        "ernie4_5"};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        char path[600], ids[1000];
        const char *model = test_reference_model(MODELS[i]);
        snprintf(path, sizeof path, "%s/reference.safetensors", model);
        SafetensorsFile file = open_trace(path);
        ids_option(ids, &file);
        safetensors_close(&file);
        TestRun r = program("inspect|%s|--json", model);
        char value[4000];
        int layers = atoi(json_value(value, r.out, "n_layers"));
        int heads = atoi(json_value(value, r.out, "n_heads"));
        test_run_free(&r);
        check_explanation(model, ids, layers - 1, heads - 1, -1);
        check_explanation(model, ids, 0, 1, -2);
    }
}

// The table has the largest weights and the sum of the others: all of them are 1, and 100 %.
Test(attention, explanation_prints_the_heaviest_keys_first) {
    TestRun r =
        program("attention|%s|%s|--layer|2|--head|1|--explain|-1|--top|3", small_model(), PROMPT);
    check_status(&r, 0);
    CHECK(strstr(r.out, "layer 2, head 1 at position 9, \u2423dog: ") == r.out, "%s", r.out);
    const char *at = strstr(r.out, "key\n");
    CHECK(at, "%s", r.out);
    double before = 1, weights = 0, shares = 0;
    at = strchr(at, '\n') + 1;
    for (int row = 0; row < 4; row++, at = strchr(at, '\n') + 1) {
        double weight, length, share;
        CHECK(sscanf(at, "%lf %lf %lf %%", &weight, &length, &share) == 3, "%s", at);
        CHECK(row == 3 || weight <= before, "not sorted: %s", r.out);
        before = weight;
        weights += weight;
        shares += share;
    }
    CHECK_NEAR(weights, 1, 3e-4);
    CHECK_NEAR(shares, 100, 3e-2);
    CHECK(strstr(r.out, " the other 7 together\n"), "%s", r.out);
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

// The first token's weight is that of the queries behind it: of one token there is none.
Test(attention, the_table_of_entropies_fits_into_80_columns) {
    TestRun r = program("attention|%s|-i|Once upon a time|--layer|3|--entropy|-q", small_model());
    check_status(&r, 0);
    CHECK(strstr(r.out, "entropy, bits"), "%s", r.out);
    for (char *at = r.out; *at; at += strcspn(at, "\n") + 1)
        CHECK(strcspn(at, "\n") <= 80, "%.*s", (int)strcspn(at, "\n"), at);
    test_run_free(&r);
}

Test(attention, entropy_of_one_token_has_no_first_token) {
    static const struct {
        const char *option, *ends;
    } CASES[] = {
        {"-q", "0.00            -\n"}, {"--csv", ",nan\n"}, {"--json", "\"first_token\":null}]\n"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("attention|%s|--prompt-ids|5|--layer|4|--head|3|--entropy|%s",
                            small_model(), CASES[i].option);
        check_status(&r, 0);
        CHECK(strstr(r.out, CASES[i].ends), "%s", r.out);
        test_run_free(&r);
    }
    TestRun none = program("attention|%s|--prompt-ids||--entropy", small_model());
    check_refused(&none, ERROR_USAGE, "--prompt-ids: there are none");
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
        {"--explain|1", "--layer L --head H"},
        {"--explain|1|--layer|0|--head|0|--stage|raw", "without --mean"},
        {"--explain|1|--layer|0|--head|0|--svg|x.svg", "--explain is a table"},
        {"--explain|10|--layer|0|--head|0", "positions 0 .. 9, or -10 .. -1"},
        {"--explain|-11|--layer|0|--head|0", "got -11"},
        {"--seq|4", "--seq is of --rope"},
        {"--top|3", "--top is of --explain"},
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

// A rollout up to a layer says which layers it is of.
Test(attention, names_the_layers_of_a_rollout) {
    need_builtin();
    TestRun r = program("attention|-i|The cat sat|--rollout|--layer|2|--csv");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\n0-2,rollout,1,0,") && !strstr(r.out, "all"), "%s", r.out);
    test_run_free(&r);
    r = program("attention|-i|The cat sat|--rollout|--csv");
    CHECK(strstr(r.out, "\nall,rollout,1,0,"), "%s", r.out);
    test_run_free(&r);
}

// Nothing is left of an ablated head's output, so there are no shares of it.
Test(attention, explains_an_output_of_zero) {
    need_builtin();
    TestRun r = program("attention|-i|The cat sat|--layer|1|--head|0|--ablate|L1.H0|--explain|-1");
    check_status(&r, 0);
    CHECK(strstr(r.out, "The output is zero, and has no shares"), "%s", r.out);
    test_run_free(&r);
}
