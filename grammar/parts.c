// The parts of a mask: its places by their frames, what locals say of each, and what is below.
// mask.c says what for.
#include "grammar/masks.h"

#include <stdlib.h>

// More frames of a stack that are taken, or locals behind locals: so many in a row and in a mask,
// and while there is memory.
enum { MOST_FRAMES = 4, MOST_DEPTH = 8, MOST_BEHIND = 1024, MOST_BYTES = 64 << 20 };

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

// ---- work ----

size_t masks_work(const Masks *k) {
    return k->work + WORK_OF_PLACE * k->automaton->n_followed;
}

bool masks_may_join(const Masks *k) {
    return !k->is_last && k->bytes < MOST_BYTES;
}

// ---- places side by side ----

// The places of one frame. base: the frame of a COUNT node below n_calls CALLs; where there is
// none, the frame itself.
typedef struct Group {
    const uint64_t *places; // (count)
    size_t count;
    uint32_t calls[MOST_FRAMES]; // (n_calls) their nodes
    int n_calls;
    Frame base;
} Group;

// Groups that are equal but for the counter of their base, which ascends. Their places are asked
// with some of the frames below, and may take any turns that the bounds of one of them leave.
typedef struct Ask {
    uint32_t parent, turns; // as in LocalKey
    const Group *groups;    // (n) where there are several, the turns that are left to each
    size_t n;               // join those that are left to the next without a gap
    int frames;             // that are taken: CALLs
    int depth;              // of locals behind locals
} Ask;

static bool is_kind(const Automaton *m, uint32_t frame, NodeKind kind) {
    return frame != FRAME_BOTTOM && m->grammar->nodes.at[m->frames.at[frame].node].kind == kind;
}

static Group group_of(const Automaton *m, const uint64_t *places, size_t count) {
    uint32_t frame = (uint32_t)(places[0] >> 32), base = frame;
    Group group = {.places = places, .count = count};
    int n = 0;
    for (; n < MOST_FRAMES && is_kind(m, base, NODE_CALL); base = m->frames.at[base].below)
        group.calls[n++] = m->frames.at[base].node;
    bool counts = is_kind(m, base, NODE_COUNT);
    group.n_calls = counts ? n : 0;
    group.base = m->frames.at[counts ? base : frame];
    return group;
}

static int compare(uint32_t a, uint32_t b) {
    return a < b ? -1 : a > b;
}

// In order, those that differ in the counter alone are side by side.
static int compare_groups(const void *left, const void *right) {
    const Group *a = left, *b = right;
    int order = compare(a->base.node, b->base.node);
    if (!order) order = compare(a->base.below, b->base.below);
    if (!order) order = compare((uint32_t)a->n_calls, (uint32_t)b->n_calls);
    for (int i = 0; !order && i < a->n_calls; i++)
        order = compare(a->calls[i], b->calls[i]);
    if (!order) order = compare((uint32_t)a->count, (uint32_t)b->count);
    for (size_t i = 0; !order && i < a->count; i++)
        order = compare((uint32_t)a->places[i], (uint32_t)b->places[i]);
    return order ? order : compare(a->base.count, b->base.count);
}

// The next group in order is equal but for the counter, and the intervals of turns that are left to
// both have no gap between them.
static bool go_together(const Grammar *g, const Group *a, const Group *next) {
    const Node *n = &g->nodes.at[a->base.node];
    Group same = *next;
    same.base.count = a->base.count;
    return n->kind == NODE_COUNT && !compare_groups(a, &same) &&
           (n->most == UNBOUNDED || next->base.count - a->base.count <= n->most - n->least + 1);
}

// What is true of any stack below.
typedef struct Part {
    const Local *local;   // borrowed until masks_free
    const Local *stays;   // of a COUNT node, those that stay; NULL
    uint32_t least, most; // turns of tokens that leave; at most so many of those that stay
    uint32_t below;       // the frame that its exits return from
} Part;

// The frame that the taken ones are on.
static uint32_t base_of(const Automaton *m, const Ask *ask) {
    uint32_t frame = (uint32_t)(ask->groups->places[0] >> 32);
    for (int i = 0; i < ask->frames; i++)
        frame = m->frames.at[frame].below;
    return frame;
}

// The same CALLs on another frame.
static bool put_frames(Automaton *m, uint32_t top, int frames, uint32_t on, uint32_t *frame,
                       Error *error) {
    Frame f = m->frames.at[top];
    *frame = on;
    return !frames || (put_frames(m, f.below, frames - 1, on, frame, error) &&
                       automaton_frame(m, (Frame){.node = f.node, .below = *frame}, frame, error));
}

// The state of the places with the taken frames on another one.
static bool put_places(Automaton *m, const Ask *ask, Frame on, uint32_t *state, Error *error) {
    const Group *g = ask->groups;
    uint32_t frame = FRAME_BOTTOM;
    return (!on.node || automaton_frame(m, on, &frame, error)) &&
           put_frames(m, (uint32_t)(g->places[0] >> 32), ask->frames, frame, &frame, error) &&
           masks_move(m, g->places, g->count, frame, state, error);
}

