// The state that a text has led to, and its masks. The work is in automaton.c (states) and mask.c.
#include "grammar/matcher.h"

#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_BYTES = 96 << 20 };

struct Matcher {
    const Grammar *grammar; // borrowed
    const Trie *trie;       // borrowed
    const int *stop;
    Automaton automaton;
    Masks masks;
    Shortest shortest;
    uint32_t state;
    size_t most_kept; // bytes
    size_t alone;     // those of the state, when it was copied
};

Matcher *matcher_open(const Grammar *grammar, const Trie *trie, const int *stop, Error *error) {
    Matcher *m = calloc(1, sizeof *m);
    if (!m) {
        error_set(error, ERROR_MEMORY, "no memory for a grammar's matcher");
        return NULL;
    }
    m->grammar = grammar;
    m->trie = trie;
    m->stop = stop;
    m->most_kept = KEPT_BYTES;
    m->shortest = shortest_of(&m->automaton, trie);
    if (automaton_open(&m->automaton, grammar, stop, error) &&
        masks_open(&m->masks, &m->automaton, trie, error) && matcher_reset(m, error))
        return m;
    matcher_close(m);
    return NULL;
}

void matcher_close(Matcher *m) {
    if (!m) return;
    shortest_free(&m->shortest);
    masks_free(&m->masks);
    automaton_free(&m->automaton);
    free(m);
}

void matcher_keep(Matcher *m, size_t bytes) {
    m->most_kept = bytes;
}

bool matcher_prepare(Matcher *m, Error *error) {
    return masks_prepare(&m->masks, m->state, error);
}

bool matcher_reset(Matcher *m, Error *error) {
    return automaton_start(&m->automaton, &m->state, error);
}

bool matcher_complete(const Matcher *m) {
    return m->automaton.states.at[m->state].ends;
}

static bool read_bytes(Matcher *m, const char *bytes, size_t length, uint32_t *state,
                       Error *error) {
    *state = m->state;
    for (size_t i = 0; i < length && *state != STATE_DEAD; i++)
        if (!automaton_move(&m->automaton, *state, (uint8_t)bytes[i], state, error)) return false;
    return true;
}

bool matcher_read(Matcher *m, const char *bytes, size_t length, bool *fits, Error *error) {
    uint32_t state;
    if (!read_bytes(m, bytes, length, &state, error)) return false;
    *fits = state != STATE_DEAD;
    if (*fits) m->state = state;
    return true;
}

bool matcher_needs(Matcher *m, const char *bytes, size_t length, uint32_t most, uint32_t *tokens,
                   Error *error) {
    uint32_t state;
    return read_bytes(m, bytes, length, &state, error) &&
           shortest_tokens(&m->shortest, state, most, tokens, error);
}

bool matcher_narrow(Matcher *m, const Trie *trie, uint32_t left, uint64_t *mask, Error *error) {
    return shortest_narrow(&m->shortest, trie, m->state, left, mask, error);
}

// ---- starting over ----

// The frame in another automaton. Frames have higher numbers than those below them.
static bool copy_frames(const Automaton *from, Automaton *to, uint32_t *numbers, uint32_t top,
                        Error *error) {
    for (uint32_t i = 1; i <= top; i++) {
        Frame f = from->frames.at[i];
        if (numbers[i] == NONE) continue; // not in use
        f.below = numbers[f.below];
        if (f.node == FRAME_UNION) f.count = numbers[f.count];
        if (!automaton_frame(to, f, &numbers[i], error)) return false;
    }
    return true;
}

// Marks the frames that the state stands on; returns the highest.
static uint32_t mark_frames(const Automaton *m, uint32_t state, uint32_t *numbers) {
    const State *s = &m->states.at[state];
    uint32_t top = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t frame = (uint32_t)(m->places.at[s->first + i] >> 32);
        if (frame > top) top = frame;
        if (frame != FRAME_BOTTOM) numbers[frame] = 0;
    }
    for (uint32_t i = top; i > FRAME_BOTTOM; i--) {
        const Frame *f = &m->frames.at[i];
        if (numbers[i] == NONE) continue;
        if (f->below != FRAME_BOTTOM) numbers[f->below] = 0;
        if (f->node == FRAME_UNION && f->count != FRAME_BOTTOM) numbers[f->count] = 0;
    }
    return top;
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool copy_state(const Automaton *from, Automaton *to, uint32_t *numbers, uint32_t *state,
                       Error *error) {
    State s = from->states.at[*state];
    uint64_t *places = malloc((s.count + 1) * sizeof *places);
    if (!places) return error_set(error, ERROR_MEMORY, "no memory for a grammar's state");
    for (uint32_t i = 0; i < s.count; i++) {
        uint64_t place = from->places.at[s.first + i];
        places[i] = (uint64_t)numbers[place >> 32] << 32 | (uint32_t)place;
    }
    qsort(places, s.count, sizeof *places, compare_numbers);
    bool good = automaton_state(to, places, s.count, s.ends, state, error);
    free(places);
    return good;
}

// The state alone goes to a new automaton.
static bool start_over(Matcher *m, Error *error) {
    Automaton new;
    size_t n_frames = m->automaton.frames.count;
    uint32_t state = m->state, *numbers = malloc(n_frames * sizeof *numbers);
    bool good = automaton_open(&new, m->grammar, m->stop, error);
    if (!numbers) good = error_set(error, ERROR_MEMORY, "no memory for %zu frames", n_frames);
    if (good) {
        memset(numbers, 0xff, n_frames * sizeof *numbers);
        numbers[FRAME_BOTTOM] = FRAME_BOTTOM;
        uint32_t top = mark_frames(&m->automaton, state, numbers);
        good = copy_frames(&m->automaton, &new, numbers, top, error) &&
               copy_state(&m->automaton, &new, numbers, &state, error);
    }
    free(numbers);
    if (!good) {
        automaton_free(&new);
        return false;
    }
    shortest_free(&m->shortest);
    masks_free(&m->masks);
    automaton_free(&m->automaton);
    m->shortest = shortest_of(&m->automaton, m->trie);
    m->automaton = new;
    m->state = state;
    m->alone = automaton_bytes(&new);
    return masks_open(&m->masks, &m->automaton, m->trie, error);
}

const uint64_t *matcher_mask(Matcher *m, Error *error) {
    size_t kept = automaton_bytes(&m->automaton) + m->masks.bytes - m->alone;
    if (kept > m->most_kept && !start_over(m, error)) return NULL;
    return masks_of(&m->masks, m->state, error);
}

bool matcher_mask_slowly(Matcher *m, const Trie *trie, uint64_t *mask, Error *error) {
    memset(mask, 0, mask_words(trie->n_tokens) * sizeof *mask);
    size_t work = SIZE_MAX;
    return masks_walk(&m->automaton, trie, m->state, &work, mask, error);
}
