// The weights of a small model, as they are stored: a page of the built-in model has every number.
//
//   f32   rows x columns floats
//   q8    rows x columns / group scales as floats, then rows x columns integers of 8 bits:
//         weight = integer * scale of its group, in float32
#include "commands/view/view.h"

#include "commands/shared/output.h"
#include "weights/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double SMALL_BYTES = 1 << 20; // models that are not built in

static bool add_weight(View *v, const char *name, int layer, size_t rows, size_t columns) {
    ViewWeight *grown = realloc(v->weights, (v->n_weights + 1) * sizeof *grown);
    if (!grown) return false;
    v->weights = grown;
    ViewWeight *w = &v->weights[v->n_weights++];
    *w = (ViewWeight){.rows = rows, .columns = columns};
    if (layer < 0)
        snprintf(w->name, sizeof w->name, "%s", name);
    else
        snprintf(w->name, sizeof w->name, "layers.%d.%s", layer, name);
    return true;
}

// Appends the numbers of the weight that was added last as its block.
static bool put(View *v, const Buffer *bytes, Page *page, Error *error) {
    char name[24];
    snprintf(name, sizeof name, "W%zu", v->n_weights - 1);
    if (bytes->failed) return error_set(error, ERROR_MEMORY, "no memory for the block %s", name);
    return page_block(page, name, bytes->bytes, bytes->size, 4, error);
}

// Integers and scales of a type that has no offsets.
static bool unpack_rows(Buffer *out, const Matrix *m, size_t groups) {
    int8_t *integers = malloc(m->rows * m->cols);
    float *scales = malloc(2 * groups * sizeof *scales);
    for (size_t i = 0; integers && scales && i < m->rows; i++) {
        matrix_unpack(integers + i * m->cols, scales, scales + groups, m, i);
        buffer_put(out, scales, groups * sizeof *scales);
    }
    if (integers && scales) buffer_put(out, integers, m->rows * m->cols);
    bool good = integers && scales;
    free(integers);
    free(scales);
    buffer_zeros(out, (4 - out->size % 4) % 4);
    return good;
}

static bool dequantise_rows(Buffer *out, const Matrix *m) {
    float *row = malloc(m->cols * sizeof *row);
    for (size_t i = 0; row && i < m->rows; i++) {
        matrix_row(row, m, i);
        buffer_put(out, row, m->cols * sizeof *row);
    }
    free(row);
    return row;
}

static bool put_matrix(View *v, const char *name, int layer, const Matrix *m, Page *page,
                       Error *error) {
    if (!m->data) return true;
    Buffer out = {0};
    uint32_t group = dtype_is_affine(m->dtype) ? 0 : matrix_group(m);
    bool good = add_weight(v, name, layer, m->rows, m->cols) &&
                (group ? unpack_rows(&out, m, m->cols / group) : dequantise_rows(&out, m));
    if (good) v->weights[v->n_weights - 1].group = group;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for a matrix on the page");
    good = good && put(v, &out, page, error);
    buffer_free(&out);
    return good;
}

static bool put_vector(View *v, const char *name, int layer, const float *values, int count,
                       Page *page, Error *error) {
    if (!values) return true;
    Buffer out = {0};
    bool good = add_weight(v, name, layer, 1, (size_t)count) ||
                error_set(error, ERROR_MEMORY, "no memory for a vector on the page");
    buffer_put(&out, values, (size_t)count * sizeof *values);
    good = good && put(v, &out, page, error);
    buffer_free(&out);
    return good;
}

static bool put_vectors(View *v, const LayerWeights *w, int l, Page *page, Error *error) {
    const Config *c = v->session->config;
    bool full = c->qk_norm == QK_NORM_FULL_WIDTH;
    int q = full ? c->q_dim : c->head_dim, k = full ? c->kv_dim : c->head_dim;
    const struct {
        const char *name;
        const float *values;
        int count;
    } ALL[] = {{"att_norm", w->att_norm, c->dim},
               {"att_norm_bias", w->att_norm_bias, c->dim},
               {"bq", w->bq, c->q_dim},
               {"bk", w->bk, c->kv_dim},
               {"bv", w->bv, c->kv_dim},
               {"bo", w->bo, c->dim},
               {"q_norm", w->q_norm, q},
               {"k_norm", w->k_norm, k},
               {"att_post_norm", w->att_post_norm, c->dim},
               {"ffn_norm", w->ffn_norm, c->dim},
               {"ffn_norm_bias", w->ffn_norm_bias, c->dim},
               {"b_up", w->b_up, c->hidden_dim},
               {"b_down", w->b_down, c->dim},
               {"ffn_post_norm", w->ffn_post_norm, c->dim}};
    bool good = true;
    for (size_t i = 0; good && i < sizeof ALL / sizeof *ALL; i++)
        good = put_vector(v, ALL[i].name, l, ALL[i].values, ALL[i].count, page, error);
    return good;
}

static bool put_layer(View *v, const LayerWeights *w, int l, Page *page, Error *error) {
    const struct {
        const char *name;
        const Matrix *matrix;
    } ALL[] = {{"wq", &w->wq},         {"wk", &w->wk},     {"wv", &w->wv},        {"wo", &w->wo},
               {"w_gate", &w->w_gate}, {"w_up", &w->w_up}, {"w_down", &w->w_down}};
    bool good = true;
    for (size_t i = 0; good && i < sizeof ALL / sizeof *ALL; i++)
        good = put_matrix(v, ALL[i].name, l, ALL[i].matrix, page, error);
    return good && put_vectors(v, w, l, page, error);
}

bool view_weights(View *v, Page *page, Error *error) {
    const Session *s = v->session;
    const Weights *w = checkpoint_weights(s->checkpoint);
    const WeightBytes *bytes = &s->model->weight_bytes;
    if (!builtin_is_meant(v->options->model) &&
        bytes->matrices + (double)bytes->vectors > SMALL_BYTES)
        return true;
    bool good = put_matrix(v, "token_embedding", -1, &w->token_embedding, page, error) &&
                put_matrix(v, "position_embedding", -1, &w->position_embedding, page, error) &&
                put_vector(v, "embedding_norm", -1, w->embedding_norm, s->config->dim, page, error);
    for (int l = 0; good && l < v->layers; l++)
        good = put_layer(v, &w->layers[l], l, page, error);
    bool tied = w->head.data == w->token_embedding.data;
    return good && put_vector(v, "final_norm", -1, w->final_norm, s->config->dim, page, error) &&
           put_vector(v, "final_norm_bias", -1, w->final_norm_bias, s->config->dim, page, error) &&
           (tied || put_matrix(v, "head", -1, &w->head, page, error)) &&
           session_result(s, true, error);
}
