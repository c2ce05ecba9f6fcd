// The states of a matcher: each a set of places in the grammar, found when it is first needed, and
// kept. Nothing outside grammar/ includes this file, except tests.
//
//     place   a BYTES node, and a frame: the stack of what is to be gone on with behind it
//     frame   a CALL or COUNT node, the frame below it, and the counter of a COUNT
//     state   places in order, without doubles; `ends`: the text may end here
//
// grammar/mask.c asks what a token does to the upper part of a stack, whatever is below. Then the
// bottom stands for all that is below, and other frames stand on it, which count turns: how often
// the body of a COUNT node begins again.
//
//     FRAME_STAY | body   the body again and again, without end. Where it is complete, a place of
//                         the RETURN node keeps the count, which reads nothing
//     FRAME_OPEN | node   a COUNT node without bounds
//     FRAME_EVER | node   the same, but it does not count
//     FRAME_LEFT          what comes behind that COUNT node; it keeps the count. Where that ends, a
//                         place of the RETURN node stays
//
// A frame of FRAME_UNION stands for two others, `count` and `below`, either of which the stack may
// go on with (stacks.c).
//
// Frames and states are numbered, and equal ones have the same number: a stack is one number,
// whatever its depth, and stacks share what is below them.
#pragma once

#include "base/hash.h"
#include "grammar/internal.h"

enum { FRAME_BOTTOM = 0, STATE_DEAD = 0 };
#define NOT_KNOWN UINT32_MAX
#define FRAME_STAY (1u << 31)
#define FRAME_OPEN (1u << 30)
#define FRAME_EVER (1u << 29)
#define FRAME_KINDS (7u << 29)
#define FRAME_LEFT (UINT32_MAX - 1) // all of FRAME_KINDS
#define FRAME_UNION NODE_THE_RETURN // of frames above the bottom

typedef struct Frame {
    uint32_t node, count, below;
    uint32_t bottom; // `node` of the last frame above the bottom, if it is one of FRAME_KINDS; 0
    uint32_t turns;  // and its count
    uint32_t base;   // the first frame, from this one down, that is neither of a CALL nor a union:
                     // what all stacks of a union stand on
    uint32_t needs;  // the fewest bytes from where the frame is returned from to the text's end; of
                     // frames on one of FRAME_KINDS it says nothing
    uint32_t returned; // the state of automaton_return, once it was asked for; NOT_KNOWN
} Frame;

typedef struct State {
    uint32_t first, count; // places
    uint32_t ends;         // 1: the text may end
    uint32_t turns;        // the fewest of a place that is not on a FRAME_LEFT; NOT_KNOWN: none is
    uint32_t n_left;       // places that are
} State;

typedef struct Member { // a frame that a node is on, not a union
    uint32_t node, base, frame;
} Member;

typedef struct Automaton {
    const Grammar *grammar; // borrowed
    const int *stop;
    ARRAY(Frame) frames;
    ARRAY(State) states;
    ARRAY(uint64_t) places; // frame << 32 | node, sorted in each state
    uint32_t *moves;        // (states.capacity, n_classes) NOT_KNOWN, or the state behind a byte
    size_t moves_capacity;
    uint32_t *frame_table, *state_table; // open addressing: number + 1
    size_t frame_buckets, state_buckets;
    HashKey key;
    uint8_t byte_of[256]; // one of each class
    // of the state that is being found
    ARRAY(uint64_t) todo, found;
    ARRAY(Member) members; // of its places
    ARRAY(Frame) counted;  // bodies that may be empty: the least count so far
    uint64_t *seen;        // (seen_size) open addressing
    uint32_t *stamps;      // (seen_size) the search that it belongs to
    size_t seen_size, n_seen;
    uint32_t stamp, ends;
    size_t n_followed; // places, in all
} Automaton;

// False: exit code 5. automaton_free takes a zeroed one.
bool automaton_open(Automaton *automaton, const Grammar *grammar, const int *stop, Error *error);
void automaton_free(Automaton *automaton);
size_t automaton_bytes(const Automaton *automaton); // of memory, about

// The state at the start of root; where a frame is returned from; these places of BYTES nodes
// (sorted). False: exit code 3, 5 or 130.
bool automaton_start(Automaton *automaton, uint32_t *state, Error *error);
bool automaton_return(Automaton *automaton, uint32_t frame, uint32_t *state, Error *error);
bool automaton_state(Automaton *automaton, const uint64_t *places, size_t count, uint32_t ends,
                     uint32_t *state, Error *error);
bool automaton_frame(Automaton *automaton, Frame frame, uint32_t *index, Error *error);

// Of the search for a state: it begins; a place to go on from, where it is new. False: as above.
bool automaton_begin_search(Automaton *automaton, Error *error);
bool automaton_add(Automaton *automaton, uint32_t node, uint32_t frame, Error *error);

// stacks.c: one place for those of a node whose stacks can be shared. The order is another. False:
// exit code 3 or 5.
bool automaton_share(Automaton *automaton, uint64_t *places, size_t *count, Error *error);

// The bytes that may come where the stacks of a state have ended at the bottom, whatever is below.
// False: exit code 3, 5 or 130.
bool automaton_follows(Automaton *automaton, uint32_t state, ByteSet *set, Error *error);

// Finds the state behind a byte of this class, for automaton_move.
bool automaton_find_move(Automaton *automaton, uint32_t state, uint8_t class, Error *error);
static inline bool automaton_move(Automaton *m, uint32_t state, uint8_t byte, uint32_t *to,
                                  Error *error) {
    uint8_t class = m->grammar->classes[byte];
    size_t at = state * m->grammar->n_classes + class;
    if (m->moves[at] == NOT_KNOWN && !automaton_find_move(m, state, class, error)) return false;
    *to = m->moves[at];
    return true;
}
