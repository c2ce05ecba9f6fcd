// The two norms: both bring a row to a common size before a block reads it, so that the residual
// stream may grow from layer to layer. Sums are taken in double: this backend is what the others
// are measured against.
#include "kernels/reference/device.h"

#include <math.h>

// x is divided by its root mean square; its mean stays. eps keeps a row of zeros from dividing by
// 0.
void rmsnorm(Device *device, float *out, const float *x, const float *weight, int n, int dim,
             float eps) {
    if (device->error.code) return;
    for (int i = 0; i < n; i++, x += dim, out += dim) {
        double squares = 0.0;
        for (int j = 0; j < dim; j++)
            squares += (double)x[j] * (double)x[j];
        double inverse = 1.0 / sqrt(squares / dim + (double)eps);
        for (int j = 0; j < dim; j++)
            out[j] = (float)((double)x[j] * inverse) * weight[j];
    }
}

// The older one (Ba et al. 2016, arXiv 1607.06450): the mean is taken away first, then what is left
// is divided by its deviation. GPT-2 has it.
void layernorm(Device *device, float *out, const float *x, const float *weight, const float *bias,
               int n, int dim, float eps) {
    if (device->error.code) return;
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
