// Masks of states, which read few tokens, against the plainest way: every token by itself, on a
// matcher that has read the same text. For vocabularies of several kinds, along texts that the
// grammar allows.
#include "base/buffer.h"
#include "base/hash.h"
#include "grammar/masks.h"
#include "tests/test.h"

typedef struct Words {
    TextSpan *tokens;
    size_t count;
    Trie trie;
} Words;

static const char JSON[] =
    "root ::= object\n"
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
    "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
    "[0-9a-fA-F]{4}) )* \"\\\"\" ws\n"
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
    "[1-9]{0,15})? ws\n"
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";

static const char *const GRAMMARS[] = {
    JSON,
    "root ::= [a-z]{1,100} \",\" [ab]{2,7} | \"[\" root \"]\"",
    "root ::= \"\\\"\" char{3,12} \"\\\"\" tail\nchar ::= [^\"\\\\] | \"\\\\\" [nt\"]\n"
    "tail ::= \",\" root | \"]\"",
    "root ::= (item{0,3} \";\"){1,6}\nitem ::= [a-e]{2,40} | \"\\\"\" .{0,9} \"\\\"\"",
    "root ::= (\"a\"? [a-c]{0,30}){0,50} \"]\"",
    "root ::= [à-ÿ€] root | \"a\" | \"{\" root \"}\" \" \"?",
    "root ::= ((\"a\" | \"ab\"){1,5} \"b\"{0,3}){1,8} [^a]*",
    "root ::= (\"{\" [a-z\"]{1,9} ){2,4} x\nx ::= \"}\"{2,5} | \",\" root",
    // loops: over nearly all characters, over some, over those beyond ASCII, and at a text's end
    "root ::= \"{\" [^,]* \",\" root | .* \"a\" | \"\"",
    "root ::= ([a-f ]* | [à-ÿ€] | \"\\n\")* \":\" root?",
    "root ::= ([a-f ] | [€])* \":\" root?",
    "root ::= \"[\" text \"]\" root?\ntext ::= [a-f \\n]*",
    "root ::= ([^,]* \",\" [é€] \"b\"? \";\")* \"a\"",
    "root ::= ([^\\x00-\\x7f] | \"{\" root \"}\")* \"b\"?",
};

// Bytes that the grammars speak of come often.
static char random_byte(uint64_t *random) {
    static const char OFTEN[] = "aabbcde{}[]\"\"\",: \n\\01-.;n\xc3\xa9\xe2\x82\xac";
    uint64_t number = splitmix64(random);
    return number % 16 ? OFTEN[(number >> 8) % (sizeof OFTEN - 1)] : (char)(number >> 32);
}

// All bytes, then tokens of up to `longest` bytes; some of them twice, some without bytes.
static Words make_words(size_t count, size_t longest, uint64_t seed) {
    Words w = {.tokens = calloc(count, sizeof *w.tokens), .count = count};
    for (size_t i = 0; i < count; i++) {
        size_t length = i < 256 ? 1 : splitmix64(&seed) % (longest + 1);
        char *bytes = malloc(length + 1);
        for (size_t j = 0; j < length; j++)
            bytes[j] = i < 256 ? (char)i : random_byte(&seed);
        w.tokens[i] = (TextSpan){bytes, length};
    }
    CHECK(trie_open(&w.trie, w.tokens, count, NULL), "no trie");
    return w;
}

static void free_words(Words *w) {
    for (size_t i = 0; i < w->count; i++)
        free((void *)(uintptr_t)w->tokens[i].text);
    free(w->tokens);
    trie_close(&w->trie);
}

static bool has_bit(const uint64_t *mask, size_t id) {
    return mask[id / 64] >> id % 64 & 1;
}

// By itself: what has been read, then the token.
static bool allowed(Matcher *plain, const Buffer *text, TextSpan token) {
    Error error = {0};
    bool fits = false;
    CHECK(matcher_reset(plain, &error) &&
              matcher_read(plain, (const char *)text->bytes, text->size, &fits, &error),
          "%s", error.message);
    CHECK(fits, "the text itself");
    CHECK(matcher_read(plain, token.text, token.length, &fits, &error), "%s", error.message);
    return fits && token.length;
}

