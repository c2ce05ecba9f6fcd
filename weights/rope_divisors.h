// Llama 3's rope scaling in its two dresses: four numbers in config.json, and in a GGUF a tensor
// rope_freqs of divisors, one for each pair of channels, that those numbers come to.
#pragma once

#include "weights/config.h"

// out[rope_dim / 2] from a RopeConfig of ROPE_LLAMA3.
void rope_llama3_divisors(float *out, const RopeConfig *rope, int rope_dim);

// The other way: where rope->divisors are those of a plain RopeConfig with four numbers as models
// have them, it becomes ROPE_LLAMA3 with these numbers, so that one model has the same frequencies
// from both containers. Else it stays as it is. `theta` and the divisors are given.
void rope_recognise_llama3(RopeConfig *rope, int rope_dim);
