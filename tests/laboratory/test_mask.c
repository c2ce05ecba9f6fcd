// mask: published counts, a picture drawn by hand, refusals; and --pattern, which makes any model
// one with that pattern.
#include "base/error.h"
#include "tests/support/program.h"

#include <unistd.h>

static double number(const TestRun *r, const char *key) {
    char value[4000];
    return strtod(json_value(value, r->out, key), NULL);
}

// The counts of 64 positions are those of the published masks.
Test(mask, counts_are_those_of_the_published_masks) {
    static const struct {
        const char *pattern;
        int both, causal; // connections, with and without --bidirectional
        double sparsity;  // of both
    } WANTED[] = {
        {"local:8", 556, 310, 0.864258},  {"strided:4", 1072, 592, 0.738281},
        {"global:4", 556, 310, 0.864258}, {"block:8", 1408, 736, 0.65625},
        {"causal", 4096, 2080, 0},
    };
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        TestRun r = program("mask|%s|--seq|64|--json|--bidirectional", WANTED[i].pattern);
        check_status(&r, 0);
        CHECK_INT(number(&r, "connections"), WANTED[i].both);
        CHECK_NEAR(number(&r, "sparsity"), WANTED[i].sparsity, 1e-6);
        test_run_free(&r);
        r = program("mask|%s|--seq|64|--json", WANTED[i].pattern);
        check_status(&r, 0);
        CHECK_INT(number(&r, "connections"), WANTED[i].causal);
        CHECK_NEAR(number(&r, "sparsity"), 1 - WANTED[i].causal / 4096.0, 1e-12);
        CHECK(number(&r, "fewest_keys") >= 1, "%s has an empty row", WANTED[i].pattern);
        test_run_free(&r);
    }
}

// Windows of 2 and key 0, by hand. The last block of 60 positions is short, and no row is empty.
Test(mask, draws_what_is_seen) {
    TestRun r = program("mask|window:2+global:1|--seq|4");
    check_status(&r, 0);
    CHECK(strstr(r.out, "0 @@      \n1 @@@@    \n2 @@@@@@  \n3 @@  @@@@\n"), "%s", r.out);
    CHECK(strstr(r.out, "9 connections of 16, 43.7500 % sparse"), "%s", r.out);
    CHECK(!strstr(r.out, "::--=="), "a scale of two values: %s", r.out);
    test_run_free(&r);
    r = program("mask|window:2|--seq|3|--csv");
    check_status(&r, 0);
    CHECK_STRING(r.out, "query,key\n0,0\n1,0\n1,1\n2,1\n2,2\n");
    test_run_free(&r);
    r = program("mask|block:8|--seq|60|--json");
    check_status(&r, 0);
    CHECK(number(&r, "fewest_keys") >= 1, "%s", r.out);
    test_run_free(&r);
}

Test(mask, writes_a_file_once) {
    const char *svg = test_temporary("mask.svg");
    unlink(svg);
    TestRun r = program("mask|local:4|--svg|%s", svg);
    check_status(&r, 0);
    test_run_free(&r);
    CHECK(!access(svg, F_OK), "no file");
    r = program("mask|local:4|--svg|%s", svg);
    check_refused(&r, ERROR_USAGE, "--force");
}

