// SentencePiece .model files. limpid parses and checks a file before the sentencepiece library
// loads it, since the library crashes on some files and accepts invalid ones silently.
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

// ---- sentencepiece_check.c ----

enum { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 };

typedef struct Normalizer {
    TextSpan charsmap; // precompiled replacement rules (NFKC and others); empty: none
    bool add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    bool bytes[256]; // whether a rule of the charsmap has this byte
} Normalizer;

typedef struct SentencePieceModel { // texts are borrowed from the bytes that were parsed
    size_t n_pieces;
    TextSpan *pieces;    // (n_pieces), owned, like the next two; each is set
    float *scores;       // (n_pieces) finite
    uint8_t *types;      // (n_pieces) TokenType
    uint64_t model_type; // SENTENCEPIECE_UNIGRAM or _BPE
    bool byte_fallback, space_is_suffix;
    TextSpan bos_piece, eos_piece, pad_piece;
    Normalizer normalizer, denormalizer;
} SentencePieceModel;

// Fills `model`; call sentencepiece_model_free also after a failure. False: exit code 3, 5.
bool sentencepiece_model_read(SentencePieceModel *model, const uint8_t *bytes, size_t size,
                              Error *error);
void sentencepiece_model_free(SentencePieceModel *model);

// ---- charsmap_check.c ----

// Checks a charsmap: a trie as a double array, and the replacement texts. Sets bytes[c] for every
// byte c of a rule. False: exit code 3, 5.
bool charsmap_check(TextSpan charsmap, bool bytes[256], Error *error);
// The length of the longest rule that text[0 .. length) begins with, and in *gives what replaces
// it; 0: none. The charsmap must have passed charsmap_check, or be empty.
size_t charsmap_longest(TextSpan charsmap, const char *text, size_t length, TextSpan *gives);

// ---- unknown_runs.c ----

// Without byte fallback a run of unknown characters becomes one unknown token, but the library
// takes quadratic time for it (a megabyte of newlines: 23 seconds with a unigram model). So the
// library sees a short text instead of a long run.
typedef struct KnownCharacters KnownCharacters;

// What the pieces of the tokenizer, whose vocabulary is set, and the normalizer can do. Borrows the
// spellings. NULL: exit code 5.
KnownCharacters *known_characters(const SentencePieceModel *model, const Tokenizer *tokenizer,
                                  Error *error);
void known_characters_free(KnownCharacters *known); // NULL is fine

// Copies text[length] to out[length] with one character for each long run of unknown ones, and
// returns the new length. In a model without byte fallback the ids are the same.
size_t shorten_unknown_runs(char *out, const char *text, size_t length,
                            const KnownCharacters *known);

// ---- sentencepiece.c ----

// Opens a .model file. `bytes` must not change meanwhile: the library parses again what was checked
// here. They are not needed afterwards. False: exit code 3, 5.
bool sentencepiece_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, Error *error);
