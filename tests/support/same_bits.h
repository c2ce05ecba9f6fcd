// One model in several files: all must give the same bits.
#pragma once

#include "kernels/kernels.h"

// Fails the test unless every model gives the logits of the first, bit for bit, for a short prompt
// and greedy steps after it.
void check_same_bits(const char *const *paths, int n_paths, Precision precision);
