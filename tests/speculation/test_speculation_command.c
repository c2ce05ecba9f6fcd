// generate and chat with --speculate lookup and --draft: they print what they print without, and
// say in one line where they cannot draft.
#include "base/error.h"
#include "tests/support/faults.h"
#include "tests/support/files/conversions.h"
#include "tests/support/program.h"

#include <unistd.h>

static bool drafts_are_off(void) {
    return !strcmp(TEST_BACKEND, "cuda"); // whose rows depend on the size of the batch
}

typedef struct Printed {
    char ids[4000], text[4000], hash[4000], stop[4000], drafted[4000], accepted[4000];
} Printed;

static void generate(Printed *p, const char *line) {
    TestRun r = program("%s|-q|--json", line);
    check_status(&r, 0);
    json_value(p->ids, strstr(r.out, "\"ids\""), "ids");
    json_value(p->text, r.out, "text");
    json_value(p->hash, r.out, "logits_hash");
    json_value(p->stop, r.out, "stop");
    memset(p->drafted, 0, sizeof p->drafted), memset(p->accepted, 0, sizeof p->accepted);
    if (strstr(r.out, "drafted_tokens")) json_value(p->drafted, r.out, "drafted_tokens");
    if (strstr(r.out, "accepted_tokens")) json_value(p->accepted, r.out, "accepted_tokens");
    test_run_free(&r);
}

static long drafted, accepted; // by check_same, since a test set them to 0

static void check_same(const char *line, const char *drafts) {
    static Printed without, with;
    char longer[2000];
    generate(&without, line);
    snprintf(longer, sizeof longer, "%s|%s", line, drafts);
    generate(&with, longer);
    CHECK_STRING(without.drafted, "");
    CHECK(!strcmp(with.ids, without.ids) && !strcmp(with.text, without.text) &&
              !strcmp(with.hash, without.hash) && !strcmp(with.stop, without.stop),
          "%s: %s (%s, %s), not %s (%s, %s)", longer, with.text, with.hash, with.stop, without.text,
          without.hash, without.stop);
    drafted += strtol(with.drafted, NULL, 10);
    accepted += strtol(with.accepted, NULL, 10);
}

static const char *const PROMPTS[] = {
    "Once upon a time",
    "The cat sat on the mat. The cat sat on the mat. The cat",
    "Lily had a red ball, a blue ball, a green ball, a red ball, a blue ball,",
    "one two three one two three one two",
    "x",
    "She said: \"Hi!\" He said: \"Hi!\" She said:",
};
enum { N_PROMPTS = sizeof PROMPTS / sizeof *PROMPTS };

static const char *const WAYS[] = {
    "-t|0",
    "-t|1|-p|1",
    "-t|0.7|--top-k|30|--typical-p|0.9",
    "-t|0|--repeat-penalty|1.3|--repeat-last-n|20",
    "-t|0.8|--presence-penalty|0.5|--frequency-penalty|0.2|--logit-bias|13:+2,300:-inf",
    "-t|0.9|--mirostat|2",
    "-t|0|--dry-multiplier|0.8",
    "-t|1|--xtc-probability|0.5|--xtc-threshold|0.1",
};
enum { N_WAYS = sizeof WAYS / sizeof *WAYS };
static const char *const PRECISIONS[] = {"f32", "a16", "a8"};

// Prompt, sampling, precision and number of drafts of case i.
static void line_of(char line[900], int i, int most) {
    snprintf(line, 900, "%s|-i|%s|%s|--precision|%s|-s|%d|--max-tokens|%d", small_model(),
             PROMPTS[i % N_PROMPTS], WAYS[i / 3 % N_WAYS], PRECISIONS[i % 3], i, most);
}

Test(speculation_command, a_lookup_changes_nothing) {
    char line[900], drafts[100];
    drafted = accepted = 0;
    for (int i = 0; i < EMULATED(2, SANITIZED(24, 96)); i++) {
        line_of(line, i, EMULATED(5, 60 + i % 50));
        snprintf(drafts, sizeof drafts, "--speculate|lookup|--draft-tokens|%d", 1 + i % 15);
        check_same(line, i % 5 ? drafts : "--speculate|lookup");
    }
    CHECK(drafts_are_off() || (accepted > 50 && accepted < drafted), "%ld of %ld", accepted,
          drafted);
}

