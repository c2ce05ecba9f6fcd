// Runs the prompt with a listener that keeps attention matrices. Weights are a stage of their own.
// Scores are none, since attention computes them inside its kernel: they are computed again here,
// from the queries of a chunk and the keys of all positions so far, once the layer's attention has
// run (STAGE_ATT_HEADS).
#include "commands/attention/attention.h"

#include "commands/shared/interrupt.h"
#include "kernels/precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t n_matrices(const AttentionCapture *c) {
    return (size_t)c->n_layers * (c->mean ? 1 : (size_t)c->n_heads);
}

float *attention_matrix(const AttentionCapture *c, int layer, int head) {
    size_t n = c->tokens->count, heads = c->mean ? 1 : (size_t)c->n_heads;
    size_t h = c->mean ? 0 : (size_t)(head - c->first_head);
    return c->matrices + ((size_t)(layer - c->first_layer) * heads + h) * n * n;
}

// One value of a matrix; hidden keys stay NaN.
static void put(const AttentionCapture *c, int layer, int head, int query, int key, float value) {
    float *at = attention_matrix(c, layer, head) + (size_t)query * c->tokens->count + key;
    if (c->mean)
        *at = (isnan(*at) ? 0.0f : *at) + value / (float)c->n_heads;
    else
        *at = value;
}

static bool is_kept(const AttentionCapture *c, int layer) {
    return layer >= c->first_layer && layer < c->first_layer + c->n_layers;
}

// The stage (n, n_heads, context) of some rows.
static void keep_weights(const AttentionCapture *c, const Stage *stage) {
    KeyPattern pattern = model_pattern(c->session->model, stage->layer);
    size_t all_heads = (size_t)stage->shape[1], context = (size_t)stage->shape[2];
    for (int i = 0; i < stage->rows.n; i++)
        for (int h = c->first_head; h < c->first_head + c->n_heads; h++) {
            int query = stage->rows.positions[i];
            const float *row = stage->data + ((size_t)i * all_heads + (size_t)h) * context;
            for (int key = 0; key <= query; key++)
                if (key_visible(&pattern, query, key))
                    put(c, stage->layer, h, query, key, row[key]);
        }
}

// ---- scores: from the last of the stages of queries and of keys, as attention has them ----

// Of one position: all key-value heads.
static size_t key_width(const AttentionCapture *c) {
    return (size_t)c->session->config->n_kv_heads * (size_t)c->session->config->head_dim;
}

static float *keys_of(const AttentionCapture *c, int layer, int position) {
    return c->keys + ((size_t)layer * c->tokens->count + (size_t)position) * key_width(c);
}

void attention_cached_keys(float *out, const float *keys, size_t count, KvType type) {
    for (size_t i = 0; i < count; i++)
        out[i] = type == KV_F32 ? keys[i] : kv_widen(type, kv_narrow(type, keys[i]));
}

static void keep_keys(const AttentionCapture *c, const Stage *stage) {
    for (int i = 0; i < stage->rows.n; i++)
        attention_cached_keys(keys_of(c, stage->layer, stage->rows.positions[i]),
                              stage->data + (size_t)i * key_width(c), key_width(c),
                              c->session->model->options.kv_type);
}

double attention_score(const float *q, const float *k, int head_dim) {
    double sum = 0;
    for (int i = 0; i < head_dim; i++)
        sum += (double)q[i] * (double)k[i];
    return sum;
}

double attention_scaled(const Config *config, int layer, double dot) {
    double score = dot * (double)config->layers[layer].attention_scale;
    double cap = (double)config->score_softcap;
    return cap > 0 ? cap * tanh(score / cap) : score;
}

// q . k of one query and key; query head h reads key-value head h / (n_heads / n_kv_heads).
static float score(const AttentionCapture *c, int layer, int row, int head, int key) {
    const Config *config = c->session->config;
    size_t head_dim = (size_t)config->head_dim;
    int kv_head = head / (config->n_heads / config->n_kv_heads);
    const float *q = c->queries + ((size_t)row * (size_t)config->n_heads + (size_t)head) * head_dim;
    const float *k = keys_of(c, layer, key) + (size_t)kv_head * head_dim;
    double sum = attention_score(q, k, config->head_dim);
    return (float)(c->stage == RAW_SCORES ? sum : attention_scaled(config, layer, sum));
}

