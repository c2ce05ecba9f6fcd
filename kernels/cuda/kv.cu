// The cache: written by one thread per element, read back one vector at a time.
#include "kernels/cuda/steps.h"

#include <string.h>

// Where a head's slots begin, in elements.
static size_t head_index(const KvShape *s, int layer, int sequence, int kv_head) {
    size_t heads = (size_t)s->n_sequences * (size_t)s->n_kv_heads;
    size_t head = (size_t)sequence * (size_t)s->n_kv_heads + (size_t)kv_head;
    size_t slots = kv_slots_before(s, layer) * heads + head * (size_t)kv_slots(s, layer);
    return slots * (size_t)s->head_dim;
}

// SIZE_MAX where that is more than can be counted.
size_t kv_bytes(const KvShape *s) {
    const size_t factors[] = {2 * kv_element_bytes(s->type), (size_t)s->n_sequences,
                              (size_t)s->n_kv_heads, (size_t)s->head_dim};
    size_t bytes = kv_slots_before(s, s->n_layers);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (__builtin_mul_overflow(bytes, factors[i], &bytes)) return SIZE_MAX;
    return bytes;
}

// Keys and values are two arrays of half the bytes each.
Kv *kv_open(Device *device, const KvShape *shape) {
    Kv *kv = (Kv *)host_alloc(device, sizeof *kv);
    if (!kv) return NULL;
    kv->shape = *shape;
    kv->keys = device_alloc(device, kv_bytes(shape) / 2);
    kv->values = device_alloc(device, kv_bytes(shape) / 2);
    if (device_ok(device)) return kv;
    // One of the arrays may exist: device_free takes NULL for the other, and the device keeps the
    // error.
    kv_close(device, kv);
    return NULL;
}

void kv_close(Device *device, Kv *kv) {
    if (!kv) return;
    if (device->recording) recording_forget(device); // graphs write to what is freed here
    device_free(device, kv->keys);
    device_free(device, kv->values);
    host_free(device, kv);
}

KvLayer kv_layer(const KvView *view) {
    const KvShape *s = &view->kv->shape;
    size_t offset = head_index(s, view->layer, 0, 0) * kv_element_bytes(s->type);
    return KvLayer{(char *)view->kv->keys + offset,
                   (char *)view->kv->values + offset,
                   s->type,
                   s->n_kv_heads,
                   s->max_seq_len,
                   s->head_dim,
                   kv_slots(s, view->layer)};
}

// A block per row and head.
static __global__ void kv_write_kernel(KvLayer kv, const float *k, const float *v, Rows rows) {
    int i = blockIdx.x, g = blockIdx.y;
    wait_for_earlier_kernels();
    size_t from = ((size_t)i * kv.n_kv_heads + g) * kv.head_dim;
    // Positions are read by the kernel and not by the host: a recorded pass writes elsewhere each
    // time.
    size_t to = kv_index(kv, rows.sequences[i], g, rows.positions[i]);
    for (int j = threadIdx.x; j < kv.head_dim; j += blockDim.x) {
        kv_store(kv, kv.keys, to + j, k[from + j]);
        kv_store(kv, kv.values, to + j, v[from + j]);
    }
}

void run_kv_write(Device *device, const Operation *operation) {
    const KvWriteOperation *op = &operation->kv_write;
    KvLayer kv = kv_layer(&op->view);
    LAUNCH(device, kv_write_kernel, dim3(op->rows.n, kv.n_kv_heads), 64, kv, op->k, op->v,
           op->rows);
}

void kv_write(Device *device, const KvView *view, const float *k, const float *v,
              const Rows *rows) {
    Operation operation = operation_of(OPERATION_KV_WRITE);
    KvWriteOperation *op = &operation.kv_write;
    copy_view(&op->view, view);
    op->k = k, op->v = v;
    copy_rows(&op->rows, rows);
    perform(device, &operation);
}