Test(speculation_command, a_model_that_drafts_for_itself_is_right_and_changes_nothing) {
    char line[900], drafts[600];
    drafted = accepted = 0;
    for (int i = 0; i < EMULATED(1, SANITIZED(4, 12)); i++) {
        snprintf(line, sizeof line, "%s|-i|%s|%s|-s|%d|--max-tokens|%d|--ignore-eos|--precision|%s",
                 small_model(), PROMPTS[i % N_PROMPTS], WAYS[i % 3], i, EMULATED(5, 61),
                 PRECISIONS[i / 3 % 3]);
        snprintf(drafts, sizeof drafts, "--draft|%s|--draft-tokens|%d", small_model(), 1 + i);
        check_same(line, drafts);
    }
    CHECK(drafts_are_off() || (drafted > SANITIZED(100, 300) && accepted == drafted), "%ld of %ld",
          accepted, drafted);
    // Penalties are not the draft's, so that some are wrong.
    for (int i = 0; i < EMULATED(1, SANITIZED(8, 24)); i++) {
        line_of(line, i, EMULATED(5, 70));
        snprintf(drafts, sizeof drafts, "--draft|%s|--draft-tokens|%d", small_model(), 1 + i % 15);
        check_same(line, i % 4 ? drafts : "--draft|builtin");
    }
}

// Where windows end, where the context does, where a stop text or a grammar ends the text.
Test(speculation_command, nothing_changes_at_any_edge) {
    static const char *const EDGES[] = {
        "-c|40|-n|0",
        "-c|41|-n|0",
        "-c|16|-n|0",
        "-n|9",
        "--max-tokens|1",
        "--max-tokens|2",
        "--pattern|local:8",
        "-c|18|--max-tokens|900",
        "--stop|cat|--stop|.",
        "--kv|bf16",
        "-j|1",
        "-j|3",
        "--color|never",
        "--pattern|local:4+global:2",
    };
    const char *grammar = test_temporary("cats.gbnf");
    char line[1200];
    static const char TEXT[] =
        "root ::= (\"The cat sat \" (\"on\" | \"by\") \" the mat. \"){3,9}\n";
    test_write_file(grammar, TEXT, sizeof TEXT - 1);
    drafted = accepted = 0;
    for (size_t i = 0; i < sizeof EDGES / sizeof *EDGES; i++) {
        if (TEST_EMULATED && i % 5) continue;
        snprintf(line, sizeof line, "%s|-i|%s|-t|0|%s", small_model(), PROMPTS[3], EDGES[i]);
        check_same(line, "--speculate|lookup|--draft-tokens|6");
        check_same(line, "--draft|builtin|--draft-tokens|15");
    }
    for (int seed = 0; seed < EMULATED(1, 6); seed++) {
        snprintf(line, sizeof line, "%s|-i|%s|-s|%d|-t|%d|--grammar|%s", small_model(), PROMPTS[1],
                 seed, seed % 2, grammar);
        check_same(line, "--speculate|lookup|--draft-tokens|9");
    }
    CHECK(drafts_are_off() || accepted > 50, "%ld", accepted);
}

// Three families that are not the built-in model's, windowed layers among them.
Test(speculation_command, other_families_change_nothing_either) {
    static const char *const MODELS[] = {"gemma3", "mistral-window8", "qwen3", "gpt2"};
    char line[900], drafts[60];
    for (int i = 0; i < EMULATED(4, SANITIZED(12, 48)); i++) {
        snprintf(line, sizeof line,
                 "%s|--prompt-ids|5,9,17,3,5,9,17,3,5,9|%s|--precision|%s|-s|%d|-c|40|-n|0|"
                 "--ignore-eos",
                 test_reference_model(MODELS[i % 4]), WAYS[i / 4 % 4], PRECISIONS[i / 4 % 3], i);
        if (strstr(line, "logit-bias")) continue; // ids that these lack
        snprintf(drafts, sizeof drafts, "--speculate|lookup|--draft-tokens|%d", 2 + i % 14);
        check_same(line, drafts);
    }
}

