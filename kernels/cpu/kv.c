// The cache of keys and values: memory, writing, copying, reading back. kv.h has the layout.
#include "kernels/cpu/kv.h"
#include "base/arena.h"
#include "kernels/cpu/attention.h"
#include "kernels/host.h"
#include "kernels/precision.h"

#include <string.h>

// Large pages make attention over 4,096 positions of SmolLM2 1.65 times as fast (Zen 4, AVX-512 and
// AVX2; 1.37 with 8 heads of 128). But a first token touches every region, so the whole cache is
// there from then on. A larger one than this stays on small pages and grows as it is filled.
enum { LARGE_PAGES_UP_TO = 512 << 20 };

// The sizes of a cache; false where they do not fit in memory's address range.
static bool kv_layout(Kv *kv, size_t *bytes) {
    const KvShape *s = &kv->shape;
    size_t positions = ((size_t)s->max_seq_len + KV_TILE - 1) / KV_TILE * KV_TILE;
    size_t head_dim = (size_t)s->head_dim, keys, values;
    kv->element = kv_element_bytes(s->type);
    kv->value_dim = (head_dim + 15) / 16 * 16;
    if (__builtin_mul_overflow(positions, head_dim * kv->element, &keys)) return false;
    if (__builtin_mul_overflow(positions, kv->value_dim * kv->element, &values)) return false;
    kv->values_offset = (keys + 63) / 64 * 64;
    kv->region_bytes = (kv->values_offset + values + 63) / 64 * 64;
    if (kv->region_bytes < values || kv->values_offset < keys) return false;
    *bytes = kv->region_bytes;
    return !__builtin_mul_overflow(*bytes, (size_t)s->n_layers, bytes) &&
           !__builtin_mul_overflow(*bytes, (size_t)s->n_sequences, bytes) &&
           !__builtin_mul_overflow(*bytes, (size_t)s->n_kv_heads, bytes);
}

size_t kv_bytes(const KvShape *shape) {
    Kv kv = {.shape = *shape};
    size_t bytes;
    return kv_layout(&kv, &bytes) ? bytes : SIZE_MAX;
}

size_t kv_needs(const Device *device, const KvShape *shape) {
    Kv kv = {.shape = *shape};
    size_t bytes;
    if (!kv_layout(&kv, &bytes)) return SIZE_MAX;
    return sum_or_most(bytes, sizeof kv + attention_scratch(device, &kv));
}

