// Matcher: reads a text byte by byte and knows which tokens may come next.
//
//     Matcher *matcher = matcher_open(grammar, &trie, stop, &error);
//     for (;;) {
//         const uint64_t *mask = matcher_mask(matcher, &error);          // a bit for each token
//         ... a token that is allowed, or the end where matcher_complete ...
//         matcher_read(matcher, bytes, length, &fits, &error);
//     }
//     matcher_close(matcher);
//
// One for each text; two may share a grammar and a trie, in two threads too.
#pragma once

#include "base/text.h"
#include "grammar/grammar.h"

// ---- the vocabulary ----

// Trie: the tokens of a vocabulary by their bytes, so that those which begin alike are read
// together.
//
//     tokens  0 "a"  1 "ab"  2 "b"  3 "abc"
//     nodes   0 (root, skip 5)   1 a {0} (skip 4)   2 b {1} (4)   3 c {3} (4)   4 b {2} (5)
//
// In preorder: the nodes below node i are i + 1 .. nodes[i].skip - 1. What is below a node is told
// by the kinds of characters that end there, a bit each: one for a few bytes of ASCII that grammars
// seldom tell apart, one for all other characters, and one for what is no character.
enum { TRIE_ASCII_KINDS = 52 };
#define TRIE_OTHERS ((uint64_t)1 << 62) // whole characters beyond ASCII
#define TRIE_CUT ((uint64_t)1 << 63)    // a token ends inside a character, or bytes are none
typedef struct TrieNode {
    uint32_t skip;  // the first node that is not below this one
    uint32_t first; // its tokens are ids[first] .. ids[nodes[i + 1].first - 1]
    uint32_t place; // depth << 8 | byte
} TrieNode;

typedef struct Trie {
    TrieNode *nodes; // (n_nodes + 1) owned
    uint64_t *kinds; // (n_nodes) of the characters that end below the node; owned
    uint32_t *ids;   // (n_ids) owned
    size_t n_nodes, n_ids;
    size_t n_tokens; // of the vocabulary
    size_t depth;    // bytes of the longest token
} Trie;

static inline uint32_t trie_depth(const TrieNode *node) {
    return node->place >> 8;
}

unsigned trie_kind(uint8_t ascii); // below TRIE_ASCII_KINDS

// tokens (n_tokens): the bytes of each; one without bytes is left out. Nothing is borrowed. False:
// exit code 5.
bool trie_open(Trie *trie, const TextSpan *tokens, size_t n_tokens, Error *error);
void trie_close(Trie *trie); // zeroed is fine

// ---- the matcher ----

typedef struct Matcher Matcher;

// Grammar and trie are borrowed until matcher_close. `stop`: not 0 where the work is to end; NULL
// is fine. NULL: exit code 5, or 3 where the grammar is too ambiguous.
Matcher *matcher_open(const Grammar *grammar, const Trie *trie, const int *stop, Error *error);
void matcher_close(Matcher *matcher); // NULL is fine

// What was found on the way is kept, beside the state as much as so many bytes (96 MB unless this
// is called); more is thrown away before the next mask, and found again.
void matcher_keep(Matcher *matcher, size_t bytes);

// Does ahead of time what makes the first mask at a place of the grammar slow, for some tenths of a
// second at most. Masks are the same without. False: exit code 5 or 130.
bool matcher_prepare(Matcher *matcher, Error *error);

// Back to the beginning of a text. False: exit code 3 or 5.
bool matcher_reset(Matcher *matcher, Error *error);

// *fits: the grammar allows these bytes next, and they are read; else all is as before. False: exit
// code 3 (beyond a limit), 5, 130 (`stop`); so do the following.
bool matcher_read(Matcher *matcher, const char *bytes, size_t length, bool *fits, Error *error);

// The text so far is one of the grammar's.
bool matcher_complete(const Matcher *matcher);

// The tokens that complete the text behind these bytes: those of the completion that
// grammar/masks.h singles out, which has the fewest bytes. 0: it may end there. MATCHER_ENDLESS:
// they are more than `most`, the bytes do not fit, no tokens make it up, or it is longer than 16
// KB.
#define MATCHER_ENDLESS (UINT32_MAX - 1)
bool matcher_needs(Matcher *matcher, const char *bytes, size_t length, uint32_t most,
                   uint32_t *tokens, Error *error);

// Takes from `mask`, of the tokens of `trie`, all behind which more than `left` are needed. Reads
// each token that the grammar allows: milliseconds. False: exit code 3 also where it would take
// more than some tenths of a second.
bool matcher_narrow(Matcher *matcher, const Trie *trie, uint32_t left, uint64_t *mask,
                    Error *error);

// Bit t % 64 of word t / 64: token t may come next. Borrowed until the next call of any function.
const uint64_t *matcher_mask(Matcher *matcher, Error *error);

// The same for the tokens of another trie of the same vocabulary size, without keeping anything:
// every token is read. `mask` has a bit for each token.
bool matcher_mask_slowly(Matcher *matcher, const Trie *trie, uint64_t *mask, Error *error);

static inline size_t mask_words(size_t n_tokens) {
    return (n_tokens + 63) / 64;
}