// Checks every token, then reads one of those that are allowed. False: there is none.
static bool check_step(Matcher *matcher, Matcher *plain, const Words *w, Buffer *text,
                       uint64_t *random, const char *grammar) {
    Error error = {0};
    uint64_t *slow = calloc(mask_words(w->count), sizeof *slow);
    const uint64_t *mask = matcher_mask(matcher, &error);
    CHECK(mask && matcher_mask_slowly(matcher, &w->trie, slow, &error), "%s", error.message);
    size_t n_allowed = 0, chosen = 0;
    for (size_t i = 0; i < w->count; i++) {
        bool wanted = allowed(plain, text, w->tokens[i]);
        CHECK(has_bit(mask, i) == wanted && has_bit(slow, i) == wanted,
              "%s: token %zu \"%.*s\" behind \"%.*s\": wanted %d", grammar, i,
              (int)w->tokens[i].length, w->tokens[i].text, (int)text->size, text->bytes, wanted);
        if (wanted && splitmix64(random) % ++n_allowed == 0) chosen = i;
    }
    free(slow);
    if (!n_allowed) return false;
    bool fits;
    CHECK(matcher_read(matcher, w->tokens[chosen].text, w->tokens[chosen].length, &fits, &error) &&
              fits,
          "the chosen token");
    buffer_put(text, w->tokens[chosen].text, w->tokens[chosen].length);
    return true;
}

static void check_walk(const char *grammar_text, const Words *w, int steps, uint64_t seed) {
    Error error = {0};
    Buffer text = {0};
    Grammar *grammar = grammar_parse(grammar_text, strlen(grammar_text), &error);
    CHECK(grammar, "%s", error.message);
    Matcher *matcher = matcher_open(grammar, &w->trie, NULL, &error);
    Matcher *plain = matcher_open(grammar, &w->trie, NULL, &error);
    CHECK(matcher && plain, "%s", error.message);
    if (seed % 2) CHECK(matcher_prepare(matcher, &error), "%s", error.message);
    for (int i = 0; i < steps; i++)
        if (!check_step(matcher, plain, w, &text, &seed, grammar_text)) break;
    matcher_close(matcher);
    matcher_close(plain);
    grammar_close(grammar);
    buffer_free(&text);
}

Test(token_mask, is_what_reading_every_token_says) {
    for (size_t size = 0; size < 3; size++) {
        static const size_t COUNTS[] = {257, 700, 1500}, LONGEST[] = {1, 4, 14};
        for (uint64_t seed = 1; seed <= 3; seed++) {
            Words w = make_words(COUNTS[size], LONGEST[size], seed);
            for (size_t g = 0; g < sizeof GRAMMARS / sizeof *GRAMMARS; g++)
                check_walk(GRAMMARS[g], &w, 25, seed);
            free_words(&w);
        }
    }
}

// Long tokens of one letter: turns beyond what is left of a repetition.
Test(token_mask, knows_how_often_a_token_repeats) {
    static char AS[101];
    memset(AS, 'a', sizeof AS - 1);
    TextSpan tokens[sizeof AS];
    for (size_t i = 0; i < sizeof AS; i++)
        tokens[i] = (TextSpan){AS, i};
    Words w = {.tokens = tokens, .count = sizeof AS};
    CHECK(trie_open(&w.trie, tokens, w.count, NULL), "no trie");
    static const char *const TEXTS[] = {
        "root ::= [a-c]{1,30}",
        "root ::= [a-c]{10,30} \"a\"{0,9}",
        "root ::= (\"a\"{1,4} \"b\"?){1,9}",
        "root ::= (x{1,30} \"b\"?){1,9}\nx ::= \"aa\" | \"a\"",
        "root ::= \"a\"{17,}",
        "root ::= (\"a\"{2} \"a\"?){9,12}",
        "root ::= (\"a\"{1,30}){1,5} \"b\"*",
        "root ::= [a-c]{20,30} \"b\" | [a-c]{50,60} \"c\"", // the same body, in either order
        "root ::= [a-c]{50,60} \"b\" | [a-c]{20,30} \"c\"",
    };
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t g = 0; g < sizeof TEXTS / sizeof *TEXTS; g++)
            check_walk(TEXTS[g], &w, 12, seed);
    trie_close(&w.trie);
}

