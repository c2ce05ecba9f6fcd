// bench: nothing is faster than what it measures the machine with; the tables of --attention,
// --projections and --no-cache have the rows that are known by hand, and both ways of each give the
// same outputs. No time is checked.
#include "base/error.h"
#include "tests/support/program.h"

#include <math.h>
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
                          "96",
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

// Of the bytes of Q8: avx2, and NEON without i8mm, have none.
static bool has_byte_sums(const char *json) {
    return strstr(json, "avx512") || strstr(json, "portable") || strstr(json, "i8mm");
}

// Which instructions a share is of, by type and precision, on the cpu backend. Eighty rows: more
// than any type multiplies straight from the file (takes_direct).
Test(bench, names_the_instructions_of_its_peak) {
    static const struct {
        const char *type, *precision, *prefill, *by_tiles, *decode;
    } CASES[] = {
        {"F16", "a8", "float32", "float32", "float32"},
        {"Q8_0", "f32", "float32", "float32", "float32"},
        {"Q8_0", "a16", "int16", "int8 tiles x 2", NULL},
        {"Q4_0", "a16", "int16", "int8 tiles x 2", "int8 x 2"},
        {"Q4_0", "a8", "int8", "int8 tiles", "int8"},
    };
    if (strcmp(TEST_BACKEND, "cpu")) SKIP("these are the kernels of the cpu backend");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char path[600], value[4000];
        snprintf(path, sizeof path, "%s", test_temporary("random.gguf"));
        make_model(CASES[i].type, path);
        TestRun r = program("bench|%s|--json|--no-limits|--pp|80|--gen|16|-r|1|--precision|%s",
                            path, CASES[i].precision);
        check_status(&r, 0);
        const char *prefill = strstr(r.out, "\"prefill\":{"),
                   *decode = strstr(r.out, "\"decode\":{");
        CHECK(prefill && decode, "%s", r.out);
        check_text(json_value(value, prefill, "peak"),
                   strstr(r.out, "amx (") ? CASES[i].by_tiles : CASES[i].prefill);
        const char *of_q8 = has_byte_sums(r.out) ? "int8 x 2" : "int16";
        check_text(json_value(value, decode, "peak"), CASES[i].decode ? CASES[i].decode : of_q8);
        test_run_free(&r);
    }
}

// ---- --attention ----

// A line of its CSV: name of the table, then the numbers in the order of ATTENTION_HEADER; NAN
// where there is none.
typedef struct AttentionLine {
    char table[16];
    double numbers[10];
} AttentionLine;
enum { HEADS, KV_HEADS, BATCH, POSITIONS, PARAMETERS, SCORE_BYTES, OTHER_MS, MS, SPEED_UP, OFF };
static const char ATTENTION_HEADER[] = "table,heads,kv_heads,batch,positions,parameters,score_"
                                       "bytes,other_ms,ms,speed_up,difference\n";

static AttentionLine next_line(const char **at) {
    AttentionLine line;
    size_t length = strcspn(*at, ",");
    CHECK(length && length < sizeof line.table, "%s", *at);
    snprintf(line.table, sizeof line.table, "%.*s", (int)length, *at);
    *at += length;
    for (int i = 0; i < 10; i++) {
        CHECK(**at == ',', "%s", *at);
        char *end;
        line.numbers[i] = strtod(*at + 1, &end);
        if (end == *at + 1) line.numbers[i] = NAN;
        *at = end;
    }
    CHECK(*(*at)++ == '\n', "%s", *at);
    return line;
}

static void check_line(const char **at, const AttentionLine *wanted) {
    AttentionLine line = next_line(at);
    CHECK_STRING(line.table, wanted->table);
    for (int i = HEADS; i <= SCORE_BYTES; i++)
        CHECK(isnan(wanted->numbers[i]) ? isnan(line.numbers[i])
                                        : line.numbers[i] == wanted->numbers[i],
              "%s, number %d: %g, not %g", line.table, i, line.numbers[i], wanted->numbers[i]);
    CHECK(line.numbers[MS] > 0 && line.numbers[SPEED_UP] > 0, "%s", line.table);
    bool two = !strcmp(line.table, "online") || !strcmp(line.table, "cache");
    CHECK(two == !isnan(line.numbers[OTHER_MS]) && two == !isnan(line.numbers[OFF]), "%s",
          line.table);
    if (!two) return;
    CHECK(line.numbers[OFF] <= 2e-5, "%s: both ways differ by %g", line.table, line.numbers[OFF]);
    bool same = !strcmp(line.table, "cache") && strcmp(TEST_BACKEND, "cuda") != 0;
    CHECK(!same || line.numbers[OFF] == 0, "cache: %g", line.numbers[OFF]);
}

