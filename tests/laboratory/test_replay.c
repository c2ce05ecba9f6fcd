// generate --record and replay: what a recording holds, that the bits of a run are those of any
// other on this backend, that every change shows, and that no file makes replay fail without a
// line.
#include "base/error.h"
#include "tests/support/files/llama2c_writer.h"
#include "tests/support/program.h"

#include <jansson.h>
#include <unistd.h>

enum { TOKENS = EMULATED(6, 30) };

static const char PROMPT[] = "-i|Once upon a time";
static const char SAMPLED[] = "-t|0.9|-s|42|--top-p|0.95|--repeat-penalty|1.2|--presence-penalty|"
                              "0.3|--frequency-penalty|0.1|--repeat-last-n|16";

static bool on_gpu(void) {
    return !strcmp(TEST_BACKEND, "cuda"); // which promises no bits between other batches
}

// Records TOKENS tokens of the built-in model.
static const char *record(const char *name, const char *options) {
    const char *path = test_temporary(name);
    unlink(path);
    TestRun r = program("%s|%s|--max-tokens|%d|-q|--ignore-eos|--record|%s|%s", small_model(),
                        PROMPT, TOKENS, path, options);
    check_status(&r, 0);
    test_run_free(&r);
    return path;
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    CHECK(root, "%s: %s", path, error.text);
    return root;
}

static json_t *parse_output(TestRun *r) {
    json_error_t error;
    json_t *root = json_loads(r->out, JSON_REJECT_DUPLICATES, &error);
    CHECK(root, "%s: %s", error.text, r->out);
    test_run_free(r);
    return root;
}

static void save(const char *path, const json_t *root) {
    CHECK(!json_dump_file(root, path, JSON_COMPACT), "%s", path);
}

static json_t *token(const json_t *root, size_t i) {
    json_t *t = json_array_get(json_object_get(root, "tokens"), i);
    CHECK(t, "token %zu", i);
    return t;
}

