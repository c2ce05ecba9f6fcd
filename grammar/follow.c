// Which bytes may come behind the rule of a node, in any text: the FOLLOW sets of parsing tables
// (Aho, Sethi, Ullman: Compilers, 4.4), of nodes, since rules share them. grammar/locals.c passes
// over tokens that go on with another byte where a rule has ended: a name is not followed by a
// letter, so most tokens that begin with a name end with it too.
#include "grammar/internal.h"

#include <stdlib.h>

bool byte_set_add(ByteSet *to, const ByteSet *from) {
    uint64_t new = 0;
    for (int i = 0; i < 4; i++) {
        new |= from->bits[i] & ~to->bits[i];
        to->bits[i] |= from->bits[i];
    }
    return new;
}

ByteSet byte_set_common(const ByteSet *a, const ByteSet *b) {
    ByteSet set;
    for (int i = 0; i < 4; i++)
        set.bits[i] = a->bits[i] & b->bits[i];
    return set;
}

int byte_set_take(ByteSet *set) {
    for (int i = 0; i < 4; i++) {
        if (!set->bits[i]) continue;
        int byte = 64 * i + __builtin_ctzll(set->bits[i]);
        set->bits[i] &= set->bits[i] - 1;
        return byte;
    }
    return -1;
}

bool grammar_begin_begins(Grammar *g, Error *error) {
    g->begins = calloc(g->nodes.count, sizeof *g->begins);
    if (!g->begins) return error_set(error, ERROR_MEMORY, "no memory for a grammar");
    for (size_t i = 0; i < g->nodes.count; i++) {
        const Node *n = &g->nodes.at[i];
        if (n->kind != NODE_BYTES) continue;
        for (const Edge *e = &g->edges.at[n->a], *end = e + n->b; e < end; e++)
            for (int byte = e->low; byte <= e->high; byte++)
                g->begins[i].bits[byte / 64] |= (uint64_t)1 << byte % 64;
    }
    return true;
}

bool grammar_update_begins(Grammar *g, size_t node) {
    const Node *n = &g->nodes.at[node];
    if (n->kind == NODE_RETURN || n->kind == NODE_BYTES) return false;
    uint32_t first = n->kind == NODE_CALL ? g->starts[n->a] : n->a; // what comes before n->b
    bool passes =
        n->kind == NODE_SPLIT || g->nodes.at[first].empty || (n->kind == NODE_COUNT && !n->least);
    bool changed = byte_set_add(&g->begins[node], &g->begins[first]);
    return (passes && byte_set_add(&g->begins[node], &g->begins[n->b])) || changed;
}

typedef struct Follows {
    Grammar *grammar;
    uint32_t *todo; // (n_nodes)
    bool *waits;    // (n_nodes) in `todo`
    size_t count;
} Follows;

static void add(Follows *f, uint32_t node, const ByteSet *set) {
    if (!byte_set_add(&f->grammar->follows[node], set) || f->waits[node]) return;
    f->waits[node] = true;
    f->todo[f->count++] = node;
}

static void spread(Follows *f, uint32_t node) {
    const Grammar *g = f->grammar;
    const Node *n = &g->nodes.at[node];
    ByteSet after = g->follows[node], inside = {0};
    switch (n->kind) {
    case NODE_RETURN: return;
    case NODE_BYTES:
        for (const Edge *e = &g->edges.at[n->a], *end = e + n->b; e < end; e++)
            add(f, e->to, &after);
        return;
    case NODE_SPLIT: add(f, n->a, &after); break;
    default: // a rule or a body, and n->b behind it
        inside = g->begins[n->b];
        if (g->nodes.at[n->b].empty) byte_set_add(&inside, &after);
        if (n->kind == NODE_COUNT) byte_set_add(&inside, &g->begins[n->a]);
        add(f, n->kind == NODE_CALL ? g->starts[n->a] : n->a, &inside);
    }
    add(f, n->b, &after);
}

bool grammar_find_follows(Grammar *g, Error *error) {
    size_t count = g->nodes.count;
    Follows f = {.grammar = g};
    g->follows = calloc(count, sizeof *g->follows);
    f.todo = malloc(count * sizeof *f.todo);
    f.waits = malloc(count * sizeof *f.waits);
    bool good = g->follows && f.todo && f.waits;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for a grammar");
    for (; good && f.count < count; f.count++) {
        f.todo[f.count] = (uint32_t)f.count;
        f.waits[f.count] = true;
    }
    while (good && f.count) {
        uint32_t node = f.todo[--f.count];
        f.waits[node] = false;
        spread(&f, node);
    }
    free(f.todo);
    free(f.waits);
    return good;
}
