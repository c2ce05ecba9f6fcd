// `sample` as kernels.h defines it, by sorting as often as it takes.
#pragma once

#include "kernels/kernels.h"

// The token of logits (n); temperature > 0.
int sample_oracle(const float *logits, int n, const SampleRule *rule, float uniform);
