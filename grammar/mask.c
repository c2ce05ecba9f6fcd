// The mask of a state: the tokens whose bytes can be read from it.
//
// To read all of a vocabulary takes milliseconds, and a text comes to ever new states: the same
// place in the grammar on another stack. But few tokens look below the top of the stack:
//
//     { "a": [ "b|      on the stack: behind the string, behind the array, behind the object
//
//     hello    stays inside the string
//     b"       ends with it
//     "]}      ends inside the token: behind the first byte, the stack below decides about "]}"
//
// So each set of places with one frame is asked once, with the bottom in place of that frame: which
// tokens stay in it or end with it (Local.mask), and at which nodes of the trie it ends with bytes
// still to come (Local.exits). For a stack, only what is below those nodes is read.
//
// Where the frame is that of a COUNT node, which differs with every character of [a-z]{1,100}, it
// is asked once without bounds, and each token keeps how often it begins the body again: its turns.
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

#define TOO_AMBIGUOUS (NOT_KNOWN - 1) // in Masks.local_of

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

static void set_bit(uint64_t *mask, uint32_t id) {
    mask[id / 64] |= (uint64_t)1 << id % 64;
}

// Room for every state, as far as there are any.
static bool room_for_states(Masks *k, Error *error) {
    while (k->local_of.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->local_of, error)) return false;
        k->local_of.at[k->local_of.count++] = NOT_KNOWN;
    }
    while (k->loops.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->loops, error)) return false;
        k->loops.at[k->loops.count++] = 0;
    }
    while (k->kept.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->kept, error)) return false;
        k->kept.at[k->kept.count++] = NULL;
    }
    return true;
}

// ---- reading tokens ----

// A token of a Local, with its turns.
typedef struct Found {
    uint32_t id, turns;
} Found;

typedef struct Span {
    uint32_t first, end;
} Span;

typedef struct Walk {
    Automaton *automaton;
    const Trie *trie;
    Step *path; // (depth + 1)
    uint64_t *mask;
    // of a Local; NULL: none
    Masks *masks;
    Local *local;
    bool counts;        // its tokens have turns
    uint32_t looping;   // the newest state that a byte has led back to; STATE_DEAD
    uint64_t loops;     // by which kinds of characters
    size_t n_read;      // nodes of the trie
    ARRAY(Found) found; // with their turns; else:
    ARRAY(Span) spans;  // of trie->ids, in order
    Error *error;
} Walk;

// The tokens of a part of the trie may come.
static bool allow(Walk *w, uint32_t first, uint32_t end) {
    if (first == end) return true;
    if (w->local && !w->counts) {
        if (w->spans.count && w->spans.at[w->spans.count - 1].end == first) {
            w->spans.at[w->spans.count - 1].end = end;
            return true;
        }
        if (!ARRAY_ROOM(&w->spans, w->error)) return false;
        w->spans.at[w->spans.count++] = (Span){first, end};
        return true;
    }
    for (uint32_t i = first; i < end; i++)
        set_bit(w->mask, w->trie->ids[i]);
    return true;
}

static bool keep_found(Walk *w, uint32_t node, uint32_t state) {
    const TrieNode *n = &w->trie->nodes[node];
    const State *s = &w->automaton->states.at[state];
    for (uint32_t i = n->first; w->counts && i < n[1].first; i++) {
        if (w->found.count == w->found.capacity && !ARRAY_ROOM(&w->found, w->error)) return false;
        w->found.at[w->found.count++] = (Found){w->trie->ids[i], s->turns};
    }
    if (!s->ends || n->skip == node + 1) return true;
    if (!ARRAY_ROOM(&w->local->exits, w->error)) return false;
    w->local->exits.at[w->local->exits.count++] = (Exit){node, s->ends - 1};
    return true;
}

static bool know_loops(Walk *w, uint32_t state, uint64_t *loops) {
    Masks *k = w->masks;
    if (!room_for_states(k, w->error)) return false;
    if (!k->loops.at[state] && !masks_loops(w->automaton, state, &k->loops.at[state], w->error))
        return false;
    *loops = k->loops.at[state];
    return true;
}

