// Tokenizers with SentencePiece vocabularies: what all of them share (spm.c), SPM-BPE, which merges
// by score (spm_bpe.c), and BPE with byte fallback, which merges by rank (fallback_bpe.c).
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

// ---- spm_bpe.c ----

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