// Where nothing marks the end of a body, a text is on stacks of many counts, which are asked
// together only if their bounds leave no gap, on the same CALLs.
Test(token_mask, of_stacks_of_many_counts) {
    enum { LETTERS = 3, LONGEST = 6, COUNT = 1093 }; // 1 + 3 + 9 + .. + 3^6
    char texts[COUNT][LONGEST];
    TextSpan tokens[COUNT] = {{texts[0], 0}};
    for (size_t i = 1; i < COUNT; i++) {
        TextSpan before = tokens[(i - 1) / LETTERS];
        memcpy(texts[i], before.text, before.length);
        texts[i][before.length] = "ab."[(i - 1) % LETTERS];
        tokens[i] = (TextSpan){texts[i], before.length + 1};
    }
    Words w = {.tokens = tokens, .count = COUNT};
    CHECK(trie_open(&w.trie, tokens, w.count, NULL), "no trie");
    static const char *const TEXTS[] = {
        "root ::= (\"aaaa\" | \"a\"){6,7} \"b\"",
        "root ::= (\"aaaaa\" | \"aa\" | \"b\"){3,4} \".\"",
        "root ::= (w \"b\" | w \".\"){2,5} \".\"\nw ::= \"a\" | \"a\" w",
        "root ::= (w \"b\"?){2,9} \".\"\nw ::= \"a\" | \"a\" w",
        "root ::= (w \"b\"?){5} (w \".\"?){3,4} \"b\"\nw ::= \"a\" | \"a\" w",
    };
    for (uint64_t seed = 0; seed < 10; seed++)
        for (size_t g = 0; g < sizeof TEXTS / sizeof *TEXTS; g++)
            check_walk(TEXTS[g], &w, 6, seed);
    trie_close(&w.trie);
}

// Without bounds a long token would be on thousands of stacks, with them it is on few.
Test(token_mask, keeps_the_bounds_where_it_is_too_ambiguous_without) {
    static char ca[102] = "c";
    TextSpan tokens[sizeof ca];
    memset(ca + 1, 'a', sizeof ca - 2);
    for (size_t i = 0; i < sizeof ca; i++)
        tokens[i] = i % 2 ? (TextSpan){ca, i} : (TextSpan){ca + 1, i};
    Words w = {.tokens = tokens, .count = sizeof ca - 1};
    CHECK(trie_open(&w.trie, tokens, w.count, NULL), "no trie");
    for (uint64_t seed = 0; seed < 20; seed++)
        check_walk("root ::= (\"c\"? \"a\"{1,30}){1,5} \"b\"*", &w, 12, seed);
    trie_close(&w.trie);
}

// A third of all texts of up to four of these, so that below many nodes of the trie are few kinds.
Test(token_mask, knows_which_characters_lead_back) {
    static const char *const PARTS[] = {"a", "]", "\xe2\x82\xac", "\xc3\xa9", "\xe2"};
    static char bytes[780][16];
    static TextSpan tokens[780];
    Words w = {.tokens = tokens};
    uint64_t random = 1;
    for (size_t length = 1, all = 5; length <= 4; length++, all *= 5)
        for (size_t number = 0; number < all; number++) {
            if (splitmix64(&random) % 3) continue;
            TextSpan *t = &tokens[w.count];
            t->text = bytes[w.count];
            for (size_t j = 0, left = number; j < length; j++, left /= 5) {
                size_t n = strlen(PARTS[left % 5]);
                memcpy(bytes[w.count] + t->length, PARTS[left % 5], n);
                t->length += n;
            }
            w.count++;
        }
    CHECK(trie_open(&w.trie, tokens, w.count, NULL), "no trie");
    static const char *const TEXTS[] = {
        "root ::= ([a-f] | [€])* \":\"?",
        "root ::= [^é]* \":\"?",
        "root ::= [^\\x00-\\x7f]* \"a\"?",
        "root ::= text \"]\" root?\ntext ::= [a-f]* | \"]\" text \"é\"",
        "root ::= (text \"é\")* \"a\"\ntext ::= ([a-f] | \"]\" text \"]\")*",
    };
    for (uint64_t seed = 0; seed < 8; seed++)
        for (size_t g = 0; g < sizeof TEXTS / sizeof *TEXTS; g++)
            check_walk(TEXTS[g], &w, 12, seed);
    trie_close(&w.trie);
}

