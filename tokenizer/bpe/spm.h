// What the SPM kinds share: how SentencePiece spells spaces and bytes, and what a token of such a
// vocabulary adds to a text.
#pragma once

#include "tokenizer/kinds.h"

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