Kv *kv_open(Device *device, const KvShape *shape) {
    if (!device_ok(device)) return NULL;
    Kv *kv = device_alloc(device, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    size_t bytes = 0;
    if (kv_layout(kv, &bytes))
        kv->memory = device_alloc(device, bytes);
    else
        device_fail(device, ERROR_MEMORY, "the cache is larger than memory can be");
    if (kv->memory && bytes <= LARGE_PAGES_UP_TO) memory_large_pages(kv->memory, bytes);
    kv->scratch = device_alloc(device, attention_scratch(device, kv));
    if (device_ok(device)) return kv;
    kv_close(device, kv);
    return NULL;
}

void kv_close(Device *device, Kv *kv) {
    if (!kv) return;
    device_free(device, kv->memory);
    device_free(device, kv->scratch);
    device_free(device, kv);
}

typedef struct WriteWork {
    const AttentionKernels *kernels;
    const KvView *view;
    const float *k, *v; // (n, n_kv_heads, head_dim)
    const Rows *rows;
} WriteWork;

// Items are KV heads: no two threads write to one tile.
static void write_task(void *context, size_t begin, size_t end, int thread) {
    const WriteWork *w = context;
    const Kv *kv = w->view->kv;
    size_t n_heads = (size_t)kv->shape.n_kv_heads, head_dim = (size_t)kv->shape.head_dim;
    for (size_t h = begin; h < end; h++) {
        for (int i = 0; i < w->rows->n; i++) {
            unsigned char *region = kv_region(kv, w->view->layer, w->rows->sequences[i], (int)h);
            size_t row = ((size_t)i * n_heads + h) * head_dim;
            w->kernels->write(kv, region, (size_t)w->rows->positions[i], w->k + row, w->v + row);
        }
    }
    (void)thread;
}

void kv_write(Device *device, const KvView *view, const float *k, const float *v,
              const Rows *rows) {
    if (!device_ok(device)) return;
    WriteWork work = {device->kernels->rows->attention, view, k, v, rows};
    const KvShape *shape = &view->kv->shape;
    device_run(device, write_task, &work, (size_t)shape->n_kv_heads,
               work_chunk(4 * (size_t)rows->n * (size_t)shape->head_dim));
}

// Positions 0 .. count-1 of one region into another: whole tiles, then single lanes.
static void copy_region(const Kv *kv, unsigned char *to, const unsigned char *from, size_t count) {
    size_t head_dim = (size_t)kv->shape.head_dim;
    memcpy(to + kv->values_offset, from + kv->values_offset, count * kv->value_dim * kv->element);
    size_t whole = count / KV_TILE * KV_TILE;
    memcpy(to, from, whole * head_dim * kv->element);
    for (size_t position = whole; position < count; position++) {
        size_t key = kv_key_index(position, head_dim);
        for (size_t j = 0; j < head_dim; j++) {
            size_t at = (key + j * KV_TILE) * kv->element;
            memcpy(to + at, from + at, kv->element);
        }
    }
}

void kv_copy(Device *device, Kv *kv, int to, int from, int count) {
    if (!device_ok(device) || to == from) return;
    for (int layer = 0; layer < kv->shape.n_layers; layer++)
        for (int h = 0; h < kv->shape.n_kv_heads; h++)
            copy_region(kv, kv_region(kv, layer, to, h), kv_region(kv, layer, from, h),
                        (size_t)count);
}

void kv_read(Device *device, const KvView *view, int sequence, int kv_head, int position,
             float *k_host, float *v_host) {
    if (!device_ok(device)) return;
    const Kv *kv = view->kv;
    const unsigned char *region = kv_region(kv, view->layer, sequence, kv_head);
    size_t head_dim = (size_t)kv->shape.head_dim, at = (size_t)position;
    for (size_t j = 0; j < head_dim; j++) {
        if (k_host) k_host[j] = kv_element(kv, region, kv_key_index(at, head_dim) + j * KV_TILE);
        if (v_host) v_host[j] = kv_element(kv, region + kv->values_offset, at * kv->value_dim + j);
    }
}

// Channel j of position t: of the keys in the cache, and of keys on the host.
typedef struct KeyPlaces {
    size_t in_cache, on_host; // bytes
} KeyPlaces;

static KeyPlaces key_places(const Kv *kv, size_t t, size_t j) {
    size_t head_dim = (size_t)kv->shape.head_dim;
    return (KeyPlaces){(kv_key_index(t, head_dim) + j * KV_TILE) * kv->element,
                       (t * head_dim + j) * kv->element};
}

void kv_save(Device *device, const KvView *view, int sequence, int kv_head, int count,
             void *keys_host, void *values_host) {
    if (!device_ok(device)) return;
    const Kv *kv = view->kv;
    const unsigned char *region = kv_region(kv, view->layer, sequence, kv_head);
    size_t head_dim = (size_t)kv->shape.head_dim, row = head_dim * kv->element;
    unsigned char *keys = keys_host, *values = values_host;
    for (size_t t = 0; t < (size_t)count; t++) {
        memcpy(values + t * row, region + kv->values_offset + t * kv->value_dim * kv->element, row);
        for (size_t j = 0; j < head_dim; j++) {
            KeyPlaces at = key_places(kv, t, j);
            memcpy(keys + at.on_host, region + at.in_cache, kv->element);
        }
    }
}

// The channels behind head_dim that fill up value_dim are zeros from kv_open on.
void kv_restore(Device *device, const KvView *view, int sequence, int kv_head, int count,
                const void *keys_host, const void *values_host) {
    if (!device_ok(device)) return;
    const Kv *kv = view->kv;
    unsigned char *region = kv_region(kv, view->layer, sequence, kv_head);
    size_t head_dim = (size_t)kv->shape.head_dim, row = head_dim * kv->element;
    const unsigned char *keys = keys_host, *values = values_host;
    for (size_t t = 0; t < (size_t)count; t++) {
        memcpy(region + kv->values_offset + t * kv->value_dim * kv->element, values + t * row, row);
        for (size_t j = 0; j < head_dim; j++) {
            KeyPlaces at = key_places(kv, t, j);
            memcpy(region + at.in_cache, keys + at.on_host, kv->element);
        }
    }
}
