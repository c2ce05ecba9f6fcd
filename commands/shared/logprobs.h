// Log probabilities: the log softmax of raw logits, before temperature and penalties.
//
// --logprobs prints one JSON line per new token: how likely it was, and the likeliest tokens.
//     {"id":403,"text":" a","logprob":-0.21,"top":[{"id":403,"text":" a","logprob":-0.21}, ...]}
#pragma once

#include "tokenizer/tokenizer.h"

// The index of the largest of `count` logits, the lowest among equals.
int likeliest(const float *logits, int count);

// log sum_i e^logits[i], the constant that turns logits into log probabilities. With float32
// exponentials, good to 1e-7; and with float64, for differences between runs, which are down to
// 1e-10 nats.
double log_sum_exp(const float *logits, int count);
double log_sum_exp_f64(const float *logits, int count);

typedef struct Logprobs {
    Tokenizer *tokenizer; // borrowed; NULL: the lines have no texts
    int vocab_size;
    int count; // how many in "top"
} Logprobs;

// Prints the line of one token; `piece` is its text. The texts of "top" come from the tokenizer,
// which invalidates `piece`.
void logprobs_print(const Logprobs *logprobs, int32_t id, const float *logits, const char *piece,
                    size_t length);
