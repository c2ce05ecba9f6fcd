// `sample` by its definition in kernels.h: slow, with a sort for each rule.
#pragma once

#include "kernels/kernels.h"

// The token of logits (n); temperature > 0.
int sample_oracle(const float *logits, int n, const SampleRule *rule, float uniform);
