// One pair of channels, turned: for the plain kernel and the fused one.
#pragma once

#include "kernels/cuda/device.h"

static __device__ __forceinline__ void turn_pair(float *first, float *second, float c, float s) {
    float a = *first, b = *second;
    *first = fmaf(a, c, -(b * s));
    *second = fmaf(b, c, a * s);
}
