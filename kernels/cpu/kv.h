// The cpu backend's key and value cache, shared by kv.c and attention.c.
//
// Every (layer, sequence, KV head) owns one contiguous region, so that attention walks two straight
// streams. The number of slots is rounded up to tiles of 16; elements are float, IEEE half or bf16.
// Position p is drawn in slot p: in a ring (kv_shape.h) it is in slot kv_slot, and tiles stay
// whole, since a ring is a multiple of them.
//
//   keys     tile 0: positions 0 .. 15              tile 1: positions 16 .. 31        ...
//            channel 0:  k[0] k[1] ... k[15]        One position a lane: a dot product with a
//            channel 1:  k[0] k[1] ... k[15]        query is one chain of fused multiply-adds
//            ...                                    per lane, independent of the other
//            channel head_dim - 1                   lanes.
//
//   values   position 0: v[0] v[1] ... v[head_dim-1] 0 ..     One position a row of value_dim
//            position 1: ...                                  (head_dim rounded up to 16).
#pragma once

#include "kernels/cpu/cpu.h"
#include "kernels/precision.h"

enum { KV_TILE = 16 };

struct Kv {
    KvShape shape;
    size_t element;        // bytes: 2 or 4
    size_t value_dim;      // head_dim rounded up to 16 lanes
    unsigned char *memory; // (n_layers, n_sequences, n_kv_heads) regions
    float *scratch;        // what attention needs besides; attention.c has its layout
    size_t scratch_thread; // floats of it per thread, and after all threads,
    size_t scratch_wave;   // floats for states of single chunks
};

// One layer of it.
typedef struct KvLayer {
    unsigned char *memory; // (n_sequences, n_kv_heads) regions
    int slots;             // of a region
    size_t values_offset;  // bytes from the start of a region to its values
    size_t region_bytes;   // a multiple of 64
} KvLayer;
KvLayer kv_layer(const Kv *kv, int layer);

// Where the region of one (sequence, KV head) begins.
static inline unsigned char *kv_region(const Kv *kv, const KvLayer *layer, int sequence, int head) {
    size_t index = (size_t)sequence * (size_t)kv->shape.n_kv_heads + (size_t)head;
    return layer->memory + index * layer->region_bytes;
}

// Channel 0 of a slot in the keys, counted in elements; the next channel is KV_TILE further.
static inline size_t kv_key_index(size_t slot, size_t head_dim) {
    return slot / KV_TILE * KV_TILE * head_dim + slot % KV_TILE;
}

// Tiles of a region.
static inline int kv_tiles(const KvLayer *layer) {
    return (layer->slots + KV_TILE - 1) / KV_TILE;
}

// Element `index` of keys or values that begin at `base`, in float32.
static inline float kv_element(const Kv *kv, const unsigned char *base, size_t index) {
    if (kv->shape.type == KV_F32) return ((const float *)base)[index];
    return kv_widen(kv->shape.type, ((const uint16_t *)base)[index]);
}

// The bytes of kv->scratch; sets how it is divided (attention.c).
size_t attention_scratch(const Device *device, Kv *kv);
