// The program as a child process: what users and scripts rely on. The model is the built-in one,
// with recorded texts and ids, and, where ../shared/data exists, that of llama2.c's golden story.
#include "base/error.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- the program's name ----

// `make install` calls it limpid: help and messages say so.
Test(commands, help_and_errors_have_the_name_that_the_program_was_called_by) {
    const char *link = test_temporary("limpid");
    unlink(link);
    char path[4096];
    CHECK(realpath(TEST_RUN, path) && !symlink(path, link), "%s", TEST_RUN);
    const char *help[] = {link, "trace", "--help", NULL}, *wrong[] = {link, "nosuch", NULL};
    TestRun told = test_run(help, NULL, 0), refused = test_run(wrong, NULL, 0);
    CHECK(!strncmp(told.out, "limpid trace MODEL -i PROMPT", 28), "%s", told.out);
    CHECK(strstr(told.out, "\n    limpid trace -i ") && !strstr(told.out, "run trace"), "%s",
          told.out);
    CHECK(strstr(refused.err, "limpid: \"nosuch\" is neither") == refused.err, "%s", refused.err);
    test_run_free(&told);
    test_run_free(&refused);
    TestRun here = program("trace|--help");
    CHECK(!strncmp(here.out, "run trace MODEL -i PROMPT", 25), "%s", here.out);
    test_run_free(&here);
}

// ---- the golden story ----

static void check_story(const char *line) {
    size_t size = 0;
    char *wanted = test_read_file(test_data("stories260K/expected_t0_n200.txt"), &size);
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    CHECK(r.out_size == size && !memcmp(r.out, wanted, size), "%s: got %s", line, r.out);
    test_run_free(&r);
    free(wanted);
}

Test(commands, gguf_tells_llama2c_story_byte_for_byte) {
    char line[1000];
    snprintf(line, sizeof line, "%s|-t|0|-n|200", public_model());
    check_story(line);
    snprintf(line, sizeof line, "generate|%s|-t|0|-n|200|--precision|f32|-q", public_model());
    check_story(line);
}

Test(commands, bin_tells_llama2c_story_byte_for_byte) {
    char line[1000];
    snprintf(line, sizeof line, "%s|-z|%s|-t|0|-n|200", test_data("stories260K/stories260K.bin"),
             test_data("stories260K/tok512.bin"));
    check_story(line);
}

Test(commands, a_tokenizer_beside_the_bin_is_found) {
    const char *path = conversion_bin_of_words("model.bin", 0);
    TestRun alone = program("%s|-t|0|-n|5", path);
    check_refused(&alone, ERROR_FILE, "-z");
    TestRun told =
        program("%s|-t|0|-n|5|-q|-i|Once upon|-z|%s", path, conversion_tokenizer_bin("words"));
    check_status(&told, 0);
    CHECK(!strncmp(told.out, "Once upon", 9), "%s", told.out);
    conversion_tokenizer_bin("tokenizer.bin");
    TestRun r = program("%s|-t|0|-n|5|-q|-i|Once upon", path);
    check_status(&r, 0);
    CHECK_STRING(r.out, told.out);
    CHECK_STRING(r.err, "");
    test_run_free(&told);
    test_run_free(&r);
}

// ---- for scripts ----

Test(commands, n_counts_forward_passes_and_max_tokens_new_ones) {
    TestRun r = program("%s|-t|0|-n|5|-i|Once upon|-q", small_model());
    CHECK_STRING(r.out, "Once upon a time,\n"); // BOS, then 5 tokens with the prompt's two
    test_run_free(&r);
    r = program("%s|-t|0|--max-tokens|3|-i|Once upon|-q", small_model());
    CHECK_STRING(r.out, "Once upon a time,\n");
    test_run_free(&r);
    r = program("%s|-t|0|-n|1|-i|Once upon|-q", small_model());
    CHECK_STRING(r.out, "Once\n");
    test_run_free(&r);
    r = program("%s|-t|0|--max-tokens|0|-i|Once upon|-q", small_model());
    CHECK_STRING(r.out, "Once upon\n");
    test_run_free(&r);
}

Test(commands, ids_go_in_and_come_out) {
    TestRun r = program("%s|--prompt-ids|1,435,462|--ids|-t|0|-n|6|-q", small_model());
    check_status(&r, 0);
    CHECK_STRING(r.out, "262\n410\n1999\n406\n");
    test_run_free(&r);
    r = program("%s|--prompt-ids|1,2048", small_model());
    check_refused(&r, ERROR_USAGE, "2048");
    r = program("%s|--prompt-ids|1,x", small_model());
    check_refused(&r, ERROR_USAGE, "no token id");
}

