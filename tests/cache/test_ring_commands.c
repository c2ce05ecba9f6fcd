// The commands and the library with a model of layers with a window, and texts that are longer than
// its rings: what they have lost is computed again, and said; the numbers are those of a run
// without the past.
#include "limpid.h"
#include "tests/support/program.h"

#include <unistd.h>

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
    const char *model = windowed_model();
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
    const char *model = windowed_model();
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

// ---- the library ----

enum { LONG = 700, ROWS = 32, RING_ROWS = 48 }; // 8 and 32, in whole tiles of 16

typedef struct Library {
    limpid_model *model;
    limpid_context *context;
    int vocab_size;
} Library;

static Library library_open(const char *path, bool full_cache) {
    limpid_error error = {0};
    limpid_options options = {.context = 1000, .max_rows = ROWS, .full_cache = full_cache};
    Library l = {.model = limpid_open(path, NULL, &error)};
    CHECK(l.model, "%s", error.message);
    l.context = limpid_context_open(l.model, &options, &error);
    CHECK(l.context, "%s", error.message);
    l.vocab_size = limpid_describe(l.model).vocab_size;
    return l;
}

static void library_close(Library *l) {
    limpid_context_close(l->context);
    limpid_close(l->model);
}

// Tokens first .. LONG - 1 of a text; the logits of the last one are `wanted`, or become it.
static void library_feed(Library *l, int first, float *wanted, bool compare) {
    int32_t ids[LONG];
    limpid_error error = {0};
    for (int i = 0; i < LONG; i++)
        ids[i] = 3 + (7 * i + i / 11) % (l->vocab_size - 3);
    for (int i = first, n; i < LONG; i += n) { // passes that end where others do
        n = ROWS - i % ROWS < LONG - i ? ROWS - i % ROWS : LONG - i;
        CHECK(limpid_eval(l->context, &(limpid_batch){.n = n, .tokens = ids + i}, &error), "%s",
              error.message);
    }
    size_t bytes = (size_t)l->vocab_size * sizeof *wanted;
    const float *logits = limpid_logits(l->context, 0);
    if (compare)
        CHECK(!memcmp(logits, wanted, bytes), "from token %d on", first);
    else
        memcpy(wanted, logits, bytes);
}

Test(ring_commands, the_library_says_how_far_back_it_can_go) {
    float wanted[300];
    limpid_error error = {0};
    const char *path = windowed_model();
    Library l = library_open(path, false), full = library_open(path, true);
    int lowest = LONG - 1 - (RING_ROWS - 8);
    library_feed(&full, 0, wanted, false);
    library_feed(&l, 0, wanted, true);
    CHECK_INT(limpid_rewinds(full.context, 0), 0);
    CHECK_INT(limpid_rewinds(l.context, 0), lowest);
    CHECK(!limpid_truncate(l.context, 0, lowest - 1), "lost");
    CHECK_INT(limpid_length(l.context, 0), LONG);
    int32_t id = 5, position = 40;
    CHECK(!limpid_eval(l.context, &(limpid_batch){.n = 1, .tokens = &id, .positions = &position},
                       &error),
          "lost");
    CHECK(strstr(error.message, "layers with a window"), "%s", error.message);
    CHECK(limpid_truncate(l.context, 0, lowest) && limpid_truncate(full.context, 0, 64), "held");
    library_feed(&l, lowest, wanted, true);
    library_feed(&full, 64, wanted, true);

    // Saved and restored: as many bytes as are said, and as far back as before.
    size_t size = limpid_state_size(l.context, LONG);
    // Keys and values of a head of 32 channels in 16 bits; 5 rings and a layer of all; a number.
    CHECK_INT(size, 2 * 32 * 2 * (5 * RING_ROWS + LONG) + 4);
    char *state = malloc(size);
    Library other = library_open(path, false);
    CHECK(limpid_save(l.context, 0, state, &error), "%s", error.message);
    CHECK(limpid_restore(other.context, 0, LONG, state, size, &error), "%s", error.message);
    CHECK_INT(limpid_rewinds(other.context, 0), lowest);
    CHECK(!limpid_truncate(other.context, 0, lowest - 1), "lost");
    CHECK(limpid_truncate(other.context, 0, lowest), "held");
    library_feed(&other, lowest, wanted, true);
    CHECK(limpid_truncate(other.context, 0, 0), "begun anew");
    library_feed(&other, 0, wanted, true);
    memset(state + size - 4, 0xff, 4);
    CHECK(!limpid_restore(other.context, 0, LONG, state, size, &error), "not ours");
    free(state);
    library_close(&l);
    library_close(&full);
    library_close(&other);
}
