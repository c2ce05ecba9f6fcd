// Masks of a matcher's states: which tokens may come next. grammar/mask.c says how they are found
// without reading the whole vocabulary. Nothing outside grammar/ includes this file.
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

typedef struct Masks {
    Automaton *automaton; // borrowed, like the trie
    const Trie *trie;
    ARRAY(Local) locals;
    ARRAY(uint32_t) local_of; // state -> local; NOT_KNOWN
    ARRAY(uint64_t *) kept;   // state -> mask; NULL
    uint32_t *path;           // (trie->depth + 1) states along the walk
    uint64_t *scratch;        // (words)
    size_t bytes;             // of memory, about
} Masks;

// False: exit code 5. masks_free takes a zeroed one.
bool masks_open(Masks *masks, Automaton *automaton, const Trie *trie, Error *error);
void masks_free(Masks *masks);

// Borrowed until masks_free. NULL: exit code 3, 5 or 130.
const uint64_t *masks_of(Masks *masks, uint32_t state, Error *error);

// Adds the tokens of any trie that may come behind this state. False: as above.
bool masks_walk(Automaton *automaton, const Trie *trie, uint32_t state, uint64_t *mask,
                Error *error);
