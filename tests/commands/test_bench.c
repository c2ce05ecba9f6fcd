// The shares that bench shows: nothing is faster than what it measures the machine with.
#include "tests/support/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const PRECISIONS[] = {"f32", "a16", "a8"};

// A random model small enough for plain loops, wide enough that multiplying is most of the work.
static void make_model(const char *type, const char *path) {
    const char *argv[] = {TEST_BUILD "/tests/random_model",
                          "--dim",
                          "256",
                          "--hidden",
                          "768",
                          "--layers",
                          "1",
                          "--heads",
                          "4",
                          "--kv-heads",
                          "2",
                          "--vocab",
                          "512",
                          "--ctx",
                          "64",
                          "--type",
                          type,
                          path,
                          NULL};
    TestRun made = test_run(argv, NULL, 0);
    CHECK(made.status == 0, "%s", made.err);
    test_run_free(&made);
}

// How many figures `key` has in lines of JSON (null is none), the largest in *most. Each is above
// 0.
static int figures(const char *json, const char *key, double *most) {
    char wanted[64];
    int count = 0;
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    for (const char *at = json; (at = strstr(at, wanted));) {
        at += strlen(wanted);
        if (!strncmp(at, "null", 4)) continue;
        double value = strtod(at, NULL);
        CHECK(value > 0, "%s is %g", key, value);
        if (value > *most) *most = value;
        count++;
    }
    return count;
}

// The largest share of any limit. Each of the two rows appears twice: by name and in the list.
static double largest_share(const char *model, const char *precision, int repetitions) {
    TestRun r = program("bench|%s|--json|--pp|32|--gen|16|-j|1|-r|%d|--precision|%s", model,
                        repetitions, precision);
    check_status(&r, 0);
    double most = 0;
    CHECK_INT(figures(r.out, "share_of_peak", &most), 4);
    CHECK_INT(figures(r.out, "share_of_read", &most), 2); // of decoding
    figures(r.out, "share_of_memory", &most);             // where no cache holds the weights
    test_run_free(&r);
    return most;
}

// A single sample of a limit can fall into a moment in which the machine does something else: a
// share that is too large must be so again.
static void check_shares(const char *model, const char *what) {
    for (int p = 0; p < 3; p++) {
        double share = largest_share(model, PRECISIONS[p], 1);
        for (int again = 0; again < 3 && share > 1.05; again++)
            share = largest_share(model, PRECISIONS[p], 3);
        CHECK(share <= 1.05, "%s at %s: a share of %g", what, PRECISIONS[p], share);
    }
}

Test(bench, no_share_of_a_limit_is_above_it) {
    static const char *const TYPES[] = {"Q8_0", "Q4_0", "F32", "F16", "BF16"};
    if (!strcmp(TEST_BACKEND, "cuda")) SKIP("an emulator's speed says nothing");
    size_t count = TEST_SANITIZED ? 1 : sizeof TYPES / sizeof *TYPES; // loops that nobody uses
    for (size_t i = 0; i < count; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s", test_temporary("random.gguf"));
        make_model(TYPES[i], path);
        check_shares(path, TYPES[i]);
    }
}

Test(bench, nor_with_the_built_in_model) {
    if (strcmp(TEST_BACKEND, "cpu") || TEST_SANITIZED) SKIP("this build takes minutes");
    check_shares(small_model(), "the built-in model");
}

static void check_text(const char *json, const char *wanted) {
    size_t length = strlen(wanted);
    CHECK(strlen(json) == length + 2 && !strncmp(json + 1, wanted, length), "%s, not %s", json,
          wanted);
}

// Which instructions a share is of, by type and precision, on the cpu backend.
Test(bench, names_the_instructions_of_its_peak) {
    static const struct {
        const char *type, *precision, *prefill, *decode;
    } CASES[] = {
        {"F16", "a8", "float32", "float32"}, {"Q8_0", "f32", "float32", "float32"},
        {"Q8_0", "a16", "int16", "int16"},   {"Q4_0", "a16", "int16", "int8 x 2"},
        {"Q4_0", "a8", "int8", "int8"},
    };
    if (strcmp(TEST_BACKEND, "cpu")) SKIP("these are the kernels of the cpu backend");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char path[600], value[4000];
        snprintf(path, sizeof path, "%s", test_temporary("random.gguf"));
        make_model(CASES[i].type, path);
        TestRun r = program("bench|%s|--json|--no-limits|--pp|32|--gen|16|-r|1|--precision|%s",
                            path, CASES[i].precision);
        check_status(&r, 0);
        const char *prefill = strstr(r.out, "\"prefill\":{"),
                   *decode = strstr(r.out, "\"decode\":{");
        CHECK(prefill && decode, "%s", r.out);
        check_text(json_value(value, prefill, "peak"), CASES[i].prefill);
        check_text(json_value(value, decode, "peak"), CASES[i].decode);
        test_run_free(&r);
    }
}
