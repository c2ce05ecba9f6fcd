#include "commands/lens/attribution.h"

#include "commands/lens/directions.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

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
    case STAGE_LOGITS: return config_changes_logits(c) ? NULL : r->uncapped;
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

// ---- parts ----

static void list_part(Attribution *a, PartKind kind, int layer, int head) {
    a->parts[a->n_parts++] = (Part){.kind = kind, .layer = layer, .head = head};
}

// In the order of directions_parts.
static void list_parts(Attribution *a) {
    const Config *c = a->session->config;
    const Weights *w = checkpoint_weights(a->session->checkpoint);
    a->n_parts = 0;
    list_part(a, PART_EMBEDDING, -1, -1);
    for (int l = 0; l < c->n_layers; l++) {
        for (int h = 0; h < c->n_heads; h++)
            list_part(a, PART_HEAD, l, h);
        if (w->layers[l].bo) list_part(a, PART_ATTENTION_BIAS, l, -1);
        list_part(a, PART_FFN, l, -1);
    }
    if (w->final_norm_bias) list_part(a, PART_NORM_BIAS, -1, -1);
}

bool attribution_list(Attribution *a, Error *error) {
    size_t count = directions_parts(a->session->config, checkpoint_weights(a->session->checkpoint));
    a->parts = malloc(count * sizeof *a->parts);
    if (!a->parts) return error_set(error, ERROR_MEMORY, "no memory for %zu parts", count);
    list_parts(a);
    return true;
}

// `logits` (n_parts).
static bool compute_parts(Attribution *a, const Row *r, Directions *d, double *logits,
                          Error *error) {
    const Config *c = a->session->config;
    size_t dim = (size_t)c->dim;
    Progress progress;
    directions_take(d, &a->token, r->end);
    progress_begin(&progress, "attribution", a->session->options->quiet);
    directions_embedding(d, logits, r->embedding);
    for (int l = 0; l < c->n_layers && !interrupt_asked(); l++) {
        size_t layer = (size_t)l;
        LayerRows rows = {.heads = r->heads + layer * (size_t)c->q_dim,
                          .attention = r->attention + layer * dim,
                          .ffn = r->ffn + layer * dim};
        directions_layer(d, logits, NULL, l, &rows);
        progress_update(&progress, (l + 1.0) / c->n_layers);
    }
    directions_bias(d, logits);
    progress_end(&progress);
    if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    return session_result(a->session, true, error);
}

static bool add_parts(Attribution *a, const Row *r, Error *error) {
    const Session *s = a->session;
    Directions d = {0};
    double *logits = malloc(a->n_parts * sizeof *logits);
    bool good = logits || error_set(error, ERROR_MEMORY, "no memory for %zu parts", a->n_parts);
    good = good && directions_open(&d, s->config, checkpoint_weights(s->checkpoint), 1, 1, error) &&
           compute_parts(a, r, &d, logits, error);
    a->sum = 0;
    for (size_t i = 0; good && i < a->n_parts; i++) {
        a->parts[i].logit = logits[i];
        a->sum += logits[i];
    }
    directions_close(&d);
    free(logits);
    return good;
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
    Row r = {.attribution = a};
    if (!attribution_list(a, error)) return false;
    interrupt_begin();
    bool good = reserve(&r, a->session->config, error) && run_prompt(a, &r, error);
    if (good) take_logit(a, &r);
    good = good && add_parts(a, &r, error);
    interrupt_end();
    free(r.block);
    if (!good) attribution_free(a);
    return good;
}

void attribution_free(Attribution *a) {
    free(a->parts);
    a->parts = NULL;
}
