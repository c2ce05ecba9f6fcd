// generate and chat with --grammar and --json-schema, as child processes: what they print always is
// what the grammar allows, whoever reads it.
#include "tests/support/faults.h"
#include "tests/support/program.h"

#include <jansson.h>

// Every text of it ends: no loop is without a bound.
static const char JSON[] =
    "root ::= object\n"
    "object ::= \"{\" ws string \":\" ws value (\",\" ws string \":\" ws value){0,3} \"}\"\n"
    "value ::= string | number | \"true\" | \"false\" | \"null\" | array\n"
    "array ::= \"[\" ws (item (\",\" ws item){0,2})? \"]\"\n"
    "item ::= string | number | \"{\" ws string \":\" ws number \"}\"\n"
    "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\nt]){0,12} \"\\\"\"\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,9}) (\".\" [0-9]{1,5})?\n"
    "ws ::= \" \"{0,2}\n";

static const char *grammar_file(const char *name, const char *text) {
    const char *path = test_temporary(name);
    test_write_file(path, text, strlen(text));
    return path;
}

// The text of --json's object, and why it ended.
static json_t *text_of(TestRun *run, const char *stop) {
    check_status(run, 0);
    json_t *root = json_loadb(run->out, run->out_size, JSON_REJECT_DUPLICATES, NULL);
    CHECK(root, "%s", run->out);
    CHECK_STRING(json_string_value(json_object_get(root, "stop")), stop);
    json_t *text = json_incref(json_object_get(root, "text"));
    json_decref(root);
    test_run_free(run);
    return text;
}

Test(constrained, two_hundred_seeds_all_parse) {
    const char *path = grammar_file("json.gbnf", JSON);
    size_t longest = 0;
    for (int seed = 0; seed < EMULATED(4, SANITIZED(40, 200)); seed++) {
        TestRun r = program("%s|-i|Once|--grammar|%s|-s|%d|-t|1.5|-p|1|--max-tokens|500|-q|"
                            "--json",
                            small_model(), path, seed);
        json_t *text = text_of(&r, "grammar");
        json_t *value = json_loadb(json_string_value(text), json_string_length(text), 0, NULL);
        CHECK(value, "seed %d: %s", seed, json_string_value(text));
        CHECK(json_is_object(value) && json_object_size(value) >= 1, "seed %d", seed);
        if (json_string_length(text) > longest) longest = json_string_length(text);
        json_decref(value);
        json_decref(text);
    }
    CHECK(longest > 100, "the longest has %zu bytes", longest);
}

// Rules 1,000 deep of repetitions 60 deep: preparing their masks takes no stack, and not long.
Test(constrained, a_grammar_of_deep_repetitions_is_prepared) {
    enum { RULES = 1000, DEEP = 60, SIZE = RULES * (DEEP * 10 + 24) };
    char *text = malloc(SIZE);
    size_t at = (size_t)snprintf(text, SIZE, "root ::= r0\n");
    for (int rule = 0; rule < RULES; rule++) {
        at += (size_t)snprintf(text + at, SIZE - at, "r%d ::= ", rule);
        for (int i = 0; i < DEEP; i++)
            text[at++] = '(';
        at += (size_t)snprintf(text + at, SIZE - at, rule + 1 < RULES ? "r%d" : "\"x\"", rule + 1);
        for (int i = 0; i < DEEP; i++)
            at += (size_t)snprintf(text + at, SIZE - at, " \"x\"){9}");
        text[at++] = '\n';
    }
    text[at] = '\0';
    const char *path = grammar_file("deep.gbnf", text);
    free(text);
    TestRun r = program_shell(test_text("ulimit -s %d; exec $RUN $MODEL -i x --grammar %s "
                                        "--max-tokens 3 -q",
                                        TEST_SANITIZED ? 8192 : 512, path));
    check_status(&r, 0);
    test_run_free(&r);
}