// Parameters of wq (256 x 256), wk and wv (256 x 32 for each key-value head of eight), wo.
// Scores: 32 queries of 8 heads, 4 bytes each.
static void check_attention(const char *options) {
    static const AttentionLine WANTED[] = {
        {"kinds", {8, 8, 2, 12, 4 * 65536, NAN}},
        {"kinds", {8, 4, 2, 12, 2 * 65536 + 2 * 32768, NAN}},
        {"kinds", {8, 2, 2, 12, 2 * 65536 + 2 * 16384, NAN}},
        {"kinds", {8, 1, 2, 12, 147456, NAN}},
        {"heads", {4, 4, 2, 12, 262144, NAN}},
        {"heads", {16, 16, 2, 12, 262144, NAN}},
        {"heads", {32, 32, 2, 12, 262144, NAN}},
        {"online", {8, 8, 1, 48, NAN, 32 * 8 * 48 * 4}},
        {"online", {8, 8, 1, 32, NAN, 32 * 8 * 32 * 4}},
        {"online", {8, 8, 1, 70, NAN, 32 * 8 * 70 * 4}},
        {"cache", {8, 8, 1, 10, 262144, NAN}},
    };
    TestRun r =
        program("bench|--attention|--csv|-r|1|--pp|12|--batch|2|--depth|48,32,70|-j|2|%s", options);
    CHECK(r.status == 0 && r.err_size == 0, "%s", r.err);
    const char *at = r.out;
    CHECK(!strncmp(at, ATTENTION_HEADER, sizeof ATTENTION_HEADER - 1), "%.200s", at);
    at += sizeof ATTENTION_HEADER - 1;
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
        check_line(&at, &WANTED[i]);
    CHECK(!*at, "%s", at);
    test_run_free(&r);
}

Test(bench, attention_has_the_rows_that_are_known_by_hand) {
    check_attention("-q");
    check_attention("--kv|f16|--precision|f32");
    check_attention("--kv|bf16");
}

Test(bench, attention_prints_for_people_and_as_json) {
    TestRun r = program("bench|--attention|-r|2|--pp|3|--batch|1|--depth|32|-j|1");
    check_status(&r, 0);
    static const char *const TEXTS[] = {"\nMHA ",
                                        "\nGQA ",
                                        "\nMQA ",
                                        "cache f32",
                                        "medians of 2 runs, interleaved, after 1 to warm up",
                                        "the last 32 queries of a context"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        CHECK(strstr(r.out, TEXTS[i]), "no \"%s\" in %s", TEXTS[i], r.out);
    test_run_free(&r);
    r = program("bench|--attention|--json|-r|1|--pp|3|--batch|1|--depth|32|-j|1");
    check_status(&r, 0);
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "dim"), "256");
    CHECK_STRING(json_value(value, strstr(r.out, "\"table\":\"cache\""), "positions"), "3");
    CHECK_STRING(json_value(value, strstr(r.out, "\"table\":\"heads\""), "difference"), "null");
    test_run_free(&r);
}

Test(bench, attention_refuses_what_it_cannot_do) {
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"model.gguf", "leave the model out"},
        {"--markdown", "--markdown is not of"},
        {"--pattern|local:4", "--pattern is not of"},
        {"--gen|5", "--gen is not of"},
        {"--depth|128,31", "at least 32 positions"},
        {"--pp|3,4", "one number for each"},
        {"--pp|4194304|--batch|1024", "GB, at most 4.29"},
        {"--depth|4194304", "GB, at most 4.29"},
        {"--no-cache", "without the cache itself"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("bench|--attention|%s", CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

// ---- --projections ----

// A line for each of two precisions and each number of rows, whose figures agree with each other:
// 2 x 3072 x 1024 operations a row, and 18 bytes for 32 weights.
Test(bench, projections_count_what_a_matrix_takes) {
    static const char HEADER[] = "type,precision,rows,seconds,gop_per_second,gb_per_second,"
                                 "share_of_read,share_of_peak,share_of_most_rows\n";
    static const int ROWS[] = {1, 3, 20};
    TestRun r = program("bench|--projections|--csv|--type|q4_0|--batch|1,3,20|-r|1|-j|1");
    check_status(&r, 0);
    CHECK(!strncmp(r.out, HEADER, sizeof HEADER - 1), "%s", r.out);
    const char *line = r.out + sizeof HEADER - 1;
    for (int i = 0; i < 6; i++, line = strchr(line, '\n') + 1) {
        char precision[8];
        double n, seconds, gops, gb, shares[3];
        CHECK(sscanf(line, "Q4_0,%7[^,],%lf,%lf,%lf,%lf,%lf,%lf,%lf", precision, &n, &seconds,
                     &gops, &gb, shares, shares + 1, shares + 2) == 8,
              "%s", line);
        CHECK_STRING(precision, i < 3 ? "a16" : "a8");
        CHECK_NEAR(n, ROWS[i % 3], 0);
        CHECK_NEAR(gops * seconds * 1e9 / (2.0 * n * 3072 * 1024), 1, 1e-6);
        CHECK_NEAR(gb * seconds * 1e9 / (3072.0 * 1024 * 18 / 32), 1, 1e-6);
        CHECK(shares[0] > 0 && shares[1] > 0 && shares[2] > 0, "%s", line);
    }
    CHECK(!*line, "%s", line);
    test_run_free(&r);
    r = program("bench|--projections|--json|--type|f16|--batch|2|-r|1|-j|2|--precision|f32");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\"type\":\"F16\",\"precision\":\"f32\",\"rows\":2,"), "%s", r.out);
    test_run_free(&r);
    r = program("bench|--projections|--type|q8_0|--batch|1,2|-r|1|--no-limits");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\nQ8_0  a16"), "%s", r.out);
    test_run_free(&r);
}

