// Checks and uploads the weights. The one list of roles, each with the shape that the config gives.
//
//   load_all -> load_first   embeddings
//            -> load_layer   norms and projections of each layer
//            -> load_last    final norm, head
//
// A process that has some of the layers walks these alone (ModelOptions.layers): the bytes of the
// others are never read.
//
// A matrix is (rows, cols) = (outputs, inputs), as nn.Linear stores it. Matrices stay in the type
// of the file: the backend repacks or dequantises them. Norms and biases are float32 on all
// backends.
#include "model/internal.h"

#include <stdio.h>
#include <stdlib.h>

// The weights are walked twice with the same functions: first to check and count, then to upload.
typedef struct Loader {
    Model *m;
    const Weights *weights;
    Error *error;
    WeightBytes *counted; // NULL: uploading
    double done;          // stored bytes, for the progress callback
    char prefix[32];      // "layers.3." in messages
} Loader;

static bool absent(Loader *loader, const char *name) {
    return error_set(loader->error, ERROR_FILE, "%s%s: missing", loader->prefix, name);
}

static bool device_ok(const Loader *loader, const char *name) {
    const Error *failure = device_error(loader->m->device);
    if (!failure->code) return true;
    return error_set(loader->error, failure->code, "%s%s: %s", loader->prefix, name,
                     failure->message);
}

// One matrix of the shape (rows, cols); an optional one may be absent.
static bool load_matrix(Loader *loader, DeviceMatrix **out, const char *name, const Matrix *matrix,
                        int rows, int cols, bool optional) {
    Model *m = loader->m;
    if (!matrix->data) return optional || absent(loader, name);
    if (matrix->rows != (size_t)rows || matrix->cols != (size_t)cols)
        return error_set(loader->error, ERROR_FILE, "%s%s: wanted (%d, %d), got (%zu, %zu)",
                         loader->prefix, name, rows, cols, matrix->rows, matrix->cols);
    if (loader->counted) {
        double bytes = (double)matrix_bytes(matrix);
        loader->counted->matrices += bytes;
        if (bytes > loader->counted->largest) loader->counted->largest = bytes;
        device_plan_matrix(m->device, matrix);
        return true;
    }
    // The backend has its own copy afterwards, so the checkpoint may drop the file's pages: memory
    // then holds one copy of the weights, not two.
    *out = device_matrix(m->device, matrix);
    if (!*out) return device_ok(loader, name);
    if (loader->weights->release && !device_info(m->device)->borrows_weights)
        loader->weights->release(loader->weights->owner, matrix);
    loader->done += (double)matrix_bytes(matrix);
    if (m->options.progress)
        m->options.progress(m->options.progress_context, loader->done / m->weight_bytes.matrices);
    return true;
}

// A vector of `count` floats; *out stays NULL where the model has none. The pointer carries no
// length: weights/ has checked that `from` has `count` numbers.
static bool load_vector(Loader *loader, float **out, const char *name, const float *from,
                        int count) {
    size_t bytes = (size_t)count * sizeof **out;
    if (!from) return true;
    if (loader->counted) {
        loader->counted->vectors += bytes;
        return true;
    }
    *out = device_alloc(loader->m->device, bytes);
    if (*out) device_upload(loader->m->device, *out, from, bytes);
    return device_ok(loader, name);
}

static bool load_linear(Loader *loader, DeviceLinear *out, const char *name, const Matrix *matrix,
                        const float *bias, int rows, int cols, bool optional) {
    return load_matrix(loader, &out->weight, name, matrix, rows, cols, optional) &&
           load_vector(loader, &out->bias, name, bias, rows);
}

// Norms are float32. Those that are optional may be absent; q_norm and k_norm go by the config.
static bool load_norms(Loader *loader, DeviceLayer *to, const LayerWeights *from) {
    const Config *c = &loader->m->config;
    bool per_head = c->qk_norm == QK_NORM_PER_HEAD;
    int q_width = per_head ? c->head_dim : c->q_dim, k_width = per_head ? c->head_dim : c->kv_dim;
    if (c->qk_norm != QK_NORM_NONE && (!from->q_norm || !from->k_norm))
        return absent(loader, from->q_norm ? "k_norm" : "q_norm");
    return load_vector(loader, &to->att_norm.weight, "att_norm", from->att_norm, c->dim) &&
           load_vector(loader, &to->att_norm.bias, "att_norm", from->att_norm_bias, c->dim) &&
           load_vector(loader, &to->att_post_norm.weight, "att_post_norm", from->att_post_norm,
                       c->dim) &&
           load_vector(loader, &to->ffn_norm.weight, "ffn_norm", from->ffn_norm, c->dim) &&
           load_vector(loader, &to->ffn_norm.bias, "ffn_norm", from->ffn_norm_bias, c->dim) &&
           load_vector(loader, &to->ffn_post_norm.weight, "ffn_post_norm", from->ffn_post_norm,
                       c->dim) &&
           load_vector(loader, &to->q_norm.weight, "q_norm", from->q_norm, q_width) &&
           load_vector(loader, &to->k_norm.weight, "k_norm", from->k_norm, k_width);
}

