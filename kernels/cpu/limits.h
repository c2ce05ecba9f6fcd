// The table that lanes/limits.c exports, one per instruction set: loops that do one thing as fast
// as these instructions can.
#pragma once

#include "kernels/limits.h"

typedef struct PeakLoop {
    void (*run)(long repetitions); // NULL: no kernel uses these instructions
    double operations;             // of a repetition
} PeakLoop;

typedef struct LimitKernels {
    // Read `bytes`, 64-byte aligned, `size` a multiple of 1024: as one stream, and as four, a
    // quarter of the size apart, as the rows of a matrix are read.
    void (*read_linear)(const void *bytes, size_t size);
    void (*read_streams)(const void *bytes, size_t size);
    PeakLoop peaks[PEAK_COUNT];
    bool (*multiplies_bytes)(DType dtype); // of a8, with several rows of inputs
} LimitKernels;
