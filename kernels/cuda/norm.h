// The sum of squares as every kernel takes it that norms a row: the same bits from all of them.
#pragma once

#include "kernels/cuda/device.h"

enum { NORM_THREADS = 256 }; // of the block

// A norm as a kernel of its own; with `residual` (n, dim), residual += out too.
void launch_norm(Device *device, const NormOperation *op, float *residual);

// 1 / sqrt(mean of (x - mean)^2 + eps) of x[dim]; every thread has it.
static __device__ __forceinline__ float norm_factor(const float *x, size_t dim, float mean,
                                                    float eps, float *parts) {
    float squares = 0.0f;
    for (size_t j = threadIdx.x; j < dim; j += NORM_THREADS)
        squares = fmaf(x[j] - mean, x[j] - mean, squares);
    squares = block_sum<NORM_THREADS>(squares, parts);
    return 1.0f / sqrtf(squares / (float)dim + eps);
}
