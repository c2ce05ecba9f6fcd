// Directions from the head backwards to every part of a logit, in float64 over the weights as they
// are stored.
//
//   u: row of the head -> through the final norm: end -> through a post norm: attention
//   part of head h = attention . (wo_h heads_h), a row of wo at a time for all rows and targets
#include "commands/lens/directions.h"

#include "weights/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t layer_parts(const Config *c, const LayerWeights *w) {
    return (size_t)c->n_heads + (w->bo != NULL) + 1;
}

size_t directions_parts(const Config *c, const Weights *w) {
    size_t count = 1 + (w->final_norm_bias != NULL);
    for (int l = 0; l < c->n_layers; l++)
        count += layer_parts(c, &w->layers[l]);
    return count;
}

bool directions_open(Directions *d, const Config *c, const Weights *w, size_t rows, size_t targets,
                     Error *error) {
    size_t dim = (size_t)c->dim, q_dim = (size_t)c->q_dim, vectors = rows * targets;
    *d = (Directions){.config = c, .weights = w, .rows = rows, .targets = targets};
    d->parts = directions_parts(c, w);
    d->end = malloc(vectors * dim * sizeof *d->end);
    d->attention = malloc(vectors * dim * sizeof *d->attention);
    d->biases = malloc(vectors * sizeof *d->biases);
    d->unembedding = malloc(dim * sizeof *d->unembedding);
    d->row = malloc((dim > q_dim ? dim : q_dim) * sizeof *d->row);
    if (d->end && d->attention && d->biases && d->unembedding && d->row) return true;
    directions_close(d);
    return error_set(error, ERROR_MEMORY, "no memory for %zu directions of %d channels", vectors,
                     c->dim);
}

void directions_close(Directions *d) {
    free(d->end);
    free(d->attention);
    free(d->biases);
    free(d->unembedding);
    free(d->row);
    *d = (Directions){0};
}

// 1 / sqrt(mean square + eps), for LayerNorm around the mean.
static double norm_scale(const float *x, const Config *c) {
    double n = c->dim, mean = 0, sum = 0;
    for (int i = 0; i < c->dim && c->norm == NORM_LAYER; i++)
        mean += (double)x[i] / n;
    for (int i = 0; i < c->dim; i++)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return 1 / sqrt(sum / n + (double)c->norm_eps);
}

// From a direction of the norm's output to one of its input, with the scale that x has.
static void through_norm(double *out, const double *direction, const float *weight, const float *x,
                         const Config *c) {
    double scale = norm_scale(x, c), mean = 0;
    for (int i = 0; i < c->dim; i++) {
        out[i] = direction[i] * (double)weight[i] * scale;
        mean += out[i] / c->dim;
    }
    for (int i = 0; i < c->dim && c->norm == NORM_LAYER; i++)
        out[i] -= mean;
}

static double dot(const double *direction, const float *x, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += direction[i] * (double)x[i];
    return sum;
}

void directions_take(Directions *d, const int32_t *ids, const float *end) {
    const Config *c = d->config;
    const float *bias = d->weights->final_norm_bias;
    for (size_t v = 0; v < d->rows * d->targets; v++) {
        matrix_row(d->row, &d->weights->head, (size_t)ids[v]);
        for (int i = 0; i < c->dim; i++)
            d->unembedding[i] = (double)d->row[i];
        through_norm(d->end + v * (size_t)c->dim, d->unembedding, d->weights->final_norm,
                     end + v / d->targets * (size_t)c->dim, c);
        d->biases[v] = bias ? dot(d->unembedding, bias, c->dim) : 0;
    }
}

// ---- parts ----

// out[.., at] = direction . x for every row and target.
static void put_part(const Directions *d, double *out, size_t at, const double *directions,
                     const float *x, bool one_for_all) {
    size_t dim = (size_t)d->config->dim;
    for (size_t v = 0; v < d->rows * d->targets; v++)
        out[v * d->parts + at] =
            dot(directions + v * dim, one_for_all ? x : x + v / d->targets * dim, d->config->dim);
}

void directions_embedding(const Directions *d, double *out, const float *embedding) {
    put_part(d, out, 0, d->end, embedding, false);
}

void directions_bias(const Directions *d, double *out) {
    if (!d->weights->final_norm_bias) return;
    for (size_t v = 0; v < d->rows * d->targets; v++)
        out[v * d->parts + d->parts - 1] = d->biases[v];
}

// One channel of wo's result, split by heads: its share of every head's part.
static void add_channel(const Directions *d, double *out, double *squares, size_t channel,
                        const float *heads) {
    const Config *c = d->config;
    size_t n_heads = (size_t)c->n_heads, head_dim = (size_t)c->head_dim, dim = (size_t)c->dim;
    for (size_t t = 0; t < d->rows; t++)
        for (size_t h = 0; h < n_heads; h++) {
            const float *head = heads + t * (size_t)c->q_dim + h * head_dim;
            const float *w = d->row + h * head_dim;
            double sum = 0;
            for (size_t j = 0; j < head_dim; j++)
                sum += (double)w[j] * (double)head[j];
            if (squares) squares[t * n_heads + h] += sum * sum;
            for (size_t v = t * d->targets; v < (t + 1) * d->targets; v++)
                out[v * d->parts + h] += d->attention[v * dim + channel] * sum;
        }
}

static void add_heads(const Directions *d, double *out, double *squares, const Matrix *wo,
                      const float *heads) {
    size_t n_heads = (size_t)d->config->n_heads;
    for (size_t v = 0; v < d->rows * d->targets; v++)
        for (size_t h = 0; h < n_heads; h++)
            out[v * d->parts + h] = 0;
    if (squares) memset(squares, 0, d->rows * n_heads * sizeof *squares);
    for (size_t i = 0; i < wo->rows; i++) {
        matrix_row(d->row, wo, i);
        add_channel(d, out, squares, i, heads);
    }
}

void directions_layer(Directions *d, double *out, double *squares, int l, const LayerRows *rows) {
    const Config *c = d->config;
    const LayerWeights *w = &d->weights->layers[l];
    size_t dim = (size_t)c->dim, vectors = d->rows * d->targets, at = 1;
    for (int before = 0; before < l; before++)
        at += layer_parts(c, &d->weights->layers[before]);
    for (size_t v = 0; v < vectors; v++) {
        double *to = d->attention + v * dim;
        const double *from = d->end + v * dim;
        if (w->att_post_norm)
            through_norm(to, from, w->att_post_norm, rows->attention + v / d->targets * dim, c);
        else
            memcpy(to, from, dim * sizeof *to);
        for (size_t i = 0; i < dim; i++)
            to[i] *= (double)c->residual_scale;
    }
    add_heads(d, out + at, squares, &w->wo, rows->heads);
    at += (size_t)c->n_heads;
    if (w->bo) put_part(d, out, at++, d->attention, w->bo, true);
    put_part(d, out, at, d->end, rows->ffn, false);
}
