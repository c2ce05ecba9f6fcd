// attention --rope: the similarity of a vector with itself over positions follows from the
// frequencies, for every family that rotates, and depends on the distance alone.
#include "base/error.h"
#include "tests/support/program.h"
#include "tests/support/traces.h"

#include <unistd.h>

enum { MOST = 40 }; // positions

// Of the last CSV that was read, (n, n), MOST in a row: two sinusoidal encodings.
static double sinusoidal[MOST * MOST];

// The CSV of --rope: similarities (n, n), MOST of them in a row.
static size_t read_similarities(double *with, const char *line) {
    TestRun r = program("%s|--csv", line);
    CHECK(r.status == 0, "%s: %s", line, r.err);
    CHECK(!strncmp(r.out, "query,key,with_rope,without_rope,sinusoidal\n", 44), "%.40s", r.out);
    size_t n = 0, count = 0, query, key;
    double value, without, wave;
    int length;
    for (const char *at = strchr(r.out, '\n') + 1;
         sscanf(at, "%zu,%zu,%lf,%lf,%lf\n%n", &query, &key, &value, &without, &wave, &length) == 5;
         at += length) {
        CHECK(query < MOST && key < MOST && without == 1, "%zu,%zu: %g", query, key, without);
        with[query * MOST + key] = value;
        sinusoidal[query * MOST + key] = wave;
        if (query >= n) n = query + 1;
        count++;
    }
    CHECK_INT(count, n * n);
    test_run_free(&r);
    return n;
}

static void check_depends_on_distance(const double *with, size_t n, const char *model) {
    for (size_t m = 0; m < n; m++)
        for (size_t k = 0; k < n; k++) {
            double wanted = with[m < k ? k - m : m - k];
            CHECK(fabs(with[m * MOST + k] - wanted) <= 5e-7, "%s [%zu, %zu]: %.9g, wanted %.9g",
                  model, m, k, with[m * MOST + k], wanted);
        }
    CHECK_NEAR(with[0], 1, 1e-7);
}

// The built-in model: 16 pairs of channels, theta 10000.
Test(rope, similarity_is_the_mean_cosine_of_the_frequencies) {
    double with[MOST * MOST];
    char line[300];
    snprintf(line, sizeof line, "attention|%s|--rope|--seq|24", small_model());
    CHECK_INT(read_similarities(with, line), 24);
    check_depends_on_distance(with, 24, "built-in");
    for (int d = 0; d < 24; d++) {
        double mean = 0;
        for (int j = 0; j < 16; j++)
            mean += cos(d * pow(10000, -j / 16.0)) / 16;
        CHECK_NEAR(with[d], mean, 2e-6);
    }
    // By hand: cos(f) of the 16 frequencies 1, 0.562, 0.316, 0.178, 0.1, ... 0.000178.
    CHECK_NEAR(with[1], 0.9571, 5e-5);
}

// Vaswani et al. 2017, section 3.5: PE(m, 2i) = sin(m / 10000^(2i / d)), PE(m, 2i + 1) = cos of it.
static void encode_position(double *encoding, size_t m, int d) {
    for (int i = 0; i < d; i++) {
        double angle = (double)m / pow(10000, (i - i % 2) / (double)d);
        encoding[i] = i % 2 ? cos(angle) : sin(angle);
    }
}

// Whatever the model does with positions; the built-in model's embeddings have 192 channels.
Test(rope, sinusoidal_encodings_are_beside_it) {
    enum { N = 24, DIM = 192 };
    double with[MOST * MOST], encodings[N][DIM];
    char line[300];
    snprintf(line, sizeof line, "attention|%s|--rope|--seq|24", small_model());
    CHECK_INT(read_similarities(with, line), N);
    for (size_t m = 0; m < N; m++)
        encode_position(encodings[m], m, DIM);
    for (size_t m = 0; m < N; m++)
        for (size_t k = 0; k < N; k++) {
            double dot = 0;
            for (size_t i = 0; i < DIM; i++)
                dot += encodings[m][i] * encodings[k][i];
            CHECK_NEAR(sinusoidal[m * MOST + k], dot / (DIM / 2), 2e-7); // sin^2 + cos^2 = 1
        }
}

// Every family that rotates, scaled and partial RoPE too; one query of a prompt as well.
Test(rope, similarity_depends_on_the_distance_alone) {
    static const char *const MODELS[] = {
        "llama-tied", "mistral-window8", "qwen2", "qwen3",    "gemma3",
        "olmo2",      "smollm3",         "phi3",  "nanochat", "llama-rope-llama3",
        "qwen3-bf16"};
    double with[MOST * MOST];
    char line[700];
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        const char *model = test_reference_model(MODELS[i]);
        snprintf(line, sizeof line, "attention|%s|--rope", model);
        check_depends_on_distance(with, read_similarities(with, line), model);
        snprintf(line, sizeof line,
                 "attention|%s|--rope|--layer|0|--head|1|--seq|12|--prompt-ids|1,5,9,12,30", model);
        check_depends_on_distance(with, read_similarities(with, line), model);
    }
}