static void keep_scores(const AttentionCapture *c, const Stage *stage) {
    KeyPattern pattern = model_pattern(c->session->model, stage->layer);
    for (int i = 0; i < stage->rows.n; i++)
        for (int h = c->first_head; h < c->first_head + c->n_heads; h++) {
            int query = stage->rows.positions[i];
            for (int key = 0; key <= query; key++)
                if (key_visible(&pattern, query, key))
                    put(c, stage->layer, h, query, key, score(c, stage->layer, i, h, key));
        }
}

// Listener.
static void keep(void *context, const Model *model, const Stage *stage) {
    const AttentionCapture *c = context;
    (void)model;
    if (!is_kept(c, stage->layer)) return;
    switch (stage->id) {
    case STAGE_ATT_WEIGHTS: keep_weights(c, stage); break;
    case STAGE_Q:
    case STAGE_Q_NORM:
    case STAGE_Q_ROTATED:
        if (c->queries) memcpy(c->queries, stage->data, stage_size(stage) * sizeof(float));
        break;
    case STAGE_K:
    case STAGE_K_NORM:
    case STAGE_K_ROTATED:
        if (c->keys) keep_keys(c, stage);
        break;
    case STAGE_ATT_HEADS:
        if (c->keys) keep_scores(c, stage);
        break;
    default: break;
    }
}

// ---- the run ----

// In double: the layers and heads of a file times the square of a long prompt exceed 64 bits.
static bool check_size(const AttentionCapture *c, Error *error) {
    double n = (double)c->tokens->count, matrices = (double)n_matrices(c);
    double bytes = matrices * n * n * (double)sizeof *c->matrices;
    if (bytes <= (double)ATTENTION_BYTES) return true;
    return error_set(error, ERROR_USAGE,
                     "%.0f attention matrices of %.0f x %.0f take %.3g GB, at most %.3g GB: choose "
                     "with --layer and --head, or give a shorter prompt",
                     matrices, n, n, bytes / 1e9, (double)ATTENTION_BYTES / 1e9);
}

static bool reserve(AttentionCapture *c, Error *error) {
    if (!check_size(c, error)) return false;
    const Config *config = c->session->config;
    size_t n = c->tokens->count, count = n_matrices(c) * n * n;
    size_t rows = (size_t)c->session->model->options.max_rows;
    c->matrices = malloc(count * sizeof *c->matrices);
    if (c->stage != ATTENTION_WEIGHTS) {
        c->queries = malloc(rows * (size_t)config->q_dim * sizeof *c->queries);
        c->keys = malloc((size_t)config->n_layers * n * key_width(c) * sizeof *c->keys);
    }
    if (!c->matrices || (c->stage != ATTENTION_WEIGHTS && (!c->queries || !c->keys)))
        return error_set(error, ERROR_MEMORY,
                         "no memory for %zu attention matrices of %zu x %zu (--layer and --head "
                         "choose fewer)",
                         n_matrices(c), n, n);
    for (size_t i = 0; i < count; i++)
        c->matrices[i] = NAN;
    return true;
}

bool attention_capture(AttentionCapture *c, Error *error) {
    Model *model = c->session->model;
    size_t fed = 0;
    bool good =
        reserve(c, error) && model_listen(model, keep, c, c->stage == ATTENTION_WEIGHTS, error);
    interrupt_begin();
    good = good && session_feed(c->session, c->tokens->ids, c->tokens->count, &fed, error);
    interrupt_end();
    if (good && fed < c->tokens->count) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    model_listen(model, NULL, NULL, false, NULL);
    if (!good) attention_capture_free(c);
    return good;
}

void attention_capture_free(AttentionCapture *c) {
    free(c->matrices);
    free(c->queries);
    free(c->keys);
    c->matrices = c->queries = c->keys = NULL;
}
