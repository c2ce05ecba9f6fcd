// The cache on the GPU, for kv.cu and attention.cu.
//
//   keys, values: [layer][sequence][kv head][position][head_dim]   float32, half or bf16
#pragma once

#include "kernels/cuda/device.h"

// One layer of it, as a kernel is given it.
struct KvLayer {
    void *keys, *values;
    KvType type;
    int n_kv_heads, max_seq_len, head_dim;
};

struct Kv {
    KvShape shape;
    void *keys, *values; // owned
};

KvLayer kv_layer(const KvView *view);

// Index of the first element of one cached key or value of the layer.
static __device__ __forceinline__ size_t kv_index(const KvLayer &kv, int sequence, int kv_head,
                                                  int position) {
    size_t head = (size_t)sequence * kv.n_kv_heads + kv_head;
    return (head * kv.max_seq_len + position) * kv.head_dim;
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
