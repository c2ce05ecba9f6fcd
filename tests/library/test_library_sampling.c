// What limpid_sampling asks for, on logits worked out by hand, and texts under a grammar: parsed by
// jansson, compared with generate. Every argument that is wrong is an error, not a fault.
#include "tests/support/opened.h"
#include "tests/support/program.h"

#include <jansson.h>
#include <math.h>

enum { DRAWS = 200 };

// A sampler and a row of logits in which all tokens but those below 8 are impossible.
typedef struct Scene {
    Opened o;
    limpid_sampler *sampler;
    float *logits;
} Scene;

static Scene scene_open(limpid_sampling sampling, const float *eight) {
    limpid_error error = {0};
    Scene s = {.o = test_opened(&(limpid_options){.context = 64})};
    s.sampler = limpid_sampler_open(s.o.context, &sampling, &error);
    CHECK(s.sampler, "%s", error.message);
    s.logits = malloc((size_t)s.o.info.vocab_size * sizeof *s.logits);
    for (int i = 0; i < s.o.info.vocab_size; i++)
        s.logits[i] = i < 8 ? eight[i] : -INFINITY;
    return s;
}

static void scene_close(Scene *s) {
    limpid_sampler_close(s->sampler);
    free(s->logits);
    test_opened_close(&s->o);
}

static int draw(const Scene *s) {
    limpid_error error = {0};
    int id = limpid_sample(s->sampler, s->logits, &error);
    CHECK(id >= 0, "%s", error.message);
    return id;
}

static void accept(const Scene *s, int32_t id) {
    limpid_error error = {0};
    CHECK(limpid_sampler_accept(s->sampler, id, &error), "%s", error.message);
}

// ---- by hand ----

Test(library_sampling, a_bias_is_added_and_minus_infinity_forbids) {
    static const limpid_bias BIASES[] = {{2, 3}, {4, -INFINITY}};
    Scene s = scene_open((limpid_sampling){.biases = BIASES, .n_biases = 2},
                         (const float[]){0, 1, 0, 2.5f, 9, 0, 0, 0});
    CHECK_INT(draw(&s), 2); // 0 + 3 over 2.5; 9 may not come
    scene_close(&s);
}

// 0.5, 0.3 and 0.2: of those with 0.25 or more the last one stays, and what is below.
Test(library_sampling, xtc_excludes_all_but_the_last_of_the_top_choices) {
    Scene s = scene_open(
        (limpid_sampling){
            .temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.25f, .seed = 3},
        (const float[]){logf(0.5f), logf(0.3f), logf(0.2f), -INFINITY, -INFINITY, -INFINITY,
                        -INFINITY, -INFINITY});
    int count[3] = {0};
    for (int i = 0; i < DRAWS; i++)
        count[draw(&s)]++;
    CHECK_INT(count[0], 0);
    CHECK(count[1] > DRAWS / 2 && count[2] > DRAWS / 5, "%d and %d", count[1], count[2]);
    scene_close(&s);
}

// After 1 2 3 1 2 another 3 makes a repetition of two tokens one longer: it loses 1 * 2^(2 - 2).
// Behind a breaker, the token that " the" is, there is no repetition.
Test(library_sampling, dry_punishes_what_would_repeat) {
    static const char *const BREAKERS[] = {" the"};
    int32_t the; // with its space, which the vocabulary puts in front
    limpid_sampling sampling = {.dry_multiplier = 1, .dry_base = 2, .dry_allowed_length = 2};
    Scene s = scene_open(sampling, (const float[]){0, 0, 0, 1, 0.5f, 0, 0, 0});
    for (int i = 0; i < 5; i++)
        accept(&s, 1 + i % 3);
    CHECK_INT(draw(&s), 4);
    CHECK(limpid_sampler_forget(s.sampler, 1));
    CHECK_INT(draw(&s), 3); // the newest is 1: what followed it was 2
    scene_close(&s);
    sampling.dry_breakers = BREAKERS;
    sampling.n_dry_breakers = 1;
    s = scene_open(sampling, (const float[]){0, 0, 0, 1, 0.5f, 0, 0, 0});
    CHECK_INT(limpid_tokenize(s.o.model, "the", 3, 0, &the, 1, NULL), 1);
    for (int i = 0; i < 2; i++)
        accept(&s, 1), accept(&s, the), accept(&s, 3);
    CHECK(limpid_sampler_forget(s.sampler, 1));
    CHECK_INT(draw(&s), 3);
    scene_close(&s);
}

