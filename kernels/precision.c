// The plain forms; the cpu backend has vector forms with the same bits.
#include "kernels/precision.h"

#include "kernels/exp_float.h"
#include "kernels/log_double.h"
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

// Whether element i is one of the first `count` outliers.
// A slot with x = 0 is empty: without outliers both name column 0.
static bool is_outlier(const Outlier *outliers, int count, size_t i) {
    for (int o = 0; o < count; o++)
        if (outliers[o].column == i && outliers[o].x != 0.0f) return true;
    return false;
}

static void find_outliers(Outlier *outliers, const float *x, size_t count) {
    for (int o = 0; o < OUTLIERS; o++) {
        Outlier largest = {0, 0.0f};
        for (size_t i = 0; i < count; i++)
            // ">" and not ">=": among equals the lowest column is kept.
            if (isfinite(x[i]) && fabsf(x[i]) > fabsf(largest.x) && !is_outlier(outliers, o, i))
                largest = (Outlier){(uint32_t)i, x[i]};
        outliers[o] = largest;
    }
}

// One group: its z, scale and sum of z. fmaxf ignores a NaN, so whether all x are finite is kept
// apart. A d below FLT_MIN is not used because 1 / d may then be infinite.
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

// Outliers are those of the whole row, so they are found before the row is cut into groups.
void activation_quantise(int16_t *z, float *scales, int32_t *sums, Outlier *outliers,
                         const float *x, size_t count, int levels) {
    find_outliers(outliers, x, count);
    for (size_t start = 0, g = 0; start < count; start += ACTIVATION_GROUP, g++) {
        size_t length = count - start < ACTIVATION_GROUP ? count - start : ACTIVATION_GROUP;
        // The group as it is quantised: the outliers are 0 in it and do not count for its amax.
        float rest[ACTIVATION_GROUP];
        for (size_t i = 0; i < length; i++)
            rest[i] = is_outlier(outliers, OUTLIERS, start + i) ? 0.0f : x[start + i];
        quantise_group(z + start, scales + g, sums + g, rest, length, levels);
    }
}

float exp_float(float x) {
    return exp_float_inline(x);
}

double log_double(double x) {
    return log_double_inline(x);
}
