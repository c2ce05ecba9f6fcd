// What the tokenizer targets do with a tokenizer that opened: encode, decode, ask.
#pragma once

#include "tokenizer/internal.h"

// Encodes text[length] with and without control tokens, and decodes the ids; aborts where an id is
// outside the vocabulary.
void fuzz_use_tokenizer(Tokenizer *tokenizer, const char *text, size_t length);