Test(mask, refuses_what_is_no_pattern) {
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"local:64+globl:4", "\"globl:4\" is none of causal, window:N"},
        {"local", "\"local\" is none of"},
        {"local:0", "N from 1 to"},
        {"local:1+local:2+local:3+local:4+local:5", "more than 4 parts"},
        {"causal|--seq|4097", "--seq"},
        {"causal|--seq|0", "--seq"},
        {"causal|--csv|--json", "one of them"},
        {"causal|local:3", "one argument too many after the pattern"},
        {"--seq|4", "mask wants a pattern"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("mask|%s", CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

// ---- --pattern ----

static const char PROMPT[] = "-i|Once upon a time there was a little dog";

// What a pattern hides is no line of the CSV; the rows of weights still sum to 1.
Test(mask, attention_shows_the_pattern_alone) {
    TestRun r = program("attention|%s|%s|--layer|1|--head|2|--csv|--pattern|window:3+global:1",
                        small_model(), PROMPT);
    check_status(&r, 0);
    const char *at = strchr(r.out, '\n') + 1;
    double value, sums[64] = {0};
    int layer, head, query, key, length, lines = 0, last = 0;
    for (; sscanf(at, "%d,%d,%d,%d,%lf\n%n", &layer, &head, &query, &key, &value, &length) == 5;
         at += length, lines++) {
        CHECK(key <= query && (query - key < 3 || key < 1), "query %d, key %d", query, key);
        sums[query] += value;
        last = query;
    }
    CHECK(last >= 8 && lines == 1 + 2 + 3 + 4 * (last - 2), "%d lines, %d tokens", lines, last + 1);
    for (int q = 0; q <= last; q++)
        CHECK_NEAR(sums[q], 1, 1e-5);
    test_run_free(&r);
}

static void check_text(const char *pattern, bool same) {
    TestRun plain = program("generate|%s|%s|-t|0|--max-tokens|12|--json", small_model(), PROMPT);
    TestRun other = program("generate|%s|%s|-t|0|--max-tokens|12|--json|--pattern|%s",
                            small_model(), PROMPT, pattern);
    char a[4000], b[4000];
    check_status(&plain, 0);
    check_status(&other, 0);
    bool equal =
        !strcmp(json_value(a, plain.out, "logits_hash"), json_value(b, other.out, "logits_hash"));
    CHECK(equal == same, "%s: %s %s", pattern, a, b);
    test_run_free(&plain);
    test_run_free(&other);
}

// A pattern that hides nothing changes no bit, whichever way the kernels take.
Test(mask, a_pattern_that_hides_nothing_changes_no_bit) {
    check_text("causal", true);
    check_text("window:400", true);
    check_text("local:800+global:1", true);
    check_text("strided:1", true);
    check_text("window:4", false);
    check_text("local:4+global:1", false);
}

Test(mask, a_bad_pattern_is_refused_before_the_model_is_read) {
    TestRun r = program("generate|/nowhere.gguf|-i|x|--pattern|loca:3");
    check_refused(&r, ERROR_USAGE, "\"loca:3\" is none of");
    r = program("perplexity|/nowhere.gguf|--patterns|causal,");
    check_refused(&r, ERROR_USAGE, "an empty pattern in \"causal,\"");
    r = program("perplexity|/nowhere.gguf|--patterns|causal,local:0");
    check_refused(&r, ERROR_USAGE, "\"local:0\" is none of");
}

// Each line of the table is what the run with that pattern alone says.
Test(mask, the_table_of_patterns_is_that_of_single_runs) {
    static const char *const NAMES[] = {"causal", "local:6+global:2", "window:3"};
    static const char TEXT[] = "Once upon a time there was a dog and a cat in the park. They "
                               "played with a big red ball and a little boat all day long.";
    char line[400];
    snprintf(line, sizeof line, "perplexity|%s|-q|--window|16|--json|--patterns|%s,%s,%s",
             small_model(), NAMES[0], NAMES[1], NAMES[2]);
    TestRun table = program_input(line, TEXT, sizeof TEXT - 1);
    check_status(&table, 0);
    const char *row = strstr(table.out, "\"patterns\":[");
    double bytes = INFINITY;
    for (int i = 0; i < 3; i++) {
        char value[4000];
        snprintf(line, sizeof line, "perplexity|%s|-q|--window|16|--json|--pattern|%s",
                 small_model(), NAMES[i]);
        TestRun alone = program_input(line, TEXT, sizeof TEXT - 1);
        check_status(&alone, 0);
        row = strstr(row, "{\"pattern\":");
        CHECK(row, "row %d: %s", i, table.out);
        CHECK_NEAR(strtod(json_value(value, row, "mean_nll"), NULL), number(&alone, "mean_nll"),
                   1e-9);
        double kl = strtod(json_value(value, row, "kl_mean"), NULL);
        CHECK(i ? kl > 0 : kl == 0, "%s: KL %g", NAMES[i], kl);
        double seen = strtod(json_value(value, row, "kv_bytes_per_token"), NULL);
        CHECK(seen > 0 && seen < bytes, "%s: %g bytes", NAMES[i], seen);
        bytes = seen;
        row++;
        test_run_free(&alone);
    }
    test_run_free(&table);
}
