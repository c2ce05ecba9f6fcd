// Masks of ambiguous grammars, in which a text is on many stacks: random grammars against a table
// of what each rule derives from each part of a text (Cocke, Younger, Kasami), which shares nothing
// with grammar/.
#include "base/buffer.h"
#include "base/hash.h"
#include "grammar/masks.h"
#include "tests/test.h"

enum { MOST_RULES = 7, MOST_ALTERNATIVES = 3, MOST_SYMBOLS = 4, MOST_TEXT = 16, MOST_TOKENS = 60 };

// ---- a random grammar ----

typedef struct Symbol { // a byte low .. high, or, where low is 0, a rule; so many times
    char low, high;
    int rule, least, most;
} Symbol;

typedef struct Alternative {
    Symbol symbols[MOST_SYMBOLS];
    int count;
} Alternative;

typedef struct Rules {
    Alternative rules[MOST_RULES][MOST_ALTERNATIVES];
    int counts[MOST_RULES];
    int n;
} Rules;

static int choose(uint64_t *random, int n) {
    return (int)(splitmix64(random) % (uint64_t)n);
}

// No rule begins with itself: before the first byte only rules of a higher number come.
static Alternative random_alternative(uint64_t *random, int rule, int n) {
    Alternative a = {.count = 1 + choose(random, MOST_SYMBOLS)};
    bool has_byte = false;
    for (int i = 0; i < a.count; i++) {
        int lowest = has_byte ? 0 : rule + 1;
        Symbol s = {.low = (char)('a' + choose(random, 3)), .least = 1, .most = 1};
        s.high = s.low;
        if (choose(random, 4) == 0) s.low = 'a', s.high = 'b';
        if (lowest < n && choose(random, 2)) {
            s.low = s.high = 0;
            s.rule = lowest + choose(random, n - lowest);
        }
        if (choose(random, 5) == 0) {
            s.least = choose(random, 3);
            s.most = s.least + 1 + choose(random, 2);
        }
        has_byte = has_byte || (s.low && s.least);
        a.symbols[i] = s;
    }
    return a;
}

// The first alternative of each is one byte, so that every rule derives something.
static Rules random_rules(uint64_t *random) {
    Rules r = {.n = 2 + choose(random, MOST_RULES - 1)};
    for (int i = 0; i < r.n; i++) {
        r.counts[i] = 2 + choose(random, MOST_ALTERNATIVES - 1);
        for (int k = 0; k < r.counts[i]; k++)
            r.rules[i][k] = random_alternative(random, i, r.n);
        char byte = (char)('a' + choose(random, 3));
        r.rules[i][0] = (Alternative){.symbols = {{byte, byte, 0, 1, 1}}, .count = 1};
    }
    return r;
}

static void print_rules(const Rules *r, Buffer *out) {
    for (int i = 0; i < r->n; i++) {
        buffer_print(out, i ? "r%d ::=" : "root ::= r0\nr%d ::=", i);
        for (int k = 0; k < r->counts[i]; k++) {
            const Alternative *a = &r->rules[i][k];
            if (k) buffer_print(out, " |");
            for (int s = 0; s < a->count; s++) {
                Symbol symbol = a->symbols[s];
                if (symbol.low)
                    buffer_print(out, " [%c-%c]", symbol.low, symbol.high);
                else
                    buffer_print(out, " r%d", symbol.rule);
                if (symbol.least != 1 || symbol.most > 1)
                    buffer_print(out, "{%d,%d}", symbol.least, symbol.most);
            }
        }
        buffer_print(out, "\n");
    }
}

// ---- what rules derive ----

typedef struct Table {
    uint32_t ends[MOST_RULES][MOST_TEXT + 1]; // bit j: rule derives text[i .. j)
    bool begins[MOST_RULES][MOST_TEXT + 1];   // something that begins with text[i .. length)
} Table;

