// Byte-level BPE: a text is cut into words, the bytes of a word are merged by rank. Every text has
// ids, whatever its bytes, where the vocabulary has all 256 of them.
#pragma once

#include "tokenizer/bpe/merges.h"
#include "tokenizer/split/pretokenize.h"

// Makes `tokenizer`, whose vocabulary is there (normal tokens spelt in the byte alphabet), one of
// this kind. Takes over *merges, also on failure; NULL: any two tokens may be joined whose whole is
// a token, the lowest id first, as tiktoken does. With `ignore_merges` a word that is a token is
// that token.
bool byte_bpe_open(Tokenizer *tokenizer, MergeTable *merges, const SplitRule *rule,
                   bool ignore_merges, Error *error);

// Byte-level BPE of a GGUF vocabulary of model "gpt2". `pretokenizer` overrides the
// name of the splitting pattern in vocabulary->pre; NULL: it does not.
bool byte_bpe_open_vocabulary(Tokenizer *tokenizer, const Vocabulary *vocabulary,
                              const char *pretokenizer, Error *error);

// ---- the byte alphabet ----

enum { ALPHABET_MAX = 2 }; // bytes of UTF-8 that one letter takes at most

// Writes the letter of a byte to out[ALPHABET_MAX] and returns its length.
size_t alphabet_letter(char *out, uint8_t byte);

// The byte that a character stands for, or -1: it is no letter of the alphabet.
int alphabet_byte(uint32_t codepoint);

// Length of a spelling's bytes, written to out[length], or -1 where it has another character in it.
// out may be NULL.
ptrdiff_t alphabet_decode(char *out, const char *spelling, size_t length);
