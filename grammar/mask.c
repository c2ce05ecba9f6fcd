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
// tokens stay in it or end with it (Local.stays), and at which nodes of the trie it ends with bytes
// still to come (Local.exits). For a stack, only what is below those nodes is read.
//
// Of a set of several places each is asked alone the first few times: most sets do not come again.
//
// Where the frame is that of a COUNT node, which differs with every character of [a-z]{1,100}, it
// is asked once without bounds, and each token keeps how often it begins the body again: its turns.
// What is left of the bounds chooses among the tokens, and nearly always takes all that stay: the
// lower bound refuses those that leave (Local.leaves), the upper one those of too many turns.
//
//     [a-z]{5,9} at "abc|"     stays: at most 6 turns; leaves: 2 .. 6 turns
//
// Stacks that differ in one counter alone are asked together: for "word{20,100}" where nothing
// marks the end of a word, those of all counts so far.
//
// Where much is below exits, more of the stack is taken: in "char*" with a rule `char` of its own
// nearly every token returns from it, and stays in what is around it. Counters of two COUNT nodes
// would be too many; there what goes on below the exits of one is asked once: a local of the tokens
// that have left another local (LocalKey.parent). What is below few nodes is read by steps down the
// stack (descend.c), whose states are known from other stacks.
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

// The most nodes of the trie that are read behind exits.
enum { MOST_READ = 400 };

// Of the first attempt to find a mask by its parts, of how many times as much the second one, and
// of the last: in nodes of the trie, some 2, 17 and 300 ms.
enum { ATTEMPTS = 3, FIRST_WORK = 1 << 18, MORE_WORK = 8, LAST_WORK = 1 << 25 };

// Of the newest states. Others' masks are found again.
enum { KEPT_MASKS_BYTES = 16 << 20, LEAST_KEPT = 16 };

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

// ---- places ----

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

// ---- the mask of a state ----

bool masks_read_places(Masks *k, const uint64_t *places, size_t count, size_t *work, uint64_t *mask,
                       Error *error) {
    uint32_t state;
    Error cause = {0};
    if (automaton_state(k->automaton, places, count, 0, &state, &cause) &&
        masks_walk(k->automaton, k->trie, state, work, mask, &cause))
        return true;
    size_t half = count / 2;
    while (half < count && half && places[half] >> 32 == places[half - 1] >> 32)
        half++;
    if (cause.code != ERROR_FILE || !*work || !half || half == count)
        return error_copy(error, &cause);
    return masks_read_places(k, places, half, work, mask, error) &&
           masks_read_places(k, places + half, count - half, work, mask, error);
}

// *found false: not within so much work.
static bool try_reading(Masks *k, const uint64_t *places, size_t count, size_t work, uint64_t *mask,
                        bool *found, Error *error) {
    Error cause = {0};
    *found = masks_read_places(k, places, count, &work, mask, &cause);
    return *found || cause.code == ERROR_FILE || error_copy(error, &cause);
}

// A part may be too ambiguous on an empty stack and its state not.
static bool try_parts(Masks *k, const uint64_t *places, size_t count, size_t work, uint64_t *mask,
                      bool *found, Error *error) {
    Error cause = {0};
    k->work_end = masks_work(k) + work;
    k->refuse_end = masks_work(k) + LAST_WORK;
    k->is_cut = false;
    bool good = masks_add_parts(k, places, count, mask, &cause);
    *found = good && !k->is_cut;
    return good || cause.code == ERROR_FILE || error_copy(error, &cause);
}