// What a symbol derives of the text from any of the places `from` on; *begins as in Table.
static uint32_t derive_once(const Table *t, Symbol symbol, const char *text, int length,
                            uint32_t from, bool *begins) {
    uint32_t ends = 0;
    for (int p = 0; p <= length; p++) {
        if (!(from >> p & 1)) continue;
        if (!symbol.low) ends |= t->ends[symbol.rule][p];
        if (p == length || (!symbol.low && t->begins[symbol.rule][p])) *begins = true;
        if (symbol.low && p < length && symbol.low <= text[p] && text[p] <= symbol.high)
            ends |= (uint32_t)2 << p;
    }
    return ends;
}

static uint32_t derive(const Table *t, const Alternative *a, const char *text, int length, int i,
                       bool *begins) {
    uint32_t at = (uint32_t)1 << i;
    for (int s = 0; s < a->count; s++) {
        uint32_t ends = a->symbols[s].least ? 0 : at;
        for (int times = 1; times <= a->symbols[s].most; times++) {
            at = derive_once(t, a->symbols[s], text, length, at, begins);
            if (times >= a->symbols[s].least) ends |= at;
        }
        at = ends;
    }
    if (at >> length & 1) *begins = true;
    return at;
}

static void fill_table(const Rules *r, Table *t, const char *text, int length) {
    *t = (Table){0};
    for (bool changed = true; changed;) {
        changed = false;
        for (int rule = 0; rule < r->n; rule++)
            for (int i = 0; i <= length; i++) {
                uint32_t ends = t->ends[rule][i];
                bool begins = t->begins[rule][i];
                for (int k = 0; k < r->counts[rule]; k++)
                    ends |= derive(t, &r->rules[rule][k], text, length, i, &begins);
                changed |= ends != t->ends[rule][i] || begins != t->begins[rule][i];
                t->ends[rule][i] = ends;
                t->begins[rule][i] = begins;
            }
    }
}

// ---- both, along a text ----

typedef struct Words {
    TextSpan tokens[MOST_TOKENS];
    char bytes[MOST_TOKENS][8];
    Trie trie;
} Words;

static void make_words(Words *w, uint64_t seed) {
    for (int i = 0; i < MOST_TOKENS; i++) {
        size_t length = i < 3 ? 1 : (size_t)choose(&seed, 7);
        for (size_t k = 0; k < length; k++)
            w->bytes[i][k] = (char)('a' + choose(&seed, 3));
        if (i < 3) w->bytes[i][0] = (char)('a' + i);
        w->tokens[i] = (TextSpan){w->bytes[i], length};
    }
    CHECK(trie_open(&w->trie, w->tokens, MOST_TOKENS, NULL), "no trie");
}

typedef struct Seen {
    size_t masks, refused, allowed, unions, joined, ends;
} Seen;

static void count_seen(const Masks *k, Seen *seen) {
    const Automaton *m = k->automaton;
    for (size_t i = 1; i < m->frames.count; i++)
        seen->unions += m->frames.at[i].node == FRAME_UNION;
    for (size_t i = 0; i < k->locals.count; i++)
        seen->joined += k->locals.at[i]->n_parts > 1;
}

// The token that the text goes on with; -1: none, or a limit.
static int check_mask(Masks *k, uint32_t state, const Rules *rules, const Words *w, char *text,
                      int length, const char *written, uint64_t *random, Seen *seen) {
    static Table table;
    Error error = {0};
    const uint64_t *mask = masks_of(k, state, &error);
    CHECK(mask || error.code == ERROR_FILE, "%s", error.message);
    seen->refused += !mask;
    if (!mask) return -1;
    int n_allowed = 0, chosen = -1;
    for (int i = 0; i < MOST_TOKENS; i++) {
        TextSpan token = w->tokens[i];
        int both = length + (int)token.length;
        if (both > MOST_TEXT) continue;
        memcpy(text + length, token.text, token.length);
        fill_table(rules, &table, text, both);
        bool wanted = token.length && table.begins[0][0];
        CHECK((mask[i / 64] >> i % 64 & 1) == wanted, "%s\"%.*s\": token \"%.*s\": wanted %d",
              written, length, text, (int)token.length, token.text, wanted);
        seen->allowed += wanted;
        if (wanted && choose(random, ++n_allowed) == 0) chosen = i;
    }
    fill_table(rules, &table, text, length);
    uint32_t ends = k->automaton->states.at[state].ends;
    CHECK_INT(ends, table.ends[0][0] >> length & 1);
    seen->masks++;
    seen->ends += ends;
    return chosen;
}

