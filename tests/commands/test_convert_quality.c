// convert's --importance and --check: what is measured over a text, and that rounding by it helps.
#include "base/error.h"
#include "base/json.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"
#include "tests/support/traces.h"
#include "weights/quant.h"

#include <stdlib.h>

// Stories of the built-in model, which knows no other texts.
static const char *stories(const char *name, int seed, int count) {
    const char *path = test_temporary(name);
    char *all = calloc(1, 1);
    size_t size = 0;
    for (int i = 0; i < count; i++) {
        TestRun run = program("builtin|-t|0.8|-s|%d|-n|400|-q", seed + i);
        check_status(&run, 0);
        all = realloc(all, size + run.out_size + 1);
        memcpy(all + size, run.out, run.out_size);
        size += run.out_size;
        test_run_free(&run);
    }
    test_write_file(path, all, size);
    free(all);
    return path;
}

// The number behind "key": in a line of JSON.
static double number_at(const char *json, const char *key) {
    const char *at = strstr(json, test_text("\"%s\":", key));
    CHECK(at != NULL, "no %s in %s", key, json);
    return at ? strtod(at + strlen(key) + 3, NULL) : -1;
}

// What --check says of the built-in model converted with these options.
static double checked(const char *options, const char *text, const char *key) {
    const char *to = test_temporary("checked.gguf");
    char line[500];
    snprintf(line, sizeof line, "convert|builtin|%%s|--force|-q|%s|--check|%%s|--json", options);
    TestRun run = program(line, to, text);
    check_status(&run, 0);
    double value = number_at(run.out, key);
    test_run_free(&run);
    return value;
}

Test(convert_quality, a_copy_has_the_perplexity_of_its_source_and_no_divergence) {
    char *text = strdup(stories("a.txt", 1, 1));
    TestRun run =
        program("convert|builtin|%s|-q|--check|%s|--json", test_temporary("copy.gguf"), text);
    check_status(&run, 0);
    CHECK(number_at(run.out, "perplexity_source") == number_at(run.out, "perplexity_result"));
    CHECK(number_at(run.out, "kl_max") == 0);
    CHECK(number_at(run.out, "top1_agreement") == 1);
    test_run_free(&run);
    free(text);
}

// --check computes what perplexity --save-logits of one model and --kl of the other do.
Test(convert_quality, the_figures_are_those_of_perplexity) {
    char *text = strdup(stories("b.txt", 2, 1)), *to = strdup(test_temporary("small.gguf"));
    char *logits = strdup(test_temporary("logits.safetensors"));
    TestRun check = program("convert|builtin|%s|-q|--type|q4_0|--check|%s|--json", to, text);
    check_status(&check, 0);
    TestRun run = program("perplexity|builtin|-f|%s|--json|-q|--save-logits|%s", text, logits);
    check_status(&run, 0);
    CHECK(number_at(check.out, "perplexity_source") == number_at(run.out, "perplexity"));
    test_run_free(&run);
    run = program("perplexity|%s|-f|%s|--json|-q|--kl|%s", to, text, logits);
    check_status(&run, 0);
    CHECK(number_at(check.out, "perplexity_result") == number_at(run.out, "perplexity"));
    CHECK(number_at(check.out, "kl_mean") == number_at(run.out, "kl_mean"));
    CHECK(number_at(check.out, "kl_p99") == number_at(run.out, "kl_p99"));
    CHECK(number_at(check.out, "kl_mean") > 0);
    test_run_free(&run);
    test_run_free(&check);
    free(text);
    free(to);
    free(logits);
}

// The text that is measured is not the text that is checked.
Test(convert_quality, importance_brings_the_result_nearer_to_the_source) {
    char *text = strdup(stories("c.txt", 20, 8)), *other = strdup(stories("d.txt", 4, 4));
    static const char *const TYPES[] = {"q3_k", "q2_k"};
    for (int i = 0; i < 2; i++) {
        double without = checked(test_text("--type|%s", TYPES[i]), other, "kl_mean");
        char *options = strdup(test_text("--type|%s|--importance|%s", TYPES[i], text));
        double with = checked(options, other, "kl_mean");
        CHECK(with < 0.96 * without, "%s: %g, without %g", TYPES[i], with, without);
        free(options);
    }
    free(text);
    free(other);
}

