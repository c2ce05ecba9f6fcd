// Locals ahead of time. A text comes to ever new states, but their places with one frame are few,
// and can be found without a text: from each set of them, with the bottom in place of the frame,
// all bytes are tried, and all frames that came on top are returned from.
//
//     start -> { place, place } | frame    its local, then every byte from these places
//                 behind a byte: the same frame -> another set
//                                a new frame    -> a set of its own, and what it returns to
#include "grammar/masks.h"

#include <stdlib.h>

// In nodes of the trie; a move and a place that is followed take as long as that of many. Some 30
// ms.
enum { MOST_WORK = 6 << 20, WORK_OF_MOVE = 64, WORK_OF_PLACE = 8 };

typedef struct Search {
    Masks *masks;
    ARRAY(uint32_t) todo;  // states to try all bytes from
    ARRAY(bool) known;     // state -> it is or was in `todo`
    ARRAY(uint32_t) added; // states whose sets are still to be added
    bool *returned;        // (nodes of the grammar) a frame of it was returned from
    uint64_t *mask;        // (words) that nobody reads
    size_t moves;
    Error *error;
} Search;

static bool is_over(const Search *s) {
    size_t places = s->masks->automaton->n_followed * WORK_OF_PLACE;
    return s->masks->n_read + places + s->moves * WORK_OF_MOVE > MOST_WORK;
}

static bool add_state(Search *s, uint32_t state) {
    while (s->known.count <= state) {
        if (!ARRAY_ROOM(&s->known, s->error)) return false;
        s->known.at[s->known.count++] = false;
    }
    if (s->known.at[state]) return true;
    s->known.at[state] = true;
    if (!ARRAY_ROOM(&s->todo, s->error)) return false;
    s->todo.at[s->todo.count++] = state;
    return true;
}

// The frame of a COUNT node when its body has come as often as it must.
static bool last_of(Search *s, uint32_t *frame) {
    Automaton *m = s->masks->automaton;
    Frame f = m->frames.at[*frame];
    const Node *n = &m->grammar->nodes.at[f.node];
    if (n->kind == NODE_COUNT && f.count < n->least) f.count = n->least;
    return automaton_frame(m, f, frame, s->error);
}

// The locals that a mask takes here, and those behind.
static bool find_locals(Search *s, const uint64_t *places, size_t count) {
    Masks *k = s->masks;
    size_t moved_count;
    uint32_t frame = (uint32_t)(places[0] >> 32), state;
    if (!last_of(s, &frame) || !masks_move(k->automaton, places, count, frame, &state, s->error))
        return false;
    uint64_t *moved = masks_places(k->automaton, state, &moved_count, s->error);
    bool good = moved && masks_add_places(k, moved, moved_count, s->mask, s->error);
    free(moved);
    return good;
}

static bool add_places(Search *s, const uint64_t *places, size_t count) {
    uint32_t state;
    return find_locals(s, places, count) &&
           masks_move(s->masks->automaton, places, count, FRAME_BOTTOM, &state, s->error) &&
           add_state(s, state);
}

// Where a frame is returned from.
static bool find_behind(Search *s, uint32_t frame, uint32_t *state) {
    return last_of(s, &frame) && automaton_return(s->masks->automaton, frame, state, s->error);
}

static bool add_later(Search *s, uint32_t state) {
    if (!ARRAY_ROOM(&s->added, s->error)) return false;
    s->added.at[s->added.count++] = state;
    return true;
}

static bool add_sets_of(Search *s, uint32_t state) {
    Automaton *m = s->masks->automaton;
    size_t count;
    uint64_t *places = masks_places(m, state, &count, s->error);
    bool good = places;
    for (size_t i = 0, n; good && i < count && !is_over(s); i += n) {
        uint32_t frame = (uint32_t)(places[i] >> 32), node = m->frames.at[frame].node, behind;
        n = masks_same_frame(places + i, count - i);
        good = add_places(s, places + i, n);
        if (!good || frame == FRAME_BOTTOM || s->returned[node]) continue;
        s->returned[node] = true;
        good = find_behind(s, frame, &behind) && add_later(s, behind);
    }
    free(places);
    return good;
}

// The sets of a state, and of those that its frames return to: as many as the stack is deep.
static bool add_sets(Search *s, uint32_t state) {
    bool good = add_later(s, state);
    while (good && s->added.count)
        good = add_sets_of(s, s->added.at[--s->added.count]);
    return good;
}

static bool try_bytes(Search *s, uint32_t state) {
    Automaton *m = s->masks->automaton;
    for (size_t class = 0; class < m->grammar->n_classes && !is_over(s); class ++) {
        uint32_t to;
        s->moves++;
        if (!automaton_move(m, state, m->byte_of[class], &to, s->error) || !add_sets(s, to))
            return false;
    }
    return true;
}

bool masks_prepare(Masks *k, uint32_t start, Error *error) {
    Error cause = {0};
    Search s = {.masks = k, .error = &cause};
    s.returned = calloc(k->automaton->grammar->nodes.count, sizeof *s.returned);
    s.mask = calloc(mask_words(k->trie->n_tokens), sizeof *s.mask);
    bool good = (s.returned && s.mask) || error_set(&cause, ERROR_MEMORY, "no memory for a grammar's masks");
    good = good && add_sets(&s, start);
    for (size_t i = 0; good && i < s.todo.count && !is_over(&s); i++)
        good = try_bytes(&s, s.todo.at[i]);
    free(s.todo.at);
    free(s.added.at);
    free(s.known.at);
    free(s.returned);
    free(s.mask);
    // What is too ambiguous is an error where a text comes to it.
    return good || cause.code == ERROR_FILE || error_copy(error, &cause);
}