static int64_t integer(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    CHECK(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    CHECK(json_is_number(value), "%s", key);
    return json_number_value(value);
}

// ---- what is recorded ----

// Ids and text are those of --json of the same run, logarithms of probabilities those of
// --logprobs, and the uniform numbers those of the generator: the first four of seed 42, as in
// test_sampler.c.
Test(replay, a_recording_holds_what_the_other_outputs_say) {
    static const uint32_t UNIFORM[4] = {1406987, 6358233, 11409235, 15513773};
    json_t *root = load(record("outputs.json", SAMPLED));
    TestRun r = program("%s|%s|--max-tokens|%d|-q|--ignore-eos|--json|--logprobs|2|%s",
                        small_model(), PROMPT, TOKENS, SAMPLED);
    check_status(&r, 0);
    const char *line = r.out;
    for (size_t i = 0; i < TOKENS; i++, line = strchr(line, '\n') + 1) {
        json_t *wanted = json_loadb(line, strcspn(line, "\n"), 0, NULL), *got = token(root, i);
        CHECK_INT(integer(got, "id"), integer(wanted, "id"));
        CHECK_NEAR(log(number(got, "probability")), number(wanted, "logprob"), 1e-5);
        if (i < 4) CHECK_NEAR((float)number(got, "uniform"), UNIFORM[i] * 0x1p-24, 0);
        // The likeliest of two that is not the token itself.
        json_t *top = json_object_get(wanted, "top"), *other = json_object_get(got, "other");
        json_t *first = json_array_get(top, 0);
        bool is_first = integer(first, "id") == integer(got, "id");
        if (is_first) first = json_array_get(top, 1);
        CHECK_INT(integer(other, "id"), integer(first, "id"));
        CHECK_NEAR(log(number(other, "probability")), number(first, "logprob"), 1e-5);
        CHECK_NEAR(number(got, "logit") - number(other, "logit"),
                   log(number(got, "probability") / number(other, "probability")), 1e-4);
        json_decref(wanted);
    }
    json_t *object = json_loads(line, 0, NULL);
    CHECK(json_equal(json_object_get(object, "prompt_ids"), json_object_get(root, "prompt_ids")));
    CHECK(json_equal(json_object_get(object, "text"), json_object_get(root, "text")));
    CHECK_STRING(json_string_value(json_object_get(root, "stop")), "length");
    CHECK_INT(json_array_size(json_object_get(root, "tokens")), TOKENS);
    json_decref(object);
    json_decref(root);
    test_run_free(&r);
}

// The token that ends a text is sampled too.
Test(replay, the_token_that_ends_a_text_is_the_last_of_a_recording) {
    const char *path = test_temporary("end.json");
    TestRun r = program("%s|--prompt-ids|1|-t|0|-n|0|-q|--json|--record|%s", small_model(), path);
    check_status(&r, 0);
    json_t *object = parse_output(&r), *root = load(path);
    size_t shown = json_array_size(json_object_get(object, "ids"));
    bool ended = !strcmp(json_string_value(json_object_get(root, "stop")), "eos");
    CHECK_INT(json_array_size(json_object_get(root, "tokens")), shown + ended);
    json_decref(object);
    json_decref(root);
    r = program("replay|%s|-q", path);
    check_status(&r, 0);
    test_run_free(&r);
}

// Ctrl-C ends a text, and what there is of it is recorded. Without the cache there is time for it.
Test(replay, a_text_that_was_interrupted_is_recorded) {
    const char *path = test_temporary("interrupted.json");
    char line[300];
    unlink(path);
    snprintf(line, sizeof line, "%s|%s|-t|0|-n|0|--no-cache|--ignore-eos|--record|%s",
             small_model(), PROMPT, path);
    TestRun r = program_interrupted(line, "Once upon a time, there");
    check_status(&r, 130);
    test_run_free(&r);
    json_t *root = load(path);
    CHECK_STRING(json_string_value(json_object_get(root, "stop")), "interrupt");
    CHECK(json_array_size(json_object_get(root, "tokens")) >= 2);
    json_decref(root);
    r = program("replay|%s|-q", path);
    CHECK(r.status == 0 || on_gpu(), "%s%s", r.out, r.err);
    test_run_free(&r);
}

// ---- the same bits ----

static void check_same(const char *line) {
    TestRun r = program_shell(line);
    char wanted[60];
    check_status(&r, 0);
    snprintf(wanted, sizeof wanted, "the same bits: %d tokens\n", TOKENS);
    CHECK_STRING(r.out, wanted);
    test_run_free(&r);
}

Test(replay, gives_the_same_bits_with_other_threads_batches_and_instruction_sets) {
    static const char *const RUNS[][2] = {
        {"", ""},
        {"", "-j 1"},
        {"", "-j 2 --batch 1"},
        {"", "-j 2 --batch 3"},
        {"", "-j 1 --batch 4096"},
        {"LIMPID_ISA=avx2", "-j 1"},
        {"LIMPID_ISA=portable", "-j 2"},
    };
    const char *recordings[] = {record("greedy.json", "-t|0"),
                                record("sampled.json", SAMPLED),
                                record("plain.json", "-s|7|--json"),
                                record("pattern.json", "-s|7|--pattern|local:8+global:2|-j|1"),
                                record("no-cache.json", "-s|7|--no-cache|--ids"),
                                record("f32.json", "-t|0|--precision|f32|-c|300")};
    size_t n_runs = on_gpu() ? 2 : sizeof RUNS / sizeof *RUNS;
    for (size_t i = 0; i < (on_gpu() ? 3 : sizeof recordings / sizeof *recordings); i++)
        for (size_t run = 0; run < n_runs; run++) {
            char line[400];
            // Portable C with sanitizers takes seconds a token.
            if (TEST_SANITIZED && i && strstr(RUNS[run][0], "portable")) continue;
            snprintf(line, sizeof line, "%s $RUN replay %s %s -q", RUNS[run][0], recordings[i],
                     RUNS[run][1]);
            check_same(line);
        }
}

// ---- other bits, other tokens ----

static TestRun answer(const char *path, const char *options) {
    TestRun r = program("replay|%s|-q|--json|%s", path, options);
    check_status(&r, ERROR_ANSWER_NO);
    CHECK(strchr(r.err, '\n') == r.err + r.err_size - 1, "not one line: %s", r.err);
    return r;
}

Test(replay, another_precision_has_other_bits) {
    TestRun r = answer(record("precision.json", "-t|0|--kv|f32"), "--precision|f32");
    json_t *root = parse_output(&r);
    CHECK(json_is_false(json_object_get(root, "same_bits")));
    CHECK_INT(integer(json_object_get(root, "first_row"), "token"), 0);
    CHECK(number(root, "largest_logit_difference") > 0);
    CHECK(json_is_true(json_object_get(root, "same_model")));
    json_decref(root);
}

// A hash, an id and a uniform number that were changed by hand show where they were changed.
Test(replay, names_the_first_token_that_differs) {
    const char *path = record("edited.json", "-s|42|-t|0.9"), *copy = test_temporary("copy.json");
    json_t *root = load(path);
    json_object_set_new(token(root, 3), "hash", json_string("0123456789abcdef"));
    save(copy, root);
    TestRun r = answer(copy, "-j|1");
    json_t *got = parse_output(&r);
    CHECK(json_is_true(json_object_get(got, "same_tokens")));
    CHECK_INT(integer(got, "rows_with_other_bits"), 1);
    CHECK_INT(integer(json_object_get(got, "first_row"), "token"), 3);
    CHECK_STRING(json_string_value(json_object_get(json_object_get(got, "first_row"), "hash")),
                 "0123456789abcdef");
    json_decref(got);
    r = program("replay|%s|-q", copy);
    check_status(&r, ERROR_ANSWER_NO);
    CHECK(strstr(r.out, "tokens, from other bits") && strstr(r.out, "that of token 3"), "%s",
          r.out);
    test_run_free(&r);

    // The recording says that the runner-up was sampled at 4.
    json_decref(root);
    root = load(path);
    int64_t id = integer(token(root, 4), "id"),
            other = integer(json_object_get(token(root, 4), "other"), "id");
    json_object_set_new(token(root, 4), "id", json_integer(other));
    json_object_set_new(json_object_get(token(root, 4), "other"), "id", json_integer(id));
    save(copy, root);
    r = answer(copy, "-j|1");
    got = parse_output(&r);
    json_t *first = json_object_get(got, "first_token");
    CHECK_INT(integer(first, "token"), 4);
    CHECK_INT(integer(json_object_get(first, "recorded"), "id"), other);
    CHECK_INT(integer(json_object_get(first, "sampled"), "id"), id);
    CHECK_INT(integer(got, "compared"), 5);
    CHECK_INT(integer(got, "rows_with_other_bits"), 0);
    json_decref(got);

    // 1 - 2^-24 samples the least likely token that top-p leaves.
    json_decref(root);
    root = load(path);
    json_object_set_new(token(root, 0), "uniform", json_real(1 - 0x1p-24));
    save(copy, root);
    r = program("replay|%s|-q", copy);
    check_status(&r, ERROR_ANSWER_NO);
    CHECK(strstr(r.out, "token 0 of ") && strstr(r.out, "all 1 rows of logits have the same bits"),
          "%s", r.out);
    test_run_free(&r);
    json_decref(root);
}

// The ids of a run without a tokenizer.
static size_t bin_ids(long out[TOKENS], const char *model, const char *more) {
    TestRun r = program("%s|--prompt-ids|1,7,3|-t|0|--ids|--ignore-eos|--max-tokens|%d|%s", model,
                        TOKENS, more);
    check_status(&r, 0);
    size_t count = 0;
    for (char *at = r.out; *at && count < TOKENS; at++)
        out[count++] = strtol(at, &at, 10);
    test_run_free(&r);
    CHECK_INT(count, TOKENS);
    return count;
}

// The same tensors, rotated otherwise.
Test(replay, a_model_with_another_rope_scaling_is_another_model) {
    const char *model = test_temporary("scaled"), *path = test_temporary("scaled.json");
    const char *config = test_temporary("scaled/config.json");
    TestRun r = program("convert|builtin|%s", model);
    CHECK(r.status == 0, "%s", r.err);
    test_run_free(&r);
    size_t size;
    char *text = test_read_file(config, &size), *at = strstr(text, "\"rope_scaling\": null");
    CHECK(at, "%s", text);
    at += 16;
    for (int factor = 2; factor <= 3; factor++) {
        const char *changed = test_text("%.*s{\"rope_type\": \"linear\", \"factor\": %d.0}%s",
                                        (int)(at - text), text, factor, at + 4);
        test_write_file(config, changed, strlen(changed));
        if (factor == 2) {
            r = program("generate|%s|-i|Once|--max-tokens|2|-q|--record|%s", model, path);
            CHECK(r.status == 0, "%s", r.err);
            test_run_free(&r);
        }
    }
    free(text);
    r = program("replay|%s|-q", path);
    check_refused(&r, ERROR_FILE, "another model (digest ");
}

// One weight of the head is changed: a little, so that the tokens stay, and so much that one must
// differ. Which one it is follows from the ids of both models.
Test(replay, a_model_with_one_other_weight_is_found_out) {
    BinShape shape = bin_shape_blocks();
    size_t size;
    char *bytes = bin_bytes(&size, &shape, 3), options[200];
    const char *model = test_temporary("model.bin"), *changed = test_temporary("changed.bin");
    const char *path = test_temporary("bin.json");
    long ids[TOKENS], now[TOKENS];
    test_write_file(model, bytes, size);
    snprintf(options, sizeof options, "-q|--record|%s", path);
    bin_ids(ids, model, options);
    for (int large = 0; large < 2; large++) {
        // Row 40 of the head, whose logit every row has.
        float *weight = (float *)(void *)(bytes + size) - 10 * shape.dim + 5, kept;
        memcpy(&kept, weight, sizeof kept);
        float other = large ? kept + 60 : kept * (1 + 0x1p-10f);
        memcpy(weight, &other, sizeof other);
        test_write_file(changed, bytes, size);
        memcpy(weight, &kept, sizeof kept);
        TestRun r = program("replay|%s|-q|--model|%s", path, changed);
        check_refused(&r, ERROR_FILE, "another model (digest ");
        bin_ids(now, changed, "-q");
        int64_t first = 0;
        while (first < TOKENS && ids[first] == now[first])
            first++;
        snprintf(options, sizeof options, "--any-model|--model|%s", changed);
        r = answer(path, options);
        json_t *got = parse_output(&r), *parting = json_object_get(got, "first_token");
        CHECK(json_is_false(json_object_get(got, "same_model")));
        CHECK_INT(integer(json_object_get(got, "first_row"), "token"), 0);
        CHECK_INT(json_is_null(parting), !large);
        if (large) {
            CHECK_INT(integer(parting, "token"), first);
            CHECK_INT(integer(json_object_get(parting, "recorded"), "id"), ids[first]);
            CHECK_INT(integer(json_object_get(parting, "sampled"), "id"), now[first]);
        }
        json_decref(got);
    }
    free(bytes);
    TestRun r = program("replay|%s|-q|--model|%s", path, small_model());
    check_refused(&r, ERROR_FILE, "a vocabulary of ");
    unlink(model);
    r = program("replay|%s|-q", path);
    check_refused(&r, ERROR_IO, "--model PATH");
}

// ---- one token changed ----

static json_t *branch(const char *path, int at, int64_t id) {
    TestRun r = program("replay|%s|--at|%d|--token|%d|-q|--json|-j|1", path, at, (int)id);
    check_status(&r, 0);
    return parse_output(&r);
}

// "1,2,3" of the prompt, the first `count` recorded ids and one more.
static void extend(char *out, const json_t *root, size_t count, int64_t id) {
    json_t *prompt = json_object_get(root, "prompt_ids");
    for (size_t i = 0; i < json_array_size(prompt); i++)
        out += sprintf(out, "%d,", (int)json_integer_value(json_array_get(prompt, i)));
    for (size_t i = 0; i < count; i++)
        out += sprintf(out, "%d,", (int)integer(token(root, i), "id"));
    sprintf(out, "%d", (int)id);
}

// Greedy: as generate does with a prompt that is written out.
Test(replay, a_changed_token_goes_on_as_a_prompt_with_it_does) {
    static const int PLACES[] = {0, 3, TOKENS - 1};
    const char *path = record("branch.json", "-t|0|--repeat-penalty|1.3");
    json_t *root = load(path);
    for (size_t i = 0; i < 3; i++) {
        int at = PLACES[i];
        int64_t id = integer(json_object_get(token(root, (size_t)at), "other"), "id");
        char ids[1000];
        extend(ids, root, (size_t)at, id);
        TestRun r = program("%s|--prompt-ids|%s|-t|0|--repeat-penalty|1.3|--ignore-eos|-q|--json|"
                            "--max-tokens|%d",
                            small_model(), ids, TOKENS - at - 1);
        check_status(&r, 0);
        json_t *wanted = parse_output(&r), *got = branch(path, at, id);
        json_t *now = json_object_get(got, "now"), *new_ids = json_object_get(now, "ids");
        CHECK(on_gpu() || json_is_true(json_object_get(got, "same_bits")));
        CHECK_INT(json_array_size(json_object_get(got, "shared_ids")), at);
        CHECK_INT(json_integer_value(json_array_get(new_ids, 0)), id);
        CHECK(integer(now, "rank") <= 2); // 1 where a penalty made it the second
        json_array_remove(new_ids, 0);
        CHECK(json_equal(new_ids, json_object_get(wanted, "ids")), "at %d", at);
        CHECK_INT(json_array_size(new_ids), TOKENS - at - 1);
        CHECK_INT(json_array_size(json_object_get(json_object_get(got, "recorded"), "ids")),
                  TOKENS - at);
        json_decref(wanted);
        json_decref(got);
    }
    json_decref(root);
}

// With the recorded token in its place nothing changes, so the state of the sampler is the recorded
// one; and the numbers of the recording are used, not the seed's.
Test(replay, the_recorded_token_goes_on_as_recorded) {
    const char *path = record("again.json", SAMPLED), *copy = test_temporary("no-seed.json");
    json_t *root = load(path);
    json_object_set_new(json_object_get(root, "options"), "seed", json_string("1"));
    save(copy, root);
    for (int at = 0; at < TOKENS; at += 5) {
        json_t *got = branch(copy, at, integer(token(root, (size_t)at), "id"));
        json_t *recorded = json_object_get(got, "recorded"), *now = json_object_get(got, "now");
        CHECK(json_equal(recorded, now), "at %d", at);
        json_decref(got);
    }
    json_decref(root);
    TestRun r = program("replay|%s|-q", copy);
    check_status(&r, 0);
    test_run_free(&r);
}

// A text that ends one may begin before the token that is changed.
Test(replay, a_stop_text_of_several_tokens_ends_the_new_text_too) {
    json_t *whole = load(record("whole.json", "-t|0"));
    const char *text = json_string_value(json_object_get(whole, "text"));
    size_t length = strlen(text);
    CHECK(length > 12);
    char options[60];
    snprintf(options, sizeof options, "-t|0|--stop|%s", text + length - 8);
    const char *path = record("stopped.json", options);
    json_t *root = load(path);
    CHECK_STRING(json_string_value(json_object_get(root, "stop")), "stop");
    for (int back = 1; back <= 4; back++) {
        int at = (int)json_array_size(json_object_get(root, "tokens")) - back;
        json_t *got = branch(path, at, integer(token(root, (size_t)at), "id"));
        json_t *recorded = json_object_get(got, "recorded"), *now = json_object_get(got, "now");
        CHECK(json_equal(recorded, now), "at %d", at);
        json_decref(got);
    }
    json_decref(root);
    json_decref(whole);
}

// Logit bias, xtc, dry and mirostat: the same bits, and the same text behind any token of it. The
// options are in the recording where they were given, and nowhere else.
Test(replay, sampling_as_in_llama_cpp_is_recorded) {
    static const char *const OPTIONS[] = {
        "-s|3|--xtc-probability|0.5|--xtc-threshold|0.05",
        "-s|3|--dry-multiplier|0.8|--dry-allowed-length|1|--dry-sequence-breaker|.",
        "-s|3|--logit-bias|261:-inf,300:+1|--logit-bias|301:2",
        "-s|3|--mirostat|2|--mirostat-tau|3|--mirostat-eta|0.2",
    };
    static const char *const KEYS[] = {"xtc-threshold", "dry-sequence-breaker", "logit-bias",
                                       "mirostat-lr"};
    for (size_t i = 0; i < 4; i++) {
        const char *path = record("stages.json", OPTIONS[i]);
        json_t *root = load(path), *options = json_object_get(root, "options");
        for (size_t k = 0; k < 4; k++)
            CHECK(!json_object_get(options, KEYS[k]) == (k != i), "%s", KEYS[k]);
        TestRun r = program("replay|%s|-q", path);
        check_status(&r, 0);
        test_run_free(&r);
        for (int at = 1; at < TOKENS; at += EMULATED(4, 9)) {
            json_t *got = branch(path, at, integer(token(root, (size_t)at), "id"));
            CHECK(json_equal(json_object_get(got, "recorded"), json_object_get(got, "now")),
                  "%s: at %d", OPTIONS[i], at);
            json_decref(got);
        }
        json_decref(root);
    }
}

// Token 4 is the byte 0. Texts that are read end at none.
Test(replay, a_text_of_nul_bytes_is_recorded) {
    json_t *root = load(record("nul.json", "-t|0|--logit-bias|4:+1000"));
    const json_t *text = json_object_get(root, "text");
    CHECK_INT((int)json_string_length(text), TOKENS);
    CHECK(!json_string_value(text)[0]);
    TestRun r = program("replay|%s|-q", test_temporary("nul.json"));
    check_status(&r, 0);
    test_run_free(&r);
    json_object_set_new(root, "device", json_stringn("a\0b", 3));
    save(test_temporary("nul.json"), root);
    r = program("replay|%s|-q", test_temporary("nul.json"));
    check_refused(&r, 3, "\"device\": a NUL in a string");
    json_decref(root);
}

Test(replay, shows_both_texts) {
    const char *path = record("texts.json", "-t|0");
    TestRun r = program("replay|%s|--at|2|--token| girl|-q", path);
    check_status(&r, 0);
    const char *recorded = strstr(r.out, "\n\n--- recorded: token 2 is ");
    const char *now = strstr(r.out, "\n\n--- now: token 2 is ");
    CHECK(!strncmp(r.out, "Once upon a time", 16) && recorded && now && recorded < now, "%s",
          r.out);
    CHECK(strstr(now, ")\n girl"), "%s", now);
    test_run_free(&r);
}

// ---- refusals ----

Test(replay, refuses_what_it_cannot_do) {
    char path[100], options[400];
    snprintf(path, sizeof path, "%s", record("refused.json", "-t|0"));
    static const struct {
        const char *options, *because;
    } CASES[] = {
        {"--at|3", "go together"},
        {"--token|3", "go together"},
        {"--at|30|--token|3", "the recording has tokens 0 .. "},
        {"--at|3|--token|99999", "wanted an id below 2048"},
        {"--at|3|--token|-1", "wanted an id below"},
        {"--at|3|--token|a little girl", "is no token of this vocabulary"},
        {"--batch|0", "wanted an integer 1 .. 4096"},
        {"--temp|1", "not an option of this command"},
        {"x.json", "one argument too many after the recording"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestRun r = program("replay|%s|%s", path, CASES[i].options);
        check_refused(&r, ERROR_USAGE, CASES[i].because);
    }
    TestRun r = program("replay");
    check_refused(&r, ERROR_USAGE, "generate --record");
    r = program("%s|%s|--record|%s", small_model(), PROMPT, path);
    check_refused(&r, ERROR_USAGE, "--force");
    snprintf(options, sizeof options, "%s|-m|chat|-i|x|--record|%s", small_model(), path);
    r = program("%s", options);
    check_refused(&r, ERROR_USAGE, "--record does not go with -m chat");
    r = program("%s|%s|--record|%s/no/such.json", small_model(), PROMPT, path);
    check_refused(&r, ERROR_IO, "/no/such.json"); // before any text
    const char *prompt = test_temporary("prompt.txt");
    test_write_file(prompt, "Once", 4);
    r = program("%s|-f|%s|--force|--record|%s", small_model(), prompt, prompt);
    check_refused(&r, ERROR_USAGE, "prompt.txt");
}

// JSON has no bytes that are not UTF-8. A text that ended with standard output is no whole one, and
// the recording that was there stays.
Test(replay, records_nothing_that_it_cannot_give_back) {
    char script[400];
    const char *path = record("kept.json", "-t|0");
    TestRun r = program("%s|%s|--max-tokens|5|--stop|\xe2|--record|%s|--force", small_model(),
                        PROMPT, path);
    check_refused(&r, ERROR_USAGE, "--stop is not UTF-8");
    snprintf(script, sizeof script,
             "cp %s %s.before && $RUN $MODEL -i x --max-tokens 5 -q --record %s --force >/dev/full",
             path, path, path);
    r = program_shell(script);
    check_refused(&r, ERROR_IO, "standard output");
    snprintf(script, sizeof script, "cmp %s %s.before && rm %s.before", path, path, path);
    r = program_shell(script);
    check_status(&r, 0);
    test_run_free(&r);
}

// The way out is that of the file that is not there, whatever bytes its name has.
Test(replay, names_the_way_out_where_a_file_is_gone) {
    const char *path = test_temporary("gone.json");
    json_t *root = load(record("gone.json", "-t|0")), *model = json_object_get(root, "model");
    json_object_set_new(model, "path", json_string("/no/\u00e9.gguf"));
    save(path, root);
    TestRun r = program("replay|%s", path);
    check_refused(&r, ERROR_IO, "(the recorded path; --model PATH gives another)");
    json_object_set_new(json_object_get(root, "options"), "tokenizer", json_string("/no/such.bin"));
    const char *const models[] = {small_model(), "builtin"}; // the latter is no file
    for (int i = 0; i < 2; i++) {
        json_object_set_new(model, "path", json_string(models[i]));
        save(path, root);
        r = program("replay|%s", path);
        check_refused(&r, ERROR_IO, "(the recorded path; -z FILE gives another)");
    }
    r = program("replay|%s|-z|/none", path);
    check_refused(&r, ERROR_IO, "/none");
    json_decref(root);
}

Test(replay, a_recording_without_tokens_is_said_to_have_none) {
    const char *path = test_temporary("none.json");
    unlink(path);
    TestRun r = program("%s|%s|--max-tokens|0|-q|--record|%s", small_model(), PROMPT, path);
    check_status(&r, 0);
    test_run_free(&r);
    r = program("replay|%s|--at|0|--token|5", path);
    check_refused(&r, ERROR_USAGE, "--at: the recording has no tokens");
    r = program("replay|%s|--json|-q", path);
    check_status(&r, ERROR_ANSWER_NO);
    json_t *root = parse_output(&r);
    CHECK(integer(root, "tokens") == 0 && integer(root, "compared") == 0, "of no token");
    json_decref(root);
}

// ---- hostile recordings ----

static void check_bad(const json_t *root, const char *because, const char *what) {
    const char *path = test_temporary("bad.json");
    save(path, root);
    TestRun r = program("replay|%s", path);
    CHECK(r.status == ERROR_FILE, "%s: exit %d, %s%s", what, r.status, r.out, r.err);
    check_refused(&r, ERROR_FILE, because);
}

// Each key of an object in turn: absent, then with values that it cannot have.
static void break_keys(const json_t *root, json_t *object, const char *const *free_keys) {
    json_t *const values[] = {json_object(), json_real(1e300), json_integer(INT64_MIN)};
    const char *key;
    json_t *value, *all = json_copy(object);
    json_object_foreach(all, key, value) {
        bool is_free = !strcmp(key, "text"); // for people; replay makes its own
        for (size_t i = 0; free_keys && free_keys[i]; i++)
            is_free |= !strcmp(key, free_keys[i]);
        char quoted[40];
        snprintf(quoted, sizeof quoted, "\"%s\"", key);
        if (strcmp(key, "text") != 0) {
            json_object_del(object, key);
            check_bad(root, quoted, key);
        }
        for (size_t i = 0; i < sizeof values / sizeof *values && !is_free; i++) {
            json_object_set(object, key, values[i]);
            check_bad(root, "", key);
        }
        json_object_set(object, key, value);
    }
    json_decref(all);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        json_decref(values[i]);
}

Test(replay, every_key_of_a_recording_is_checked) {
    static const char *const LOGIT[] = {"logit", NULL}; // any float32 is one
    json_t *root = load(record("keys.json", "-t|0|--stop|zebra"));
    break_keys(root, root, NULL);
    break_keys(root, json_object_get(root, "model"), NULL);
    break_keys(root, json_object_get(root, "options"), NULL);
    break_keys(root, token(root, 2), LOGIT);
    break_keys(root, json_object_get(token(root, 2), "other"), LOGIT);
    TestRun r = program("replay|%s", test_temporary("keys.json"));
    check_status(&r, 0);
    test_run_free(&r);
    json_decref(root);
}

static void set_and_check(json_t *object, const json_t *root, const char *key, json_t *value,
                          const char *because) {
    json_t *kept = json_incref(json_object_get(object, key)); // NULL: it was not there
    json_object_set_new(object, key, value);
    check_bad(root, because, key);
    json_object_del(object, key);
    if (kept) json_object_set_new(object, key, kept);
}

Test(replay, numbers_and_texts_are_kept_in_bounds) {
    json_t *root = load(record("bounds.json", "-t|0")), *options = json_object_get(root, "options");
    json_t *model = json_object_get(root, "model"), *many = json_array(), *stops = json_array();
    for (int i = 0; i < 65537; i++)
        json_array_append_new(many, json_integer(1));
    for (int i = 0; i < 17; i++)
        json_array_append_new(stops, json_string("x"));
    set_and_check(root, root, "prompt_ids", json_array(), "is empty");
    set_and_check(root, root, "prompt_ids", json_pack("[i]", 2048), "wanted 0 .. 2047, got 2048");
    set_and_check(root, root, "prompt_ids", json_incref(many), "at most 65536");
    set_and_check(root, root, "tokens", many, "at most 65536");
    set_and_check(root, root, "format", json_string("limpid-recording 2"), "not a recording");
    set_and_check(root, root, "stop", json_string("boredom"), "no reason to stop");
    set_and_check(options, root, "stop", stops, "at most 16");
    set_and_check(options, root, "stop", json_pack("[s]", ""), "a text is empty");
    set_and_check(options, root, "temp", json_integer(-1), "options: \"temp\"");
    set_and_check(options, root, "seed", json_string("18446744073709551616"), "\"seed\"");
    set_and_check(options, root, "kv", json_string("f64"), "one of f32|f16|bf16");
    set_and_check(options, root, "pattern", json_string("local:0"), "local:0");
    set_and_check(options, root, "mirostat", json_string("1"), "one of 0|2");
    set_and_check(options, root, "dry-base", json_integer(0), "options: \"dry-base\"");
    set_and_check(options, root, "logit-bias", json_pack("[s]", "5"), "wanted ID:BIAS");
    set_and_check(options, root, "logit-bias", json_pack("[s]", "2048:1"), "a token 0 to 2047");
    set_and_check(options, root, "ctx-size", json_integer(6), "\"max-tokens\" or the context");
    set_and_check(options, root, "ctx-size", json_integer(3), "a prompt of ");
    set_and_check(options, root, "ctx-size", json_integer(4000000), "the model has 512");
    set_and_check(options, root, "max-tokens", json_integer(2), "\"max-tokens\" or the context");
    set_and_check(model, root, "digest", json_string("0x23456789abcdef"), "16 hexadecimal");
    set_and_check(model, root, "vocab_size", json_integer(4194305), "\"vocab_size\"");
    set_and_check(model, root, "vocab_size", json_integer(2), "prompt_ids");
    set_and_check(token(root, 1), root, "uniform", json_real(1), "tokens[1]: \"uniform\"");
    set_and_check(token(root, 1), root, "logit", json_real(1e39), "too large");
    set_and_check(token(root, 1), root, "id", json_integer(2048), "tokens[1]: \"id\"");
    set_and_check(token(root, 1), root, "hash", json_string("f"), "tokens[1]: \"hash\"");
    json_decref(root);
}

// No text of a recording reaches the terminal as it is.
Test(replay, texts_of_a_recording_are_escaped) {
    const char *path = record("escapes.json", "-t|0");
    json_t *root = load(path);
    json_object_set_new(root, "limpid", json_string("\x1b[2J"));
    json_object_set_new(root, "device", json_string("\x1b]0;title\a\xc2\x9b"));
    save(path, root);
    json_decref(root);
    TestRun r = program("replay|%s", path);
    check_status(&r, 0);
    for (const char *c = r.err; *c; c++)
        CHECK(*c == '\n' || (*c >= ' ' && *c <= '~'), "%s", r.err);
    test_run_free(&r);
}

Test(replay, a_recording_that_was_cut_is_refused) {
    size_t size;
    char *bytes = test_read_file(record("cut.json", "-t|0"), &size);
    const char *path = test_temporary("cut-copy.json");
    for (size_t end = 0; end + 2 < size; end += 1 + size / EMULATED(10, 100)) {
        test_write_file(path, bytes, end);
        TestRun r = program("replay|%s", path);
        check_refused(&r, ERROR_FILE, "cut-copy.json");
    }
    free(bytes);
    TestRun r = program("replay|%s", "/dev/zero");
    check_refused(&r, ERROR_IO, "/dev/zero");
    r = program("replay|%s", small_model());
    check_refused(&r, ERROR_FILE, "builtin.gguf");
}
