// A file may store wq and wk in either order of rows (layers.h draws them); the logits are the
// same. The model is opened a second time, with copies of its matrices in the other order, which
// say so in rope_dim; the backend undoes it as it reads the rows (matrix_stored_row). Only wq and
// wk of some layers are copied: a whole copy could exceed the memory.
#include "commands/selftest/checks.h"
#include "commands/selftest/layers.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

// A model's weights, with the rows of wq and wk in the other order than its file has.
typedef struct Reordered {
    const Weights *original;
    Weights weights;
    LayerWeights *layers;
    int n; // layers 0 .. n - 1 are reordered
} Reordered;

// The model releases what it has packed; the copies are freed by reordered_free.
static void release_original(void *owner, const Matrix *matrix) {
    const Reordered *r = owner;
    for (int l = 0; l < r->n; l++)
        if (matrix->data == r->layers[l].wq.data || matrix->data == r->layers[l].wk.data) return;
    r->original->release(r->original->owner, matrix);
}

// From the file's order to the other one; a matrix in the interleaved order says so by rope_dim.
static bool reorder_matrix(Matrix *matrix, const Config *c) {
    Matrix original = *matrix;
    bool interleaved = !original.rope_dim;
    if (!matrix_reorder(matrix, &original, c, interleaved)) return false;
    if (!interleaved) return true;
    matrix->head_dim = (uint32_t)c->head_dim;
    matrix->rope_dim = (uint32_t)c->rope_dim;
    return true;
}

// As many layers as MAX_BYTES hold, at least one.
static bool reorder(Reordered *r, const Subject *s, Error *error) {
    static const size_t MAX_BYTES = 256 << 20;
    const Config *c = s->config;
    size_t layers = (size_t)c->n_layers, bytes = 0;
    r->original = s->weights;
    r->weights = *s->weights;
    r->layers = malloc(layers * sizeof *r->layers);
    if (!r->layers) return error_set(error, ERROR_MEMORY, "no memory for a list of layers");
    memcpy(r->layers, s->weights->layers, layers * sizeof *r->layers);
    r->weights.layers = r->layers;
    if (s->weights->release) r->weights.release = release_original;
    r->weights.owner = r;
    for (; r->n < c->n_layers && bytes < MAX_BYTES; r->n++) {
        Matrix *wq = &r->layers[r->n].wq, *wk = &r->layers[r->n].wk;
        bytes += matrix_data_bytes(wq) + matrix_data_bytes(wk);
        Matrix original = *wq;
        bool good = reorder_matrix(wq, c);
        if (good && !reorder_matrix(wk, c)) {
            free((void *)wq->data);
            *wq = original;
            good = false;
        }
        if (!good) return error_set(error, ERROR_MEMORY, "no memory for reordered weights");
    }
    return true;
}

static void reordered_free(Reordered *r) {
    for (int l = 0; l < r->n; l++) {
        free((void *)r->layers[l].wq.data);
        free((void *)r->layers[l].wk.data);
    }
    free(r->layers);
}

bool check_row_order(Subject *s, Finding *f, Error *error) {
    Reordered r = {0};
    if (!model_has_rope(s, f)) return true;
    bool good = reorder(&r, s, error) && subject_reopen(s, &r.weights, error) &&
                subject_feed(s, f, &(Feed){0, 0, s->n, s->n}, error);
    model_close(s->model); // it may borrow the reordered copies
    s->model = NULL;
    reordered_free(&r);
    return good;
}
