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

// The regions of a layer; false where one does not fit in memory's address range.
static bool layer_layout(KvLayer *layer, const Kv *kv, int l) {
    size_t head_dim = (size_t)kv->shape.head_dim, keys, values;
    *layer = (KvLayer){.slots = kv_slots(&kv->shape, l)};
    size_t slots = (size_t)kv_tiles(layer) * KV_TILE;
    if (__builtin_mul_overflow(slots, head_dim * kv->element, &keys)) return false;
    if (__builtin_mul_overflow(slots, kv->value_dim * kv->element, &values)) return false;
    layer->values_offset = (keys + 63) / 64 * 64;
    layer->region_bytes = (layer->values_offset + values + 63) / 64 * 64;
    return layer->region_bytes >= values && layer->values_offset >= keys;
}

// The bytes of the regions of layers 0 .. n - 1; false where they are more than can be counted.
static bool layers_bytes(const Kv *kv, int n, size_t *bytes) {
    size_t regions = (size_t)kv->shape.n_sequences * (size_t)kv->shape.n_kv_heads;
    *bytes = 0;
    for (int l = 0; l < n; l++) {
        KvLayer layer;
        size_t of_layer;
        if (!layer_layout(&layer, kv, l) ||
            __builtin_mul_overflow(layer.region_bytes, regions, &of_layer) ||
            __builtin_add_overflow(*bytes, of_layer, bytes))
            return false;
    }
    return true;
}

// The sizes of a cache; false where they do not fit in memory's address range.
static bool kv_layout(Kv *kv, size_t *bytes) {
    const KvShape *s = &kv->shape;
    kv->element = kv_element_bytes(s->type);
    kv->value_dim = ((size_t)s->head_dim + 15) / 16 * 16;
    return layers_bytes(kv, s->n_layers, bytes);
}

KvLayer kv_layer(const Kv *kv, int l) {
    KvLayer layer;
    size_t before;
    layers_bytes(kv, l, &before); // kv_open has seen that all of them can be counted
    layer_layout(&layer, kv, l);
    layer.memory = kv->memory + before;
    return layer;
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
    const Kv *kv;
    KvLayer layer;
    const float *k, *v; // (n, n_kv_heads, head_dim)
    const Rows *rows;
} WriteWork;

// Items are KV heads: no two threads write to one tile.
static void write_task(void *context, size_t begin, size_t end, int thread) {
    const WriteWork *w = context;
    const Kv *kv = w->kv;
    size_t n_heads = (size_t)kv->shape.n_kv_heads, head_dim = (size_t)kv->shape.head_dim;
    for (size_t h = begin; h < end; h++) {
        for (int i = 0; i < w->rows->n; i++) {
            unsigned char *region = kv_region(kv, &w->layer, w->rows->sequences[i], (int)h);
            size_t row = ((size_t)i * n_heads + h) * head_dim;
            size_t slot = (size_t)kv_slot(w->layer.slots, w->rows->positions[i]);
            w->kernels->write(kv, region, region + w->layer.values_offset, slot, w->k + row,
                              w->v + row);
        }
    }
    (void)thread;
}

// Multiply-adds that storing an element of a key and of a value takes as long as: the elements of a
// key lie in different cache lines.
enum { WRITE_COST = 64 };

void kv_write(Device *device, const KvView *view, const float *k, const float *v,
              const Rows *rows) {
    if (!device_ok(device)) return;
    KvLayer layer = kv_layer(view->kv, view->layer);
    WriteWork work = {device->kernels->rows->attention, view->kv, layer, k, v, rows};
    const KvShape *shape = &view->kv->shape;
    device_run(device, write_task, &work, (size_t)shape->n_kv_heads,
               work_chunk(WRITE_COST * (size_t)rows->n * (size_t)shape->head_dim));
}

