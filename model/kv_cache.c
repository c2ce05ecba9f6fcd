// Keeps the length of every sequence. The backend allocates the bytes and knows their layout.
//
//   position   0   1   2   3   4   5 | 6 ..      length 6: the next token is written at 6
//              keys and values       | unused
//   write at 3, length 4             | 4 and 5 are forgotten: never read, overwritten later
//
// Nothing is erased: a length alone says what is valid, since attention reads positions below it.
#include "model/kv_cache.h"
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
