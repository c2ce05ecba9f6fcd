// Identities inside an attention block, on the vectors of a real forward pass, one layer at a time.
//
//   softmax      the weights of a row are 0 for hidden keys and sum to 1
//   repeat_kv    grouped attention = attention in which each key-value head is copied for every
//                query head of its group:
//
//       query heads      0 1 2 | 3 4 5            0   1   2   3   4   5
//       key-value heads    0   |   1       =      0   0   0   1   1   1
#include "commands/selftest/checks.h"
#include "commands/selftest/layers.h"
#include "commands/shared/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- softmax ----

typedef struct Sums {
    const Subject *subject;
    Finding *finding;
    int layers_seen;
} Sums;

// One row of weights (context): those of visible keys sum to 1, those of hidden keys are exactly 0.
// A negative weight counts as hidden, so it fails.
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

// A listener: checks every row and head of one layer.
static void sum_weights(void *context, const Model *model, const Stage *stage) {
    Sums *sums = context;
    if (stage->id != STAGE_ATT_WEIGHTS) return;
    size_t n_heads = (size_t)stage->shape[1], room = (size_t)stage->shape[2];
    // From the config, not from the pattern that the model was given.
    KeyPattern pattern = {.window = model->config.layers[stage->layer].window};
    for (int i = 0; i < stage->rows.n; i++)
        for (size_t h = 0; h < n_heads; h++)
            check_weights(sums->finding, stage, &pattern, i,
                          stage->data + ((size_t)i * n_heads + h) * room);
    subject_progress(sums->subject, (double)++sums->layers_seen / model->config.n_layers);
}

// Each of n weights is rounded once: the sum is off by one unit in the last place per key at most.
bool check_softmax(Subject *s, Finding *f, Error *error) {
    Sums sums = {.subject = s, .finding = f};
    f->bound = s->n * 0x1p-23;
    kv_cache_reset(&s->model->cache, 0);
    bool good = model_listen(s->model, sum_weights, &sums, true, error) &&
                subject_feed(s, NULL, &(Feed){0, 0, s->n, s->n}, error);
    return model_listen(s->model, NULL, NULL, false, error) && good;
}

// ---- grouped queries ----

// A layer's attention computed again without groups: the rows of Stages, over a cache in which
// every query head has a key-value head of its own.
typedef struct Ungrouped {
    Device *device;
    Rows rows, all; // the rows of Stages; all positions of the prompt
    float *k, *v;   // host (n, n_heads, head_dim)
    float *out;     // host (rows, n_heads, head_dim)
    float *q_device, *out_device, *k_device, *v_device;
    Kv *kv; // of one layer
} Ungrouped;

static int32_t *upload_integers(Device *device, const int32_t *from, size_t count) {
    int32_t *to = device_alloc(device, count * sizeof *to);
    if (to) device_upload(device, to, from, count * sizeof *to);
    return to;
}

// The memory for one layer, reused by all. False: exit code 5 or 6; ungrouped_close frees the rest.
static bool ungrouped_open(Ungrouped *u, Subject *s, const Stages *stages, Error *error) {
    const Config *c = s->config;
    Device *d = u->device = s->model->device;
    size_t n = (size_t)s->n, q = (size_t)c->q_dim, rows = (size_t)stages->n;
    int32_t *positions = malloc(n * sizeof *positions);
    u->k = malloc(n * q * sizeof *u->k);
    u->v = malloc(n * q * sizeof *u->v);
    u->out = malloc(rows * q * sizeof *u->out);
    bool good = positions && u->k && u->v && u->out;
    if (good) {
        KvShape shape = {1, 1, c->n_heads, c->head_dim, s->n, s->options.kv_type, NULL, 0};
        for (int t = 0; t < s->n; t++)
            positions[t] = t;
        int32_t *at = upload_integers(d, positions, n), *zeros = device_alloc(d, n * sizeof *zeros);
        u->all = (Rows){s->n, zeros, at, zeros};
        u->rows = (Rows){stages->n, zeros, at ? at + stages->first : NULL, zeros};
        u->q_device = device_alloc(d, rows * q * sizeof(float));
        u->out_device = device_alloc(d, rows * q * sizeof(float));
        u->k_device = device_alloc(d, n * q * sizeof(float));
        u->v_device = device_alloc(d, n * q * sizeof(float));
        u->kv = kv_open(d, &shape);
        good = device_good(d, error);
    } else {
        error_set(error, ERROR_MEMORY, "no memory for keys and values");
    }
    free(positions);
    return good;
}

