// Sets of characters as edges over bytes of UTF-8.
//
//     [é-€]   U+E9 .. U+20AC   ->   C3 [A9-BF] | [C4-DF] [80-BF]
//                                   | E0 [A0-BF] [80-BF] | E1 [80-BF] [80-BF] | E2 [80-82] ..
//
// A range of code points is cut until the bytes of each part are independent: every byte of it has
// a range of its own. Bytes that no character has (C0, C1, surrogates, beyond U+10FFFF) are on no
// edge, so what a grammar allows is always UTF-8.
#include "grammar/internal.h"

#include <stdlib.h>

typedef struct Compiler {
    Grammar *grammar;
    uint32_t next;
    uint32_t tails[4];  // [n]: a node that reads any n continuation bytes, then is at `next`; NONE
    ARRAY(Edge) first;  // of the node that reads the first byte
    ARRAY(Range) parts; // still to be cut
    Error *error;
} Compiler;

static bool add_part(Compiler *c, uint32_t low, uint32_t high) {
    if (low > high) return true;
    if (!ARRAY_ROOM(&c->parts, c->error)) return false;
    c->parts.at[c->parts.count++] = (Range){low, high};
    return true;
}

// A node with one edge.
static bool byte_node(Compiler *c, uint8_t low, uint8_t high, uint32_t to, uint32_t *node) {
    uint32_t edge = (uint32_t)c->grammar->edges.count;
    return grammar_add_edge(c->grammar, low, high, to, c->error) &&
           grammar_add_node(c->grammar, (Node){.kind = NODE_BYTES, .a = edge, .b = 1}, node,
                            c->error);
}

// A part whose bytes are independent: from the last byte to the first.
static bool put_part(Compiler *c, Range part) {
    char low[4], high[4];
    size_t length = utf8_encode(low, part.low);
    utf8_encode(high, part.high);
    uint32_t to = c->next;
    bool any = true; // all bytes so far are any continuation byte
    for (size_t i = length - 1; i > 0; i--) {
        uint8_t from = (uint8_t)low[i], upto = (uint8_t)high[i];
        any = any && from == 0x80 && upto == 0xbf;
        uint32_t *tail = &c->tails[length - i];
        if (any && *tail != NONE) {
            to = *tail;
            continue;
        }
        if (!byte_node(c, from, upto, to, &to)) return false;
        if (any) *tail = to;
    }
    if (!ARRAY_ROOM(&c->first, c->error)) return false;
    c->first.at[c->first.count++] = (Edge){(uint8_t)low[0], (uint8_t)high[0], to};
    return true;
}

// Cuts at the ends of a length, around the surrogates, and where a byte but the last would carry.
// *cut: it was cut, into parts that are added.
static bool cut_part(Compiler *c, Range part, bool *cut) {
    static const uint32_t LAST[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff};
    *cut = true;
    for (size_t i = 0; i < sizeof LAST / sizeof *LAST; i++)
        if (part.low <= LAST[i] && part.high > LAST[i])
            return add_part(c, LAST[i] + 1, part.high) && add_part(c, part.low, LAST[i]);
    if (part.low >= 0xd800 && part.high <= 0xdfff) return true; // no characters
    for (uint32_t bits = 6; bits <= 18 && part.high > 0x7f; bits += 6) {
        uint32_t mask = (1u << bits) - 1;
        if ((part.low & ~mask) == (part.high & ~mask)) continue;
        if (part.low & mask)
            return add_part(c, (part.low | mask) + 1, part.high) &&
                   add_part(c, part.low, part.low | mask);
        if ((part.high & mask) != mask)
            return add_part(c, part.high & ~mask, part.high) &&
                   add_part(c, part.low, (part.high & ~mask) - 1);
    }
    *cut = false;
    return true;
}

static bool put_all(Compiler *c, uint32_t *start) {
    bool cut;
    while (c->parts.count) {
        Range part = c->parts.at[--c->parts.count];
        if (!cut_part(c, part, &cut) || (!cut && !put_part(c, part))) return false;
    }
    uint32_t edge = (uint32_t)c->grammar->edges.count;
    for (size_t i = 0; i < c->first.count; i++) {
        Edge e = c->first.at[i];
        if (!grammar_add_edge(c->grammar, e.low, e.high, e.to, c->error)) return false;
    }
    Node node = {.kind = NODE_BYTES, .a = edge, .b = (uint32_t)c->first.count};
    return grammar_add_node(c->grammar, node, start, c->error);
}

bool characters_compile(Grammar *grammar, const Range *ranges, size_t count, uint32_t next,
                        uint32_t *start, Error *error) {
    Compiler c = {.grammar = grammar, .next = next, .error = error};
    bool good = true;
    for (int i = 0; i < 4; i++)
        c.tails[i] = NONE;
    for (size_t i = 0; good && i < count; i++)
        good = add_part(&c, ranges[i].low, ranges[i].high);
    good = good && put_all(&c, start);
    free(c.first.at);
    free(c.parts.at);
    return good;
}