static bool bottom_local(Masks *k, const Ask *ask, const Local **local, Error *error) {
    LocalKey key = {.parent = ask->parent, .turns = ask->turns};
    if (key.parent != NOT_KNOWN && k->locals.at[key.parent]->n_parts == 1)
        key.parent = k->locals.at[key.parent]->parts[0];
    return put_places(k->automaton, ask, (Frame){0}, &key.state, error) &&
           locals_find(k, key, local, error);
}

// Bodies that begin with the same rule, and nothing behind it, are the same.
static uint32_t body_of(const Grammar *g, uint32_t node) {
    uint32_t body = g->nodes.at[node].a;
    while (g->nodes.at[body].kind == NODE_CALL && g->nodes.at[body].b == NODE_THE_RETURN)
        body = g->starts[g->nodes.at[body].a];
    return body;
}

// The locals on a COUNT node; *local is NULL where it is too ambiguous without its bounds.
static bool open_locals(Masks *k, const Ask *ask, uint32_t node, Part *part, Error *error) {
    Automaton *m = k->automaton;
    Error cause = {0};
    LocalKey stay = {.parent = ask->parent, .turns = ask->turns}, open = stay;
    Frame on = {.node = body_of(m->grammar, node) | FRAME_STAY};
    // Without their bounds, repetitions of one body with one continuation are the same.
    node = m->grammar->nodes.at[node].like;
    if (put_places(m, ask, on, &stay.state, &cause) &&
        put_places(m, ask, (Frame){.node = node | FRAME_OPEN}, &open.state, &cause) &&
        put_places(m, ask, (Frame){.node = node | FRAME_EVER}, &open.ever, &cause) &&
        locals_find(k, stay, &part->stays, &cause) && locals_find(k, open, &part->local, &cause))
        return true;
    part->stays = part->local = NULL;
    return cause.code == ERROR_FILE || error_copy(error, &cause);
}

// part->local is NULL where the groups, or the places of one, are to be asked one by one.
static bool find_part(Masks *k, const Ask *ask, Part *part, Error *error) {
    *part = (Part){.below = base_of(k->automaton, ask), .most = UINT32_MAX};
    Frame f = k->automaton->frames.at[part->below];
    const Node *n = &k->automaton->grammar->nodes.at[f.node];
    if (part->below == FRAME_BOTTOM || n->kind != NODE_COUNT)
        return bottom_local(k, ask, &part->local, error);
    if (!open_locals(k, ask, f.node, part, error)) return false;
    if (!part->local) return ask->n > 1 || bottom_local(k, ask, &part->local, error);
    uint32_t last = ask->n > 1 ? ask->groups[ask->n - 1].base.count : f.count;
    part->least = n->least > last ? n->least - last : 0;
    if (n->most != UNBOUNDED) part->most = n->most - f.count;
    part->below = f.below;
    return true;
}

static bool add_exits(Masks *k, const Ask *ask, const Part *part, uint64_t *mask, Error *error);

static bool add_part(Masks *k, const Ask *ask, uint64_t *mask, Error *error);

// Of one group each place.
static bool add_each_place(Masks *k, const Ask *ask, uint64_t *mask, Error *error) {
    Group group = *ask->groups;
    Ask one = *ask;
    bool good = true;
    one.groups = &group;
    group.count = 1;
    for (size_t i = 0; good && i < ask->groups->count; i++, group.places++)
        good = add_part(k, &one, mask, error);
    return good;
}

static bool add_each(Masks *k, const Ask *ask, uint64_t *mask, Error *error) {
    if (ask->n == 1) return add_each_place(k, ask, mask, error);
    Ask one = *ask;
    bool good = true;
    one.n = 1;
    one.frames = 0;
    for (size_t i = 0; good && i < ask->n; i++, one.groups++) {
        if (!one.depth) k->n_behind = 0;
        good = add_part(k, &one, mask, error);
    }
    return good;
}

// Adds the tokens that stay, of at most so many turns. Several stacks may have the same upper part:
// what a mask has whole already is passed over.
static void add_stays(Masks *k, const Local *l, uint32_t most, uint64_t *mask) {
    if (l->stays.n_levels && most >= l->stays.n_levels - 1) {
        Local *known = k->locals.at[l->index];
        if (known->added == k->n_found) return;
        known->added = k->n_found;
    }
    turn_sets_add(&l->stays, 0, most, mask, mask_words(k->trie->n_tokens));
}

static bool add_part(Masks *k, const Ask *ask, uint64_t *mask, Error *error) {
    size_t words = mask_words(k->trie->n_tokens);
    Part part;
    if (masks_work(k) > k->work_end) {
        k->is_cut = true;
        return true;
    }
    k->work += words / 16; // to add sets of tokens
    if (!find_part(k, ask, &part, error)) return false;
    if (k->is_cut) return true;
    if (!part.local) return add_each(k, ask, mask, error);
    const Local *stays = part.stays ? part.stays : part.local;
    add_stays(k, stays, part.most, mask);
    turn_sets_add(&part.local->leaves, part.least, part.most, mask, words);
    return add_exits(k, ask, &part, mask, error);
}