// ---- how much of the trie is read ----

// Words of four letters with one of 200 other characters behind them, none of which ends a string.
static Words many_words(void) {
    Words w = {.tokens = calloc(20000, sizeof *w.tokens), .count = 20000};
    for (size_t i = 0; i < w.count; i++) {
        char *bytes = malloc(8);
        size_t length = 0;
        for (size_t j = 0, left = i / 200; j < 4; j++, left /= 5)
            bytes[length++] = (char)('a' + left % 5);
        length += utf8_encode(bytes + length, (uint32_t)(i % 200 + (i % 2 ? 0x4e00 : '#')));
        w.tokens[i] = (TextSpan){bytes, i == 0 ? 1 : length};
    }
    ((char *)(uintptr_t)w.tokens[0].text)[0] = '"';
    CHECK(trie_open(&w.trie, w.tokens, w.count, NULL), "no trie");
    return w;
}

// They end a string, and what is around it, inside the token.
static Words words_behind_strings(void) {
    Words w = {.tokens = calloc(1024, sizeof *w.tokens), .count = 1024};
    for (size_t i = 0; i < w.count; i++) {
        char *bytes = malloc(8);
        memcpy(bytes, "\")", 2);
        for (size_t j = 0, left = i; j < 5; j++, left /= 4)
            bytes[2 + j] = (char)('b' + left % 4);
        w.tokens[i] = (TextSpan){bytes, 7};
    }
    CHECK(trie_open(&w.trie, w.tokens, w.count, NULL), "no trie");
    return w;
}

static void check_prepared(const Words *w, const char *text, const char *begun, bool prepared) {
    Error error = {0};
    Grammar *grammar = grammar_parse(text, strlen(text), &error);
    CHECK(grammar, "%s", error.message);
    Automaton m;
    Masks k;
    uint32_t state;
    CHECK(automaton_open(&m, grammar, NULL, &error) && masks_open(&k, &m, &w->trie, &error) &&
          automaton_start(&m, &state, &error));
    if (prepared) CHECK(masks_prepare(&k, state, &error), "%s", error.message);
    size_t before = k.locals.count;
    for (const char *c = begun; *c; c++)
        CHECK(automaton_move(&m, state, (uint8_t)*c, &state, &error));
    const uint64_t *mask = masks_of(&k, state, &error);
    CHECK(mask, "%s", error.message);
    for (size_t i = 0; i < w->count; i++)
        CHECK(has_bit(mask, i), "token %zu", i);
    CHECK(prepared ? k.locals.count == before && before : masks_work(&k) < 600,
          "%s: %zu locals, then %zu; work of %zu nodes, the trie has %zu", begun, before,
          k.locals.count, masks_work(&k), w->trie.n_nodes);
    masks_free(&k);
    automaton_free(&m);
    grammar_close(grammar);
}

// Inside a string all tokens but the quote lead nowhere else, so that hardly any is read. What is
// prepared is not read again, also where more than the upper frames of a stack is asked.
Test(token_mask, passes_over_what_leads_back_and_what_was_prepared) {
    static const char STRINGS[] = "root ::= \"{\" string (\",\" string)* \"}\"\n"
                                  "string ::= \"\\\"\" [^\"]* \"\\\"\"",
                      CALLS[] = "root ::= sum+\n"
                                "sum ::= s product (s \"+\" product)*\n"
                                "product ::= s call (s \"*\" call)*\n"
                                "call ::= s atom (s \"(\" (sum (s \",\" sum)*)? s \")\")*\n"
                                "atom ::= \"a\" [a-f]* | \"\\\"\" [^\"]* \"\\\"\"\n"
                                "s ::= [b-f]*";
    Words w = many_words();
    check_prepared(&w, STRINGS, "{\"", false);
    check_prepared(&w, STRINGS, "{\"", true);
    free_words(&w);
    w = words_behind_strings();
    check_prepared(&w, CALLS, "a(\"", true);
    free_words(&w);
}

