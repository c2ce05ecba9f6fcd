// The activation functions, for the plain kernel and for the fused ones.
#pragma once

#include "kernels/cuda/device.h"

static __device__ __forceinline__ float activation(float x, ActivationKind kind) {
    switch (kind) {
    case ACTIVATE_SILU: return x / (1.0f + expf(-x));
    case ACTIVATE_GELU_TANH: // sqrt(2 / pi) = 0.7978...
        return 0.5f * x * (1.0f + tanhf(0.797884561f * fmaf(0.044715f * x * x, x, x)));
    case ACTIVATE_GELU_ERF: return 0.5f * x * (1.0f + erff(x * 0.707106781f));
    case ACTIVATE_RELU2: return x < 0.0f ? 0.0f : x * x; // a NaN stays one
    }
    return x;
}
