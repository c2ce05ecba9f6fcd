// Tokenizers with SentencePiece vocabularies: what all of them share (spm.c), SPM-BPE, which merges
// by score (spm_bpe.c), and BPE with byte fallback, which merges by rank (fallback_bpe.c). Unigram
// models and the normalizer of .model files are in sentencepiece/.
#pragma once

#include "tokenizer/bpe/merges.h"

// A space is spelt U+2581.
#define SPM_SPACE "\xe2\x96\x81"
enum { SPM_SPACE_LENGTH = sizeof SPM_SPACE - 1 };

// Whether this is the spelling of a byte token, "<0x0A>"; sets *byte.
bool spm_byte_spelling(TextSpan spelling, uint8_t *byte);

// TokenizerKind.piece for all of them.
const char *spm_piece(Tokenizer *tokenizer, int32_t id, bool first, size_t *length);

// Sets the added tokens from the vocabulary's types: control tokens, and user-defined ones if
// `user_defined`. In the text of a user-defined token U+2581 becomes a space.
bool spm_added_tokens(Tokenizer *tokenizer, bool user_defined, Error *error);

// What stands for a text that is no piece: its bytes, or the unknown token.
typedef struct SpmUnknown {
    int32_t bytes[256]; // id of each byte's token, or -1
    int32_t id;         // -1: none
} SpmUnknown;

// From the types of the tokenizer's tokens.
void spm_unknown_set(SpmUnknown *unknown, const Tokenizer *tokenizer);

typedef struct SpmOutput {
    const SpmUnknown *unknown;
    IdList *ids;
    bool after_unknown; // the last id was unknown: a run of unknown characters is one token
    Error *error;
} SpmOutput;

// Appends a token; id -1: what stands for text[length]. False: exit code 5.
bool spm_put(SpmOutput *out, int32_t id, const char *text, size_t length);

// ---- piece_trie.c ----

// PieceTrie: which tokens of a vocabulary does a text begin with? A radix tree: a node for each
// token, and one wherever tokens that begin alike differ in their next byte.
//
//     tokens  0 "a"  1 "abcd"  2 "abce"
//     nodes   0 root    1 "a" {0}    2 "abc"    3 "abcd" {1}    4 "abce" {2}
//
// Breadth first, so that the children of a node are neighbours.
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

// ---- spm_bpe.c ----

typedef struct SpmBpe SpmBpe;

// Merges by the scores of the tokenizer's vocabulary, which is set already. `frozen`: user-defined
// pieces, never merged with others; borrowed; may be NULL. Returns NULL on failure: exit code 5.
SpmBpe *spm_bpe_new(const Tokenizer *tokenizer, const PieceTrie *frozen, Error *error);
void spm_bpe_free(SpmBpe *spm); // NULL is fine

// Appends the ids of a normalised text. False: exit code 5.
bool spm_bpe_encode(const SpmBpe *spm, const Tokenizer *tokenizer, SpmOutput *out, const char *text,
                    size_t length);

// SPM-BPE of a vocabulary of model "llama" (a GGUF's, or one from a tokenizer.bin). False: exit
// code 3, 5.
bool spm_bpe_open_vocabulary(Tokenizer *tokenizer, const Vocabulary *vocabulary, Error *error);

// ---- fallback_bpe.c ----

// The tokenizer.json of Gemma, Llama 2 and Mistral: a SentencePiece vocabulary with merges by rank.

typedef enum SpacePrefix { // the space put before a segment, between added tokens
    PREFIX_NEVER,
    PREFIX_FIRST,  // before the first segment of a text, unless it begins with a space
    PREFIX_ALWAYS, // before every segment, unless it begins with a space
    PREFIX_ADDED,  // before every segment
} SpacePrefix;

typedef struct FallbackOptions {
    bool spaces; // the normalizer replaces spaces by U+2581
    SpacePrefix prefix;
    bool byte_fallback; // a character that is no token is encoded as byte tokens
    bool fuse_unk;      // consecutive unknown characters become one unknown token
    bool drops_space;   // decoding drops the first space of a text
    int unk_id;         // -1: unknown characters are dropped
} FallbackOptions;

// Makes `tokenizer`, whose vocabulary is set already, a BPE with byte fallback. Takes ownership of
// *merges, also on failure. False: exit code 5.
bool fallback_bpe_open(Tokenizer *tokenizer, MergeTable *merges, const FallbackOptions *options,
                       Error *error);
