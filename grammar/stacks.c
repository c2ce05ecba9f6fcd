// Where a grammar reads a text in several ways, each of them has a stack of its own, and in C every
// bracket is one of a call, of an expression or of a cast, so that the stacks would double with
// every bracket. So the places of one node become one, on a frame that stands for several:
//
//     node | x | ..        becomes        node | UNION | x | ..
//     node | y | ..                                    | y | ..
//
// and what comes on top of it is there once. It is the graph-structured stack of Tomita (Efficient
// Parsing for Natural Language, 1986). A union is a pair of frames, one of which may be a union,
// and equal ones have the same number, like all frames.
#include "grammar/automaton.h"

#include <stdlib.h>

// Frames that one stands for. More become several places.
enum { MOST_MEMBERS = 32 };

static bool is_union(const Automaton *m, uint32_t frame) {
    return frame != FRAME_BOTTOM && m->frames.at[frame].node == FRAME_UNION;
}

static int compare(uint32_t a, uint32_t b) {
    return (a > b) - (a < b);
}

static int compare_members(const void *left, const void *right) {
    const Member *a = left, *b = right;
    int order = compare(a->node, b->node);
    if (!order) order = compare(a->base, b->base);
    return order ? order : compare(a->frame, b->frame);
}

static bool add_member(Automaton *m, uint32_t node, uint32_t frame, Error *error) {
    if (!ARRAY_ROOM(&m->members, error)) return false;
    m->members.at[m->members.count++] = (Member){node, m->frames.at[frame].base, frame};
    return true;
}

static bool add_members(Automaton *m, uint64_t place, Error *error) {
    uint32_t node = (uint32_t)place, frame = (uint32_t)(place >> 32);
    for (; is_union(m, frame); frame = m->frames.at[frame].below)
        if (!add_member(m, node, m->frames.at[frame].count, error)) return false;
    return add_member(m, node, frame, error);
}

// In order, without doubles.
static void sort_members(Automaton *m) {
    Member *all = m->members.at;
    size_t kept = 0;
    if (m->members.count > 1) qsort(all, m->members.count, sizeof *all, compare_members);
    for (size_t i = 0; i < m->members.count; i++)
        if (!kept || compare_members(&all[i], &all[kept - 1])) all[kept++] = all[i];
    m->members.count = kept;
}

// How many of the first become one. What counts turns or repetitions is below all stacks of a
// union, and is the same one.
static size_t count_united(const Member *members, size_t count) {
    size_t n = 1;
    while (n < count && n < MOST_MEMBERS && members[n].node == members->node &&
           members[n].base == members->base)
        n++;
    return n;
}

// The frame that stands for these. The newest is on top, and what is below it is that of the text
// before.
static bool unite(Automaton *m, const Member *members, size_t n, uint32_t *frame, Error *error) {
    *frame = members->frame;
    for (size_t i = 1; i < n; i++) {
        Frame f = {.node = FRAME_UNION, .count = members[i].frame, .below = *frame};
        if (!automaton_frame(m, f, frame, error)) return false;
    }
    return true;
}

bool automaton_share(Automaton *m, uint64_t *places, size_t *count, Error *error) {
    m->members.count = 0;
    for (size_t i = 0; i < *count; i++)
        if (!add_members(m, places[i], error)) return false;
    m->n_followed += m->members.count - *count;
    sort_members(m);
    *count = 0;
    for (size_t i = 0, n; i < m->members.count; i += n) {
        const Member *first = m->members.at + i;
        uint32_t frame;
        n = count_united(first, m->members.count - i);
        if (!unite(m, first, n, &frame, error)) return false;
        places[(*count)++] = (uint64_t)frame << 32 | first->node;
    }
    return true;
}

// ---- what may come below ----

// Of what stands on the bottom: a frame, or a place.
static void add_follows(const Automaton *m, uint32_t frame, ByteSet *set) {
    const Grammar *g = m->grammar;
    uint32_t node = m->frames.at[frame].node;
    if (node != FRAME_LEFT && node & FRAME_OPEN)
        byte_set_add(set, &g->follows[g->nodes.at[node & ~FRAME_KINDS].b]);
    else if (!(node & FRAME_KINDS))
        byte_set_add(set, &g->follows[node]);
}

static bool add_frame(Automaton *m, uint32_t frame, Error *error) {
    if (frame == FRAME_BOTTOM) return true;
    return automaton_add(m, NODE_THE_RETURN, frame, error);
}

// Each frame once: the ways down a stack of unions are many.
bool automaton_follows(Automaton *m, uint32_t state, ByteSet *set, Error *error) {
    const State *s = &m->states.at[state];
    *set = (ByteSet){0};
    if (!automaton_begin_search(m, error)) return false;
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t place = m->places.at[s->first + i];
        if (place >> 32 == FRAME_BOTTOM) byte_set_add(set, &m->grammar->follows[(uint32_t)place]);
        if (!add_frame(m, (uint32_t)(place >> 32), error)) return false;
    }
    while (m->todo.count) {
        uint32_t frame = (uint32_t)(m->todo.at[--m->todo.count] >> 32);
        const Frame *f = &m->frames.at[frame];
        if (f->node == FRAME_UNION && !add_frame(m, f->count, error)) return false;
        if (f->node != FRAME_UNION && f->below == FRAME_BOTTOM) add_follows(m, frame, set);
        if (!add_frame(m, f->below, error)) return false;
    }
    return true;
}