static bool load_layer(Loader *loader, DeviceLayer *to, const LayerWeights *from) {
    const Config *c = &loader->m->config;
    int dim = c->dim, hidden = c->hidden_dim, q = c->q_dim, kv = c->kv_dim;
    return load_norms(loader, to, from) &&
           load_linear(loader, &to->wq, "wq", &from->wq, from->bq, q, dim, false) &&
           load_linear(loader, &to->wk, "wk", &from->wk, from->bk, kv, dim, false) &&
           load_linear(loader, &to->wv, "wv", &from->wv, from->bv, kv, dim, false) &&
           load_linear(loader, &to->wo, "wo", &from->wo, from->bo, dim, q, false) &&
           load_linear(loader, &to->w_gate, "w_gate", &from->w_gate, NULL, hidden, dim,
                       !c->gated_ffn) &&
           load_linear(loader, &to->w_up, "w_up", &from->w_up, from->b_up, hidden, dim, false) &&
           load_linear(loader, &to->w_down, "w_down", &from->w_down, from->b_down, dim, hidden,
                       false);
}

// Tied weights are two Matrix structs over the same bytes. `scales` and rope_dim too: the same
// bytes under another meaning are another matrix.
static bool same_matrix(const Matrix *a, const Matrix *b) {
    return a->data == b->data && a->dtype == b->dtype && a->rows == b->rows && a->cols == b->cols &&
           a->rope_dim == b->rope_dim && a->scales == b->scales;
}

static bool load_first(Loader *loader) {
    Model *m = loader->m;
    const Weights *w = loader->weights;
    const Config *c = &m->config;
    return load_matrix(loader, &m->token_embedding, "token_embedding", &w->token_embedding,
                       c->vocab_size, c->dim, false) &&
           load_matrix(loader, &m->position_embedding, "position_embedding", &w->position_embedding,
                       c->max_seq_len, c->dim, c->position != POSITION_LEARNED) &&
           load_vector(loader, &m->embedding_norm.weight, "embedding_norm", w->embedding_norm,
                       c->dim);
}

// A tied head is the embedding itself, uploaded once where both are in this process.
static bool load_last(Loader *loader) {
    Model *m = loader->m;
    const Weights *w = loader->weights;
    const Config *c = &m->config;
    if (!w->final_norm) return absent(loader, "final_norm");
    if (!load_vector(loader, &m->final_norm.weight, "final_norm", w->final_norm, c->dim) ||
        !load_vector(loader, &m->final_norm.bias, "final_norm", w->final_norm_bias, c->dim))
        return false;
    if (m->options.layers.first > 0 || !same_matrix(&w->head, &w->token_embedding))
        return load_matrix(loader, &m->head, "head", &w->head, c->vocab_size, c->dim, false);
    m->head = m->token_embedding;
    return true;
}

static bool load_all(Loader *loader) {
    Model *m = loader->m;
    LayerRange layers = m->options.layers;
    if (layers.first == 0 && !load_first(loader)) return false;
    if (layers.end == m->config.n_layers && !load_last(loader)) return false;
    for (int l = layers.first; l < layers.end; l++) {
        snprintf(loader->prefix, sizeof loader->prefix, "layers.%d.", l);
        if (!load_layer(loader, &m->layers[l], &loader->weights->layers[l])) return false;
    }
    return true;
}

bool model_check_weights(Model *m, const Weights *weights, Error *error) {
    m->weight_bytes = (WeightBytes){0};
    m->layers = calloc(1, host_memory(&m->config, &m->options).layers);
    if (!m->layers) return error_set(error, ERROR_MEMORY, "no memory for the list of layers");
    return load_all(
        &(Loader){.m = m, .weights = weights, .error = error, .counted = &m->weight_bytes});
}

bool model_upload(Model *m, const Weights *weights, Error *error) {
    return load_all(&(Loader){.m = m, .weights = weights, .error = error});
}
