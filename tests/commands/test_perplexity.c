// perplexity: which tokens a window scores, divergences worked by hand, files of saved logits.
#include "base/error.h"
#include "commands/perplexity/scoring.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <math.h>
#include <unistd.h>

// ---- windows ----

static void check_windows(TextWindows windows, size_t count, const TextWindow *wanted, size_t n,
                          size_t used) {
    TextWindow w;
    size_t scored = 0, got_used;
    for (size_t i = 0; i < n; i++) {
        CHECK(text_window(&w, &windows, count, i), "window %zu is missing", i);
        CHECK(w.begin == wanted[i].begin && w.end == wanted[i].end && w.first == wanted[i].first &&
                  w.after == wanted[i].after,
              "window %zu: %zu %zu %zu %zu", i, w.begin, w.end, w.first, w.after);
        scored += w.after - w.first;
    }
    CHECK(!text_window(&w, &windows, count, n), "one window too many");
    CHECK_INT(text_windows_scored(&windows, count, &got_used), scored);
    CHECK_INT(got_used, used);
}

Test(perplexity, windows_score_every_token_but_the_first_once) {
    check_windows((TextWindows){4, 4, 0, false}, 10,
                  (TextWindow[]){{0, 4, 1, 5}, {4, 8, 5, 9}, {8, 10, 9, 10}}, 3, 10);
    check_windows((TextWindows){4, 2, 0, false}, 8,
                  (TextWindow[]){{0, 4, 1, 5}, {2, 6, 5, 7}, {4, 8, 7, 8}}, 3, 8);
    check_windows((TextWindows){4, 4, 0, false}, 5, (TextWindow[]){{0, 4, 1, 5}}, 1, 5);
    check_windows((TextWindows){4, 4, 0, false}, 1, NULL, 0, 0);
    check_windows((TextWindows){4, 4, 2, false}, 100, (TextWindow[]){{0, 4, 1, 5}, {4, 8, 5, 9}}, 2,
                  9); // --windows 2
}

Test(perplexity, second_halves_are_those_of_whole_windows) {
    check_windows((TextWindows){4, 4, 0, true}, 11, (TextWindow[]){{0, 3, 3, 4}, {4, 7, 7, 8}}, 2,
                  8);
    check_windows((TextWindows){8, 8, 1, true}, 16, (TextWindow[]){{0, 7, 5, 8}}, 1, 8);
    check_windows((TextWindows){8, 8, 0, true}, 7, NULL, 0, 0);
}

// ---- divergence ----

// P = (1/2, 1/4, 1/4), Q = (1/4, 1/2, 1/4):  KL = 1/2 ln 2 - 1/4 ln 2 = ln 2 / 4. A constant added
// to all logits changes no probability.
Test(perplexity, divergence_worked_by_hand) {
    static const float P[] = {0.69314718f, 0, 0}, Q[] = {3, 3.69314718f, 3};
    Divergence d;
    Error error = {0};
    CHECK(divergence_init(&d, 200, &error));
    divergence_add(&d, P, Q, 3);
    divergence_add(&d, P, P, 3);
    DivergenceSummary s = divergence_summary(&d);
    CHECK_NEAR(s.kl_mean, 0.6931471805599453 / 8, 1e-8);
    CHECK_NEAR(s.kl_max, 0.6931471805599453 / 4, 1e-8);
    CHECK_NEAR(s.top1_agreement, 0.5, 0);
    CHECK_NEAR(s.max_logit_error, 3.69314718f, 1e-7);
    // Row 1: errors 2.3069, 3.6931, 3; row 2: none.
    CHECK_NEAR(s.rms_logit_error,
               sqrt((2.30685282 * 2.30685282 + 3.69314718 * 3.69314718 + 9) / 3 / 2), 1e-7);
    divergence_free(&d);
}

