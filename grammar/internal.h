// The graph that a grammar becomes, and the tree between. Nothing outside grammar/ includes
// this file, except tests.
//
//     root ::= "a" x+        x ::= [0-9] | "(" root ")"
//
//     CALL x        pushes where to go on, and goes to the start of x
//     RETURN        the end of a rule: goes on where the top of the stack says
//     COUNT         begins a body that is repeated least .. most times: its place on the stack has
//                   a counter, and the body's RETURN comes back to it
//     SPLIT         goes both ways
//     BYTES         reads one byte: edges [low, high] -> node
//
// `*`, `+` and `?` are SPLITs. Rules without loops are copied to where they are called, so that a
// stack changes seldom; grammar/mask.c lives off that.
//
// Equal nodes are one node, but for the SPLIT of a loop, which is completed later: what follows the
// characters in the strings of two rules is computed once.
#pragma once

#include "base/hash.h"
#include "base/text.h"
#include "grammar/grammar.h"

// ---- the tree ----

typedef enum ExprKind {
    EXPR_EMPTY,
    EXPR_LITERAL,    // bytes of Parsed.bytes
    EXPR_CHARACTERS, // one character of Parsed.ranges
    EXPR_SEQUENCE,
    EXPR_CHOICE,
    EXPR_REPEAT,
    EXPR_RULE,
} ExprKind;

enum { NONE = UINT32_MAX, UNBOUNDED = UINT32_MAX, NO_END = UINT32_MAX };

typedef struct Expr {
    ExprKind kind;
    uint32_t begin, count; // of bytes or ranges
    uint32_t child, next;  // the first part, the next one beside it; NONE
    uint32_t least, most;  // of a repetition; most: UNBOUNDED
    uint32_t rule;
} Expr;

typedef struct Range { // of code points, both included
    uint32_t low, high;
} Range;

typedef struct ParsedRule {
    TextSpan name;    // of the grammar's text
    size_t line;      // where it is defined, else first named
    uint32_t expr;    // NONE: not defined
    double size;      // nodes of a copy; infinite where it has a loop
    uint8_t visiting; // of a search
} ParsedRule;

// An array that grows.
#define ARRAY(Type)                                                                                \
    struct {                                                                                       \
        Type *at;                                                                                  \
        size_t count, capacity;                                                                    \
    }

typedef struct Parsed {
    ARRAY(Expr) exprs;
    ARRAY(ParsedRule) rules;
    ARRAY(Range) ranges;
    ARRAY(char) bytes;
    uint32_t root;
} Parsed;

// Room for another element; `at` is the address of the array's pointer, of whatever type. False:
// exit code 5.
bool array_room(void *at, size_t *capacity, size_t count, size_t size, Error *error);
#define ARRAY_ROOM(array, error)                                                                   \
    array_room(&(array)->at, &(array)->capacity, (array)->count, sizeof *(array)->at, error)

// gbnf.c. False: exit code 3 or 5; `parsed` is to be freed either way.
bool gbnf_parse(Parsed *parsed, const char *text, size_t size, Error *error);
void parsed_free(Parsed *parsed);

// ---- the graph ----

typedef enum NodeKind { NODE_RETURN, NODE_BYTES, NODE_SPLIT, NODE_CALL, NODE_COUNT } NodeKind;

typedef struct Node {
    uint8_t kind;
    bool alive;    // its RETURN can be reached
    bool empty;    // without reading a byte
    uint32_t a, b; // SPLIT: both ways. CALL: a rule, and the node behind. COUNT: the body, and
                   // the node behind. BYTES: the first edge, and how many
    uint32_t least, most; // COUNT
    uint32_t like;        // COUNT: the first with the same a and b, whatever its bounds
    uint32_t shortest;    // the fewest bytes up to the RETURN (shortest.c); NO_END: none reach it
} Node;

typedef struct Edge {
    uint8_t low, high;
    uint32_t to;
} Edge;

enum { NODE_THE_RETURN = 0 }; // one is enough

typedef struct ByteSet {
    uint64_t bits[4];
} ByteSet;

struct Grammar {
    ARRAY(Node) nodes;
    ARRAY(Edge) edges;
    ByteSet *begins;      // (n_nodes) bytes that each may begin with; owned
    ByteSet *follows;     // (n_nodes) bytes that may come behind the rule or body of each; owned
    uint32_t *starts;     // (n_rules) owned
    uint32_t start;       // of root
    uint8_t classes[256]; // bytes that no edge tells apart have the same number
    size_t n_classes;
    // Of the compilation. Counted are all nodes and edges, also those that equal others.
    size_t n_written_nodes, n_written_edges;
    uint32_t *table; // open addressing: number + 1
    HashKey key;
};

// characters.c: a BYTES node, and those behind it, that reads one character of the sorted ranges in
// UTF-8 and goes on at `next`. False: exit code 3 (too many nodes) or 5.
bool characters_compile(Grammar *grammar, const Range *ranges, size_t count, uint32_t next,
                        uint32_t *start, Error *error);

// compile.c: a node, or the one that equals it. The edges of a BYTES node are those added last.
// False: exit code 3 (too many, equal ones counted) or 5.
bool grammar_add_node(Grammar *grammar, Node node, uint32_t *index, Error *error);
bool grammar_add_edge(Grammar *grammar, uint8_t low, uint8_t high, uint32_t to, Error *error);
// check.c: what the whole graph shows: which nodes are alive, left recursion. False: exit code
// 3 or 5.
bool grammar_check(Grammar *grammar, Parsed *parsed, Error *error);
// follow.c. The Grammar's `begins`: first of BYTES nodes, then each of the others updated from what
// it leads to (true: it has more than before), until none changes; then `follows`. False: exit
// code 5.
bool byte_set_add(ByteSet *to, const ByteSet *from); // true: it has more than before
ByteSet byte_set_common(const ByteSet *a, const ByteSet *b);
int byte_set_take(ByteSet *set); // the least byte, which the set loses; -1: it is empty
bool grammar_begin_begins(Grammar *grammar, Error *error);
bool grammar_update_begins(Grammar *grammar, size_t node);
bool grammar_find_follows(Grammar *grammar, Error *error);
// shortest.c: `shortest` of all nodes.
void grammar_find_shortest(Grammar *grammar);
// Sums of bytes; NO_END from NO_END on.
static inline uint32_t bytes_plus(uint32_t a, uint64_t b) {
    return b < NO_END - a ? a + (uint32_t)b : NO_END;
}
static inline uint32_t bytes_times(uint32_t a, uint32_t count) {
    return bytes_plus(0, (uint64_t)a * count);
}
