// For texts with a bound on their tokens: grammar/masks.h says how they keep to it.
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

// Bytes of a completion, which is read for every token of a text: a millisecond. A text that needs
// more is not held to a bound.
enum { LONGEST = 1 << 14 };
// Nodes of the trie and bytes of completions that one narrowing may read, and the memory of states
// found before it gives up: some tenths of a second. Of JSON and 151,669 tokens it reads some ten
// thousand.
enum { MOST_WORK = 1 << 22, MOST_BYTES = 128 << 20 };

// ---- nodes ----

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static uint32_t node_shortest(const Grammar *g, const Node *n) {
    const Node *nodes = g->nodes.at;
    uint32_t found = NO_END;
    switch (n->kind) {
    case NODE_RETURN: return 0;
    case NODE_SPLIT: return least(nodes[n->a].shortest, nodes[n->b].shortest);
    case NODE_CALL: return bytes_plus(nodes[g->starts[n->a]].shortest, nodes[n->b].shortest);
    case NODE_COUNT:
        found = n->least ? bytes_times(nodes[n->a].shortest, n->least) : 0;
        return bytes_plus(found, nodes[n->b].shortest);
    default: break;
    }
    for (uint32_t i = 0; i < n->b; i++)
        found = least(found, nodes[g->edges.at[n->a + i].to].shortest);
    return bytes_plus(found, 1);
}

static bool improve(Grammar *g, size_t node) {
    Node *n = &g->nodes.at[node];
    uint32_t found = node_shortest(g, n), before = n->shortest;
    n->shortest = found;
    return found < before;
}

// What follows a node comes before it, and the rule that it calls before or behind: sweeps go both
// ways. Each finds those of one more level of rules at least, so there are no more than rules.
void grammar_find_shortest(Grammar *g) {
    size_t count = g->nodes.count;
    for (size_t i = 0; i < count; i++)
        g->nodes.at[i].shortest = NO_END;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < count; i++)
            changed = improve(g, i) || changed;
        for (size_t i = count; i-- > 0;)
            changed = improve(g, i) || changed;
    }
}

// ---- the completion of a state ----

void shortest_free(Shortest *s) {
    free(s->tokens);
    free(s->text.at);
    *s = (Shortest){0};
}

static uint32_t place_needs(const Automaton *m, uint64_t place) {
    return bytes_plus(m->grammar->nodes.at[(uint32_t)place].shortest,
                      m->frames.at[place >> 32].needs);
}

static uint32_t state_needs(const Automaton *m, uint32_t state) {
    const State *s = &m->states.at[state];
    uint32_t found = s->ends ? 0 : NO_END;
    for (uint32_t i = 0; i < s->count; i++)
        found = least(found, place_needs(m, m->places.at[s->first + i]));
    return found;
}

// The first byte of the completion, of a state that needs so many: of the edges that lead to one
// less, the least.
static uint8_t next_byte(const Automaton *m, uint32_t state, uint32_t needs) {
    const Grammar *g = m->grammar;
    const State *s = &m->states.at[state];
    uint8_t found = UINT8_MAX;
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t place = m->places.at[s->first + i];
        const Node *n = &g->nodes.at[(uint32_t)place];
        if (place_needs(m, place) != needs) continue;
        for (const Edge *e = &g->edges.at[n->a], *end = e + n->b; e < end; e++)
            if (g->nodes.at[e->to].shortest + 1 == n->shortest && e->low < found) found = e->low;
    }
    return found;
}

static bool take_work(Shortest *s, Error *error) {
    bool left = s->work-- > 0 && automaton_bytes(s->automaton) <= MOST_BYTES;
    return left || error_set(error, ERROR_FILE,
                             "the grammar is too ambiguous: the ends of its texts differ "
                             "behind too many tokens");
}

// Into s->text. `needs`: of the state.
static bool complete(Shortest *s, uint32_t state, uint32_t needs, Error *error) {
    for (s->text.count = 0; needs; needs--) {
        uint8_t byte = next_byte(s->automaton, state, needs);
        if (!take_work(s, error) || !ARRAY_ROOM(&s->text, error)) return false;
        s->text.at[s->text.count++] = (char)byte;
        if (!automaton_move(s->automaton, state, byte, &state, error)) return false;
    }
    return true;
}

