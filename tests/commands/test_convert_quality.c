// convert's --importance and --check: what is measured over a text, and that rounding by it helps.
#include "base/error.h"
#include "base/json.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

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

Test(convert_quality, texts_that_cannot_be_used_leave_nothing_behind) {
    const char *one = test_temporary("one.txt"), *to = test_temporary("none.gguf");
    test_write_file(one, "", 0);
    check_no_conversion(test_text("builtin%%s|%%s|--importance|%s", one), "", to, ERROR_USAGE,
                        "at least 2");
    check_no_conversion("builtin%s|%s|--check|no-such.txt", "", to, ERROR_IO, "no-such.txt");
    check_no_conversion("builtin%s|%s|--json", "", to, ERROR_USAGE, "--check");
    test_write_file(to, "a text", 6);
    check_no_conversion(test_text("builtin%%s|%%s|--force|--check|%s", to), "", to, ERROR_USAGE,
                        to);
    CHECK(exists(to), "the text is gone");
}
