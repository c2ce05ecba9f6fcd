// The body of exp_float (precision.h), apart from it because a GPU's compiler wants the very same
// arithmetic for its device: `sample` promises one token on every backend.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef DEVICE_FUNCTION
#define DEVICE_FUNCTION
#endif

DEVICE_FUNCTION static inline float exp_float_inline(float x) {
    // e^-87 is above FLT_MIN and e^88 below FLT_MAX: no result is subnormal, whatever a processor
    // does with such numbers, and 2^n below is always a normal float.
    if (x < -87.0f) return 0.0f;
    if (x > 88.0f) return INFINITY;
    if (isnan(x)) return x;
    // x = n ln 2 + r with |r| <= ln 2 / 2. ln 2 = 0.693359375 - 2.12194440e-4.
    float n = rintf(x * 1.44269504f);
    float r = fmaf(n, -0.693359375f, x); // exact: ln 2 cut to 10 bits
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    // The exponent field of a float is n + 127, the mantissa of a power of two is 0.
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23; // 2^n, n in -126 .. 127
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}
