// A tokenizer as the Vocabulary that a GGUF carries, whatever file it came from.
//
//     Vocabulary vocabulary;
//     Arena arena = {0};
//     if (!tokenizer_export(tokenizer, &vocabulary, &arena, &error)) ...   // says what is lost
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "tokenizer/tokenizer.h"

// The spellings are borrowed from the tokenizer, the rest from `arena`. False: exit code 3 where
// no GGUF can say what this tokenizer does (a unigram model, a text that is rewritten first, a
// splitting pattern without a name), 5.
bool tokenizer_export(const Tokenizer *tokenizer, Vocabulary *out, Arena *arena, Error *error);

// The other way: appends the bytes of a file that holds this vocabulary, and in *name what such a
// file is called in a directory: "tokenizer.model" for model "llama", "tokenizer.json" for "gpt2".
// False: exit code 3 where the format has no room for something, 5 is left to `out->failed`.
// vocabulary_write_config: the tokenizer_config.json beside it, which tells transformers the class
// and the special tokens.
void vocabulary_write_config(Buffer *out, const Vocabulary *vocabulary);
bool vocabulary_write(Buffer *out, const Vocabulary *vocabulary, const char **name, Error *error);
