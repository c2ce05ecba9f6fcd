// Stacks that differ further down share what is on top of them. Where a grammar reads a text in
// several ways, each of them has a stack of its own, and in C every bracket is one of a call, of an
// expression or of a cast, so that they would double with every bracket. So the places of one node
// become one, on a frame that stands for several:
//
//     node | x | y | ..        becomes        node | x | UNION | y | ..
//     node | x | z | ..                                        | z | ..
//
// It is the graph-structured stack of Tomita (Efficient Parsing for Natural Language, 1986), as
// pairs of frames: equal sets have the same number, like equal frames.
#include "grammar/automaton.h"

#include <stdlib.h>

// The stacks that one frame stands for; frames in a row that two stacks share; frames that those of
// a node are compared with. What is more stays apart.
enum { MOST_MEMBERS = 256, MOST_SHARED = 64, MOST_COMPARED = 8 };

typedef struct Members {
    uint32_t at[MOST_MEMBERS]; // frames that are no unions, from the highest number down
    size_t count;
} Members;

static bool is_union(const Automaton *m, uint32_t frame) {
    return frame != FRAME_BOTTOM && m->frames.at[frame].node == FRAME_UNION;
}

static bool same_top(const Automaton *m, uint32_t a, uint32_t b) {
    const Frame *f = &m->frames.at[a], *g = &m->frames.at[b];
    return f->node != FRAME_UNION && !(f->node & FRAME_KINDS) && f->node == g->node &&
           f->count == g->count;
}

static bool unite(Automaton *m, uint32_t a, uint32_t b, int shared, uint32_t *both, bool *united,
                  Error *error);

// The same top on what both stand on.
static bool unite_below(Automaton *m, uint32_t a, uint32_t b, int shared, uint32_t *both,
                        bool *united, Error *error) {
    Frame f = m->frames.at[a];
    *united = false;
    return !shared ||
           (unite(m, f.below, m->frames.at[b].below, shared - 1, &f.below, united, error) &&
            (!*united || automaton_frame(m, f, both, error)));
}

static bool insert(Members *all, uint32_t frame) {
    size_t at = 0;
    while (at < all->count && all->at[at] > frame)
        at++;
    if (at < all->count && all->at[at] == frame) return true;
    if (all->count == MOST_MEMBERS) return false;
    for (size_t i = all->count++; i > at; i--)
        all->at[i] = all->at[i - 1];
    all->at[at] = frame;
    return true;
}

static bool add_member(Automaton *m, Members *all, uint32_t frame, int shared, bool *fits,
                       Error *error) {
    uint32_t both;
    bool united = false;
    for (size_t i = 0; i < all->count && !united; i++) {
        if (all->at[i] == frame || !same_top(m, all->at[i], frame)) continue;
        if (!unite_below(m, all->at[i], frame, shared, &both, &united, error)) return false;
        if (!united) continue;
        frame = both;
        for (all->count--; i < all->count; i++)
            all->at[i] = all->at[i + 1];
    }
    *fits = insert(all, frame);
    return true;
}

static bool add_members(Automaton *m, Members *all, uint32_t frame, int shared, bool *fits,
                        Error *error) {
    for (*fits = true; *fits && is_union(m, frame); frame = m->frames.at[frame].below)
        if (!add_member(m, all, m->frames.at[frame].count, shared, fits, error)) return false;
    return !*fits || add_member(m, all, frame, shared, fits, error);
}

// *united false: they stay apart. What counts turns or repetitions is below all stacks of a union,
// and is the same one.
static bool unite(Automaton *m, uint32_t a, uint32_t b, int shared, uint32_t *both, bool *united,
                  Error *error) {
    *both = a;
    *united = a == b;
    if (*united) return true;
    if (m->frames.at[a].base != m->frames.at[b].base)
        return !same_top(m, a, b) || unite_below(m, a, b, shared, both, united, error);
    Members all = {.count = 0};
    if (!add_members(m, &all, a, shared, united, error) ||
        (*united && !add_members(m, &all, b, shared, united, error)))
        return false;
    if (!*united) return true;
    *both = all.at[all.count - 1];
    for (size_t i = all.count - 1; i-- > 0;)
        if (!automaton_frame(m, (Frame){.node = FRAME_UNION, .count = all.at[i], .below = *both},
                             both, error))
            return false;
    return true;
}

static int compare_nodes(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    x = x << 32 | x >> 32;
    y = y << 32 | y >> 32;
    return (x > y) - (x < y);
}

bool automaton_share(Automaton *m, uint64_t *places, size_t *count, Error *error) {
    size_t kept = 0, first = 0; // of the same node
    if (*count > 1) qsort(places, *count, sizeof *places, compare_nodes);
    for (size_t i = 0; i < *count; i++) {
        uint32_t node = (uint32_t)places[i], both;
        bool united = false;
        if (kept && (uint32_t)places[kept - 1] != node) first = kept;
        size_t from = kept - first > MOST_COMPARED ? kept - MOST_COMPARED : first;
        for (size_t k = from; k < kept && !united && node != NODE_THE_RETURN; k++) {
            if (!unite(m, (uint32_t)(places[k] >> 32), (uint32_t)(places[i] >> 32), MOST_SHARED,
                       &both, &united, error))
                return false;
            if (united) places[k] = (uint64_t)both << 32 | node;
        }
        if (!united) places[kept++] = places[i];
    }
    *count = kept;
    return true;
}

// ---- what may come below ----

// Of what stands on the bottom: a frame, or a place.
static void add_follows(const Automaton *m, uint32_t frame, ByteSet *set) {
    const Node *nodes = m->grammar->nodes.at;
    for (; is_union(m, frame); frame = m->frames.at[frame].below)
        add_follows(m, m->frames.at[frame].count, set);
    if (frame == FRAME_BOTTOM) return;
    Frame f = m->frames.at[frame];
    if (f.below != FRAME_BOTTOM)
        add_follows(m, f.below, set);
    else if (f.node != FRAME_LEFT && f.node & FRAME_OPEN)
        byte_set_add(set, &m->grammar->follows[nodes[f.node & ~FRAME_KINDS].b]);
    else if (!(f.node & FRAME_KINDS))
        byte_set_add(set, &m->grammar->follows[f.node]);
}

ByteSet automaton_follows(const Automaton *m, uint32_t state) {
    const State *s = &m->states.at[state];
    ByteSet set = {0};
    for (uint32_t i = 0; i < s->count; i++) {
        uint64_t place = m->places.at[s->first + i];
        if (place >> 32 == FRAME_BOTTOM)
            byte_set_add(&set, &m->grammar->follows[(uint32_t)place]);
        else
            add_follows(m, (uint32_t)(place >> 32), &set);
    }
    return set;
}
