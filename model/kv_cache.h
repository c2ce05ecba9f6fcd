// KvCache: the length of each sequence in the backend's preallocated cache of keys and values,
// whose layout only the backend knows.
//
// A row may be written at any position up to its sequence's length. Writing at an earlier position
// first shortens the sequence to it: the tokens after it are forgotten.
//
// A layer with a window is a ring (kernels/kv_shape.h), so that a sequence cannot be shortened to
// any length: behind a cut, a query sees keys before the cut, and a ring may have lost them. Of W
// keys in a ring of S slots, after n > S tokens:
//
//   position   0 ..         n-S ..                  L-W+1 ..        L .. n-1
//              lost         held                    seen behind L
//
// so L >= n - 1 - (S - W). Of S - W slots KV_RING_TENTATIVE are for rows that may be taken back at
// once, the guesses of speculation: they do not count, as if they had not been written. So how far
// a sequence can be cut depends on its tokens alone: by the rows of one pass at least. A shorter
// one is computed again from its beginning, to which a cut is always possible.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"

typedef struct KvCache {
    Device *device; // borrowed
    Kv *kv;         // owned
    KvShape shape;
    int *lengths; // (n_sequences) positions in use
    int *lowest;  // (n_sequences) the least length, but 0, to cut the sequence to; 0: any
    // Of the model's layers, also those in other processes: kv_cache_init takes the shape's, which
    // may be others where some are not here. Borrowed; NULL: no layer has one.
    const int *windows;
    int n_windows;
    bool ranked; // other processes have the keys and values of other layers (ranks.h)
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
// Tentative rows, at most KV_RING_TENTATIVE in a row: each as kv_cache_write, but the rings keep
// what a cut behind the rows before them needs. Then kv_cache_truncate takes back those that are
// not wanted, and kv_cache_settle makes the others rows like any.
void kv_cache_write_tentatively(KvCache *cache, int sequence, int position);
void kv_cache_settle(KvCache *cache, int sequence);
void kv_cache_copy(KvCache *cache, int to, int from); // `to` becomes equal to `from`

// The least length, but 0, that a sequence can be cut to once it has `length` tokens; 0: any. Of
// sequence -1: of one that was never shortened.
int kv_cache_lowest(const KvCache *cache, int sequence, int length);

// Whether some layer of the model is a ring.
bool kv_cache_rings(const KvCache *cache);

// Every sequence gets the length that it had before rows were written. False: some cannot, and is
// empty.
bool kv_cache_return(KvCache *cache, const int *lengths);

// The first position that a layer has of a sequence, all behind it too.
int kv_cache_first(const KvCache *cache, int layer, int sequence);

// ---- snapshots ----
//
// A snapshot is the state of one sequence after `length` tokens, in kv_cache_parts blocks of bytes
// that only this cache understands, one for each layer: who saves it needs memory for one. With the
// same tokens a restored sequence gives the bits of one that was computed.
//
// Not every layer has what a shorter sequence needs: a ring has lost it, and the state of a
// recurrent layer is there at the lengths alone at which it was saved. So whoever wants a shorter
// sequence asks for the nearest checkpoint, and computes the tokens behind it:
//
//     KvSnapshot saved = {.length = n, .lowest = kv_cache_lowest(&cache, 0, n)};
//     int length = kv_cache_checkpoint(&cache, &saved, wanted);        // <= wanted
//     for (int part = 0; part < kv_cache_parts(&cache); part++)
//         kv_cache_restore(&cache, 0, part, bytes[part], &saved, length);
//     good = kv_cache_restored(&cache, 0, &saved, length, &error);

typedef struct KvSnapshot {
    int length; // tokens
    int lowest; // as of kv_cache_lowest: parts of layers with a window have what that length needs
} KvSnapshot;

int kv_cache_parts(const KvCache *cache);
size_t kv_cache_part_bytes(const KvCache *cache, int part, const KvSnapshot *of);
size_t kv_cache_bytes(const KvCache *cache, const KvSnapshot *of); // of all parts

// The longest length <= wanted, saved->length that a snapshot can be restored at.
int kv_cache_checkpoint(const KvCache *cache, const KvSnapshot *saved, int wanted);

// out[kv_cache_part_bytes] = a part of the state after the first `as->length` tokens, which are the
// sequence's or fewer. False: exit code 6.
bool kv_cache_save(const KvCache *cache, int sequence, int part, const KvSnapshot *as, void *out,
                   Error *error);

// A part of the sequence as it was after `length` tokens, a checkpoint of the snapshot. The
// sequence is empty until kv_cache_restored: exit code 6 where the device failed.
void kv_cache_restore(KvCache *cache, int sequence, int part, const void *bytes,
                      const KvSnapshot *saved, int length);
bool kv_cache_restored(KvCache *cache, int sequence, const KvSnapshot *saved, int length,
                       Error *error);

// Shortens a sequence to its last checkpoint of at most `length` tokens, and returns that.
int kv_cache_go_back(KvCache *cache, int sequence, int length);
