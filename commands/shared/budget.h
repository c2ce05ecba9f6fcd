// Budget: how much the tensors of two runs of one model may differ. It depends on the precisions.
#pragma once

#include "base/error.h"

// The largest difference that a budget allows, in a tensor whose largest absolute value is L:
//   relative * L               in general
//   max(relative * L, logits)  logits
//   weights                    attention weights
//   weights * L                heads: values summed with attention weights
typedef struct Budget {
    const char *name; // "f32", or the text that was parsed
    double relative, logits, weights;
} Budget;

// The budget of a text: the name of a precision, f16 for a cache in f16, or a number, which is
// `relative` and `weights` (0: equal values). False: exit code 2.
bool budget_parse(Budget *budget, const char *text, Error *error);

// The budget for two runs of these precisions and caches ("f32", "f16", "bf16"): the widest of
// theirs. NULL and unknown names count as f32.
const Budget *budget_of_runs(const char *const precisions[2], const char *const caches[2]);

// The largest difference allowed in tensors of this name; `largest` is their L.
double budget_allows(const Budget *budget, const char *name, double largest);

// The largest absolute value: L.
double largest_magnitude(const float *values, size_t count);
