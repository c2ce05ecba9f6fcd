// Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM2): the pre-tokenizer splits a text into words, and
// the bytes of each word are merged by rank. A vocabulary with all 256 bytes encodes any text.
#pragma once

#include "tokenizer/bpe/merges.h"
#include "tokenizer/split/pretokenize.h"

// Makes `tokenizer` a byte-level BPE. Its vocabulary is set already, normal tokens spelt in the
// byte alphabet. Takes ownership of *merges, also on failure. NULL: the rule of tiktoken, where any
// two neighbours may be merged if the result is a token, the lowest id first. With `ignore_merges`
// a word that is a token becomes that token without merging. The first n_model tokens are the
// model's: a letter among those behind them is a text that was added, not the token of its byte.
bool byte_bpe_open(Tokenizer *tokenizer, MergeTable *merges, const SplitRule *rule,
                   bool ignore_merges, size_t n_model, Error *error);

// Byte-level BPE of a GGUF vocabulary of model "gpt2". `pretokenizer`: the name of a pattern that
// overrides vocabulary->pre, or NULL. False: exit code 2 (unknown `pretokenizer`), 3, 5.
bool byte_bpe_open_vocabulary(Tokenizer *tokenizer, const Vocabulary *vocabulary,
                              const char *pretokenizer, Error *error);

// ---- the byte alphabet ----
//
// Vocabularies spell bytes with one printable character each: the 188 bytes 33-126, 161-172 and
// 174-255 are the characters of the same number; the other 68, in order, are U+0100 and up, so a
// space is "Ġ" and a newline "Ċ". Source: bytes_to_unicode in GPT-2's encoder.py.

enum { ALPHABET_MAX = 2 }; // longest letter, in bytes of UTF-8

// Writes the letter of a byte to out[ALPHABET_MAX] and returns its length.
size_t alphabet_letter(char *out, uint8_t byte);

// The byte of a character of the alphabet, or -1: it is not in the alphabet.
int alphabet_byte(uint32_t codepoint);

// Decodes a spelling into out[length] (NULL: only counts) and returns the number of bytes; -1: it
// has a character that is not in the alphabet.
ptrdiff_t alphabet_decode(char *out, const char *spelling, size_t length);
