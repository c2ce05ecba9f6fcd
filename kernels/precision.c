// The plain forms; the cpu backend has vector forms with the same bits.
#include "kernels/precision.h"

#include "kernels/exp_float.h"
#include "weights/quant.h"

#include <float.h>
#include <math.h>

const char *precision_name(Precision precision) {
    static const char *const NAMES[] = {"f32", "a16", "a8"};
    return NAMES[precision];
}

const char *kv_name(KvType type) {
    static const char *const NAMES[] = {"f32", "f16", "bf16"};
    return NAMES[type];
}

size_t kv_element_bytes(KvType type) {
    return type == KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

uint16_t kv_narrow(KvType type, float x) {
    return type == KV_F16 ? float_to_half(x) : float_to_bf16(x);
}

float kv_widen(KvType type, uint16_t bits) {
    return type == KV_F16 ? half_to_float(bits) : bf16_to_float(bits);
}

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

float exp_float(float x) {
    return exp_float_inline(x);
}
