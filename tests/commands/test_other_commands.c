// The program as a child process: commands other than generate, --help, and wrong command lines.
#include "base/error.h"
#include "tests/support/program.h"

Test(other_commands, tokenize_and_back) {
    TestRun r = program("tokenize|-z|%s|-i|%s", small_model(), "Once upon");
    CHECK_STRING(r.out, "435 462\n");
    test_run_free(&r);
    r = program("tokenize|%s|--bos|-i|%s", small_model(), "Once upon");
    CHECK_STRING(r.out, "1 435 462\n");
    test_run_free(&r);
    r = program("tokenize|-z|%s|--decode|-i|%s", small_model(), "1 435 462");
    CHECK_STRING(r.out, "Once upon");
    test_run_free(&r);
    char line[600];
    snprintf(line, sizeof line, "tokenize|%s|--lines", small_model());
    r = program_input(line, "Once\n\nupon", 10);
    CHECK_STRING(r.out, "435\n\n462\n");
    test_run_free(&r);
    r = program("tokenize|%s|--decode|-i|%s", small_model(), "1 99999");
    check_status(&r, 2);
    test_run_free(&r);
}

Test(other_commands, inspect_says_what_is_there) {
    TestRun r = program("inspect|%s|--json", small_model());
    check_status(&r, 0);
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "container"), "\"GGUF v3\"");
    CHECK_STRING(json_value(value, r.out, "n_layers"), "6");
    CHECK_STRING(json_value(value, r.out, "dim"), "192");
    CHECK_STRING(json_value(value, r.out, "n_kv_heads"), "2");
    test_run_free(&r);
    r = program("inspect|%s", small_model());
    CHECK(strstr(r.out, "blk.5.ffn_down.weight"), "%s", r.out);
    test_run_free(&r);
}

// The mean nll of a text equals the mean over the lines of --logprobs.
Test(other_commands, perplexity_is_the_mean_of_the_log_probabilities) {
    const char *path = test_temporary("ids.txt");
    test_write_file(path, "1, 435, 462\n[262 410]", 21);
    TestRun r = program("perplexity|%s|--ids|%s|--json|-q", small_model(), path);
    check_status(&r, 0);
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "tokens"), "4");
    double mean = strtod(json_value(value, r.out, "mean_nll"), NULL);
    double perplexity = strtod(json_value(value, r.out, "perplexity"), NULL);
    CHECK_STRING(json_value(value, r.out, "bits_per_byte"), "null");
    test_run_free(&r);
    CHECK_NEAR(perplexity, exp(mean), 1e-9 * perplexity);
    // Greedy text from BOS is "Once upon a time": each of the four was the likeliest.
    r = program("%s|--prompt-ids|1|-t|0|--max-tokens|4|--logprobs|0|-q", small_model());
    double sum = 0;
    const char *at = r.out;
    for (int i = 0; i < 4; i++) {
        at = strstr(at, "\"logprob\":");
        CHECK(at, "%s", r.out);
        sum -= strtod(at += 10, NULL);
    }
    test_run_free(&r);
    CHECK_NEAR(mean, sum / 4, 1e-6);
}

Test(other_commands, perplexity_scores_every_token_once_in_any_window) {
    const char *path = test_temporary("text.txt");
    static const char TEXT[] = "Once upon a time, there was a little girl named Lily. She loved to "
                               "play outside in the park. One day, she saw a big, red ball.";
    test_write_file(path, TEXT, sizeof TEXT - 1);
    static const char *const WAYS[] = {"", "|--window|7", "|--window|7|--stride|3", "|--window|1"};
    char value[4000], tokens[4000] = "";
    double whole = 0;
    for (int i = 0; i < 4; i++) {
        char line[600];
        snprintf(line, sizeof line, "perplexity|%s|-f|%s|--json|-q%s", small_model(), path,
                 WAYS[i]);
        TestRun r = program_input(line, NULL, 0);
        check_status(&r, 0);
        json_value(value, r.out, "tokens");
        if (i)
            CHECK_STRING(value, tokens);
        else
            snprintf(tokens, sizeof tokens, "%s", value);
        double mean = strtod(json_value(value, r.out, "mean_nll"), NULL);
        double bits = strtod(json_value(value, r.out, "bits_per_byte"), NULL);
        CHECK_NEAR(bits, mean * strtod(tokens, NULL) / log(2) / (sizeof TEXT - 1), 1e-9);
        if (!i)
            whole = mean;
        else
            CHECK(mean > whole, "window %s: %g, whole %g", WAYS[i], mean, whole);
        test_run_free(&r);
    }
}

