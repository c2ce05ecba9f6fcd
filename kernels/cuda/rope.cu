// Rotary positions, half-split pairing (drawn in reference/rope.c): one thread per pair.
#include "kernels/cuda/steps.h"

// Grid: pairs of all heads of a row, rows. Neighbouring threads have neighbouring pairs, so both
// halves of a head are accessed side by side. No other thread has this pair: it is rotated in
// place.
static __global__ void rope_kernel(RopeOperation op) {
    int half = op.table.rope_dim / 2, pairs = op.n_heads * half;
    int i = blockIdx.y, pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs) return;
    wait_for_earlier_kernels();
    size_t at = (size_t)op.rows.positions[i] * half + pair % half;
    float c = op.table.cos[at], s = op.table.sin[at];
    float *x = op.x + ((size_t)i * op.n_heads + pair / half) * op.head_dim + pair % half;
    rotate_pair(x, x + half, c, s);
}

void run_rope(Device *device, const Operation *operation) {
    const RopeOperation *op = &operation->rope;
    size_t pairs = (size_t)op->n_heads * (op->table.rope_dim / 2);
    if (!pairs) return;
    LAUNCH(device, rope_kernel, dim3(blocks_for(pairs, 128), op->rows.n), 128, *op);
}

void rope(Device *device, float *x, int n_heads, int head_dim, const RopeTable *table,
          const Rows *rows) {
    Operation operation = operation_of(OPERATION_ROPE);
    RopeOperation *op = &operation.rope;
    op->x = x, op->n_heads = n_heads, op->head_dim = head_dim;
    // Field by field: operations are compared byte for byte, padding included.
    op->table.cos = table->cos, op->table.sin = table->sin;
    op->table.rope_dim = table->rope_dim;
    copy_rows(&op->rows, rows);
    perform(device, &operation);
}
