// SentencePiece .model files (Kudo and Richardson, 2018): unigram (Kudo, 2018) and BPE.
//
// A .model is one protobuf message (sentencepiece_model.proto):
//
//     1 pieces (repeated)   { 1 piece, 2 score (float32), 3 type }
//     2 trainer_spec        { 3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback,
//                             46 bos_piece, 47 eos_piece }
//     3 normalizer_spec     { 2 precompiled_charsmap, 3 add_dummy_prefix,
//                             4 remove_extra_whitespaces, 5 escape_whitespaces }
//
// The ids of a text in UTF-8 are those of the sentencepiece library, version 0.1.97, where all
// pieces are UTF-8 without a NUL. Decoding ignores the denormalizer_spec.
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
    TextSpan bos_piece, eos_piece;
    NormalizerSpec normalizer;
} SentencePieceModel;

// Fills `model`; call sentencepiece_model_free also after a failure. False: exit code 3, 5.
bool sentencepiece_model_read(SentencePieceModel *model, const uint8_t *bytes, size_t size,
                              Error *error);
void sentencepiece_model_free(SentencePieceModel *model);

// ---- charsmap.c ----

// Checks a charsmap: a trie as a double array, and the replacement texts. False: exit code 3, 5.
bool charsmap_check(TextSpan charsmap, Error *error);
// The length of the longest rule that text[0 .. length) begins with, and what replaces it; 0: none.
// The charsmap must have passed charsmap_check, or be empty.
size_t charsmap_longest(TextSpan charsmap, const char *text, size_t length, TextSpan *replacement);

// ---- normalizer.c ----

typedef struct Normalizer {
    NormalizerSpec spec; // its charsmap is owned
    bool space_is_suffix, keeps_bytes;
    const PieceTrie *user_defined; // left as they are; borrowed
} Normalizer;

// Copies the charsmap. False: exit code 5.
bool normalizer_open(Normalizer *normalizer, const SentencePieceModel *model,
                     const PieceTrie *user_defined, Error *error);
void normalizer_close(Normalizer *normalizer); // zeroed is fine

// Appends the normalised text[length] to `out`. False: exit code 3 (longer than LIMIT_NORMALISED or
// LIMIT_EXPANSION says), 5.
bool normalizer_apply(const Normalizer *normalizer, Buffer *out, const char *text, size_t length,
                      Error *error);

// ---- unigram.c ----

typedef struct Unigram {
    PieceTrie trie; // of normal and user-defined pieces
    float highest;  // score of a normal piece
    float unknown;  // score of a character that is no piece
} Unigram;

// Borrows the tokenizer's vocabulary, which is set already. False: exit code 3, 5.
bool unigram_open(Unigram *unigram, const Tokenizer *tokenizer, Error *error);
void unigram_close(Unigram *unigram); // zeroed is fine

// Appends the ids of a normalised text that is not empty. False: exit code 5.
bool unigram_encode(const Unigram *unigram, const Tokenizer *tokenizer, SpmOutput *out,
                    const char *text, size_t length);

// ---- sentencepiece.c ----

// Opens a .model file; `bytes` are not needed afterwards. False: exit code 3, 5.
bool sentencepiece_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, Error *error);