Test(commands, json_says_what_came_of_it) { // its keys and types: tests/commands/test_json_output.c
    TestRun r = program("%s|-i|Once upon|-t|0|-n|6|--json|-q", small_model());
    check_status(&r, 0);
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "prompt_ids"), "[1,435,462]");
    CHECK_STRING(json_value(value, r.out, "ids"), "[262,410,1999,406]");
    CHECK_STRING(json_value(value, r.out, "text"), "\" a time, there\"");
    CHECK_STRING(json_value(value, r.out, "stop"), "\"length\"");
    CHECK_INT(strlen(json_value(value, r.out, "logits_hash")), 18);
    CHECK(strchr(r.out, '\n') == r.out + r.out_size - 1, "one line");
    test_run_free(&r);
}

static void hash_of(char out[4000], const char *model, const char *more) {
    TestRun r = program("%s|-i|Once upon a time there was|-t|0|-n|40|--json|-q%s", model, more);
    check_status(&r, 0);
    json_value(out, r.out, "logits_hash");
    test_run_free(&r);
}

Test(commands, the_same_bits_however_it_is_computed) {
    char plain[4000], other[4000];
    hash_of(plain, small_model(), "");
    static const char *const WAYS[] = {
        "|-j|1", "|-j|2", "|-j|3", "|--no-cache", "|-j|2|--no-cache", "|-c|512"};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        hash_of(other, small_model(), WAYS[i]);
        CHECK(!strcmp(plain, other), "%s: %s, plain %s", WAYS[i], other, plain);
    }
    hash_of(other, small_model(), "|--kv|f32");
    CHECK(strcmp(plain, other), "the hash sees the cache's precision");
}

Test(commands, containers_give_the_same_bits) {
    char one[4000], two[4000], more[600];
    const char *bin = conversion_bin_of_words("words.bin", 0), *gguf = test_temporary("words.gguf");
    snprintf(more, sizeof more, "|--ignore-eos|-z|%s", conversion_tokenizer_bin("words"));
    hash_of(one, bin, more);
    snprintf(more, sizeof more, "%%s|%%s|-z|%s", conversion_tokenizer_bin("words"));
    convert(more, bin, gguf);
    hash_of(two, gguf, "|--ignore-eos");
    CHECK_STRING(one, two);
    bin = test_data_if_any("stories260K/stories260K.bin");
    if (!bin) return;
    hash_of(one, public_model(), "");
    snprintf(more, sizeof more, "|-z|%s", test_data("stories260K/tok512.bin"));
    hash_of(two, bin, more);
    CHECK_STRING(one, two);
}

Test(commands, a_seed_repeats_and_is_told) {
    TestRun one = program("%s|-s|42|-n|60|-q", small_model());
    TestRun two = program("%s|-s|42|-n|60|-q", small_model());
    TestRun other = program("%s|-s|43|-n|60|-q", small_model());
    CHECK_STRING(one.out, two.out);
    CHECK(strcmp(one.out, other.out), "two seeds, one text");
    test_run_free(&other);
    other = program("%s|-n|60", small_model());
    const char *seed = strstr(other.err, "seed ");
    CHECK(seed, "%s", other.err);
    CHECK(strchr(other.err, '\n') == other.err + strlen(other.err) - 1, "%s", other.err); // a line
    char more[60];
    snprintf(more, sizeof more, "|-q|-s|%.*s", (int)strcspn(seed + 5, "\n"), seed + 5);
    TestRun again = program("%s|-n|60%s", small_model(), more);
    CHECK_STRING(again.out, other.out);
    test_run_free(&one);
    test_run_free(&two);
    test_run_free(&other);
    test_run_free(&again);
}

Test(commands, logprobs_are_lines_of_json) {
    TestRun r = program("%s|-i|Once|-t|0|-n|3|--logprobs|2|-q", small_model());
    check_status(&r, 0);
    CHECK(!strncmp(r.out, "{\"id\":462,\"text\":\" upon\",\"logprob\":-0.", 38), "%s", r.out);
    CHECK(strstr(r.out, "\"top\":[{\"id\":462,"), "%s", r.out);
    int lines = 0;
    for (const char *c = r.out; *c; c++)
        lines += *c == '\n';
    CHECK_INT(lines, 2);
    test_run_free(&r);
}

