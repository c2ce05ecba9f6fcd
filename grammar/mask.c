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

// ---- reading tokens ----

// A token of a Local, with its turns.
typedef struct Found {
    uint32_t id, turns;
} Found;

typedef struct Walk {
    Automaton *automaton;
    const Trie *trie;
    uint32_t *path; // (depth + 1)
    uint64_t *mask;
    // of a Local; NULL: none
    Local *local;
    ARRAY(Found) found;
    Error *error;
} Walk;

static bool keep_found(Walk *w, uint32_t node, uint32_t state) {
    const TrieNode *n = &w->trie->nodes[node];
    const State *s = &w->automaton->states.at[state];
    for (uint32_t i = n->first; i < n[1].first; i++) {
        if (!ARRAY_ROOM(&w->found, w->error)) return false;
        w->found.at[w->found.count++] = (Found){w->trie->ids[i], s->turns};
    }
    if (!s->ends || n->skip == node + 1) return true;
    if (!ARRAY_ROOM(&w->local->exits, w->error)) return false;
    w->local->exits.at[w->local->exits.count++] = (Exit){node, s->ends - 1};
    return true;
}

// Reads what is below the trie's node `top` from a state. Where a byte cannot be read, all below it
// is passed over.
static bool walk(Walk *w, uint32_t state, uint32_t top) {
    Automaton *m = w->automaton;
    const TrieNode *nodes = w->trie->nodes;
    w->path[trie_depth(&nodes[top])] = state;
    for (uint32_t i = top + 1, end = nodes[top].skip; i < end;) {
        uint32_t depth = trie_depth(&nodes[i]), to;
        if (!automaton_move(m, w->path[depth - 1], (uint8_t)nodes[i].place, &to, w->error))
            return false;
        if (to == STATE_DEAD) {
            i = nodes[i].skip;
            continue;
        }
        w->path[depth] = to;
        for (uint32_t j = nodes[i].first; j < nodes[i + 1].first; j++)
            set_bit(w->mask, w->trie->ids[j]);
        if (w->local && !keep_found(w, i, to)) return false;
        i++;
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
              .local = l,
              .error = error};
    bool good = walk(&w, state, 0) && sort_by_turns(l, w.found.at, w.found.count, error);
    l->count = w.found.count;
    free(w.found.at);
    k->bytes += words * sizeof *l->mask + l->exits.capacity * sizeof *l->exits.at +
                (l->order ? l->count * sizeof *l->order : 0);
    if (!good) local_free(l);
    return good;
}

// Room for every state, as far as there are any.
static bool room_for_states(Masks *k, Error *error) {
    while (k->local_of.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->local_of, error)) return false;
        k->local_of.at[k->local_of.count++] = NOT_KNOWN;
    }
    while (k->kept.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->kept, error)) return false;
        k->kept.at[k->kept.count++] = NULL;
    }
    return true;
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

// The same places on another frame.
static bool move_places(Automaton *m, const uint64_t *places, size_t count, uint32_t frame,
                        uint32_t *state, Error *error) {
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
        !move_places(m, places, count, on, &state, error) || !room_for_states(k, error))
        return false;
    if (k->local_of.at[state] == TOO_AMBIGUOUS || local_of(k, state, local, &cause)) return true;
    if (cause.code != ERROR_FILE) return error_copy(error, &cause);
    k->local_of.at[state] = TOO_AMBIGUOUS;
    return true;
}

static bool add_places(Masks *k, const uint64_t *places, size_t count, uint64_t *mask,
                       Error *error) {
    Automaton *m = k->automaton;
    uint32_t below = (uint32_t)(places[0] >> 32), turns = UINT32_MAX, state;
    Frame f = m->frames.at[below];
    const Local *l = NULL;
    if (below != FRAME_BOTTOM && is_countable(m, f)) {
        const Node *n = &m->grammar->nodes.at[f.node];
        if (!open_local(k, places, count, f.node, &l, error)) return false;
        if (l && n->most != UNBOUNDED) turns = n->most - f.count;
        if (l) below = f.below;
    }
    if (!l && (!move_places(m, places, count, FRAME_BOTTOM, &state, error) ||
               !local_of(k, state, &l, error)))
        return false;
    add_local(k, l, turns, mask);
    return below == FRAME_BOTTOM || add_exits(k, l, turns, below, mask, error);
}

static bool find_mask(Masks *k, uint32_t state, uint64_t *mask, Error *error) {
    State s = k->automaton->states.at[state];
    uint64_t *places = malloc((s.count + 1) * sizeof *places);
    if (!places) return no_memory(error);
    // A copy, since places move as states are added.
    if (s.count) memcpy(places, k->automaton->places.at + s.first, s.count * sizeof *places);
    bool good = true;
    for (uint32_t i = 0, n; good && i < s.count; i += n) {
        for (n = 1; i + n < s.count && places[i + n] >> 32 == places[i] >> 32;)
            n++;
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
    return (k->path && k->scratch) || no_memory(error);
}

void masks_free(Masks *k) {
    for (size_t i = 0; i < k->locals.count; i++)
        local_free(&k->locals.at[i]);
    for (size_t i = 0; i < k->kept.count; i++)
        free(k->kept.at[i]);
    free(k->locals.at);
    free(k->local_of.at);
    free(k->kept.at);
    free(k->path);
    free(k->scratch);
    *k = (Masks){0};
}
