// A tokenizer whose ids can be read back as text: every byte is a token, and so is every marker of
// the chat formats.
#pragma once

#include "tokenizer/tokenizer.h"

enum { BYTE_MARKERS = 49 };
const char *byte_tokenizer_marker(size_t i);

// `markers`: a bit for each marker that the vocabulary has. `prefix`: it sets a space before a
// text.
Tokenizer *byte_tokenizer(bool prefix, uint64_t markers, bool adds_bos);

// The ids as text, control tokens as they are spelt. Borrowed until the next call but one.
const char *byte_tokenizer_text(Tokenizer *tokenizer, const IdList *ids);
