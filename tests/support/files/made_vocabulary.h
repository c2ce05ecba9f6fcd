// A byte-level vocabulary made in a test: 256 letters in the order of bytes, then the wholes of its
// merges from id 256 on, then what is added by hand.
#pragma once

#include "tokenizer/bpe/byte_bpe.h"
#include "weights/vocabulary.h"

enum { MADE_TOKENS = 400, MADE_MERGES = 100 };

typedef struct MadeVocabulary {
    Vocabulary vocabulary; // points into this struct: do not copy it
    TextSpan tokens[MADE_TOKENS], merges[MADE_MERGES];
    uint8_t types[MADE_TOKENS];
    char letters[256][ALPHABET_MAX];
    char wholes[MADE_MERGES][64];
} MadeVocabulary;

// `merges`: "left right" each, in the byte alphabet, NULL at the end; borrowed.
void made_vocabulary(MadeVocabulary *made, const char *pre, const char *const *merges);
void made_vocabulary_add(MadeVocabulary *made, const char *text, size_t length, TokenType type);