Test(constrained, a_schema_is_followed_greedily_and_sampled) {
    const char *path = grammar_file(
        "person.json", "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
                       "\"minLength\":2,\"maxLength\":12},\"age\":{\"type\":\"integer\","
                       "\"minimum\":7,\"maximum\":123},\"kind\":{\"enum\":[\"cat\",\"dog\"]}},"
                       "\"required\":[\"name\",\"age\",\"kind\"]}");
    for (int seed = 0; seed < EMULATED(2, SANITIZED(10, 30)); seed++) {
        TestRun r = program("%s|-i|A pet:|--json-schema|%s|-s|%d|-t|%d|--max-tokens|300|-q|--json",
                            small_model(), path, seed, seed ? 2 : 0);
        json_t *text = text_of(&r, "grammar"), *name, *kind;
        json_int_t age = 0;
        json_t *value = json_loads(json_string_value(text), JSON_REJECT_DUPLICATES, NULL);
        CHECK(value &&
                  !json_unpack(value, "{s:o,s:I,s:o!}", "name", &name, "age", &age, "kind", &kind),
              "%s", json_string_value(text));
        CHECK(age >= 7 && age <= 123, "%s", json_string_value(text));
        CHECK(!strcmp(json_string_value(kind), "cat") || !strcmp(json_string_value(kind), "dog"));
        CHECK(json_string_length(name) >= 2, "%s", json_string_value(text));
        json_decref(value);
        json_decref(text);
    }
}

// A grammar of any text changes no token: the logits are the model's, and so is the order of the
// random numbers.
Test(constrained, a_grammar_of_every_text_changes_nothing) {
    const char *path = grammar_file("any.gbnf", "root ::= .*");
    for (int seed = 0; seed < 3; seed++) {
        TestRun plain = program("%s|-i|Once upon|-s|%d|--max-tokens|60|-q", small_model(), seed);
        TestRun bound = program("%s|-i|Once upon|-s|%d|--max-tokens|60|-q|--grammar|%s",
                                small_model(), seed, path);
        check_status(&plain, 0);
        check_status(&bound, 0);
        CHECK_STRING(bound.out, plain.out);
        test_run_free(&plain);
        test_run_free(&bound);
    }
}

// A file without a size: a shell's <(command).
Test(constrained, a_grammar_comes_through_a_pipe) {
    TestRun r = program_shell("echo 'root ::= \"ab\"' | $RUN $MODEL -i x --grammar /dev/stdin -q");
    CHECK(r.status == 0, "exit %d: %s", r.status, r.err);
    CHECK_STRING(r.out, "xab\n"); // with the prompt
    test_run_free(&r);
}

// The end of the text is a token too: allowed where the grammar is complete, and forbidden by
// --ignore-eos.
Test(constrained, ends_where_the_grammar_does) {
    const char *path = grammar_file("ab.gbnf", "root ::= \"a\" | \"ab\" \"!\"{0,3}");
    TestRun r = program("%s|-i|Once|--grammar|%s|-t|0|-q|--json|--ignore-eos", small_model(), path);
    json_t *text = text_of(&r, "grammar");
    CHECK(json_string_length(text) <= 5, "%s", json_string_value(text));
    json_decref(text);
    const char *empty = grammar_file("empty.gbnf", "root ::= \"\"");
    r = program("%s|-i|Once|--grammar|%s|-q|--json", small_model(), empty);
    text = text_of(&r, "grammar");
    CHECK_STRING(json_string_value(text), "");
    json_decref(text);
}

// With any number of tokens from the fewest that do: text that says why it ended, and parses.
static void check_within(const char *path, int tokens, int seed, const char *more) {
    TestRun r = program("%s|-i|Once|--grammar|%s|-s|%d|-p|1|--max-tokens|%d|-q|--json%s",
                        small_model(), path, seed, tokens, more);
    check_status(&r, 0);
    CHECK(!strstr(r.err, "incomplete"), "%s", r.err);
    json_t *root = json_loadb(r.out, r.out_size, 0, NULL), *text = json_object_get(root, "text");
    json_t *value = json_loadb(json_string_value(text), json_string_length(text), 0, NULL);
    CHECK(json_is_object(value), "%d tokens, seed %d%s: %s", tokens, seed, more, r.out);
    CHECK(json_array_size(json_object_get(root, "ids")) <= (size_t)tokens, "%s", r.out);
    json_decref(value);
    json_decref(root);
    test_run_free(&r);
}

