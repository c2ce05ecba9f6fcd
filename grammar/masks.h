// Masks of a matcher's states: which tokens may come next. grammar/mask.c says how they are found
// without reading the whole vocabulary. Nothing outside grammar/ includes this file, except tests.
#pragma once

#include "grammar/automaton.h"
#include "grammar/matcher.h"

// ---- turns.c: tokens by their turns, how often they begin the body of a COUNT node again ----

// A list where they are few, else a bit for each.
typedef struct TokenSet {
    uint32_t *ids;  // (count) owned; NULL where there is a mask
    uint64_t *mask; // (words) owned; NULL
    size_t count;
} TokenSet;

typedef struct TurnSets {
    TokenSet all;
    TokenSet *levels;  // (n_levels) level t: tokens of t turns; NULL where there is but one
    uint64_t **up_to;  // (n_levels) masks of the levels 0 .. t for some t, so that seldom many are
                       // added; others NULL
    uint32_t n_levels; // 0: no tokens
} TurnSets;

typedef struct Found { // one token may have several turns
    uint32_t id, turns;
} Found;

// scratch (mask_words(n_tokens)) zeroed, and so it is left. turn_sets_free takes a zeroed one; of
// one mask: all its tokens have no turns. False: exit code 5.
bool turn_sets_init(TurnSets *sets, const Found *found, size_t count, size_t n_tokens,
                    uint64_t *scratch, Error *error);
bool turn_sets_of_mask(TurnSets *sets, const uint64_t *mask, size_t n_tokens, Error *error);
void turn_sets_free(TurnSets *sets);
size_t turn_sets_bytes(const TurnSets *sets, size_t n_tokens); // of memory, about

// Adds the tokens of low .. high turns.
void turn_sets_add(const TurnSets *sets, uint32_t low, uint32_t high, uint64_t *mask, size_t words);

// ---- locals.c: what tokens do to the upper part of a stack, whatever is below it ----

// A node of the trie before which that part of the stack has ended, inside tokens.
typedef struct Exit {
    uint32_t node, turns;
    size_t before; // nodes below the exits before this one
} Exit;

typedef struct Exits {
    Exit *at;        // (count + 1) by byte, then by turns, then by node; owned; NULL: none
    uint32_t *first; // (257) of each byte; owned
    uint64_t levels; // bit t: there are exits of t turns; the last bit: of so many or more
    uint32_t most_turns;
    size_t count;
} Exits;

// Which tokens are asked about: all, or those that have left a local at exits of so many turns,
// or of any (NOT_KNOWN).
// And from where: a state whose stacks end at the bottom, or at one
// of FRAME_KINDS.
typedef struct LocalKey {
    uint32_t parent, turns; // NOT_KNOWN, 0: all tokens
    uint32_t state;
    uint32_t ever; // the same state on a FRAME_EVER, where this is on a FRAME_OPEN; not compared
} LocalKey;

typedef struct Local {
    LocalKey key;
    uint32_t index;
    bool too_ambiguous; // to be asked; the rest is empty
    bool was_asked;     // since masks_prepare began its second part
    TurnSets stays;     // tokens that stay in the upper part, or end with it
    TurnSets leaves;    // on a FRAME_OPEN: tokens that leave its repetition, in place of `stays`
    Exits exits;
} Local;

// A state of a walk, and the looping state that it is, or that it is inside of a character of.
typedef struct Step {
    uint32_t state;
    uint32_t ever; // the same where turns are not counted
    uint32_t loop; // STATE_DEAD: none
} Step;

typedef struct Masks {
    Automaton *automaton; // borrowed, like the trie
    const Trie *trie;
    ARRAY(Local *) locals; // each owned
    uint32_t *local_table; // (local_buckets) open addressing: index + 1
    size_t local_buckets;
    ARRAY(uint64_t *) kept; // state -> mask; NULL
    uint32_t *kept_states;  // (n_kept) of the masks that are kept, in a ring
    size_t n_kept, next_kept;
    ARRAY(uint64_t) loops; // state -> masks_loops; 0: not known
    uint64_t *all;         // (words) every token with bytes
    Step *path;            // (trie->depth + 1) along a walk
    uint64_t *scratch;     // (words) zero
    size_t bytes;          // of memory, about
    size_t work;           // nodes of the trie that were read, and what takes as long as so many
    size_t work_end;       // masks_work where parts of a mask are left out,
    bool is_cut;           // and that some were
    size_t n_behind;       // locals behind exits that the mask being found took
    size_t n_asked;        // locals that were asked for the first time
    size_t most_read;      // nodes behind exits that are read rather than kept as a local
    size_t most_work;      // of the first attempt to find a mask by its parts
} Masks;

