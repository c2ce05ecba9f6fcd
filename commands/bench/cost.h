// What a row of bench's table costs: bytes and operations, counted from the shape of the model.
#pragma once

#include "commands/bench/report.h"

// Stored bytes of all matrices that every token meets, head included.
size_t bench_weight_bytes(const Session *session);

// Multiplications and additions of one run of a row: two for each weight that a token meets, four
// for each key, value and channel of the query heads.
typedef struct BenchOperations {
    double all;
    double of_peak[PEAK_COUNT]; // the same by the instructions that the device computes them with,
                                // counted once for each of their products
    Arithmetic most;            // what most of the weights are multiplied with
} BenchOperations;

// The session's model is open.
BenchOperations bench_operations(const Session *session, const BenchRow *row);

// Seconds that these operations take at the measured peaks, one kind after another: no run is
// faster. NaN where one of the peaks is not known.
double bench_peak_seconds(const BenchOperations *operations, const LimitFigures *limits);

// Bytes read for one token of decoding: the weights, shared by the batch, and its own cache.
double bench_decode_bytes(const Session *session, size_t weight_bytes, const BenchRow *row);

// Seconds that the matrices of a prompt alone take the GPU's fastest library, in the shapes that
// the model multiplies: one by one, in its passes; one product of bf16 each, whatever the
// precision. NaN without such a library. Attention is no part of it. The session's model is open.
double bench_product_seconds(const Session *session, const BenchRow *row);