static void ungrouped_close(Ungrouped *u) {
    if (u->kv) kv_close(u->device, u->kv);
    device_free(u->device, (void *)u->all.positions);
    device_free(u->device, (void *)u->all.tokens);
    device_free(u->device, u->q_device);
    device_free(u->device, u->out_device);
    device_free(u->device, u->k_device);
    device_free(u->device, u->v_device);
    free(u->k);
    free(u->v);
    free(u->out);
}

// Reads every cached key and value of the layer, and repeats it for each query head of its group.
static void repeat_heads(Ungrouped *u, Subject *s, int l) {
    const Config *c = s->config;
    size_t head_dim = (size_t)c->head_dim, bytes = head_dim * sizeof(float);
    int group = c->n_heads / c->n_kv_heads;
    KvView view = {s->model->cache.kv, l};
    for (int t = 0; t < s->n; t++)
        for (int h = 0; h < c->n_heads; h++) {
            size_t to = ((size_t)t * (size_t)c->n_heads + (size_t)h) * head_dim;
            if (h % group == 0) {
                kv_read(u->device, &view, 0, h / group, t, u->k + to, u->v + to);
            } else {
                memcpy(u->k + to, u->k + to - head_dim, bytes);
                memcpy(u->v + to, u->v + to - head_dim, bytes);
            }
        }
}

// u->out = the kernels' own attention over the repeated keys: n_kv_heads = n_heads.
static void attend_repeated(Ungrouped *u, Subject *s, const LayerStages *layer, int l) {
    const Config *c = s->config;
    size_t q_bytes = (size_t)u->rows.n * (size_t)c->q_dim * sizeof(float);
    size_t bytes = (size_t)s->n * (size_t)c->q_dim * sizeof(float);
    KvView view = {u->kv, 0};
    AttentionShape shape = {c->n_heads,
                            c->n_heads,
                            c->head_dim,
                            c->layers[l].attention_scale,
                            {.window = c->layers[l].window},
                            c->score_softcap};
    device_upload(u->device, u->k_device, u->k, bytes);
    device_upload(u->device, u->v_device, u->v, bytes);
    device_upload(u->device, u->q_device, layer->q_final, q_bytes);
    device_begin(u->device, &(PassShape){.n = s->n, .max_position = s->n - 1});
    kv_write(u->device, &view, u->k_device, u->v_device, &u->all);
    attention(u->device, u->out_device, u->q_device, &view, &u->rows, &shape, NULL);
    device_end(u->device);
    device_download(u->device, u->out, u->out_device, q_bytes);
}

// The queries are those of the pass, as attention read them; the wanted values are its weighted
// sums.
bool check_repeat_kv(Subject *s, Finding *f, Error *error) {
    const Config *c = s->config;
    f->bound = 2e-6; // relative to the layer's largest value: sums may have another order
    if (c->n_heads == c->n_kv_heads) {
        f->inapplicable = "every query head has its own keys and values";
        return true;
    }
    Stages stages = {0};
    Ungrouped u = {0};
    bool rings = kv_cache_rings(&s->model->cache); // which have lost keys of the first queries
    s->options.full_cache = true;
    bool good = (!rings || subject_reopen(s, NULL, error)) && stages_collect(&stages, s, error) &&
                ungrouped_open(&u, s, &stages, error);
    for (int l = 0; good && l < c->n_layers; l++) {
        const float *heads = stages.layers[l].head_out;
        size_t q_dim = (size_t)c->q_dim, count = (size_t)stages.n * q_dim;
        repeat_heads(&u, s, l);
        attend_repeated(&u, s, &stages.layers[l], l);
        good = device_good(u.device, error);
        double scale = largest_magnitude(heads, count);
        for (int i = 0; good && i < stages.n; i++)
            finding_compare(f, l, stages.first + i, u.out + (size_t)i * q_dim,
                            heads + (size_t)i * q_dim, q_dim, scale);
        subject_progress(s, (double)(l + 1) / c->n_layers);
    }
    ungrouped_close(&u);
    stages_free(&stages);
    s->options.full_cache = false;
    return good && (!rings || subject_reopen(s, NULL, error));
}