// The first slots of a head are one run of bytes: as many as there are positions, or a whole ring.
void kv_copy(Device *device, Kv *kv, int to, int from, int count) {
    device_sync(device);
    if (!device_ok(device) || !count || to == from) return;
    const KvShape *s = &kv->shape;
    size_t size = kv_element_bytes(s->type);
    // Of the layout in steps.h each (layer, sequence, kv head) is one run, so a copy for each of
    // them.
    for (int l = 0; l < s->n_layers; l++) {
        int slots = kv_slots(s, l);
        size_t bytes = (size_t)(count < slots ? count : slots) * (size_t)s->head_dim * size;
        for (int g = 0; g < s->n_kv_heads; g++) {
            size_t a = head_index(s, l, to, g) * size, b = head_index(s, l, from, g) * size;
            for (void *array : {kv->keys, kv->values})
                BYTES_CHECK(device,
                            cudaMemcpyAsync((char *)array + a, (char *)array + b, bytes,
                                            cudaMemcpyDeviceToDevice, device->stream),
                            bytes);
        }
    }
}

// Bytes from the start of the cache's keys to that of a position; its value is as far from the
// first value.
static size_t key_offset(const KvView *view, int sequence, int kv_head, int position) {
    const KvShape *s = &view->kv->shape;
    size_t slot = (size_t)kv_slot(kv_slots(s, view->layer), position);
    size_t index = head_index(s, view->layer, sequence, kv_head) + slot * (size_t)s->head_dim;
    return index * kv_element_bytes(s->type);
}

static void read_vector(Device *device, const KvView *view, const void *array, int sequence,
                        int kv_head, int position, float *out) {
    const KvShape *s = &view->kv->shape;
    const char *from = (const char *)array + key_offset(view, sequence, kv_head, position);
    device_download(device, out, from, (size_t)s->head_dim * kv_element_bytes(s->type));
    if (!device_ok(device) || s->type == KV_F32) return;
    for (int j = s->head_dim - 1; j >= 0; j--) { // in place, from the end: 16 bits become 32
        uint16_t bits;
        memcpy(&bits, (char *)out + 2 * j, sizeof bits);
        out[j] = kv_widen(s->type, bits);
    }
}

void kv_read(Device *device, const KvView *view, int sequence, int kv_head, int position,
             float *k_host, float *v_host) {
    if (k_host) read_vector(device, view, view->kv->keys, sequence, kv_head, position, k_host);
    if (v_host) read_vector(device, view, view->kv->values, sequence, kv_head, position, v_host);
}

// Neighbouring slots at once: two runs where a ring begins anew inside the span.
void kv_save(Device *device, const KvView *view, const KvSpan *span, void *keys_host,
             void *values_host) {
    const KvShape *s = &view->kv->shape;
    size_t row = (size_t)s->head_dim * kv_element_bytes(s->type);
    for (int at = span->first, n; at < span->end; at += n) {
        size_t from = key_offset(view, span->sequence, span->kv_head, at);
        size_t to = (size_t)(at - span->first) * row;
        n = kv_run(kv_slots(s, view->layer), at, span->end);
        device_download(device, (char *)keys_host + to, (char *)view->kv->keys + from, n * row);
        device_download(device, (char *)values_host + to, (char *)view->kv->values + from, n * row);
    }
}

void kv_restore(Device *device, const KvView *view, const KvSpan *span, const void *keys_host,
                const void *values_host) {
    const KvShape *s = &view->kv->shape;
    size_t row = (size_t)s->head_dim * kv_element_bytes(s->type);
    for (int at = span->first, n; at < span->end; at += n) {
        size_t to = key_offset(view, span->sequence, span->kv_head, at);
        size_t from = (size_t)(at - span->first) * row;
        n = kv_run(kv_slots(s, view->layer), at, span->end);
        device_upload(device, (char *)view->kv->keys + to, (const char *)keys_host + from, n * row);
        device_upload(device, (char *)view->kv->values + to, (const char *)values_host + from,
                      n * row);
    }
}