// tau near 0: mu is at most the surprise of the likeliest, which alone stays.
Test(library_sampling, mirostat_with_no_surprise_is_greedy) {
    Scene s = scene_open((limpid_sampling){.temperature = 1, .mirostat_tau = 0.001f, .seed = 1},
                         (const float[]){1, 2, 1.9f, 1, 1, 1, 1, 1});
    for (int i = 0; i < DRAWS; i++)
        CHECK_INT(draw(&s), 1);
    scene_close(&s);
}

// Two tokens alike: a number below a half is the first. Then the generator's own come.
Test(library_sampling, numbers_take_the_place_of_the_generators) {
    static const float NUMBERS[] = {0.4f, 0.6f, 0, 0.99f};
    static const float EIGHT[] = {1,         1,         -INFINITY, -INFINITY,
                                  -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    limpid_sampling sampling = {.temperature = 1, .seed = 6};
    float own[6];
    Scene s = scene_open(sampling, EIGHT);
    CHECK(limpid_sampler_number(s.sampler) == 0);
    for (int i = 0; i < 6; i++) {
        int id = draw(&s);
        own[i] = limpid_sampler_number(s.sampler);
        CHECK_INT(id, own[i] >= 0.5f);
    }
    scene_close(&s);
    sampling.numbers = NUMBERS;
    sampling.n_numbers = 4;
    s = scene_open(sampling, EIGHT);
    for (int i = 0; i < 6; i++) {
        CHECK_INT(draw(&s), i < 4 ? NUMBERS[i] >= 0.5f : own[i] >= 0.5f);
        CHECK(limpid_sampler_number(s.sampler) == (i < 4 ? NUMBERS[i] : own[i]), "%d", i);
    }
    scene_close(&s);
}

// ---- grammars ----

static const char PERSON[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":2,"
    "\"maxLength\":12},\"age\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":123}},"
    "\"required\":[\"name\",\"age\"]}";

static limpid_grammar *grammar_open(limpid_model *model, int flags, const char *text) {
    limpid_error error = {0};
    limpid_grammar *grammar = limpid_grammar_open(model, flags, text, strlen(text), &error);
    CHECK(grammar, "%s", error.message);
    return grammar;
}

// A text behind the prompt, terminated, up to where the grammar or the model ends it.
static void write_text(Opened *o, limpid_sampler *sampler, char *text, size_t size) {
    limpid_error error = {0};
    size_t length = 0;
    CHECK(limpid_truncate(o->context, 0, 0));
    test_eval(o, &(limpid_batch){.n = o->n, .tokens = o->ids});
    CHECK(limpid_sampler_begin(sampler, o->ids, (size_t)o->n, 0, &error), "%s", error.message);
    while (limpid_sampler_ending(sampler, &error) != LIMPID_MUST_END) {
        int32_t id = limpid_sample(sampler, limpid_logits(o->context, 0), &error);
        CHECK(id >= 0 && length + 64 < size, "%s", error.message);
        bool good = limpid_sampler_accept(sampler, id, &error);
        CHECK(good, "%s", error.message);
        if (limpid_ends(o->model, id)) break;
        length += (size_t)limpid_detokenize(o->model, &id, 1, 0, text + length, 64, &error);
        test_eval(o, &(limpid_batch){.n = 1, .tokens = &id});
    }
    CHECK(limpid_sampler_ending(sampler, &error) != LIMPID_GOES_ON);
    text[length] = '\0';
}

// Several texts of one sampler, which goes on with its numbers; the first is that of generate.
Test(library_sampling, a_schema_is_followed_text_after_text_and_as_generate_does) {
    char text[1000], wanted[4000];
    const char *path = test_temporary("person.json");
    test_write_file(path, PERSON, strlen(PERSON));
    Opened o = test_opened(&(limpid_options){.context = 256});
    limpid_grammar *grammar = grammar_open(o.model, LIMPID_JSON_SCHEMA, PERSON);
    limpid_sampling sampling = {.temperature = 1.5f, .seed = 4, .grammar = grammar};
    limpid_sampler *sampler = limpid_sampler_open(o.context, &sampling, NULL);
    for (int i = 0; i < 20; i++) {
        write_text(&o, sampler, text, sizeof text);
        const char *name;
        int age;
        json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        CHECK(value && !json_unpack(value, "{s:s,s:i!}", "name", &name, "age", &age), "%s", text);
        CHECK(age >= 7 && age <= 123 && strlen(name) >= 2, "%s", text);
        json_decref(value);
        if (i) continue;
        TestRun run = program("%s|-i|%s|--json-schema|%s|-t|1.5|-p|1|-s|4|-q|--json", small_model(),
                              TEST_PROMPT, path);
        json_t *root = json_loads(run.out, 0, NULL);
        CHECK_STRING(json_string_value(json_object_get(root, "text")), text);
        CHECK_STRING(json_value(wanted, run.out, "stop"), "\"grammar\"");
        json_decref(root);
        test_run_free(&run);
    }
    limpid_sampler_close(sampler);
    limpid_grammar_close(grammar);
    test_opened_close(&o);
}

