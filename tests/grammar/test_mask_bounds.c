// What masks of ambiguous grammars may take: memory, work, time until they stop; and the FOLLOW
// sets that make them small.
#include "base/buffer.h"
#include "base/hash.h"
#include "grammar/masks.h"
#include "tests/test.h"

// Runs of one byte, up to so many, which go deep down a stack; and others of the same bytes.
enum { MOST_RUN = 60, RUNS = 6 * MOST_RUN, FEW = 2000, OTHERS = 30000 };

typedef struct Runs {
    TextSpan tokens[RUNS + OTHERS];
    char bytes[6][MOST_RUN], others[OTHERS][16];
    size_t count;
    Trie trie;
} Runs;

static void make_runs(Runs *runs, size_t others) {
    uint64_t random = 3;
    for (int i = 0; i < 6; i++) {
        memset(runs->bytes[i], " =-(ax"[i], MOST_RUN);
        for (int length = 1; length <= MOST_RUN; length++)
            runs->tokens[i * MOST_RUN + length - 1] = (TextSpan){runs->bytes[i], (size_t)length};
    }
    runs->count = RUNS + others;
    for (size_t i = 0; i < others; i++) {
        size_t length = 2 + (size_t)(splitmix64(&random) % 14);
        for (size_t k = 0; k < length; k++)
            runs->others[i][k] = " =-(ax)]"[splitmix64(&random) % 8];
        runs->tokens[RUNS + i] = (TextSpan){runs->others[i], length};
    }
    CHECK(trie_open(&runs->trie, runs->tokens, runs->count, NULL), "no trie");
}

// Every mask of this text, which is that of reading all tokens, where these are few. Returns the
// most work of one.
static size_t check_bounds(const Runs *runs, const Grammar *g, const char *text, int times,
                           Masks *k, Automaton *m) {
    Error error = {0};
    uint32_t state;
    uint64_t slow[(RUNS + FEW) / 64 + 1] = {0};
    size_t words = mask_words(runs->count), length = strlen(text);
    CHECK(automaton_open(m, g, NULL, &error) && masks_open(k, m, &runs->trie, &error), "%s",
          error.message);
    CHECK(automaton_start(m, &state, &error) && masks_prepare(k, state, &error), "%s",
          error.message);
    size_t work = 0;
    for (int i = 0; i < times; i++) {
        size_t before = masks_work(k), unbounded = SIZE_MAX;
        const uint64_t *mask = masks_of(k, state, &error);
        CHECK(mask, "byte %d: %s", i, error.message);
        if (masks_work(k) - before > work) work = masks_work(k) - before;
        memset(slow, 0, sizeof slow);
        bool compared = runs->count <= RUNS + FEW;
        CHECK(!compared || masks_walk(m, &runs->trie, state, &unbounded, slow, &error), "%s",
              error.message);
        CHECK(!compared || !memcmp(mask, slow, words * sizeof *slow), "the mask before byte %d", i);
        uint8_t byte = (uint8_t)text[(size_t)i % length];
        CHECK(automaton_move(m, state, byte, &state, &error) && state != STATE_DEAD, "%s",
              error.message);
    }
    return work;
}

static void free_both(Masks *k, Automaton *m) {
    masks_free(k);
    automaton_free(m);
}

// Names that may end at every byte, and begin one in the other: as many ways as there are numbers.
Test(mask_bounds, take_frames_in_proportion_to_the_text) {
    static const char *const GRAMMARS[] = {
        "root ::= e\ne ::= [a-z] | \"-\" e | e2 e\ne2 ::= [a-z] e? | \"(\" e \")\"",
        "root ::= s\ns ::= \"a\" s s | \"b\" s | \"a\"",
        "root ::= s\ns ::= \"a\" | \"a\" s s | \"a\" s s s",
        "root ::= s\ns ::= \"a\" s s | [a-z] | [a-y] s \"!\" s | \"a\"",
    };
    static Runs runs;
    make_runs(&runs, 0);
    for (size_t i = 0; i < sizeof GRAMMARS / sizeof *GRAMMARS; i++) {
        Masks k;
        Automaton m;
        Grammar *g = grammar_parse(GRAMMARS[i], strlen(GRAMMARS[i]), NULL);
        size_t work = check_bounds(&runs, g, "a", 90, &k, &m);
        printf("%zu frames, %zu states, at most %zu of work\n", m.frames.count, m.states.count,
               work);
        CHECK(m.frames.count < 90000 && work < 1 << 20, "%s: %zu frames, %zu of work", GRAMMARS[i],
              m.frames.count, work);
        free_both(&k, &m);
        grammar_close(g);
    }
    trie_close(&runs.trie);
}

