// Matrix times rows, in each precision exactly as precision.h defines it: one weight row at a time,
// unpacked, against all rows of x.
#include "kernels/precision.h"
#include "kernels/reference/device.h"
#include "weights/quant.h"

#include <math.h>

// One sum in the order of the columns: the order is part of what a result is.
static float dot_float(const float *w, const float *x, size_t cols) {
    float acc = 0.0f;
    for (size_t k = 0; k < cols; k++)
        acc = fmaf(w[k], x[k], acc);
    return acc;
}

// Adds the extracted outliers: float32 activations times dequantised weights.
static float dot_outliers(const Device *device, size_t group, bool affine, const Outlier *outliers,
                          float acc) {
    for (const Outlier *o = outliers; o < outliers + OUTLIERS; o++) {
        size_t g = o->column / group;
        float w =
            fmaf((float)device->q[o->column], device->scale[g], affine ? device->offset[g] : 0.0f);
        acc = fmaf(w, o->x, acc);
    }
    return acc;
}

// Run by run: elements that share a scale of the weights and a scale of the activations.
static float dot_integers(const Device *device, size_t group, bool affine, const int16_t *z,
                          const float *z_scales, size_t cols) {
    float acc = 0.0f;
    for (size_t k = 0, end; k < cols; k = end) {
        size_t g = k / group, a = k / ACTIVATION_GROUP;
        end = (g + 1) * group;
        if (end > (a + 1) * ACTIVATION_GROUP) end = (a + 1) * ACTIVATION_GROUP;
        int32_t isum = 0, sum_z = 0;
        for (size_t j = k; j < end; j++) {
            isum += (int32_t)device->q[j] * z[j];
            sum_z += z[j];
        }
        acc = fmaf((float)isum, device->scale[g] * z_scales[a], acc);
        if (affine) acc = fmaf(device->offset[g], z_scales[a] * (float)sum_z, acc);
    }
    return acc;
}

static float round_to_bf16(float x) {
    return bf16_to_float(float_to_bf16(x));
}

// One row of weights was read and multiplied with n rows of activations. An outlier is a second
// product in the place of one of 0, which is not counted twice.
static void count_row(Device *device, const Matrix *m, int n) {
    device->counts.weight_bytes += matrix_bytes(m) / m->rows;
    device->counts.weight_products += m->cols * (size_t)n;
}

// out[i * rows + r] for every row r of the weights.
static void project_float(Device *device, const float *x, int n, const Projection *p) {
    const Matrix *m = &p->weight->matrix;
    bool rounds = device->precision == PRECISION_A8 && !matrix_group(m);
    for (size_t r = 0; r < m->rows && !pass_stopped(device->stop); r++) {
        matrix_row(device->row, m, r);
        for (size_t k = 0; rounds && k < m->cols; k++)
            device->row[k] = round_to_bf16(device->row[k]);
        for (size_t i = 0; i < (size_t)n; i++)
            p->out[i * m->rows + r] = dot_float(device->row, x + i * m->cols, m->cols);
        count_row(device, m, n);
    }
}

static void project_integers(Device *device, int n, const Projection *p) {
    const Matrix *m = &p->weight->matrix;
    size_t groups = (m->cols + ACTIVATION_GROUP - 1) / ACTIVATION_GROUP;
    bool affine = dtype_is_affine(m->dtype);
    for (size_t r = 0; r < m->rows && !pass_stopped(device->stop); r++) {
        matrix_unpack(device->q, device->scale, device->offset, m, r);
        for (size_t i = 0; i < (size_t)n; i++) {
            float acc = dot_integers(device, matrix_group(m), affine, device->z + i * m->cols,
                                     device->z_scales + i * groups, m->cols);
            p->out[i * m->rows + r] =
                dot_outliers(device, matrix_group(m), affine, device->outliers + i * OUTLIERS, acc);
        }
        count_row(device, m, n);
    }
}

// The activations in the forms that weights are multiplied with, once for all matrices of the call:
// integers with a scale per 32 for quantised weights, bf16 (a8 only) for float weights.
static void prepare(Device *device, const float *x, size_t n, size_t cols) {
    size_t groups = (cols + ACTIVATION_GROUP - 1) / ACTIVATION_GROUP;
    int levels = device->precision == PRECISION_A8 ? A8_LEVELS : A16_LEVELS;
    for (size_t i = 0; i < n; i++)
        activation_quantise(device->z + i * cols, device->z_scales + i * groups,
                            device->z_sums + i * groups, device->outliers + i * OUTLIERS,
                            x + i * cols, cols, levels);
    for (size_t k = 0; device->precision == PRECISION_A8 && k < n * cols; k++)
        device->x_bf16[k] = round_to_bf16(x[k]);
}

void project(Device *device, const float *x, int n, const Projection *projections, int count) {
    if (device->error.code) return;
    size_t cols = projections[0].weight->matrix.cols;
    if (device->precision != PRECISION_F32) prepare(device, x, (size_t)n, cols);
    for (const Projection *p = projections; p < projections + count; p++) {
        const Matrix *m = &p->weight->matrix;
        if (device->precision == PRECISION_F32)
            project_float(device, x, n, p);
        else if (matrix_group(m))
            project_integers(device, n, p);
        else
            project_float(device, device->precision == PRECISION_A8 ? device->x_bf16 : x, n, p);
        if (p->bias) device->counts.weight_bytes += m->rows * sizeof *p->bias;
        for (size_t i = 0; p->bias && i < (size_t)n; i++)
            for (size_t r = 0; r < m->rows; r++)
                p->out[i * m->rows + r] += p->bias[r];
    }
}
