// The order of rows of wq and wk, which goes with the pairing of channels that RoPE rotates.
//
// Meta pairs neighbouring channels (2i, 2i + 1), Hugging Face pairs halves (i, half + i):
//
//   half         0   1   2   3 | 4   5   6   7       pairs (0, 4) (1, 5) (2, 6) (3, 7)
//   interleaved  0   4 | 1   5 | 2   6 | 3   7       the same pairs, side by side
//
// One is the other with the rows of wq and wk permuted, and with them the biases and the weights of
// QK norms. Attention scores stay the same: queries and keys are permuted alike.
#pragma once

#include "commands/selftest/subject.h"

// Does the layer have RoPE? And does some layer? If none has, the finding becomes inapplicable.
bool layer_has_rope(const Config *config, int layer);
bool model_has_rope(const Subject *s, Finding *f);

// The row of the half order that stands at row r of the interleaved order.
size_t half_order_row(const Config *config, size_t r);

// A copy of `m` (its data is owned: free it) with rows in the half order or in the interleaved one;
// the copy is not marked as reordered. False: no memory.
bool matrix_reorder(Matrix *out, const Matrix *m, const Config *config, bool interleaved);
