// What the SPM kinds share: how SentencePiece spells spaces and bytes, and what a token of such a
// vocabulary adds to a text.
#pragma once

#include "tokenizer/bpe/merges.h"

// U+2581 stands for a space in spellings.
#define SPM_SPACE "\xe2\x96\x81"
enum { SPM_SPACE_LENGTH = sizeof SPM_SPACE - 1 };

// Whether the spelling is that of a byte token, "<0x0A>", and of which byte.
bool spm_byte_spelling(TextSpan spelling, uint8_t *byte);

// TokenizerKind.piece of both kinds.
const char *spm_piece(Tokenizer *tokenizer, int32_t id, bool first, size_t *length);

// The list of added tokens from the vocabulary's types: control tokens as they are spelt,
// user-defined ones (where `user_defined`) with real spaces, as a text has them.
bool spm_added_tokens(Tokenizer *tokenizer, bool user_defined, Error *error);

// ---- spm_bpe.c ----

// SPM-BPE of a vocabulary of model "llama".
bool spm_bpe_open_vocabulary(Tokenizer *tokenizer, const Vocabulary *vocabulary, Error *error);

// ---- fallback_bpe.c ----

typedef enum SpacePrefix { // what is put before a stretch of text
    PREFIX_NEVER,
    PREFIX_FIRST,  // a space at the beginning of the whole text, unless it begins with one
    PREFIX_ALWAYS, // the same before every stretch
    PREFIX_ADDED,  // a space before every stretch, also where one is
} SpacePrefix;

typedef struct FallbackOptions {
    bool spaces; // a space is written as U+2581
    SpacePrefix prefix;
    bool byte_fallback; // a character that is no token becomes its bytes' tokens
    bool fuse_unk;      // neighbouring unknown characters are one unknown token
    bool drops_space;   // decoding: the space that begins a text is dropped
    int unk_id;         // -1: unknown characters add nothing
} FallbackOptions;

// Makes `tokenizer`, whose vocabulary is there, one of this kind. Takes over *merges, also on
// failure.
bool fallback_bpe_open(Tokenizer *tokenizer, MergeTable *merges, const FallbackOptions *options,
                       Error *error);