// With a bound of n tokens the text is complete after n at most, and with enough of them it is the
// text without a bound. A bound below the shortest text changes nothing.
Test(library_sampling, a_text_is_complete_within_a_bound) {
    static const char GRAMMAR[] = "root ::= \"(\" (\"a\" | root){1,3} \")\"";
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = 64});
    limpid_grammar *grammar = grammar_open(o.model, LIMPID_GBNF, GRAMMAR);
    float *logits = calloc((size_t)o.info.vocab_size, sizeof *logits);
    int bounded = 0;
    for (int seed = 0; seed < 300; seed++) {
        limpid_sampling sampling = {.temperature = 1, .seed = (uint64_t)seed, .grammar = grammar};
        limpid_sampler *s = limpid_sampler_open(o.context, &sampling, NULL);
        int most = 3 + seed % 12, n = 0, ending = LIMPID_GOES_ON;
        CHECK(limpid_sampler_within(s, (size_t)most));
        for (; n < most && ending != LIMPID_MUST_END; n++) {
            int32_t id = limpid_sample(s, logits, &error);
            CHECK(id >= 0, "%s", error.message);
            CHECK(limpid_sampler_accept(s, id, &error), "%s", error.message);
            ending = limpid_sampler_ending(s, &error);
        }
        CHECK_INT(ending, LIMPID_MUST_END);
        bounded += n == most;
        limpid_sampler_close(s);
    }
    CHECK(bounded > 20, "%d texts reached their bound", bounded);
    CHECK(!limpid_sampler_within(NULL, 1));
    free(logits);
    limpid_grammar_close(grammar);
    test_opened_close(&o);
}

static int32_t token_of(const Opened *o, char c) {
    char text[8];
    int32_t id = 0;
    while (limpid_detokenize(o->model, &id, 1, 0, text, sizeof text, NULL) != 1 || text[0] != c)
        CHECK(++id < o->info.vocab_size, "no token \"%c\"", c);
    return id;
}

typedef struct Bounded {
    Opened opened;
    limpid_grammar *grammar;
    limpid_sampler *sampler;
    float *logits;
} Bounded;

static Bounded bounded_open(const char *grammar, limpid_sampling sampling) {
    Bounded b = {.opened = test_opened(&(limpid_options){.context = 64})};
    b.grammar = grammar_open(b.opened.model, LIMPID_GBNF, grammar);
    b.logits = calloc((size_t)b.opened.info.vocab_size, sizeof *b.logits);
    sampling.grammar = b.grammar;
    b.sampler = limpid_sampler_open(b.opened.context, &sampling, NULL);
    return b;
}

static void bounded_close(Bounded *b) {
    free(b->logits);
    limpid_sampler_close(b->sampler);
    limpid_grammar_close(b->grammar);
    test_opened_close(&b->opened);
}

// A bound may be changed for the token that was sampled last.
Test(library_sampling, a_wider_bound_allows_more) {
    limpid_error error = {0};
    Bounded b = bounded_open("root ::= \"a\" | \"q\" \"x\"{9}", (limpid_sampling){0});
    int32_t q = token_of(&b.opened, 'q');
    b.logits[q] = 9;
    CHECK(limpid_sampler_within(b.sampler, 1));
    CHECK(limpid_sample(b.sampler, b.logits, &error) != q, "%s", error.message);
    CHECK(limpid_sampler_within(b.sampler, 60));
    CHECK_INT(limpid_sample(b.sampler, b.logits, &error), q);
    bounded_close(&b);
}

