// The cache: written by one thread per element, read back one vector at a time.
#include "kernels/cuda/steps.h"

#include <string.h>

// Elements of one layer's keys.
static size_t layer_elements(const KvShape *s) {
    return (size_t)s->n_sequences * (size_t)s->n_kv_heads * (size_t)s->max_seq_len *
           (size_t)s->head_dim;
}

// SIZE_MAX where that is more than can be counted.
size_t kv_bytes(const KvShape *s) {
    const int factors[] = {s->n_layers, s->n_sequences, s->n_kv_heads, s->max_seq_len, s->head_dim};
    size_t bytes = 2 * kv_element_bytes(s->type);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (__builtin_mul_overflow(bytes, (size_t)factors[i], &bytes)) return SIZE_MAX;
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
    device_free(device, kv->keys);
    device_free(device, kv->values);
    host_free(device, kv);
}

KvLayer kv_layer(const KvView *view) {
    const KvShape *s = &view->kv->shape;
    size_t offset = (size_t)view->layer * layer_elements(s) * kv_element_bytes(s->type);
    return KvLayer{(char *)view->kv->keys + offset,
                   (char *)view->kv->values + offset,
                   s->type,
                   s->n_kv_heads,
                   s->max_seq_len,
                   s->head_dim};
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

// A head's first `count` positions are one run of bytes.
void kv_copy(Device *device, Kv *kv, int to, int from, int count) {
    device_sync(device);
    if (!device_ok(device) || !count || to == from) return;
    const KvShape *s = &kv->shape;
    size_t size = kv_element_bytes(s->type),
           head = (size_t)s->max_seq_len * (size_t)s->head_dim * size;
    size_t bytes = (size_t)count * (size_t)s->head_dim * size;
    // Of the layout in steps.h each (layer, sequence, kv head) is one run, so a copy for each of
    // them.
    for (int l = 0; l < s->n_layers; l++) {
        for (int g = 0; g < s->n_kv_heads; g++) {
            size_t heads = (size_t)s->n_kv_heads, row = (size_t)l * (size_t)s->n_sequences;
            size_t a = ((row + (size_t)to) * heads + (size_t)g) * head;
            size_t b = ((row + (size_t)from) * heads + (size_t)g) * head;
            for (void *array : {kv->keys, kv->values})
                BYTES_CHECK(device,
                            cudaMemcpyAsync((char *)array + a, (char *)array + b, bytes,
                                            cudaMemcpyDeviceToDevice, device->stream),
                            bytes);
        }
    }
}

static void read_vector(Device *device, const KvView *view, const void *array, int sequence,
                        int kv_head, int position, float *out) {
    const KvShape *s = &view->kv->shape;
    KvLayer kv = kv_layer(view);
    size_t index =
        ((size_t)sequence * (size_t)s->n_kv_heads + (size_t)kv_head) * (size_t)s->max_seq_len +
        (size_t)position;
    // `array` says which of the two is meant; the address of the layer comes from kv_layer.
    const char *layer = array == view->kv->keys ? (char *)kv.keys : (char *)kv.values;
    const char *from = layer + index * (size_t)s->head_dim * kv_element_bytes(s->type);
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

// A head's run of keys in device memory; its values are as far from the first value.
static size_t head_offset(const KvView *view, int sequence, int kv_head) {
    const KvShape *s = &view->kv->shape;
    size_t row = (size_t)view->layer * (size_t)s->n_sequences + (size_t)sequence;
    return (row * (size_t)s->n_kv_heads + (size_t)kv_head) * (size_t)s->max_seq_len *
           (size_t)s->head_dim * kv_element_bytes(s->type);
}

static size_t run_bytes(const KvShape *s, int count) {
    return (size_t)count * (size_t)s->head_dim * kv_element_bytes(s->type);
}

void kv_save(Device *device, const KvView *view, int sequence, int kv_head, int count,
             void *keys_host, void *values_host) {
    size_t at = head_offset(view, sequence, kv_head), bytes = run_bytes(&view->kv->shape, count);
    device_download(device, keys_host, (char *)view->kv->keys + at, bytes);
    device_download(device, values_host, (char *)view->kv->values + at, bytes);
}

void kv_restore(Device *device, const KvView *view, int sequence, int kv_head, int count,
                const void *keys_host, const void *values_host) {
    size_t at = head_offset(view, sequence, kv_head), bytes = run_bytes(&view->kv->shape, count);
    device_upload(device, (char *)view->kv->keys + at, keys_host, bytes);
    device_upload(device, (char *)view->kv->values + at, values_host, bytes);
}
