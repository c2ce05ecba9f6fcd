// The program's JSON passes a strict parser: one object per line, with the documented keys and
// types.
#include "tests/support/program.h"

#include <jansson.h>

// The last line of the output, parsed.
static json_t *parse_last(const TestRun *r) {
    CHECK(r->status == 0, "exit %d: %s", r->status, r->err);
    CHECK(r->out_size > 1 && r->out[r->out_size - 1] == '\n', "no line");
    const char *line = r->out + r->out_size - 1;
    while (line > r->out && line[-1] != '\n')
        line--;
    json_error_t error;
    json_t *root =
        json_loadb(line, (size_t)(r->out + r->out_size - line), JSON_REJECT_DUPLICATES, &error);
    CHECK(root, "%s: %.200s", error.text, line);
    return root;
}

// Exactly these keys, in this order, with these types.
static void check_keys(json_t *root, const char *const *keys, const json_type *types, size_t n) {
    const char *key;
    json_t *value;
    size_t i = 0;
    CHECK_INT(json_object_size(root), n);
    json_object_foreach(root, key, value) {
        CHECK(!strcmp(key, keys[i]), "key %zu is %s, wanted %s", i, key, keys[i]);
        CHECK(json_typeof(value) == types[i], "%s has type %d", key, json_typeof(value));
        i++;
    }
}

Test(json_output, generate) {
    static const char *const KEYS[] = {"prompt_ids",
                                       "ids",
                                       "text",
                                       "stop",
                                       "logits_hash",
                                       "prompt_tokens_per_second",
                                       "decode_tokens_per_second",
                                       "time_to_first_token_s",
                                       "peak_memory_bytes"};
    static const json_type TYPES[] = {JSON_ARRAY, JSON_ARRAY, JSON_STRING, JSON_STRING, JSON_STRING,
                                      JSON_REAL,  JSON_REAL,  JSON_REAL,   JSON_INTEGER};
    TestRun r = program("%s|-i|Once \"upon\"\\|-n|20|-s|1|--json|--logprobs|3|-q", small_model());
    json_t *root = parse_last(&r);
    check_keys(root, KEYS, TYPES, 9);
    json_t *ids = json_object_get(root, "ids");
    // Before it, a line per id: log probabilities in falling order, whose sum is at most 1.
    const char *line = r.out;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        size_t length = strcspn(line, "\n");
        json_t *token = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
        CHECK(token, "%.*s", (int)length, line);
        CHECK(json_equal(json_object_get(token, "id"), json_array_get(ids, i)));
        json_t *top = json_object_get(token, "top");
        CHECK_INT(json_array_size(top), 3);
        double before = 0, sum = 0;
        for (size_t j = 0; j < 3; j++) {
            json_t *logprob = json_object_get(json_array_get(top, j), "logprob");
            double value = json_number_value(logprob);
            CHECK(value <= before, "%g after %g", value, before);
            before = value;
            sum += exp(value);
        }
        CHECK(sum <= 1 + 1e-6, "%g", sum);
        json_decref(token);
        line += length + 1;
    }
    json_decref(root);
    test_run_free(&r);
}

Test(json_output, bench) {
    TestRun r = program("bench|%s|--json|-r|2|--pp|8|--gen|8|-j|1", small_model());
    json_t *root = parse_last(&r);
    static const char *const KINDS[] = {"prefill", "decode"};
    for (int i = 0; i < 2; i++) {
        json_t *row = json_object_get(root, KINDS[i]);
        CHECK(json_number_value(json_object_get(row, "tokens_per_second")) > 0);
        CHECK(json_number_value(json_object_get(row, "share_of_peak")) > 0);
    }
    json_t *limits = json_array_get(json_object_get(root, "limits"), 0);
    static const char *const LIMITS[] = {"model_read_gb_per_second", "memory_read_gb_per_second",
                                         "fp32_gflop_per_second", "int8_gop_per_second"};
    for (int i = 0; i < 4; i++) {
        double value = json_number_value(json_object_get(limits, LIMITS[i]));
        CHECK(value > 0.1 && value < 1e6, "%s: %g", LIMITS[i], value);
    }
    json_decref(root);
    test_run_free(&r);
}

Test(json_output, inspect_and_perplexity) {
    TestRun r = program("inspect|%s|--json", small_model());
    json_t *root = parse_last(&r);
    json_t *tensors = json_object_get(root, "tensors");
    json_t *totals = json_object_get(root, "totals");
    json_int_t bytes = 0;
    for (size_t i = 0; i < json_array_size(tensors); i++)
        bytes += json_integer_value(json_object_get(json_array_get(tensors, i), "bytes"));
    CHECK_INT(bytes, json_integer_value(json_object_get(totals, "bytes")));
    CHECK_INT(json_array_size(tensors), json_integer_value(json_object_get(totals, "tensors")));
    json_decref(root);
    test_run_free(&r);
    char line[600];
    snprintf(line, sizeof line, "perplexity|%s|--json|-q", small_model());
    r = program_input(line, "Once upon a time", 16);
    root = parse_last(&r);
    CHECK(json_number_value(json_object_get(root, "perplexity")) > 1);
    CHECK_INT(json_integer_value(json_object_get(root, "tokens")), 4); // after BOS, all of them
    json_decref(root);
    test_run_free(&r);
}

Test(json_output, selftest) {
    static const char *const KEYS[] = {"family", "container", "precision", "prompt_ids",
                                       "checks", "held",      "failed",    "does_not_apply"};
    static const json_type TYPES[] = {JSON_STRING, JSON_STRING,  JSON_STRING,  JSON_ARRAY,
                                      JSON_ARRAY,  JSON_INTEGER, JSON_INTEGER, JSON_INTEGER};
    static const char *const FIGURES[] = {"largest_difference", "bound", "values", "seconds"};
    TestRun r = program("selftest|%s|--json", small_model());
    json_t *root = parse_last(&r);
    check_keys(root, KEYS, TYPES, 8);
    json_t *checks = json_object_get(root, "checks");
    json_int_t held = 0;
    for (size_t i = 0; i < json_array_size(checks); i++) {
        json_t *check = json_array_get(checks, i);
        const char *result = json_string_value(json_object_get(check, "result"));
        held += !strcmp(result, "held");
        bool reason = json_is_string(json_object_get(check, "reason"));
        CHECK(reason == !strcmp(result, "does not apply"), "%s", result);
        for (int k = 0; k < 4; k++)
            CHECK(json_is_number(json_object_get(check, FIGURES[k])), "%s", FIGURES[k]);
    }
    CHECK(held >= 11, "%d", (int)held);
    CHECK_INT(held, json_integer_value(json_object_get(root, "held")));
    CHECK_INT(json_integer_value(json_object_get(root, "failed")), 0);
    json_decref(root);
    test_run_free(&r);
}
