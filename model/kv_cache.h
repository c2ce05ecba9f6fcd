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

// ---- snapshots ----
//
// A snapshot is the state of one sequence after `length` tokens, in kv_cache_parts blocks of bytes
// that only this cache understands, one for each layer: who saves it needs memory for one. With the
// same tokens a restored sequence gives the bits of one that was computed.
//
// Keys and values can be cut at any position. The state of a recurrent layer cannot: each token
// overwrites it, and it is there at the lengths alone at which it was saved. So whoever wants a
// shorter sequence asks for the nearest checkpoint, and computes the tokens behind it:
//
//     int length = kv_cache_checkpoint(&cache, saved, wanted);        // <= wanted
//     for (int part = 0; part < kv_cache_parts(&cache); part++)
//         kv_cache_restore(&cache, 0, part, bytes[part], saved, length);
//     good = kv_cache_restored(&cache, 0, length, &error);

int kv_cache_parts(const KvCache *cache);
size_t kv_cache_part_bytes(const KvCache *cache, int length); // of one part after `length` tokens

// The longest length <= wanted, saved that a snapshot of `saved` tokens can be restored at.
int kv_cache_checkpoint(const KvCache *cache, int saved, int wanted);

// out[kv_cache_part_bytes(length)] = a part of the state after the first `length` tokens, which is
// the sequence's length or a checkpoint before it. False: exit code 6.
bool kv_cache_save(const KvCache *cache, int sequence, int part, int length, void *out,
                   Error *error);

// A part of the sequence as it was after `length` tokens, a checkpoint of a snapshot of `saved`.
// The sequence is empty until kv_cache_restored: exit code 6 where the device failed.
void kv_cache_restore(KvCache *cache, int sequence, int part, const void *bytes, int saved,
                      int length);
bool kv_cache_restored(KvCache *cache, int sequence, int length, Error *error);

// Shortens a sequence to its last checkpoint of at most `length` tokens, and returns that.
int kv_cache_go_back(KvCache *cache, int sequence, int length);
