// Stages of a Sampler that are more than a line: what changes the logits of a step, besides the
// penalties, before they become a distribution, and mirostat, which follows the text. All on host
// logits (vocab_size); each as llama.cpp defines it.
//
//   logit bias    l[t] += bias, for every entry (-infinity: never this token)
//   dry           "don't repeat yourself": with L the most tokens at the end of the text that stand
//                 somewhere before t as well, t having followed them there, and L >= allowed_length
//                               l[t] -= multiplier * base^(L - allowed_length)
//                 A sequence breaker bounds L: only what comes after the last one counts. A token
//                 that holds a breaker itself is not punished.
//   mirostat 2    (Basu et al. 2021, arXiv 2007.14966) tokens with a surprise over mu bits leave,
//                 but the likeliest; mu = 2 tau before a text, and after each token
//                               mu -= eta * (surprise - tau)
//                 with the token's surprise among those that stayed. It takes the place of top_k,
//                 top_p, min_p, typical_p and xtc.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"

typedef struct LogitBias {
    int32_t token;
    float bias;
} LogitBias;

// A text that ends a repetition, as tokens: `head`, then `tail`. Most are one token, which holds
// the breaker.
enum { DRY_MOST_TAIL = 20 };
typedef struct DryBreaker {
    int32_t head;
    int32_t tail_length;
    int32_t tail[DRY_MOST_TAIL];
} DryBreaker;

typedef struct DryOptions {
    float multiplier; // 0: off
    float base;
    int allowed_length;
    int last;                   // tokens that are looked at; -1: the whole context; 0: off
    const DryBreaker *breakers; // (n_breakers) by rising head
    size_t n_breakers;
} DryOptions;

static inline bool dry_is_on(const DryOptions *dry) {
    return dry->multiplier != 0.0f && dry->last != 0;
}

// `newest` (count): the tokens of the text, the newest first; `lengths` (count) and `longest`
// (vocab_size, zeroed before and after) are scratch.
void dry_penalise(const DryOptions *dry, float *logits, const int *newest, int count, int *lengths,
                  int *longest);

// Mirostat's cut as the min_p of a SampleRule, which is then all that the rule cuts: the least
// weight as a share of the largest. 1 where no token can be sampled.
float mirostat_min_p(const float *logits, int vocab_size, float temperature, float mu);

// The surprise of `token` in bits among the tokens that min_p keeps; NaN where it has no weight.
double mirostat_surprise(const float *logits, int vocab_size, const SampleRule *rule, int token);
