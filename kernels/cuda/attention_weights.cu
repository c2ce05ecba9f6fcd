// Attention whose softmax is stored: for a listener, and for attention_naive, which multiplies the
// stored softmax with the values. Plain passes, one block per row and query head.
#include "kernels/cuda/steps.h"

enum { THREADS = 128 };

struct WeightsMemory {
    float parts[THREADS / WARP];
};

// The softmax itself, in three passes over the keys.
static __global__ void weights_kernel(AttentionOperation op, KvLayer kv, int group) {
    WeightsMemory &memory = block_memory<WeightsMemory>();
    int i = blockIdx.x, h = blockIdx.y, dim = op.shape.head_dim;
    int position = op.rows.positions[i], sequence = op.rows.sequences[i];
    const float *q = op.q + ((size_t)i * op.shape.n_heads + h) * dim;
    float *out = op.weights_out + ((size_t)i * op.shape.n_heads + h) * kv.max_seq_len;
    float largest = -INFINITY, sum = 0.0f;
    for (int p = threadIdx.x; p < kv.max_seq_len; p += THREADS) {
        out[p] = -INFINITY;
        if (!key_visible(&op.shape.pattern, position, p)) continue;
        size_t k = kv_index(kv, sequence, h / group, p);
        float dot = 0.0f;
        for (int j = 0; j < dim; j++)
            dot = fmaf(q[j] * op.shape.scale, kv_element(kv, kv.keys, k + j), dot);
        out[p] = dot = bend(dot, op.shape.cap);
        largest = fmaxf(largest, dot);
    }
    largest = block_max<THREADS>(largest, memory.parts);
    for (int p = threadIdx.x; p < kv.max_seq_len; p += THREADS) {
        out[p] = out[p] == -INFINITY ? 0.0f : expf(out[p] - largest);
        sum += out[p];
    }
    sum = block_sum<THREADS>(sum, memory.parts);
    for (int p = threadIdx.x; p < kv.max_seq_len; p += THREADS)
        out[p] /= sum;
}

// One thread per channel.
static __global__ void stored_weights_kernel(AttentionOperation op, KvLayer kv, int group) {
    int i = blockIdx.x, h = blockIdx.y, dim = op.shape.head_dim;
    int position = op.rows.positions[i], sequence = op.rows.sequences[i];
    size_t row = (size_t)i * op.shape.n_heads + h;
    const float *weights = op.weights_out + row * kv.max_seq_len;
    for (int j = threadIdx.x; j < dim; j += THREADS) {
        float sum = 0.0f;
        for (int p = 0; p <= position; p++)
            if (key_visible(&op.shape.pattern, position, p))
                sum =
                    fmaf(weights[p],
                         kv_element(kv, kv.values, kv_index(kv, sequence, h / group, p) + j), sum);
        op.out[row * dim + j] = sum;
    }
}

void run_weights(Device *device, const AttentionOperation *op) {
    int group = op->shape.n_heads / op->shape.n_kv_heads;
    dim3 heads((unsigned)op->rows.n, (unsigned)op->shape.n_heads);
    LAUNCH(device, weights_kernel, heads, THREADS, *op, kv_layer(&op->view), group);
    if (op->naive)
        LAUNCH(device, stored_weights_kernel, heads, THREADS, *op, kv_layer(&op->view), group);
}
