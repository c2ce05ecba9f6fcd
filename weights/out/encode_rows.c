// Encodes the rows of an outgoing tensor: copies them where the type stays the same, else
// dequantises and quantises them, in the container's row order.
//
//     outgoing_rows -> vector_row        norms, biases, lists of numbers
//                -> matrix_rows       find_part: which matrix, which row; copied or encoded
//                -> transposed_rows   GPT-2: a row of the file is a column of the stacked matrices
//
// Rows are numbered as the file stores them; model_row translates into the model's order.
#include "base/bytes.h"
#include "weights/container.h"
#include "weights/out/outgoing.h"
#include "weights/quant.h"

#include <math.h>
#include <string.h>

bool outgoing_is_transposed(const Outgoing *out, const RoleView *view) {
    return out->family->transposed[out->naming] && view->of_layer && view->cols != 1;
}

// A vector is one row.
uint64_t outgoing_row_count(const Outgoing *out, size_t i) {
    return out->tensors[i].n_dims == 1 ? 1 : out->tensors[i].shape[0];
}

size_t outgoing_row_bytes(const Outgoing *out, size_t i) {
    return (size_t)(out->tensors[i].bytes / outgoing_row_count(out, i));
}

// The model's row that a container with this row order stores as row `stored`: the inverse of
// matrix_stored_row.
static size_t model_row(const Matrix *order, size_t stored) {
    if (!order->rope_dim) return stored;
    size_t head = stored / order->head_dim, i = stored % order->head_dim;
    if (i >= order->rope_dim) return stored;
    return head * order->head_dim + i / 2 + i % 2 * (order->rope_dim / 2);
}

// The order of the container that is written, in a Matrix without data; no order for tensors that
// RoPE does not touch.
static Matrix row_order(const Outgoing *out, const RoleView *view) {
    const Config *c = &out->from->config;
    if (!view->rotary || !out->family->interleaved[out->naming]) return (Matrix){0};
    return (Matrix){.head_dim = (uint32_t)c->head_dim, .rope_dim = (uint32_t)c->rope_dim};
}

// Of the columns of a tensor, or NULL: not known.
static const float *importance_of(const Outgoing *out, size_t i) {
    const TensorName *row = out->sources[i].row;
    if (!out->importance || !row || dtype_is_float(out->tensors[i].dtype)) return NULL;
    int l = out->sources[i].layer < 0 ? 0 : out->sources[i].layer; // -1: outside the layers
    const LayerImportance *layer = &out->importance->layers[l];
    const Weights *w = &out->from->weights;
    switch (row->roles[0]) {
    case ROLE_WQ:
    case ROLE_WK:
    case ROLE_WV: return layer->att_in;
    case ROLE_WO: return layer->att_heads;
    case ROLE_W_GATE:
    case ROLE_W_UP: return layer->ffn_in;
    case ROLE_W_DOWN: return layer->ffn_hidden;
    case ROLE_HEAD: return out->importance->head;
    case ROLE_EMBEDDING:
        return w->head.data == w->token_embedding.data ? out->importance->head : NULL;
    default: return NULL;
    }
}

// Of values[at .. count), whose block the type cannot hold from `at` on: the one that is at fault,
// since a block has one scale.
static float too_large(DType dtype, const float *values, size_t at, size_t count) {
    size_t block = dtype_info(dtype)->block, end = (at / block + 1) * block;
    size_t worst = at;
    for (size_t k = at; k < end && k < count && isfinite(values[worst]); k++)
        if (!isfinite(values[k]) || fabsf(values[k]) > fabsf(values[worst])) worst = k;
    return values[worst];
}

// Writes a row and reads it back: values out of the type's range read as infinity. The model's own
// NaN and infinity are written where no type was asked for (vectors), as rows that are copied have
// them.
//
// Q8_0 and Q4_0 have a half as their scale, which overflows above 65504.
static bool store_row(const Outgoing *out, OutgoingScratch *scratch, size_t i, uint64_t row,
                      const float *values, size_t count, void *bytes, Error *error) {
    const TensorPlan *tensor = &out->tensors[i];
    if (!not_stopped(out->stop, error)) return false;
    if (!dtype_is_float(tensor->dtype))
        quantise_importance(scratch->weights, values, importance_of(out, i), count);
    quantise_searched(bytes, tensor->dtype, values, scratch->weights, count);
    dequantise(scratch->back, tensor->dtype, bytes, count);
    for (size_t at = 0; at < count; at++) {
        bool is_vector = tensor->n_dims == 1;
        if ((is_vector && !isfinite(values[at])) ||
            (isfinite(scratch->back[at]) && isfinite(values[at])))
            continue;
        return error_set(
            error, ERROR_NONFINITE, "tensor \"%s\", row %llu: %g is not a number that %s can hold",
            tensor->name, (unsigned long long)row,
            (double)too_large(tensor->dtype, values, at, count), dtype_info(tensor->dtype)->name);
    }
    return true;
}

// Whether the file has the rows of q, k and v head by head.
static bool is_by_heads(const Outgoing *out, const OutgoingSource *source) {
    return out->family->by_heads[out->naming] && source->row && source->row->roles[2];
}