Test(bench, projections_refuse_what_they_do_not_take) {
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"--projections|model.gguf", "leave the model out"},
        {"--projections|--pp|3", "--pp is not of"},
        {"--projections|-j|1,2", "one number of threads"},
        {"--projections|--attention", "a table of its own"},
        {"--type|q4_0", "--type is of bench --projections"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("bench|%s", CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

// ---- --no-cache ----

// FLOPs of n tokens by what cost says of single passes: without the cache a prompt of t tokens for
// each of them, with it one more token.
static double flops_ratio(int n) {
    char value[4000];
    double without = 0, with = 0;
    for (int t = 1; t <= n; t++) {
        TestRun r = program("cost|%s|--json|--machine|a100|-j|1|--seq|%d", small_model(), t);
        check_status(&r, 0);
        without += t * atof(json_value(value, r.out, "prompt_flops_per_token"));
        with += atof(json_value(value, r.out, "flops_per_token"));
        test_run_free(&r);
    }
    return without / with;
}

Test(bench, no_cache_measures_what_cost_predicts) {
    double numbers[9];
    TestRun r = program("bench|%s|--no-cache|--csv|--gen|12|-r|1|-q", small_model());
    check_status(&r, 0);
    static const char HEADER[] = "tokens,seconds_without,seconds_with,tokens_per_second_without,"
                                 "tokens_per_second_with,speed_up,flops_ratio,rows_ratio,same_bits";
    CHECK(!strncmp(r.out, HEADER, sizeof HEADER - 1), "%s", r.out);
    const char *line = r.out;
    for (int i = 0; i < 2; i++) { // 10 and 12 tokens
        line = strchr(line, '\n') + 1;
        for (int k = 0, length; k < 9; k++, line += length)
            CHECK(sscanf(line, k ? ",%lf%n" : "%lf%n", &numbers[k], &length) == 1, "%s", line);
        int n = i ? 12 : 10;
        CHECK_NEAR(numbers[0], n, 0);
        CHECK_NEAR(numbers[6], flops_ratio(n), 1e-6);
        CHECK_NEAR(numbers[7], (n + 1) / 2.0, 0);
        if (strcmp(TEST_BACKEND, "cuda") != 0) CHECK_NEAR(numbers[8], 1, 0);
    }
    CHECK_STRING(line, "\n");
    test_run_free(&r);
    r = program("bench|%s|--no-cache|--gen|3|-r|1|-j|1", small_model());
    check_status(&r, 0);
    CHECK(strstr(r.out, "cost --savings"), "%s", r.out);
    test_run_free(&r);
    r = program("bench|%s|--no-cache|--json|--gen|3|-r|1|-j|1", small_model());
    check_status(&r, 0);
    CHECK(strstr(r.out, "\"rows_ratio\":2,\"same_bits\":"), "%s", r.out);
    test_run_free(&r);
}

Test(bench, no_cache_refuses_what_it_cannot_do) {
    TestRun r = program("bench|%s|--no-cache|--gen|100000", small_model());
    check_refused(&r, ERROR_USAGE, "the model's context is");
    r = program("bench|%s|--no-cache|--depth|8", small_model());
    check_refused(&r, ERROR_USAGE, "no --depth");
    r = program("bench|%s|--no-cache|-j|1,2", small_model());
    check_refused(&r, ERROR_USAGE, "one number of threads");
}
