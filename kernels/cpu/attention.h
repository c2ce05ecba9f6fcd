// Shared by attention.c, which divides the work among threads, and lanes/attention.c, which does
// it.
#pragma once

#include "kernels/cpu/kv.h"

enum {
    ATTENTION_CHUNK = 256,  // positions between two merges; a multiple of KV_TILE
    ATTENTION_QUERIES = 24, // most queries of one block: rows x heads that share a KV head
};

// The softmax of some queries over the keys seen so far, before the division:
//   max = max s_t,   sum = sum exp(s_t - max),   out = sum exp(s_t - max) v_t
// sum = 0: no key was visible; max and out mean nothing then.
typedef struct AttentionState {
    float *max, *sum; // (n_queries)
    float *out;       // (n_queries, value_dim)
} AttentionState;

// Queries that read the same region of the cache. Query i sees the keys first[i] .. last[i], where
// sparse the runs of reach[i] among them.
typedef struct QueryBlock {
    const Kv *kv;
    KvLayer layer;
    const unsigned char *region;
    float scale, cap;
    int n_queries;
    int first[ATTENTION_QUERIES], last[ATTENTION_QUERIES];
    bool sparse;                       // the pattern has parts
    KeyReach reach[ATTENTION_QUERIES]; // where sparse
    const float *q[ATTENTION_QUERIES]; // (head_dim) each
    // The chunk that this thread takes next, to be fetched meanwhile, or NULL.
    const unsigned char *next_keys, *next_values;
    float *packed; // (n_queries * head_dim) q as `scores` reads it
    float *scores; // (n_queries, ATTENTION_CHUNK)
} QueryBlock;

struct AttentionKernels {
    // One key and value (head_dim) to their slot among the keys and values of a region.
    void (*write)(const Kv *kv, unsigned char *keys, unsigned char *values, size_t slot,
                  const float *k, const float *v);
    // Fills block->packed; once, before the other two.
    void (*pack)(const QueryBlock *block);
    // scores[i][t] = scale q_i . k_t, bent towards the cap, for the positions t of chunk c, in
    // tiles of which query i sees a key; -infinity where it does not see t. Other tiles are not for
    // reading.
    void (*scores)(const QueryBlock *block, int chunk);
    // The state of all queries over chunk c.
    void (*chunk)(const QueryBlock *block, int chunk, const AttentionState *state);
    // `state` over the chunks so far takes in `next`, the chunk after them.
    void (*merge)(const AttentionState *state, const AttentionState *next, int n_queries,
                  size_t value_dim);
    // out (head_dim) = state's query i, divided by its sum.
    void (*finish)(float *out, const AttentionState *state, int i, const Kv *kv);
};