// Down a stack of such rules there are 2^60 ways. Joins end where their work or memory does.
Test(mask_bounds, take_bounded_memory) {
    static Runs runs;
    Buffer text = {0};
    Masks k;
    Automaton m;
    make_runs(&runs, OTHERS);
    buffer_print(&text, "root ::= y c0\ny ::= \" \" | \"(\" y \")\"\n");
    for (int i = 0; i < 60; i++)
        buffer_print(&text, "c%d ::= c%d ([ =] | [ -]) | \"(\" c%d \")\"\n", i, i + 1, i);
    buffer_print(&text, "c60 ::= \" \" | \"(\" c60 \")\"%c", 0);
    Grammar *g = grammar_parse((const char *)text.bytes, text.size - 1, NULL);
    check_bounds(&runs, g, " ((((", 5, &k, &m);
    printf("%zu bytes of masks, %zu of states\n", k.bytes, automaton_bytes(&m));
    CHECK(k.bytes < 80 << 20 && automaton_bytes(&m) < 250 << 20, "%zu and %zu bytes", k.bytes,
          automaton_bytes(&m));
    free_both(&k, &m);
    grammar_close(g);
    buffer_free(&text);
    trie_close(&runs.trie);
}

// Every byte is in several rules, none of which says where it ends. A mask may be refused, but none
// takes long, nor does preparing; and what was left out then is not refused later.
Test(mask_bounds, take_bounded_work) {
    static const char GRAMMAR[] = "root ::= s \"1\" | v \"2\" | x \"3\"\n"
                                  "s ::= . s t | .\nt ::= . t s | [a-z] s s t | [a-y] t | .\n"
                                  "v ::= . v w | .\nw ::= . w v | [b-z] v v w | [b-y] w | .\n"
                                  "x ::= . x y | .\ny ::= . y x | [c-z] x x y | [c-y] y | .";
    static Runs runs;
    Error error = {0};
    make_runs(&runs, OTHERS);
    Masks k;
    Automaton m;
    uint32_t state;
    Grammar *g = grammar_parse(GRAMMAR, strlen(GRAMMAR), &error);
    CHECK(g && automaton_open(&m, g, NULL, &error) && masks_open(&k, &m, &runs.trie, &error) &&
              automaton_start(&m, &state, &error),
          "%s", error.message);
    size_t before = masks_work(&k), prepared, found = 0;
    CHECK(masks_prepare(&k, state, &error), "%s", error.message);
    prepared = masks_work(&k) - before;
    for (size_t i = 0; i < k.locals.count; i++)
        CHECK(!k.locals.at[i]->too_ambiguous, "local %zu of %zu", i, k.locals.count);
    for (int i = 0; i < 3; i++) {
        before = masks_work(&k);
        bool good = masks_of(&k, state, &error);
        CHECK(good || error.code == ERROR_FILE, "%s", error.message);
        if (masks_work(&k) - before > found) found = masks_work(&k) - before;
        printf("%d: mask %d, work %zu\n", i, good, masks_work(&k) - before);
        error = (Error){0};
        CHECK(automaton_move(&m, state, 'a', &state, &error), "%s", error.message);
    }
    printf("%zu of work to prepare, at most %zu for a mask\n", prepared, found);
    CHECK(prepared < 3 << 24 && found < 1 << 27, "%zu and %zu", prepared, found);
    free_both(&k, &m);
    grammar_close(g);
    trie_close(&runs.trie);
}

Test(mask_bounds, stop_when_they_are_told_to) {
    static const char GRAMMAR[] = "root ::= \"(\" root \")\" | \"(\" root \"]\" | [a-z]+";
    static Runs runs;
    make_runs(&runs, 0);
    int stop = 0;
    uint32_t state;
    Error error = {0};
    Automaton m;
    Masks k;
    Grammar *g = grammar_parse(GRAMMAR, strlen(GRAMMAR), &error);
    CHECK(g && automaton_open(&m, g, &stop, &error) && masks_open(&k, &m, &runs.trie, &error));
    CHECK(automaton_start(&m, &state, &error) && automaton_move(&m, state, '(', &state, &error));
    stop = 1;
    CHECK(!masks_of(&k, state, &error), "a mask");
    CHECK_INT(error.code, ERROR_INTERRUPTED);
    stop = 0;
    error = (Error){0};
    CHECK(masks_of(&k, state, &error), "%s", error.message);
    free_both(&k, &m);
    grammar_close(g);
    trie_close(&runs.trie);
}