// The tokens that the bound leaves are banned, one after the other; when none is left the text goes
// on without its bound.
Test(library_sampling, a_bound_is_no_reason_for_an_error) {
    limpid_error error = {0};
    Bounded b = bounded_open("root ::= \"a\" | \"q\" \"x\"{9}", (limpid_sampling){0});
    limpid_bias bans[8];
    limpid_sampling sampling = {.grammar = b.grammar, .biases = bans};
    int32_t q = token_of(&b.opened, 'q'), id = -1;
    b.logits[q] = 9;
    for (; id != q; sampling.n_biases++) {
        limpid_sampler *s = limpid_sampler_open(b.opened.context, &sampling, &error);
        CHECK(limpid_sampler_within(s, 1));
        id = limpid_sample(s, b.logits, &error);
        CHECK(id >= 0 && sampling.n_biases < 8, "%d bans: %s", (int)sampling.n_biases,
              error.message);
        bans[sampling.n_biases] = (limpid_bias){id, -INFINITY};
        CHECK_INT(limpid_sample(s, b.logits, &error), id);
        limpid_sampler_close(s);
    }
    CHECK(sampling.n_biases > 1, "no token was banned");
    bounded_close(&b);
}

// Ctrl-C while a mask is narrowed fails that call alone.
Test(library_sampling, a_bound_survives_an_interruption) {
    int stop = 0;
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = 64, .stop = &stop});
    limpid_grammar *grammar = grammar_open(o.model, LIMPID_GBNF, "root ::= \"a\" | \"q\" [x-z]{9}");
    float *logits = calloc((size_t)o.info.vocab_size, sizeof *logits);
    limpid_sampler *s =
        limpid_sampler_open(o.context, &(limpid_sampling){.grammar = grammar}, &error);
    logits[token_of(&o, 'q')] = 9;
    CHECK(limpid_sampler_within(s, 60));
    CHECK(limpid_sample(s, logits, &error) >= 0, "%s", error.message); // the mask is there
    for (int round = 0; round < 3; round++) {
        int32_t id;
        stop = round % 2 == 0;
        CHECK(limpid_sampler_begin(s, NULL, 0, 0, &error) && limpid_sampler_within(s, 1));
        id = limpid_sample(s, logits, &error);
        CHECK(stop ? id == -1 && error.code == 130 : id >= 0, "%d: %s", id, error.message);
    }
    free(logits);
    limpid_sampler_close(s);
    limpid_grammar_close(grammar);
    test_opened_close(&o);
}

// The call that was stopped takes no random number: the text of a seed is the same.
Test(library_sampling, an_interruption_takes_no_number) {
    int stop = 0;
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = 64, .stop = &stop});
    limpid_grammar *grammar = grammar_open(
        o.model, LIMPID_GBNF, "root ::= \"{\" [a-z]{1,30} (\",\" [a-z ]{1,90}){0,50} \"}\"");
    float *logits = calloc((size_t)o.info.vocab_size, sizeof *logits);
    limpid_sampling sampling = {.temperature = 1, .seed = 5, .grammar = grammar};
    limpid_sampler *broken = limpid_sampler_open(o.context, &sampling, &error);
    limpid_sampler *whole = limpid_sampler_open(o.context, &sampling, &error);
    int stopped = 0; // a call that needs no new mask is not
    CHECK(limpid_sampler_within(broken, 40) && limpid_sampler_within(whole, 40));
    for (int i = 0; i < 20; i++) {
        float before = limpid_sampler_number(whole);
        stop = 1;
        int32_t id = limpid_sample(broken, logits, &error), same;
        stop = 0;
        if (id < 0) {
            CHECK(error.code == 130, "%s", error.message);
            CHECK(limpid_sampler_number(broken) == before, "token %d", i);
            error = (limpid_error){0};
            stopped++;
            id = limpid_sample(broken, logits, &error);
        }
        same = limpid_sample(whole, logits, &error);
        CHECK_INT(same, id);
        CHECK(id >= 0 && limpid_sampler_accept(whole, id, &error) &&
                  limpid_sampler_accept(broken, id, &error),
              "%s", error.message);
    }
    CHECK(stopped >= 10, "%d", stopped);
    free(logits);
    limpid_sampler_close(whole);
    limpid_sampler_close(broken);
    limpid_grammar_close(grammar);
    test_opened_close(&o);
}

