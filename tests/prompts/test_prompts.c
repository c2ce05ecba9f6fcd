// generate --prompts: every answer is that of the prompt alone, computed here through limpid.h one
// text after the other; in any order, with any number side by side.
#include "base/hash.h"
#include "tests/support/opened.h"
#include "tests/support/program.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

enum { PROMPTS = TEST_SANITIZED ? 60 : 1000, CONTEXT = 256 };

static const char *const WORDS[] = {"Once", "upon",  "a",    "time", "there", "was", "little",
                                    "girl", "named", "Lily", "who",  "loved", "the", "red"};
enum { N_WORDS = sizeof WORDS / sizeof *WORDS };

// Prompt i: of one to eighty words, some of which have their beginning from one before.
static void put_prompt(char out[1000], int i) {
    uint64_t state = i % 4 == 3 ? (uint64_t)i / 16 : (uint64_t)i;
    int words = 1 + (int)(splitmix64(&state) % (i % 8 == 0 ? 80 : 12));
    size_t length = 0;
    for (int w = 0; w < words; w++)
        length += (size_t)snprintf(out + length, 1000 - length, "%s%s", w ? " " : "",
                                   WORDS[splitmix64(&state) % N_WORDS]);
}

// What line i asks for beside its prompt.
typedef struct Asked {
    int max_tokens, top_k;
    float temperature, top_p;
    uint64_t seed;
} Asked;

static Asked asked(int i) {
    return (Asked){.max_tokens = i % 23,
                   .top_k = i % 5 ? 0 : 20,
                   .temperature = i % 3 ? 0.8f : 0.0f,
                   .top_p = i % 2 ? 0.9f : 1.0f,
                   .seed = (uint64_t)i};
}

static void put_line(FILE *file, int i) {
    char prompt[1000];
    Asked a = asked(i);
    put_prompt(prompt, i);
    fprintf(file,
            "{\"id\":%d,\"prompt\":\"%s\",\"max_tokens\":%d,\"temperature\":%.9g,\"top_k\":%d,"
            "\"top_p\":%.9g,\"seed\":%" PRIu64 "}\n",
            i, prompt, a.max_tokens, (double)a.temperature, a.top_k, (double)a.top_p, a.seed);
}

// The lines i * step mod n: with a step that has no divisor with n, all in another order.
static void write_prompts(const char *path, int n, int step) {
    FILE *file = fopen(path, "w");
    CHECK(file, "no %s", path);
    for (int i = 0; i < n; i++)
        put_line(file, (int)((int64_t)i * step % n));
    fclose(file);
}

// The answers of a file by their ids, without its first and last line.
static json_t **read_answers(const char *path, int n) {
    size_t size = 0;
    char *text = test_read_file(path, &size);
    json_t **answers = calloc((size_t)n, sizeof *answers);
    int found = 0;
    for (char *at = text; at < text + size; at = strchr(at, '\n') + 1) {
        json_t *line = json_loadb(at, strcspn(at, "\n"), 0, NULL);
        CHECK(line, "no JSON in %s", path);
        json_t *id = json_object_get(line, "id");
        if (!id) {
            json_decref(line);
            continue;
        }
        int i = (int)json_integer_value(id);
        CHECK(i >= 0 && i < n && !answers[i], "id %d stands twice, or is another's", i);
        answers[i] = line;
        found++;
    }
    CHECK_INT(found, n);
    free(text);
    return answers;
}

static void free_answers(json_t **answers, int n) {
    for (int i = 0; i < n; i++)
        json_decref(answers[i]);
    free(answers);
}

// ---- alone ----

typedef struct Alone {
    int32_t ids[CONTEXT];
    size_t count;
    uint64_t hash;
    double logprob;
} Alone;

