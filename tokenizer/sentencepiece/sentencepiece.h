// SentencePiece .model files (Kudo and Richardson, 2018): unigram (Kudo, 2018) and BPE.
//
// A .model is one protobuf message (sentencepiece_model.proto):
//
//     1 pieces (repeated)   { 1 piece, 2 score (float32), 3 type }
//     2 trainer_spec        { 3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback,
//                             45..48 unk, bos, eos, pad piece }
//     3 normalizer_spec     { 2 precompiled_charsmap, 3 add_dummy_prefix,
//                             4 remove_extra_whitespaces, 5 escape_whitespaces }
//     5 denormalizer_spec   the same fields
//
// The ids of text in UTF-8 are those of the sentencepiece library, version 0.1.97.
#pragma once

#include "tokenizer/bpe/spm.h"

// ---- model_file.c ----

enum { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 };

typedef struct NormalizerSpec {
    TextSpan charsmap; // precompiled replacement rules (NFKC and others); empty: none
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
} NormalizerSpec;

typedef struct SentencePieceModel { // texts are borrowed from the bytes that were parsed
    size_t n_pieces;
    TextSpan *pieces;    // (n_pieces), owned, like the next two; each is set
    float *scores;       // (n_pieces) finite
    uint8_t *types;      // (n_pieces) TokenType
    uint64_t model_type; // SENTENCEPIECE_UNIGRAM or _BPE
    bool byte_fallback, space_is_suffix;
    TextSpan bos_piece, eos_piece, pad_piece;
    NormalizerSpec normalizer, denormalizer;
} SentencePieceModel;

// Fills `model`; call sentencepiece_model_free also after a failure. False: exit code 3, 5.
bool sentencepiece_model_read(SentencePieceModel *model, const uint8_t *bytes, size_t size,
                              Error *error);
void sentencepiece_model_free(SentencePieceModel *model);

// ---- charsmap.c ----

// Checks a charsmap: a trie as a double array, and the replacement texts. False: exit code 3, 5.
bool charsmap_check(TextSpan charsmap, Error *error);
// The length of the longest rule that text[0 .. length) begins with, and in *gives what replaces
// it; 0: none. The charsmap must have passed charsmap_check, or be empty.
size_t charsmap_longest(TextSpan charsmap, const char *text, size_t length, TextSpan *gives);

// ---- normalizer.c ----

typedef struct Normalizer {
    NormalizerSpec spec; // its charsmap is owned
    bool space_is_suffix, keeps_bytes;
    const PieceSet *user_defined; // left as they are; borrowed
} Normalizer;

// Copies the charsmap. False: exit code 5.
bool normalizer_open(Normalizer *normalizer, const SentencePieceModel *model,
                     const PieceSet *user_defined, Error *error);
void normalizer_close(Normalizer *normalizer); // zeroed is fine

// Appends the normalised text[length] to `out`. Out of memory is left to out->failed.
void normalize(const Normalizer *normalizer, Buffer *out, const char *text, size_t length);

// ---- piece_trie.c ----

// PieceTrie: which pieces does a text begin with? A radix tree: a node for each piece and for each
// place where pieces that begin alike part.
//
//     pieces  0 "a"  1 "abcd"  2 "abce"
//     nodes   0 root    1 "a" {0}    2 "abc"    3 "abcd" {1}    4 "abce" {2}
//
// Breadth first, so that children stand together.
typedef struct PieceNode {
    uint32_t piece;                // the shortest below, which is the node's own where `ends`
    uint32_t first;                // its children are nodes[first] .. nodes[i + 1].first - 1
    uint32_t depth : 31, ends : 1; // bytes from the root
} PieceNode;

typedef struct PieceTrie {
    const TextSpan *pieces; // borrowed
    PieceNode *nodes;       // (n_nodes + 1) owned
    uint8_t *bytes;         // (n_nodes) the first byte behind the parent's; owned
    size_t n_nodes;
} PieceTrie;

// `chosen` (n_chosen): indices of the pieces, all of them different texts of at least one byte;
// they are sorted. False: exit code 5.
bool piece_trie_open(PieceTrie *trie, const TextSpan *pieces, uint32_t *chosen, size_t n_chosen,
                     Error *error);
void piece_trie_close(PieceTrie *trie); // zeroed is fine

// The next longer piece that text[0 .. length) begins with; -1: there is none. *node is 0 at first.
int32_t piece_trie_next(const PieceTrie *trie, uint32_t *node, const char *text, size_t length);

// ---- unigram.c ----

typedef struct Unigram {
    PieceTrie trie; // of the tokenizer's pieces
    float highest;  // score of a normal piece
    float unknown;  // score of a character that is no piece
} Unigram;

// Borrows the tokenizer's vocabulary, which is set already. False: exit code 3, 5.
bool unigram_open(Unigram *unigram, const Tokenizer *tokenizer, Error *error);
void unigram_close(Unigram *unigram); // zeroed is fine

// Puts out the ids of a normalised text. False: exit code 5.
bool unigram_encode(const Unigram *unigram, const Tokenizer *tokenizer, SpmOutput *out,
                    const char *text, size_t length);

// ---- sentencepiece.c ----

// Opens a .model file; `bytes` are not needed afterwards. False: exit code 3, 5.
bool sentencepiece_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, Error *error);