// Slots 0 .. count-1 of one region into another: whole tiles, then single lanes.
static void copy_region(const Kv *kv, const KvLayer *layer, unsigned char *to,
                        const unsigned char *from, size_t count) {
    size_t head_dim = (size_t)kv->shape.head_dim, values = layer->values_offset;
    memcpy(to + values, from + values, count * kv->value_dim * kv->element);
    size_t whole = count / KV_TILE * KV_TILE;
    memcpy(to, from, whole * head_dim * kv->element);
    for (size_t slot = whole; slot < count; slot++) {
        size_t key = kv_key_index(slot, head_dim);
        for (size_t j = 0; j < head_dim; j++) {
            size_t at = (key + j * KV_TILE) * kv->element;
            memcpy(to + at, from + at, kv->element);
        }
    }
}

// As many slots as there are positions, or a whole ring.
void kv_copy(Device *device, Kv *kv, int to, int from, int count) {
    if (!device_ok(device) || to == from) return;
    for (int l = 0; l < kv->shape.n_layers; l++) {
        KvLayer layer = kv_layer(kv, l);
        size_t slots = (size_t)(count < layer.slots ? count : layer.slots);
        for (int h = 0; h < kv->shape.n_kv_heads; h++)
            copy_region(kv, &layer, kv_region(kv, &layer, to, h), kv_region(kv, &layer, from, h),
                        slots);
    }
}

void kv_read(Device *device, const KvView *view, int sequence, int kv_head, int position,
             float *k_host, float *v_host) {
    if (!device_ok(device)) return;
    const Kv *kv = view->kv;
    KvLayer layer = kv_layer(kv, view->layer);
    const unsigned char *keys = kv_region(kv, &layer, sequence, kv_head);
    const unsigned char *values = keys + layer.values_offset;
    size_t head_dim = (size_t)kv->shape.head_dim, at = (size_t)kv_slot(layer.slots, position);
    for (size_t j = 0; j < head_dim; j++) {
        if (k_host) k_host[j] = kv_element(kv, keys, kv_key_index(at, head_dim) + j * KV_TILE);
        if (v_host) v_host[j] = kv_element(kv, values, at * kv->value_dim + j);
    }
}

// Where a position is in the cache and on the host: channel 0 of its key, and its value.
typedef struct Places {
    unsigned char *key, *value;
    size_t on_host; // bytes
} Places;

static Places places_of(const Kv *kv, const KvLayer *layer, const KvSpan *span, int position) {
    unsigned char *region = kv_region(kv, layer, span->sequence, span->kv_head);
    size_t head_dim = (size_t)kv->shape.head_dim, slot = (size_t)kv_slot(layer->slots, position);
    return (Places){region + kv_key_index(slot, head_dim) * kv->element,
                    region + layer->values_offset + slot * kv->value_dim * kv->element,
                    (size_t)(position - span->first) * head_dim * kv->element};
}

void kv_save(Device *device, const KvView *view, const KvSpan *span, void *keys_host,
             void *values_host) {
    if (!device_ok(device)) return;
    const Kv *kv = view->kv;
    KvLayer layer = kv_layer(kv, view->layer);
    size_t head_dim = (size_t)kv->shape.head_dim, size = kv->element;
    for (int t = span->first; t < span->end; t++) {
        Places at = places_of(kv, &layer, span, t);
        memcpy((unsigned char *)values_host + at.on_host, at.value, head_dim * size);
        for (size_t j = 0; j < head_dim; j++)
            memcpy((unsigned char *)keys_host + at.on_host + j * size, at.key + j * KV_TILE * size,
                   size);
    }
}

// The channels behind head_dim that fill up value_dim are zeros from kv_open on.
void kv_restore(Device *device, const KvView *view, const KvSpan *span, const void *keys_host,
                const void *values_host) {
    if (!device_ok(device)) return;
    const Kv *kv = view->kv;
    KvLayer layer = kv_layer(kv, view->layer);
    size_t head_dim = (size_t)kv->shape.head_dim, size = kv->element;
    for (int t = span->first; t < span->end; t++) {
        Places at = places_of(kv, &layer, span, t);
        memcpy(at.value, (const unsigned char *)values_host + at.on_host, head_dim * size);
        for (size_t j = 0; j < head_dim; j++)
            memcpy(at.key + j * KV_TILE * size,
                   (const unsigned char *)keys_host + at.on_host + j * size, size);
    }
}