// False: exit code 3 (locals_find alone: it is too ambiguous), 5 or 130. *local is borrowed until
// masks_free.
bool locals_find(Masks *masks, LocalKey key, const Local **local, Error *error);
void locals_free(Masks *masks);

// The exits of low .. high turns, read from a state: about how many nodes that takes; the tokens
// below them.
size_t exits_work(const Masks *masks, const Local *local, uint32_t low, uint32_t high,
                  uint32_t state);
bool exits_walk(Masks *masks, const Local *local, uint32_t low, uint32_t high, uint32_t state,
                uint64_t *mask, Error *error);

// Adds the tokens of any trie that may come behind this state, as far as *work goes, in nodes of
// the trie; the rest of it stays. False: as above; 3 where it does not suffice, too.
bool masks_walk(Automaton *automaton, const Trie *trie, uint32_t state, size_t *work,
                uint64_t *mask, Error *error);

// ---- mask.c ----

// False: exit code 5. masks_free takes a zeroed one.
bool masks_open(Masks *masks, Automaton *automaton, const Trie *trie, Error *error);
void masks_free(Masks *masks);

// Borrowed until the next call. NULL: exit code 3, 5 or 130.
const uint64_t *masks_of(Masks *masks, uint32_t state, Error *error);

// What was done so far, as Masks.work: a place that is followed takes as long as a few nodes.
#define WORK_OF_PLACE 4
size_t masks_work(const Masks *masks);

// Adds the tokens that may come behind places of one frame; but see work_end. False: exit code 3, 5
// or 130.
bool masks_add_places(Masks *masks, const uint64_t *places, size_t count, uint64_t *mask,
                      Error *error);

// The same of places of any frames, by reading the tokens from all at once; where those lead to too
// many stacks, from half of them. *work as for masks_walk.
bool masks_read_places(Masks *masks, const uint64_t *places, size_t count, size_t *work,
                       uint64_t *mask, Error *error);

// *more: of such places more of the stack than the frame may be asked about.
bool masks_ask_more(Masks *masks, const uint64_t *places, size_t count, bool *more, Error *error);

// A copy of a state's places, for free(), since they move as states are added; how many of them
// are on the frame of the first; the state of the same places on another frame.
uint64_t *masks_places(const Automaton *automaton, uint32_t state, size_t *count, Error *error);
size_t masks_same_frame(const uint64_t *places, size_t count);
bool masks_move(Automaton *automaton, const uint64_t *places, size_t count, uint32_t frame,
                uint32_t *state, Error *error);

// ---- prepare.c ----

// Finds the locals of the places that a text can come to from this state, up to a bound of work: a
// new one takes far longer than the mask of a state whose locals are known. False: exit code 5 or
// 130.
bool masks_prepare(Masks *masks, uint32_t start, Error *error);

// ---- loops.c ----

// The kinds of characters (grammar/matcher.h) that lead from a state back to it, with LOOPS_KNOWN.
// False: exit code 3, 5 or 130.
#define LOOPS_KNOWN ((uint64_t)1 << 61)
bool masks_loops(Automaton *automaton, uint32_t state, uint64_t *loops, Error *error);

// ---- shortest.c: the shortest way to the end of a text ----

// Of all texts that complete a state one is its completion: of those with the fewest bytes the
// first in byte order. What is left of it behind some of its bytes is then the completion of the
// state that they lead to. Its tokens are the longest ones of the vocabulary, from the front; so
// where a state needs n tokens, behind the first of them n - 1 are needed. A text whose state never
// needs more tokens than are left is complete in time.
typedef struct Shortest {
    Automaton *automaton; // borrowed, and so is
    const Trie *trie;
    uint32_t *tokens; // (capacity) of each state, once it was asked for; NOT_KNOWN
    size_t capacity;
    ARRAY(char) text; // a completion
    int work;         // that is left of one call's
} Shortest;

static inline Shortest shortest_of(Automaton *automaton, const Trie *trie) {
    return (Shortest){.automaton = automaton, .trie = trie};
}
void shortest_free(Shortest *shortest); // zeroed is fine

// As matcher_needs, of a state. False: exit code 5 or 130.
bool shortest_tokens(Shortest *shortest, uint32_t state, uint32_t most, uint32_t *tokens,
                     Error *error);

// Takes from `mask` each token of `trie` behind which more than `left` are needed. False:
// exit code 3, 5 or 130.
bool shortest_narrow(Shortest *shortest, const Trie *trie, uint32_t state, uint32_t left,
                     uint64_t *mask, Error *error);
