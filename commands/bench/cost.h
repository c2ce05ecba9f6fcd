// What a row of bench's table costs: bytes and operations, counted from the shape of the model.
#pragma once

#include "commands/bench/report.h"

typedef struct BenchCost {
    size_t bytes;      // of all matrices that every token meets, head included
    double parameters; // of the same without the head
    double head;       // parameters of the head
} BenchCost;

BenchCost bench_cost(const Session *session);

// Multiplications and additions of one run of a row: two for each weight that a token meets, four
// for each key, value and channel of the query heads.
double bench_operations(const Session *session, const BenchCost *cost, const BenchRow *row);

// Bytes read for one token of decoding: the weights, shared by the batch, and its own cache.
double bench_decode_bytes(const Session *session, const BenchCost *cost, const BenchRow *row);

// Seconds that the matrices of a prompt alone take the GPU's fastest library, in the shapes that
// the model multiplies: one by one, in its passes; one product of bf16 each, whatever the
// precision. NaN on a host. Attention is no part of it. The session's model is open.
double bench_product_seconds(const Session *session, const BenchRow *row);