// The step behind a byte. What is inside a character of the looping state will be in that state
// behind it, where the characters beyond ASCII loop.
static bool take_step(Walk *w, Step from, uint8_t byte, uint32_t to, Step *step) {
    *step = (Step){to, STATE_DEAD};
    if (!w->local || w->counts) return true;
    if (to == from.state && to != w->looping) {
        if (!know_loops(w, to, &w->loops)) return false;
        w->looping = to;
    }
    bool inside = from.loop == w->looping && byte >= 0x80 && w->loops & TRIE_OTHERS;
    if (to == w->looping || inside) step->loop = w->looping;
    return true;
}

// Reads what is below the trie's node `top` from a state. Where a byte cannot be read, all below it
// is passed over; and so is what loops, with its tokens allowed: exits there would only allow them
// again.
static bool walk(Walk *w, uint32_t state, uint32_t top) {
    const TrieNode *nodes = w->trie->nodes;
    w->path[trie_depth(&nodes[top])] = (Step){state, STATE_DEAD};
    for (uint32_t i = top + 1, end = nodes[top].skip, to; i < end;) {
        uint32_t depth = trie_depth(&nodes[i]);
        w->n_read++;
        uint8_t byte = (uint8_t)nodes[i].place;
        Step from = w->path[depth - 1], *step = &w->path[depth];
        if (!automaton_move(w->automaton, from.state, byte, &to, w->error)) return false;
        if (to == STATE_DEAD) {
            i = nodes[i].skip;
            continue;
        }
        if (!take_step(w, from, byte, to, step)) return false;
        bool loops = step->loop != STATE_DEAD && step->loop == w->looping &&
                     !(w->trie->kinds[i] & ~w->loops);
        uint32_t next = loops ? nodes[i].skip : i + 1;
        if (!allow(w, nodes[i].first, nodes[next].first) || (w->local && !keep_found(w, i, to)))
            return false;
        i = next;
    }
    return true;
}

bool masks_walk(Automaton *automaton, const Trie *trie, uint32_t state, uint64_t *mask,
                Error *error) {
    Walk w = {.automaton = automaton, .trie = trie, .mask = mask, .error = error};
    w.path = malloc((trie->depth + 1) * sizeof *w.path);
    bool good = w.path ? walk(&w, state, 0) : no_memory(error);
    free(w.path);
    return good;
}

// ---- what is true of any stack ----

static void local_free(Local *l) {
    free(l->mask);
    free(l->order);
    free(l->ends_at);
    free(l->exits.at);
}

// A counting sort of the tokens by their turns.
static bool sort_by_turns(Local *l, const Found *found, size_t count, Error *error) {
    for (size_t i = 0; i < count; i++)
        if (found[i].turns > l->most_turns) l->most_turns = found[i].turns;
    if (!l->most_turns) return true;
    l->order = malloc(count * sizeof *l->order);
    l->ends_at = calloc(l->most_turns + 2, sizeof *l->ends_at);
    if (!l->order || !l->ends_at) return no_memory(error);
    for (size_t i = 0; i < count; i++)
        l->ends_at[found[i].turns + 1]++;
    for (uint32_t t = 0; t <= l->most_turns; t++)
        l->ends_at[t + 1] += l->ends_at[t];
    // Each entry is where its turns begin, and ends up where they end.
    for (size_t i = 0; i < count; i++)
        l->order[l->ends_at[found[i].turns]++] = found[i].id;
    return true;
}

// The tokens of the spans: set, or, where they are the most, the others cleared from all.
static void fill_mask(const Masks *k, uint64_t *mask, const Span *spans, size_t count) {
    const Trie *t = k->trie;
    size_t allowed = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        allowed += spans[i].end - spans[i].first;
    bool most = 2 * allowed > t->n_ids;
    if (most) memcpy(mask, k->all, mask_words(t->n_tokens) * sizeof *mask);
    for (size_t i = 0; i <= count; i++) {
        size_t first = i < count ? spans[i].first : t->n_ids;
        for (; most && at < first; at++)
            mask[t->ids[at] / 64] &= ~((uint64_t)1 << t->ids[at] % 64);
        if (i == count) break;
        for (at = first; !most && at < spans[i].end; at++)
            set_bit(mask, t->ids[at]);
        at = spans[i].end;
    }
}

// The count of a token's turns begins with the frame at the bottom.
static bool has_turns(const Automaton *m, uint32_t state) {
    const State *s = &m->states.at[state];
    for (uint32_t i = 0; i < s->count; i++)
        if (m->places.at[s->first + i] >> 32 != FRAME_BOTTOM) return true;
    return false;
}

