// Norms, rotary positions and element-wise functions on sixteen lanes.
//
// A sum over a row runs in 64 places, element i in place i mod 64 (four vectors, so that additions
// do not wait for each other); then vectors 0 + 1, 2 + 3, their sum, and f32_sum. That order is the
// definition: every instruction set computes it.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/simd_math.h"

enum { LANES = 16, SUMS = 4 };

static inline F32x16 load(const float *x, size_t i, size_t count) {
    return i + LANES <= count ? f32_load(x + i) : f32_load_part(x + i, count - i);
}

static inline void store(float *x, F32x16 value, size_t i, size_t count) {
    if (i + LANES <= count)
        f32_store(x + i, value);
    else
        f32_store_part(x + i, value, count - i);
}

static inline float total(const F32x16 sum[SUMS]) {
    return f32_sum(f32_add(f32_add(sum[0], sum[1]), f32_add(sum[2], sum[3])));
}

// Whole runs of 64 first. The rest, less than 64 elements, goes on in places 0, 1, ..; lanes beyond
// the row are 0 and change no sum.
static inline float sum_of_squares(const float *x, size_t dim) {
    F32x16 sum[SUMS] = {f32_zero(), f32_zero(), f32_zero(), f32_zero()};
    size_t i = 0;
    for (; i + SUMS * LANES <= dim; i += SUMS * LANES) {
        for (size_t s = 0; s < SUMS; s++) {
            F32x16 v = f32_load(x + i + s * LANES);
            sum[s] = f32_fma(v, v, sum[s]);
        }
    }
    for (size_t s = 0; i < dim; s++, i += LANES) {
        F32x16 v = load(x, i, dim);
        sum[s] = f32_fma(v, v, sum[s]);
    }
    return total(sum);
}

static inline float sum_of(const float *x, size_t dim) {
    F32x16 sum[SUMS] = {f32_zero(), f32_zero(), f32_zero(), f32_zero()};
    for (size_t s = 0, i = 0; i < dim; s = (s + 1) % SUMS, i += LANES)
        sum[s] = f32_add(sum[s], load(x, i, dim));
    return total(sum);
}

static void rmsnorm_rows(float *out, const float *x, const float *weight, size_t n, size_t dim,
                         float eps) {
    for (size_t row = 0; row < n; row++, x += dim, out += dim) {
        float mean = sum_of_squares(x, dim) / (float)dim;
        // A division and a square root, both rounded correctly: the instruction for 1 / sqrt(x) is
        // an estimate that differs between processors.
        F32x16 r = f32_div(f32_set(1.0f), f32_sqrt(f32_set(mean + eps)));
        for (size_t i = 0; i < dim; i += LANES) {
            F32x16 y = f32_mul(f32_mul(load(x, i, dim), r), load(weight, i, dim));
            store(out, y, i, dim);
        }
    }
}

// Three passes over a row, which stays in the cache. The variance is the mean square of the
// differences, already in `out`: E[x^2] - mean^2 would cancel.
static void layernorm_rows(float *out, const float *x, const float *weight, const float *bias,
                           size_t n, size_t dim, float eps) {
    for (size_t row = 0; row < n; row++, x += dim, out += dim) {
        F32x16 mean = f32_set(sum_of(x, dim) / (float)dim);
        for (size_t i = 0; i < dim; i += LANES)
            store(out, f32_sub(load(x, i, dim), mean), i, dim);
        float variance = sum_of_squares(out, dim) / (float)dim;
        F32x16 r = f32_div(f32_set(1.0f), f32_sqrt(f32_set(variance + eps)));
        for (size_t i = 0; i < dim; i += LANES) {
            F32x16 y = f32_mul(f32_mul(load(out, i, dim), r), load(weight, i, dim));
            if (bias) y = f32_add(y, load(bias, i, dim));
            store(out, y, i, dim);
        }
    }
}