Test(commands, stop_texts_end_the_text_before_them) {
    TestRun r = program("%s|-t|0|-n|100|--stop|Lily|-q", small_model());
    CHECK_STRING(r.out, "Once upon a time, there was a little girl named \n");
    test_run_free(&r);
    r = program("%s|-t|0|-n|100|--stop|nothing|--stop|girl named L|--json|-q", small_model());
    char value[4000];
    CHECK_STRING(json_value(value, r.out, "stop"), "\"stop\"");
    CHECK_STRING(json_value(value, r.out, "text"), "\"Once upon a time, there was a little \"");
    test_run_free(&r);
}

Test(commands, prompts_come_from_files_and_pipes_whole) {
    const char *path = test_temporary("prompt.txt");
    test_write_file(path, "Once upon", 9);
    TestRun r = program("%s|-f|%s|-t|0|-n|5|-q", small_model(), path);
    CHECK_STRING(r.out, "Once upon a time,\n");
    test_run_free(&r);
    char line[600];
    snprintf(line, sizeof line, "%s|-t|0|-n|5|-q", small_model());
    r = program_input(line, "Once upon", 9);
    CHECK_STRING(r.out, "Once upon a time,\n");
    test_run_free(&r);
    snprintf(line, sizeof line, "%s|-t|0|--max-tokens|0|-q", small_model());
    r = program_input(line, "a\0b\xff", 4); // NUL and an invalid byte go through
    CHECK(r.out_size == 5 && !memcmp(r.out, "a\0b\xff\n", 5), "%zu bytes", r.out_size);
    test_run_free(&r);
}

// One newline at the end is not the prompt's, from a pipe and from a file; --keep-newline, a second
// newline and -i keep it. Two bytes in front of it are two tokens of this model's vocabulary.
Test(commands, one_newline_at_the_end_of_a_piped_prompt_is_dropped) {
    static const struct {
        const char *input, *options, *text;
    } CASES[] = {{"ab\n", "", "ab"},   {"ab\n\n", "", "ab\n"},
                 {"ab", "", "ab"},     {"ab\n", "|--keep-newline", "ab\n"},
                 {"ab\r\n", "", "ab"}, {"\n", "", ""}};
    const char *path = test_temporary("newline.txt");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char line[600], wanted[20];
        size_t length = strlen(CASES[i].input);
        snprintf(wanted, sizeof wanted, "%s\n", CASES[i].text);
        snprintf(line, sizeof line, "%s|--max-tokens|0|-q%s", small_model(), CASES[i].options);
        TestRun r = program_input(line, CASES[i].input, length);
        CHECK_STRING(r.out, wanted);
        test_run_free(&r);
        test_write_file(path, CASES[i].input, length);
        r = program("%s|-f|%s", line, path);
        CHECK_STRING(r.out, wanted);
        test_run_free(&r);
    }
    TestRun r = program("%s|--max-tokens|0|-q|-i|ab\n", small_model());
    CHECK_STRING(r.out, "ab\n\n");
    test_run_free(&r);
}

Test(commands, marks_of_other_systems_in_a_prompt_are_noted) {
    static const char TEXT[] = "\xef\xbb\xbf"
                               "ab\r\nab";
    char line[600];
    snprintf(line, sizeof line, "%s|--max-tokens|0", small_model());
    TestRun r = program_input(line, TEXT, sizeof TEXT - 1);
    CHECK(strstr(r.err, "begins with a byte order mark") && strstr(r.err, "\\r is part of it"),
          "%s", r.err);
    test_run_free(&r);
    r = program_input(line, "ab\rab\n", 6);
    CHECK(!strstr(r.err, "byte order mark") && !strstr(r.err, "part of it"), "%s", r.err);
    test_run_free(&r);
}

