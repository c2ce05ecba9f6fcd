// What checks of single layers share: the vectors inside a forward pass, and the order of rows of
// wq and wk.
#pragma once

#include "commands/selftest/subject.h"

// ---- a forward pass over the last rows of the prompt ----

typedef struct LayerStages {
    float *in;       // (n, dim) what wq and wk read
    float *q;        // (n, n_heads, head_dim) as projected
    float *q_final;  // (n, n_heads, head_dim) after norm and RoPE, as attention reads them
    float *k_final;  // (n, n_kv_heads, head_dim) likewise
    float *head_out; // (n, n_heads, head_dim) weighted sums of values
} LayerStages;

typedef struct Stages {
    int first, n;        // positions first .. first + n - 1
    LayerStages *layers; // (n_layers)
    float *block;        // owned: the memory of all of them
} Stages;

// Runs the prompt through sequence 0 of the subject's model.
bool stages_collect(Stages *stages, Subject *s, Error *error);
void stages_free(Stages *stages); // zeroed or half-collected is fine

// Owned device memory with `count` floats from the host in it; NULL after a failure of the device.
float *device_floats(Device *device, const float *from, size_t count);
bool device_good(const Device *device, Error *error); // false with the device's own error

// ---- RoPE ----

// Does the layer have RoPE? And does some layer? If none has, the finding becomes inapplicable.
bool layer_has_rope(const Config *config, int layer);
bool model_has_rope(const Subject *s, Finding *f);

// RoPE rotates pairs of channels. Meta pairs neighbours (2i, 2i + 1), Hugging Face pairs halves
// (i, half + i):
//
//   half         0   1   2   3 | 4   5   6   7       pairs (0, 4) (1, 5) (2, 6) (3, 7)
//   interleaved  0   4 | 1   5 | 2   6 | 3   7       the same pairs, side by side
//
// One is the other with the rows of wq and wk permuted, and with them the biases and the weights of
// QK norms. Attention scores stay the same: queries and keys are permuted alike.

// The row of the half-split order that row r of the interleaved order holds.
size_t half_order_row(const Config *config, size_t r);

// A copy of `m` (its data is owned: free it) with rows in the half order or in the interleaved one;
// the copy is not marked as reordered. False: no memory.
bool matrix_reorder(Matrix *out, const Matrix *m, const Config *config, bool interleaved);
