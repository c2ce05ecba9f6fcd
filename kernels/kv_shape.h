// KvShape: the sizes of the cache of keys and values, and where a position is in it. kernels.h
// includes this file, and every backend goes by it.
//
// A layer without a window keeps each position in the slot of its own number. A query of a layer
// with a window of W keys needs no others than the last W, so such a layer is a ring: the window,
// the rows that one pass writes before it reads, and as many as may be tentative
// (model/kv_cache.h). With W = 4 and 16 rows, after 53 tokens:
//
//   slot        0   1   2   3   4   5   6 ..  46  47      kv_slots = 48
//   position   48  49  50  51  52   5   6 ..  46  47      kv_slot(48, 52) = 4
//
// A ring of as many slots as there are positions is a plain layer: nothing changes in a short
// context. What a ring has lost only the caller knows: model/kv_cache.h.
#pragma once

#include "kernels/key_pattern.h"

#include <stddef.h>
#include <stdint.h>

typedef enum KvType { KV_F32, KV_F16, KV_BF16, KV_TYPE_COUNT } KvType;

typedef struct KvShape {
    int n_layers, n_sequences, n_kv_heads, head_dim;
    int max_seq_len; // positions per sequence
    KvType type;
    // (n_layers) the most keys that a query of each layer sees, 0: all before it; borrowed as long
    // as the cache is open. NULL: every layer keeps all positions.
    const int *windows;
    int max_rows; // with windows: of one sequence in one pass
} KvShape;

enum {
    KV_RING_STEP = 16,      // a ring is a multiple of it: the tiles of the cpu backend
    KV_RING_ROWS = 16,      // at least so many behind the window: rows that a Decoder takes back
    KV_RING_TENTATIVE = 16, // more, for the tentative rows of a pass
};

// Positions that a layer has room for, of each sequence.
DEVICE_FUNCTION static inline int kv_slots(const KvShape *s, int layer) {
    int window = s->windows ? s->windows[layer] : 0;
    int64_t rows = s->max_rows > KV_RING_ROWS ? s->max_rows : KV_RING_ROWS;
    int64_t least = window + rows + KV_RING_TENTATIVE;
    int64_t slots = (least + KV_RING_STEP - 1) / KV_RING_STEP * KV_RING_STEP;
    return window && slots < s->max_seq_len ? (int)slots : s->max_seq_len;
}

// Those of the layers before it, of one sequence: where its own begin.
static inline size_t kv_slots_before(const KvShape *s, int layer) {
    size_t slots = 0;
    for (int l = 0; l < layer; l++)
        slots += (size_t)kv_slots(s, l);
    return slots;
}

// The slot of a position, in a layer of `slots`.
DEVICE_FUNCTION static inline int kv_slot(int slots, int position) {
    return position % slots;
}

// The same without a division: of the position `distance` behind that of `slot`; distance <= slots.
DEVICE_FUNCTION static inline int kv_slot_behind(int slots, int slot, int distance) {
    slot += distance;
    return slot < slots ? slot : slot - slots;
}

// How many of the positions `at` .. end - 1 follow one another in the slots from that of `at` on.
DEVICE_FUNCTION static inline int kv_run(int slots, int at, int end) {
    int most = slots - kv_slot(slots, at);
    return end - at < most ? end - at : most;
}
