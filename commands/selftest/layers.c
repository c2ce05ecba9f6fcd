// Collects the vectors of a forward pass, layer by layer, for checks that compute a layer again;
// and reorders the rows of wq and wk, as layers.h draws.
#include "commands/selftest/layers.h"

#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

// ---- device memory ----

bool device_good(const Device *device, Error *error) {
    const Error *failure = device_error(device);
    return !failure->code || error_copy(error, failure);
}

float *device_floats(Device *device, const float *from, size_t count) {
    float *to = device_alloc(device, count * sizeof *to);
    if (to) device_upload(device, to, from, count * sizeof *to);
    return to;
}

// A listener: copies the stages of each layer. q_final and k_final are overwritten by each later
// stage of queries and keys that the model has.
static void keep_stage(void *context, const Model *model, const Stage *stage) {
    Stages *stages = context;
    (void)model;
    if (stage->layer < 0) return;
    LayerStages *layer = &stages->layers[stage->layer];
    size_t bytes = stage_size(stage) * sizeof(float);
    switch (stage->id) {
    case STAGE_ATT_NORM: memcpy(layer->in, stage->data, bytes); break;
    case STAGE_Q: memcpy(layer->q, stage->data, bytes); // fall through
    case STAGE_Q_NORM:
    case STAGE_Q_ROTATED:
        memcpy(layer->q_final, stage->data, bytes);
        break; // the last of them remains
    case STAGE_K:
    case STAGE_K_NORM:
    case STAGE_K_ROTATED: memcpy(layer->k_final, stage->data, bytes); break;
    case STAGE_ATT_HEADS: memcpy(layer->head_out, stage->data, bytes); break;
    default: break;
    }
}

// One block, (n, dim + 3 q_dim + kv_dim) floats for each layer: in, q, q_final, k_final, head_out.
static bool stages_allocate(Stages *stages, const Config *c, Error *error) {
    size_t n = (size_t)stages->n, dim = n * (size_t)c->dim;
    size_t q = n * (size_t)c->q_dim, k = n * (size_t)c->kv_dim, layers = (size_t)c->n_layers;
    stages->layers = calloc(layers, sizeof *stages->layers);
    stages->block = malloc(layers * (dim + 3 * q + k) * sizeof *stages->block);
    if (!stages->layers || !stages->block)
        return error_set(error, ERROR_MEMORY, "no memory for the stages of %d layers", c->n_layers);
    float *at = stages->block;
    for (size_t l = 0; l < layers; l++) {
        stages->layers[l] =
            (LayerStages){at, at + dim, at + dim + q, at + dim + 2 * q, at + dim + 2 * q + k};
        at += dim + 3 * q + k;
    }
    return true;
}

bool stages_collect(Stages *stages, Subject *s, Error *error) {
    enum { ROWS = 32 }; // few, so that a model of many layers needs little memory
    *stages = (Stages){.n = s->n < ROWS ? s->n : ROWS};
    stages->first = s->n - stages->n;
    if (!stages_allocate(stages, s->config, error)) return false;
    kv_cache_reset(&s->model->cache, 0);
    // The rows before are fed without the listener: attention of the last rows needs their keys.
    Feed before = {0, 0, stages->first, s->n}, last = {0, stages->first, s->n, stages->n};
    bool good = subject_feed(s, NULL, &before, error) &&
                model_listen(s->model, keep_stage, stages, false, error) &&
                subject_feed(s, NULL, &last, error);
    return model_listen(s->model, NULL, NULL, false, error) && good;
}

void stages_free(Stages *stages) {
    free(stages->layers);
    free(stages->block);
    *stages = (Stages){0};
}

// ---- RoPE ----

bool layer_has_rope(const Config *c, int l) {
    return c->position == POSITION_ROPE && !c->layers[l].no_rope;
}

bool model_has_rope(const Subject *s, Finding *f) {
    for (int l = 0; l < s->config->n_layers; l++)
        if (layer_has_rope(s->config, l)) return true;
    f->inapplicable = s->config->position == POSITION_LEARNED
                          ? "the model has learned positions, not RoPE"
                          : "no layer has RoPE";
    return false;
}

size_t half_order_row(const Config *c, size_t r) {
    size_t head_dim = (size_t)c->head_dim, rope_dim = (size_t)c->rope_dim;
    size_t head = r / head_dim, i = r % head_dim;
    if (i >= rope_dim) return r;
    // Channel i of the interleaved order is channel i / 2 of the first half (i even) or of the
    // second (odd). Channels that RoPE does not rotate stay where they are.
    return head * head_dim + i % 2 * (rope_dim / 2) + i / 2;
}

// Whole stored rows are copied, so that quantised weights keep their bits: blocks lie along a row.
bool matrix_reorder(Matrix *out, const Matrix *m, const Config *c, bool interleaved) {
    size_t bytes = dtype_row_bytes(m->dtype, m->cols);
    size_t scale_bytes = m->dtype == DTYPE_Q8_GROUP ? m->cols / m->group_size * sizeof(float) : 0;
    char *data = malloc(m->rows * (bytes + scale_bytes));
    if (!data) return false;
    char *scales = data + m->rows * bytes;
    for (size_t r = 0; r < m->rows; r++) {
        size_t from = matrix_stored_row(m, interleaved ? half_order_row(c, r) : r);
        memcpy(data + r * bytes, (const char *)m->data + from * bytes, bytes);
        if (scale_bytes)
            memcpy(scales + r * scale_bytes, (const char *)m->scales + from * scale_bytes,
                   scale_bytes);
    }
    *out = *m;
    out->data = data;
    out->scales = scale_bytes ? scales : NULL;
    out->head_dim = out->rope_dim = 0;
    return true;
}
