// One row of logits as a distribution p over tokens, measured against the one that counts in the
// end (f): the numbers of a logit lens.
//
//     Final f;
//     good = final_open(&f, vocab_size, &error);
//     final_take(&f, last_logits, vocab_size);
//     LensToken top[3];
//     LensCell cell = lens_measure(top, 3, &f, logits, vocab_size);
//     final_close(&f);
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct LensToken {
    int32_t id;
    float logit, probability;
} LensToken;

// The distribution p at one position and depth; f is that of the last depth.
typedef struct LensCell {
    float probability; // of the token that wins: the likeliest one of f
    int32_t rank;      // of that token in p, from 1; the lower id first among equals
    float entropy;     // bits: -sum p log2 p
    float kl;          // bits: sum f log2(f / p)
} LensCell;

// f: the model's own distribution at one position.
typedef struct Final {
    double *probabilities; // (vocab_size) owned
    double negentropy;     // nats: sum f log f
    int winner;
} Final;

// False: exit code 5.
bool final_open(Final *final, int vocab_size, Error *error);
void final_take(Final *final, const float *logits, int vocab_size);
void final_close(Final *final); // zeroed is fine

// top[count], count from 1 to vocab_size: the ids and logits of the largest, by falling logit; of
// equals the lower id first.
void lens_find_top(LensToken *top, int count, const float *logits, int vocab_size);

// Fills top[count], count >= 1, with probabilities, and returns the numbers of the whole row.
LensCell lens_measure(LensToken *top, int count, const Final *final, const float *logits,
                      int vocab_size);
