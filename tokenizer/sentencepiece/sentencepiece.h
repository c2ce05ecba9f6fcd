// Our own walk over a SentencePiece .model, before the library sees a byte of it: everything that
// has crashed sentencepiece, or that it takes without a word, is refused here.
//
// A .model is one protobuf message (sentencepiece_model.proto):
//
//     1 pieces (repeated)   { 1 piece, 2 score (float32), 3 type }
//     2 trainer_spec        { 3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback,
//                             45..48 unk, bos, eos, pad piece }
//     3 normalizer_spec     { 2 precompiled_charsmap, 3 add_dummy_prefix,
//                             4 remove_extra_whitespaces, 5 escape_whitespaces }
//     5 denormalizer_spec   the same fields
#pragma once

#include "tokenizer/internal.h"

enum { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 };

typedef struct Normalizer {
    TextSpan charsmap; // rules for characters; empty: none
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
} Normalizer;

typedef struct SentencePieceModel { // texts are borrowed from the file's bytes
    size_t n_pieces;
    TextSpan *pieces; // (n_pieces), owned, like the next two
    float *scores;    // (n_pieces) finite
    uint8_t *types;   // (n_pieces) TokenType
    uint64_t model_type;
    bool byte_fallback, space_is_suffix;
    TextSpan bos_piece, eos_piece, pad_piece;
    Normalizer normalizer, denormalizer;
} SentencePieceModel;

// Fills `model`, which sentencepiece_model_free takes in any case. False: exit code 3, 5.
bool sentencepiece_model_read(SentencePieceModel *model, const uint8_t *bytes, size_t size,
                              Error *error);
void sentencepiece_model_free(SentencePieceModel *model);

// The rules for characters: a trie in a double array, and the texts it leads to (charsmap_check.c).
bool charsmap_check(TextSpan charsmap, Error *error);
// Whether some rule begins with these bytes, or is the beginning of them. The charsmap is checked.
bool charsmap_begins(TextSpan charsmap, const char *bytes, size_t count);

// ---- unknown_runs.c ----

// A run of characters that a vocabulary does not know is one unknown token, however long it is; but
// the sentencepiece library takes quadratic time for it (a megabyte of newlines: 23 seconds with a
// unigram model). So the library gets the beginning of such a run only.
typedef struct KnownCharacters KnownCharacters;

// The characters that some piece contains or some rule begins with. free() it. NULL: out of memory.
KnownCharacters *known_characters(const SentencePieceModel *model, Error *error);

// Writes text[length] to out[length], of each run of unknown characters only the first few; returns
// the length of what it wrote. The ids are the same, in a model without byte pieces.
size_t shorten_unknown_runs(char *out, const char *text, size_t length,
                            const KnownCharacters *known);

// ---- sentencepiece.c ----

// A .model file. `bytes` live until it returns. False: exit code 3, 5.
bool sentencepiece_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, Error *error);
