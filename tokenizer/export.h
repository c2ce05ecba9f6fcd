// Converts tokenizers: an open Tokenizer of any format to the Vocabulary of a GGUF, and such a
// Vocabulary to tokenizer.model or tokenizer.json.
//
//     Vocabulary vocabulary;
//     Arena arena = {0};
//     if (!tokenizer_export(tokenizer, &vocabulary, &arena, &error)) ...
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "tokenizer/tokenizer.h"

// The spellings are borrowed from the tokenizer, the rest from `arena`. False: exit code 3 where a
// GGUF cannot express this tokenizer (a unigram model, a normalizer with a charsmap, a
// pre-tokenizer pattern without a name), 5.
bool tokenizer_export(const Tokenizer *tokenizer, Vocabulary *out, Arena *arena, Error *error);

// Appends a file with this vocabulary to `out` and sets *name to its usual name: "tokenizer.model"
// for model "llama", "tokenizer.json" for "gpt2". False: exit code 3 where the format cannot
// express it. Out of memory is left to out->failed.
bool vocabulary_write(Buffer *out, const Vocabulary *vocabulary, const char **name, Error *error);

// Appends the tokenizer_config.json that belongs to it: transformers reads the tokenizer class and
// the special tokens there.
void vocabulary_write_config(Buffer *out, const Vocabulary *vocabulary);
