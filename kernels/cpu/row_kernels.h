// The table that lanes/rows.c exports, one per instruction set: what goes over rows or elements.
#pragma once

#include "kernels/kernels.h"

typedef struct AttentionKernels AttentionKernels; // attention.h, lanes/attention.c
typedef struct SampleKernels SampleKernels;       // sample.h, lanes/sample.c

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
    void (*softcap)(float *x, size_t count, float cap);
    const AttentionKernels *attention;
    const SampleKernels *sample;
} RowKernels;
