// The steps that a plain kernel and a fused one share, so that both give the same bits: activation,
// the factor of a norm, rotation, the cache's elements, the parts of a product's input; and all
// that happens to queries, keys and values between their projection and attention.
#pragma once

#include "kernels/cuda/device.h"

// ---- activation ----

static __device__ __forceinline__ float activation(float x, ActivationKind kind) {
    switch (kind) {
    case ACTIVATE_SILU: return x / (1.0f + expf(-x));
    case ACTIVATE_GELU_TANH: // sqrt(2 / pi) = 0.7978...
        return 0.5f * x * (1.0f + tanhf(0.797884561f * fmaf(0.044715f * x * x, x, x)));
    case ACTIVATE_GELU_ERF: return 0.5f * x * (1.0f + erff(x * 0.707106781f));
    case ACTIVATE_RELU2: return x < 0.0f ? 0.0f : x * x; // a NaN stays one
    }
    return x;
}

// Close to x where |x| is far below the cap; |out| is never above it. 0: no cap.
static __device__ __forceinline__ float bend(float x, float cap) {
    return cap > 0.0f ? cap * tanhf(x / cap) : x;
}

// ---- norm: the sum of squares of a row ----

enum { NORM_THREADS = 256, NORM_LOADS = 8 }; // of the block; of a thread, in flight

// 1 / sqrt(mean of (x - mean)^2 + eps) of x[dim]; every thread has it.
static __device__ __forceinline__ float norm_factor(const float *x, size_t dim, float mean,
                                                    float eps, float *parts) {
    float squares = 0.0f;
    unsigned count = (unsigned)dim;
    for (unsigned j = threadIdx.x; j < count; j += NORM_LOADS * NORM_THREADS) {
        const float *own = x + j; // so that the offsets of the loads are constants
        float v[NORM_LOADS];
        UNROLL
        for (unsigned s = 0; s < NORM_LOADS; s++)
            v[s] = j + s * NORM_THREADS < count ? own[s * NORM_THREADS] : 0.0f;
        UNROLL
        for (unsigned s = 0; s < NORM_LOADS; s++)
            if (j + s * NORM_THREADS < count) squares = fmaf(v[s] - mean, v[s] - mean, squares);
    }
    squares = block_sum<NORM_THREADS>(squares, parts);
    return 1.0f / sqrtf(squares / (float)dim + eps);
}

// ---- the input of a prompt's product, as bf16 (project_blas.cu) ----

// A float is the sum of its parts: the nearest bf16 value, and the nearest to what is left.
enum { MAX_PARTS = 2 };

// What is left after one part more, which is returned. The difference is exact.
static __device__ __forceinline__ uint16_t take_part(float &left) {
    uint16_t part = bf16_bits(left);
    left -= bf16_value(part);
    return part;
}

struct InputParts {
    uint16_t *parts[MAX_PARTS]; // (n, stride); NULL: not wanted
    size_t stride;              // the columns rounded up to a multiple of 8; zeros beyond them
};

static __device__ __forceinline__ void store_input(const InputParts &to, size_t at, float x) {
    for (int p = 0; p < MAX_PARTS; p++)
        if (to.parts[p]) to.parts[p][at] = take_part(x);
}

// Where the parts of x (n, cols) belong; and operations that write them there. With `keep` they
// write their floats too.
InputParts blas_input(const Device *device, int n, size_t cols);
void launch_norm_parts(Device *device, const NormOperation *op, const InputParts &to, bool keep);
void launch_activate_parts(Device *device, const ActivateOperation *op, size_t cols,
                           const InputParts &to, bool keep);
void run_tiles_parts(Device *device, const AttentionOperation *op, const InputParts &to, bool keep);

// ---- rotary positions ----

static __device__ __forceinline__ void rotate_pair(float *first, float *second, float c, float s) {
    float a = *first, b = *second;
    *first = fmaf(a, c, -(b * s));
    *second = fmaf(b, c, a * s);
}

// ---- the cache ----
//
//   keys, values: [layer][sequence][kv head][slot][head_dim]   float32, half or bf16

// One layer of it, as a kernel is given it.
struct KvLayer {
    void *keys, *values;
    KvType type;
    int n_kv_heads, max_seq_len, head_dim;
    int slots; // a position is in slot kv_slot (kernels/kv_shape.h)
};

struct Kv {
    KvShape shape;
    void *keys, *values; // owned
};

KvLayer kv_layer(const KvView *view);

// Index of the first element of one slot of the layer.
static __device__ __forceinline__ size_t slot_index(const KvLayer &kv, int sequence, int kv_head,
                                                    int slot) {
    size_t head = (size_t)sequence * kv.n_kv_heads + kv_head;
    return (head * kv.slots + slot) * kv.head_dim;
}

