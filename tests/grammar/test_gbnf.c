// GBNF: what is one and what is not, by tables; and what a grammar that is one allows.
#include "grammar/internal.h"
#include "grammar/matcher.h"
#include "tests/test.h"

// *complete: the grammar has exactly this text. Returns whether it has one that begins so.
static bool begins(const Grammar *grammar, const char *text, bool *complete) {
    Error error = {0};
    Trie trie;
    bool fits = false;
    CHECK(trie_open(&trie, NULL, 0, &error), "%s", error.message);
    Matcher *matcher = matcher_open(grammar, &trie, NULL, &error);
    CHECK(matcher && matcher_read(matcher, text, strlen(text), &fits, &error), "%s", error.message);
    *complete = fits && matcher_complete(matcher);
    matcher_close(matcher);
    trie_close(&trie);
    return fits;
}

static Grammar *parse(const char *text) {
    Error error = {0};
    Grammar *grammar = grammar_parse(text, strlen(text), &error);
    CHECK(grammar, "%s: %s", text, error.message);
    return grammar;
}

static const struct {
    const char *text, *allowed, *refused;
} GOOD[] = {
    {"root ::= \"a\"", "a", "b"},
    {"root::=\"a\"", "a", ""},
    {"# first\n\nroot ::= \"a\" # behind\n#last", "a", "aa"},
    {"root ::= x\r\nx ::= \"a\"\r\n", "a", "x"},
    {"root ::=\n  \"a\" |\n  \"b\"", "b", "c"},
    {"root ::= (\n\"a\"\n\n| # or\n\"b\"\n) +", "ab", "+"},
    {"root ::= (\"a\"\n)+ \"c\"", "aac", "c"},
    {"root ::= \"\" | \"a\"", "", "b"},
    {"root ::= | \"a\"", "", "b"},
    {"root ::= \"a\" x\nx ::=\n", "a", "b"},
    {"root ::= \"\\n\\r\\t\\\\\\\"\\[\\]\"", "\n\r\t\\\"[]", "n"},
    {"root ::= \"\\x41\\u00e9\\U0001F600\"", "A\xc3\xa9\xf0\x9f\x98\x80", "\x41\xe9"},
    {"root ::= \"\xc3\xa9\xe2\x82\xac\"", "\xc3\xa9\xe2\x82\xac", "\xc3\xa8"},
    {"root ::= [\\]\\\\\\[^-]+", "]\\[^-", "a"},
    {"root ::= [a-]", "-", "b"},
    {"root ::= [-a]", "-", "b"},
    {"root ::= [a-c-e]+", "abc-e", "d"},
    {"root ::= [^a-c^]+", "d-e", "^"},
    {"root ::= [\\x00-\\x1f]", "\x01", " "},
    {"root ::= . . .", "\n\xe2\x82\xac.", "\xe2\x82"},
    {"root ::= \"ab\"{2}", "abab", "abb"},
    {"root ::= [ab] { 1 , 2 } \"c\"", "abc", "abac"},
    {"root ::= \"a\"{0,0} \"b\"", "b", "ab"},
    {"root ::= \"a\"{3,}", "aaaa", "b"},
    {"root ::= (\"a\"?)* (\"b\"*)+ (\"c\"?){5}", "aabbcc", "cccccc"},
    {"root ::= Upper-9_x\nUpper-9_x ::= \"a\"\nunused ::= unused2\nunused2 ::= \"q\"", "a", "q"},
    {"root ::= \"a\" # one\n\n  # or\n  | \"b\" x\n\t| \"c\"\nx ::= \"d\"\n | \"e\"\n\n", "be",
     "b"},
    {"root ::= \"a\" | dead\ndead ::= \"b\" dead", "a", "b"},
    {"root ::= \"a\"{16777216}", "", "b"}, // the beginning of one
};

