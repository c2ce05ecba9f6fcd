// What a grammar allows, against an independent judge: POSIX regular expressions asked about every
// short text, and a counter of brackets. Every text also byte by byte: what may still become one.
#include "grammar/matcher.h"
#include "tests/test.h"

#include <regex.h>

static Grammar *parse(const char *text) {
    Error error = {0};
    Grammar *grammar = grammar_parse(text, strlen(text), &error);
    CHECK(grammar, "%s: %s", text, error.message);
    return grammar;
}

static Matcher *open_matcher(const Grammar *grammar, const Trie *trie) {
    Error error = {0};
    Matcher *matcher = matcher_open(grammar, trie, NULL, &error);
    CHECK(matcher, "%s", error.message);
    return matcher;
}

static Trie empty_trie(void) {
    Trie trie;
    CHECK(trie_open(&trie, NULL, 0, NULL), "no trie");
    return trie;
}

// *complete: the grammar has exactly these bytes. Returns whether it has a text that begins so.
static bool begins(Matcher *matcher, const char *bytes, size_t length, bool *complete) {
    Error error = {0};
    bool fits = false;
    CHECK(matcher_reset(matcher, &error), "%s", error.message);
    CHECK(matcher_read(matcher, bytes, length, &fits, &error), "%s", error.message);
    *complete = fits && matcher_complete(matcher);
    return fits;
}

// ---- all texts of a few letters ----

enum { LETTERS = 3, LONGEST = 7, SURPLUS = 3 };

// The text of this number: 0 "", 1 "a", 2 "b", 3 "c", 4 "aa", ...
static size_t text_of(int number, char out[LONGEST + SURPLUS + 1]) {
    size_t length = 0;
    for (; number; number = (number - 1) / LETTERS)
        out[length++] = (char)('a' + (number - 1) % LETTERS);
    out[length] = '\0';
    for (size_t i = 0; i < length / 2; i++) {
        char swapped = out[i];
        out[i] = out[length - 1 - i];
        out[length - 1 - i] = swapped;
    }
    return length;
}

static int count_texts(size_t longest) {
    int count = 0;
    for (size_t length = 0, power = 1; length <= longest; length++, power *= LETTERS)
        count += (int)power;
    return count;
}

// The grammar and the expression allow the same texts of up to LONGEST letters; and a text is the
// beginning of one where the expression has one of up to SURPLUS letters more, which is enough for
// the expressions below.
static void compare(const char *grammar_text, const char *expression) {
    Grammar *grammar = parse(grammar_text);
    Trie trie = empty_trie();
    Matcher *matcher = open_matcher(grammar, &trie);
    int all = count_texts(LONGEST + SURPLUS), asked = count_texts(LONGEST);
    bool *begun = calloc((size_t)all, sizeof *begun), *whole = calloc((size_t)all, sizeof *whole);
    regex_t regex;
    CHECK(begun && whole && !regcomp(&regex, expression, REG_EXTENDED | REG_NOSUB), "%s",
          expression);
    for (int i = 0; i < all; i++) {
        char text[LONGEST + SURPLUS + 1];
        text_of(i, text);
        whole[i] = !regexec(&regex, text, 0, NULL, 0);
        for (int j = i; whole[i] && !begun[j]; j = (j - 1) / LETTERS) {
            begun[j] = true;
            if (!j) break;
        }
    }
    for (int i = 0; i < asked; i++) {
        char text[LONGEST + SURPLUS + 1];
        bool complete;
        size_t length = text_of(i, text);
        bool fits = begins(matcher, text, length, &complete);
        CHECK(fits == begun[i] && complete == whole[i], "%s: \"%s\" fits %d, wanted %d; %d, %d",
              grammar_text, text, fits, begun[i], complete, whole[i]);
    }
    regfree(&regex);
    free(begun);
    free(whole);
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
}

