// Rotary position tables: frequencies of every scaling, and cos and sin of every position.
#pragma once

#include "weights/config.h"

// out[rope_dim / 2]: radians per position of each pair, for a context of `max_seq_len` positions,
// and what cos and sin are multiplied by. Double precision inside, rounded once.
void rope_frequencies(double *out, double *magnitude, const RopeConfig *rope, int rope_dim,
                      int max_seq_len);

// cos[max_seq_len, rope_dim / 2] and sin, from those frequencies; sin carries the sign.
// False: no memory.
bool rope_tables(float *cos, float *sin, const RopeConfig *rope, int rope_dim, int max_seq_len);
