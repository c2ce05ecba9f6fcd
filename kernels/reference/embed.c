// Token embedding: a row of the table per token; for GPT-2 also a row per position.
#include "kernels/reference/device.h"
#include "weights/quant.h"

void embed(Device *device, float *out, const DeviceMatrix *table, const DeviceMatrix *learned,
           float scale, const Rows *rows) {
    if (device->error.code) return;
    size_t dim = table->matrix.cols;
    for (int i = 0; i < rows->n; i++) {
        // (dim) of row i: no product with a one-hot vector, just the row itself
        float *x = out + (size_t)i * dim;
        matrix_row(x, &table->matrix, (size_t)rows->tokens[i]);
        device->counts.weight_bytes += matrix_bytes(&table->matrix) / table->matrix.rows;
        for (size_t j = 0; j < dim; j++)
            x[j] *= scale;
        if (!learned) continue;
        matrix_row(device->row, &learned->matrix, (size_t)rows->positions[i]);
        device->counts.weight_bytes += matrix_bytes(&learned->matrix) / learned->matrix.rows;
        for (size_t j = 0; j < dim; j++)
            x[j] += device->row[j];
    }
}
