// What the graph as a whole shows: nodes that can match nothing, nodes whose end cannot be
// reached, rules that call themselves before they read a byte.
#include "grammar/internal.h"

#include <stdlib.h>

// ---- properties of nodes, the least ones that hold ----

static bool node_empty(const Grammar *g, const Node *n) {
    const Node *nodes = g->nodes.at;
    switch (n->kind) {
    case NODE_RETURN: return true;
    case NODE_SPLIT: return nodes[n->a].empty || nodes[n->b].empty;
    case NODE_CALL: return nodes[g->starts[n->a]].empty && nodes[n->b].empty;
    case NODE_COUNT: return (!n->least || nodes[n->a].empty) && nodes[n->b].empty;
    default: return false;
    }
}

static bool node_alive(const Grammar *g, const Node *n) {
    const Node *nodes = g->nodes.at;
    switch (n->kind) {
    case NODE_RETURN: return true;
    case NODE_SPLIT: return nodes[n->a].alive || nodes[n->b].alive;
    case NODE_CALL: return nodes[g->starts[n->a]].alive && nodes[n->b].alive;
    case NODE_COUNT: return (!n->least || nodes[n->a].alive) && nodes[n->b].alive;
    default: break;
    }
    for (uint32_t i = 0; i < n->b; i++)
        if (nodes[g->edges.at[n->a + i].to].alive) return true;
    return false;
}

static bool update(Grammar *g, size_t node) {
    Node *n = &g->nodes.at[node];
    bool empty = n->empty || node_empty(g, n), alive = n->alive || node_alive(g, n);
    bool changed = empty != n->empty || alive != n->alive;
    n->empty = empty;
    n->alive = alive;
    return grammar_update_begins(g, node) || changed;
}

// The i-th node that those of n depend on; NONE: there are no more.
static uint32_t used_by(const Grammar *g, const Node *n, uint32_t i) {
    switch (n->kind) {
    case NODE_RETURN: return NONE;
    case NODE_SPLIT:
    case NODE_COUNT: return i == 0 ? n->a : i == 1 ? n->b : NONE;
    case NODE_CALL: return i == 0 ? g->starts[n->a] : i == 1 ? n->b : NONE;
    default: return i < n->b ? g->edges.at[n->a + i].to : NONE;
    }
}

// Which nodes depend on a node: users[from[node] .. from[node + 1]).
typedef struct Users {
    uint32_t *from, *users, *todo;
    bool *waits; // in `todo`
} Users;

static void users_free(Users *u) {
    free(u->from);
    free(u->users);
    free(u->todo);
    free(u->waits);
}

static bool find_users(Users *u, const Grammar *g) {
    size_t n_nodes = g->nodes.count, n_uses = 0;
    u->from = calloc(n_nodes + 2, sizeof *u->from);
    u->todo = malloc(n_nodes * sizeof *u->todo);
    u->waits = malloc(n_nodes * sizeof *u->waits);
    if (!u->from || !u->todo || !u->waits) return false;
    // Shifted by two at first, and by one after `users` has been filled.
    uint32_t used;
    for (size_t node = 0; node < n_nodes; node++)
        for (uint32_t i = 0; (used = used_by(g, &g->nodes.at[node], i)) != NONE; i++, n_uses++)
            u->from[used + 2]++;
    for (size_t node = 2; node < n_nodes + 2; node++)
        u->from[node] += u->from[node - 1];
    u->users = malloc((n_uses + 1) * sizeof *u->users);
    for (uint32_t node = 0; u->users && node < n_nodes; node++)
        for (uint32_t i = 0; (used = used_by(g, &g->nodes.at[node], i)) != NONE; i++)
            u->users[u->from[used + 1]++] = node;
    return u->users;
}

// All nodes, and again those that depend on one that changed: each changes twice at most, and where
// it begins with more bytes. In a rule's nodes what follows a part comes before it, so the first
// come first.
static bool find_properties(Grammar *g, Error *error) {
    Users u = {0};
    size_t count = g->nodes.count;
    bool good = find_users(&u, g) || error_set(error, ERROR_MEMORY, "no memory for a grammar");
    for (size_t i = 0; good && i < count; i++) {
        u.todo[i] = (uint32_t)(count - 1 - i);
        u.waits[i] = true;
    }
    while (good && count) {
        uint32_t node = u.todo[--count];
        u.waits[node] = false;
        if (!update(g, node)) continue;
        for (uint32_t i = u.from[node]; i < u.from[node + 1]; i++) {
            if (u.waits[u.users[i]]) continue;
            u.waits[u.users[i]] = true;
            u.todo[count++] = u.users[i];
        }
    }
    users_free(&u);
    // Where a body may match nothing, so may the lower bound's repetitions.
    for (size_t i = 0; good && i < g->nodes.count; i++)
        if (g->nodes.at[i].kind == NODE_COUNT && g->nodes.at[g->nodes.at[i].a].empty)
            g->nodes.at[i].least = 0;
    return good;
}