Test(constrained, few_tokens_make_a_text_that_parses) {
    const char *path = grammar_file("json.gbnf", JSON);
    for (int seed = 0; seed < EMULATED(2, SANITIZED(10, 60)); seed++) {
        check_within(path, 8 + seed, seed, "|-t|1.5");
        check_within(path, 8 + seed, seed, "|-t|1.5|--speculate|lookup|--draft-tokens|3");
        check_within(path, 60, seed,
                     test_text("|-t|1.5|-c|%d", 30 + seed)); // where the context ends
    }
}

// Greedy too, with penalties and with mirostat, whose state a refused token leaves as it was.
Test(constrained, few_tokens_do_whatever_the_sampler) {
    const char *path = grammar_file("json.gbnf", JSON);
    static const char *const SAMPLERS[] = {"|-t|0", "|-t|1|--mirostat|2",
                                           "|-t|1|--repeat-penalty|1.3",
                                           "|-t|1|--xtc-probability|0.5|--xtc-threshold|0.05"};
    for (size_t i = 0; i < sizeof SAMPLERS / sizeof *SAMPLERS; i++)
        for (int tokens = 8; tokens < EMULATED(9, 24); tokens += 3)
            check_within(path, tokens, 1, SAMPLERS[i]);
}

Test(constrained, every_answer_of_a_chat_keeps_to_its_bound) {
    const char *path = grammar_file("json.gbnf", JSON);
    TestRun r =
        program_shell(test_text("printf 'Is it?\\nReally?\\nNow?\\n' | $RUN chat $MODEL "
                                "--template llama2 --grammar %s -s 1 -t 1.5 --max-tokens 11 -q",
                                path));
    check_status(&r, 0);
    const char *line = r.out;
    for (int i = 0; i < 3; i++, line += strcspn(line, "\n") + 1) {
        json_t *value = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        CHECK(json_is_object(value), "answer %d: %s%s", i, r.out, r.err);
        json_decref(value);
    }
    test_run_free(&r);
}

// The answers of a file of prompts are those of generate.
Test(constrained, lines_of_a_file_keep_to_theirs) {
    const char *path = grammar_file("json.gbnf", JSON), *lines = test_temporary("lines.jsonl");
    const char *answers = test_temporary("answers.jsonl");
    char text[1000];
    size_t at = 0;
    for (int i = 0; i < 6; i++)
        at += (size_t)snprintf(
            text + at, sizeof text - at,
            "{\"id\":\"%d\",\"prompt\":\"Once\",\"seed\":%d,\"max_tokens\":%d}\n", i, i, 8 + i);
    test_write_file(lines, text, at);
    TestRun all = program("%s|--prompts|%s|--out|%s|--grammar|%s|-t|1.5|-p|1|-q|-c|64",
                          small_model(), lines, answers, path);
    check_status(&all, 0);
    size_t size;
    char *found = test_read_file(answers, &size);
    int n = 0;
    for (const char *line = found; *line; line += strcspn(line, "\n") + 1) {
        json_t *answer = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        const char *id = json_string_value(json_object_get(answer, "id"));
        if (id) { // else the first line or the last
            TestRun one = program("%s|-i|Once|--grammar|%s|-s|%s|-t|1.5|-p|1|--max-tokens|%d|-q|"
                                  "--json|-c|64",
                                  small_model(), path, id, 8 + atoi(id));
            json_t *alone = json_loadb(one.out, one.out_size, 0, NULL);
            CHECK(json_object_get(alone, "ids") &&
                      json_equal(json_object_get(answer, "ids"), json_object_get(alone, "ids")),
                  "%s%s", found, one.out);
            json_decref(alone);
            test_run_free(&one);
            n++;
        }
        json_decref(answer);
    }
    CHECK_INT(n, 6);
    free(found);
    test_run_free(&all);
}