static const char *const PAIRS[][2] = {
    {"root ::= \"ab\" | \"c\"", "^(ab|c)$"},
    {"root ::= \"a\"*", "^a*$"},
    {"root ::= [ab]+ \"c\"?", "^[ab]+c?$"},
    {"root ::= [^a]{2,4}", "^[bc]{2,4}$"},
    {"root ::= (\"a\" | \"bc\"){3}", "^(a|bc){3}$"},
    {"root ::= (\"a\" | \"bc\"){2,}", "^(a|bc){2,}$"},
    {"root ::= x{0,5} y{1,2}\nx ::= \"a\" | \"ab\"\ny ::= [bc]+", "^(a|ab){0,5}([bc]+){1,2}$"},
    {"root ::= (\"a\"? \"b\"?){3,5}", "^(a?b?){3,5}$"},
    {"root ::= (\"a\"?){5,9} \"b\"", "^(a?){5,9}b$"},
    {"root ::= (\"a\"*){2,9} | \"b\"", "^(a*|b)$"},
    {"root ::= (\"a\"{1,5} \"b\"{0,5}){2,5} \"c\"", "^(a{1,5}b{0,5}){2,5}c$"},
    {"root ::= (x{4,5} | \"b\")*\nx ::= \"a\"", "^(a{4,5}|b)*$"},
    {"root ::= \"a\" .{5} \"b\"", "^a.{5}b$"},
    {"root ::= \"a\" rest\nrest ::= | \"b\" rest | \"c\"", "^ab*c?$"},
    {"root ::= ( # a comment\n \"a\" |\n \"b\" )+ # another\n", "^[ab]+$"},
    {"root ::= \"a\" |\n  \"b\"\n", "^(a|b)$"},
    {"root ::= a-b_1 \"\"\na-b_1 ::= \"a\"{0} \"\\x62\" \"\\u0063\"+", "^bc+$"},
    {"root ::= \"a\"{2}{3} \"b\"", "^a{6}b$"},
    {"root ::= [a-b]{9,} | [c]{3,3}", "^([ab]{9,}|ccc)$"},
};

Test(matcher, allows_what_a_regular_expression_does) {
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
        compare(PAIRS[i][0], PAIRS[i][1]);
}

// ---- recursion ----

// a is "(", b is ")", c is "x".
static bool is_balanced(const char *text, size_t length, bool *may_begin) {
    int depth = 0;
    *may_begin = true;
    for (size_t i = 0; i < length; i++) {
        depth += text[i] == 'a' ? 1 : text[i] == 'b' ? -1 : 0;
        if (depth < 0) *may_begin = false;
    }
    return *may_begin && !depth;
}

Test(matcher, counts_brackets_by_its_stack) {
    static const char *const GRAMMARS[] = {
        "root ::= (\"a\" root \"b\" | \"c\")*",
        "root ::= item root | \"\"\nitem ::= \"a\" root \"b\" | \"c\"",
        "root ::= \"\" | \"a\" root \"b\" root | \"c\" root",
    };
    Trie trie = empty_trie();
    for (size_t g = 0; g < sizeof GRAMMARS / sizeof *GRAMMARS; g++) {
        Grammar *grammar = parse(GRAMMARS[g]);
        Matcher *matcher = open_matcher(grammar, &trie);
        for (int i = 0; i < count_texts(LONGEST + 1); i++) {
            char text[LONGEST + SURPLUS + 1];
            size_t length = text_of(i, text);
            bool complete, may_begin, balanced = is_balanced(text, length, &may_begin);
            bool fits = begins(matcher, text, length, &complete);
            CHECK(fits == may_begin && complete == balanced, "%s: \"%s\"", GRAMMARS[g], text);
        }
        matcher_close(matcher);
        grammar_close(grammar);
    }
    trie_close(&trie);
}

Test(matcher, takes_a_depth_of_a_hundred_thousand) {
    enum { DEPTH = 100000 };
    Trie trie = empty_trie();
    Grammar *grammar = parse("root ::= \"(\" root \")\" | \"x\"");
    Matcher *matcher = open_matcher(grammar, &trie);
    bool fits;
    for (int i = 0; i < DEPTH; i++)
        CHECK(matcher_read(matcher, "(", 1, &fits, NULL) && fits, "at %d", i);
    CHECK(matcher_read(matcher, "x", 1, &fits, NULL) && fits, "x");
    for (int i = 0; i < DEPTH; i++) {
        CHECK(!matcher_complete(matcher), "complete at %d", i);
        CHECK(matcher_read(matcher, ")", 1, &fits, NULL) && fits, "at %d", i);
    }
    CHECK(matcher_complete(matcher), "not complete");
    CHECK(matcher_read(matcher, ")", 1, &fits, NULL) && !fits, "one too many");
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
}

