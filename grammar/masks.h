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
// one mask or list: none of its tokens has turns. False: exit code 5.
bool turn_sets_init(TurnSets *sets, const Found *found, size_t count, size_t n_tokens,
                    uint64_t *scratch, Error *error);
bool turn_sets_of_ids(TurnSets *sets, const uint32_t *ids, size_t count, size_t n_tokens,
                      Error *error); // some of them twice
bool turn_sets_of_mask(TurnSets *sets, const uint64_t *mask, size_t n_tokens, Error *error);
void turn_sets_free(TurnSets *sets);
size_t turn_sets_bytes(const TurnSets *sets, size_t n_tokens); // of memory, about

// Adds the tokens of low .. high turns.
void turn_sets_add(const TurnSets *sets, uint32_t low, uint32_t high, uint64_t *mask, size_t words);

// ---- exits.c: where tokens go on below the upper part of a stack ----

// A node of the trie before which that part of the stack has ended, inside tokens.
typedef struct Exit {
    uint32_t node, turns;
} Exit;

typedef struct Exits {
    ByteSet bytes;
    uint32_t *nodes; // (count) by byte, then by turns; owned; NULL: none
    uint32_t *turns; // (count) of each; owned; NULL: none has any
    uint32_t *first; // (257) of each byte; owned
    uint64_t levels; // bit t: there are exits of t turns; the last bit: of so many or more
    uint32_t most_turns;
    size_t count;
} Exits;

// Exits in any order. False: exit code 5. exits_free takes a zeroed one.
bool exits_sort(Exits *exits, const Trie *trie, const Exit *found, size_t count, Error *error);
void exits_free(Exits *exits);
size_t exits_bytes(const Exits *exits); // of memory

// Those of a byte, of low .. high turns: nodes[*first] .. nodes[*end - 1].
void exits_find(const Exits *exits, uint8_t byte, uint32_t low, uint32_t high, uint32_t *first,
                uint32_t *end);

// ---- locals.c: what tokens do to the upper part of a stack, whatever is below it ----

// Which tokens are asked about: all, or those that have left a local at exits of so many turns,
// or of any (NOT_KNOWN). And from where: a state whose stacks end at the bottom, or at one of
// FRAME_KINDS.
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
    uint64_t added;     // Masks.n_found of the last mask that got all of `stays`
    TurnSets stays;     // tokens that stay in the upper part, or end with it
    TurnSets leaves;    // on a FRAME_OPEN: tokens that leave its repetition, in place of `stays`
    Exits exits;
    uint32_t *parts; // (n_parts) of one that joins others: those that were read and have exits,
    size_t n_parts;  // whose exits are these; owned
} Local;

// A state of a walk, and the looping state that it is, or that it is inside of a character of.
typedef struct Step {
    uint32_t state;
    uint32_t ever; // the same where turns are not counted
    uint32_t loop; // STATE_DEAD: none
} Step;

// A state's places of one frame, on the bottom in place of the frame: as states of their own, which
// do not differ with the stack.
typedef struct Ground {
    uint32_t state, frame;
    ByteSet reads;
} Ground;

typedef struct Look {
    ByteSet reads;     // bytes
    uint32_t first, n; // of Masks.grounds; n 0: not known
} Look;

// Tokens that were read below the exits of low .. high turns, from a state: see exits_below.
typedef struct Descended {
    uint32_t local, low, high, state; // local: Local.index; NOT_KNOWN: nothing is kept here
    bool done;                        // false: there are too many to read
    uint32_t *ids;                    // (count) owned
    size_t count;
} Descended;

// How often the places of a key were asked one by one: see locals_find.
typedef struct AskedEach {
    uint32_t hash, times; // of the key
} AskedEach;

typedef struct Masks {
    Automaton *automaton; // borrowed, like the trie
    const Trie *trie;
    ARRAY(Local *) locals; // each owned
    uint32_t *local_table; // (local_buckets) open addressing: index + 1
    size_t local_buckets;
    AskedEach *asked_each;  // (ASKED_EACH) by hash, a cache
    ARRAY(uint64_t *) kept; // state -> mask; NULL
    uint32_t *kept_states;  // (n_kept) of the masks that are kept, in a ring
    size_t n_kept, next_kept;
    ARRAY(uint64_t) loops; // state -> masks_loops; 0: not known
    ARRAY(Look) looks;     // state -> what is read from it
    ARRAY(Ground) grounds;
    Descended *descended; // (DESCENDED) a cache
    ARRAY(uint32_t) read; // tokens of the descent being made
    uint64_t n_found;     // masks, the one being found counted
    uint64_t *all;        // (words) every token with bytes
    Step *path;           // (trie->depth + 1) along a walk
    uint64_t *scratch;    // (words) zero
    size_t bytes;         // of memory, about
    size_t work;          // nodes of the trie that were read, and what takes as long as so many
    size_t work_end;      // masks_work where parts of a mask are left out,
    bool is_cut;          // and that some were
    int most_attempts;    // to find a mask
    bool is_last;         // of these
    size_t refuse_end;    // masks_work where the grammar is too ambiguous
    uint64_t *node_bits;  // (n_nodes of the trie, in words) zero
    uint64_t *walked;     // (n_nodes) the last walk behind a local << 32 | the state that it was in
    uint32_t walk;        // the newest of them
    size_t n_behind;      // locals behind exits that the mask being found took
    int n_nested;         // locals being made of others
    bool joins;           // the places of a frame are asked together from the first time on
    size_t n_asked;       // locals that were asked for the first time
    size_t most_read;     // nodes behind exits that are read rather than kept as a local
    size_t most_work;     // of the first attempt to find a mask by its parts
} Masks;