Test(commands, options_for_another_one_that_is_off_are_noted) {
    TestRun r = program("%s|-i|ab|--max-tokens|0|--xtc-threshold|0.1|--dry-base|2|--mirostat-ent|3",
                        small_model());
    CHECK(strstr(r.err, "--xtc-threshold has no effect: it is for --xtc-probability") &&
              strstr(r.err, "--dry-base has no effect: it is for --dry-multiplier") &&
              strstr(r.err, "--mirostat-ent has no effect: it is for --mirostat 2"),
          "%s", r.err);
    test_run_free(&r);
    r = program("%s|-i|ab|--max-tokens|0|--xtc-threshold|0.1|--xtc-probability|0.5|--dry-base|2|"
                "--dry-multiplier|1|--mirostat-ent|3|--mirostat|2",
                small_model());
    CHECK(!strstr(r.err, "has no effect"), "%s", r.err);
    test_run_free(&r);
    r = program("%s|-i|ab|--max-tokens|0|-t|0|--typical-p|0.3|--repeat-last-n|0|--repeat-penalty|2|"
                "--stop|\\d\\t",
                small_model());
    CHECK(strstr(r.err, "--typical-p has no effect at temperature 0") &&
              strstr(r.err, "--repeat-last-n 0 is the whole context") &&
              strstr(r.err,
                     "--stop \\d\\t: \\ and t are two characters here; a shell writes the one "
                     "as $'\\t'"),
          "%s", r.err);
    test_run_free(&r);
    r = program("%s|-i|ab|--max-tokens|0|-t|0|--mirostat|0|--xtc-probability|0|--repeat-last-n|0|"
                "--dry-sequence-breaker|\\n|--stop|C:\\dir",
                small_model());
    CHECK(strstr(r.err, "--dry-sequence-breaker has no effect") &&
              !strstr(r.err, "temperature 0") && !strstr(r.err, "whole context") &&
              !strstr(r.err, "two characters"),
          "%s", r.err);
    test_run_free(&r);
}

Test(commands, help_answers_about_a_command) {
    TestRun r = program("help|bench"), same = program("bench|--help");
    CHECK(r.status == 0 && !strcmp(r.out, same.out) && strstr(r.out, "bench MODEL"), "%s", r.out);
    test_run_free(&r);
    test_run_free(&same);
    r = program("help|bnch");
    CHECK(r.status == 2 && strstr(r.err, "did you mean bench?"), "exit %d: %s", r.status, r.err);
    test_run_free(&r);
}

Test(commands, a_prompt_that_leaves_nothing_to_do_or_is_not_utf8_is_noted) {
    TestRun r = program("%s|--prompt-ids|1,403,407|-n|2|-t|0", small_model());
    CHECK(strstr(r.err, "-n 2 counts all tokens but the first, 2 of the prompt among them"), "%s",
          r.err);
    test_run_free(&r);
    r = program("%s|--prompt-ids|1,403,407|-n|3|-t|0", small_model());
    CHECK(!strstr(r.err, "counts all"), "%s", r.err);
    test_run_free(&r);
    char line[600];
    snprintf(line, sizeof line, "%s|-t|0|--max-tokens|1", small_model());
    r = program_input(line, "caf\xe9", 4);
    CHECK(strstr(r.err, "not UTF-8 (byte 3 is 0xe9)"), "%s", r.err);
    test_run_free(&r);
    r = program_input(line, "caf\xc3\xa9", 5);
    CHECK(!strstr(r.err, "UTF-8"), "%s", r.err);
    test_run_free(&r);
}

Test(commands, a_text_that_is_not_utf8_is_noted_by_every_command_that_reads_one) {
    static const char *const COMMANDS[] = {"tokenize", "perplexity", "attention"};
    for (size_t i = 0; i < 3; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s|%s", COMMANDS[i], small_model());
        TestRun r = program_input(line, "caf\xe9 au lait", 12);
        CHECK(strstr(r.err, "not UTF-8 (byte 3 is 0xe9)"), "%s: %s", COMMANDS[i], r.err);
        test_run_free(&r);
        strcat(line, "|-q");
        r = program_input(line, "caf\xe9 au lait", 12);
        CHECK(!strstr(r.err, "UTF-8"), "%s: %s", COMMANDS[i], r.err);
        test_run_free(&r);
    }
    char line[600];
    snprintf(line, sizeof line, "tokenize|%s|--decode", small_model());
    TestRun r = program_input(line, "403 407", 7);
    CHECK_STRING(r.err, "");
    test_run_free(&r);
}

// The tests are compiled with the flags of the program.
Test(commands, a_debug_build_says_that_it_is_one_in_the_line_of_statistics) {
    TestRun r = program("%s|-t|0|-n|3", small_model());
#ifdef __OPTIMIZE__
    CHECK(!strstr(r.err, "debug"), "%s", r.err);
#else
    CHECK(strstr(r.err, " MB; a debug build"), "%s", r.err);
#endif
    test_run_free(&r);
}

