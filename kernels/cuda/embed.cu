// Token embedding: the row of each token from the table, in float32; for GPT-2 also a row per
// position.
#include "kernels/cuda/project/matrix.h"

// A block per row, a thread per column: single elements are unpacked out of the planes, since one
// row for each token is too little to be worth a whole chunk per thread. Tokens and positions are
// read on the GPU, where the pass before may have put them (feedback.cu).
static __global__ void embed_kernel(float *out, Planes table, Planes learned, float scale,
                                    Rows rows) {
    int i = blockIdx.x;
    wait_for_earlier_kernels();
    size_t token = (size_t)rows.tokens[i], position = (size_t)rows.positions[i];
    for (size_t j = threadIdx.x; j < table.cols; j += blockDim.x) {
        float x = plane_element(table, token, j) * scale;
        if (learned.cols) x += plane_element(learned, position, j);
        out[i * table.cols + j] = x;
    }
}

void run_embed(Device *device, const Operation *operation) {
    const EmbedOperation *e = &operation->embed;
    // Without learned positions the planes are zero, and so is learned.cols.
    Planes learned = e->learned ? e->learned->planes : Planes{};
    LAUNCH(device, embed_kernel, e->rows.n, 256, e->out, e->table->planes, learned, e->scale,
           e->rows);
}

void embed(Device *device, float *out, const DeviceMatrix *table, const DeviceMatrix *learned,
           float scale, const Rows *rows) {
    Operation operation = operation_of(OPERATION_EMBED);
    EmbedOperation *e = &operation.embed;
    e->out = out, e->table = table, e->learned = learned, e->scale = scale;
    copy_rows(&e->rows, rows);
    perform(device, &operation);
}
