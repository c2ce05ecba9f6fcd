// The cache of the reference backend: two plain arrays.
//
//   keys, values: [layer][sequence][kv head][slot][head_dim]   float32, half or bf16
//
// A layer has kv_slots slots; a position is in slot kv_slot (kv_shape.h).
// The keys of a head lie one after another, since attention reads them in that order. They are
// stored after their norm and rotation, so a cached position never has to be computed again.
#include "kernels/host.h"
#include "kernels/precision.h"
#include "kernels/reference/device.h"

#include <string.h>

// Index of the first element of one slot.
static size_t slot_index(const Kv *kv, int layer, int sequence, int kv_head, int slot) {
    const KvShape *s = &kv->shape;
    size_t heads = (size_t)s->n_sequences * (size_t)s->n_kv_heads;
    size_t head = (size_t)sequence * (size_t)s->n_kv_heads + (size_t)kv_head;
    size_t slots = kv->first_slots[layer] * heads + head * (size_t)kv_slots(s, layer);
    return (slots + (size_t)slot) * (size_t)s->head_dim;
}

// Of one cached key or value.
static size_t kv_index(const Kv *kv, int layer, int sequence, int kv_head, int position) {
    int slot = kv_slot(kv_slots(&kv->shape, layer), position);
    return slot_index(kv, layer, sequence, kv_head, slot);
}

// Keys and values: 2 x (slots of all layers, sequences, heads, head_dim). SIZE_MAX on overflow.
size_t kv_bytes(const KvShape *s) {
    const size_t factors[] = {2 * kv_element_bytes(s->type), (size_t)s->n_sequences,
                              (size_t)s->n_kv_heads, (size_t)s->head_dim};
    size_t bytes = kv_slots_before(s, s->n_layers);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (__builtin_mul_overflow(bytes, factors[i], &bytes)) return SIZE_MAX;
    return bytes;
}

enum { KV_PARTS = 6 };
static void kv_parts(MemoryPart parts[KV_PARTS], Kv *kv, const KvShape *shape) {
    const MemoryPart table[KV_PARTS] = {
        {&kv->keys, kv_bytes(shape) / 2},
        {&kv->values, kv_bytes(shape) / 2},
        {&kv->scores, (size_t)shape->max_seq_len * sizeof(float)},
        {&kv->sums, (size_t)shape->head_dim * sizeof(double)},
        {&kv->vector, (size_t)shape->head_dim * sizeof(float)},
        {&kv->first_slots, (size_t)shape->n_layers * sizeof(size_t)},
    };
    memcpy(parts, table, sizeof table);
}

size_t kv_needs(const KvShape *shape) {
    Kv none;
    MemoryPart parts[KV_PARTS];
    kv_parts(parts, &none, shape);
    return sum_or_most(sizeof none, parts_bytes(parts, KV_PARTS));
}

