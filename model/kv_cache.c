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
    cache->windows = shape->windows;
    cache->n_windows = shape->windows ? shape->n_layers : 0;
    cache->lengths = calloc(2 * (size_t)shape->n_sequences, sizeof *cache->lengths);
    if (cache->lengths) cache->lowest = cache->lengths + shape->n_sequences;
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
    assert(!length || length >= cache->lowest[sequence]);
    cache->lengths[sequence] = length;
    if (!length) cache->lowest[sequence] = 0;
}

void kv_cache_write_tentatively(KvCache *cache, int sequence, int position) {
    assert(position < cache->shape.max_seq_len);
    kv_cache_truncate(cache, sequence, position);
    cache->lengths[sequence] = position + 1;
}

void kv_cache_settle(KvCache *cache, int sequence) {
    cache->lowest[sequence] = kv_cache_lowest(cache, sequence, cache->lengths[sequence]);
}

void kv_cache_write(KvCache *cache, int sequence, int position) {
    kv_cache_write_tentatively(cache, sequence, position);
    kv_cache_settle(cache, sequence);
}

// What the rings have lost: the header has the formula.
int kv_cache_lowest(const KvCache *cache, int sequence, int length) {
    int lowest = sequence < 0 ? 0 : cache->lowest[sequence];
    KvShape all = cache->shape;
    if (!all.windows) return lowest; // all layers have all positions
    all.windows = cache->windows;
    for (int l = 0; l < cache->n_windows; l++) {
        int slots = kv_slots(&all, l);
        if (slots == all.max_seq_len) continue;
        slots -= KV_RING_TENTATIVE;
        int least = length - 1 - (slots - all.windows[l]);
        if (length > slots && least > lowest) lowest = least;
    }
    return lowest;
}

bool kv_cache_rings(const KvCache *cache) {
    return kv_cache_lowest(cache, -1, cache->shape.max_seq_len) > 0;
}

bool kv_cache_return(KvCache *cache, const int *lengths) {
    bool good = true;
    for (int q = 0; q < cache->shape.n_sequences; q++) {
        bool lost = lengths[q] < cache->lowest[q];
        good &= !lost || !lengths[q];
        cache->lengths[q] = lost ? 0 : lengths[q];
        if (!cache->lengths[q]) cache->lowest[q] = 0;
    }
    return good;
}

// Of a layer with a window: the first key that a query at `lowest` sees.
static int first_needed(const KvCache *cache, int layer, int lowest) {
    int window = cache->windows && lowest ? cache->windows[layer] : 0;
    return window && lowest >= window ? lowest - window + 1 : 0;
}

int kv_cache_first(const KvCache *cache, int layer, int sequence) {
    return first_needed(cache, layer, cache->lowest[sequence]);
}

void kv_cache_copy(KvCache *cache, int to, int from) {
    // `count` positions of every layer, not the whole context.
    int count = kv_cache_length(cache, from);
    assert(to >= 0 && to < cache->shape.n_sequences);
    if (to == from) return;
    if (cache->ranked) ranks_copy(to, from, count);
    kv_copy(cache->device, cache->kv, to, from, count);
    cache->lengths[to] = count;
    cache->lowest[to] = cache->lowest[from];
}

// ---- snapshots ----
//
//   part of layer l after n tokens:   head 0: keys (n - f, head_dim), values (n - f, head_dim)
//                                     head 1: ...
//
// Position f is the first that a query at the snapshot's lowest length sees: 0 without a window. A
// head's keys of the first m < n tokens are the beginning of its keys.

int kv_cache_parts(const KvCache *cache) {
    return cache->shape.n_layers;
}

// Keys of a head, or values.
static size_t run_bytes(const KvShape *s, int count) {
    return (size_t)count * (size_t)s->head_dim * kv_element_bytes(s->type);
}

static size_t snapshot_run(const KvCache *cache, int part, const KvSnapshot *of) {
    return run_bytes(&cache->shape, of->length - first_needed(cache, part, of->lowest));
}

size_t kv_cache_part_bytes(const KvCache *cache, int part, const KvSnapshot *of) {
    return 2 * (size_t)cache->shape.n_kv_heads * snapshot_run(cache, part, of);
}

size_t kv_cache_bytes(const KvCache *cache, const KvSnapshot *of) {
    size_t bytes = 0;
    for (int i = 0; i < kv_cache_parts(cache); i++)
        bytes += kv_cache_part_bytes(cache, i, of);
    return bytes;
}

int kv_cache_checkpoint(const KvCache *cache, const KvSnapshot *saved, int wanted) {
    int most = cache->shape.max_seq_len < saved->length ? cache->shape.max_seq_len : saved->length;
    int length = wanted < most ? wanted : most;
    return length < saved->lowest ? 0 : length;
}

// The device's failure as an Error; true where there is none.
static bool device_good(const KvCache *cache, Error *error) {
    const Error *failure = device_error(cache->device);
    return !failure->code || error_copy(error, failure);
}

bool kv_cache_save(const KvCache *cache, int sequence, int part, const KvSnapshot *as, void *out,
                   Error *error) {
    assert(as->length <= kv_cache_length(cache, sequence));
    size_t run = snapshot_run(cache, part, as);
    int first = first_needed(cache, part, as->lowest);
    for (int h = 0; h < cache->shape.n_kv_heads; h++) {
        char *keys = (char *)out + 2 * (size_t)h * run;
        KvSpan span = {sequence, h, first, as->length};
        kv_save(cache->device, &(KvView){cache->kv, part}, &span, keys, keys + run);
    }
    return device_good(cache, error);
}

// The snapshot may have more of a layer than a ring of this cache.
void kv_cache_restore(KvCache *cache, int sequence, int part, const void *bytes,
                      const KvSnapshot *saved, int length) {
    assert(length <= kv_cache_checkpoint(cache, saved, length));
    size_t run = snapshot_run(cache, part, saved);
    int begin = first_needed(cache, part, saved->lowest), slots = kv_slots(&cache->shape, part);
    int first = length - slots > begin ? length - slots : begin;
    size_t skipped = run_bytes(&cache->shape, first - begin);
    kv_cache_reset(cache, sequence);
    for (int h = 0; h < cache->shape.n_kv_heads; h++) {
        const char *keys = (const char *)bytes + 2 * (size_t)h * run + skipped;
        KvSpan span = {sequence, h, first, length};
        kv_restore(cache->device, &(KvView){cache->kv, part}, &span, keys, keys + run);
    }
}

bool kv_cache_restored(KvCache *cache, int sequence, const KvSnapshot *saved, int length,
                       Error *error) {
    if (!device_good(cache, error)) return false;
    assert(length >= 0 && length <= cache->shape.max_seq_len);
    cache->lengths[sequence] = length;
    cache->lowest[sequence] = length ? saved->lowest : 0;
    cache->lowest[sequence] = kv_cache_lowest(cache, sequence, length);
    return true;
}

int kv_cache_go_back(KvCache *cache, int sequence, int length) {
    KvSnapshot now = {kv_cache_length(cache, sequence), cache->lowest[sequence]};
    int checkpoint = kv_cache_checkpoint(cache, &now, length);
    kv_cache_truncate(cache, sequence, checkpoint);
    return checkpoint;
}
