// Operations on single elements, which know no rows. Without a non-linear function between them,
// w_up and w_down would be one linear map.
#include "kernels/reference/device.h"

#include <math.h>

// f of the gate, in double: the formulas of the papers, without approximation. GELU: Hendrycks and
// Gimpel 2016, arXiv 1606.08415; ReLU squared: So et al. 2021, arXiv 2109.08668.
static double activation(double x, ActivationKind kind) {
    switch (kind) {
    case ACTIVATE_SILU: return x / (1.0 + exp(-x));
    case ACTIVATE_GELU_TANH: // sqrt(2 / pi) = 0.7978...
        return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case ACTIVATE_GELU_ERF: return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
    case ACTIVATE_RELU2: return x < 0.0 ? 0.0 : x * x; // a NaN stays one
    }
    return x;
}

// With `up`, a gated linear unit (Shazeer 2020, arXiv 2002.05202): f(gate) says how much of each
// element of `up` goes on.
void activate(Device *device, float *gate, const float *up, size_t count, ActivationKind kind) {
    if (device->error.code) return;
    for (size_t i = 0; i < count; i++)
        gate[i] = (float)activation((double)gate[i], kind) * (up ? up[i] : 1.0f);
}

// The residual stream: each block adds its output to it.
void add(Device *device, float *x, const float *y, size_t count) {
    if (device->error.code) return;
    for (size_t i = 0; i < count; i++)
        x[i] += y[i];
}

void scale(Device *device, float *x, size_t count, float factor) {
    if (device->error.code) return;
    for (size_t i = 0; i < count; i++)
        x[i] *= factor;
}

// Close to x where |x| is far below the cap; |out| is never above the cap.
void softcap(Device *device, float *x, size_t count, float cap) {
    if (device->error.code) return;
    for (size_t i = 0; i < count; i++)
        x[i] = cap * (float)tanh((double)(x[i] / cap));
}
