// generate --context-overflow: what follows a full context is what a fresh run gives, of the tokens
// that are left (shift) or within the pattern that each token sees (sinks).
#include "base/error.h"
#include "tests/support/program.h"

enum { CONTEXT = 24, MOST = 90 };

// The ids after "key": in a line of JSON; how many.
static int ids_of(const char *json, const char *key, int ids[200]) {
    char begin[40];
    snprintf(begin, sizeof begin, "\"%s\":[", key);
    const char *at = strstr(json, begin);
    CHECK(at, "no %s in %s", key, json);
    int count = 0;
    for (at += strlen(begin); *at != ']' && count < 200;) {
        char *end;
        ids[count++] = (int)strtol(at, &end, 10);
        at = end + (*end == ',');
    }
    return count;
}

// The new ids of a greedy run whose prompt is ids[count].
static int run_ids(const int *ids, int count, int max_tokens, const char *options, int out[200],
                   TestRun *run) {
    char line[3000];
    int used = snprintf(line, sizeof line,
                        "generate|%s|-t|0|--json|--ignore-eos|--max-tokens|%d%s"
                        "|--prompt-ids|",
                        small_model(), max_tokens, options);
    for (int i = 0; i < count; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, "%s%d", i ? "," : "", ids[i]);
    *run = program("%s", line);
    check_status(run, 0);
    return ids_of(run->out, "ids", out);
}

static const int PROMPT[] = {1, 435, 462, 262, 410};
enum { N_PROMPT = sizeof PROMPT / sizeof *PROMPT };

// The text so far, cut where the context was full, read again by a run of its own: the next tokens
// are those of the run that went on by itself. `bos`: the first token stays.
static void check_shifts(const char *options) {
    int all[400], next[200], n = N_PROMPT, shifts = 0;
    TestRun run;
    memcpy(all, PROMPT, sizeof PROMPT);
    CHECK_INT(run_ids(PROMPT, N_PROMPT, MOST, options, all + n, &run), MOST);
    int begin_of_text = 0, kept[CONTEXT], count = N_PROMPT;
    memcpy(kept, PROMPT, sizeof PROMPT);
    char number[4000];
    json_value(number, run.out, "context_shifts");
    int wanted_shifts = atoi(number);
    test_run_free(&run);
    for (int done = 0; done < MOST;) {
        // A fresh run up to its full context: it samples one more than the room that is left.
        int room = CONTEXT - count + 1, most = MOST - done < room ? MOST - done : room;
        char line[200];
        snprintf(line, sizeof line, "%s|--context-overflow|stop", strstr(options, "|-c"));
        CHECK_INT(run_ids(kept, count, most, line, next, &run), most);
        test_run_free(&run);
        for (int i = 0; i < most; i++)
            CHECK(next[i] == all[N_PROMPT + done + i], "token %d is %d, in a fresh run %d",
                  done + i, all[N_PROMPT + done + i], next[i]);
        done += most;
        if (done == MOST) break;
        shifts++;
        count = CONTEXT / 2;
        kept[0] = all[begin_of_text];
        memcpy(kept + 1, all + N_PROMPT + done - count + 1, (size_t)(count - 1) * sizeof *kept);
    }
    CHECK(shifts > 3 && shifts == wanted_shifts, "%d shifts, %d told", shifts, wanted_shifts);
}

Test(overflow, a_shifted_context_gives_what_a_fresh_run_of_its_tokens_gives) {
    check_shifts("|--context-overflow|shift|-c|24");
    check_shifts("|--context-overflow|shift|-c|24|--repeat-penalty|1.4");
    check_shifts("|--context-overflow|shift|-c|24|--precision|a8|--kv|bf16");
    check_shifts("|--context-overflow|shift|-c|24|--no-cache");
    check_shifts("|--speculate|lookup|--draft-tokens|3|--context-overflow|shift|-c|24");
}

Test(overflow, a_context_that_is_not_full_is_not_shifted) {
    int out[200], plain[200];
    TestRun a, b;
    int n = run_ids(PROMPT, N_PROMPT, 20, "|-c|24|--context-overflow|shift", out, &a);
    CHECK_INT(run_ids(PROMPT, N_PROMPT, 20, "|-c|24", plain, &b), n);
    CHECK(!memcmp(out, plain, (size_t)n * sizeof *out), "other tokens");
    CHECK(strstr(a.out, "\"context_shifts\":0"), "%s", a.out);
    CHECK(!strstr(b.out, "context_shifts"), "%s", b.out);
    test_run_free(&a), test_run_free(&b);
}