Test(library_sampling, the_largest_bound_is_none) {
    limpid_error error = {0};
    Bounded b = bounded_open("root ::= \"a\" \"b\" (\"!\" | \"q\" \"x\"{9})", (limpid_sampling){0});
    int32_t q = token_of(&b.opened, 'q');
    CHECK(limpid_sampler_accept(b.sampler, token_of(&b.opened, 'a'), &error));
    CHECK(limpid_sampler_accept(b.sampler, token_of(&b.opened, 'b'), &error));
    b.logits[q] = 9;
    CHECK(limpid_sampler_within(b.sampler, SIZE_MAX));
    CHECK_INT(limpid_sample(b.sampler, b.logits, &error), q);
    bounded_close(&b);
}

// What is left when a bound forbids the third of three tokens keeps its proportions, since a
// refused token is sampled anew with another number: of 2,000 draws half, within four standard
// deviations.
Test(library_sampling, a_bound_keeps_the_proportions) {
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = 64});
    limpid_grammar *grammar =
        grammar_open(o.model, LIMPID_GBNF, "root ::= \"a\" | \"b\" | \"q\" \"x\"{9}");
    float *logits = calloc((size_t)o.info.vocab_size, sizeof *logits);
    limpid_sampling sampling = {.temperature = 1, .seed = 1, .grammar = grammar};
    limpid_sampler *s = limpid_sampler_open(o.context, &sampling, NULL);
    int counts[128] = {0};
    for (int i = 0; i < 4000; i++) {
        char text[8] = "";
        CHECK(limpid_sampler_begin(s, NULL, 0, 0, &error), "%s", error.message);
        CHECK(limpid_sampler_within(s, i % 2 ? 1 : 0));
        int32_t id = limpid_sample(s, logits, &error);
        CHECK(id >= 0, "%s", error.message);
        limpid_detokenize(o.model, &id, 1, 0, text, sizeof text, &error);
        if (i % 2) counts[(unsigned char)text[0] % 128]++;
    }
    CHECK_INT(counts['q'], 0);
    CHECK_INT(counts['a'] + counts['b'], 2000);
    CHECK(abs(counts['a'] - 1000) < 90, "a: %d", counts['a']);
    free(logits);
    limpid_sampler_close(s);
    limpid_grammar_close(grammar);
    test_opened_close(&o);
}

// Every token of the text is taken back once and given again; two samplers share the grammar.
Test(library_sampling, what_is_taken_back_is_forgotten_by_the_grammar) {
    static const char GRAMMAR[] = "root ::= \"one\" (\", \" (\"two\" | \"three\")){2} \".\"";
    char text[200];
    int32_t ids[32];
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = 64});
    limpid_grammar *grammar = grammar_open(o.model, LIMPID_GBNF, GRAMMAR);
    limpid_sampling sampling = {.grammar = grammar};
    limpid_sampler *writer = limpid_sampler_open(o.context, &sampling, NULL);
    limpid_sampler *reader = limpid_sampler_open(o.context, &sampling, NULL);
    write_text(&o, writer, text, sizeof text);
    int n = limpid_tokenize(o.model, text, strlen(text), 0, ids, 32, &error);
    CHECK(n > 5 && n < 32, "%s", text);
    CHECK(limpid_sampler_begin(reader, NULL, 0, LIMPID_BEGIN, &error));
    for (int i = 0; i < n; i++) {
        CHECK_INT(limpid_sampler_ending(reader, &error), LIMPID_GOES_ON);
        CHECK(limpid_sampler_accept(reader, ids[i], &error), "%d: %s", i, error.message);
        CHECK(!limpid_sampler_accept(reader, ids[0], NULL), "a second beginning");
        CHECK(limpid_sampler_forget(reader, (size_t)i + 1));
        CHECK(!limpid_sampler_forget(reader, 1));
        for (int j = 0; j <= i; j++)
            CHECK(limpid_sampler_accept(reader, ids[j], &error), "%d: %s", j, error.message);
    }
    CHECK_INT(limpid_sampler_ending(reader, &error), LIMPID_MUST_END);
    limpid_sampler_close(reader);
    limpid_sampler_close(writer);
    limpid_grammar_close(grammar);
    test_opened_close(&o);
}

