// Bench's results and the four ways to print them.
#pragma once

#include "commands/bench/limits.h"
#include "commands/shared/session.h"

enum { BENCH_MAX_ROWS = 256, BENCH_MAX_SAMPLES = 1000 };

// One line of the table. Figures that are not known are NaN.
typedef struct BenchRow {
    bool prefill;                          // a prompt at once, else token by token
    double threads, length, depth, batch;  // length: of the prompt, or tokens decoded
    double tokens_per_second, least, most; // median and range over the repetitions
    double seconds;                        // prefill: the time to the first token
    double bytes_per_token, gb_per_second; // stored bytes of the weights and of the cache
    double share_of_read, share_of_memory; // of the two read bandwidths
    double gflop_per_second;
    double share_of_peak;     // of the instructions that the operations are made of
    Arithmetic peak;          // of most of them
    double share_of_products; // GPU, prefill: of the speed of its matrix products alone
    double idle_us;           // GPU, decode: microseconds of a pass in which it waits for the host
} BenchRow;

typedef struct BenchLimits {
    int threads;
    LimitFigures figures;
} BenchLimits;

typedef struct BenchReport {
    const Session *session;
    char device[224];
    double load_seconds;
    size_t weight_bytes;
    uint64_t peak_memory; // of the model at work, without what the limits need
    BenchRow rows[BENCH_MAX_ROWS];
    int n_rows;
    BenchLimits limits[OPTIONS_MAX_LIST];
    int n_limits;
} BenchReport;

void bench_print(const BenchReport *report); // as the options say