static bool find_local(Masks *k, uint32_t state, Local *l, Error *error) {
    size_t words = mask_words(k->trie->n_tokens);
    if (k->bytes > LIMIT_GRAMMAR_MEMORY)
        return error_set(error, ERROR_FILE, "the grammar is too ambiguous: a token needs %d MiB",
                         LIMIT_GRAMMAR_MEMORY >> 20);
    *l = (Local){.mask = calloc(words, sizeof *l->mask)};
    if (!l->mask) return no_memory(error);
    Walk w = {.automaton = k->automaton,
              .trie = k->trie,
              .path = k->path,
              .mask = l->mask,
              .masks = k,
              .local = l,
              .counts = has_turns(k->automaton, state),
              .error = error};
    bool good = walk(&w, state, 0) && sort_by_turns(l, w.found.at, w.found.count, error);
    l->count = w.found.count;
    k->n_read += w.n_read;
    if (good && !w.counts) fill_mask(k, l->mask, w.spans.at, w.spans.count);
    free(w.found.at);
    free(w.spans.at);
    k->bytes += words * sizeof *l->mask + l->exits.capacity * sizeof *l->exits.at +
                (l->order ? l->count * sizeof *l->order : 0);
    if (!good) local_free(l);
    return good;
}

// The local of a state whose stacks end at the bottom.
static bool local_of(Masks *k, uint32_t state, const Local **local, Error *error) {
    Local new;
    if (!room_for_states(k, error)) return false;
    if (k->local_of.at[state] == NOT_KNOWN) {
        if (!ARRAY_ROOM(&k->locals, error) || !find_local(k, state, &new, error)) return false;
        k->local_of.at[state] = (uint32_t)k->locals.count;
        k->locals.at[k->locals.count++] = new;
    }
    *local = &k->locals.at[k->local_of.at[state]];
    return true;
}

// ---- the mask of a state ----

bool masks_move(Automaton *m, const uint64_t *places, size_t count, uint32_t frame, uint32_t *state,
                Error *error) {
    uint64_t *moved = malloc(count * sizeof *moved);
    if (!moved) return no_memory(error);
    for (size_t i = 0; i < count; i++)
        moved[i] = (uint64_t)frame << 32 | (uint32_t)places[i];
    bool good = automaton_state(m, moved, count, 0, state, error);
    free(moved);
    return good;
}

// Adds the tokens of at most so many turns.
static void add_local(const Masks *k, const Local *l, uint32_t turns, uint64_t *mask) {
    size_t words = mask_words(k->trie->n_tokens);
    const uint64_t *from = l->mask;
    if (turns < l->most_turns) {
        size_t count = l->ends_at[turns];
        from = k->scratch;
        if (count < l->count / 2) {
            for (size_t i = 0; i < count; i++)
                set_bit(mask, l->order[i]);
            return;
        }
        memcpy(k->scratch, l->mask, words * sizeof *mask);
        for (size_t i = count; i < l->count; i++)
            k->scratch[l->order[i] / 64] &= ~((uint64_t)1 << l->order[i] % 64);
    }
    for (size_t i = 0; i < words; i++)
        mask[i] |= from[i];
}

// The tokens that go on below: read from where the frame is returned from.
static bool add_exits(Masks *k, const Local *l, uint32_t turns, uint32_t below, uint64_t *mask,
                      Error *error) {
    Walk w = {
        .automaton = k->automaton, .trie = k->trie, .path = k->path, .mask = mask, .error = error};
    uint32_t state;
    if (!l->exits.count) return true;
    if (!automaton_return(k->automaton, below, &state, error)) return false;
    for (size_t i = 0; i < l->exits.count; i++)
        if (l->exits.at[i].turns <= turns && !walk(&w, state, l->exits.at[i].node)) return false;
    return true;
}

// A COUNT node whose lower bound is reached is asked without bounds; then only the upper one can
// refuse a token.
static bool is_countable(const Automaton *m, Frame f) {
    const Node *n = &m->grammar->nodes.at[f.node];
    return n->kind == NODE_COUNT && f.count >= n->least;
}