// The grammar is to be closed after both.
static Grammar *open_masks(const char *text, size_t size, const Trie *trie, Automaton *m, Masks *k,
                           uint32_t *state) {
    Error error = {0};
    Grammar *grammar = grammar_parse(text, size, &error);
    CHECK(grammar && automaton_open(m, grammar, NULL, &error) && masks_open(k, m, trie, &error) &&
              automaton_start(m, state, &error),
          "%s", error.message);
    return grammar;
}

// Masks.bytes, computed again from all that it counts.
static size_t bytes_of(const Masks *k) {
    size_t n = k->trie->n_tokens, bytes = 0;
    for (size_t i = 0; i < k->locals.count; i++) {
        const Local *l = k->locals.at[i];
        bytes += sizeof *l + turn_sets_bytes(&l->stays, n) + turn_sets_bytes(&l->leaves, n) +
                 exits_bytes(&l->exits) + l->n_parts * sizeof *l->parts;
    }
    for (size_t i = 0; i < k->kept.count; i++)
        bytes += k->kept.at[i] ? mask_words(n) * sizeof(uint64_t) : 0;
    for (size_t i = 0; i < DESCENDED; i++)
        bytes += k->descended[i].count * sizeof *k->descended[i].ids;
    return bytes + k->looks.count * sizeof *k->looks.at + k->grounds.count * sizeof *k->grounds.at;
}

// Each name goes on with the same 100 places, every time on a new stack. The first masks ask each
// place, later ones all together.
Test(token_mask, asks_places_together_that_come_again_on_new_stacks) {
    enum { NAMES = 100, WARM = 8, ALL = 40 };
    Error error = {0};
    Words w = make_words(700, 4, 3);
    Buffer text = {0};
    buffer_print(&text, "root ::= name (\"[\" root \"]\")?\nname ::= \"x\"");
    for (int i = 0; i < NAMES; i++)
        buffer_print(&text, " | [a-z]+ \"%d\"?", i);
    Automaton m;
    Masks k;
    uint32_t state;
    Grammar *grammar = open_masks((const char *)text.bytes, text.size, &w.trie, &m, &k, &state);
    uint64_t *read = calloc(mask_words(w.count), sizeof *read);
    for (int i = 0; i < ALL; i++) {
        CHECK(automaton_move(&m, state, 'a', &state, &error));
        size_t before = masks_work(&k), work = SIZE_MAX;
        const uint64_t *mask = masks_of(&k, state, &error);
        size_t took = masks_work(&k) - before;
        CHECK(mask, "%s", error.message);
        CHECK(i < WARM || took < 200, "mask %d: work of %zu nodes", i, took);
        memset(read, 0, mask_words(w.count) * sizeof *read);
        CHECK(masks_walk(&m, &w.trie, state, &work, read, &error) &&
                  !memcmp(mask, read, mask_words(w.count) * sizeof *read),
              "mask %d", i);
        CHECK(automaton_move(&m, state, '[', &state, &error));
    }
    CHECK_INT(k.bytes, bytes_of(&k));
    free(read);
    masks_free(&k);
    automaton_free(&m);
    grammar_close(grammar);
    buffer_free(&text);
    free_words(&w);
}

