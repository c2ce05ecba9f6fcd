// Device memory for tests of kernels: upload, fill with NaN, download; and random weights of every
// type.
#pragma once

#include "kernels/kernels.h"
#include "tests/test.h"

// A device that must open; `threads` as in device_open.
Device *test_device(int threads, Precision precision);

// Fails the test when the device has failed, then closes it.
void test_device_close(Device *device);

// The error code of a device without free memory: ERROR_DEVICE (6) on a GPU, ERROR_MEMORY (5) on a
// host.
ErrorCode test_memory_error(void);

float *upload_floats(Device *device, const float *from, size_t count);
int32_t *upload_ints(Device *device, const int32_t *from, size_t count);

// `count` floats of NaN, to be overwritten: an output that an operation forgets stays NaN.
float *poisoned(Device *device, size_t count);

// malloced copy of device memory; fails the test where the device has failed.
float *fetch(Device *device, const float *from, size_t count);

// Rows on the device. positions and sequences may be NULL: 0 .. n-1, and all 0.
Rows test_rows(Device *device, int n, const int32_t *tokens, const int32_t *positions,
               const int32_t *sequences);

// malloced array of normal random numbers times `deviation`.
float *random_floats(TestRandom *random, size_t count, float deviation);

// A random matrix of any type, with data that begins at an odd address; elements of about
// deviation 1 / sqrt(cols). Free it with random_matrix_free.
Matrix random_matrix(TestRandom *random, DType dtype, size_t rows, size_t cols);
void random_matrix_free(Matrix *matrix);
