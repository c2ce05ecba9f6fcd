// Keeps the length of every sequence. The backend allocates the bytes and knows their layout.
//
//   position   0   1   2   3   4   5 | 6 ..      length 6: the next token is written at 6
//              keys and values       | unused
//   write at 3, length 4             | 4 and 5 are forgotten: never read, overwritten later
//
// Nothing is erased: a length alone says what is valid, since attention reads positions below it.
#include "model/kv_cache.h"
#include "kernels/precision.h"
#include "model/ranks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

bool kv_cache_init(KvCache *cache, Device *device, const KvShape *shape, Error *error) {
    *cache = (KvCache){.device = device, .shape = *shape};
    cache->lengths = calloc((size_t)shape->n_sequences, sizeof *cache->lengths);
    cache->kv = cache->lengths ? kv_open(device, shape) : NULL;
    if (cache->kv) return true;
    char wanted[160];
    snprintf(wanted, sizeof wanted,
             "a cache of %zu bytes (%d sequences of %d positions); a smaller context (-c) takes "
             "less",
             kv_bytes(shape), shape->n_sequences, shape->max_seq_len);
    const Error *failure = device_error(device); // a GPU's message names its own memory
    if (failure->code == ERROR_DEVICE)
        return error_set(error, failure->code, "%s: %s", failure->message, wanted);
    return error_set(error, ERROR_MEMORY, "no memory for %s", wanted);
}

void kv_cache_free(KvCache *cache) {
    if (cache->kv) kv_close(cache->device, cache->kv);
    free(cache->lengths);
    *cache = (KvCache){0};
}

int kv_cache_length(const KvCache *cache, int sequence) {
    assert(sequence >= 0 && sequence < cache->shape.n_sequences);
    return cache->lengths[sequence];
}

void kv_cache_reset(KvCache *cache, int sequence) {
    kv_cache_truncate(cache, sequence, 0);
}

void kv_cache_truncate(KvCache *cache, int sequence, int length) {
    assert(length >= 0 && length <= kv_cache_length(cache, sequence));
    cache->lengths[sequence] = length;
}

void kv_cache_write(KvCache *cache, int sequence, int position) {
    assert(position <= kv_cache_length(cache, sequence) && position < cache->shape.max_seq_len);
    cache->lengths[sequence] = position + 1;
}

void kv_cache_copy(KvCache *cache, int to, int from) {
    // `count` positions of every layer, not the whole context.
    int count = kv_cache_length(cache, from);
    assert(to >= 0 && to < cache->shape.n_sequences);
    if (to == from) return;
    if (cache->ranked) ranks_copy(to, from, count);
    kv_copy(cache->device, cache->kv, to, from, count);
    cache->lengths[to] = count;
}

// ---- snapshots ----
//
//   part of layer l after n tokens:   head 0: keys (n, head_dim), values (n, head_dim)
//                                     head 1: ...
//
// A head's keys of the first m < n tokens are the beginning of its keys.

int kv_cache_parts(const KvCache *cache) {
    return cache->shape.n_layers;
}

// Keys of a head, or values.
static size_t run_bytes(const KvShape *s, int length) {
    return (size_t)length * (size_t)s->head_dim * kv_element_bytes(s->type);
}

size_t kv_cache_part_bytes(const KvCache *cache, int length) {
    return 2 * (size_t)cache->shape.n_kv_heads * run_bytes(&cache->shape, length);
}

int kv_cache_checkpoint(const KvCache *cache, int saved, int wanted) {
    int most = cache->shape.max_seq_len < saved ? cache->shape.max_seq_len : saved;
    return wanted < most ? wanted : most;
}

// The device's failure as an Error; true where there is none.
static bool device_good(const KvCache *cache, Error *error) {
    const Error *failure = device_error(cache->device);
    return !failure->code || error_copy(error, failure);
}

bool kv_cache_save(const KvCache *cache, int sequence, int part, int length, void *out,
                   Error *error) {
    assert(length <= kv_cache_length(cache, sequence));
    size_t run = run_bytes(&cache->shape, length);
    for (int h = 0; h < cache->shape.n_kv_heads; h++) {
        char *keys = (char *)out + 2 * (size_t)h * run;
        kv_save(cache->device, &(KvView){cache->kv, part}, sequence, h, length, keys, keys + run);
    }
    return device_good(cache, error);
}

void kv_cache_restore(KvCache *cache, int sequence, int part, const void *bytes, int saved,
                      int length) {
    assert(length <= kv_cache_checkpoint(cache, saved, length));
    size_t run = run_bytes(&cache->shape, saved);
    kv_cache_reset(cache, sequence);
    for (int h = 0; h < cache->shape.n_kv_heads; h++) {
        const char *keys = (const char *)bytes + 2 * (size_t)h * run;
        kv_restore(cache->device, &(KvView){cache->kv, part}, sequence, h, length, keys,
                   keys + run);
    }
}

bool kv_cache_restored(KvCache *cache, int sequence, int length, Error *error) {
    if (!device_good(cache, error)) return false;
    assert(length >= 0 && length <= cache->shape.max_seq_len);
    cache->lengths[sequence] = length;
    return true;
}

int kv_cache_go_back(KvCache *cache, int sequence, int length) {
    int checkpoint = kv_cache_checkpoint(cache, kv_cache_length(cache, sequence), length);
    kv_cache_truncate(cache, sequence, checkpoint);
    return checkpoint;
}
