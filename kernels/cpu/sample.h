// What sample.c and lanes/sample.c agree on.
#pragma once

#include "kernels/cpu/cpu.h"

enum { SAMPLE_BLOCK = 256 }; // logits that share a maximum and a sum of weights

static inline size_t blocks_of(size_t count) {
    return (count + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK;
}

struct SampleKernels {
    // largest[b] of every block; returns whether all logits are below infinity and none is NaN.
    bool (*scan)(float *largest, const float *logits, size_t count);
    // sums[b] = the weights (kernels.h, sample) of block b together.
    void (*weigh)(uint64_t *sums, const float *logits, size_t count, float max, float temperature);
    // The ids of the logits that are at least `threshold`, rising; returns how many. largest as
    // `scan` made it.
    size_t (*gather)(uint32_t *ids, const float *logits, size_t count, const float *largest,
                     float threshold);
    // The weights of the logits of some ids.
    void (*weights)(uint64_t *weights, const uint32_t *ids, size_t n, const float *logits,
                    float max, float temperature);
};