// A million repetitions are a counter.
Test(matcher, counts_to_a_million) {
    enum { COUNT = 1000000 };
    Trie trie = empty_trie();
    Grammar *grammar = parse("root ::= \"ab\"{1000000} \"c\"");
    Matcher *matcher = open_matcher(grammar, &trie);
    bool fits;
    for (int i = 0; i < COUNT; i++) {
        if (i % 100000 == 0) CHECK(matcher_mask(matcher, NULL), "no mask");
        CHECK(matcher_read(matcher, "ab", 2, &fits, NULL) && fits, "at %d", i);
    }
    CHECK(matcher_read(matcher, "a", 1, &fits, NULL) && !fits, "one too many");
    CHECK(matcher_read(matcher, "c", 1, &fits, NULL) && fits && matcher_complete(matcher), "c");
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
}

// ---- characters ----

// Every code point by itself against comparisons of numbers, and its beginnings.
Test(matcher, knows_classes_of_every_code_point) {
    Trie trie = empty_trie();
    Grammar *grammar = parse("root ::= [^\\x00-\\x1f\"é-\\u20ac\\ud7f0-\\ue005\\U0001F600]");
    Matcher *matcher = open_matcher(grammar, &trie);
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char bytes[4];
        bool complete;
        if (c >= 0xd800 && c <= 0xdfff) continue;
        size_t length = utf8_encode(bytes, c);
        bool wanted = !(c <= 0x1f || c == '"' || (c >= 0xe9 && c <= 0x20ac) ||
                        (c >= 0xd7f0 && c <= 0xe005) || c == 0x1f600);
        bool fits = begins(matcher, bytes, length, &complete);
        CHECK(fits == wanted && complete == wanted, "U+%04X: %d, wanted %d", (unsigned)c, fits,
              wanted);
        if (!wanted || length == 1) continue;
        CHECK(begins(matcher, bytes, length - 1, &complete) && !complete, "cut U+%04X",
              (unsigned)c);
    }
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
}

Test(matcher, lets_no_byte_through_that_is_not_utf8) {
    static const char *const BAD[] = {
        "\x80",     "\xc0\x80",         "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xf0\x8f", "\xf4\x90\x80\x80", "\xf5",     "\xff",         "\xc3("};
    Trie trie = empty_trie();
    Grammar *grammar = parse("root ::= .*");
    Matcher *matcher = open_matcher(grammar, &trie);
    bool complete;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        CHECK(!begins(matcher, BAD[i], strlen(BAD[i]), &complete), "row %zu", i);
    CHECK(begins(matcher, "a\xc3\xa9\xf0\x9f\x98\x80\n", 8, &complete) && complete, "good");
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
}

// ---- limits ----

// Each level doubles the ways: 2^20 stacks for one text.
Test(matcher, refuses_a_grammar_of_too_many_ways) {
    char text[4096];
    int at = snprintf(text, sizeof text, "root ::= r0\n");
    for (int i = 0; i < 20; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "r%d ::= r%d \"a\"* | r%d \"b\"*\n", i,
                       i + 1, i + 1);
    snprintf(text + at, sizeof text - (size_t)at, "r20 ::= \"x\"+\n");
    Error error = {0};
    Trie trie = empty_trie();
    Grammar *grammar = parse(text);
    CHECK(!matcher_open(grammar, &trie, NULL, &error), "it was opened");
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, "more than 65536 places"), "%s", error.message);
    trie_close(&trie);
    grammar_close(grammar);
}

// Counters inside counters, whose bodies may all be empty: every count of each would be a stack.
Test(matcher, refuses_counters_nested_without_end) {
    char text[1000] = "root ::= ";
    Error error = {0};
    Trie trie = empty_trie();
    for (int i = 0; i < 60; i++)
        strcat(text, "(");
    strcat(text, "\"a\"");
    for (int i = 0; i < 60; i++)
        strcat(text, "){0,9}");
    Grammar *grammar = parse(text);
    Matcher *matcher = open_matcher(grammar, &trie);
    bool fits = true;
    for (int i = 0; i < 100 && !error.code; i++)
        matcher_read(matcher, "a", 1, &fits, &error);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, "more than 1024 stacks"), "%s", error.message);
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
}
