// Locals ahead of time. A text comes to ever new states, but their places with one frame are few,
// and can be found without a text: from each set of them, with the bottom in place of the frame,
// all bytes are tried, and all frames that came on top are returned from.
//
//     start -> { place, place } | frame    its locals, then every byte from these places
//                 behind a byte: the same frame -> another set
//                                a new frame    -> a set of its own, and what it returns to
//
// Which locals a set takes depends on some frames below (mask.c), so a few are kept, and the set is
// found again on others of them; but first all sets are found once. Last, texts are begun, and the
// masks on the way found: those ask on whole stacks.
#include "grammar/masks.h"

#include <stdlib.h>

// Of each of the two parts, in nodes of the trie, some 100 ms; a move takes as long as that of a
// few.
enum { MOST_WORK = 3 << 22, WORK_OF_MOVE = 8 };

// Bytes: half of what a matcher keeps.
enum { MOST_PREPARED = 48 << 20 };

enum { KEPT_FRAMES = 3 };

// A state whose frames end at the bottom, where those of `origin` go on.
typedef struct Added {
    uint32_t state, origin;
} Added;

typedef struct Search {
    Masks *masks;
    ARRAY(uint32_t) todo;  // sets on their frames, to try all bytes from
    ARRAY(uint32_t) again; // the same for sets that are known on other frames
    ARRAY(bool) known;     // state -> it is or was in one of them
    ARRAY(Added) added;    // states whose sets are still to be added
    bool *returned;        // (nodes of the grammar) a frame of it was returned from
    uint64_t *mask;        // (words) that nobody reads
    size_t end;            // masks_work where it ends
    Error *error;
} Search;

static bool is_over(const Search *s) {
    return masks_work(s->masks) > s->end ||
           s->masks->bytes + automaton_bytes(s->masks->automaton) > MOST_PREPARED;
}

static bool is_known(Search *s, uint32_t state, bool *known) {
    while (s->known.count <= state) {
        if (!ARRAY_ROOM(&s->known, s->error)) return false;
        s->known.at[s->known.count++] = false;
    }
    *known = s->known.at[state];
    s->known.at[state] = true;
    return true;
}

static bool add_todo(Search *s, uint32_t state, bool again) {
    if (again ? !ARRAY_ROOM(&s->again, s->error) : !ARRAY_ROOM(&s->todo, s->error)) return false;
    if (again)
        s->again.at[s->again.count++] = state;
    else
        s->todo.at[s->todo.count++] = state;
    return true;
}

// The upper frames, where the bottom stands for the origin; of a COUNT node when its body has come
// as often as it must.
static bool keep_frames(Search *s, uint32_t frame, uint32_t origin, int kept, uint32_t *out) {
    Automaton *m = s->masks->automaton;
    if (frame == FRAME_BOTTOM) {
        frame = origin;
        origin = FRAME_BOTTOM;
    }
    *out = FRAME_BOTTOM;
    if (frame == FRAME_BOTTOM || !kept) return true;
    Frame f = m->frames.at[frame];
    const Node *n = &m->grammar->nodes.at[f.node];
    if (f.node == FRAME_UNION) return true;
    if (n->kind == NODE_COUNT) f.count = n->least;
    return keep_frames(s, f.below, origin, kept - 1, &f.below) &&
           automaton_frame(m, f, out, s->error);
}

// places: on their frame, whose locals are found, and those behind.
static bool add_places(Search *s, const uint64_t *places, size_t count, uint32_t frame) {
    Masks *k = s->masks;
    uint32_t state, bottom;
    size_t moved_count;
    bool known, again, more;
    if (!masks_move(k->automaton, places, count, frame, &state, s->error) ||
        !masks_move(k->automaton, places, count, FRAME_BOTTOM, &bottom, s->error) ||
        !is_known(s, state, &known))
        return false;
    again = known;
    if (bottom != state && !is_known(s, bottom, &again)) return false;
    if (known) return true;
    uint64_t *moved = masks_places(k->automaton, state, &moved_count, s->error);
    bool good = moved && masks_ask_more(k, moved, count, &more, s->error);
    if (good && (!again || more))
        good = masks_add_places(k, moved, count, s->mask, s->error) && add_todo(s, state, again);
    free(moved);
    return good;
}

static bool add_later(Search *s, uint32_t state, uint32_t origin) {
    if (!ARRAY_ROOM(&s->added, s->error)) return false;
    s->added.at[s->added.count++] = (Added){state, origin};
    return true;
}