// Most tokens go on behind the exits of what counts, and some do not.
Test(mask_bounds, hold_for_most_tokens_behind_a_repetition) {
    static const char GRAMMAR[] = "root ::= q t | \"<\" root \">\"\n"
                                  "q ::= ([^<] | \"<\" q \"]\"){1,3}\nt ::= [^<]+";
    static Runs runs;
    make_runs(&runs, FEW);
    Masks k;
    Automaton m;
    Grammar *g = grammar_parse(GRAMMAR, strlen(GRAMMAR), NULL);
    check_bounds(&runs, g, "a x", 6, &k, &m);
    free_both(&k, &m);
    grammar_close(g);
    trie_close(&runs.trie);
}

// ---- what may come behind a rule ----

static ByteSet set_of(const char *bytes) {
    ByteSet set = {0};
    for (; *bytes; bytes++)
        set.bits[(uint8_t)*bytes / 64] |= (uint64_t)1 << *bytes % 64;
    return set;
}

static bool within(const ByteSet *a, const ByteSet *b) {
    for (int i = 0; i < 4; i++)
        if (a->bits[i] & ~b->bits[i]) return false;
    return true;
}

// By hand: behind x come the ">" of another x, the "b" of root, and in y a "d" or the "c" before
// it.
Test(mask_bounds, exits_go_on_with_what_follows) {
    static const char GRAMMAR[] = "root ::= x \"b\" | \"(\" y \")\"\n"
                                  "x ::= \"<\" x \">\" | [m-z]+\n"
                                  "y ::= x [c]? \"d\" | \"[\" y \"]\"";
    static Runs runs;
    make_runs(&runs, FEW);
    Masks k;
    Automaton m;
    Grammar *g = grammar_parse(GRAMMAR, strlen(GRAMMAR), NULL);
    ByteSet wanted = set_of(">bcd"), of_y = set_of(")]");
    CHECK(!memcmp(&g->follows[g->starts[1]], &wanted, sizeof wanted));
    CHECK(!memcmp(&g->follows[g->starts[2]], &of_y, sizeof of_y));
    check_bounds(&runs, g, "xxxx", 4, &k, &m);
    wanted = set_of(">bcd)]");
    for (size_t i = 0; i < k.locals.count; i++)
        CHECK(within(&k.locals.at[i]->exits.bytes, &wanted), "local %zu", i);
    free_both(&k, &m);
    grammar_close(g);
    trie_close(&runs.trie);
}

static uint32_t call_of(const Grammar *g, uint32_t rule, int which) {
    uint32_t node = 0;
    while (g->nodes.at[node].kind != NODE_CALL || g->nodes.at[node].a != rule || which--)
        node++;
    return node;
}

// What stands on the bottom is a union of the frames of two rules: either may end.
Test(mask_bounds, all_frames_of_a_union_are_followed) {
    static const char GRAMMAR[] = "root ::= p \"1\" | q \"2\"\np ::= x \"b\" | \"(\" p \")\"\n"
                                  "q ::= x \"c\" | \"[\" q \"]\"\nx ::= \"<\" x \">\" | \"m\"";
    Error error = {0};
    Automaton m;
    Grammar *g = grammar_parse(GRAMMAR, strlen(GRAMMAR), &error);
    CHECK(g && automaton_open(&m, g, NULL, &error), "%s", error.message);
    Frame of_p = {.node = call_of(g, 3, 0)}, of_q = {.node = call_of(g, 3, 1)};
    Frame both = {.node = FRAME_UNION};
    uint32_t frame, state;
    ByteSet found, wanted = set_of("1)2]");
    CHECK(automaton_frame(&m, of_p, &both.below, &error) &&
          automaton_frame(&m, of_q, &both.count, &error) &&
          automaton_frame(&m, both, &frame, &error));
    uint64_t place = (uint64_t)frame << 32 | g->starts[3];
    CHECK(automaton_state(&m, &place, 1, 0, &state, &error) &&
          automaton_follows(&m, state, &found, &error));
    CHECK(!memcmp(&found, &wanted, sizeof found));
    automaton_free(&m);
    grammar_close(g);
}