Kv *kv_open(Device *device, const KvShape *shape) {
    MemoryPart parts[KV_PARTS];
    Kv *kv = device_alloc(device, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    kv_parts(parts, kv, shape);
    parts_alloc(device, parts, KV_PARTS);
    for (int l = 0; kv->first_slots && l < shape->n_layers; l++)
        kv->first_slots[l] = kv_slots_before(shape, l);
    if (!device_error(device)->code) return kv;
    kv_close(device, kv);
    return NULL;
}

void kv_close(Device *device, Kv *kv) {
    if (!kv) return;
    device_free(device, kv->keys);
    device_free(device, kv->values);
    device_free(device, kv->scores);
    device_free(device, kv->sums);
    device_free(device, kv->vector);
    device_free(device, kv->first_slots);
    device_free(device, kv);
}

// One vector of head_dim into the cache, rounded where the cache has 16 bits.
static void store(const KvShape *s, void *array, size_t index, const float *from) {
    float *whole = (float *)array + index;
    uint16_t *narrow = (uint16_t *)array + index;
    for (int j = 0; j < s->head_dim; j++) {
        if (s->type == KV_F32)
            whole[j] = from[j];
        else
            narrow[j] = kv_narrow(s->type, from[j]);
    }
}

const float *kv_vector(const KvView *view, const void *array, int sequence, int kv_head,
                       int position) {
    const KvShape *s = &view->kv->shape;
    size_t index = kv_index(view->kv, view->layer, sequence, kv_head, position);
    view->kv->vectors_read++;
    if (s->type == KV_F32) return (const float *)array + index;
    const uint16_t *narrow = (const uint16_t *)array + index;
    for (int j = 0; j < s->head_dim; j++)
        view->kv->vector[j] = kv_widen(s->type, narrow[j]);
    return view->kv->vector;
}

void kv_write(Device *device, const KvView *view, const float *k, const float *v,
              const Rows *rows) {
    if (device_error(device)->code) return;
    const KvShape *s = &view->kv->shape;
    for (int i = 0; i < rows->n; i++) {
        for (int g = 0; g < s->n_kv_heads; g++) {
            size_t index =
                kv_index(view->kv, view->layer, rows->sequences[i], g, rows->positions[i]);
            size_t from = ((size_t)i * (size_t)s->n_kv_heads + (size_t)g) * (size_t)s->head_dim;
            store(s, view->kv->keys, index, k + from);
            store(s, view->kv->values, index, v + from);
            device->counts.kv_written_bytes += 2 * (size_t)s->head_dim * kv_element_bytes(s->type);
        }
    }
}

// The first slots of a head are one run of bytes: as many as there are positions, or a whole ring.
void kv_copy(Device *device, Kv *kv, int to, int from, int count) {
    if (device_error(device)->code) return;
    const KvShape *s = &kv->shape;
    size_t size = kv_element_bytes(s->type);
    for (int l = 0; l < s->n_layers; l++) {
        int slots = kv_slots(s, l);
        size_t bytes = (size_t)(count < slots ? count : slots) * (size_t)s->head_dim * size;
        for (int g = 0; g < s->n_kv_heads; g++) {
            size_t a = slot_index(kv, l, to, g, 0) * size, b = slot_index(kv, l, from, g, 0) * size;
            memmove((char *)kv->keys + a, (char *)kv->keys + b, bytes);
            memmove((char *)kv->values + a, (char *)kv->values + b, bytes);
        }
    }
}

void kv_read(Device *device, const KvView *view, int sequence, int kv_head, int position,
             float *k_host, float *v_host) {
    if (device_error(device)->code) return;
    Kv *kv = view->kv;
    size_t bytes = (size_t)kv->shape.head_dim * sizeof(float);
    if (k_host) memcpy(k_host, kv_vector(view, kv->keys, sequence, kv_head, position), bytes);
    if (v_host) memcpy(v_host, kv_vector(view, kv->values, sequence, kv_head, position), bytes);
}

// Neighbouring slots at once: two runs where a ring begins anew inside the span.
void kv_save(Device *device, const KvView *view, const KvSpan *span, void *keys_host,
             void *values_host) {
    if (device_error(device)->code) return;
    const Kv *kv = view->kv;
    size_t size = kv_element_bytes(kv->shape.type), row = (size_t)kv->shape.head_dim * size;
    int slots = kv_slots(&kv->shape, view->layer);
    for (int at = span->first, n; at < span->end; at += n) {
        size_t from = kv_index(kv, view->layer, span->sequence, span->kv_head, at) * size;
        size_t to = (size_t)(at - span->first) * row;
        n = kv_run(slots, at, span->end);
        memcpy((char *)keys_host + to, (char *)kv->keys + from, (size_t)n * row);
        memcpy((char *)values_host + to, (char *)kv->values + from, (size_t)n * row);
    }
}

void kv_restore(Device *device, const KvView *view, const KvSpan *span, const void *keys_host,
                const void *values_host) {
    if (device_error(device)->code) return;
    const Kv *kv = view->kv;
    size_t size = kv_element_bytes(kv->shape.type), row = (size_t)kv->shape.head_dim * size;
    int slots = kv_slots(&kv->shape, view->layer);
    for (int at = span->first, n; at < span->end; at += n) {
        size_t to = kv_index(kv, view->layer, span->sequence, span->kv_head, at) * size;
        size_t from = (size_t)(at - span->first) * row;
        n = kv_run(slots, at, span->end);
        memcpy((char *)kv->keys + to, (const char *)keys_host + from, (size_t)n * row);
        memcpy((char *)kv->values + to, (const char *)values_host + from, (size_t)n * row);
    }
}
