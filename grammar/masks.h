// Masks of a matcher's states: which tokens may come next. grammar/mask.c says how they are found
// without reading the whole vocabulary. Nothing outside grammar/ includes this file, except tests.
#pragma once

#include "grammar/automaton.h"
#include "grammar/matcher.h"

typedef struct Exit {
    uint32_t node, turns;
} Exit;

// What the tokens of a vocabulary do to the upper part of a stack, whatever is below it.
typedef struct Local {
    uint64_t *mask;  // (words) tokens that stay in it, or end with it
    uint32_t *order; // those tokens by their turns, where some have any; NULL
    size_t count;
    uint32_t most_turns;
    uint32_t *ends_at; // (most_turns + 1) how many have at most so many turns
    ARRAY(Exit) exits; // trie nodes where it ends inside a token
} Local;

// A state of a walk, and the looping state that it is, or that it is inside of a character of.
typedef struct Step {
    uint32_t state, loop; // STATE_DEAD: none
} Step;

typedef struct Masks {
    Automaton *automaton; // borrowed, like the trie
    const Trie *trie;
    ARRAY(Local) locals;
    ARRAY(uint32_t) local_of; // state -> local; NOT_KNOWN
    ARRAY(uint64_t *) kept;   // state -> mask; NULL
    ARRAY(uint64_t) loops;    // state -> masks_loops; 0: not known
    uint64_t *all;            // (words) every token with bytes
    Step *path;               // (trie->depth + 1) along a walk
    uint64_t *scratch;        // (words)
    size_t bytes;             // of memory, about
    size_t n_read;            // nodes of the trie that locals took
} Masks;

// False: exit code 5. masks_free takes a zeroed one.
bool masks_open(Masks *masks, Automaton *automaton, const Trie *trie, Error *error);
void masks_free(Masks *masks);

// Borrowed until masks_free. NULL: exit code 3, 5 or 130.
const uint64_t *masks_of(Masks *masks, uint32_t state, Error *error);

// Finds the locals of the places that a text can come to from this state, up to a bound of work: a
// new one takes far longer than the mask of a state whose locals are known (prepare.c). False: exit
// code 5 or 130.
bool masks_prepare(Masks *masks, uint32_t start, Error *error);

// ---- of mask.c, for prepare.c ----

// Places of one frame: what is true of any stack, up to how many turns, and the frame that its
// exits return from.
typedef struct Part {
    const Local *local; // borrowed until the next call
    uint32_t turns, below;
} Part;
bool masks_part(Masks *masks, const uint64_t *places, size_t count, Part *part, Error *error);

// A copy of a state's places, for free(), since they move as states are added; how many of them
// are on the frame of the first; the state of the same places on another frame.
uint64_t *masks_places(const Automaton *automaton, uint32_t state, size_t *count, Error *error);
size_t masks_same_frame(const uint64_t *places, size_t count);
bool masks_move(Automaton *automaton, const uint64_t *places, size_t count, uint32_t frame,
                uint32_t *state, Error *error);

// ---- loops.c ----

// The kinds of characters (grammar/matcher.h) that lead from a state back to it, with LOOPS_KNOWN.
// False: exit code 3, 5 or 130.
#define LOOPS_KNOWN ((uint64_t)1 << 61)
bool masks_loops(Automaton *automaton, uint32_t state, uint64_t *loops, Error *error);

// Adds the tokens of any trie that may come behind this state. False: as above.
bool masks_walk(Automaton *automaton, const Trie *trie, uint32_t state, uint64_t *mask,
                Error *error);