// Lines for each token, text on the screen and a recording are the same bytes.
Test(speculation_command, every_output_is_the_same) {
    static const char *const OUTPUTS[] = {"-q", "-q|--ids", "-q|--logprobs|3", "-q|--color|always",
                                          "-q|--color|surprise"};
    setenv("TERM", "xterm-256color", 1);
    for (size_t i = 0; i < sizeof OUTPUTS / sizeof *OUTPUTS; i++) {
        if (TEST_EMULATED && i > 1) continue;
        char line[800];
        snprintf(line, sizeof line, "%s|-i|%s|-t|0|--max-tokens|%d|%s", small_model(), PROMPTS[1],
                 EMULATED(5, 50), OUTPUTS[i]);
        TestRun a = program("%s", line), b = program("%s|--speculate|lookup", line);
        TestRun c = program("%s|--draft|builtin|--draft-tokens|7", line);
        check_status(&a, 0), check_status(&b, 0), check_status(&c, 0);
        CHECK_STRING(b.out, a.out);
        CHECK_STRING(c.out, a.out);
        test_run_free(&a), test_run_free(&b), test_run_free(&c);
    }
}

Test(speculation_command, a_recording_is_replayed_without_drafts) {
    const char *path = test_temporary("speculated.json");
    unlink(path);
    TestRun r = program("%s|-i|%s|-s|3|--max-tokens|%d|-q|--speculate|lookup|--draft-tokens|5|"
                        "--record|%s",
                        small_model(), PROMPTS[2], EMULATED(5, 60), path);
    check_status(&r, 0);
    test_run_free(&r);
    r = program("replay|%s", path);
    check_status(&r, 0); // the same bits
    test_run_free(&r);
}

// A conversation that is cut, undone and goes on.
Test(speculation_command, a_conversation_is_the_same) {
    static const TypedKeys KEYS[] = {{"> ", "The cat sat. The cat sat.\n"},
                                     {"> ", "The dog\n"},
                                     {"> ", "/undo\n"},
                                     {"> ", "The cat\n"},
                                     {"> ", "/clear\n"},
                                     {"> ", "The cat\n"},
                                     {"> ", "\x04"}};
    static const char *const DRAFTS[] = {"", "|--speculate|lookup|--draft-tokens|4",
                                         "|--draft|builtin|--draft-tokens|6"};
    char line[600];
    TestRun runs[3];
    setenv("TERM", "dumb", 1);
    for (int i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "chat|%s|--template|llama2|-s|1|-q|-c|400|--max-tokens|%d%s",
                 small_model(), EMULATED(3, 30), DRAFTS[i]);
        runs[i] = program_typed(line, KEYS, sizeof KEYS / sizeof *KEYS);
        check_status(&runs[i], 0);
        CHECK_STRING(runs[i].out, runs[0].out);
    }
    for (int i = 0; i < 3; i++)
        test_run_free(&runs[i]);
}

// ---- what is said ----

Test(speculation_command, the_statistics_count_drafts) {
    TestRun r = program("%s|-i|%s|-t|0|--max-tokens|40|--speculate|lookup|--draft-tokens|4",
                        small_model(), PROMPTS[1]);
    check_status(&r, 0);
    CHECK(strstr(r.err, drafts_are_off() ? "drafts are off with" : " accepted ("), "%s", r.err);
    test_run_free(&r);
}

Test(speculation_command, off_in_one_line) {
    static const char *const WITH[][2] = {
        {"--no-cache", "run: drafts are off with --no-cache\n"},
        {"--ablate|L0.H0", "run: drafts are off with --ablate, --patch and --steer\n"}};
    for (size_t i = 0; i < 2; i++) {
        char line[600];
        snprintf(line, sizeof line, "%s|-i|%s|-t|0|--max-tokens|9|%s", small_model(), PROMPTS[1],
                 WITH[i][0]);
        check_same(line, "--speculate|lookup|--draft-tokens|4");
        TestRun r = program("%s|--draft|builtin", line);
        check_status(&r, 0);
        CHECK(!strncmp(r.err, WITH[i][1], strlen(WITH[i][1])), "%s", r.err);
        test_run_free(&r);
    }
}