// The local of a COUNT node's places; NULL where it is too ambiguous without its bounds.
static bool open_local(Masks *k, const uint64_t *places, size_t count, uint32_t node,
                       const Local **local, Error *error) {
    Automaton *m = k->automaton;
    Error cause = {0};
    uint32_t on, state;
    *local = NULL;
    if (!automaton_frame(m, (Frame){.node = node | FRAME_OPEN}, &on, error) ||
        !masks_move(m, places, count, on, &state, error) || !room_for_states(k, error))
        return false;
    if (k->local_of.at[state] == TOO_AMBIGUOUS || local_of(k, state, local, &cause)) return true;
    if (cause.code != ERROR_FILE) return error_copy(error, &cause);
    k->local_of.at[state] = TOO_AMBIGUOUS;
    return true;
}

bool masks_part(Masks *k, const uint64_t *places, size_t count, Part *part, Error *error) {
    Automaton *m = k->automaton;
    uint32_t state;
    *part = (Part){.below = (uint32_t)(places[0] >> 32), .turns = UINT32_MAX};
    Frame f = m->frames.at[part->below];
    if (part->below != FRAME_BOTTOM && is_countable(m, f)) {
        const Node *n = &m->grammar->nodes.at[f.node];
        if (!open_local(k, places, count, f.node, &part->local, error)) return false;
        if (part->local && n->most != UNBOUNDED) part->turns = n->most - f.count;
        if (part->local) part->below = f.below;
    }
    return part->local || (masks_move(m, places, count, FRAME_BOTTOM, &state, error) &&
                           local_of(k, state, &part->local, error));
}

static bool add_places(Masks *k, const uint64_t *places, size_t count, uint64_t *mask,
                       Error *error) {
    Part part;
    if (!masks_part(k, places, count, &part, error)) return false;
    add_local(k, part.local, part.turns, mask);
    return part.below == FRAME_BOTTOM ||
           add_exits(k, part.local, part.turns, part.below, mask, error);
}

uint64_t *masks_places(const Automaton *m, uint32_t state, size_t *count, Error *error) {
    State s = m->states.at[state];
    uint64_t *places = malloc((s.count + 1) * sizeof *places);
    *count = s.count;
    if (!places)
        no_memory(error);
    else if (s.count)
        memcpy(places, m->places.at + s.first, s.count * sizeof *places);
    return places;
}

size_t masks_same_frame(const uint64_t *places, size_t count) {
    size_t n = 1;
    while (n < count && places[n] >> 32 == places[0] >> 32)
        n++;
    return n;
}

static bool find_mask(Masks *k, uint32_t state, uint64_t *mask, Error *error) {
    size_t count;
    uint64_t *places = masks_places(k->automaton, state, &count, error);
    bool good = places;
    for (size_t i = 0, n; good && i < count; i += n) {
        n = masks_same_frame(places + i, count - i);
        good = add_places(k, places + i, n, mask, error);
    }
    free(places);
    return good;
}

const uint64_t *masks_of(Masks *k, uint32_t state, Error *error) {
    size_t words = mask_words(k->trie->n_tokens);
    if (!room_for_states(k, error)) return NULL;
    if (k->kept.at[state]) return k->kept.at[state];
    uint64_t *mask = calloc(words, sizeof *mask);
    if (!mask) {
        no_memory(error);
        return NULL;
    }
    if (!find_mask(k, state, mask, error)) {
        free(mask);
        return NULL;
    }
    k->kept.at[state] = mask;
    k->bytes += words * sizeof *mask;
    return mask;
}

bool masks_open(Masks *k, Automaton *automaton, const Trie *trie, Error *error) {
    *k = (Masks){.automaton = automaton, .trie = trie};
    k->path = malloc((trie->depth + 1) * sizeof *k->path);
    k->scratch = malloc(mask_words(trie->n_tokens) * sizeof *k->scratch);
    k->all = calloc(mask_words(trie->n_tokens), sizeof *k->all);
    if (!k->path || !k->scratch || !k->all) return no_memory(error);
    for (size_t i = 0; i < trie->n_ids; i++)
        set_bit(k->all, trie->ids[i]);
    return true;
}

void masks_free(Masks *k) {
    for (size_t i = 0; i < k->locals.count; i++)
        local_free(&k->locals.at[i]);
    for (size_t i = 0; i < k->kept.count; i++)
        free(k->kept.at[i]);
    free(k->locals.at);
    free(k->local_of.at);
    free(k->kept.at);
    free(k->loops.at);
    free(k->all);
    free(k->path);
    free(k->scratch);
    *k = (Masks){0};
}
