// The gdb commands that move along layers and text, and back.
#include "tests/support/debugger.h"

#include <unistd.h>

Test(gdb_text, steps_from_layer_to_layer) {
    need_debugger();
    TestRun r = debugger("limpid break q_rotated 4\nrun\ndelete\nlimpid next-layer\n"
                         "limpid next-layer\nlimpid next-layer\nlimpid next-layer\nlimpid where\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "\nlayer 5 of 6, attention: att_norm, ");
    check_prints(&r, "\nlogits: final_norm, ");
    check_prints(&r, "\nlayer 0 of 6, attention: att_norm, ");
    check_prints(&r, "\nlayer 1 of 6, attention: att_norm, ");
    check_prints(&r, "row 0   sequence 0, position 5    token 1999 ");
    test_run_free(&r);
}

// A breakpoint that was not reached would stop the next run.
Test(gdb_text, leaves_no_breakpoint_behind) {
    need_debugger();
    TestRun r = debugger("limpid break q_rotated 4\nrun\ndelete\nlimpid next embedding\n"
                         "limpid next embedding\n"
                         "run\npython print('ended:', not gdb.selected_thread())\n",
                         debugged_line());
    check_good(&r);
    check_prints(&r, "the program has ended\n");
    check_prints(&r, "ended: True\n");
    CHECK(!strstr(r.out, "in observe at"), "%s", r.out);
    test_run_free(&r);
}

// ---- going back ----

// The same prompt, eight tokens, as JSON with the hash of all logits that tokens were sampled from.
static const char *sampled_line(const char *options) {
    static char line[800];
    snprintf(line, sizeof line, "%s --prompt-ids 1,435,462,262,410 --max-tokens 8 -j 1 -q %s",
             small_model(), options);
    return line;
}

// The run of that line without a debugger; its words are separated by blanks.
static TestRun undisturbed(const char *line) {
    return program_shell(test_text("$RUN %s", line));
}

static void check_same_value(const TestRun *got, const TestRun *wanted, const char *key) {
    char a[4000], b[4000];
    const char *json = strstr(got->out, "{\"prompt_ids\"");
    CHECK(json, "no JSON in %s%s", got->out, got->err);
    CHECK_STRING(json_value(a, json, key), json_value(b, wanted->out, key));
}

#define TO_THE_TEXT "limpid break logits\nrun\ndelete\nlimpid next-token\n"
#define FOUR_TOKENS "limpid next-token\nlimpid next-token\nlimpid next-token\nlimpid next-token\n"

// Back to the middle, back to the prompt: the bits of a text that never went on.
static void check_rewound(const char *options) {
    char script[4000];
    TestRun wanted = undisturbed(sampled_line(options));
    check_good(&wanted);
    snprintf(script, sizeof script,
             TO_THE_TEXT FOUR_TOKENS "limpid rewind 2\nlimpid next-token\nlimpid next-token\n"
                                     "limpid rewind 1\n%slimpid rewind 3\nlimpid next-token\n"
                                     "limpid logits 1\ncontinue\n",
             attempts((const char *const[]){"limpid logits"}, 1));
    TestRun r = debugger(script, sampled_line(options));
    check_good(&r);
    check_prints(&r, "refused: no logits are at hand here: limpid next logits\n");
    check_prints(&r,
                 "the prompt has been read; no token has been sampled yet\ntoken 1 of the text");
    check_same_value(&r, &wanted, "ids");
    check_same_value(&r, &wanted, "logits_hash");
    test_run_free(&r);
    test_run_free(&wanted);
}

Test(gdb_text, a_rewound_text_has_the_bits_of_one_that_never_went_on) {
    need_calls();
    check_rewound("--json -t 0.8 -s 3");
    check_rewound("--json -t 0.8 -s 3 --repeat-penalty 1.4 --repeat-last 3");
    check_rewound("--json -t 0 --no-cache");
}

// Without JSON the device samples ahead of the host where it can.
Test(gdb_text, tokens_sampled_ahead_are_taken_back_too) {
    need_calls();
    const char *line = sampled_line("--ids -t 0.8 -s 3");
    TestRun wanted = undisturbed(line);
    check_good(&wanted);
    TestRun r = debugger(TO_THE_TEXT FOUR_TOKENS "limpid rewind 3\ncontinue\n", line);
    check_good(&r);
    // The first token was shown once, and the three after it twice.
    CHECK(strlen(wanted.out) > 20, "%s", wanted.out);
    check_prints(&r, strchr(wanted.out, '\n') + 1);
    test_run_free(&r);
    test_run_free(&wanted);
}

// Between two passes the device has the position of the next one where the last had its first row.
Test(gdb_text, knows_the_tokens_between_two_passes) {
    need_calls();
    TestRun r = debugger(TO_THE_TEXT "limpid where\nlimpid kv 1 0\n" FOUR_TOKENS
                                     "limpid rewind 2\npython print('rewound')\nlimpid kv 1 0\n",
                         sampled_line("--ids -t 0"));
    check_good(&r);
    check_prints(&r, "\n  row 0   sequence 0, position 0    token 1 \"<s>\"\n  row 1   sequence 0, "
                     "position 1    token 435 ");
    const char *before = strstr(r.out, "position 0    key "), *after = strstr(r.out, "rewound\n");
    CHECK(before && after, "%s", r.out);
    CHECK(strstr(before, "    1 \"<s>\"\nposition 1  "), "%s", before);
    CHECK(strstr(after, "    410 \"") && strstr(after, "    1999 \",\"\n"), "%s", after);
    test_run_free(&r);
}

// A changed token: what follows is what the model says to a prompt that ends with it.
Test(gdb_text, goes_on_from_a_changed_token) {
    need_calls();
    const char *line = sampled_line("--json -t 0");
    TestRun r = debugger(TO_THE_TEXT FOUR_TOKENS "limpid set-token 6 500\ncontinue\n", line);
    check_good(&r);
    check_prints(&r, "token 2 of the text: 500 \"");
    TestRun wanted = program_shell("$RUN $MODEL --prompt-ids 1,435,462,262,410,1999,500 -t 0 "
                                   "--max-tokens 6 -j 1 -q --json");
    char ids[4000];
    json_value(ids, wanted.out, "ids");
    check_prints(&r, test_text("\"ids\":[1999,500,%s", ids + 1));
    test_run_free(&r);
    test_run_free(&wanted);
    // The token that it was, and the one that comes next.
    wanted = undisturbed(line);
    r = debugger(TO_THE_TEXT FOUR_TOKENS "limpid set-token 6 500\nlimpid next-token\n"
                                         "limpid set-token 6 406\nlimpid set-token 7 283\n"
                                         "continue\n",
                 line);
    check_good(&r);
    check_same_value(&r, &wanted, "ids");
    check_same_value(&r, &wanted, "logits_hash");
    test_run_free(&r);
    test_run_free(&wanted);
}

// "there" is held back, since it may begin the stop text; taken back, it is not there twice.
Test(gdb_text, bytes_held_back_are_taken_back) {
    need_calls();
    const char *line = sampled_line("--json -t 0 --stop therethere");
    TestRun r = debugger(TO_THE_TEXT "limpid next-token\nlimpid next-token\nlimpid rewind 1\n"
                                     "limpid next-token\ncontinue\n",
                         line);
    check_good(&r);
    check_prints(&r, "\"text\":\", there was a little");
    test_run_free(&r);
}

#define THERE_TAKEN_BACK TO_THE_TEXT "limpid next-token\nlimpid rewind 1\ncontinue\n"

// What a command collects of a text is without the tokens that were taken back.
Test(gdb_text, no_trace_is_left_in_the_files_of_a_text) {
    need_calls();
    char *recording = strdup(test_temporary("rewound.json"));
    TestRun r = debugger(THERE_TAKEN_BACK, sampled_line(test_text("-t 0 --record %s", recording)));
    check_good(&r);
    test_run_free(&r);
    r = program("replay|%s", recording);
    check_good(&r);
    check_prints(&r, "the same bits: 8 tokens");
    test_run_free(&r);
    char *transcript = strdup(test_temporary("rewound.jsonl"));
    char chat[800];
    snprintf(chat, sizeof chat,
             "chat %s -i Hello --template llama2 -t 0 --max-tokens 8 -j 1 -q --transcript %s",
             small_model(), transcript);
    r = undisturbed(chat);
    check_good(&r);
    size_t sizes[2];
    char *wanted = test_read_file(transcript, &sizes[0]);
    unlink(transcript);
    test_run_free(&r);
    r = debugger(THERE_TAKEN_BACK, chat);
    check_good(&r);
    char *got = test_read_file(transcript, &sizes[1]);
    CHECK(sizes[0] == sizes[1] && !memcmp(wanted, got, sizes[0]), "%.*s\n%.*s", (int)sizes[0],
          wanted, (int)sizes[1], got);
    test_run_free(&r);
    free(wanted);
    free(got);
    free(recording);
    free(transcript);
}

// The mean that --color surprise tells at the end.
Test(gdb_text, tokens_taken_back_surprise_nobody) {
    need_calls();
    const char *line = "builtin --prompt-ids 1,435,462,262,410 -t 0 --max-tokens 8 -j 1 "
                       "--color surprise";
    TestRun wanted = undisturbed(line), r = debugger(THERE_TAKEN_BACK, line);
    check_good(&wanted);
    check_good(&r);
    const char *mean = strstr(wanted.err, "mean ");
    CHECK(mean, "%s", wanted.err);
    CHECK(strstr(r.err, test_text("%.*s", (int)strcspn(mean, "\n"), mean)), "%s%s", r.err, mean);
    test_run_free(&r);
    test_run_free(&wanted);
}

// The grammar has one way behind the comma, and another token is refused there.
Test(gdb_text, a_grammar_goes_back_with_the_text) {
    need_calls();
    static const char *const REFUSED[] = {"limpid set-token 6 500"};
    const char *path = test_temporary("there.gbnf"),
               *grammar = "root ::= \", there was\" \" an old man\" \"!\"";
    test_write_file(path, grammar, strlen(grammar));
    char line[800];
    snprintf(line, sizeof line, "%s", sampled_line(test_text("--json -t 0 --grammar %s", path)));
    TestRun wanted = undisturbed(line);
    check_good(&wanted);
    char script[4000];
    snprintf(script, sizeof script,
             TO_THE_TEXT "limpid next-token\nlimpid next-token\nlimpid rewind 2\n"
                         "limpid next-token\nlimpid set-token 6 406\nlimpid rewind 1\n%scontinue\n",
             attempts(REFUSED, 1));
    TestRun r = debugger(script, line);
    check_good(&r);
    check_prints(&r, "refused: token 500 \"");
    check_prints(&r, ": the grammar does not allow it at position 6, which is the next one\n");
    check_same_value(&r, &wanted, "text");
    check_same_value(&r, &wanted, "ids");
    check_same_value(&r, &wanted, "logits_hash");
    test_run_free(&r);
    test_run_free(&wanted);
}

static int count_of(const char *text, const char *wanted) {
    int count = 0;
    for (; (text = strstr(text, wanted)); text++)
        count++;
    return count;
}

Test(gdb_text, goes_back_between_two_tokens_only) {
    static const char *const EARLY[] = {"limpid rewind 1", "limpid set-token 5 1"};
    static const char *const WRONG[] = {
        "limpid rewind 2",      "limpid rewind",           "limpid rewind x",
        "limpid rewind 1 1",    "limpid set-token 5",      "limpid set-token 4 1",
        "limpid set-token 7 1", "limpid set-token 5 2048", "limpid next-layer layer"};
    need_debugger();
    char script[8000];
    snprintf(script, sizeof script, "%sbreak main\nrun\n%slimpid break logits\ncontinue\n%s",
             attempts(EARLY, 2), attempts(EARLY, 2), attempts(EARLY, 1));
    TestRun r = debugger(script, debugged_line());
    check_good(&r);
    CHECK_INT(count_of(r.out, "refused: the program is not running"), 2);
    CHECK_INT(count_of(r.out, "refused: only between two tokens: limpid next-token stops there"),
              3);
    test_run_free(&r);
    snprintf(script, sizeof script, TO_THE_TEXT "limpid next-token\n%snext\n%s",
             attempts(WRONG, sizeof WRONG / sizeof *WRONG), attempts(EARLY, 1));
    r = debugger(script, debugged_line());
    check_good(&r);
    check_prints(&r, "refused: limpid rewind 2: wanted at most 1, the tokens of the text so far\n"
                     "refused: limpid rewind N\nrefused: limpid rewind N\nrefused: limpid rewind N"
                     "\nrefused: limpid set-token POS ID\n"
                     "refused: position 4: wanted 5 .. 6, the first of the text to the next one\n"
                     "refused: position 7: wanted 5 .. 6, the first of the text to the next one\n"
                     "refused: token 2048: there are 2048, from 0\n"
                     "refused: limpid next-layer takes no argument\n");
    check_prints(&r, "refused: only between two tokens");
    test_run_free(&r);
}
