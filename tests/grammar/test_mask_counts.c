// Masks of counted repetitions, against a reading of the grammar that shares nothing with
// grammar/: random grammars are written as GBNF and, with every repetition written out, as a
// nondeterministic automaton over bytes, which reads each token by itself.
#include "base/buffer.h"
#include "base/hash.h"
#include "grammar/masks.h"
#include "tests/test.h"

enum { MOST_STATES = 3000, MOST_EDGES = 40000, MOST_EXPRS = 200, WORDS = MOST_STATES / 64 + 1 };

// ---- a random grammar ----

typedef enum Kind { LITERAL, CLASS, SEQUENCE, CHOICE, REPEAT, RULE } Kind;

typedef struct RandomExpr {
    Kind kind;
    int a, b;        // parts; of LITERALS or CLASSES
    int least, most; // of a repetition; most: -1, none
} RandomExpr;

typedef struct Writer {
    RandomExpr exprs[MOST_EXPRS];
    int count;
    Buffer rules; // of GBNF, but root
    uint64_t random;
} Writer;

static const char *const LITERALS[] = {"a", "b", "ab", ", ", "é", "€", " ", "aab"};

// GBNF, and the byte sequences: ranges of up to four bytes, as many as there are.
static const struct {
    const char *text;
    const char *sequences; // low high low high / ...
} CLASSES[] = {
    {"[ab]", "ab"},
    {"[a-c ]", "ac/  "},
    {"[aé€]", "aa/\xc3\xc3\xa9\xa9/\xe2\xe2\x82\x82\xac\xac"},
    {"[à-ÿ]", "\xc3\xc3\xa0\xbf"},
    {"[^a,]", "\x01+/-`/b\x7f/\xc2\xdf\x80\xbf/\xe0\xe0\xa0\xbf\x80\xbf/\xe1\xec\x80\xbf\x80\xbf/"
              "\xed\xed\x80\x9f\x80\xbf/\xee\xef\x80\xbf\x80\xbf/\xf0\xf0\x90\xbf\x80\xbf\x80\xbf/"
              "\xf1\xf3\x80\xbf\x80\xbf\x80\xbf/\xf4\xf4\x80\x8f\x80\xbf\x80\xbf"},
};

static int choose(Writer *w, int n) {
    return (int)(splitmix64(&w->random) % (uint64_t)n);
}

static int write_expr(Writer *w, Buffer *out, int depth);

static RandomExpr write_repeat(Writer *w, Buffer *out, int depth) {
    RandomExpr e = {.kind = REPEAT};
    buffer_print(out, "(");
    e.a = write_expr(w, out, depth - 1);
    e.least = choose(w, 3) ? choose(w, 10) : choose(w, 2);
    e.most = choose(w, 4) ? e.least + choose(w, 9) : -1;
    if (e.most == 0) e.most = 1;
    if (e.most < 0)
        buffer_print(out, "){%d,}", e.least);
    else
        buffer_print(out, "){%d,%d}", e.least, e.most);
    return e;
}

static RandomExpr write_two(Writer *w, Buffer *out, int depth) {
    RandomExpr e = {.kind = choose(w, 3) ? SEQUENCE : CHOICE};
    buffer_print(out, "(");
    e.a = write_expr(w, out, depth - 1);
    buffer_print(out, e.kind == CHOICE ? " | " : " ");
    e.b = write_expr(w, out, depth - 1);
    buffer_print(out, ")");
    return e;
}

// It calls itself, so that it is no copy, behind a byte that no token has.
static RandomExpr write_rule(Writer *w, Buffer *out, int depth) {
    RandomExpr e = {.kind = RULE};
    Buffer rule = {0};
    e.a = write_expr(w, &rule, depth - 1);
    buffer_print(&w->rules, "r%d ::= %.*s | \"\\x01\" r%d\n", e.a, (int)rule.size,
                 (const char *)rule.bytes, e.a);
    buffer_print(out, "r%d", e.a);
    buffer_free(&rule);
    return e;
}

