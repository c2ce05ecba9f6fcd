#include "commands/lens/attribution.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"
#include "weights/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The stages of the row at `position`.
typedef struct Row {
    const Attribution *attribution;
    float *embedding; // (dim)
    float *heads;     // (n_layers, q_dim)
    float *attention; // (n_layers, dim) before a post norm
    float *ffn;       // (n_layers, dim) after a post norm
    float *end;       // (dim) the stream after the last layer
    float *uncapped;  // (vocab_size) logits
    float *block;     // of all these; owned
} Row;

// Where a stage is kept; NULL: it is not.
static float *place_of(const Row *r, const Model *model, const Stage *stage) {
    const Config *c = &model->config;
    size_t l = (size_t)stage->layer, dim = (size_t)c->dim;
    switch (stage->id) {
    case STAGE_EMBEDDING: return r->embedding;
    case STAGE_ATT_HEADS: return r->heads + l * (size_t)c->q_dim;
    case STAGE_ATT_PROJECTED: return r->attention + l * dim;
    case STAGE_FFN_OUT: return r->ffn + l * dim;
    case STAGE_LAYER_OUT: return stage->layer + 1 == c->n_layers ? r->end : NULL;
    case STAGE_UNCAPPED: return r->uncapped;
    case STAGE_LOGITS: return c->logit_softcap == 0.0f ? r->uncapped : NULL;
    default: return NULL;
    }
}

// Listener.
static void keep(void *context, const Model *model, const Stage *stage) {
    const Row *r = context;
    float *place = place_of(r, model, stage);
    size_t width = stage_size(stage) / (size_t)stage->rows.n;
    for (int i = 0; place && i < stage->rows.n; i++)
        if (stage->rows.positions[i] == (int)r->attribution->position)
            memcpy(place, stage->data + (size_t)i * width, width * sizeof *place);
}

static bool reserve(Row *r, const Config *c, Error *error) {
    size_t layers = (size_t)c->n_layers, dim = (size_t)c->dim, q_dim = (size_t)c->q_dim;
    size_t count = 2 * dim + layers * (q_dim + 2 * dim) + (size_t)c->vocab_size;
    r->block = calloc(count, sizeof *r->block);
    if (!r->block) return error_set(error, ERROR_MEMORY, "no memory for one row of every layer");
    r->embedding = r->block;
    r->end = r->embedding + dim;
    r->heads = r->end + dim;
    r->attention = r->heads + layers * q_dim;
    r->ffn = r->attention + layers * dim;
    r->uncapped = r->ffn + layers * dim;
    return true;
}

// The rows after `position` cannot change it, so they are not run, and the last row of the batch,
// whose logits are computed, is the one wanted.
static bool run_prompt(Attribution *a, Row *r, Error *error) {
    Model *model = a->session->model;
    size_t fed = 0, count = a->position + 1;
    bool good = model_listen(model, keep, r, false, error) &&
                session_feed(a->session, a->tokens->ids, count, &fed, error);
    if (good && fed < count) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    model_listen(model, NULL, NULL, false, NULL);
    return good;
}

// ---- directions: row vectors that a dot product with a part turns into its logit ----

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

typedef struct Directions {
    double *unembedding; // (dim) u
    double *end;         // (dim) of the residual stream: d
    double *attention;   // (dim) of what wo gives
    double *heads;       // (q_dim) of the heads' weighted sums
    float *weights;      // (q_dim or dim) a row of a matrix
    double *block;       // of the float64 ones; owned, as is `weights`
} Directions;

static bool open_directions(Directions *d, const Config *c, Error *error) {
    size_t dim = (size_t)c->dim, q_dim = (size_t)c->q_dim;
    d->block = malloc((3 * dim + q_dim) * sizeof *d->block);
    d->weights = malloc((dim > q_dim ? dim : q_dim) * sizeof *d->weights);
    if (!d->block || !d->weights)
        return error_set(error, ERROR_MEMORY, "no memory for directions of %d channels", c->dim);
    d->unembedding = d->block;
    d->end = d->unembedding + dim;
    d->attention = d->end + dim;
    d->heads = d->attention + dim;
    return true;
}

