// How many tokens complete a text: against completions worked by hand, and against each other. What
// a bound leaves of a mask: against every token asked about alone.
#include "tests/test.h"
#include "grammar/matcher.h"

typedef struct Bench {
    Grammar *grammar;
    Trie trie;
    Matcher *matcher;
    TextSpan tokens[64];
    size_t n_tokens;
} Bench;

// words: tokens, with a space between.
static void bench_open(Bench *b, const char *grammar, const char *words) {
    Error error = {0};
    *b = (Bench){0};
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        b->tokens[b->n_tokens++] = (TextSpan){words, length};
    }
    b->grammar = grammar_parse(grammar, strlen(grammar), &error);
    CHECK(b->grammar, "%s: %s", grammar, error.message);
    CHECK(trie_open(&b->trie, b->tokens, b->n_tokens, &error), "%s", error.message);
    b->matcher = matcher_open(b->grammar, &b->trie, NULL, &error);
    CHECK(b->matcher, "%s", error.message);
}

static void bench_close(Bench *b) {
    matcher_close(b->matcher);
    trie_close(&b->trie);
    grammar_close(b->grammar);
}

static uint32_t needs(Bench *b, const char *bytes, size_t length) {
    Error error = {0};
    uint32_t tokens = 0;
    CHECK(matcher_needs(b->matcher, bytes, length, UINT32_MAX, &tokens, &error), "%s",
          error.message);
    return tokens;
}

static void read_text(Bench *b, const char *bytes, size_t length) {
    Error error = {0};
    bool fits = false;
    CHECK(matcher_read(b->matcher, bytes, length, &fits, &error), "%s", error.message);
    CHECK(fits, "%.*s", (int)length, bytes);
}

typedef struct Case {
    const char *text;
    uint32_t tokens;
} Case;

static void check_cases(const char *grammar, const char *words, const Case *cases, size_t count) {
    Bench b;
    bench_open(&b, grammar, words);
    for (size_t i = 0; i < count; i++) {
        uint32_t found = needs(&b, cases[i].text, strlen(cases[i].text));
        CHECK(found == cases[i].tokens, "%s behind \"%s\": %u", grammar, cases[i].text, found);
    }
    bench_close(&b);
}
#define CASES(grammar, words, ...)                                                                 \
    check_cases(grammar, words, (const Case[]){__VA_ARGS__},                                       \
                sizeof((const Case[]){__VA_ARGS__}) / sizeof(Case))

// The completion is written behind each.
Test(shortest, counts_the_tokens_of_the_shortest_completion) {
    CASES("root ::= \"[\" (\"a\" | \"bb\"){2,4} \"]\"", "[ a aa b ] a]", {"", 3}, // [ aa ]
          {"[", 2},                                                               // aa ]
          {"[b", 2},                                                              // b a]
          {"[bb", 1},                                                             // a]
          {"[aa", 1},                                                             // ]
          {"[aabb", 1},                                                           // ]
          {"[aa]", 0},                                                            //
          {"[aaaaa", MATCHER_ENDLESS});
    CASES("root ::= \"(\" root \")\" | \"x\"", "( ) )) x ((", {"", 1}, {"((", 2}, // x ))
          {"(((", 3},                                                             // x )) )
          {"(((x)", 1});                                                          // ))
    CASES("root ::= item (\",\" item)*\nitem ::= \"<\" [0-9]{3} more? \">\"\nmore ::= \"-\" item",
          "< > , - 0 1 00 000 0>", {"", 3}, // < 000 >
          {"<1", 2},                        // 00 >
          {"<12", 1},                       // 0>
          {"<123", 1},                      // >
          {"<123-", 4},                     // < 000 > >
          {"<123>", 0}, {"<123>,", 3});     // < 000 >
}

// More than are asked about count as endless, before and after they are known.
Test(shortest, asks_no_further_than_it_is_told) {
    Bench b;
    Error error = {0};
    uint32_t tokens;
    bench_open(&b, "root ::= \"<\" [a-c]{7} \">\"", "< > a aaa b c");
    for (uint32_t most = 0; most < 8; most++) { // < aaa aaa a >
        CHECK(matcher_needs(b.matcher, NULL, 0, most, &tokens, &error), "%s", error.message);
        CHECK_INT(tokens, most < 5 ? MATCHER_ENDLESS : 5);
    }
    CHECK(matcher_needs(b.matcher, NULL, 0, 4, &tokens, &error) && tokens == MATCHER_ENDLESS);
    bench_close(&b);
}

// Of two as short the first in byte order, whatever the order of the rules.
Test(shortest, takes_the_first_of_two_as_short) {
    CASES("root ::= \"ba\" | \"ab\"", "a b ba", {"", 2});
    CASES("root ::= \"ab\" | \"ba\"", "a b ba", {"", 2});
    CASES("root ::= \"ab\" | \"ba\"", "a b ab", {"", 1});
}

Test(shortest, says_where_no_tokens_make_it_up) {
    CASES("root ::= \"a\" [bc] \"d\"", "a c d", {"", MATCHER_ENDLESS}, {"a", MATCHER_ENDLESS}, // bd
          {"ac", 1});
    CASES("root ::= \"a\"{16384} \"b\"", "a b", {"", MATCHER_ENDLESS}, {"a", 16384});
    CASES("root ::= (\"a\"{16777216}){16777216}", "a", {"a", MATCHER_ENDLESS});
}

