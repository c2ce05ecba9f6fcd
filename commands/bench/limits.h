// What the device can do at most, sampled in the same run as the model and interleaved with it, so
// that a slow minute is slow for both.
#pragma once

#include "kernels/limits.h"

enum { LIMIT_MAX_ROUNDS = 64 };

// Before the first round, and where the device has no such limit, NaN.
typedef struct LimitFigures {
    double memory_read;       // bytes/s out of a buffer that no cache holds: median of the rounds
    double model_read;        // bytes/s out of a buffer as large as the model: median of the rounds
    double peaks[PEAK_COUNT]; // operations/s in registers: the most of any round
} LimitFigures;

typedef struct Limits {
    Device *device;
    size_t model_bytes;
    int rounds;
    double memory_read[LIMIT_MAX_ROUNDS], model_read[LIMIT_MAX_ROUNDS];
    double peaks[PEAK_COUNT];
} Limits;

Limits limits_begin(Device *device, size_t model_bytes);
void limits_round(Limits *limits); // one sample of everything, about 0.3 s on a host
LimitFigures limits_figures(Limits *limits);

double median_of(double *values, int count); // sorts them; NaN of none

// "float32", "int8", ..: for people and for keys of JSON.
const char *peak_name(PeakKind kind);
