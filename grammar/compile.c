// Tree -> graph, from the end to the beginning: each part gets the node where it goes on.
//
//     "ab" x*      compile(x*, RETURN) = S: SPLIT(x -> S, RETURN)
//                  compile("ab", S)    = BYTES a -> BYTES b -> S
//
// A rule without loops is copied to where it is called, and a short repetition {m,n} is written
// out; both within COPY_NODES.
#include "grammar/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_NODES = 64, COPY_ROUNDS = 16, TABLE_SIZE = 2 * LIMIT_GRAMMAR_NODES };

typedef struct Compiler {
    Grammar *grammar;
    Parsed *parsed;
    Error *error;
} Compiler;

// The limits are of work too, so they count what equals others.
static bool count_node(Grammar *g, Error *error) {
    return g->n_written_nodes++ < LIMIT_GRAMMAR_NODES ||
           error_set(error, ERROR_FILE, "the grammar is too large: more than %d nodes",
                     LIMIT_GRAMMAR_NODES);
}

static bool append_node(Grammar *g, Node node, uint32_t *index, Error *error) {
    if (!ARRAY_ROOM(&g->nodes, error)) return false;
    *index = (uint32_t)g->nodes.count;
    g->nodes.at[g->nodes.count++] = node;
    return true;
}

static size_t hash_node(const Grammar *g, const Node *n) {
    uint32_t hash = keyed_hash_pair(&g->key, n->kind, n->b);
    hash = keyed_hash_pair(&g->key, hash, n->least);
    hash = keyed_hash_pair(&g->key, hash, n->most);
    if (n->kind != NODE_BYTES) return keyed_hash_pair(&g->key, hash, n->a);
    for (uint32_t i = 0; i < n->b; i++) { // none where a class has no character
        const Edge *e = &g->edges.at[n->a + i];
        hash = keyed_hash_pair(&g->key, hash, (uint32_t)(e->low << 8 | e->high));
        hash = keyed_hash_pair(&g->key, hash, e->to);
    }
    return hash;
}

static bool equal_nodes(const Grammar *g, const Node *x, const Node *y) {
    if (x->kind != y->kind || x->b != y->b || x->least != y->least || x->most != y->most)
        return false;
    if (x->kind != NODE_BYTES) return x->a == y->a;
    for (uint32_t i = 0; i < x->b; i++) {
        const Edge *e = &g->edges.at[x->a + i], *other = &g->edges.at[y->a + i];
        if (e->low != other->low || e->high != other->high || e->to != other->to) return false;
    }
    return true;
}

bool grammar_add_node(Grammar *g, Node node, uint32_t *index, Error *error) {
    size_t at = hash_node(g, &node) & (TABLE_SIZE - 1);
    if (!count_node(g, error)) return false;
    for (; g->table[at]; at = (at + 1) & (TABLE_SIZE - 1)) {
        *index = g->table[at] - 1;
        if (!equal_nodes(g, &node, &g->nodes.at[*index])) continue;
        if (node.kind == NODE_BYTES) g->edges.count -= node.b;
        return true;
    }
    g->table[at] = (uint32_t)g->nodes.count + 1;
    return append_node(g, node, index, error);
}

bool grammar_add_edge(Grammar *g, uint8_t low, uint8_t high, uint32_t to, Error *error) {
    // A class of hostile ranges has many edges for one node.
    if (g->n_written_edges++ == 4 * (size_t)LIMIT_GRAMMAR_NODES)
        return error_set(error, ERROR_FILE, "the grammar is too large: more than %d edges",
                         4 * LIMIT_GRAMMAR_NODES);
    if (!ARRAY_ROOM(&g->edges, error)) return false;
    g->edges.at[g->edges.count++] = (Edge){low, high, to};
    return true;
}

// ---- sizes ----

// Nodes of a copy, about, and at least 1 for each part, since that much work it is; infinite where
// there is a loop or a call that stays one.
static double size_of(const Parsed *p, uint32_t index) {
    const Expr *e = &p->exprs.at[index];
    double size = 1;
    switch (e->kind) {
    case EXPR_EMPTY: return 1;
    case EXPR_LITERAL: return e->count ? e->count : 1;
    case EXPR_CHARACTERS: return 1 + e->count;
    case EXPR_RULE: return p->rules.at[e->rule].size;
    case EXPR_REPEAT:
        if (!e->most) return 1;
        return e->most == UNBOUNDED ? INFINITY : (1 + size_of(p, e->child)) * e->most;
    case EXPR_SEQUENCE:
    case EXPR_CHOICE:
        for (uint32_t part = e->child; part != NONE; part = p->exprs.at[part].next)
            size += size_of(p, part);
    }
    return size;
}