// Of 200 rows 2 may lie above the 99th percentile. KL of row i grows with i.
Test(perplexity, percentile_worked_by_hand) {
    static const float P[] = {0, 0};
    Divergence d;
    Error error = {0};
    CHECK(divergence_init(&d, 200, &error));
    for (int i = 199; i >= 0; i--)
        divergence_add(&d, P, (float[]){(float)i * 0.01f, 0}, 2);
    DivergenceSummary s = divergence_summary(&d);
    double x = 197 * 0.01; // the third largest: log of the mean of e^x and 1, less x / 2
    CHECK_NEAR(s.kl_p99, log((exp(x) + 1) / 2) - x / 2, 1e-6);
    CHECK_NEAR(s.kl_max, log((exp(1.99) + 1) / 2) - 1.99 / 2, 1e-6);
    CHECK_NEAR(s.top1_agreement, 1.0, 0); // the lowest index among equals
    divergence_free(&d);
}

Test(perplexity, divergence_of_extreme_logits_is_finite) {
    static const float P[] = {3e38f, -3e38f, 0}, Q[] = {-3e38f, 3e38f, 0};
    Divergence d;
    Error error = {0};
    CHECK(divergence_init(&d, 2, &error));
    divergence_add(&d, P, Q, 3);
    divergence_add(&d, P, P, 3);
    DivergenceSummary s = divergence_summary(&d);
    CHECK(isfinite(s.kl_max) && s.kl_max > 1e38, "%g", s.kl_max);
    CHECK_NEAR(d.kl[0], 0, 0);
    divergence_free(&d);
    CHECK(divergence_init(&d, 0, &error));
    CHECK(isnan(divergence_summary(&d).kl_mean));
    divergence_free(&d);
}

// ---- the program ----

static double number(const TestRun *r, const char *key) {
    char pattern[80];
    snprintf(pattern, sizeof pattern, "\"%s\":", key);
    const char *at = strstr(r->out, pattern);
    CHECK(at, "no key %s in %s %s", key, r->out, r->err);
    return strtod(at + strlen(pattern), NULL);
}

enum { TEXT_IDS = 100 };