// Tokens lead to more stacks than are allowed, so that they are read from half of them, and again.
// The frames of the alternatives around the many stacks are older or newer than most.
Test(token_mask, read_from_half_the_stacks_is_that_of_all) {
    enum { LEVELS = 30, TOKENS = 64 };
    Error error = {0};
    Words w = {.count = TOKENS, .tokens = calloc(TOKENS, sizeof *w.tokens)};
    for (size_t i = 0; i < TOKENS; i++) { // "", "a" .. "aaaaaaaaaaaaaaa", "x", "ax", ...
        char *bytes = malloc(17);
        memset(bytes, 'a', 16);
        bytes[i % 16] = (char)('w' + i / 16);
        w.tokens[i] = (TextSpan){bytes, i % 16 + (i >= 16)};
    }
    CHECK(trie_open(&w.trie, w.tokens, w.count, NULL), "no trie");
    char text[600] = "root ::= \"a\"{1,999} \"x\" | ", *end = text + strlen(text);
    for (int i = 0; i < LEVELS; i++)
        *end++ = '(';
    end += snprintf(end, 20, "\"a\"");
    for (int i = 0; i < LEVELS; i++)
        end += snprintf(end, 20, "){2,3}");
    snprintf(end, 50, " | \"a\"{1,999} \"y\" | \"a\"* \"z\"");
    Automaton m;
    Masks k;
    uint32_t state;
    Grammar *grammar = open_masks(text, strlen(text), &w.trie, &m, &k, &state);
    k.most_work = SIZE_MAX / 2; // by parts alone
    uint64_t *read = calloc(mask_words(TOKENS), sizeof *read);
    int halved = 0;
    for (int i = 0; automaton_move(&m, state, 'a', &state, &error); i++) {
        if (i % 4) continue;
        const uint64_t *mask = masks_of(&k, state, &error);
        size_t count, work = SIZE_MAX / 2;
        uint64_t *places = masks_places(&m, state, &count, &error);
        memset(read, 0, mask_words(TOKENS) * sizeof *read);
        Error refused = {0};
        halved += !masks_walk(&m, &w.trie, state, &work, read, &refused);
        memset(read, 0, mask_words(TOKENS) * sizeof *read);
        CHECK(mask && places && masks_read_places(&k, places, count, &work, read, &error), "%s",
              error.message);
        CHECK(!memcmp(mask, read, mask_words(TOKENS) * sizeof *read), "behind %d bytes", i);
        free(places);
    }
    CHECK(strstr(error.message, "1024 stacks") && halved > 2, "%s; %d halved", error.message,
          halved);
    free(read);
    masks_free(&k);
    automaton_free(&m);
    grammar_close(grammar);
    free_words(&w);
}

// More states than are kept: the matcher starts over on the way, on a stack of many frames.
Test(token_mask, stays_right_when_a_matcher_starts_over) {
    enum { DEPTH = 400000 };
    Error error = {0};
    Words w = make_words(300, 6, 7);
    const char *text = "root ::= \"{\" (\"a\" root | [bc]{1,9}) \"}\" | \"{}\" | \"[\" root \"]\"";
    Grammar *grammar = grammar_parse(text, strlen(text), &error);
    Matcher *matcher = matcher_open(grammar, &w.trie, NULL, &error);
    uint64_t *slow = calloc(mask_words(w.count), sizeof *slow);
    bool fits;
    CHECK(matcher && slow, "%s", error.message);
    for (int i = 0; i < DEPTH; i++) {
        const char *open = i % 3 ? "{a" : "[";
        CHECK(matcher_read(matcher, open, strlen(open), &fits, &error) && fits, "at %d", i);
        const uint64_t *mask = matcher_mask(matcher, &error);
        CHECK(mask, "%s", error.message);
        if (i % 1000) continue;
        CHECK(matcher_mask_slowly(matcher, &w.trie, slow, &error), "%s", error.message);
        CHECK(!memcmp(matcher_mask(matcher, &error), slow, mask_words(w.count) * sizeof *slow),
              "at depth %d", i);
    }
    CHECK(matcher_read(matcher, "{}", 2, &fits, &error) && fits, "the innermost");
    for (int i = DEPTH; i-- > 0;) {
        CHECK(!matcher_complete(matcher), "complete at %d", i);
        CHECK(matcher_read(matcher, i % 3 ? "}" : "]", 1, &fits, &error) && fits, "at %d", i);
    }
    CHECK(matcher_complete(matcher), "not complete");
    free(slow);
    matcher_close(matcher);
    grammar_close(grammar);
    free_words(&w);
}

Test(token_mask, ends_where_it_is_told_to) {
    Error error = {0};
    Words w = make_words(300, 6, 7);
    int stop = 1;
    Grammar *grammar = grammar_parse(JSON, strlen(JSON), &error);
    CHECK(!matcher_open(grammar, &w.trie, &stop, &error), "it went on");
    CHECK_INT(error.code, ERROR_INTERRUPTED);
    grammar_close(grammar);
    free_words(&w);
}
