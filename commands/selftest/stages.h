// Stages: the vectors inside a forward pass over the last rows of the prompt, layer by layer, and
// the device memory to compute some of them again.
#pragma once

#include "commands/selftest/subject.h"

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