static int write_expr(Writer *w, Buffer *out, int depth) {
    RandomExpr e = {.kind = CLASS, .a = choose(w, sizeof CLASSES / sizeof *CLASSES)};
    int kind = depth ? choose(w, 10) : choose(w, 2);
    if (kind == 0)
        e = (RandomExpr){LITERAL, choose(w, sizeof LITERALS / sizeof *LITERALS), 0, 0, 0};
    if (kind >= 2 && kind <= 5) e = write_repeat(w, out, depth);
    if (kind >= 6 && kind <= 7) e = write_two(w, out, depth);
    if (kind >= 8) e = write_rule(w, out, depth);
    if (e.kind == CLASS) buffer_print(out, "%s", CLASSES[e.a].text);
    if (e.kind == LITERAL) buffer_print(out, "\"%s\"", LITERALS[e.a]);
    w->exprs[w->count] = e;
    return w->count++;
}

// ---- written out ----

typedef struct Arrow {
    uint8_t low, high; // low > high: without reading
    int to;
} Arrow;

// The arrows of state i are first[i] .. first[i + 1]; state 0 is the end.
typedef struct Plain {
    Arrow arrows[MOST_EDGES];
    int first[MOST_STATES + 2], n_states, n_arrows;
    bool too_large;
} Plain;

static void add_arrow(Plain *p, int low, int high, int to) {
    if (p->n_arrows == MOST_EDGES)
        p->too_large = true;
    else
        p->arrows[p->n_arrows++] = (Arrow){(uint8_t)low, (uint8_t)high, to};
    p->first[p->n_states] = p->n_arrows;
}

// A new state; its arrows are added before the next one is.
static int add_state(Plain *p) {
    if (p->n_states == MOST_STATES)
        p->too_large = true;
    else
        p->first[++p->n_states] = p->n_arrows;
    return p->n_states - 1;
}

static int plain_bytes(Plain *p, const char *bytes, size_t pairs, int next) {
    for (size_t i = pairs; i-- > 0;) {
        int state = add_state(p);
        add_arrow(p, (uint8_t)bytes[2 * i], (uint8_t)bytes[2 * i + 1], next);
        next = state;
    }
    return next;
}

static int plain_either(Plain *p, int a, int b) {
    int state = add_state(p);
    add_arrow(p, 1, 0, a);
    add_arrow(p, 1, 0, b);
    return state;
}

static int plain_class(Plain *p, const char *sequences, int next) {
    int start = -1;
    for (const char *at = sequences; *at;) {
        size_t length = strcspn(at + 1, "/") + 1; // '/' is never a first bound
        int one = plain_bytes(p, at, length / 2, next);
        start = start < 0 ? one : plain_either(p, one, start);
        at += length + (at[length] == '/');
    }
    return start;
}

static int plain_expr(Plain *p, const Writer *w, int index, int next);

static int plain_repeat(Plain *p, const Writer *w, const RandomExpr *e, int next) {
    int start = next;
    if (e->most < 0) { // a loop, whose way back is the first arrow of its state
        start = plain_either(p, next, next);
        int at = p->first[start], body = plain_expr(p, w, e->a, start);
        if (!p->too_large) p->arrows[at].to = body;
    }
    for (int i = e->most - e->least; i > 0 && !p->too_large; i--)
        start = plain_either(p, plain_expr(p, w, e->a, start), next);
    for (int i = 0; i < e->least && !p->too_large; i++)
        start = plain_expr(p, w, e->a, start);
    return start;
}

static int plain_expr(Plain *p, const Writer *w, int index, int next) {
    const RandomExpr *e = &w->exprs[index];
    if (p->too_large) return 0;
    char pairs[16];
    switch (e->kind) {
    case LITERAL:
        for (size_t i = 0; i < 2 * strlen(LITERALS[e->a]); i++)
            pairs[i] = LITERALS[e->a][i / 2];
        return plain_bytes(p, pairs, strlen(LITERALS[e->a]), next);
    case CLASS: return plain_class(p, CLASSES[e->a].sequences, next);
    case SEQUENCE: return plain_expr(p, w, e->a, plain_expr(p, w, e->b, next));
    case CHOICE: return plain_either(p, plain_expr(p, w, e->a, next), plain_expr(p, w, e->b, next));
    case REPEAT: return plain_repeat(p, w, e, next);
    default: return plain_expr(p, w, e->a, next);
    }
}