// An end of the text is a token of limpid_ends; without these there is none to sample.
Test(library_sampling, ends_are_allowed_where_the_grammar_is_complete) {
    limpid_error error = {0};
    Opened o = test_opened(&(limpid_options){.context = 64});
    int32_t a;
    CHECK_INT(limpid_tokenize(o.model, "a", 1, 0, &a, 1, NULL), 1);
    for (int endless = 0; endless < 2; endless++) {
        limpid_grammar *grammar =
            grammar_open(o.model, LIMPID_GBNF | (endless ? LIMPID_ENDLESS : 0), "root ::= \" a\"+");
        limpid_grammar *once =
            grammar_open(o.model, LIMPID_GBNF | (endless ? LIMPID_ENDLESS : 0), "root ::= \" a\"");
        limpid_sampler *more =
            limpid_sampler_open(o.context, &(limpid_sampling){.grammar = grammar}, NULL);
        limpid_sampler *one =
            limpid_sampler_open(o.context, &(limpid_sampling){.grammar = once}, NULL);
        test_eval(&o, &(limpid_batch){.n = 1, .tokens = o.ids});
        const float *logits = limpid_logits(o.context, 0);
        CHECK_INT(limpid_sampler_ending(one, &error), LIMPID_GOES_ON);
        CHECK_INT(limpid_sample(one, logits, &error), a);
        CHECK(limpid_sampler_accept(one, a, &error) && limpid_sampler_accept(more, a, &error));
        CHECK_INT(limpid_sampler_ending(one, &error), LIMPID_MUST_END);
        CHECK_INT(limpid_sampler_ending(more, &error), LIMPID_MAY_END);
        int32_t end = limpid_sample(one, logits, &error);
        CHECK(endless ? end == -1 && error.code == 2 : limpid_ends(o.model, end), "%d", (int)end);
        if (!endless) CHECK(limpid_sampler_accept(one, end, NULL));
        limpid_sampler_close(one);
        limpid_sampler_close(more);
        limpid_grammar_close(once);
        limpid_grammar_close(grammar);
    }
    test_opened_close(&o);
}

// ---- what is refused ----

static void check_error(bool refused, const limpid_error *error, int code, const char *because) {
    CHECK(refused, "%s", because);
    CHECK_INT(error->code, code);
    CHECK(strstr(error->message, because), "\"%s\" without \"%s\"", error->message, because);
}

Test(library_sampling, a_grammar_that_cannot_be_is_refused) {
    static const struct {
        int flags;
        const char *text;
        int code;
        const char *because;
    } ROWS[] = {
        {LIMPID_GBNF, "root ::= \"a\"\nx ::= (", 3, "line 2: a group without its closing )"},
        {LIMPID_GBNF, "", 3, "root"},
        {LIMPID_JSON_SCHEMA, "{\"not\":{}}", 3, "the keyword \"not\" is not supported"},
        {0, "root ::= \"a\"", 2, "flags: got 0"},
        {3, "root ::= \"a\"", 2, "flags: got 3"},
        {LIMPID_ENDLESS, "root ::= \"a\"", 2, "flags: got 4"},
        {9, "root ::= \"a\"", 2, "flags: got 9"},
        {LIMPID_GBNF, NULL, 2, "there is no text"}};
    Opened o = test_opened(NULL), other = test_opened(NULL);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        limpid_error error = {0};
        size_t length = ROWS[i].text ? strlen(ROWS[i].text) : 12;
        limpid_grammar *g =
            limpid_grammar_open(o.model, ROWS[i].flags, ROWS[i].text, length, &error);
        check_error(!g, &error, ROWS[i].code, ROWS[i].because);
        CHECK(!limpid_grammar_open(o.model, ROWS[i].flags, ROWS[i].text, length, NULL));
    }
    limpid_error error = {0};
    check_error(!limpid_grammar_open(o.model, LIMPID_GBNF, "x", SIZE_MAX, &error), &error, 3,
                "at most 1048576");
    error = (limpid_error){0};
    limpid_grammar *grammar = grammar_open(other.model, LIMPID_GBNF, "root ::= \"a\"");
    check_error(!limpid_sampler_open(o.context, &(limpid_sampling){.grammar = grammar}, &error),
                &error, 2, "another model");
    limpid_grammar_close(grammar);
    test_opened_close(&other);
    test_opened_close(&o);
}

