// What the files of the reference backend share. Everything runs at once, on one thread, in the
// order of the calls: device memory is host memory, and nothing is recorded.
#pragma once

#include "kernels/kernels.h"
#include "kernels/precision.h"

typedef struct Allocation Allocation;

// A token that `sample` may still choose.
typedef struct Candidate {
    float logit;
    int32_t id;
    uint64_t weight;
    double surprise; // |-log p - entropy|, for typical_p
} Candidate;

struct Device {
    Precision precision;
    Error error;                      // the first failure; operations do nothing after it
    Allocation *allocations;          // all that device_alloc has given out, freed by device_close
    size_t taken, planned;            // bytes: of these, and of the matrices announced so far
    size_t max_cols, max_matrix_rows; // of all matrices so far
    DeviceCounts counts;
    // Scratch, made by device_reserve.
    float *row;               // (max_cols) one row of weights in float32
    int8_t *q;                // (max_cols) the same row as integers
    float *scale;             // (max_cols) of its scale groups
    float *offset;            // (max_cols)
    float *x_bf16;            // (max_rows, max_cols) activations of a8 with float weights
    int16_t *z;               // (max_rows, max_cols) activations as integers
    float *z_scales;          // (max_rows, groups of max_cols)
    int32_t *z_sums;          // (max_rows, groups of max_cols)
    Outlier *outliers;        // (max_rows, OUTLIERS)
    Candidate *candidates;    // (max_matrix_rows)
    int32_t sent[SEND_SLOTS]; // device_send
    StopFlag *stop;           // PassShape.stop between device_begin and device_end, else NULL
};

struct DeviceMatrix {
    Matrix matrix; // the host's own bytes, borrowed
};

struct Kv {
    KvShape shape;
    void *keys, *values; // [layer][sequence][kv head][slot][head_dim]
    size_t *first_slots; // (n_layers) kv_slots_before
    float *scores;       // (max_seq_len) scratch of attention: one query against all keys
    double *sums;        // (head_dim) scratch of attention: the weighted sum of values
    float *vector;       // (head_dim) one narrow vector in float32
    size_t vectors_read; // by kv_vector, so far
};

size_t kv_needs(const KvShape *shape); // what kv_open allocates, all in all

// One cached key or value (array is view->kv->keys or ->values) in float32, borrowed until the
// next call.
const float *kv_vector(const KvView *view, const void *array, int sequence, int kv_head,
                       int position);