typedef struct Reached {
    uint64_t bits[WORDS];
    int list[MOST_STATES], count;
} Reached;

static void reach(const Plain *p, Reached *r, int state) {
    int todo[MOST_STATES], n = 0;
    if (!(r->bits[state / 64] >> state % 64 & 1)) todo[n++] = state;
    if (n) r->bits[state / 64] |= (uint64_t)1 << state % 64;
    while (n) {
        state = todo[--n];
        r->list[r->count++] = state;
        for (int i = p->first[state]; i < p->first[state + 1]; i++) {
            int to = p->arrows[i].to;
            if (p->arrows[i].low <= p->arrows[i].high || r->bits[to / 64] >> to % 64 & 1) continue;
            r->bits[to / 64] |= (uint64_t)1 << to % 64;
            todo[n++] = to;
        }
    }
}

// Every state leads to the end, so a text may go on where any state is reached.
static bool plain_read(const Plain *p, Reached *r, const char *bytes, size_t length) {
    for (size_t i = 0; i < length && r->count; i++) {
        static Reached next;
        memset(next.bits, 0, sizeof next.bits);
        next.count = 0;
        for (int j = 0; j < r->count; j++)
            for (int k = p->first[r->list[j]]; k < p->first[r->list[j] + 1]; k++) {
                const Arrow *a = &p->arrows[k];
                if (a->low <= (uint8_t)bytes[i] && (uint8_t)bytes[i] <= a->high)
                    reach(p, &next, a->to);
            }
        *r = next;
    }
    return r->count;
}

// ---- both, along a text ----

typedef struct Words {
    TextSpan tokens[600];
    size_t count;
    Trie trie;
    char bytes[600][24];
} Words;

static void make_words(Words *w, uint64_t seed) {
    static const char *const PARTS[] = {"a",    "a", "a",  "b",  "b",    " ",
                                        ", ",   "é", "€",  "à",  "\xc3", "\xe2\x82",
                                        "\xac", "c", "aa", "ab", "x",    "\xf0\x9f\x98\x80"};
    for (w->count = 0; w->count < 600; w->count++) {
        char *bytes = w->bytes[w->count];
        size_t length = 0, parts = w->count < 20 ? 1 : splitmix64(&seed) % 9;
        for (size_t i = 0; i < parts && length < 20; i++) {
            const char *part = PARTS[splitmix64(&seed) % (sizeof PARTS / sizeof *PARTS)];
            if (w->count % 7 == 6) part = w->count % 2 ? "a" : "b ";
            memcpy(bytes + length, part, strlen(part));
            length += strlen(part);
        }
        w->tokens[w->count] = (TextSpan){bytes, length};
    }
    CHECK(trie_open(&w->trie, w->tokens, w->count, NULL), "no trie");
}

// How much of grammar/mask.c the grammars reach.
typedef struct Seen {
    size_t masks, refused, behind, leaves, ambiguous, larger, read;
} Seen;

static void count_seen(const Masks *k, Seen *seen) {
    for (size_t i = 0; i < k->locals.count; i++) {
        const Local *l = k->locals.at[i];
        seen->behind += l->key.parent != NOT_KNOWN;
        seen->leaves += l->leaves.n_levels > 1;
        seen->ambiguous += l->too_ambiguous;
        const State *s = &k->automaton->states.at[l->key.state];
        uint32_t frame = s->count ? (uint32_t)(k->automaton->places.at[s->first] >> 32) : 0;
        seen->larger += frame && !(k->automaton->frames.at[frame].node & FRAME_KINDS);
    }
}