// ---- left recursion ----

typedef struct Search {
    Grammar *grammar;
    uint32_t rule;        // whose calls are looked for
    uint32_t *seen;       // (n_nodes) 1 + the last rule that reached each: rules share nodes
    ARRAY(uint32_t) todo; // nodes, then the path of rules
    ARRAY(uint32_t) calls;
    uint32_t *from; // (n_rules + 1) the calls of rule i: from[i] .. from[i + 1]
    uint32_t *at;   // (n_rules) the call that the search of a rule has reached
    Error *error;
} Search;

static bool push(Search *s, uint32_t value) {
    if (!ARRAY_ROOM(&s->todo, s->error)) return false;
    s->todo.at[s->todo.count++] = value;
    return true;
}

static bool visit(Search *s, uint32_t node) {
    if (s->seen[node] == s->rule + 1) return true;
    s->seen[node] = s->rule + 1;
    return push(s, node);
}

// The rules that are called before a byte is read, from this start on.
static bool find_calls(Search *s, uint32_t start) {
    const Grammar *g = s->grammar;
    bool good = visit(s, start);
    while (good && s->todo.count) {
        const Node *n = &g->nodes.at[s->todo.at[--s->todo.count]];
        switch (n->kind) {
        case NODE_SPLIT: good = visit(s, n->a) && visit(s, n->b); break;
        case NODE_COUNT:
            good = visit(s, n->a) && ((n->least && !g->nodes.at[n->a].empty) || visit(s, n->b));
            break;
        case NODE_CALL:
            good = ARRAY_ROOM(&s->calls, s->error);
            if (good) s->calls.at[s->calls.count++] = n->a;
            if (good && g->nodes.at[g->starts[n->a]].empty) good = visit(s, n->b);
            break;
        default: break;
        }
    }
    return good;
}

static bool refuse(const ParsedRule *rule, Error *error) {
    char name[60];
    return error_set(error, ERROR_FILE,
                     "line %zu: rule \"%s\" is left-recursive: it calls itself before it reads a "
                     "character",
                     rule->line,
                     escape_bytes(name, sizeof name, rule->name.text, rule->name.length));
}

// Depth first over the calls: one that leads back to a rule on the path closes a circle.
static bool follow_calls(Search *s, Parsed *parsed, uint32_t root) {
    enum { NEW, OPEN, CLOSED };
    ParsedRule *rules = parsed->rules.at;
    if (rules[root].visiting != NEW) return true;
    rules[root].visiting = OPEN;
    if (!push(s, root)) return false;
    while (s->todo.count) {
        uint32_t rule = s->todo.at[s->todo.count - 1];
        if (s->at[rule] == s->from[rule + 1]) {
            rules[rule].visiting = CLOSED;
            s->todo.count--;
            continue;
        }
        uint32_t called = s->calls.at[s->at[rule]++];
        if (rules[called].visiting == OPEN) return refuse(&rules[called], s->error);
        if (rules[called].visiting == CLOSED) continue;
        rules[called].visiting = OPEN;
        if (!push(s, called)) return false;
    }
    return true;
}

static bool check_recursion(Grammar *g, Parsed *parsed, Error *error) {
    size_t n_rules = parsed->rules.count;
    Search s = {.grammar = g, .error = error};
    s.seen = calloc(g->nodes.count, sizeof *s.seen);
    s.from = calloc(n_rules + 1, sizeof *s.from);
    s.at = calloc(n_rules, sizeof *s.at);
    bool good = s.seen && s.from && s.at;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for a grammar");
    for (size_t i = 0; good && i < n_rules; i++) {
        s.from[i] = s.at[i] = (uint32_t)s.calls.count;
        s.rule = (uint32_t)i;
        good = find_calls(&s, g->starts[i]);
    }
    if (good) s.from[n_rules] = (uint32_t)s.calls.count;
    for (size_t i = 0; good && i < n_rules; i++)
        good = follow_calls(&s, parsed, (uint32_t)i);
    free(s.seen);
    free(s.from);
    free(s.at);
    free(s.todo.at);
    free(s.calls.at);
    return good;
}

bool grammar_check(Grammar *g, Parsed *parsed, Error *error) {
    if (!grammar_begin_begins(g, error) || !find_properties(g, error) ||
        !check_recursion(g, parsed, error) || !grammar_find_follows(g, error))
        return false;
    grammar_find_shortest(g);
    return g->nodes.at[g->start].alive ||
           error_set(error, ERROR_FILE, "no text satisfies the grammar: its root never ends");
}