// Rules that are called before they are defined, 4,000 deep: one sweep for each.
Test(shortest, goes_through_many_rules) {
    enum { RULES = 4000, SIZE = RULES * 40 };
    char *text = malloc(SIZE);
    size_t at = (size_t)snprintf(text, SIZE, "root ::= r0\n");
    for (int i = 0; i < RULES; i++)
        at +=
            (size_t)snprintf(text + at, SIZE - at,
                             i + 1 < RULES ? "r%d ::= r%d | \"\xc3\xa4\" r%d\n" : "r%d ::= \"x\"\n",
                             i, i + 1, i + 1);
    CASES(text, "x \xc3 \xa4", {"", 1}, {"\xc3", 2});
    free(text);
}

// Behind each of 676 tokens another text of about 16,000 bytes: more than a narrowing reads.
Test(shortest, gives_up_where_all_ends_differ) {
    enum { LETTERS = 26, TOKENS = LETTERS * LETTERS };
    char *text = malloc(TOKENS * 24), letters[2 * TOKENS];
    TextSpan tokens[TOKENS + 1];
    size_t at = (size_t)sprintf(text, "root ::= \"!\"");
    for (int i = 0; i < TOKENS; i++) {
        char *two = letters + 2 * i;
        two[0] = (char)('a' + i / LETTERS);
        two[1] = (char)('a' + i % LETTERS);
        tokens[i] = (TextSpan){two, 2};
        at += (size_t)sprintf(text + at, " | \"%.2s\" \"!\"{%d}", two, 16300 - i);
    }
    tokens[TOKENS] = (TextSpan){"!", 1};
    Error error = {0};
    Grammar *grammar = grammar_parse(text, at, &error);
    CHECK(grammar, "%s", error.message);
    Trie trie;
    CHECK(trie_open(&trie, tokens, TOKENS + 1, &error), "%s", error.message);
    Matcher *matcher = matcher_open(grammar, &trie, NULL, &error);
    CHECK(matcher, "%s", error.message);
    uint64_t mask[(TOKENS + 64) / 64];
    memset(mask, 0xff, sizeof mask);
    uint32_t needed;
    CHECK(matcher_needs(matcher, "az", 2, UINT32_MAX, &needed, &error), "%s", error.message);
    CHECK_INT(needed, 16300 - 25);
    CHECK(!matcher_narrow(matcher, &trie, 16000, mask, &error));
    CHECK(error.code == ERROR_FILE && strstr(error.message, "too ambiguous"), "%s", error.message);
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
    free(text);
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

// What matcher_narrow leaves of the mask, and what every token says of itself.
static void check_narrow(Bench *b, uint32_t left) {
    Error error = {0};
    const uint64_t *mask = matcher_mask(b->matcher, &error);
    CHECK(mask, "%s", error.message);
    uint64_t all = *mask, some = *mask;
    CHECK(matcher_narrow(b->matcher, &b->trie, left, &some, &error), "%s", error.message);
    for (size_t t = 0; t < b->n_tokens; t++) {
        bool allowed = all >> t & 1, stays = some >> t & 1;
        bool wanted = allowed && needs(b, b->tokens[t].text, b->tokens[t].length) <= left;
        CHECK(stays == wanted, "%.*s", (int)b->tokens[t].length, b->tokens[t].text);
    }
}

// A text that takes any token behind which the rest of its bound is enough. What must hold: there
// always is one, and the last one completes the text.
static void walk_within(const char *grammar, const char *words, uint64_t seed) {
    Bench b;
    bench_open(&b, grammar, words);
    uint64_t state = seed;
    uint32_t least = needs(&b, NULL, 0), left = least + (uint32_t)(next_random(&state) % 6);
    while (left > 0 && !(matcher_complete(b.matcher) && next_random(&state) % 4 == 0)) {
        Error error = {0};
        check_narrow(&b, --left);
        uint64_t some = *matcher_mask(b.matcher, &error);
        CHECK(matcher_narrow(b.matcher, &b.trie, left, &some, &error), "%s", error.message);
        if (!some) break;
        size_t t = next_random(&state) % b.n_tokens;
        while (!(some >> t & 1))
            t = (t + 1) % b.n_tokens;
        read_text(&b, b.tokens[t].text, b.tokens[t].length);
    }
    CHECK(matcher_complete(b.matcher), "%s, seed %llu: %u tokens, at least %u", grammar,
          (unsigned long long)seed, left, least);
    bench_close(&b);
}

Test(shortest, a_bound_is_always_kept) {
    static const char *const GRAMMARS[][2] = {
        {"root ::= \"[\" (\"a\" | \"bb\" root?){2,4} \"]\"", "[ a aa b bb ] a] [a bb["},
        {"root ::= \"(\" root \")\" | \"x\" | [yz]{2,5} \"!\"", "( ) )) x (( y z yz zz!! ! ((x"},
        {"root ::= value\nvalue ::= \"{\" pair (\",\" pair)* \"}\" | \"[\" (value (\",\" value)*)? "
         "\"]\" | \"t\" | \"ff\"\npair ::= [k-m]{1,3} \":\" value",
         "{ } [ ] , : t f ff k l m kl {k ]} [[ [[[[ {k:[ :{ ,l:t t} ]]"},
        {"root ::= ((\"a\"? \"b\"){1,3} \"c\"){2,} \"d\"", "a b c d ab bc abc cd ba"},
        {"root ::= [\\u00e4-\\u00fc]{2,3} (\"\\u20ac\" | \".\" root)",
         "\xc3 \xa4 \xa5 \xc3\xa4 \xe2 \x82\xac \xe2\x82\xac . .\xc3"},
    };
    for (size_t g = 0; g < sizeof GRAMMARS / sizeof *GRAMMARS; g++)
        for (uint64_t seed = 1; seed <= 200; seed++)
            walk_within(GRAMMARS[g][0], GRAMMARS[g][1], seed);
}
