// The two norms. Both scale a row to a common size before a block reads it, since the residual
// stream grows from layer to layer; the weight then sets the size of each channel. Per head, a row
// is one head. Sums are in double: the other backends are compared with this
// one.
#include "kernels/reference/device.h"

#include <math.h>

// x is divided by its root mean square; its mean stays. eps keeps a row of zeros from dividing by
// 0.
void rmsnorm(Device *device, float *out, const float *x, const float *weight, int n, int dim,
             float eps) {
    if (device->error.code) return;
    device->counts.weight_bytes += (size_t)dim * sizeof *weight;
    for (int i = 0; i < n; i++, x += dim, out += dim) {
        double squares = 0.0;
        for (int j = 0; j < dim; j++)
            squares += (double)x[j] * (double)x[j];
        double inverse = 1.0 / sqrt(squares / dim + (double)eps);
        for (int j = 0; j < dim; j++)
            out[j] = (float)((double)x[j] * inverse) * weight[j];
    }
}

// GPT-2's norm (Ba et al. 2016, arXiv 1607.06450): subtracts the mean, then divides by the standard
// deviation.
void layernorm(Device *device, float *out, const float *x, const float *weight, const float *bias,
               int n, int dim, float eps) {
    if (device->error.code) return;
    device->counts.weight_bytes += (size_t)dim * (bias ? 2 : 1) * sizeof *weight;
    for (int i = 0; i < n; i++, x += dim, out += dim) {
        double sum = 0.0, squares = 0.0;
        for (int j = 0; j < dim; j++)
            sum += (double)x[j];
        double mean = sum / dim;
        for (int j = 0; j < dim; j++)
            squares += ((double)x[j] - mean) * ((double)x[j] - mean);
        double inverse = 1.0 / sqrt(squares / dim + (double)eps);
        for (int j = 0; j < dim; j++)
            out[j] = (float)(((double)x[j] - mean) * inverse) * weight[j] + (bias ? bias[j] : 0.0f);
    }
}