// The smallest contexts: of one token, of two.
Test(overflow, the_smallest_contexts_go_on_too) {
    for (int context = 1; context <= 4; context++) {
        TestRun run = program("generate|%s|-t|0|--prompt-ids|1|--ids|--max-tokens|9|--ignore-eos|"
                              "-c|%d|--context-overflow|shift",
                              small_model(), context);
        check_status(&run, 0);
        int lines = 0;
        for (const char *c = run.out; *c; c++)
            lines += *c == '\n';
        CHECK_INT(lines, 9);
        test_run_free(&run);
    }
}

// A context that shifts has no end, so -n 0 ends with the model's own end or --max-tokens.
Test(overflow, steps_of_zero_do_not_end_a_context_that_shifts) {
    char stop[4000];
    for (int i = 0; i < 2; i++) {
        TestRun run = program("generate|%s|-s|4|-t|1|--prompt-ids|1|--json|-n|0|-c|40|"
                              "--context-overflow|shift%s",
                              small_model(), i ? "|--max-tokens|90|--ignore-eos" : "");
        check_status(&run, 0);
        json_value(stop, run.out, "stop");
        CHECK_STRING(stop, i ? "\"length\"" : "\"eos\"");
        json_value(stop, run.out, "context_shifts");
        CHECK(atoi(stop) > 1, "%s shifts", stop);
        test_run_free(&run);
    }
}

// The hash of all logits is that of the pattern, in a context with room for all.
Test(overflow, sinks_are_a_pattern_from_the_full_context_on) {
    char with[4000], pattern[4000], none[4000];
    int out[200];
    TestRun run;
    run_ids(PROMPT, N_PROMPT, MOST, "|-c|24|--context-overflow|sinks", out, &run);
    json_value(with, run.out, "logits_hash");
    CHECK(strstr(run.err, "from token 25 on each saw the first 4 tokens and the newest 20"), "%s",
          run.err);
    test_run_free(&run);
    run_ids(PROMPT, N_PROMPT, MOST, "|--pattern|global:4+window:20", out, &run);
    json_value(pattern, run.out, "logits_hash");
    test_run_free(&run);
    CHECK_STRING(with, pattern);
    run_ids(PROMPT, N_PROMPT, MOST, "", out, &run);
    json_value(none, run.out, "logits_hash");
    test_run_free(&run);
    CHECK(strcmp(with, none) != 0, "the pattern hides nothing");
    // Up to a full context nothing is hidden.
    run_ids(PROMPT, N_PROMPT, CONTEXT - N_PROMPT + 1, "|-c|24|--context-overflow|sinks", out, &run);
    json_value(with, run.out, "logits_hash");
    test_run_free(&run);
    run_ids(PROMPT, N_PROMPT, CONTEXT - N_PROMPT + 1, "", out, &run);
    json_value(none, run.out, "logits_hash");
    test_run_free(&run);
    CHECK_STRING(with, none);
}

Test(overflow, says_what_it_has_meant_and_what_it_excludes) {
    static const char *const REFUSED[][2] = {
        {"--context-overflow|sinks", "wants -c N"},
        {"--context-overflow|sinks|-c|4", "got -c 4, wanted over 4"},
        {"--context-overflow|sinks|-c|24|--pattern|local:8", "excludes --pattern"},
        {"--context-overflow|shift|--record|/tmp/x", "--record excludes --context-overflow"},
        {"--context-overflow|slide", "one of stop|shift|sinks"},
    };
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        TestRun run = program("generate|%s|--prompt-ids|1,3|%s", small_model(), REFUSED[i][0]);
        check_refused(&run, ERROR_USAGE, REFUSED[i][1]);
    }
    TestRun run = program("generate|%s|-t|0|--prompt-ids|1,435|--max-tokens|30|--ignore-eos|"
                          "-c|20|--context-overflow|shift",
                          small_model());
    CHECK(strstr(run.err, "the context of 20 tokens was full 1 time: the oldest left it, and the "
                          "other 10 were read again as a text of their own"),
          "%s", run.err);
    test_run_free(&run);
    run = program("generate|%s|-t|0|--prompt-ids|1,435|--max-tokens|30|--ignore-eos|-c|20",
                  small_model());
    CHECK(strstr(run.err, "the context of 20 tokens is full"), "%s", run.err);
    test_run_free(&run);
}
