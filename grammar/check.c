// What the graph as a whole shows: nodes that can match nothing, nodes whose end cannot be
// reached, rules that call themselves before they read a byte.
#include "grammar/internal.h"

#include <stdlib.h>

// ---- properties of nodes, the least ones that hold: rounds until none changes ----

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

static bool update(Grammar *g, Node *n) {
    bool empty = n->empty || node_empty(g, n), alive = n->alive || node_alive(g, n);
    bool changed = empty != n->empty || alive != n->alive;
    n->empty = empty;
    n->alive = alive;
    return changed;
}

// In a rule's nodes, what follows a part comes before it; and rules call later ones more often. So
// nodes forwards, and rules backwards in one round and forwards in the next, go far in each.
static void find_properties(Grammar *g, const Parsed *parsed) {
    size_t n_rules = parsed->rules.count;
    const ParsedRule *rules = parsed->rules.at;
    bool backwards = true;
    for (bool changed = true; changed; backwards = !backwards) {
        changed = update(g, &g->nodes.at[NODE_THE_RETURN]);
        for (size_t i = 0; i < n_rules; i++) {
            size_t rule = backwards ? n_rules - 1 - i : i;
            size_t end = rule + 1 < n_rules ? rules[rule + 1].first_node : g->nodes.count;
            for (size_t j = rules[rule].first_node; j < end; j++)
                changed |= update(g, &g->nodes.at[j]);
        }
    }
    // Where a body may match nothing, so may the lower bound's repetitions.
    for (size_t i = 0; i < g->nodes.count; i++)
        if (g->nodes.at[i].kind == NODE_COUNT && g->nodes.at[g->nodes.at[i].a].empty)
            g->nodes.at[i].least = 0;
}

// ---- left recursion ----

typedef struct Search {
    Grammar *grammar;
    bool *seen;           // (n_nodes)
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
    if (s->seen[node]) return true;
    s->seen[node] = true;
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
    find_properties(g, parsed);
    if (!check_recursion(g, parsed, error)) return false;
    return g->nodes.at[g->start].alive ||
           error_set(error, ERROR_FILE, "no text satisfies the grammar: its root never ends");
}