Test(gbnf, takes_what_the_guide_documents) {
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        Grammar *grammar = parse(GOOD[i].text);
        bool complete;
        CHECK(begins(grammar, GOOD[i].allowed, &complete), "%s: allowed", GOOD[i].text);
        bool is_beginning = i + 1 == sizeof GOOD / sizeof *GOOD;
        CHECK(complete != is_beginning, "%s: \"%s\"", GOOD[i].text, GOOD[i].allowed);
        begins(grammar, GOOD[i].refused, &complete);
        CHECK(!complete, "%s: \"%s\" is allowed", GOOD[i].text, GOOD[i].refused);
        grammar_close(grammar);
    }
}

// Not in the guide: llama.cpp's parser has it, and its converter of schemas writes it.
Test(gbnf, takes_a_dash_behind_a_backslash) {
    Grammar *grammar = parse("root ::= [a\\-z]+ \"\\-\"");
    bool complete;
    CHECK(begins(grammar, "a-z-", &complete) && complete);
    CHECK(!begins(grammar, "b-", &complete));
    grammar_close(grammar);
}

static const char *const BAD[][2] = {
    {"", "wants a rule \"root\""},
    {"# nothing\n", "wants a rule \"root\""},
    {"x ::= \"a\"", "wants a rule \"root\""},
    {"root ::= \"a\"{x}", "a repetition is {m}, {m,} or {m,n}"},
    {"root = \"a\"", "line 1: wanted ::= behind \"root\""},
    {"root ::= \"a\"\n\nroot ::= \"b\"", "line 3: rule \"root\" is defined twice"},
    {"root ::= x\n", "line 1: rule \"x\" is not defined"},
    {"root ::= \"a\nb ::= \"c\"", "line 2: a text without its closing"},
    {"root ::= \"a", "line 1: a text without its closing \""},
    {"root ::= [a", "line 1: a class without its closing ]"},
    {"root ::= []", "line 1: an empty class"},
    {"root ::= [^]", "line 1: an empty class"},
    {"root ::= [z-a]", "line 1: a range from U+007A down to U+0061"},
    {"root ::= (\"a\"", "line 1: a group without its closing )"},
    {"root ::= (\"a\" ]", "line 1: wanted ), got ']'"},
    {"root ::= \"a\")", "line 1: wanted the end of the line, got ')'"},
    {"root ::= * \"a\"", "line 1: wanted the end of the line, got '*'"},
    {"root ::= \"\\q\"", "line 1: unknown escape \\q"},
    {"root ::= \"\\x4\"", "line 1: an escape wants 2 hexadecimal digits"},
    {"root ::= \"\\ud800\"", "line 1: U+D800 is no character"},
    {"root ::= \"\\U00110000\"", "line 1: U+110000 is no character"},
    {"root ::= \"\xff\"", "line 1: not UTF-8"},
    {"root ::= \"a\"{", "line 1: a repetition is {m}, {m,} or {m,n}"},
    {"root ::= \"a\"{,3}", "line 1: a repetition is {m}, {m,} or {m,n}"},
    {"root ::= \"a\"{3,2}", "line 1: at least 3 and at most 2 repetitions"},
    {"root ::= \"a\"{16777217}", "line 1: 16777217 repetitions (at most 16777216)"},
    {"root ::= \"a\"{99999999999999999999}", "line 1: a repetition is"},
    {"root ::= <think>", "line 1: tokens of the vocabulary (<think>, <[1000]>) are not supported"},
    {"root ::= !<[7]>", "line 1: tokens of the vocabulary (<think>, <[1000]>) are not supported"},
    {"root ::= root \"a\" | \"a\"", "line 1: rule \"root\" is left-recursive"},
    {"root ::= x\nx ::= y \"a\"\ny ::= \"b\"? x", "line 2: rule \"x\" is left-recursive"},
    {"root ::= \"a\" root", "no text satisfies the grammar"},
    {"root ::= x{3}\nx ::= \"a\" x", "no text satisfies the grammar"},
    {"root ::= [\\U0010ffff-\\U0010ffff] [^\\x00-\\U0010ffff]", "no text satisfies the grammar"},
    {"| \"b\"\nroot ::= \"a\"", "line 1: wanted the name of a rule, got '|'"},
    {"root ::= \"a\"\n-- note", "line 2: wanted ::= behind \"--\""},
};

