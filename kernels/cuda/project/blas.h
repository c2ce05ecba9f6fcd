// Products of large matrices by cuBLASLt. It is opened when the first product is asked for (linked,
// it would cost every start 70 ms and 200 MB); where it cannot be, our own kernels do the work and
// DeviceInfo.description says so. project_blas.cu says which products it computes, and why.
//
//     blas_reserve(device);                                in device_reserve: the workspace
//     if (blas_ready(device)) blas_product(device, &product);
//
// Plain C, so that a program that measures can include it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Device Device;

typedef enum BlasType { BLAS_BF16, BLAS_F32 } BlasType; // F32 is float32 throughout, never TF32

// out = x w^T, or out += x w^T; sums are float32.
typedef struct BlasProduct {
    BlasType type; // of w and x
    int m, n, k;   // rows of w, rows of x, columns of both
    const void *w; // device memory (m, k), w_stride elements from row to row
    const void *x; // (n, k)
    float *out;    // (n, m)
    size_t w_stride, x_stride, out_stride;
    bool adds;
} BlasProduct;

// Makes room for the workspace; nothing allocates device memory afterwards.
void blas_reserve(Device *device);
size_t blas_bytes(void); // of it
void blas_close(Device *device);

// Whether products can be had; opens cuBLASLt the first time. false after a failure too.
bool blas_ready(Device *device);

// Which algorithm is asked once for every shape. Failures are kept in the device.
void blas_product(Device *device, const BlasProduct *product);

// What scripts/check_gpu measures the peak with: seconds that one product of random bf16 matrices
// takes, w (m, k) and x (n, k), with the fastest of the algorithms that cuBLASLt proposes, in the
// mean of `runs` in a row. 0 where there is no cuBLASLt; negative after a failure. Allocates.
double blas_seconds(Device *device, int m, int n, int k, int runs);

#ifdef __cplusplus
}
#endif