// Whoever asked for drafts is told of them, also that there are none, and why.
Test(speculation_command, says_why_there_are_none) {
    need_builtin();
    if (drafts_are_off()) SKIP("drafts are off");
    TestRun r = program("-i|Once upon|-t|0|--max-tokens|4|--speculate|off|--draft|builtin|--json");
    check_status(&r, 0);
    CHECK(strstr(r.out, "\"drafted_tokens\":0,") && !strstr(r.err, "drafts"), "%s%s", r.out, r.err);
    test_run_free(&r);
    r = program("-i|Once upon|-t|0|--max-tokens|4|--speculate|lookup|--no-cache|--json");
    CHECK(strstr(r.out, "\"drafted_tokens\":0,"), "%s", r.out);
    test_run_free(&r);
    r = program("-i|Once|-t|0|--max-tokens|4|--speculate|lookup|--draft-tokens|5");
    CHECK(strstr(r.err, "drafts: none, the text did not repeat itself"), "%s", r.err);
    test_run_free(&r);
}

// Ids are all that two models without tokenizers exchange.
Test(speculation_command, a_draft_needs_no_tokenizer_for_ids) {
    const char *model = test_reference_model("llama-untied");
    TestRun r =
        program("%s|--prompt-ids|1,2,3|--ids|--max-tokens|6|-t|0|--draft|%s|--draft-tokens|2",
                model, model);
    if (strstr(r.err, "it has no JSON")) SKIP("this build reads no safetensors");
    check_status(&r, 0);
    test_run_free(&r);
}

Test(speculation_command, what_cannot_be_is_refused) {
    const char *model = small_model();
    TestRun r = program("%s|-i|a|--draft|builtin|--speculate|lookup", model);
    check_refused(&r, ERROR_USAGE, "one of --draft and --speculate");
    r = program("%s|-i|a|--draft-tokens|3", model);
    check_refused(&r, ERROR_USAGE, "--draft-tokens is for");
    r = program("%s|-i|a|--speculate|lookup|--draft-tokens|16", model);
    check_refused(&r, ERROR_USAGE, "1 .. 15");
    r = program("%s|-i|a|--draft|%s", model, "/nonexistent/model.gguf");
    check_refused(&r, ERROR_IO, "/nonexistent/model.gguf");
    r = program("%s|-i|a|--draft-max|%s", model, "3");
    check_refused(&r, ERROR_USAGE, "--draft-tokens N");
    r = program("chat|%s|-i|a|--template|llama2|--draft|%s", model, conversion_endless());
    check_refused(&r, ERROR_USAGE, "needs the same");
}

// By their number, by one token's bytes.
Test(speculation_command, another_vocabulary_is_refused) {
    TestRun r = program("%s|-i|a|--draft|%s", small_model(), conversion_endless());
    check_refused(&r, ERROR_USAGE, "its vocabulary has ");
    static char file[8 << 20];
    FILE *f = fopen(small_model(), "rb");
    size_t size = f ? fread(file, 1, sizeof file, f) : 0;
    CHECK(f && size && size < sizeof file);
    fclose(f);
    // A word of the vocabulary that is written otherwise.
    char *word = memmem(file, size, "\xe2\x96\x81mom", 6);
    if (!word) word = memmem(file, size, "mom", 3);
    CHECK(word, "no such word in the vocabulary");
    char *at = memchr(word, 'm', 6);
    memcpy(at, "qqx", 3);
    const char *path = test_temporary("other-words.gguf");
    test_write_file(path, file, size);
    r = program("%s|-i|a|--draft|%s", small_model(), path);
    check_refused(&r, ERROR_USAGE, "qqx");
}

// ---- Ctrl-C, memory ----

Test(speculation_command, ctrl_c_ends_the_text) {
    for (int i = 0; i < 2; i++) {
        char line[900];
        snprintf(line, sizeof line, "%s|-n|0|-i|a|--ignore-eos|-s|1|--draft-tokens|8|%s|%s",
                 conversion_endless(), i ? "--draft" : "--speculate",
                 i ? conversion_endless() : "lookup");
        TestRun r = program_interrupted(line, "ab");
        CHECK_INT(r.status, 130);
        CHECK(strstr(r.out, "; first in "), "%s", r.out);
        test_run_free(&r);
    }
}

Test(speculation_command, memory_may_run_out_anywhere) {
    need_faults();
    WALK("memory", 0, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "9", "-i", "ababab", "--speculate", "lookup", "--draft-tokens", "3");
    WALK("memory", 0, "generate", fault_gguf(), "--quiet", "-t", "0", "-j", "1", "--max-tokens",
         "9", "-i", "ababab", "--draft", fault_gguf(), "--draft-tokens", "3");
}