static void check_text(Masks *k, uint32_t state, const Rules *rules, const Words *w,
                       const char *written, uint64_t *random, Seen *seen) {
    char text[MOST_TEXT + 8];
    int length = 0, chosen;
    Error error = {0};
    while ((chosen = check_mask(k, state, rules, w, text, length, written, random, seen)) >= 0) {
        TextSpan token = w->tokens[chosen];
        memcpy(text + length, token.text, token.length);
        for (int end = length + (int)token.length; length < end; length++) {
            if (automaton_move(k->automaton, state, (uint8_t)text[length], &state, &error))
                continue;
            CHECK(error.code == ERROR_FILE, "%s", error.message);
            seen->refused++;
            return;
        }
    }
}

static void check_grammar(const Words *w, uint64_t seed, Seen *seen) {
    static const size_t READ[] = {0, 3, 400};
    uint64_t random = seed;
    Rules rules = random_rules(&random);
    Buffer written = {0};
    Error error = {0};
    Automaton m;
    Masks k;
    uint32_t state;
    print_rules(&rules, &written);
    Grammar *g = grammar_parse((const char *)written.bytes, written.size, &error);
    buffer_print(&written, "%c", 0);
    CHECK(g, "%s: %s", (const char *)written.bytes, error.message);
    CHECK(automaton_open(&m, g, NULL, &error) && masks_open(&k, &m, &w->trie, &error));
    k.most_read = READ[seed % 3];
    CHECK(automaton_start(&m, &state, &error), "%s", error.message);
    if (seed % 2) CHECK(masks_prepare(&k, state, &error), "%s", error.message);
    check_text(&k, state, &rules, w, (const char *)written.bytes, &random, seen);
    count_seen(&k, seen);
    masks_free(&k);
    automaton_free(&m);
    grammar_close(g);
    buffer_free(&written);
}

Test(mask_stacks, are_those_of_a_table_of_derivations) {
    static Words w;
    Seen seen = {0};
    for (uint64_t seed = 421; seed <= 660; seed++) {
        if (seed % 60 == 1) {
            trie_close(&w.trie);
            make_words(&w, seed);
        }
        check_grammar(&w, seed, &seen);
    }
    trie_close(&w.trie);
    printf("%zu masks, %zu refused, %zu tokens allowed, %zu complete texts; %zu unions of stacks, "
           "%zu locals of "
           "several parts\n",
           seen.masks, seen.refused, seen.allowed, seen.ends, seen.unions, seen.joined);
    CHECK(seen.masks > 500 && seen.refused < 30 && seen.ends > 100 && seen.unions > 1000 &&
          seen.joined > 1000);
}

// ---- texts that could be on ever more stacks ----

static bool is_palindrome(uint32_t bits, int length) {
    for (int i = 0; i < length / 2; i++)
        if ((bits >> i & 1) != (bits >> (length - 1 - i) & 1)) return false;
    return true;
}

// Any place may be the middle of a palindrome.
Test(mask_stacks, read_palindromes) {
    static const char PALINDROME[] = "root ::= \"a\" root \"a\" | \"b\" root \"b\" | [ab] | \"\"";
    Error error = {0};
    Grammar *g = grammar_parse(PALINDROME, strlen(PALINDROME), &error);
    Automaton m;
    CHECK(g && automaton_open(&m, g, NULL, &error), "%s", error.message);
    for (int length = 0; length <= 12; length++)
        for (uint32_t bits = 0; bits < (uint32_t)1 << length; bits++) {
            uint32_t state;
            CHECK(automaton_start(&m, &state, &error));
            for (int i = 0; i < length; i++)
                CHECK(automaton_move(&m, state, bits >> i & 1 ? 'b' : 'a', &state, &error));
            CHECK(m.states.at[state].ends == is_palindrome(bits, length), "%x of %d", bits, length);
        }
    automaton_free(&m);
    grammar_close(g);
}

