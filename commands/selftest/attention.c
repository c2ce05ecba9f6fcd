// Identities inside an attention block, on the vectors of a real forward pass, each layer by
// itself.
#include "commands/selftest/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool device_good(const Device *device, Error *error) {
    const Error *failure = device_error(device);
    return !failure->code || error_set(error, failure->code, "%s", failure->message);
}

float *device_floats(Device *device, const float *from, size_t count) {
    float *to = device_alloc(device, count * sizeof *to);
    if (to) device_upload(device, to, from, count * sizeof *to);
    return to;
}

double largest_magnitude(const float *numbers, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)numbers[i]));
    return largest;
}

// ---- what a pass shows ----

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
    case STAGE_Q_ROTATED: memcpy(layer->q_placed, stage->data, bytes); break; // the last one stays
    case STAGE_K:
    case STAGE_K_NORM:
    case STAGE_K_ROTATED: memcpy(layer->k_placed, stage->data, bytes); break;
    case STAGE_ATT_HEADS: memcpy(layer->heads, stage->data, bytes); break;
    default: break;
    }
}

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
    enum { ROWS = 32 }; // enough, and little memory for a model of many layers
    *stages = (Stages){.n = s->n < ROWS ? s->n : ROWS};
    stages->first = s->n - stages->n;
    if (!stages_allocate(stages, s->config, error)) return false;
    kv_cache_reset(&s->model->cache, 0);
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

// ---- softmax ----

typedef struct Sums {
    const Subject *subject;
    Finding *finding;
    int layers_seen;
} Sums;

// One row of weights (context): what the pattern shows sums to 1, what it hides is exactly 0.
static void check_weights(Finding *f, const Stage *stage, const KeyPattern *pattern, int i,
                          const float *weights) {
    int position = stage->rows.positions[i], context = stage->shape[2];
    double sum = 0, hidden = 0;
    for (int t = 0; t < context; t++) {
        if (key_visible(pattern, position, t) && weights[t] >= 0)
            sum += (double)weights[t];
        else
            hidden += fabs((double)weights[t]);
    }
    float got[] = {(float)sum, hidden > 0 ? 1.0f : (float)hidden}, wanted[] = {1, 0};
    finding_compare(f, stage->layer, position, got, wanted, 2, 1);
}

static void sum_weights(void *context, const Model *model, const Stage *stage) {
    Sums *sums = context;
    if (stage->id != STAGE_ATT_WEIGHTS) return;
    size_t n_heads = (size_t)stage->shape[1], room = (size_t)stage->shape[2];
    // Not attention_pattern: the definition, from the config.
    KeyPattern pattern = {PATTERN_CAUSAL, model->config.layers[stage->layer].window, 1};
    for (int i = 0; i < stage->rows.n; i++)
        for (size_t h = 0; h < n_heads; h++)
            check_weights(sums->finding, stage, &pattern, i,
                          stage->data + ((size_t)i * n_heads + h) * room);
    subject_progress(sums->subject, (double)++sums->layers_seen / model->config.n_layers);
}

// A sum of n rounded numbers, each divided by their sum: one unit in the last place per key.
bool check_softmax(Subject *s, Finding *f, Error *error) {
    Sums sums = {.subject = s, .finding = f};
    f->bound = s->n * 0x1p-23;
    kv_cache_reset(&s->model->cache, 0);
    bool good = model_listen(s->model, sum_weights, &sums, true, error) &&
                subject_feed(s, NULL, &(Feed){0, 0, s->n, s->n}, error);
    return model_listen(s->model, NULL, NULL, false, error) && good;
}

// ---- grouped queries ----

// Where a layer's attention is computed once more: the rows of Stages, keys and values by position.
typedef struct Bench {
    Device *device;
    Rows rows, all; // the rows of Stages; all positions of the prompt
    float *k, *v;   // host (n, n_heads, head_dim)
    float *out;     // host (rows, n_heads, head_dim)
    float *q_device, *out_device, *k_device, *v_device;
    Kv *kv; // one layer whose every query head has a key-value head of its own
} Bench;

static int32_t *upload_integers(Device *device, const int32_t *from, size_t count) {
    int32_t *to = device_alloc(device, count * sizeof *to);
    if (to) device_upload(device, to, from, count * sizeof *to);
    return to;
}