Test(other_commands, bench_json_has_the_figures_that_scripts_read) {
    TestRun r = program("bench|%s|--json|--no-limits|--pp|16|--gen|8|-r|1|--depth|0,8|--batch|1,2",
                        small_model());
    check_status(&r, 0);
    char value[4000];
    const char *prefill = strstr(r.out, "\"prefill\":{"), *decode = strstr(r.out, "\"decode\":{");
    CHECK(prefill && decode && prefill < decode, "%s", r.out);
    CHECK(strtod(json_value(value, prefill, "tokens_per_second"), NULL) > 0);
    CHECK(strtod(json_value(value, decode, "tokens_per_second"), NULL) > 0);
    int rows = 0;
    for (const char *at = strstr(r.out, "\"rows\":["); (at = strstr(at, "{\"kind\":")); at++)
        rows++;
    CHECK_INT(rows, 2 * 2 * 2); // prefill and decode, depths, batches
    test_run_free(&r);
    r = program("bench|%s|--csv|--no-limits|--pp|16|--gen|8|-r|1|--only|decode", small_model());
    CHECK(!strncmp(r.out, "kind,threads,length,", 20) && strstr(r.out, "\ndecode,"), "%s", r.out);
    CHECK(!strstr(r.out, "prefill"), "%s", r.out);
    test_run_free(&r);
}

Test(other_commands, help_and_version_go_to_stdout) {
    TestRun r = program("--help");
    check_status(&r, 0);
    CHECK(strstr(r.out, "perplexity") && !r.err_size, "%s", r.out);
    test_run_free(&r);
    r = program("bench|--help");
    check_status(&r, 0);
    CHECK(strstr(r.out, "--depth"), "%s", r.out);
    test_run_free(&r);
    r = program("--version");
    CHECK(!strncmp(r.out, "limpid ", 7), "%s", r.out);
    test_run_free(&r);
    r = program("--limits");
    CHECK(strstr(r.out, "1024") && strstr(r.out, "layers"), "%s", r.out);
    test_run_free(&r);
}

// ---- wrong command lines ----

Test(other_commands, wrong_command_lines_are_one_line_and_exit_2) {
    static const struct {
        const char *words, *because;
    } CASES[] = {
        {"|-p|Once upon", "-p is top-p, as in llama2.c; the prompt is -i"},
        {"|-n|-1", "-n counts forward passes"},
        {"|-n|1e3", "1e3"},
        {"|-n|", "\"\""},
        {"|-t|nan", "nan"},
        {"|-t|-1", "-1"},
        {"|--top-p|1.5", "1.5"},
        {"|--top-k|-1", "-1"},
        {"|-j|257", "0 .. 256"},
        {"|-s|18446744073709551616", "2^64-1"},
        {"|--bogus\x1b[2J", "\\x1b"},
        {"|-i", "wants a value"},
        {"|-n|1|-n|2", "twice"},
        {"|one|two", "too many"},
        {"|-i|a|-f|b", "one of"},
        {"|-c|9999999", "-c"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("%s%s", small_model(), CASES[i].words);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
}

Test(other_commands, extremes_inside_the_range_work) {
    static const char *const WORDS[] = {
        "|-t|1e-45",         "|-t|1000000", "|-p|0",   "|-p|1",
        "|--top-k|99999999", "|-s|0",       "|-j|256", "|-s|18446744073709551615",
        "|--min-p|1"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        char more[100];
        snprintf(more, sizeof more, "|-n|4|-q%s", WORDS[i]);
        TestRun r = program("%s%s", small_model(), more);
        check_status(&r, 0);
        test_run_free(&r);
    }
}
