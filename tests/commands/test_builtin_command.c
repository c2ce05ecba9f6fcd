// The built-in model: every command that takes a model runs without a file.
#include "base/error.h"
#include "tests/support/program.h"

// Runs a command line; wants exit code 0 and a text on standard output.
static void check_prints(const char *line, const char *wanted) {
    TestRun r = program("%s", line);
    check_status(&r, 0);
    CHECK(strstr(r.out, wanted), "%s: %s", line, r.out);
    test_run_free(&r);
}

Test(builtin_command, a_prompt_and_no_model_is_continued) {
    need_builtin();
    check_prints("-i|Once upon a time|-t|0|--max-tokens|20", "Once upon a time");
    check_prints("builtin|-i|Once upon a time|-t|0|--max-tokens|20", "Once upon a time");
}

Test(builtin_command, nothing_at_all_is_a_story) {
    need_builtin();
    TestRun r = test_run((const char *const[]){TEST_RUN, NULL}, NULL, 0);
    check_status(&r, 0);
    CHECK(strlen(r.out) > 40, "%s", r.out);
    test_run_free(&r);
}

Test(builtin_command, every_command_takes_it) {
    need_builtin();
    check_prints("inspect", "small children");
    check_prints("inspect|--json", "\"description\"");
    check_prints("tokenize|-i|Once upon a time", "\n");
    check_prints("perplexity|-f|README.md|--json", "bits_per_byte");
    check_prints("bench|--pp|8|--tg|4|-r|1|--no-limits", "decode");
    check_prints("selftest", " 0 failed");
}

Test(builtin_command, chat_says_that_it_only_tells_stories) {
    need_builtin();
    TestRun r = program("chat|-i|Hello");
    check_refused(&r, ERROR_USAGE, "only tells stories");
}

Test(builtin_command, a_file_of_that_name_is_written_with_its_directory) {
    need_builtin();
    TestRun r = program("./builtin|-i|a");
    check_refused(&r, ERROR_IO, "./builtin");
}

Test(builtin_command, written_out_it_gives_the_same_bits) {
    need_builtin();
    TestRun r = program_shell("dir=$(mktemp -d); $RUN convert builtin $dir/out.gguf -q;"
                              "for model in builtin $dir/out.gguf; do"
                              "    $RUN $model -i 'Once upon a time' -t 0 --max-tokens 20 --json | "
                              "grep -o 'logits_hash\":\"[0-9a-f]*';"
                              "done | uniq -c | grep -c ' 2 logits'; rm -r $dir");
    CHECK_STRING(r.out, "1\n");
    test_run_free(&r);
}

static TestRun bits_per_byte(const char *text) {
    char *path = strdup(test_temporary("text.txt"));
    CHECK(path);
    test_write_file(path, text, strlen(text));
    TestRun r =
        test_run((const char *const[]){"training/bits_per_byte", path, "builtin", NULL}, NULL, 0);
    free(path);
    return r;
}

// A failed measurement gives no row: in an empty text nothing is predicted.
Test(builtin_command, bits_per_byte_has_a_figure_or_fails) {
    need_builtin();
    TestRun r = test_run(
        (const char *const[]){"training/bits_per_byte", "no-such-text", "builtin", NULL}, NULL, 0);
    check_status(&r, ERROR_IO);
    test_run_free(&r);
    r = bits_per_byte("");
    CHECK(r.status && !strstr(r.out, "| builtin"), "%d: %s", r.status, r.out);
    test_run_free(&r);
    r = bits_per_byte("Once upon a time there was a dog.");
    check_status(&r, 0);
    double bits = 0;
    const char *row = strstr(r.out, "| builtin");
    CHECK(row && sscanf(row, "| builtin | 3.39 | %lf |", &bits) == 1, "%s", r.out);
    CHECK(bits > 0.1 && bits < 3, "%g", bits);
    test_run_free(&r);
}

// The gate: every stage is within the float32 budget of diff from scripts/reference_numpy.py.
Test(builtin_command, every_stage_is_what_numpy_computes) {
    need_builtin();
    if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null"))
        SKIP("no numpy: apt install python3-numpy");
    TestRun r =
        program_shell("set -e; dir=$(mktemp -d); trap 'rm -r $dir' EXIT; $RUN convert builtin "
                      "$dir/hf --type f32 -q;"
                      "ids=$($RUN tokenize --bos -i 'Once upon a time, there was a little dog "
                      "named Max. Max liked to "
                      "run in the park with his friend.' | tr ' ' ,);"
                      "/usr/bin/python3 scripts/reference_numpy.py $dir/hf --prompt-ids $ids --out "
                      "$dir/numpy.safetensors;"
                      "$RUN trace --prompt-ids $ids --precision f32 -o $dir/own.safetensors -q;"
                      "$RUN diff $dir/numpy.safetensors $dir/own.safetensors");
    check_status(&r, 0);
    test_run_free(&r);
}

// The doctests of the training scripts.
Test(builtin_command, examples_of_the_training_scripts_hold) {
    if (system(
            "/usr/bin/python3 -c 'from collections import Counter; Counter().total()' 2>/dev/null"))
        SKIP("no python3 of version 3.10 or later");
    TestRun r =
        program_shell("/usr/bin/python3 -m doctest training/stories.py training/tell_openings.py "
                      "training/bpe_dropout.py training/own_text.py "
                      "training/training_arguments.py");
    check_status(&r, 0);
    CHECK_STRING(r.out, "");
    test_run_free(&r);
}

// -S: without packages, also where they are installed.
Test(builtin_command, training_scripts_say_in_one_line_which_package_is_missing) {
    if (system("/usr/bin/python3 -c '' 2>/dev/null")) SKIP("no python3");
    TestRun r = program_shell("for script in train_builtin_model tune_teller train_llama "
                              "plot_training; do"
                              "    /usr/bin/python3 -E -S training/$script.py --help 2>&1 | "
                              "grep -c 'install' ;"
                              "    /usr/bin/python3 -E -S training/$script.py --help 2>&1 | "
                              "wc -l;"
                              "done | uniq -c | tr -s ' '");
    CHECK_STRING(r.out, " 8 1\n");
    test_run_free(&r);
}

Test(builtin_command, rows_hold_the_text_and_what_a_teacher_expects) {
    if (system("/usr/bin/python3 -c 'import numpy' 2>/dev/null"))
        SKIP("no numpy: apt install python3-numpy");
    TestRun r = program_shell("/usr/bin/python3 -m doctest training/training_rows.py");
    check_status(&r, 0);
    CHECK_STRING(r.out, "");
    test_run_free(&r);
}
