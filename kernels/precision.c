// The plain form of the activation quantiser; the cpu backend's vector form gives the same bits.
#include "kernels/precision.h"

#include <float.h>
#include <math.h>

static void quantise_group(int16_t *z, float *scale, int32_t *sum, const float *x, size_t count,
                           int levels) {
    float amax = 0.0f;
    int finite = 1;
    for (size_t i = 0; i < count; i++) {
        finite &= isfinite(x[i]) != 0;
        amax = fmaxf(amax, fabsf(x[i]));
    }
    float d = finite ? amax / (float)levels : NAN;
    int usable = d >= FLT_MIN; // false for NaN too
    float inverse = usable ? 1.0f / d : 0.0f;
    *scale = usable || !finite ? d : 0.0f;
    *sum = 0;
    for (size_t i = 0; i < count; i++) {
        z[i] = finite ? (int16_t)rintf(x[i] * inverse) : 0;
        *sum += z[i];
    }
}

void activation_quantise(int16_t *z, float *scales, int32_t *sums, const float *x, size_t count,
                         int levels) {
    for (size_t start = 0, g = 0; start < count; start += ACTIVATION_GROUP, g++) {
        size_t length = count - start < ACTIVATION_GROUP ? count - start : ACTIVATION_GROUP;
        quantise_group(z + start, scales + g, sums + g, x + start, length, levels);
    }
}