// Pairs (j, j + half):   x[0 .. half-1] beside x[half .. 2 half - 1], the rest stays.
static void rope_row(float *x, const float *cos, const float *sin, size_t n_heads, size_t head_dim,
                     size_t rope_dim) {
    // Sixteen pairs at a time, of all heads: the cosines and sines are loaded once for all of them.
    size_t half = rope_dim / 2;
    for (size_t j = 0; j < half; j += LANES) {
        F32x16 c = load(cos, j, half), s = load(sin, j, half);
        for (size_t h = 0; h < n_heads; h++) {
            float *low = x + h * head_dim, *high = low + half;
            F32x16 a = load(low, j, half), b = load(high, j, half);
            store(low, f32_fma(a, c, f32_sub(f32_zero(), f32_mul(b, s))), j, half);
            store(high, f32_fma(b, c, f32_mul(a, s)), j, half);
        }
    }
}

// x / (1 + e^-x). For very negative x e^-x is infinite and the quotient -0.
static inline F32x16 silu(F32x16 x) {
    F32x16 e = f32_exp(f32_sub(f32_zero(), x));
    return f32_div(x, f32_add(f32_set(1.0f), e));
}

// 0.5 x (1 + y)
static inline F32x16 gelu(F32x16 x, F32x16 y) {
    return f32_mul(f32_mul(f32_set(0.5f), x), f32_add(f32_set(1.0f), y));
}

static inline F32x16 gelu_tanh(F32x16 x) { // Hendrycks & Gimpel 2016, arXiv 1606.08415
    F32x16 cubic = f32_fma(f32_mul(f32_set(0.044715f), f32_mul(x, x)), x, x);
    return gelu(x, f32_tanh(f32_mul(f32_set(0.797884561f), cubic))); // sqrt(2 / pi)
}

static inline F32x16 gelu_erf(F32x16 x) {
    return gelu(x, f32_erf(f32_mul(x, f32_set(0.707106781f))));
}

static inline F32x16 relu2(F32x16 x) {
    // f32_less is false for a NaN, so a NaN stays one; a maximum would lose it.
    F32x16 positive = f32_choose(f32_less(x, f32_zero()), f32_zero(), x);
    return f32_mul(positive, positive);
}

// `kind` does not change within a call, so its branch is predicted; `gate` holds the result.
static void activate_elements(float *gate, const float *up, size_t count, ActivationKind kind) {
    for (size_t i = 0; i < count; i += LANES) {
        F32x16 x = load(gate, i, count), y = x;
        switch (kind) {
        case ACTIVATE_SILU: y = silu(x); break;
        case ACTIVATE_GELU_TANH: y = gelu_tanh(x); break;
        case ACTIVATE_GELU_ERF: y = gelu_erf(x); break;
        case ACTIVATE_RELU2: y = relu2(x); break;
        }
        store(gate, up ? f32_mul(y, load(up, i, count)) : y, i, count);
    }
}

static void add_elements(float *x, const float *y, size_t count) {
    for (size_t i = 0; i < count; i += LANES)
        store(x, f32_add(load(x, i, count), load(y, i, count)), i, count);
}

static void scale_elements(float *x, size_t count, float factor) {
    for (size_t i = 0; i < count; i += LANES)
        store(x, f32_mul(f32_set(factor), load(x, i, count)), i, count);
}

static void softcap_elements(float *x, size_t count, float cap) {
    F32x16 c = f32_set(cap);
    for (size_t i = 0; i < count; i += LANES)
        store(x, f32_mul(c, f32_tanh(f32_div(load(x, i, count), c))), i, count);
}

extern const AttentionKernels ISA_NAME(attention_kernels);
extern const SampleKernels ISA_NAME(sample_kernels);
extern const RowKernels ISA_NAME(row_kernels);
const RowKernels ISA_NAME(row_kernels) = {
    .rmsnorm = rmsnorm_rows,
    .layernorm = layernorm_rows,
    .rope = rope_row,
    .activate = activate_elements,
    .add = add_elements,
    .scale = scale_elements,
    .softcap = softcap_elements,
    .attention = &ISA_NAME(attention_kernels),
    .sample = &ISA_NAME(sample_kernels),
};