// Parts of a fused bias one after another. Gemma's norms lose the 1 that was added on reading.
static bool vector_row(const Outgoing *out, OutgoingScratch *scratch, size_t i, void *bytes,
                       Error *error) {
    const OutgoingSource *source = &out->sources[i];
    const Config *c = &out->from->config;
    size_t count = 0;
    if (!source->row)
        return quantise(bytes, DTYPE_F32, source->values, (size_t)out->tensors[i].shape[0]);
    for (int part = 0; part < 3 && source->row->roles[part]; part++) {
        RoleView view = role_view(out->from, source->row->roles[part], source->layer);
        Matrix order = row_order(out, &view);
        float offset = out->family->norms_stored_minus_one[out->naming] && view.norm ? 1.0f : 0.0f;
        for (size_t row = 0; row < view.rows; row++, count++)
            scratch->values[is_by_heads(out, source) ? by_heads_stored_row(c, count) : count] =
                view.vector[model_row(&order, row)] - offset;
    }
    return store_row(out, scratch, i, 0, scratch->values, count, bytes, error);
}

// The matrix that stored row `*row` of a stack belongs to; *row becomes the model's row of it.
//
// It ends: outgoing_plan has made the tensor of these parts, so `row` is inside one of them.
static const Matrix *find_part(const Outgoing *out, const OutgoingSource *source, size_t *row) {
    for (int part = 0;; part++) {
        RoleView view = role_view(out->from, source->row->roles[part], source->layer);
        if (*row < view.rows) {
            Matrix order = row_order(out, &view);
            *row = model_row(&order, *row);
            return view.matrix;
        }
        *row -= view.rows;
    }
}

static bool matrix_rows(const Outgoing *out, OutgoingScratch *scratch, size_t i, uint64_t first,
                        uint64_t count, uint8_t *bytes, Error *error) {
    const TensorPlan *tensor = &out->tensors[i];
    size_t row_bytes = outgoing_row_bytes(out, i);
    for (uint64_t stored = first; stored < first + count; stored++, bytes += row_bytes) {
        size_t row = (size_t)stored;
        if (is_by_heads(out, &out->sources[i])) row = by_heads_stack_row(&out->from->config, row);
        const Matrix *from = find_part(out, &out->sources[i], &row);
        // The same type: blocks are copied, so nothing is rounded a second time.
        if (from->dtype == tensor->dtype) {
            memcpy(bytes, (const uint8_t *)from->data + matrix_stored_row(from, row) * row_bytes,
                   row_bytes);
            continue;
        }
        matrix_row(scratch->values, from, row);
        if (!store_row(out, scratch, i, stored, scratch->values, from->cols, bytes, error))
            return false;
    }
    return true;
}

// Rows of a transposed tensor are columns first .. first + count of the stacked matrices.
//
//     model's row r of the stack  ->  column r of the file, elements first .. first + count of it
//
// 256 elements at a time, so that the encoded column fits the stack. Each call reads every row of
// the matrices again.
static bool transposed_rows(const Outgoing *out, OutgoingScratch *scratch, size_t i, uint64_t first,
                            uint64_t count, uint8_t *bytes, Error *error) {
    const TensorPlan *tensor = &out->tensors[i];
    size_t width = (size_t)tensor->shape[1], size = dtype_row_bytes(tensor->dtype, 1);
    uint8_t column[sizeof(float) * 256];
    for (size_t stored = 0; stored < width; stored++) {
        size_t row = stored;
        const Matrix *from = find_part(out, &out->sources[i], &row);
        matrix_row(scratch->values, from, row);
        for (uint64_t at = 0; at < count;) {
            size_t n = count - at < 256 ? (size_t)(count - at) : 256;
            const float *values = scratch->values + first + at;
            if (!store_row(out, scratch, i, first + at, values, n, column, error)) return false;
            for (size_t c = 0; c < n; c++, at++)
                memcpy(bytes + (at * width + stored) * size, column + c * size, size);
        }
    }
    return true;
}

bool outgoing_is_slow(const Outgoing *out, size_t i) {
    const OutgoingSource *source = &out->sources[i];
    const TensorPlan *tensor = &out->tensors[i];
    if (tensor->n_dims == 1 || dtype_is_float(tensor->dtype)) return false;
    RoleView view = role_view(out->from, source->row->roles[0], source->layer);
    return view.matrix->dtype != tensor->dtype && !outgoing_is_transposed(out, &view);
}

bool outgoing_rows(const Outgoing *out, OutgoingScratch *scratch, size_t i, uint64_t first,
                   uint64_t count, void *bytes, Error *error) {
    const OutgoingSource *source = &out->sources[i];
    if (!not_stopped(out->stop, error)) return false; // rows that are copied do not look
    if (out->tensors[i].n_dims == 1) return vector_row(out, scratch, i, bytes, error);
    RoleView view = role_view(out->from, source->row->roles[0], source->layer);
    return outgoing_is_transposed(out, &view)
               ? transposed_rows(out, scratch, i, first, count, bytes, error)
               : matrix_rows(out, scratch, i, first, count, bytes, error);
}