// Every row of `got` is what the search makes of that of `from`, weighed by the mean squares of the
// columns of `input`, a stage in a trace of the same text; 64 rows more count as if all were alike.
static void check_weighed(const Matrix *got, const Matrix *from, const SafetensorsFile *trace,
                          const char *input) {
    const SafetensorsTensor *stage = safetensors_find(trace, input);
    CHECK(stage != NULL, "no %s", input);
    if (!stage) return;
    size_t rows = (size_t)stage->plan.shape[0], cols = from->cols;
    float *a = trace_values(trace, input, rows, 0), by[1024], values[1024], weights[1024];
    double squares[1024] = {0}, total = 0, share = (double)rows / (double)(rows + 64);
    for (size_t i = 0; i < rows * cols; i++)
        squares[i % cols] += (double)a[i] * (double)a[i];
    for (size_t c = 0; c < cols; c++)
        total += squares[c];
    for (size_t c = 0; c < cols; c++)
        by[c] = (float)(share * squares[c] * (double)cols / total + 1 - share);
    size_t row_bytes = dtype_row_bytes(got->dtype, cols);
    uint8_t blocks[1024];
    for (size_t r = 0; r < from->rows; r++) {
        matrix_row(values, from, r);
        quantise_importance(weights, values, by, cols);
        quantise_searched(blocks, got->dtype, values, weights, cols);
        const uint8_t *stored = (const uint8_t *)got->data + matrix_stored_row(got, r) * row_bytes;
        if (memcmp(stored, blocks, row_bytes) != 0) {
            CHECK(false, "%s: row %zu is another", input, r);
            break;
        }
    }
    free(a);
}

// The text is one chunk, so that the sums run in the order of its rows.
Test(convert_quality, importance_is_the_mean_square_of_what_each_matrix_reads) {
    static const char TEXT[] = "Once upon a time there was a dog. He ran to the park to play.";
    const char *text = test_temporary("short.txt");
    test_write_file(text, TEXT, sizeof TEXT - 1);
    char *source = strdup(test_temporary("source.gguf")), *to = strdup(test_temporary("w.gguf"));
    convert("%s|%s", "builtin", source);
    char line[300];
    snprintf(line, sizeof line, "%%s|%%s|--type|q4_0|--importance|%s", text);
    convert(line, source, to);
    char *path = write_trace("builtin", test_text("-i|%s", TEXT), "weighed.safetensors");
    SafetensorsFile trace = open_trace(path);
    Checkpoint *a = open_converted(source), *b = open_converted(to);
    const LayerWeights *x = &checkpoint_weights(a)->layers[2];
    const LayerWeights *y = &checkpoint_weights(b)->layers[2];
    check_weighed(&y->wq, &x->wq, &trace, "model.layers.2.input_layernorm");
    check_weighed(&y->wk, &x->wk, &trace, "model.layers.2.input_layernorm");
    check_weighed(&y->wv, &x->wv, &trace, "model.layers.2.input_layernorm");
    check_weighed(&y->wo, &x->wo, &trace, "model.layers.2.self_attn.heads");
    check_weighed(&y->w_up, &x->w_up, &trace, "model.layers.2.post_attention_layernorm");
    check_weighed(&y->w_down, &x->w_down, &trace, "model.layers.2.mlp.activated");
    checkpoint_close(a);
    checkpoint_close(b);
    safetensors_close(&trace);
    free(path);
    free(source);
    free(to);
}

Test(convert_quality, texts_that_cannot_be_used_leave_nothing_behind) {
    const char *one = test_temporary("one.txt"), *to = test_temporary("none.gguf");
    test_write_file(one, "", 0);
    check_no_conversion(test_text("builtin%%s|%%s|--type|q4_0|--importance|%s", one), "", to,
                        ERROR_USAGE, "at least 2");
    static const char *const NOTHING[] = {"", "|--type|f16", "|--type|bf16|--head-type|f16"};
    for (size_t i = 0; i < sizeof NOTHING / sizeof *NOTHING; i++)
        check_no_conversion(test_text("builtin%%s|%%s%s|--importance|%s", NOTHING[i], one), "", to,
                            ERROR_USAGE, "--importance weighs the errors of quantised types");
    check_no_conversion("builtin%s|%s|--check|no-such.txt", "", to, ERROR_IO, "no-such.txt");
    check_no_conversion("builtin%s|%s|--json", "", to, ERROR_USAGE, "--check");
    test_write_file(to, "a text", 6);
    check_no_conversion(test_text("builtin%%s|%%s|--force|--check|%s", to), "", to, ERROR_USAGE,
                        to);
    CHECK(exists(to), "the text is gone");
}