// False: the end of the text, or a limit.
static bool check_mask(Masks *k, const Plain *p, const Words *w, uint32_t *state, Reached *at,
                       uint64_t *random, const char *text, Seen *seen) {
    Error error = {0};
    const uint64_t *mask = masks_of(k, *state, &error);
    CHECK(mask || error.code == ERROR_FILE, "%s", error.message);
    seen->refused += !mask;
    if (!mask) return false;
    seen->masks++;
    seen->read += k->is_cut;
    size_t n_allowed = 0, chosen = 0;
    for (size_t i = 0; i < w->count; i++) {
        static Reached behind;
        behind = *at;
        bool wanted =
            w->tokens[i].length && plain_read(p, &behind, w->tokens[i].text, w->tokens[i].length);
        CHECK((mask[i / 64] >> i % 64 & 1) == wanted, "%s: token \"%s\": wanted %d (read %zu)",
              text, w->tokens[i].text, wanted, k->most_read);
        if (wanted && splitmix64(random) % ++n_allowed == 0) chosen = i;
    }
    if (!n_allowed) return false;
    plain_read(p, at, w->tokens[chosen].text, w->tokens[chosen].length);
    for (size_t i = 0; i < w->tokens[chosen].length; i++) {
        uint8_t byte = (uint8_t)w->tokens[chosen].text[i];
        bool moved = automaton_move(k->automaton, *state, byte, state, &error);
        CHECK(moved || error.code == ERROR_FILE, "%s", error.message);
        seen->refused += !moved;
        if (!moved) return false;
    }
    return true;
}

static void check_text(const Grammar *g, const Plain *p, int start, const Words *w, uint64_t seed,
                       const char *text, Seen *seen) {
    static const size_t READ[] = {0, 5, 400}, WORK[] = {0, 2, 20, 100};
    Automaton m;
    Masks k;
    Error error = {0};
    static Reached at;
    uint32_t state;
    memset(&at, 0, sizeof at);
    reach(p, &at, start);
    CHECK(automaton_open(&m, g, NULL, &error) && masks_open(&k, &m, &w->trie, &error));
    k.most_read = READ[seed % 3];
    if (seed % 5 < 4 && WORK[seed % 5]) k.most_work = WORK[seed % 5];
    CHECK(automaton_start(&m, &state, &error), "%s", error.message);
    if (seed % 2) CHECK(masks_prepare(&k, state, &error), "%s", error.message);
    for (int step = 0; step < 20; step++)
        if (!check_mask(&k, p, w, &state, &at, &seed, text, seen)) break;
    count_seen(&k, seen);
    masks_free(&k);
    automaton_free(&m);
}

static void check_grammar(const Words *w, uint64_t seed, Seen *seen) {
    static Writer writer;
    static Plain plain;
    Buffer text = {0};
    Error error = {0};
    writer = (Writer){.random = seed};
    buffer_print(&text, "root ::= ");
    int root = write_expr(&writer, &text, 5);
    buffer_print(&text, "\n%.*s", (int)writer.rules.size, (const char *)writer.rules.bytes);
    plain.n_states = plain.n_arrows = 0;
    plain.too_large = false;
    plain.first[0] = 0;
    int start = plain_expr(&plain, &writer, root, add_state(&plain));
    if (!plain.too_large) {
        Grammar *g = grammar_parse((const char *)text.bytes, text.size, &error);
        CHECK(g, "%.*s: %s", (int)text.size, (const char *)text.bytes, error.message);
        buffer_print(&text, "%c", 0);
        check_text(g, &plain, start, w, seed, (const char *)text.bytes, seen);
        grammar_close(g);
    }
    buffer_free(&text);
    buffer_free(&writer.rules);
}

Test(mask_counts, are_those_of_a_grammar_written_out) {
    static Words w;
    Seen seen = {0};
    for (uint64_t seed = 1; seed <= 600; seed++) {
        if (seed % 100 == 1) {
            trie_close(&w.trie);
            make_words(&w, seed);
        }
        check_grammar(&w, seed, &seen);
    }
    trie_close(&w.trie);
    printf("%zu masks, %zu refused; locals: %zu behind others, %zu that are left, %zu of more "
           "frames, %zu too ambiguous; %zu masks read from all stacks at once\n",
           seen.masks, seen.refused, seen.behind, seen.leaves, seen.larger, seen.ambiguous,
           seen.read);
    CHECK(seen.masks > 2000 && seen.refused < 100 && seen.behind > 100 && seen.leaves > 100 &&
          seen.larger > 100 && seen.read > 100);
}