static bool has_level(const Exits *e, uint32_t turns) {
    return e->levels >> (turns < 63 ? turns : 63) & 1;
}

// The groups of a state's places, in order. NULL: exit code 5. Else for free().
static Group *find_groups(const Automaton *m, const uint64_t *places, size_t count, size_t *n,
                          Error *error) {
    Group *groups = malloc((count + 1) * sizeof *groups);
    *n = 0;
    if (!groups) no_memory(error);
    for (size_t i = 0; groups && i < count; i += groups[(*n)++].count)
        groups[*n] = group_of(m, places + i, masks_same_frame(places + i, count - i));
    if (groups) qsort(groups, *n, sizeof *groups, compare_groups);
    return groups;
}

// As `like`, of all these groups.
static bool add_groups(Masks *k, const Ask *like, const Group *groups, size_t n, uint64_t *mask,
                       Error *error) {
    bool good = true;
    for (size_t i = 0, end; good && i < n; i = end) {
        for (end = i + 1; end < n; end++)
            if (!go_together(k->automaton->grammar, &groups[end - 1], &groups[end])) break;
        Ask ask = *like;
        ask.groups = groups + i;
        ask.n = end - i;
        if (ask.n > 1) ask.frames = groups[i].n_calls;
        if (!ask.depth) k->n_behind = 0;
        good = add_part(k, &ask, mask, error);
    }
    return good;
}

// The tokens that go on below the exits of a part from this state, at most `high` turns.
static bool add_behind(Masks *k, const Part *part, uint32_t high, uint32_t state, int depth,
                       uint64_t *mask, Error *error) {
    const Exits *e = &part->local->exits;
    bool all = !part->least && high == e->most_turns, good;
    size_t count, n = 0;
    uint64_t *places = exits_places(k, e, state, &count, error);
    Group *groups = places ? find_groups(k->automaton, places, count, &n, error) : NULL;
    Ask ask = {.parent = part->local->index, .turns = NOT_KNOWN, .depth = depth};
    good = groups;
    if (all) good = good && add_groups(k, &ask, groups, n, mask, error);
    for (ask.turns = part->least; good && !all && ask.turns <= high; ask.turns++)
        good = !has_level(e, ask.turns) || add_groups(k, &ask, groups, n, mask, error);
    free(groups);
    free(places);
    return good;
}

// The tokens that go on below: from where the frame is returned from.
static bool add_exits(Masks *k, const Ask *ask, const Part *part, uint64_t *mask, Error *error) {
    const Automaton *m = k->automaton;
    const Local *l = part->local;
    uint32_t state, low = part->least, high = part->most;
    if (high > l->exits.most_turns) high = l->exits.most_turns;
    if (part->below == FRAME_BOTTOM || !l->exits.count || low > high) return true;
    if (!automaton_return(k->automaton, part->below, &state, error)) return false;
    bool done;
    if (!exits_below(k, l, low, high, state, mask, &done, error)) return false;
    if (done) return true;
    if (k->bytes < MOST_BYTES) {
        Ask more = *ask;
        more.frames++;
        if (part->below == base_of(m, ask) && is_kind(m, part->below, NODE_CALL) &&
            more.frames <= MOST_FRAMES)
            return add_part(k, &more, mask, error);
        k->n_behind += m->states.at[state].count;
        if (ask->depth < MOST_DEPTH && k->n_behind <= MOST_BEHIND)
            return add_behind(k, part, high, state, ask->depth + 1, mask, error);
    }
    return exits_walk(k, l, low, high, state, mask, error);
}

bool masks_add_places(Masks *k, const uint64_t *places, size_t count, uint64_t *mask,
                      Error *error) {
    Group group = group_of(k->automaton, places, count);
    k->n_behind = 0;
    return add_part(k, &(Ask){.parent = NOT_KNOWN, .groups = &group, .n = 1}, mask, error);
}

bool masks_ask_more(Masks *k, const uint64_t *places, size_t count, bool *more, Error *error) {
    Group group = group_of(k->automaton, places, count);
    Ask ask = {.parent = NOT_KNOWN, .groups = &group, .n = 1};
    Part part;
    *more = true;
    if (!is_kind(k->automaton, base_of(k->automaton, &ask), NODE_CALL)) return true;
    if (!find_part(k, &ask, &part, error)) return false;
    if (k->is_cut) return true;
    size_t work;
    if (!exits_work(k, part.local, 0, UINT32_MAX, NOT_KNOWN, &work, error)) return false;
    *more = work > k->most_read;
    return true;
}

bool masks_add_parts(Masks *k, const uint64_t *places, size_t count, uint64_t *mask, Error *error) {
    size_t n = 0;
    Group *groups = find_groups(k->automaton, places, count, &n, error);
    bool good = groups && add_groups(k, &(Ask){.parent = NOT_KNOWN}, groups, n, mask, error);
    free(groups);
    return good;
}
