// Divergence: how far the predictions of one run are from those of another, token by token.
//
//   KL(P || Q) = sum_i p_i (log p_i - log q_i)      nats; P the run that counts as exact
//
//     Divergence d = {0};
//     divergence_init(&d, rows, &error);
//     divergence_add(&d, exact, got, vocab_size);      // once a row
//     DivergenceSummary s = divergence_summary(&d);
//     divergence_free(&d);
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct Divergence {
    double *kl; // (room) owned; of every row
    size_t count, room;
    uint64_t same_top;
    double largest_error, sum_squares; // of logits; the mean square of each row, summed
} Divergence;

typedef struct DivergenceSummary {
    double kl_mean, kl_p99, kl_max; // p99: 99 of 100 rows are at most so far
    double top1_agreement;          // share of rows with the same likeliest token
    double max_logit_error, rms_logit_error;
} DivergenceSummary;

bool divergence_init(Divergence *divergence, size_t rows, Error *error); // false: exit code 5
void divergence_free(Divergence *divergence);

// One row of logits (vocab_size) of either run, all finite. Rows beyond the room are a mistake.
void divergence_add(Divergence *divergence, const float *exact, const float *got, int vocab_size);

// Orders what was gathered. All NaN without rows.
DivergenceSummary divergence_summary(Divergence *divergence);

// The index of the largest of `count` logits, the lowest among equals.
int likeliest(const float *logits, int count);