Test(constrained, a_text_cut_short_is_told) {
    const char *path = grammar_file("long.gbnf", "root ::= \"a\"{100}");
    TestRun r = program("%s|-i|Once|--grammar|%s|-q|--max-tokens|5", small_model(), path);
    check_status(&r, 0);
    CHECK(strstr(r.err, "the text ended (length) before the grammar allows an end: it is "
                        "incomplete; the shortest text of the grammar takes 100 tokens"),
          "%s", r.err);
    test_run_free(&r);
}

// The first token of a text after BOS loses its space, so it is masked by its own bytes.
Test(constrained, the_first_token_of_a_text_has_its_own_bytes) {
    const char *path = grammar_file("word.gbnf", "root ::= [A-Z] [a-z]{2,9}");
    for (int seed = 0; seed < 10; seed++) {
        TestRun r = program("%s|-i||--grammar|%s|-s|%d|-q", small_model(), path, seed);
        check_status(&r, 0);
        CHECK(r.out[0] >= 'A' && r.out[0] <= 'Z' &&
                  strspn(r.out + 1, "abcdefghijklmnopqrstuvwxyz") == r.out_size - 2,
              "\"%s\"", r.out);
        test_run_free(&r);
    }
}

Test(constrained, every_answer_of_a_chat_is_one) {
    const char *path = grammar_file("yes.gbnf", "root ::= (\"yes\" | \"no\") \".\"");
    TestRun r = program_shell(test_text("printf 'Is it?\\nReally?\\nNow?\\n' | $RUN chat $MODEL "
                                        "--template llama2 --grammar %s -s 1 -q",
                                        path));
    check_status(&r, 0);
    const char *line = r.out;
    for (int i = 0; i < 3; i++, line += strcspn(line, "\n") + 1)
        CHECK(!strncmp(line, "yes.\n", 5) || !strncmp(line, "no.\n", 4), "%s", r.out);
    test_run_free(&r);
}

Test(constrained, refuses_in_one_line) {
    const char *bad = grammar_file("bad.gbnf", "root ::= \"a\"\nx ::= (");
    const char *schema = grammar_file("bad.json", "{\"type\":\"string\",\"not\":{}}");
    const char *good = grammar_file("good.gbnf", "root ::= \"a\"");
    TestRun r = program("%s|-i|Once|--grammar|%s", small_model(), bad);
    check_refused(&r, 3, "bad.gbnf: line 2: a group without its closing )");
    r = program("%s|-i|Once|--json-schema|%s", small_model(), schema);
    check_refused(&r, 3, "bad.json: #: the keyword \"not\" is not supported");
    r = program("%s|-i|Once|--json-schema|%s|--grammar|%s", small_model(), schema, good);
    check_refused(&r, 2, "a text has one of --grammar and --json-schema");
    r = program("%s|-i|Once|--grammar|%s|--record|%s", small_model(), good,
                test_temporary("r.json"));
    check_refused(&r, 2, "--record excludes --grammar and --json-schema");
    r = program("%s|-i|Once|--grammar|/nothing/there.gbnf", small_model());
    check_refused(&r, 4, "/nothing/there.gbnf: ");
    r = program("%s|-i|Once|--grammar|root ::= \"a\"", small_model());
    check_refused(&r, 2, "--grammar takes the name of a file, not the text itself");
}

// A vocabulary without the letter: told before the model is loaded, or where the text comes to it.
Test(constrained, a_grammar_that_no_token_can_follow_is_told) {
    const char *path = grammar_file("z.gbnf", "root ::= \"z\"");
    TestRun r = program("%s|-i|a b|--grammar|%s|-t|0", fault_gguf(), path);
    check_refused(&r, 2, "no token of this vocabulary can begin a text of it");
    path = grammar_file("az.gbnf", "root ::= \"a\" \"z\"");
    r = program("%s|-i|a b|--grammar|%s|-t|0|-q", fault_gguf(), path);
    check_status(&r, 2);
    CHECK(strstr(r.err, "no token of this vocabulary can follow the 1 bytes so far"), "%s", r.err);
    test_run_free(&r);
}