// By its parts, whose locals are kept; but each stack has parts of its own, and where they are
// many, reading the tokens takes less. Which does is not known before: both are tried, with a
// bound, and again with a larger one. What an attempt adds before it ends is part of the mask.
static bool find_mask(Masks *k, uint32_t state, uint64_t *mask, Error *error) {
    const size_t parts[ATTEMPTS] = {k->most_work, MORE_WORK * k->most_work, LAST_WORK};
    const size_t reading[ATTEMPTS - 1] = {k->most_work / 2, LAST_WORK};
    size_t count;
    uint64_t *places = masks_places(k->automaton, state, &count, error);
    bool good = places, found = false;
    k->n_found++;
    for (int i = 0; good && !found && i < k->most_attempts; i++) {
        k->is_last = i == ATTEMPTS - 1;
        good = try_parts(k, places, count, parts[i], mask, &found, error);
        if (good && !found && !k->is_last)
            good = try_reading(k, places, count, reading[i], mask, &found, error);
    }
    free(places);
    return found ||
           (good && error_set(error, ERROR_FILE, "the grammar is too ambiguous to find its masks"));
}

static bool room_for_states(Masks *k, Error *error) {
    while (k->kept.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->kept, error)) return false;
        k->kept.at[k->kept.count++] = NULL;
    }
    return true;
}

// Zeroed: new, or that of the oldest state.
static uint64_t *take_mask(Masks *k) {
    size_t words = mask_words(k->trie->n_tokens);
    uint32_t oldest = k->kept_states[k->next_kept];
    uint64_t *mask = oldest == NOT_KNOWN ? NULL : k->kept.at[oldest];
    if (!mask) {
        k->bytes += words * sizeof *mask;
        return calloc(words, sizeof *mask);
    }
    k->kept.at[oldest] = NULL;
    k->kept_states[k->next_kept] = NOT_KNOWN;
    return memset(mask, 0, words * sizeof *mask);
}

const uint64_t *masks_of(Masks *k, uint32_t state, Error *error) {
    if (!room_for_states(k, error)) return NULL;
    if (k->kept.at[state]) return k->kept.at[state];
    uint64_t *mask = take_mask(k);
    if (!mask) no_memory(error);
    if (!mask || !find_mask(k, state, mask, error)) {
        k->bytes -= mask_words(k->trie->n_tokens) * sizeof *mask;
        free(mask);
        return NULL;
    }
    k->kept.at[state] = mask;
    k->kept_states[k->next_kept] = state;
    k->next_kept = (k->next_kept + 1) % k->n_kept;
    return mask;
}

// ---- lifetime ----

bool masks_open(Masks *k, Automaton *automaton, const Trie *trie, Error *error) {
    size_t words = mask_words(trie->n_tokens), bytes = (words + 1) * sizeof *k->all;
    *k = (Masks){.automaton = automaton,
                 .trie = trie,
                 .n_found = 1,
                 .most_read = MOST_READ,
                 .most_work = FIRST_WORK,
                 .most_attempts = ATTEMPTS};
    k->n_kept = KEPT_MASKS_BYTES / bytes > LEAST_KEPT ? KEPT_MASKS_BYTES / bytes : LEAST_KEPT;
    k->path = malloc((trie->depth + 1) * sizeof *k->path);
    k->scratch = calloc(words, sizeof *k->scratch);
    k->all = calloc(words, sizeof *k->all);
    k->kept_states = malloc(k->n_kept * sizeof *k->kept_states);
    k->node_bits = calloc(trie->n_nodes / 64 + 1, sizeof *k->node_bits);
    k->walked = calloc(trie->n_nodes, sizeof *k->walked);
    if (!k->node_bits || !k->walked) return no_memory(error);
    if (!locals_open(k, error) || !descended_open(k, error)) return false;
    if (!k->path || !k->scratch || !k->all || !k->kept_states) return no_memory(error);
    memset(k->kept_states, 0xff, k->n_kept * sizeof *k->kept_states);
    for (size_t i = 0; i < trie->n_ids; i++)
        k->all[trie->ids[i] / 64] |= (uint64_t)1 << trie->ids[i] % 64;
    return true;
}

void masks_free(Masks *k) {
    for (size_t i = 0; i < k->kept.count; i++)
        free(k->kept.at[i]);
    locals_free(k);
    descended_free(k);
    free(k->kept.at);
    free(k->kept_states);
    free(k->loops.at);
    free(k->looks.at);
    free(k->grounds.at);
    free(k->all);
    free(k->path);
    free(k->scratch);
    free(k->node_bits);
    free(k->walked);
    *k = (Masks){0};
}
