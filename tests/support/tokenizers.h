// What the tests of tokenizers share.
#pragma once

#include "tokenizer/tokenizer.h"

Tokenizer *test_open_tokenizer(const char *path, Error *error);
// The same for a text, written to a temporary file of that name.
Tokenizer *test_open_tokenizer_text(const char *name, const void *text, size_t size, Error *error);

// Fails the test where the vocabulary is refused.
Tokenizer *test_open_vocabulary(const Vocabulary *vocabulary);

// The spellings of the pieces of `text`, set apart by '|'. Static: good until the next call.
const char *test_pieces(const Tokenizer *tokenizer, const char *text, bool special);

// Fails the test unless `text` has exactly these ids; wanted: -1 at the end.
void test_check_ids(Tokenizer *tokenizer, const char *text, bool special, const int *wanted);
#define IDS(...) ((const int[]){__VA_ARGS__, -1})

// Fails the test unless the ids decode to text[length].
void test_decodes_to(Tokenizer *tokenizer, const IdList *ids, const char *text, size_t length);

// Of a vocabulary of SentencePiece with byte tokens: decoding gives back all bytes, pairs of bytes,
// characters except U+2581, which decodes to a space, and random texts.
void test_gives_bytes_back(Tokenizer *tokenizer);
