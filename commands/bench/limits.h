// Limits: what this machine can do at most, measured in the same run as the model and in turns with
// it, so that a slow minute is slow for both.
#pragma once

#include "base/error.h"
#include "kernels/limits.h"

#include <stddef.h>

typedef struct Limits Limits;

typedef struct LimitFigures { // medians of the rounds; NaN before the first, or where not measured
    double memory_read; // host: bytes/s out of a buffer of 1 GiB (less where there is no room)
    double model_read;  // bytes/s out of a buffer as large as the model
    double fp32, int8;  // host: operations/s in registers
    double bf16;        // GPU: operations/s of one large product by the fastest library
} LimitFigures;

// Of the GPU where `device` is one, else of the host with so many threads. NULL: exit code 5.
Limits *limits_open(Device *device, int threads, size_t model_bytes, Error *error);
void limits_close(Limits *limits); // NULL is fine
void limits_round(Limits *limits); // one sample of everything, about 0.2 s
LimitFigures limits_figures(const Limits *limits);

double median_of(double *values, int count); // sorts them; NaN of none