static double logprob_of(const float *logits, int n, int id) {
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        largest = fmax(largest, (double)logits[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - largest);
    return (double)logits[id] - largest - log(sum);
}

static Alone alone(Opened *o, int i) {
    char prompt[1000];
    Asked a = asked(i);
    Alone result = {.hash = FNV_START};
    limpid_error error = {0};
    int n_vocab = o->info.vocab_size;
    put_prompt(prompt, i);
    limpid_sampling sampling = {
        .temperature = a.temperature, .top_p = a.top_p, .top_k = a.top_k, .seed = a.seed};
    limpid_sampler *sampler = limpid_sampler_open(o->context, &sampling, &error);
    CHECK(sampler, "%s", error.message);
    int n = limpid_tokenize(o->model, prompt, strlen(prompt), LIMPID_BEGIN, o->ids, TEST_MOST_IDS,
                            &error);
    CHECK(n > 0 && n < TEST_MOST_IDS, "%d tokens", n);
    limpid_truncate(o->context, 0, 0);
    test_eval(o, &(limpid_batch){.n = n, .tokens = o->ids});
    while (result.count < (size_t)a.max_tokens) {
        const float *logits = limpid_logits(o->context, 0);
        int32_t id = limpid_sample(sampler, logits, &error);
        CHECK(id >= 0, "%s", error.message);
        result.hash = fnv1a(result.hash, logits, (size_t)n_vocab * sizeof *logits);
        if (limpid_ends(o->model, id)) break;
        result.logprob += logprob_of(logits, n_vocab, id);
        result.ids[result.count++] = id;
        CHECK(limpid_sampler_accept(sampler, id, &error), "%s", error.message);
        if (result.count < (size_t)a.max_tokens)
            test_eval(o, &(limpid_batch){.n = 1, .tokens = &id});
    }
    limpid_sampler_close(sampler);
    return result;
}

static void check_same(const json_t *answer, const Alone *wanted, int i) {
    char hash[FNV_HEX];
    const json_t *ids = json_object_get(answer, "ids");
    const char *got = json_string_value(json_object_get(answer, "logits_hash"));
    snprintf(hash, sizeof hash, "%016" PRIx64, wanted->hash);
    CHECK(ids && got, "answer %d: %s", i, json_string_value(json_object_get(answer, "error")));
    CHECK(!strcmp(got, hash), "answer %d: other logits than alone", i);
    CHECK_INT((int)json_array_size(ids), (int)wanted->count);
    for (size_t k = 0; k < wanted->count; k++)
        CHECK_INT((int)json_integer_value(json_array_get(ids, k)), wanted->ids[k]);
    CHECK_NEAR(json_number_value(json_object_get(answer, "logprob")), wanted->logprob, 1e-4);
}

static const char *answered(const char *prompts, const char *name, int parallel) {
    const char *out = test_temporary(name);
    TestRun run = program("generate|%s|--prompts|%s|--out|%s|--force|-c|%d|--parallel|%d|-q",
                          small_model(), prompts, out, CONTEXT, parallel);
    check_status(&run, 0);
    CHECK_INT((int)run.out_size, 0);
    test_run_free(&run);
    return out;
}

Test(prompts, a_thousand_answers_are_those_of_each_prompt_alone) {
    char prompts[300], out[300];
    Opened o = test_opened(&(limpid_options){.context = CONTEXT});
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    write_prompts(prompts, PROMPTS, 1);
    snprintf(out, sizeof out, "%s", answered(prompts, "out", 8));
    json_t **answers = read_answers(out, PROMPTS);
    for (int i = 0; i < PROMPTS; i++) {
        Alone wanted = alone(&o, i);
        check_same(answers[i], &wanted, i);
    }
    free_answers(answers, PROMPTS);
    test_opened_close(&o);
}

static void check_same_file(const char *a, const char *b) {
    size_t sizes[2];
    char *texts[] = {test_read_file(a, &sizes[0]), test_read_file(b, &sizes[1])};
    CHECK(sizes[0] == sizes[1] && !memcmp(texts[0], texts[1], sizes[0]), "%s and %s differ", a, b);
    free(texts[0]);
    free(texts[1]);
}

Test(prompts, the_file_of_answers_is_the_same_for_any_number_side_by_side) {
    char prompts[300], one[300];
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    write_prompts(prompts, PROMPTS / 4, 1);
    snprintf(one, sizeof one, "%s", answered(prompts, "one", 1));
    check_same_file(one, answered(prompts, "three", 3));
    check_same_file(one, answered(prompts, "eight", 8));
    check_same_file(one, answered(prompts, "many", 33));
}

Test(prompts, answers_do_not_depend_on_the_order_of_the_lines) {
    enum { N = PROMPTS / 4 };
    char prompts[300], first[300];
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    write_prompts(prompts, N, 1);
    snprintf(first, sizeof first, "%s", answered(prompts, "first", 8));
    write_prompts(prompts, N, 7);
    json_t **a = read_answers(first, N), **b = read_answers(answered(prompts, "second", 5), N);
    for (int i = 0; i < N; i++)
        CHECK(json_equal(a[i], b[i]), "answer %d", i);
    free_answers(a, N);
    free_answers(b, N);
}

// ---- one line, beside generate ----

// The answer to one line, which stands between others.
static json_t *answer_to(const char *line, const char *options) {
    char prompts[300], out[300];
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    snprintf(out, sizeof out, "%s", test_temporary("out"));
    FILE *file = fopen(prompts, "w");
    CHECK(file, "no %s", prompts);
    fprintf(file, "{\"prompt\":\"Lily\",\"max_tokens\":9}\n%s\n{\"prompt\":\"The\"}\n", line);
    fclose(file);
    TestRun run = program("generate|%s|--prompts|%s|--out|%s|--force|-q|-c|%d%s", small_model(),
                          prompts, out, CONTEXT, options);
    check_status(&run, 0);
    test_run_free(&run);
    size_t size = 0;
    char *text = test_read_file(out, &size), *at = text;
    for (int i = 0; i < 2; i++)
        at = strchr(at, '\n') + 1;
    json_t *answer = json_loadb(at, strcspn(at, "\n"), 0, NULL);
    CHECK(answer, "no answer to %s", line);
    free(text);
    return answer;
}

// The same keys of the object that generate --json prints.
static void check_as_generate(const json_t *answer, const char *options) {
    static const char *const KEYS[] = {"text", "ids", "stop", "logits_hash"};
    TestRun run = program("generate|%s|--json|-q|-c|%d|%s", small_model(), CONTEXT, options);
    check_status(&run, 0);
    json_t *wanted = json_loadb(run.out, run.out_size, 0, NULL);
    for (int i = 0; i < 4; i++)
        CHECK(json_equal(json_object_get(answer, KEYS[i]), json_object_get(wanted, KEYS[i])),
              "%s differs: %s", KEYS[i], options);
    json_decref(wanted);
    test_run_free(&run);
}

static void check_line(const char *line, const char *of_file, const char *of_generate) {
    json_t *answer = answer_to(line, of_file);
    check_as_generate(answer, of_generate);
    json_decref(answer);
}

Test(prompts, a_line_is_answered_as_generate_answers_its_options) {
    check_line("{\"prompt\":\"Once upon\",\"stop\":[\"little\",\"zzz\"]}", "",
               "-i|Once upon|-s|1|--stop|little|--stop|zzz");
    check_line(
        "{\"prompt\":\"Once upon\",\"stop\":\".\",\"min_p\":0.1,\"seed\":\"18446744073709551615\"}",
        "", "-i|Once upon|-s|18446744073709551615|--stop|.|--min-p|0.1");
    check_line("{\"prompt_ids\":[1,403,407],\"max_tokens\":400}", "|--repeat-penalty|1.3|-s|4",
               "--prompt-ids|1,403,407|--max-tokens|400|--repeat-penalty|1.3|-s|4");
    check_line("{\"prompt\":\"\",\"max_tokens\":6}", "|--mirostat|2|--dry-multiplier|0.8",
               "-i||--max-tokens|6|--mirostat|2|--dry-multiplier|0.8|-s|1");
    check_line("{\"prompt\":\"caf\\u00e9 \\ud83d\\ude00\",\"max_tokens\":6}",
               "|--precision|a8|--kv|bf16",
               "-i|caf\xc3\xa9 \xf0\x9f\x98\x80|--max-tokens|6|--precision|a8|--kv|bf16|-s|1");
    // up to the end of the context, and the token that needs no place in it
    check_line("{\"prompt_ids\":[1,403,407],\"max_tokens\":400}", "|--ignore-eos",
               "--prompt-ids|1,403,407|--max-tokens|400|--ignore-eos|-s|1");
    check_line("{\"prompt\":\"A\",\"max_tokens\":20}", "|--pattern|local:4|-t|0|--logit-bias|5:+1",
               "-i|A|--max-tokens|20|--pattern|local:4|-t|0|--logit-bias|5:+1");
}

Test(prompts, a_grammar_holds_for_every_text) {
    static const char GRAMMAR[] = "root ::= (\" \"? [a-z]+){2,3} \".\"\n";
    char path[300], of_file[400], of_generate[500];
    snprintf(path, sizeof path, "%s", test_temporary("grammar"));
    test_write_file(path, GRAMMAR, sizeof GRAMMAR - 1);
    snprintf(of_file, sizeof of_file, "|--grammar|%s", path);
    snprintf(of_generate, sizeof of_generate, "-i|The|--max-tokens|30|-s|5|--grammar|%s", path);
    check_line("{\"prompt\":\"The\",\"max_tokens\":30,\"seed\":5}", of_file, of_generate);
}

Test(prompts, samples_are_the_texts_of_the_seeds_that_follow) {
    json_t *answer =
        answer_to("{\"prompt\":\"Once upon a time there was a girl who\",\"samples\":5,"
                  "\"max_tokens\":12,\"seed\":7}",
                  "|--parallel|3");
    const json_t *samples = json_object_get(answer, "samples");
    CHECK_INT((int)json_array_size(samples), 5);
    for (int i = 0; i < 5; i++) {
        char options[200];
        const json_t *sample = json_array_get(samples, (size_t)i);
        snprintf(options, sizeof options,
                 "-i|Once upon a time there was a girl who|--max-tokens|12|-s|%d", 7 + i);
        check_as_generate(sample, options);
        CHECK_INT(atoi(json_string_value(json_object_get(sample, "seed"))), 7 + i);
    }
    json_decref(answer);
}

// ---- continuations ----

// Each token's log-probability, from rows of logits in double; the hash over the same rows.
static void check_score(const char *line, const int32_t *ids, int prompt, int n) {
    Opened o = test_opened(&(limpid_options){.context = CONTEXT, .max_logit_rows = CONTEXT});
    json_t *answer = answer_to(line, "");
    const json_t *logprobs = json_object_get(answer, "logprobs");
    bool wants[CONTEXT], greedy = true;
    double sum = 0;
    uint64_t hash = FNV_START;
    char text[FNV_HEX];
    for (int i = 0; i < n - 1; i++)
        wants[i] = i >= prompt - 1;
    test_eval(&o, &(limpid_batch){.n = n - 1, .tokens = ids, .wants_logits = wants});
    CHECK_INT((int)json_array_size(logprobs), n - prompt);
    for (int i = prompt; i < n; i++) {
        const float *logits = limpid_logits(o.context, i - prompt);
        double wanted = logprob_of(logits, o.info.vocab_size, ids[i]);
        CHECK_NEAR(json_number_value(json_array_get(logprobs, (size_t)(i - prompt))), wanted, 1e-5);
        sum += wanted;
        for (int t = 0; t < o.info.vocab_size; t++)
            greedy = greedy && logits[t] <= logits[ids[i]];
        hash = fnv1a(hash, logits, (size_t)o.info.vocab_size * sizeof *logits);
    }
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    CHECK_NEAR(json_number_value(json_object_get(answer, "logprob")), sum, 1e-4);
    CHECK_STRING(json_string_value(json_object_get(answer, "logits_hash")), text);
    CHECK_INT(json_is_true(json_object_get(answer, "greedy")), greedy);
    CHECK_INT((int)json_integer_value(json_object_get(answer, "prompt_tokens")), prompt);
    json_decref(answer);
    test_opened_close(&o);
}

Test(prompts, a_continuation_is_scored_token_by_token) {
    int32_t ids[CONTEXT];
    Opened o = test_opened(NULL);
    int n = limpid_tokenize(o.model, "Once upon a time there was", 26, LIMPID_BEGIN, ids, CONTEXT,
                            NULL);
    int prompt = limpid_tokenize(o.model, "Once upon a", 11, LIMPID_BEGIN, o.ids, CONTEXT, NULL);
    CHECK(n > prompt && !memcmp(ids, o.ids, (size_t)prompt * sizeof *ids), "the test's own texts");
    check_score("{\"prompt\":\"Once upon a\",\"continuation\":\" time there was\"}", ids, prompt,
                n);
    test_opened_close(&o);
}

// More rows of logits than a pass has room for, and the end of the context.
Test(prompts, a_continuation_may_fill_the_context_and_one_token_more) {
    int32_t ids[CONTEXT + 1];
    char *line = NULL;
    size_t size = 0;
    FILE *text = open_memstream(&line, &size);
    fprintf(text, "{\"prompt_ids\":[1,403],\"continuation_ids\":[");
    for (int i = 0; i < CONTEXT + 1; i++) {
        ids[i] = i == 0 ? 1 : i == 1 ? 403 : 260 + i * 7 % 1500;
        if (i > 1) fprintf(text, "%s%d", i > 2 ? "," : "", ids[i]);
    }
    fprintf(text, "]}");
    fclose(text);
    check_score(line, ids, 2, CONTEXT + 1);
    free(line);
}

Test(prompts, a_continuation_that_the_tokenizer_joins_with_the_prompt_is_scored_from_there) {
    json_t *answer = answer_to("{\"prompt\":\"Once upon a ti\",\"continuation\":\"me\"}", "");
    int32_t ids[16];
    Opened o = test_opened(NULL);
    int n = limpid_tokenize(o.model, "Once upon a time", 16, LIMPID_BEGIN, ids, 16, NULL);
    const json_t *scored = json_object_get(answer, "ids");
    CHECK_INT((int)json_array_size(scored), 1);
    CHECK_INT((int)json_integer_value(json_array_get(scored, 0)), ids[n - 1]);
    json_decref(answer);
    test_opened_close(&o);
}

// ---- options ----

Test(prompts, options_that_do_not_go_together_are_refused) {
    TestRun run = program("generate|--prompts|x");
    check_refused(&run, 2, "--prompts FILE wants --out FILE");
    run = program("generate|--out|x");
    check_refused(&run, 2, "--out goes with --prompts");
    run = program("generate|--prompts|-|--out|-");
    check_refused(&run, 2, "-: a file is written here, not standard output");
    run = program("generate|--prompts|x|--out|y|-i|z");
    check_refused(&run, 2, "--prompts does not go with --prompt");
    run = program("generate|--prompts|x|--out|y|--resume|--force");
    check_refused(&run, 2, "give one of them");
    run = program("generate|--prompts|%s|--out|y", test_temporary("absent"));
    check_refused(&run, 4, "absent: cannot open it: No such file");
    run = program("generate|--prompts|/|--out|y");
    check_refused(&run, 4, "/: cannot read it: Is a directory");
}

// --force replaces answers once the run can begin, not before.
Test(prompts, old_answers_stay_where_the_model_cannot_run) {
    char prompts[300];
    size_t before, after;
    snprintf(prompts, sizeof prompts, "%s", test_temporary("before"));
    write_prompts(prompts, 2, 1);
    const char *out = answered(prompts, "stay", 2);
    char *old = test_read_file(out, &before);
    setenv("LIMPID_ISA", "none", 1);
    TestRun run = program("generate|%s|--prompts|%s|--out|%s|--force", small_model(), prompts, out);
    check_refused(&run, 6, "LIMPID_ISA=none");
    unsetenv("LIMPID_ISA");
    const char *fresh = test_temporary("fresh.jsonl");
    setenv("LIMPID_ISA", "none", 1);
    run = program("generate|%s|--prompts|%s|--out|%s", small_model(), prompts, fresh);
    check_refused(&run, 6, "LIMPID_ISA=none");
    unsetenv("LIMPID_ISA");
    CHECK(access(fresh, F_OK), "an empty file is left");
    char *there = test_read_file(out, &after);
    CHECK(before == after && before && !memcmp(old, there, before), "%zu bytes, %zu", before,
          after);
    free(old);
    free(there);
}

Test(prompts, the_prompts_and_the_model_are_never_written_over) {
    char prompts[300];
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    write_prompts(prompts, 2, 1);
    TestRun run =
        program("generate|%s|--prompts|%s|--out|%s|--force", small_model(), prompts, prompts);
    check_refused(&run, 2, "is read by this run");
    run =
        program("generate|%s|--prompts|%s|--out|%s|--force", small_model(), prompts, small_model());
    check_refused(&run, 2, "is read by this run");
    run = program("generate|%s|--prompts|%s|--out|%s", small_model(), prompts,
                  answered(prompts, "out", 2));
    check_refused(&run, 2, "is there already");
}

Test(prompts, a_context_that_the_model_does_not_have_is_refused) {
    char prompts[300];
    snprintf(prompts, sizeof prompts, "%s", test_temporary("prompts"));
    write_prompts(prompts, 2, 1);
    TestRun run = program("generate|%s|--prompts|%s|--out|%s|--parallel|1024|-c|4194304",
                          small_model(), prompts, test_temporary("out"));
    check_refused(&run, 2, "context");
}