// Of one cached key or value. Loops over positions go by slot_index and kv_slot_behind, which needs
// no division.
static __device__ __forceinline__ size_t kv_index(const KvLayer &kv, int sequence, int kv_head,
                                                  int position) {
    return slot_index(kv, sequence, kv_head, kv_slot(kv.slots, position));
}

static __device__ __forceinline__ float kv_element(const KvLayer &kv, const void *array,
                                                   size_t index) {
    if (kv.type == KV_F32) return ((const float *)array)[index];
    uint16_t bits = ((const uint16_t *)array)[index];
    return kv.type == KV_F16 ? half_value(bits) : bf16_value(bits);
}

static __device__ __forceinline__ void kv_store(const KvLayer &kv, void *array, size_t index,
                                                float value) {
    if (kv.type == KV_F32)
        ((float *)array)[index] = value;
    else
        ((uint16_t *)array)[index] = kv.type == KV_F16 ? half_bits(value) : bf16_bits(value);
}

// The first key that a query sees, from position `from` on; past its own where there is none.
static __device__ __forceinline__ int first_seen(const KeyReach &reach, int from) {
    return key_run(&reach, from).first;
}

// ---- queries, keys and values behind their projection ----
//
// Norms of single heads, rotation, keys and values into the cache. A warp does one head of one row:
// in a kernel of its own (norm_and_rotate_qk.cu), or at the end of the projection that computed it
// (project_few.cu, project_one.cu).

// What is done to the heads of q or k; n_heads 0: nothing.
struct HeadWork {
    float *x; // (n, n_heads, head_dim)
    int n_heads;
    const float *norm_weight; // NULL: no norm
    float norm_eps;
};

struct HeadsWork {
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
size_t match_norm_and_rotate_qk(HeadsWork *work, const Operation *operations, size_t count);

// A kernel for it. PATTERNS in fused.cu has it.
size_t fuse_norm_and_rotate_qk(Device *device, const Operation *operations, size_t count);

// ---- one head, by a warp ----

// What norm_factor gives a block, added in the same order: the block's warps one after another, of
// which those past the head would add 0.
static __device__ __forceinline__ float head_factor(const float *x, int dim, float eps) {
    float squares = 0.0f;
    for (int part = 0; part < NORM_THREADS && part < dim; part += WARP) {
        float own = 0.0f;
        for (int j = part + threadIdx.x % WARP; j < dim; j += NORM_THREADS)
            own = fmaf(x[j], x[j], own);
        own = warp_sum(own);
        squares = part ? squares + own : own;
    }
    return 1.0f / sqrtf(squares / (float)dim + eps);
}

static __device__ __forceinline__ void norm_head(const HeadWork &w, float *x, int head_dim) {
    if (!w.norm_weight) return;
    float factor = head_factor(x, head_dim, w.norm_eps);
    for (int j = threadIdx.x % WARP; j < head_dim; j += WARP)
        x[j] = x[j] * factor * w.norm_weight[j];
    __syncwarp();
}

static __device__ __forceinline__ void rotate_head(const RopeTable &table, float *x, int position) {
    int half = table.rope_dim / 2;
    for (int j = threadIdx.x % WARP; j < half; j += WARP) {
        size_t at = (size_t)position * half + j;
        rotate_pair(x + j, x + half + j, table.cos[at], table.sin[at]);
    }
    __syncwarp();
}

static __device__ __forceinline__ void store_head(const HeadsWork &w, void *array, int i, int head,
                                                  const float *x) {
    size_t to = kv_index(w.kv, w.rows.sequences[i], head, w.rows.positions[i]);
    for (int j = threadIdx.x % WARP; j < w.kv.head_dim; j += WARP)
        kv_store(w.kv, array, to + j, x[j]);
}

// Row i; `head` counts through the heads of q, then of k, then of v.
static __device__ __forceinline__ void norm_and_rotate_head(const HeadsWork &w, int i, int head) {
    int dim = w.kv.head_dim, n_kv_heads = w.kv.n_kv_heads;
    bool is_query = head < w.q.n_heads;
    const HeadWork &kind = is_query ? w.q : w.k;
    int h = is_query ? head : head - w.q.n_heads;
    if (!is_query && h >= n_kv_heads) {
        h -= n_kv_heads;
        store_head(w, w.kv.values, i, h, w.v + ((size_t)i * n_kv_heads + h) * dim);
        return;
    }
    float *x = kind.x + ((size_t)i * kind.n_heads + h) * dim;
    if (!w.norm_after_rope) norm_head(kind, x, dim);
    rotate_head(w.table, x, w.rows.positions[i]);
    if (w.norm_after_rope) norm_head(kind, x, dim);
    if (!is_query) store_head(w, w.kv.keys, i, h, x);
}