// A file of the ids from .. from + count - 1 of some text, after `first` unless that is -1.
static const char *ids_file(const char *name, int first, int from, int count) {
    char text[1000];
    int at = first >= 0 ? snprintf(text, sizeof text, "%d", first) : 0;
    for (int i = from; i < from + count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %d", 3 + (i * i * 7 + i) % 500);
    const char *path = test_temporary(name);
    test_write_file(path, text, (size_t)at);
    return path;
}

static TestRun run_ids(const char *ids, const char *options) {
    char line[4000];
    snprintf(line, sizeof line, "perplexity|%s|--json|-q|--ids|%s%s", small_model(), ids, options);
    return program_input(line, NULL, 0);
}

// The sum of nll over the tokens that a run scores.
static double total(const char *ids, const char *options, int tokens) {
    TestRun r = run_ids(ids, options);
    check_status(&r, 0);
    double sum = number(&r, "mean_nll") * number(&r, "tokens");
    CHECK_INT(number(&r, "tokens"), tokens);
    test_run_free(&r);
    return sum;
}

Test(perplexity, second_half_is_the_whole_less_the_first_half) {
    double whole = total(ids_file("a", -1, 0, 32), "", 31);
    double first = total(ids_file("b", -1, 0, 17), "", 16);
    double second = total(ids_file("c", -1, 0, 40), "|--window|32|--second-half", 15);
    CHECK_NEAR(second, whole - first, 1e-5);
    double both = total(ids_file("d", -1, 0, 64), "|--window|32|--second-half", 30);
    double next =
        total(ids_file("e", -1, 32, 32), "", 31) - total(ids_file("f", -1, 32, 17), "", 16);
    CHECK_NEAR(both, second + next, 1e-5);
    CHECK_NEAR(total(ids_file("d", -1, 0, 64), "|--window|32|--second-half|--windows|1", 15),
               second, 1e-9);
}

// If the model's prompts begin with BOS, it replaces the first token of every window.
Test(perplexity, windows_of_second_halves_begin_with_bos) {
    static const char TEXT[] =
        "Once upon a time there was a dog and a cat in the park all day long. They played with a "
        "big red ball and a little boat.";
    char line[1000];
    snprintf(line, sizeof line, "tokenize|%s|--bos|-i|%s", small_model(), TEXT);
    TestRun ids = program_input(line, NULL, 0);
    int id[200], n = 0;
    for (char *at = ids.out, *end; n < 200; at = end) {
        id[n] = (int)strtol(at, &end, 10);
        if (end == at) break;
        n++;
    }
    test_run_free(&ids);
    CHECK(n >= 24 && id[0] == 1, "%d ids", n);
    id[8] = id[16] = 1;
    char text[1000];
    int at = 0;
    for (int i = 0; i < 24; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %d", id[i]);
    const char *path = test_temporary("bos");
    test_write_file(path, text, (size_t)at);
    double wanted = total(path, "|--window|8|--second-half|--windows|3", 9);
    snprintf(line, sizeof line, "perplexity|%s|--json|-q|--window|8|--second-half|--windows|3",
             small_model());
    TestRun r = program_input(line, TEXT, sizeof TEXT - 1);
    check_status(&r, 0);
    CHECK_NEAR(number(&r, "mean_nll"), wanted / 9, 1e-9);
    test_run_free(&r);
    // Ids alone get no BOS, so the logits of such a run are no measure for them.
    const char *saved = test_temporary("bos.safetensors"), *given = test_temporary("ids-of-text");
    snprintf(line, sizeof line,
             "perplexity|%s|-q|--window|8|--second-half|--windows|3|--save-logits|%s",
             small_model(), saved);
    r = program_input(line, TEXT, sizeof TEXT - 1);
    check_status(&r, 0);
    test_run_free(&r);
    snprintf(line, sizeof line, "$RUN tokenize $MODEL --bos -i '%s' > %s", TEXT, given);
    r = program_shell(line);
    check_status(&r, 0);
    test_run_free(&r);
    snprintf(line, sizeof line, "|--window|8|--second-half|--windows|3|--kl|%s", saved);
    r = run_ids(given, line);
    check_refused(&r, ERROR_FILE, "another text");
}

Test(perplexity, logits_do_not_diverge_from_themselves) {
    char options[1000];
    const char *ids = ids_file("ids", -1, 0, TEXT_IDS);
    const char *path = test_temporary("saved.safetensors");
    snprintf(options, sizeof options, "|--window|32|--stride|20|--precision|f32|--save-logits|%s",
             path);
    TestRun r = run_ids(ids, options);
    check_status(&r, 0);
    CHECK(!strstr(r.out, "kl_mean") && !r.err_size, "%s %s", r.out, r.err);
    test_run_free(&r);
    snprintf(options, sizeof options, "|--window|32|--stride|20|--precision|f32|-j|2|--kl|%s",
             path);
    r = run_ids(ids, options);
    check_status(&r, 0);
    CHECK_NEAR(number(&r, "kl_mean"), 0, 0);
    CHECK_NEAR(number(&r, "kl_p99"), 0, 0);
    CHECK_NEAR(number(&r, "kl_max"), 0, 0);
    CHECK_NEAR(number(&r, "max_logit_error"), 0, 0);
    CHECK_NEAR(number(&r, "rms_logit_error"), 0, 0);
    CHECK_NEAR(number(&r, "top1_agreement"), 1, 0);
    test_run_free(&r);
    // A float16 cache differs slightly. The divergence is that of the saved rows of both runs.
    snprintf(options, sizeof options,
             "|--window|32|--stride|20|--precision|f32|--kv|f16|--kl|%s|--save-logits|%s.2", path,
             path);
    r = run_ids(ids, options);
    check_status(&r, 0);
    double kl = number(&r, "kl_mean"), error = number(&r, "max_logit_error");
    CHECK(kl > 0 && kl < 1e-5 && error > 0 && error < 0.1, "%g %g", kl, error);
    CHECK(number(&r, "kl_p99") <= number(&r, "kl_max"));
    test_run_free(&r);
    snprintf(options, sizeof options, "|--window|32|--stride|20|--precision|f32|--kl|%s.2", path);
    r = run_ids(ids, options);
    check_status(&r, 0);
    CHECK_NEAR(number(&r, "max_logit_error"), error, 0);
    CHECK_NEAR(number(&r, "kl_mean"), kl, 0.05 * kl); // nearly symmetric so close by
    test_run_free(&r);
}

Test(perplexity, divergence_is_printed_for_people) {
    char line[2000];
    const char *ids = ids_file("ids", -1, 0, 20), *path = test_temporary("people.safetensors");
    snprintf(line, sizeof line, "perplexity|%s|--ids|%s|--save-logits|%s", small_model(), ids,
             path);
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    CHECK(strstr(r.err, "saving 19 rows of 2048 logits"), "%s", r.err);
    test_run_free(&r);
    snprintf(line, sizeof line, "perplexity|%s|--ids|%s|--kl|%s", small_model(), ids, path);
    r = program_input(line, NULL, 0);
    check_status(&r, 0);
    CHECK(strstr(r.out, "against        builtin.gguf, precision a16, cache f16") &&
              strstr(r.out, "KL divergence  0 nats"),
          "%s", r.out);
    test_run_free(&r);
}

// Of "</s>abab" the four bytes behind the first token are scored, also where that is a control
// token.
Test(perplexity, bits_per_byte_are_of_the_bytes_behind_the_first_token) {
    static const char *const TEXTS[] = {"</s>abab", "ababab"};
    GgufFile *file = gguf_tiny_llama();
    gguf_set_bool(file, "tokenizer.ggml.add_bos_token", 0);
    gguf_set_bool(file, "tokenizer.ggml.add_space_prefix", 0);
    const char *path = conversion_gguf("no-bos.gguf", file);
    for (int i = 0; i < 2; i++) {
        char line[1000];
        snprintf(line, sizeof line, "perplexity|%s|--special|--json|-q", path);
        TestRun r = program_input(line, TEXTS[i], strlen(TEXTS[i]));
        check_status(&r, 0);
        double bits = number(&r, "mean_nll") * number(&r, "tokens") / M_LN2;
        CHECK_INT(number(&r, "tokens"), 2);
        CHECK_NEAR(number(&r, "bits_per_byte"), bits / 4, 1e-5);
        test_run_free(&r);
    }
}

// The lines of --csv, whose means are those of --json. Token 0 of the text is scored by none.
Test(perplexity, csv_has_a_line_for_every_scored_token) {
    const char *ids = ids_file("ids", -1, 0, 40), *path = test_temporary("csv.safetensors");
    char line[2000];
    snprintf(line, sizeof line, "|--window|16|--save-logits|%s", path);
    TestRun json = run_ids(ids, line);
    double mean = number(&json, "mean_nll"), sum = 0;
    test_run_free(&json);
    snprintf(line, sizeof line, "|--window|16|--kv|f32|--kl|%s", path);
    json = run_ids(ids, line);
    double divergence = number(&json, "kl_mean"), sum_kl = 0;
    snprintf(line, sizeof line, "perplexity|%s|-q|--ids|%s|--csv|--window|16", small_model(), ids);
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    char *rest = r.out;
    CHECK_STRING(strsep(&rest, "\n"), "position,id,nll");
    for (int i = 1, position, id; i < 40; i++) {
        double nll;
        int read = sscanf(strsep(&rest, "\n"), "%d,%d,%lf", &position, &id, &nll);
        CHECK_INT(read, 3);
        CHECK_INT(position, i);
        CHECK_INT(id, 3 + (i * i * 7 + i) % 500);
        sum += nll;
    }
    CHECK_STRING(rest, "");
    CHECK_NEAR(sum / 39, mean, 1e-7);
    test_run_free(&r);
    snprintf(line, sizeof line, "perplexity|%s|-q|--ids|%s|--csv|--window|16|--kv|f32|--kl|%s",
             small_model(), ids, path);
    r = program_input(line, NULL, 0);
    check_status(&r, 0);
    rest = r.out;
    CHECK_STRING(strsep(&rest, "\n"), "position,id,nll,kl");
    for (int i = 1; i < 40; i++) {
        double kl;
        int read = sscanf(strsep(&rest, "\n"), "%*d,%*d,%*f,%lf", &kl);
        CHECK_INT(read, 1);
        sum_kl += kl;
    }
    CHECK(divergence > 0);
    CHECK_NEAR(sum_kl / 39, divergence, 1e-6 * divergence);
    test_run_free(&r);
    test_run_free(&json);
}

// ---- files of another run ----

static void check_kl_refused(const char *ids, const char *options, const char *path,
                             const char *because) {
    char line[1000];
    snprintf(line, sizeof line, "%s|--kl|%s", options, path);
    TestRun r = run_ids(ids, line);
    check_refused(&r, ERROR_FILE, because);
}

Test(perplexity, logits_of_another_run_are_refused) {
    char line[1000];
    const char *path = test_temporary("one.safetensors");
    const char *ids = ids_file("ids", -1, 0, 64);
    snprintf(line, sizeof line, "|--window|32|--save-logits|%s", path);
    TestRun r = run_ids(ids, line);
    check_status(&r, 0);
    test_run_free(&r);
    check_kl_refused(ids, "|--window|16", path,
                     "window: these logits were saved with 32, this run has 16");
    check_kl_refused(ids, "|--window|32|--stride|16", path, "stride");
    check_kl_refused(ids, "|--window|32|--second-half", path, "second_half");
    check_kl_refused(ids, "|--window|32|--windows|1", path,
                     "another text, other --windows or another BOS");
    check_kl_refused(ids_file("other", -1, 1, 64), "|--window|32", path, "another text");
    check_kl_refused(ids, "", small_model(), "builtin.gguf: ");
    check_kl_refused(ids, "", ids, "ids: ");
    snprintf(line, sizeof line, "|--kl|%s.absent", path);
    r = run_ids(ids, line);
    check_refused(&r, ERROR_IO, "absent");
}

// Replaces the first `from` in a file of saved logits and compares a run with it.
static void check_damaged(const char *path, const char *from, const char *to, const char *because) {
    size_t size = 0;
    char *bytes = test_read_file(path, &size);
    char *at = memmem(bytes, size, from, strlen(from));
    CHECK(at && strlen(from) == strlen(to), "%s", from);
    memcpy(at, to, strlen(to));
    const char *damaged = test_temporary("damaged.safetensors");
    test_write_file(damaged, bytes, size);
    free(bytes);
    check_kl_refused(ids_file("ids", -1, 0, 20), "", damaged, because);
}

Test(perplexity, hostile_files_of_logits_are_refused) {
    char line[1000];
    const char *path = test_temporary("good.safetensors");
    const char *ids = ids_file("ids", -1, 0, 20);
    snprintf(line, sizeof line, "|--save-logits|%s", path);
    TestRun r = run_ids(ids, line);
    check_status(&r, 0);
    test_run_free(&r);
    check_damaged(path, "\"limpid-logits\"", "\"limpid-lagits\"", "format");
    check_damaged(path, "\"text_hash\"", "\"test_hash\"", "the metadata has no \"text_hash\"");
    check_damaged(path, "\"vocab_size\":\"2048\"", "\"vocab_size\":\"2049\"", "vocab_size");
    check_damaged(path, "\"F32\"", "\"I32\"", "\"logits\" of F32");
    check_damaged(path, "[19,2048]", "[2048,19]", "\"logits\" of F32");
    check_damaged(path, "\"targets\"", "\"torgets\"", "\"targets\" of I64");
    size_t size = 0;
    char *bytes = test_read_file(path, &size);
    const char *damaged = test_temporary("cut.safetensors");
    test_write_file(damaged, bytes, size - 100);
    check_kl_refused(ids, "", damaged, "outside");
    memset(bytes + size - 4, 0xff, 4); // the last logit is a NaN
    test_write_file(damaged, bytes, size);
    check_kl_refused(ids, "", damaged, "row 18 of the logits is not finite");
    bytes[size - 19 * 2048 * 4 - 8]++; // the last target
    test_write_file(damaged, bytes, size);
    check_kl_refused(ids, "", damaged, "another text: target 18");
    free(bytes);
}

Test(perplexity, logits_are_saved_whole_or_not_at_all) {
    char line[1500];
    const char *path = test_temporary("whole.safetensors");
    const char *ids = ids_file("ids", -1, 0, 20);
    // A file size limit acts like a full disk.
    snprintf(line, sizeof line, "ulimit -f 8; $RUN perplexity $MODEL --ids %s -q --save-logits %s",
             ids, path);
    TestRun r = program_shell(line);
    check_refused(&r, ERROR_IO, "whole.safetensors");
    CHECK(access(path, F_OK), "something was left behind");
    snprintf(line, sizeof line, "|--save-logits|/nowhere/x.safetensors");
    r = run_ids(ids, line);
    check_refused(&r, ERROR_IO, "/nowhere/x.safetensors");
    r = run_ids(ids, "|--save-logits|");
    check_refused(&r, ERROR_IO, "the name of the output is empty");
    snprintf(line, sizeof line, "|--save-logits|%s", ids);
    r = run_ids(ids, line);
    check_refused(&r, ERROR_USAGE, "is read by this run");
    // A failed run leaves the old file.
    test_write_file(path, "old", 3);
    snprintf(line, sizeof line, "|--save-logits|%s|--force|--kl|%s", path, small_model());
    r = run_ids(ids, line);
    check_refused(&r, ERROR_FILE, "builtin.gguf");
    size_t size = 0;
    char *bytes = test_read_file(path, &size);
    CHECK_STRING(bytes, "old");
    free(bytes);
}

// SIGTERM comes as soon as rows have been written; the last of them is whole.
Test(perplexity, a_signal_ends_the_rows_at_the_end_of_a_line) {
    char line[1500];
    const char *text = test_temporary("long.txt"), *out = test_temporary("rows.csv");
    snprintf(line, sizeof line,
             "for i in $(seq 3000); do echo 'Once upon a time there was a dog.'; done > %s; "
             "$RUN perplexity $MODEL -f %s --csv -q > %s & p=$!; "
             "while [ ! -s %s ]; do sleep 0.05; done; kill -TERM $p; wait $p; echo $?; "
             "tail -c 1 %s | od -An -c",
             text, text, out, out, out);
    TestRun r = program_shell(line);
    CHECK(strstr(r.out, "143\n") && strstr(r.out, "\\n"), "%s%s", r.out, r.err);
    test_run_free(&r);
}

Test(perplexity, wrong_command_lines) {
    const char *ids = ids_file("ids", -1, 0, 20);
    static const struct {
        const char *options, *because;
    } CASES[] = {{"|--second-half|--stride|8", "no --stride"},
                 {"|--second-half|--window|3", "at least 4"},
                 {"|--second-half", "fewer than one window of 512"},
                 {"|--windows|-1", "--windows"},
                 {"|--kl", "wants a value"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = run_ids(ids, CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}
