// The parts of bench: the limits of the device, the rows of the report, and what a row costs.
#pragma once

#include "commands/shared/session.h"
#include "kernels/limits.h"

// ---- limits.c: what the device can do at most, sampled in the same run as the model and
// interleaved with it, so that a slow minute of the memory is slow for both (one thread is measured
// without what other programs take of its processor: kernels/limits.h) ----

enum { LIMIT_MAX_ROUNDS = 64 };

// Before the first round the bandwidths are NaN and the peaks 0. A limit that the device does not
// have is 0.
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

// ---- report.c: the results and the four ways to print them ----

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

// ---- bench.c ----

int32_t bench_token(const Session *session, int position); // the same in every run

// ---- no_cache.c: what the cache saves, measured on a model beside the prediction ----

bool bench_no_cache(const Options *options, Error *error);

// ---- projections.c: a matrix of each type times a few rows, without a model ----

bool bench_projections(const Options *options, Error *error);

// ---- attention.c, attention_report.c: blocks of random weights, without a model ----

// One line of a table. What a table does not have is NaN.
typedef struct AttentionRow {
    const char *table; // "kinds", "heads", "online", "cache"
    double heads, kv_heads, batch, positions;
    double parameters;   // of wq, wk, wv and wo
    double score_bytes;  // that the naive way stores
    double ms, other_ms; // medians; other: naive, or without the cache
    double speed_up;     // other / ms; in kinds and heads that of the table's first row / ms
    double difference;   // the largest between the outputs of both ways
} AttentionRow;

enum { ATTENTION_DIM = 256, ATTENTION_MAX_ROWS = 32 };

typedef struct AttentionReport {
    const Options *options;
    char device[224];
    KvType kv;
    int runs, warm_up, queries; // queries: rows of "online"
    AttentionRow rows[ATTENTION_MAX_ROWS];
    int n_rows;
} AttentionReport;

bool bench_attention(const Options *options, Error *error);
void attention_print(const AttentionReport *report); // as the options say

// ---- cost.c: bytes and operations of a row, counted from the shape of the model ----

// Stored bytes that a token alone meets: matrices, vectors, a row of the embedding. The session's
// model is open.
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
// faster. Infinite where one of the peaks is not known.
double bench_peak_seconds(const BenchOperations *operations, const LimitFigures *limits);

// Bytes read for one token of decoding: the weights, shared by the batch, and its own cache. The
// session's model is open.
double bench_decode_bytes(const Session *session, const BenchRow *row);

// Seconds that the matrices of a prompt alone take the GPU's fastest library, in the shapes that
// the model multiplies: one by one, in its passes; one product of bf16 each, whatever the
// precision. 0 without such a library. Attention is no part of it. The session's model is open.
double bench_product_seconds(const Session *session, const BenchRow *row);
