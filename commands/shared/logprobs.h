// Logprobs: one JSON line per new token: how likely it was, and what was likely besides.
//     {"id":403,"text":" a","logprob":-0.21,"top":[{"id":403,"text":" a","logprob":-0.21}, ...]}
// The numbers are log softmax of the raw logits, before temperature and penalties.
#pragma once

#include "tokenizer/tokenizer.h"

typedef struct Logprobs {
    Tokenizer *tokenizer; // borrowed; NULL: no texts
    int vocab_size;
    int count; // how many in "top"
} Logprobs;

// Asks the tokenizer for other pieces: `piece` is not valid afterwards.
void logprobs_print(const Logprobs *logprobs, int32_t id, const float *logits, const char *piece,
                    size_t length);

// log of the sum of e^logits: the constant that makes logits log probabilities.
double log_sum_exp(const float *logits, int count);
