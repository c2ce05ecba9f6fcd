// The table that lanes/rows.c exports, one per instruction set: what goes over rows or elements.
#pragma once

#include "kernels/kernels.h"
#include "kernels/limits.h"

typedef struct AttentionKernels AttentionKernels; // attention.h, lanes/attention.c
typedef struct SampleKernels SampleKernels;       // below, lanes/sample.c

typedef struct RowKernels {
    void (*rmsnorm)(float *out, const float *x, const float *weight, size_t n, size_t dim,
                    float eps);
    void (*layernorm)(float *out, const float *x, const float *weight, const float *bias, size_t n,
                      size_t dim, float eps);
    // One row of n_heads heads; cos and sin (rope_dim / 2) are those of its position.
    void (*rope)(float *x, const float *cos, const float *sin, size_t n_heads, size_t head_dim,
                 size_t rope_dim);
    void (*activate)(float *gate, const float *up, size_t count, ActivationKind kind);
    void (*add)(float *x, const float *y, size_t count);
    void (*scale)(float *x, size_t count, float factor);
    void (*softcap)(float *x, size_t count, float cap);
    const AttentionKernels *attention;
    const SampleKernels *sample;
} RowKernels;

// ---- sampling ----

enum { SAMPLE_BLOCK = 256 }; // logits that share a maximum and a sum of weights

static inline size_t blocks_of(size_t count) {
    return (count + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK;
}

struct SampleKernels {
    // largest[b] of every block; returns whether all logits are below infinity and none is NaN.
    bool (*scan)(float *largest, const float *logits, size_t count);
    // sums[b] = the weights (kernels.h, sample) of block b.
    void (*sum_weights)(uint64_t *sums, const float *logits, size_t count, float max,
                        float temperature);
    // The ids of the logits that are at least `threshold`, rising; returns how many. largest as
    // `scan` made it.
    size_t (*gather)(uint32_t *ids, const float *logits, size_t count, const float *largest,
                     float threshold);
    // The weights of the logits of some ids.
    void (*weights)(uint64_t *weights, const uint32_t *ids, size_t n, const float *logits,
                    float max, float temperature);
};

// ---- limits: lanes/limits.c has loops that do one thing as fast as these instructions can ----

typedef struct PeakLoop {
    void (*run)(long repetitions); // NULL: no kernel uses these instructions
    double operations;             // of a repetition
} PeakLoop;

enum { READ_LOOPS = 3 };

typedef struct LimitKernels {
    // Read `bytes`, 64-byte aligned, `size` a multiple of 1024: as one stream; as four, a quarter
    // of the size apart, as the rows of a matrix are read; and so with prefetches.
    void (*reads[READ_LOOPS])(const void *bytes, size_t size);
    PeakLoop peaks[PEAK_COUNT];
} LimitKernels;
