// The reference backend's cache, for kv.c and attention.c.
#pragma once

#include "kernels/kernels.h"

struct Kv {
    KvShape shape;
    void *keys, *values; // [layer][sequence][kv head][position][head_dim]
    float *scores;       // (max_seq_len) scratch of attention: one query against all keys
    double *sums;        // (head_dim) scratch of attention: the weighted sum of values
    float *vector;       // (head_dim) one narrow vector in float32
};

// One cached key or value (array is view->kv->keys or ->values) in float32, borrowed until the
// next call.
const float *kv_vector(const KvView *view, const void *array, int sequence, int kv_head,
                       int position);