// From the rules that call none upwards; those that are left out keep infinity, the recursive ones
// among them.
static void find_sizes(Parsed *p) {
    for (size_t i = 0; i < p->rules.count; i++)
        p->rules.at[i].size = INFINITY;
    bool changed = true;
    for (int round = 0; changed && round < COPY_ROUNDS; round++) {
        changed = false;
        for (size_t i = 0; i < p->rules.count; i++) {
            ParsedRule *rule = &p->rules.at[i];
            if (isfinite(rule->size)) continue;
            double size = size_of(p, rule->expr);
            if (size > COPY_NODES) continue;
            rule->size = size;
            changed = true;
        }
    }
}

// ---- parts ----

static bool compile(Compiler *c, uint32_t index, uint32_t next, uint32_t *start);

static bool split(Compiler *c, uint32_t a, uint32_t b, uint32_t *node) {
    return grammar_add_node(c->grammar, (Node){.kind = NODE_SPLIT, .a = a, .b = b}, node, c->error);
}

static bool compile_literal(Compiler *c, const Expr *e, uint32_t next, uint32_t *start) {
    for (uint32_t i = e->count; i-- > 0; next = *start) {
        uint8_t byte = (uint8_t)c->parsed->bytes.at[e->begin + i];
        Node node = {.kind = NODE_BYTES, .a = (uint32_t)c->grammar->edges.count, .b = 1};
        if (!grammar_add_edge(c->grammar, byte, byte, next, c->error) ||
            !grammar_add_node(c->grammar, node, start, c->error))
            return false;
    }
    return true;
}

// The list is linked forwards, and wanted backwards.
static bool compile_sequence(Compiler *c, const Expr *e, uint32_t next, uint32_t *start) {
    size_t count = 0;
    for (uint32_t part = e->child; part != NONE; part = c->parsed->exprs.at[part].next)
        count++;
    uint32_t *parts = malloc((count + 1) * sizeof *parts);
    if (!parts) return error_set(c->error, ERROR_MEMORY, "no memory for a grammar");
    size_t i = 0;
    for (uint32_t part = e->child; part != NONE; part = c->parsed->exprs.at[part].next)
        parts[i++] = part;
    bool good = true;
    *start = next;
    while (good && i-- > 0)
        good = compile(c, parts[i], *start, start);
    free(parts);
    return good;
}

static bool compile_choice(Compiler *c, const Expr *e, uint32_t next, uint32_t *start) {
    *start = NONE;
    for (uint32_t part = e->child; part != NONE; part = c->parsed->exprs.at[part].next) {
        uint32_t way;
        if (!compile(c, part, next, &way)) return false;
        if (*start == NONE)
            *start = way;
        else if (way != *start && !split(c, way, *start, start))
            return false;
    }
    return true;
}

// x* and x+: a node that goes to x, which comes back to it, or on. x+ begins with x.
static bool compile_loop(Compiler *c, const Expr *e, uint32_t next, uint32_t *start) {
    // A node of its own, since it changes once it is there.
    uint32_t loop = 0, body;
    Node node = {.kind = NODE_SPLIT, .a = next, .b = next};
    if (!count_node(c->grammar, c->error) || !append_node(c->grammar, node, &loop, c->error) ||
        !compile(c, e->child, loop, &body))
        return false;
    c->grammar->nodes.at[loop].a = body;
    *start = e->least ? body : loop;
    return true;
}

// Written out: x{1,3} is x (x (x)?)?
static bool compile_copies(Compiler *c, const Expr *e, uint32_t next, uint32_t *start) {
    *start = next;
    for (uint32_t i = e->most; i-- > 0;) {
        if (!compile(c, e->child, *start, start)) return false;
        if (i >= e->least && !split(c, *start, next, start)) return false;
    }
    return true;
}

// Whether it is nothing but the empty text, as far as is seen without following rules.
static bool is_empty(const Parsed *p, uint32_t index) {
    const Expr *e = &p->exprs.at[index];
    bool empty = e->kind == EXPR_EMPTY || (e->kind == EXPR_LITERAL && !e->count);
    if (e->kind == EXPR_REPEAT) return !e->most || is_empty(p, e->child);
    if (e->kind != EXPR_SEQUENCE && e->kind != EXPR_CHOICE) return empty;
    for (uint32_t part = e->child; part != NONE; part = p->exprs.at[part].next)
        if (!is_empty(p, part)) return false;
    return true;
}

