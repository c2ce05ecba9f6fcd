// The commands with a model of layers with a window, and texts that are longer than its rings: what
// they have lost is computed again, and said; the numbers are those of a run without the past.
#include "tests/support/program.h"

#include <unistd.h>

// A window of 8 in 5 of 6 layers. A ring has 528 positions: the window, and 512 rows of a pass.
static const char *window_model(void) {
    static char path[300];
    snprintf(path, sizeof path, "%s", test_temporary("window.gguf"));
    const char *argv[] = {TEST_BUILD "/tests/random_model",
                          "--family",
                          "gemma3",
                          "--dim",
                          "64",
                          "--hidden",
                          "128",
                          "--layers",
                          "6",
                          "--heads",
                          "2",
                          "--kv-heads",
                          "1",
                          "--head-dim",
                          "32",
                          "--vocab",
                          "300",
                          "--ctx",
                          "4096",
                          "--window",
                          "8",
                          "--type",
                          "F32",
                          path,
                          NULL};
    TestRun run = test_run(argv, NULL, 0);
    CHECK(run.status == 0, "%s", run.err);
    test_run_free(&run);
    return path;
}

// `count` bytes that are a token each, from number `first` on of a text without an end.
static void make_text(char *out, int first, int count) {
    for (int i = 0; i < count; i++)
        out[i] = (char)('A' + (first + i) * (first + i + 7) / 3 % 26);
    out[count] = '\0';
}

static const char *text_file(const char *name, const char *beginning, int kept, int first,
                             int count) {
    char text[4000];
    snprintf(text, sizeof text, "%.*s", kept, beginning);
    make_text(text + kept, first, count);
    test_write_file(test_temporary(name), text, strlen(text));
    return test_temporary(name);
}

// ---- saved prompts ----

typedef struct Prompt {
    char hash[4000];
    int cached;
    bool told; // that the window has lost what was wanted
} Prompt;

static Prompt run_prompt(const char *model, const char *text, const char *options) {
    Prompt p = {.cached = 0};
    char number[4000];
    TestRun run = program("generate|%s|-f|%s|-t|0|--max-tokens|3|--ignore-eos|--json|-j|1%s", model,
                          text, options);
    check_status(&run, 0);
    json_value(p.hash, run.out, "logits_hash");
    if (*options) p.cached = atoi(json_value(number, run.out, "cached_tokens"));
    p.told = strstr(run.err, "layers with a window");
    test_run_free(&run);
    return p;
}

// With the file after a prompt of about 1,200 tokens, another that begins with `kept` of its bytes.
static void check_beginning(const char *model, const char *beginning, int kept, bool told) {
    char cache[400];
    unlink(test_temporary("ring.kv"));
    snprintf(cache, sizeof cache, "|--cache|%s", test_temporary("ring.kv"));
    run_prompt(model, text_file("first.txt", beginning, 1200, 0, 0), cache);
    const char *other = text_file("other.txt", beginning, kept, 5000, 40);
    Prompt with = run_prompt(model, other, cache), without = run_prompt(model, other, "");
    CHECK_STRING(with.hash, without.hash);
    CHECK(with.told == told, "%d bytes kept, %d tokens", kept, with.cached);
    CHECK(told ? !with.cached : with.cached > kept / 2, "%d tokens", with.cached);
}

Test(ring_commands, a_saved_prompt_is_used_as_far_back_as_it_holds) {
    char text[1300];
    const char *model = window_model();
    make_text(text, 0, 1200);
    check_beginning(model, text, 1200, false); // it goes on
    check_beginning(model, text, 1100, false);
    check_beginning(model, text, 300, true);
}

// ---- conversations ----

// The answers of a transcript, those of the assistant.
static int answers_of(char out[8][600], const char *name) {
    size_t size = 0;
    char *lines = test_read_file(test_temporary(name), &size);
    int n = 0;
    CHECK(lines, "no %s", name);
    for (char *at = lines; n < 8 && (at = strstr(at, "\"assistant\",\"content\":\"")); at++, n++)
        snprintf(out[n], sizeof out[n], "%.*s", (int)strcspn(at, "\n"), at);
    free(lines);
    return n;
}

// The second message is taken back as a whole, which is more than the ring has.
Test(ring_commands, a_message_that_is_taken_back_behind_the_ring_is_answered_as_before) {
    char first[600], second[1000], line[1400], answers[8][600];
    const char *model = window_model();
    make_text(first, 0, 500);
    strcat(first, "\n");
    make_text(second, 700, 900);
    strcat(second, "\n");
    const TypedKeys keys[] = {{"> ", first}, {"> ", second}, {"> ", "/retry\n"}, {"> ", "\x04"}};
    setenv("TERM", "dumb", 1);
    unlink(test_temporary("ring.jsonl"));
    snprintf(line, sizeof line,
             "chat|%s|--template|llama2|-t|0|--max-tokens|6|--ignore-eos|-c|3000|--transcript|%s",
             model, test_temporary("ring.jsonl"));
    TestRun r = program_typed(line, keys, 4);
    CHECK(r.status == 0, "exit %d: %s", r.status, r.out);
    CHECK(strstr(r.out, "layers with a window no longer have"), "%s", r.out);
    CHECK_INT(answers_of(answers, "ring.jsonl"), 3);
    CHECK_STRING(answers[2], answers[1]);
    test_run_free(&r);
}