// The length of the longest token that the text begins with; 0: none does.
static size_t longest_token(const Trie *t, const char *text, size_t length) {
    const TrieNode *nodes = t->nodes;
    size_t found = 0;
    uint32_t node = 0;
    for (size_t depth = 1; depth <= length; depth++) {
        uint32_t child = node + 1, end = nodes[node].skip;
        while (child < end && (uint8_t)nodes[child].place != (uint8_t)text[depth - 1])
            child = nodes[child].skip;
        if (child >= end) break;
        node = child;
        if (nodes[node].first < nodes[node + 1].first) found = depth;
    }
    return found;
}

static uint32_t cut(const Trie *trie, const char *text, size_t length) {
    uint32_t tokens = 0;
    for (size_t at = 0, taken; at < length; at += taken, tokens++)
        if (!(taken = longest_token(trie, text + at, length - at))) return MATCHER_ENDLESS;
    return tokens;
}

static bool room_for_states(Shortest *s, uint32_t state, Error *error) {
    if (state < s->capacity) return true;
    size_t capacity = s->automaton->states.capacity;
    uint32_t *tokens = realloc(s->tokens, capacity * sizeof *tokens);
    if (!tokens) return error_set(error, ERROR_MEMORY, "no memory for the states of a grammar");
    memset(tokens + s->capacity, 0xff, (capacity - s->capacity) * sizeof *tokens);
    s->tokens = tokens;
    s->capacity = capacity;
    return true;
}

// Without reading it where it has too many bytes for `most` tokens.
static bool find_tokens(Shortest *s, uint32_t state, uint32_t most, uint32_t *tokens,
                        Error *error) {
    if (!room_for_states(s, state, error)) return false;
    if (s->tokens[state] == NOT_KNOWN) {
        uint32_t needs = state_needs(s->automaton, state);
        *tokens = MATCHER_ENDLESS;
        if (needs > (uint64_t)most * s->trie->depth) return true;
        if (needs <= LONGEST && !complete(s, state, needs, error)) return false;
        s->tokens[state] = needs <= LONGEST ? cut(s->trie, s->text.at, needs) : MATCHER_ENDLESS;
    }
    *tokens = s->tokens[state] <= most ? s->tokens[state] : MATCHER_ENDLESS;
    return true;
}

bool shortest_tokens(Shortest *s, uint32_t state, uint32_t most, uint32_t *tokens, Error *error) {
    Error cause = {0};
    s->work = MOST_WORK;
    if (find_tokens(s, state, most, tokens, &cause)) return true;
    if (cause.code != ERROR_FILE) return error_copy(error, &cause);
    *tokens = s->tokens[state] = MATCHER_ENDLESS; // not again
    return true;
}

// ---- the tokens of a mask ----

static bool any_of(const Trie *t, uint32_t node, const uint64_t *mask) {
    for (uint32_t i = t->nodes[node].first; i < t->nodes[node + 1].first; i++)
        if (mask[t->ids[i] / 64] >> t->ids[i] % 64 & 1) return true;
    return false;
}

// path (depth + 1): the state at each depth.
static bool narrow(Shortest *s, const Trie *t, uint32_t left, uint32_t *path, uint64_t *mask,
                   Error *error) {
    for (uint32_t i = 1, next; i < t->n_nodes; i = next) {
        const TrieNode *n = &t->nodes[i];
        uint32_t depth = trie_depth(n), tokens, *to = &path[depth];
        if (!take_work(s, error) ||
            !automaton_move(s->automaton, path[depth - 1], (uint8_t)n->place, to, error))
            return false;
        next = *to == STATE_DEAD ? n->skip : i + 1;
        if (*to == STATE_DEAD || !any_of(t, i, mask)) continue;
        if (!find_tokens(s, *to, left, &tokens, error)) return false;
        for (uint32_t k = n->first; tokens > left && k < n[1].first; k++)
            mask[t->ids[k] / 64] &= ~((uint64_t)1 << t->ids[k] % 64);
    }
    return true;
}

bool shortest_narrow(Shortest *s, const Trie *trie, uint32_t state, uint32_t left, uint64_t *mask,
                     Error *error) {
    uint32_t *path = malloc((trie->depth + 1) * sizeof *path);
    if (!path) return error_set(error, ERROR_MEMORY, "no memory for a grammar's mask");
    path[0] = state;
    s->work = MOST_WORK;
    bool good = narrow(s, trie, left, path, mask, error);
    free(path);
    return good;
}