static bool compile_repeat(Compiler *c, const Expr *e, uint32_t next, uint32_t *start) {
    if (!e->most || is_empty(c->parsed, e->child)) {
        *start = next;
        return true;
    }
    if (e->most == UNBOUNDED && e->least <= 1) return compile_loop(c, e, next, start);
    if (e->most <= 1 || (e->most != UNBOUNDED && size_of(c->parsed, e->child) * e->most <= 8))
        return compile_copies(c, e, next, start);
    uint32_t body;
    if (!compile(c, e->child, NODE_THE_RETURN, &body)) return false;
    Node count = {.kind = NODE_COUNT, .a = body, .b = next, .least = e->least, .most = e->most};
    return grammar_add_node(c->grammar, count, start, c->error);
}

static bool compile(Compiler *c, uint32_t index, uint32_t next, uint32_t *start) {
    const Expr *e = &c->parsed->exprs.at[index]; // which does not grow any more
    switch (e->kind) {
    case EXPR_EMPTY: *start = next; return true;
    case EXPR_LITERAL: return compile_literal(c, e, next, start);
    case EXPR_CHARACTERS:
        return characters_compile(c->grammar, c->parsed->ranges.at + e->begin, e->count, next,
                                  start, c->error);
    case EXPR_SEQUENCE: return compile_sequence(c, e, next, start);
    case EXPR_CHOICE: return compile_choice(c, e, next, start);
    case EXPR_REPEAT: return compile_repeat(c, e, next, start);
    case EXPR_RULE: break;
    }
    const ParsedRule *rule = &c->parsed->rules.at[e->rule];
    if (isfinite(rule->size)) return compile(c, rule->expr, next, start);
    return grammar_add_node(c->grammar, (Node){.kind = NODE_CALL, .a = e->rule, .b = next}, start,
                            c->error);
}

// ---- the whole ----

// Two bytes have the same number where every edge has both or neither.
static void find_classes(Grammar *g) {
    bool begins[257] = {true};
    for (size_t i = 0; i < g->edges.count; i++)
        begins[g->edges.at[i].low] = begins[g->edges.at[i].high + 1] = true;
    for (int byte = 0; byte < 256; byte++) {
        g->n_classes += begins[byte];
        g->classes[byte] = (uint8_t)(g->n_classes - 1);
    }
}

typedef struct Body {
    uint32_t a, b, node;
} Body;

static int by_body(const void *x, const void *y) {
    const Body *p = x, *q = y;
    if (p->a != q->a) return p->a < q->a ? -1 : 1;
    if (p->b != q->b) return p->b < q->b ? -1 : 1;
    return p->node < q->node ? -1 : 1;
}

// Node.like.
static bool find_likes(Grammar *g, Error *error) {
    size_t count = 0;
    Body *bodies = malloc(g->nodes.count * sizeof *bodies);
    if (!bodies) return error_set(error, ERROR_MEMORY, "no memory for a grammar");
    for (uint32_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i].kind == NODE_COUNT)
            bodies[count++] = (Body){g->nodes.at[i].a, g->nodes.at[i].b, i};
    qsort(bodies, count, sizeof *bodies, by_body);
    for (size_t i = 0, first = 0; i < count; i++) {
        if (bodies[i].a != bodies[first].a || bodies[i].b != bodies[first].b) first = i;
        g->nodes.at[bodies[i].node].like = bodies[first].node;
    }
    free(bodies);
    return true;
}

static bool compile_rules(Grammar *g, Parsed *parsed, Error *error) {
    Compiler c = {g, parsed, error};
    uint32_t end = 0;
    g->key = hash_key();
    g->table = calloc(TABLE_SIZE, sizeof *g->table);
    g->starts = malloc(parsed->rules.count * sizeof *g->starts);
    if (!g->table || !g->starts) return error_set(error, ERROR_MEMORY, "no memory for a grammar");
    if (!grammar_add_node(g, (Node){.kind = NODE_RETURN}, &end, error)) return false;
    find_sizes(parsed);
    for (size_t i = 0; i < parsed->rules.count; i++) {
        if (!compile(&c, parsed->rules.at[i].expr, end, &g->starts[i])) return false;
    }
    g->start = g->starts[parsed->root];
    free(g->table);
    g->table = NULL;
    find_classes(g);
    return find_likes(g, error) && grammar_check(g, parsed, error);
}

Grammar *grammar_parse(const char *text, size_t size, Error *error) {
    Parsed parsed = {0};
    Grammar *g = calloc(1, sizeof *g);
    if (!g) {
        error_set(error, ERROR_MEMORY, "no memory for a grammar");
        return NULL;
    }
    bool good = gbnf_parse(&parsed, text, size, error) && compile_rules(g, &parsed, error);
    parsed_free(&parsed);
    if (good) return g;
    grammar_close(g);
    return NULL;
}

void grammar_close(Grammar *g) {
    if (!g) return;
    free(g->nodes.at);
    free(g->edges.at);
    free(g->starts);
    free(g->begins);
    free(g->follows);
    free(g->table);
    free(g);
}