Test(library_sampling, what_is_out_of_range_is_refused) {
    static const limpid_bias NONE[] = {{-1, 0}}, MANY[] = {{1 << 30, 0}}, ODD[] = {{1, NAN}};
    static const char *const NULLS[] = {"\n", NULL};
    static const float ONE[] = {0.5f, 1}, UNKNOWN[] = {NAN};
    static const struct {
        limpid_sampling sampling;
        const char *because;
    } ROWS[] = {
        {{.biases = NONE, .n_biases = 1}, "token 0 to "},
        {{.biases = MANY, .n_biases = 1}, "token 0 to "},
        {{.biases = ODD, .n_biases = 1}, "logit-bias"},
        {{.n_biases = 3}, "biases: got NULL"},
        {{.biases = NONE, .n_biases = SIZE_MAX}, "n_biases: got"},
        {{.dry_multiplier = 1, .dry_base = 1.75f, .dry_breakers = NULLS, .n_dry_breakers = 2},
         "dry_breakers: number 1 is NULL"},
        {{.dry_breakers = NULLS, .n_dry_breakers = SIZE_MAX}, "n_dry_breakers: got"},
        {{.dry_multiplier = 1}, "dry-base: wanted 1 to 1000, got 0"},
        {{.dry_multiplier = NAN, .dry_base = 1.75f}, "dry-multiplier"},
        {{.dry_allowed_length = -1}, "dry-allowed-length"},
        {{.dry_last = -1}, "dry_last"},
        {{.numbers = ONE, .n_numbers = 2}, "numbers: got 1, wanted 0 to below 1"},
        {{.numbers = UNKNOWN, .n_numbers = 1}, "numbers: got"},
        {{.n_numbers = 1}, "numbers: got NULL"},
        {{.xtc_probability = 2}, "xtc-probability"},
        {{.xtc_probability = 1, .xtc_threshold = -1}, "xtc-threshold"},
        {{.mirostat_tau = -1}, "mirostat-tau"},
        {{.mirostat_tau = 5, .mirostat_eta = 11}, "mirostat-eta"},
        {{.top_p = NAN}, "top-p"},
    };
    Opened o = test_opened(NULL);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        limpid_error error = {0};
        check_error(!limpid_sampler_open(o.context, &ROWS[i].sampling, &error), &error, 2,
                    ROWS[i].because);
    }
    limpid_error error = {0};
    check_error(!limpid_context_open(o.model, &(limpid_options){.pattern = "near:3"}, &error),
                &error, 2, "near:3");
    test_opened_close(&o);
}

// A wrong number is told before breakers are looked for, which need a tokenizer.
Test(library_sampling, a_number_out_of_range_comes_before_a_missing_tokenizer) {
    limpid_error error = {0};
    limpid_model *model = limpid_open(test_reference_model("gpt2"), NULL, &error);
    if (!model && strstr(error.message, "it has no JSON")) SKIP("this build reads no config.json");
    limpid_context *c = limpid_context_open(model, &(limpid_options){.threads = 1}, &error);
    CHECK(c, "%s", error.message);
    limpid_sampling sampling = {.dry_multiplier = -1};
    check_error(!limpid_sampler_open(c, &sampling, &error), &error, 2, "dry-multiplier: wanted");
    error = (limpid_error){0};
    sampling = (limpid_sampling){.dry_multiplier = 1, .dry_base = 1.75f};
    check_error(!limpid_sampler_open(c, &sampling, &error), &error, 3, "sequence breakers");
    limpid_context_close(c);
    limpid_close(model);
}

Test(library_sampling, a_text_is_not_begun_with_what_is_no_token) {
    limpid_error error = {0};
    Opened o = test_opened(NULL);
    limpid_sampler *s = limpid_sampler_open(o.context, NULL, NULL);
    int32_t ids[] = {1, o.info.vocab_size};
    check_error(!limpid_sampler_begin(s, ids, 2, 0, &error), &error, 2, "vocabulary size");
    check_error(!limpid_sampler_forget(s, 1), &(limpid_error){.code = 2}, 2, "");
    error = (limpid_error){0};
    check_error(!limpid_sampler_begin(s, NULL, 2, 0, &error), &error, 2, "prompt: got NULL");
    error = (limpid_error){0};
    check_error(!limpid_sampler_begin(s, ids, 1, LIMPID_SPECIAL, &error), &error, 2, "flags");
    CHECK_INT(limpid_sampler_ending(s, NULL), LIMPID_MAY_END);
    limpid_sampler_close(s);
    limpid_sampler_close(NULL);
    limpid_grammar_close(NULL);
    test_opened_close(&o);
}