// Each bracket may be closed in two ways: 2^n stacks behind n of them, which one frame for each
// stands for.
Test(mask_stacks, of_brackets_that_close_in_two_ways) {
    enum { DEPTH = 3000 };
    static const char BRACKETS[] = "root ::= \"(\" root \")\" | \"(\" root \"]\" | \"x\"";
    Error error = {0};
    Grammar *g = grammar_parse(BRACKETS, strlen(BRACKETS), &error);
    Automaton m;
    uint32_t state, wrong;
    uint64_t random = 5;
    CHECK(g && automaton_open(&m, g, NULL, &error), "%s", error.message);
    CHECK(automaton_start(&m, &state, &error), "%s", error.message);
    for (int i = 0; i < DEPTH; i++)
        CHECK(automaton_move(&m, state, '(', &state, &error), "%s", error.message);
    CHECK(m.frames.count < 4 * DEPTH, "%zu frames", m.frames.count);
    CHECK(automaton_move(&m, state, 'x', &state, &error), "%s", error.message);
    for (int i = 0; i < DEPTH; i++) {
        CHECK(!m.states.at[state].ends && automaton_move(&m, state, 'x', &wrong, &error) &&
              wrong == STATE_DEAD);
        CHECK(automaton_move(&m, state, choose(&random, 2) ? ')' : ']', &state, &error), "%s",
              error.message);
    }
    CHECK(m.states.at[state].ends && automaton_move(&m, state, ')', &wrong, &error) &&
          wrong == STATE_DEAD);
    automaton_free(&m);
    grammar_close(g);
}

// ---- starting over ----

static Matcher *open_matcher(const Grammar *g, const Words *w) {
    Error error = {0};
    Matcher *m = matcher_open(g, &w->trie, NULL, &error);
    CHECK(m, "%s", error.message);
    return m;
}

// One keeps nothing but its state from mask to mask: the frames of unions, too.
static int check_kept(const Words *w, uint64_t seed) {
    uint64_t random = seed;
    Rules rules = random_rules(&random);
    Buffer written = {0};
    Error error = {0};
    print_rules(&rules, &written);
    Grammar *g = grammar_parse((const char *)written.bytes, written.size, &error);
    Matcher *forgets = open_matcher(g, w), *keeps = open_matcher(g, w);
    matcher_keep(forgets, 0);
    int n = 0;
    for (; n < 8; n++) {
        const uint64_t *kept = matcher_mask(keeps, &error);
        const uint64_t *found = kept ? matcher_mask(forgets, &error) : NULL;
        if (!found) break; // too ambiguous
        CHECK(!memcmp(found, kept, mask_words(MOST_TOKENS) * sizeof *kept), "%.*s: token %d",
              (int)written.size, (const char *)written.bytes, n);
        int n_allowed = 0, chosen = -1;
        for (int i = 0; i < MOST_TOKENS; i++)
            if (kept[i / 64] >> i % 64 & 1 && choose(&random, ++n_allowed) == 0) chosen = i;
        if (chosen < 0) break;
        TextSpan token = w->tokens[chosen];
        bool fits[2];
        if (!matcher_read(keeps, token.text, token.length, &fits[0], &error) ||
            !matcher_read(forgets, token.text, token.length, &fits[1], &error))
            break;
        CHECK(fits[0] && fits[1] && matcher_complete(keeps) == matcher_complete(forgets));
    }
    CHECK(!error.code || error.code == ERROR_FILE, "%s", error.message);
    matcher_close(forgets);
    matcher_close(keeps);
    grammar_close(g);
    buffer_free(&written);
    return n;
}

Test(mask_stacks, are_the_same_where_a_matcher_starts_over) {
    static Words w;
    int n = 0;
    make_words(&w, 9);
    for (uint64_t seed = 1; seed <= 200; seed++)
        n += check_kept(&w, seed);
    trie_close(&w.trie);
    CHECK(n > 800, "%d masks", n);
}