// wo transposed, times the direction of its output.
static void through_wo(const Directions *d, const Matrix *wo) {
    memset(d->heads, 0, wo->cols * sizeof *d->heads);
    for (size_t i = 0; i < wo->rows; i++) {
        matrix_row(d->weights, wo, i);
        for (size_t j = 0; j < wo->cols; j++)
            d->heads[j] += d->attention[i] * (double)d->weights[j];
    }
}

// ---- parts ----

static void add_part(Attribution *a, PartKind kind, int layer, int head, double logit) {
    a->parts[a->n_parts++] = (Part){kind, layer, head, logit};
    a->sum += logit;
}

static void add_layer(Attribution *a, const Row *r, const Directions *d, int l) {
    const Config *c = a->session->config;
    const LayerWeights *w = &checkpoint_weights(a->session->checkpoint)->layers[l];
    size_t layer = (size_t)l, dim = (size_t)c->dim, head_dim = (size_t)c->head_dim;
    if (w->att_post_norm)
        through_norm(d->attention, d->end, w->att_post_norm, r->attention + layer * dim, c);
    else
        memcpy(d->attention, d->end, dim * sizeof *d->attention);
    through_wo(d, &w->wo);
    for (int h = 0; h < c->n_heads; h++) {
        size_t at = (size_t)h * head_dim;
        const float *head = r->heads + layer * (size_t)c->q_dim + at;
        add_part(a, PART_HEAD, l, h, dot(d->heads + at, head, c->head_dim));
    }
    if (w->bo) add_part(a, PART_ATTENTION_BIAS, l, -1, dot(d->attention, w->bo, c->dim));
    add_part(a, PART_FFN, l, -1, dot(d->end, r->ffn + layer * dim, c->dim));
}

static bool add_parts(Attribution *a, const Row *r, const Directions *d, Error *error) {
    const Config *c = a->session->config;
    const Weights *w = checkpoint_weights(a->session->checkpoint);
    Progress progress;
    matrix_row(d->weights, &w->head, (size_t)a->token);
    for (int i = 0; i < c->dim; i++)
        d->unembedding[i] = (double)d->weights[i];
    through_norm(d->end, d->unembedding, w->final_norm, r->end, c);
    progress_begin(&progress, "attribution", a->session->options->quiet);
    add_part(a, PART_EMBEDDING, -1, -1, dot(d->end, r->embedding, c->dim));
    for (int l = 0; l < c->n_layers && !interrupt_asked(); l++) {
        add_layer(a, r, d, l);
        progress_update(&progress, (l + 1.0) / c->n_layers);
    }
    if (w->final_norm_bias)
        add_part(a, PART_NORM_BIAS, -1, -1, dot(d->unembedding, w->final_norm_bias, c->dim));
    progress_end(&progress);
    if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return session_result(a->session, true, error);
}

static void take_logit(Attribution *a, const Row *r) {
    const float *logits = model_logits(a->session->model, 0);
    int vocab_size = a->session->config->vocab_size;
    if (a->token < 0) a->token = likeliest(logits, vocab_size);
    a->logit = (double)r->uncapped[a->token];
    a->capped = (double)logits[a->token];
    a->probability = exp(a->capped - log_sum_exp_f64(logits, vocab_size));
}

bool attribution_compute(Attribution *a, Error *error) {
    const Config *c = a->session->config;
    Row r = {.attribution = a};
    Directions d = {0};
    size_t most = 2 + (size_t)c->n_layers * ((size_t)c->n_heads + 2);
    a->n_parts = 0;
    a->sum = 0;
    a->parts = malloc(most * sizeof *a->parts);
    bool good = a->parts || error_set(error, ERROR_MEMORY, "no memory for %zu parts", most);
    interrupt_begin();
    good =
        good && reserve(&r, c, error) && open_directions(&d, c, error) && run_prompt(a, &r, error);
    if (good) take_logit(a, &r);
    good = good && add_parts(a, &r, &d, error);
    interrupt_end();
    free(r.block);
    free(d.block);
    free(d.weights);
    if (!good) attribution_free(a);
    return good;
}

void attribution_free(Attribution *a) {
    free(a->parts);
    a->parts = NULL;
}
