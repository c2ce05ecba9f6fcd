// rmsnorm and layernorm: rows shared out over the threads; lanes/rows.c has the arithmetic.
#include "kernels/cpu/cpu.h"

typedef struct NormWork {
    const RowKernels *kernels;
    float *out;          // (n, dim)
    const float *x;      // (n, dim)
    const float *weight; // (dim)
    const float *bias;   // (dim) or NULL
    size_t dim;
    float eps;
} NormWork;

// Items are rows. A thread has whole rows: the sum over a row is never shared, so the result does
// not depend on the number of threads.
static void rmsnorm_task(void *context, size_t begin, size_t end, int thread) {
    const NormWork *w = context;
    size_t start = begin * w->dim;
    w->kernels->rmsnorm(w->out + start, w->x + start, w->weight, end - begin, w->dim, w->eps);
    (void)thread;
}

static void layernorm_task(void *context, size_t begin, size_t end, int thread) {
    const NormWork *w = context;
    size_t start = begin * w->dim;
    w->kernels->layernorm(w->out + start, w->x + start, w->weight, w->bias, end - begin, w->dim,
                          w->eps);
    (void)thread;
}

void rmsnorm(Device *device, float *out, const float *x, const float *weight, int n, int dim,
             float eps) {
    if (!device_ok(device)) return;
    // 3 multiply-adds per element: the square, the factor, the weight.
    NormWork work = {device->kernels->rows, out, x, weight, NULL, (size_t)dim, eps};
    device_run(device, rmsnorm_task, &work, (size_t)n, work_chunk(3 * (size_t)dim));
}

void layernorm(Device *device, float *out, const float *x, const float *weight, const float *bias,
               int n, int dim, float eps) {
    if (!device_ok(device)) return;
    // 5 per element: the mean, the difference, the square, the factor, the weight.
    NormWork work = {device->kernels->rows, out, x, weight, bias, (size_t)dim, eps};
    device_run(device, layernorm_task, &work, (size_t)n, work_chunk(5 * (size_t)dim));
}
