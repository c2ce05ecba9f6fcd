// KvCache: the length of each sequence in the backend's preallocated cache of keys and values,
// whose layout only the backend knows.
//
// A row may be written at any position up to its sequence's length. Writing at an earlier position
// first shortens the sequence to it: the tokens after it are forgotten.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"

typedef struct KvCache {
    Device *device; // borrowed
    Kv *kv;         // owned
    KvShape shape;
    int *lengths; // (n_sequences) positions in use
    bool ranked;  // other processes have the keys and values of other layers (ranks.h)
} KvCache;

// Allocates all of it. False, with the bytes wanted in the message: exit code 5, or 6 where the
// memory of a GPU is too small. shape->max_seq_len is the context of this run, not the model's
// maximum.
bool kv_cache_init(KvCache *cache, Device *device, const KvShape *shape, Error *error);
void kv_cache_free(KvCache *cache); // zeroed or half-built is fine

// These check sequence numbers and lengths with assert, since they come from the caller's own code.
int kv_cache_length(const KvCache *cache, int sequence);
void kv_cache_reset(KvCache *cache, int sequence);                // length 0
void kv_cache_truncate(KvCache *cache, int sequence, int length); // keeps the first `length`
void kv_cache_write(KvCache *cache, int sequence, int position);  // length is now position + 1
void kv_cache_copy(KvCache *cache, int to, int from);             // `to` becomes equal to `from`