static bool bench_open(Bench *b, Subject *s, const Stages *stages, Error *error) {
    const Config *c = s->config;
    Device *d = b->device = s->model->device;
    size_t n = (size_t)s->n, q = (size_t)c->q_dim, rows = (size_t)stages->n;
    int32_t *positions = malloc(n * sizeof *positions);
    b->k = malloc(n * q * sizeof *b->k);
    b->v = malloc(n * q * sizeof *b->v);
    b->out = malloc(rows * q * sizeof *b->out);
    bool good = positions && b->k && b->v && b->out;
    if (good) {
        KvShape shape = {1, 1, c->n_heads, c->head_dim, s->n, s->options.kv_type};
        for (int t = 0; t < s->n; t++)
            positions[t] = t;
        int32_t *at = upload_integers(d, positions, n), *zeros = device_alloc(d, n * sizeof *zeros);
        b->all = (Rows){s->n, zeros, at, zeros};
        b->rows = (Rows){stages->n, zeros, at ? at + stages->first : NULL, zeros};
        b->q_device = device_alloc(d, rows * q * sizeof(float));
        b->out_device = device_alloc(d, rows * q * sizeof(float));
        b->k_device = device_alloc(d, n * q * sizeof(float));
        b->v_device = device_alloc(d, n * q * sizeof(float));
        b->kv = kv_open(d, &shape);
        good = device_good(d, error);
    } else {
        error_set(error, ERROR_MEMORY, "no memory for keys and values");
    }
    free(positions);
    return good;
}

static void bench_close(Bench *b) {
    if (b->kv) kv_close(b->device, b->kv);
    device_free(b->device, (void *)b->all.positions);
    device_free(b->device, (void *)b->all.tokens);
    device_free(b->device, b->q_device);
    device_free(b->device, b->out_device);
    device_free(b->device, b->k_device);
    device_free(b->device, b->v_device);
    free(b->k);
    free(b->v);
    free(b->out);
}

// Every cached key and value of the layer, each as often as there are query heads that share it.
static void repeat_heads(Bench *b, Subject *s, int l) {
    const Config *c = s->config;
    size_t head_dim = (size_t)c->head_dim, bytes = head_dim * sizeof(float);
    int group = c->n_heads / c->n_kv_heads;
    KvView view = {s->model->cache.kv, l};
    for (int t = 0; t < s->n; t++)
        for (int h = 0; h < c->n_heads; h++) {
            size_t to = ((size_t)t * (size_t)c->n_heads + (size_t)h) * head_dim;
            if (h % group == 0) {
                kv_read(b->device, &view, 0, h / group, t, b->k + to, b->v + to);
            } else {
                memcpy(b->k + to, b->k + to - head_dim, bytes);
                memcpy(b->v + to, b->v + to - head_dim, bytes);
            }
        }
}

static void attend_repeated(Bench *b, Subject *s, const LayerStages *layer, int l) {
    const Config *c = s->config;
    size_t q_bytes = (size_t)b->rows.n * (size_t)c->q_dim * sizeof(float);
    size_t bytes = (size_t)s->n * (size_t)c->q_dim * sizeof(float);
    KvView view = {b->kv, 0};
    AttentionShape shape = {c->n_heads,
                            c->n_heads,
                            c->head_dim,
                            c->layers[l].attention_scale,
                            {PATTERN_CAUSAL, c->layers[l].window, 1}};
    device_upload(b->device, b->k_device, b->k, bytes);
    device_upload(b->device, b->v_device, b->v, bytes);
    device_upload(b->device, b->q_device, layer->q_placed, q_bytes);
    device_begin(b->device, &(PassShape){s->n, s->n - 1});
    kv_write(b->device, &view, b->k_device, b->v_device, &b->all);
    attention(b->device, b->out_device, b->q_device, &view, &b->rows, &shape, NULL);
    device_end(b->device);
    device_download(b->device, b->out, b->out_device, q_bytes);
}

bool check_repeat_kv(Subject *s, Finding *f, Error *error) {
    const Config *c = s->config;
    f->bound = 2e-6; // of the layer's largest: sums may be taken in another order
    if (c->n_heads == c->n_kv_heads) {
        f->inapplicable = "every query head has keys and values of its own";
        return true;
    }
    Stages stages = {0};
    Bench bench = {0};
    bool good = stages_collect(&stages, s, error) && bench_open(&bench, s, &stages, error);
    for (int l = 0; good && l < c->n_layers; l++) {
        const float *heads = stages.layers[l].heads;
        size_t q_dim = (size_t)c->q_dim, count = (size_t)stages.n * q_dim;
        repeat_heads(&bench, s, l);
        attend_repeated(&bench, s, &stages.layers[l], l);
        good = device_good(bench.device, error);
        double scale = largest_magnitude(heads, count);
        for (int i = 0; good && i < stages.n; i++)
            finding_compare(f, l, stages.first + i, bench.out + (size_t)i * q_dim,
                            heads + (size_t)i * q_dim, q_dim, scale);
        subject_progress(s, (double)(l + 1) / c->n_layers);
    }
    bench_close(&bench);
    stages_free(&stages);
    return good;
}
