// Budget: how far two runs may be apart and still be the same model at work.
#pragma once

#include "base/error.h"

// `relative` is a share of the largest value in a tensor. Logits may be `logits` apart where that
// is more, attention weights (which are shares of 1 themselves) `weights`, and what is
// summed with them this share of its largest value.
typedef struct Budget {
    const char *name; // "f32", or as it was given
    double relative, logits, weights;
} Budget;

// The budget that a text names: a precision, f16 for a cache in f16, or a share of the largest
// value of each tensor (0: the same numbers). False: exit code 2.
bool budget_parse(Budget *budget, const char *text, Error *error);

// The one for two runs of these precisions and caches ("f32", "f16", "bf16"): the widest. NULL and
// what is not known count as f32.
const Budget *budget_of_runs(const char *const precisions[2], const char *const caches[2]);

// How far apart two tensors of that name may be, whose largest absolute value is `largest`.
double budget_allows(const Budget *budget, const char *name, double largest);

// The largest absolute value of `count`.
double largest_magnitude(const float *values, size_t count);
