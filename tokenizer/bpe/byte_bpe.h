// Byte-level BPE: a text is cut into words, the bytes of a word are merged by rank. Every text has
// ids, whatever its bytes, where the vocabulary has all 256 of them.
#pragma once

#include "tokenizer/bpe/merge_table.h"
#include "tokenizer/kinds.h"
#include "tokenizer/split/pretokenize.h"

// Makes `tokenizer`, whose vocabulary is there (normal tokens spelt in the byte alphabet), one of
// this kind. Takes over *merges, also on failure; NULL: any two tokens may be joined whose whole is
// a token, the lowest id first, as tiktoken does. With `ignore_merges` a word that is a token is
// that token.
bool byte_bpe_open(Tokenizer *tokenizer, MergeTable *merges, const SplitRule *rule,
                   bool ignore_merges, Error *error);
