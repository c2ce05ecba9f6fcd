// Queries, keys and values from as they were projected to as attention meets them: norms of single
// heads, rotation, keys and values into the cache. A block does one head of one row: in a kernel of
// its own (place.cu), or at the end of the projection that brought it (project_few.cu).
#pragma once

#include "kernels/cuda/kv.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/rope.h"

// What is done to the heads of q or k; n_heads 0: nothing.
struct HeadWork {
    float *x; // (n, n_heads, head_dim)
    int n_heads;
    const float *norm_weight; // NULL: no norm
    float norm_eps;
};

struct PlaceWork {
    HeadWork q, k;
    const float *v;  // (n, n_kv_heads, head_dim)
    RopeTable table; // rope_dim 0: no rotation
    bool norm_after_rope;
    KvLayer kv;
    Rows rows;
};

// Fills `work` from the first operations of the list: (norm q, norm k) and (rope q, rope k), in
// either order, then kv_write. How many these are; 0 where the list does not begin so. Without norm
// and rotation x is NULL.
size_t take_place(PlaceWork *work, const Operation *operations, size_t count);

// A kernel for it. PATTERNS in fused.cu has it.
size_t fuse_place(Device *device, const Operation *operations, size_t count);

// ---- one head, by a block of NORM_THREADS ----

static __device__ __forceinline__ void norm_head(const HeadWork &w, float *x, int head_dim,
                                                 float *parts) {
    if (!w.norm_weight) return;
    float factor = norm_factor(x, (size_t)head_dim, 0.0f, w.norm_eps, parts);
    for (int j = threadIdx.x; j < head_dim; j += NORM_THREADS)
        x[j] = x[j] * factor * w.norm_weight[j];
    __syncthreads();
}

static __device__ __forceinline__ void turn_head(const RopeTable &table, float *x, int position) {
    int half = table.rope_dim / 2;
    for (int j = threadIdx.x; j < half; j += NORM_THREADS) {
        size_t at = (size_t)position * half + j;
        turn_pair(x + j, x + half + j, table.cos[at], table.sin[at]);
    }
    __syncthreads();
}

static __device__ __forceinline__ void keep_head(const PlaceWork &w, void *array, int i, int head,
                                                 const float *x) {
    size_t to = kv_index(w.kv, w.rows.sequences[i], head, w.rows.positions[i]);
    for (int j = threadIdx.x; j < w.kv.head_dim; j += NORM_THREADS)
        kv_store(w.kv, array, to + j, x[j]);
}

// Row i; `head` counts through the heads of q, then of k, then of v.
static __device__ __forceinline__ void place_head(const PlaceWork &w, int i, int head,
                                                  float *parts) {
    int dim = w.kv.head_dim, n_kv_heads = w.kv.n_kv_heads;
    bool is_query = head < w.q.n_heads;
    const HeadWork &kind = is_query ? w.q : w.k;
    int h = is_query ? head : head - w.q.n_heads;
    if (!is_query && h >= n_kv_heads) {
        h -= n_kv_heads;
        keep_head(w, w.kv.values, i, h, w.v + ((size_t)i * n_kv_heads + h) * dim);
        return;
    }
    float *x = kind.x + ((size_t)i * kind.n_heads + h) * dim;
    if (!w.norm_after_rope) norm_head(kind, x, dim, parts);
    turn_head(w.table, x, w.rows.positions[i]);
    if (w.norm_after_rope) norm_head(kind, x, dim, parts);
    if (!is_query) keep_head(w, w.kv.keys, i, h, x);
}