static void check_refused(const char *text, size_t size, const char *because) {
    Error error = {0};
    Grammar *grammar = grammar_parse(text, size, &error);
    CHECK(!grammar, "%.100s is a grammar", text);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, because), "%.100s: \"%s\", wanted \"%s\"", text, error.message,
          because);
}

Test(gbnf, refuses_the_rest_and_names_the_line) {
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        check_refused(BAD[i][0], strlen(BAD[i][0]), BAD[i][1]);
    check_refused("root ::= \"a\"\0\"b\"", 16, "line 1: wanted the end of the line");
}

// A NUL is a byte like any other that cannot be printed.
Test(gbnf, tells_of_a_nul_as_of_other_bytes) {
    check_refused("root ::= \"a\" \0", 14, "line 1: wanted the end of the line, got '\\x00'");
    check_refused("root ::= \"\\\0\"", 13, "line 1: unknown escape \\\\x00");
}

// ---- limits: on both sides ----

static char *repeated(const char *before, const char *part, int count, const char *after) {
    size_t each = strlen(part), length = strlen(before);
    char *text = malloc(length + each * (size_t)count + strlen(after) + 1);
    memcpy(text, before, length);
    for (int i = 0; i < count; i++, length += each)
        memcpy(text + length, part, each);
    memcpy(text + length, after, strlen(after) + 1);
    return text;
}

Test(gbnf, groups_go_64_deep) {
    for (int extra = 0; extra < 2; extra++) {
        char *open = repeated("root ::= ", "(", LIMIT_GRAMMAR_DEPTH + extra, "\"a\"");
        char *text = repeated(open, ")", LIMIT_GRAMMAR_DEPTH + extra, "");
        if (extra)
            check_refused(text, strlen(text), "groups nested deeper than 64");
        else
            grammar_close(parse(text));
        free(open);
        free(text);
    }
    char *stars = repeated("root ::= \"a\"", "*", 1000, "");
    check_refused(stars, strlen(stars), "repetitions nested deeper than 64");
    free(stars);
}

Test(gbnf, has_4096_rules) {
    for (int extra = 0; extra < 2; extra++) {
        size_t size = 64 + 32 * (size_t)(LIMIT_GRAMMAR_RULES + extra), at = 0;
        char *text = malloc(size);
        at += (size_t)snprintf(text, size, "root ::= r1\n");
        for (int i = 1; i < LIMIT_GRAMMAR_RULES + extra; i++)
            at += (size_t)snprintf(text + at, size - at, "r%d ::= \"a\" r%d?\n", i,
                                   i + 1 < LIMIT_GRAMMAR_RULES + extra ? i + 1 : 1);
        if (extra)
            check_refused(text, at, "more than 4096 rules");
        else
            grammar_close(parse(text));
        free(text);
    }
}

Test(gbnf, has_131072_nodes_and_a_megabyte) {
    char *most = repeated("root ::= \"", "a", LIMIT_GRAMMAR_NODES - 1, "\"");
    grammar_close(parse(most));
    char *text = repeated("root ::= \"", "a", LIMIT_GRAMMAR_NODES, "\"");
    check_refused(text, strlen(text), "the grammar is too large: more than 131072 nodes");
    char *large = repeated("root ::= \"a\" #", "x", LIMIT_GRAMMAR_BYTES, "");
    grammar_close(grammar_parse(large, LIMIT_GRAMMAR_BYTES, NULL));
    check_refused(large, LIMIT_GRAMMAR_BYTES + 1, "a grammar of 1048577 bytes (at most 1048576)");
    // 34 edges each, and all equal: what is written counts, not what is kept.
    enum { MOST = 4 * LIMIT_GRAMMAR_NODES / 34 };
    static const char X[] = "\nx ::= [!#%')+/13579;=?ACEGIKMOQSUWY_acegi]\n";
    char *edges = repeated("root ::= x", " | x", MOST - 2, X); // and the rule itself
    grammar_close(parse(edges));
    free(edges);
    edges = repeated("root ::= x", " | x", MOST, X);
    check_refused(edges, strlen(edges), "the grammar is too large: more than 524288 edges");
    free(edges);
    free(most);
    free(text);
    free(large);
}