// A query q whose pairs (j, j + half) have lengths a_j: sum a_j^2 cos(d f_j) / |q|^2. The trace has
// q, f = theta^(-2j / head_dim). `options`: the prompt, and what changes the run.
static void check_query(const char *model, const char *stage, const char *theta_key, int layer,
                        int head, const char *options) {
    enum { TOKENS = 5 };
    double with[MOST * MOST];
    char line[700], name[80], value[4000];
    TestRun r = program("inspect|%s|--json", model);
    size_t width = (size_t)atoi(json_value(value, r.out, "head_dim")), half = width / 2;
    size_t heads = (size_t)atoi(json_value(value, r.out, "n_heads"));
    double theta = atof(json_value(value, r.out, theta_key));
    test_run_free(&r);
    snprintf(line, sizeof line, "%s|--precision|f32|--kv|f32", options);
    char *path = write_trace(model, line, "query.safetensors");
    SafetensorsFile trace = open_trace(path);
    snprintf(name, sizeof name, "model.layers.%d.self_attn.%s", layer, stage);
    float *queries = trace_values(&trace, name, TOKENS, 0);
    const float *q = queries + ((TOKENS - 1) * heads + (size_t)head) * width;
    snprintf(line, sizeof line, "attention|%s|--rope|--layer|%d|--head|%d|%s|--precision|f32",
             model, layer, head, options);
    size_t n = read_similarities(with, line);
    for (size_t d = 0; d < n; d++) {
        double sum = 0, squares = 0;
        for (size_t j = 0; j < half; j++) {
            double pair = (double)q[j] * (double)q[j] + (double)q[j + half] * (double)q[j + half];
            sum += pair * cos((double)d * pow(theta, -2.0 * (double)j / (double)width));
            squares += pair;
        }
        CHECK(fabs(with[d] - sum / squares) <= 2e-6, "%s: distance %zu: %.9g, wanted %.9g", model,
              d, with[d], sum / squares);
    }
    free(queries);
    safetensors_close(&trace);
    free(path);
}

Test(rope, rotates_a_query_as_the_model_does) {
    static const char FIVE[] = "--prompt-ids|1,5,9,12,30";
    check_query(small_model(), "q_proj", "rope_theta", 2, 4, FIVE);
    check_query(test_reference_model("llama-tied"), "q_proj", "rope_theta", 1, 1, FIVE);
    check_query(test_reference_model("qwen3"), "q_norm", "rope_theta", 0, 1, FIVE);
    check_query(test_reference_model("nanochat"), "q_proj", "rope_theta", 0, 1, FIVE);
    check_query(test_reference_model("gemma3"), "q_norm", "rope_theta_local", 0, 1, FIVE);
    check_query(small_model(), "q_proj", "rope_theta", 2, 4,
                "--prompt-ids|1,5,9,12,30|--ablate|L0.ffn,L1.att");
}

Test(rope, is_refused_where_nothing_rotates) {
    TestRun r = program("attention|%s|--rope", test_reference_model("gpt2"));
    check_refused(&r, ERROR_USAGE, "gpt2 has no RoPE: positions are learned");
    int refused = 0;
    for (int l = 0; l < 4; l++) { // SmolLM3 leaves RoPE out of one of four layers
        r = program("attention|%s|--rope|--layer|%d", test_reference_model("smollm3"), l);
        refused += r.status != 0;
        if (r.status)
            check_refused(&r, ERROR_USAGE, " has no RoPE");
        else
            test_run_free(&r);
    }
    CHECK_INT(refused, 1);
}

Test(rope, draws_both_pictures_and_a_table) {
    TestRun r = program("attention|%s|--rope|--seq|16", small_model());
    check_status(&r, 0);
    CHECK(strstr(r.out, "32 of 32 channels: cosine of a vector of ones with itself\nwith RoPE"),
          "%s", r.out);
    CHECK(strstr(r.out, "\n       1     0.9571   1.0000      0.9715\n"), "%s", r.out);
    CHECK(strstr(r.out, "\n      15 "), "the largest distance: %s", r.out);
    test_run_free(&r);
    const char *svg = test_temporary("rope.svg");
    unlink(svg);
    r = program("attention|%s|--rope|--svg|%s", small_model(), svg);
    check_status(&r, 0);
    CHECK_STRING(r.out, "");
    test_run_free(&r);
    r = program("attention|%s|--rope|--svg|%s", small_model(), svg);
    check_refused(&r, ERROR_USAGE, "--force");
}

Test(rope, refuses_what_it_cannot_do) {
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"--rope", "without it a vector of ones"},
        {"--rope|--head|1", "wants --layer L"},
        {"--rope|--layer|0|--head|1|--mean", "--rope goes with"},
        {"--rope|--layer|6|--head|1", "the model has layers 0 .. 5"},
        {"--rope|--layer|0|--head|0|--seq|4000", "the model's context is"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("attention|%s|-i|Once|%s", small_model(), CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
    TestRun r = program("attention|%s|--rope|--ablate|L0.ffn", small_model());
    check_refused(&r, ERROR_USAGE, "runs no text");
}
