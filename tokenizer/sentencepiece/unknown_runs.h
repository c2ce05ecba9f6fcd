// A run of characters that a vocabulary does not know is one unknown token, however long it is; but
// the sentencepiece library takes quadratic time for it (a megabyte of newlines: 23 seconds with a
// unigram model). So the library gets the beginning of such a run only.
#pragma once

#include "tokenizer/sentencepiece/sentencepiece_check.h"

typedef struct KnownCharacters KnownCharacters;

// The characters that some piece contains or some rule begins with. free() it. NULL: out of memory.
KnownCharacters *known_characters(const SentencePieceModel *model, Error *error);

// Writes text[length] to out[length], of each run of unknown characters only the first few; returns
// the length of what it wrote. The ids are the same, in a model without byte pieces.
size_t shorten_unknown_runs(char *out, const char *text, size_t length,
                            const KnownCharacters *known);