static bool add_sets_of(Search *s, Added a) {
    Automaton *m = s->masks->automaton;
    size_t count;
    uint64_t *places = masks_places(m, a.state, &count, s->error);
    bool good = places;
    for (size_t i = 0, n; good && i < count && !is_over(s); i += n) {
        uint32_t frame, behind, node;
        n = masks_same_frame(places + i, count - i);
        good = keep_frames(s, (uint32_t)(places[i] >> 32), a.origin, KEPT_FRAMES, &frame) &&
               add_places(s, places + i, n, frame);
        node = m->frames.at[frame].node;
        if (!good || frame == FRAME_BOTTOM || s->returned[node]) continue;
        s->returned[node] = true;
        good = automaton_return(m, frame, &behind, s->error) && add_later(s, behind, FRAME_BOTTOM);
    }
    free(places);
    return good;
}

// The sets of a state, and of those that its frames return to: as many as the stack is deep.
static bool add_sets(Search *s, uint32_t state, uint32_t origin) {
    bool good = add_later(s, state, origin);
    while (good && s->added.count)
        good = add_sets_of(s, s->added.at[--s->added.count]);
    return good;
}

// From the bottom, since there they are found once for all frames.
static bool try_bytes(Search *s, uint32_t state) {
    Automaton *m = s->masks->automaton;
    size_t count;
    uint32_t bottom, to;
    uint64_t *places = masks_places(m, state, &count, s->error);
    bool good = places && (!count || masks_move(m, places, count, FRAME_BOTTOM, &bottom, s->error));
    for (size_t class = 0; good && count && class < m->grammar->n_classes && !is_over(s);
         class ++) {
        s->masks->work += WORK_OF_MOVE;
        good = automaton_move(m, bottom, m->byte_of[class], &to, s->error) &&
               add_sets(s, to, (uint32_t)(places[0] >> 32));
    }
    free(places);
    return good;
}

static bool find_sets(Search *s, uint32_t start) {
    Masks *k = s->masks;
    k->work_end = k->refuse_end = s->end = masks_work(k) + MOST_WORK;
    k->is_cut = k->is_last = false;
    if (!add_sets(s, start, FRAME_BOTTOM)) return false;
    size_t first = 0, again = 0;
    while (!is_over(s) && (first < s->todo.count || again < s->again.count))
        if (!try_bytes(s, first < s->todo.count ? s->todo.at[first++] : s->again.at[again++]))
            return false;
    return true;
}

// Preparing goes on where the grammar is too ambiguous or the work over: a text that comes to such
// a place is refused there, or waits there.
static bool goes_on(bool good, Error *cause) {
    if (good || cause->code != ERROR_FILE) return good;
    *cause = (Error){0};
    return true;
}

// From a state all bytes are tried where its mask has asked for a local that none before asked for.
static bool begin_texts(Search *s, uint32_t start) {
    Masks *k = s->masks;
    for (size_t i = 0; i < k->locals.count; i++)
        k->locals.at[i]->was_asked = false;
    for (size_t i = 0; i < s->known.count; i++)
        s->known.at[i] = false;
    bool known;
    s->todo.count = 0;
    if (!is_known(s, start, &known) || !add_todo(s, start, false)) return false;
    s->end = masks_work(k) + MOST_WORK;
    for (size_t i = 0; i < s->todo.count && !is_over(s); i++) {
        size_t asked = k->n_asked;
        uint32_t from = s->todo.at[i], to;
        if (!goes_on(masks_of(k, from, s->error), s->error)) return false;
        if (k->n_asked == asked) continue;
        for (size_t class = 0; class < k->automaton->grammar->n_classes && !is_over(s); class ++) {
            k->work += WORK_OF_MOVE;
            if (!automaton_move(k->automaton, from, k->automaton->byte_of[class], &to, s->error) ||
                !is_known(s, to, &known))
                return false;
            if (to != STATE_DEAD && !known && !add_todo(s, to, false)) return false;
        }
    }
    return true;
}

bool masks_prepare(Masks *k, uint32_t start, Error *error) {
    Error cause = {0};
    Search s = {.masks = k, .error = &cause};
    s.returned = calloc(k->automaton->grammar->nodes.count, sizeof *s.returned);
    s.mask = calloc(mask_words(k->trie->n_tokens), sizeof *s.mask);
    bool good = (s.returned && s.mask) ||
                error_set(&cause, ERROR_MEMORY, "no memory for a grammar's masks");
    int attempts = k->most_attempts;
    k->joins = true;
    good = good && goes_on(find_sets(&s, start), &cause);
    k->most_attempts = 1;
    good = good && goes_on(begin_texts(&s, start), &cause);
    k->most_attempts = attempts;
    k->joins = false;
    free(s.todo.at);
    free(s.again.at);
    free(s.added.at);
    free(s.known.at);
    free(s.returned);
    free(s.mask);
    return good || error_copy(error, &cause);
}