// ---- walk.c ----

typedef struct Span { // of Trie.ids
    uint32_t first, end;
} Span;

// What the tokens of a local do.
typedef struct Reading {
    bool stays;         // of a FRAME_STAY; else, where turns are counted, of a FRAME_OPEN
    ARRAY(Found) found; // of these two, the tokens; else:
    ARRAY(Span) spans;  // those that stay or end with it; in order where all are asked about
    ARRAY(Exit) exits;  // in any order; without turns, none twice
} Reading;

// Whether the stacks of a state end at one of FRAME_KINDS; reads the tokens of a local. False: exit
// code 3 (it is too ambiguous), 5 or 130. *reading is to be freed either way.
bool walk_counts(const Masks *masks, uint32_t state);
bool walk_local(Masks *masks, LocalKey key, Reading *reading, Error *error);
void reading_free(Reading *reading);

// Adds the tokens below the exits of low .. high turns, read from a state. False: as above.
bool exits_walk(Masks *masks, const Local *local, uint32_t low, uint32_t high, uint32_t state,
                uint64_t *mask, Error *error);

// Adds the tokens of any trie that may come behind this state, as far as *work goes, in nodes of
// the trie; the rest of it stays. False: as above; 3 where it does not suffice, too.
bool masks_walk(Automaton *automaton, const Trie *trie, uint32_t state, size_t *work,
                uint64_t *mask, Error *error);

// ---- descend.c ----

// False, or NULL: exit code 3, 5 or 130. What is read from a state; its Look.n is not known unless
// `grounds`.
bool masks_look(Masks *masks, uint32_t state, bool grounds, Look *look, Error *error);

// *any: the state reads a byte that exits go on with; a copy of its places of the frames that do,
// for free().
bool exits_read(Masks *masks, const Exits *exits, uint32_t state, bool *any, Error *error);
uint64_t *exits_places(Masks *masks, const Exits *exits, uint32_t state, size_t *count,
                       Error *error);

// Nodes below the exits of low .. high turns that are read from a state (NOT_KNOWN: from any):
// about how many, and somewhat more than `most_read` where they are more.
bool exits_work(Masks *masks, const Local *local, uint32_t low, uint32_t high, uint32_t state,
                size_t *work, Error *error);

// exits_walk by steps down the stack, where it is little; the results are kept, the newest for each
// value of a hash. *done false: it is not little, and the mask may have some of the tokens.
enum { DESCENDED = 1 << 12 }; // values
bool exits_below(Masks *masks, const Local *local, uint32_t low, uint32_t high, uint32_t state,
                 uint64_t *mask, bool *done, Error *error);
bool descended_open(Masks *masks, Error *error); // false: exit code 5
void descended_free(Masks *masks);               // zeroed is fine

// ---- locals.c ----

// False: exit code 3 (it is too ambiguous), 5 or 130. *local is borrowed until masks_free; NULL:
// the work is over, and masks->is_cut; or its places are to be asked one by one.
bool locals_find(Masks *masks, LocalKey key, const Local **local, Error *error);
bool locals_open(Masks *masks, Error *error); // false: exit code 5
void locals_free(Masks *masks);               // zeroed is fine

// ---- parts.c ----

// What was done so far, as Masks.work: a place that is followed takes as long as a few nodes.
// Whether locals may be joined.
#define WORK_OF_PLACE 4
size_t masks_work(const Masks *masks);
bool masks_may_join(const Masks *masks);

// Adds the tokens that may come behind places, in order; but see work_end. And behind those of one
// frame. False: exit code 3, 5 or 130.
bool masks_add_parts(Masks *masks, const uint64_t *places, size_t count, uint64_t *mask,
                     Error *error);
bool masks_add_places(Masks *masks, const uint64_t *places, size_t count, uint64_t *mask,
                      Error *error);

// *more: of such places more of the stack than the frame may be asked about.
bool masks_ask_more(Masks *masks, const uint64_t *places, size_t count, bool *more, Error *error);

// ---- mask.c ----

// False: exit code 5. masks_free takes a zeroed one.
bool masks_open(Masks *masks, Automaton *automaton, const Trie *trie, Error *error);
void masks_free(Masks *masks);

// Borrowed until the next call. NULL: exit code 3, 5 or 130.
const uint64_t *masks_of(Masks *masks, uint32_t state, Error *error);

// Adds the tokens that may come behind places, by reading them from all at once; where those lead
// to too many stacks, from half of them. *work as for masks_walk.
bool masks_read_places(Masks *masks, const uint64_t *places, size_t count, size_t *work,
                       uint64_t *mask, Error *error);

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
