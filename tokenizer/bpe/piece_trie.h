// PieceTrie: which tokens of a vocabulary does a text begin with? A radix tree: a node for each
// token, and one wherever tokens that begin alike differ in their next byte.
//
//     tokens  0 "a"  1 "abcd"  2 "abce"
//     nodes   0 root    1 "a" {0}    2 "abc"    3 "abcd" {1}    4 "abce" {2}
//
// Breadth first, so that the children of a node are neighbours.
#pragma once

#include "tokenizer/internal.h"

typedef struct PieceNode {
    uint32_t piece; // a token that begins with the node's bytes; `ends`: that is all of it
    uint32_t first; // its children are nodes[first] .. nodes[i + 1].first - 1
    uint32_t depth : 31, ends : 1; // bytes from the root
} PieceNode;

typedef struct PieceTrie {
    const TextSpan *pieces; // of the tokenizer; borrowed
    PieceNode *nodes;       // (n_nodes + 1) owned
    uint8_t *bytes;         // (n_nodes) the first byte after the parent's; owned
    size_t n_nodes;
} PieceTrie;

// Of the tokenizer's tokens whose type is one of `types`, a bit for each: 1 << TOKEN_NORMAL. No two
// of them may be equal or empty. False: exit code 3 where one is longer than LIMIT_PIECE or the
// trie deeper than LIMIT_TRIE_DEPTH, so that a text is read in so many steps a byte; 5.
bool piece_trie_open(PieceTrie *trie, const Tokenizer *tokenizer, unsigned types, Error *error);
void piece_trie_close(PieceTrie *trie); // zeroed is fine

// The next longer token that text[0 .. length) begins with; -1: there is none. *node is 0 at first.
int32_t piece_trie_next(const PieceTrie *trie, uint32_t *node, const char *text, size_t length);

// The length of the longest token that text[0 .. length) begins with; 0: none.
size_t piece_trie_longest(const PieceTrie *trie, const char *text, size_t length);