Test(commands, the_end_of_a_text_is_not_part_of_it) {
    char line[1000], value[4000];
    const char *bin = test_data_if_any("stories260K/stories260K.bin");
    if (bin) // its stories end in BOS
        snprintf(line, sizeof line, "%s|-z|%s|-s|1|-n|0|--json|-q", bin,
                 test_data("stories260K/tok512.bin"));
    else // and those of the built-in model in EOS
        snprintf(line, sizeof line, "%s|-s|1|-n|0|--json|-q", small_model());
    TestRun r = program_input(line, NULL, 0);
    check_status(&r, 0);
    CHECK_STRING(json_value(value, r.out, "stop"), "\"eos\"");
    json_value(value, r.out, "ids");
    CHECK(!strstr(value, ",1,") && !strstr(value, ",1]") && !strstr(value, ",2]"), "%s", value);
    test_run_free(&r);
    strcat(line, "|--ignore-eos");
    r = program_input(line, NULL, 0);
    CHECK_STRING(json_value(value, r.out, "stop"), "\"context\"");
    test_run_free(&r);
}

// ---- the context ----

Test(commands, a_prompt_at_the_edge_of_the_context) {
    static const char LONG[] = "%s|--prompt-ids|1,435,462,262,410|-t|0|-q|--ids|-c|%s";
    TestRun r = program(LONG, small_model(), "6");
    check_status(&r, 0);
    CHECK_STRING(r.out, "1999\n406\n"); // one into the last place, one that needs none
    CHECK(strstr(r.err, "context of 6 tokens is full"), "%s", r.err);
    test_run_free(&r);
    r = program(LONG, small_model(), "5");
    CHECK_STRING(r.out, "1999\n");
    test_run_free(&r);
    r = program(LONG, small_model(), "4");
    check_refused(&r, ERROR_USAGE, "the prompt has 5 tokens, the context room for 4");
    r = program("%s|-c|%s", small_model(), "4194304");
    check_refused(&r, ERROR_USAGE, "context");
}

// BOS alone is what a prompt without a text begins with.
Test(commands, prompts_of_nothing_have_a_result) {
    static const char *const PROMPTS[] = {"", " ", "   ", "\n"};
    for (size_t i = 0; i < sizeof PROMPTS / sizeof *PROMPTS; i++) {
        const char *const argv[] = {TEST_RUN, "generate", "weights/builtin.gguf", "-i", PROMPTS[i],
                                    "-t",     "0",        "--max-tokens",         "2",  "--ids",
                                    "-q",     NULL};
        TestRun r = test_run(argv, NULL, 0);
        CHECK(r.status == 0, "\"%s\": exit %d, %s", PROMPTS[i], r.status, r.err);
        CHECK_INT(strspn(r.out, "0123456789\n"), r.out_size);
        CHECK(r.out_size > 2, "\"%s\": no ids", PROMPTS[i]);
        test_run_free(&r);
    }
}

// A program that is installed names itself in what it tells to type, not ./run.
Test(commands, messages_name_the_program_as_it_was_called) {
    static const char SCRIPT[] = "ln -s \"$(realpath $RUN)\" %s/limpid; cd %s; ./limpid nofile; "
                                 "./limpid -cnv; ./limpid diff; exit 0";
    char line[2000], folder[600];
    snprintf(folder, sizeof folder, "%s", test_temporary("installed"));
    CHECK(!mkdir(folder, 0700));
    snprintf(line, sizeof line, SCRIPT, folder, folder);
    TestRun r = program_shell(line);
    CHECK_STRING(r.err,
                 "limpid: \"nofile\" is neither a command nor a file (see `limpid --help`)\n"
                 "limpid: -cnv is not an option of limpid: a conversation is `limpid chat MODEL`\n"
                 "limpid: two trace files are needed: `limpid diff A B`\n");
    test_run_free(&r);
}

// Without -s the seed is random, and printed.
Test(commands, statistics_with_a_seed_fit_a_window) {
    TestRun r = program("generate|%s|-i|Once upon a time|-t|1|--max-tokens|100", small_model());
    CHECK(r.status == 0, "exit %d: %s", r.status, r.err);
    const char *line = strstr(r.err, "run: prompt ");
    CHECK(line && strstr(line, "; seed "), "%s", r.err);
    CHECK(strcspn(line, "\n") <= 80, "%s", line);
    test_run_free(&r);
}