// Strings of two lengths, in two rules: one RETURN, one closing quote, one body, its COUNT twice
// and an opening quote before each; root is a call, a comma and a call.
Test(gbnf, equal_nodes_are_one) {
    Grammar *g = parse("root ::= short \",\" long\nshort ::= \"'\" [a-z]{90,99} \"'\"\n"
                       "long ::= \"'\" [a-z]{20,} \"'\"\n");
    uint32_t counts[2] = {0};
    size_t n_counts = 0;
    CHECK_INT(g->nodes.count, 10);
    for (uint32_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i].kind == NODE_COUNT && n_counts < 2) counts[n_counts++] = i;
    CHECK_INT(n_counts, 2);
    const Node *a = &g->nodes.at[counts[0]], *b = &g->nodes.at[counts[1]];
    CHECK(a->a == b->a && a->b == b->b && a->most != b->most);
    CHECK(a->like == counts[0] && b->like == counts[0], "like %u and %u", a->like, b->like);
    grammar_close(g);
}

// As often as it may be, an empty text is written out once: 16 million times 40,000 are no work.
Test(gbnf, an_empty_text_is_repeated_in_no_time) {
    static const char *const EMPTY[] = {"\"\"{16777216} ", "(\"a\"{0} \"\"){16777216} ",
                                        "(\"\" | \"\"*){3,} "};
    for (size_t i = 0; i < sizeof EMPTY / sizeof *EMPTY; i++) {
        char *text = repeated("root ::= ", EMPTY[i], 40000, "\"b\"");
        Grammar *grammar = parse(text);
        bool complete;
        CHECK(begins(grammar, "b", &complete) && complete, "%s", EMPTY[i]);
        CHECK(!begins(grammar, "a", &complete), "%s", EMPTY[i]);
        grammar_close(grammar);
        free(text);
    }
    // A rule of 200,000 empty texts, called 100,000 times, is too much to be copied.
    static const char *const ENDS[] = {"\nmany ::= ", "\"a\"){0}\nmany ::= "};
    for (int i = 0; i < 2; i++) {
        char *none =
            repeated(i ? "root ::= \"b\"\nnone ::= (" : "root ::= \"b\"\nnone ::= ", "\"\" ",
                     200000, ENDS[i]);
        char *text = repeated(none, "none ", 70000, "");
        grammar_close(parse(text));
        free(text);
        free(none);
    }
}

// Rules that call the next one, in the order that takes the most rounds of every analysis.
Test(gbnf, long_chains_of_rules_take_no_stack) {
    size_t size = 64 * LIMIT_GRAMMAR_RULES, at = 0;
    char *text = malloc(size);
    at += (size_t)snprintf(text, size, "root ::= r1\n");
    for (int i = 1; i + 1 < LIMIT_GRAMMAR_RULES; i++)
        at += (size_t)snprintf(text + at, size - at, "r%d ::= r%d \"c\"\n", i, i + 1);
    snprintf(text + at, size - at, "r%d ::= \"a\"+\n", LIMIT_GRAMMAR_RULES - 1);
    Grammar *grammar = parse(text);
    bool complete;
    CHECK(begins(grammar, "aacc", &complete) && !complete, "aacc");
    CHECK(!begins(grammar, "ca", &complete), "ca");
    grammar_close(grammar);
    free(text);
}
