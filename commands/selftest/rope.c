// Identities of rotary positions: queries and keys computed with the interleaved order of rows
// (drawn in layers.h) equal those of the model, and a norm without weights commutes with RoPE.
//
//   rope_pairing     wq, wk with rows interleaved -> norm -> rotate neighbours (plain loops)
//                    -> rows back in the half order = queries and keys of the pass
//   norm_commutes    rope(norm(q)) = norm(rope(q)) for a norm without weights
#include "commands/selftest/checks.h"
#include "commands/selftest/layers.h"
#include "commands/shared/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The tables that this layer rotates with, on the device; queries may have one of their own.
static const RopeTable *table_of(const Model *m, int l, bool queries) {
    if (queries && m->rope_queries.cos) return &m->rope_queries;
    return m->config.layers[l].local_rope ? &m->rope_local : &m->rope;
}

// ---- the pairing of channels ----

// How one layer makes its queries, or its keys.
typedef struct Side {
    const Matrix *weight;
    const float *bias, *norm; // NULL: none
    int n_heads;
    const float *wanted; // (n, n_heads, head_dim) as attention read them in the pass
} Side;

typedef struct Pairing {
    const Subject *subject;
    const Stages *stages;
    int layer;
    const float *cos, *sin; // host (context, rope_dim / 2)
    float *x;               // host (n, heads, head_dim)
    float *vector;          // host (q_dim) a bias or a norm in the interleaved order
} Pairing;

// Rotates neighbouring channels of p->x, in place: plain loops, no kernel.
static void rotate_neighbours(const Pairing *p, int n_heads) {
    const Config *c = p->subject->config;
    float *x = p->x;
    for (int i = 0; i < p->stages->n; i++) {
        size_t angle = (size_t)(p->stages->first + i) * (size_t)(c->rope_dim / 2);
        for (int h = 0; h < n_heads; h++, x += c->head_dim)
            for (int j = 0; j < c->rope_dim / 2; j++) {
                float cosine = p->cos[angle + (size_t)j], sine = p->sin[angle + (size_t)j];
                float a = x[2 * j], b = x[2 * j + 1];
                x[2 * j] = a * cosine - b * sine;
                x[2 * j + 1] = a * sine + b * cosine;
            }
    }
}

// A bias or norm weights in the order of the reordered rows; (count) floats on the device, owned by
// it. NULL stays NULL.
static float *upload_interleaved(const Pairing *p, Device *d, const float *from, size_t count) {
    if (!from) return NULL;
    for (size_t r = 0; r < count; r++)
        p->vector[r] = from[half_order_row(p->subject->config, r)];
    return device_floats(d, p->vector, count);
}

// x = norm(x) on the device, with the norm weights in the interleaved order.
static void norm_interleaved(const Pairing *p, Device *d, const Side *side, float *x) {
    const Config *c = p->subject->config;
    if (!side->norm) return;
    bool per_head = c->qk_norm == QK_NORM_PER_HEAD;
    int width = per_head ? c->head_dim : side->n_heads * c->head_dim;
    int rows = per_head ? p->stages->n * side->n_heads : p->stages->n;
    float *weight = upload_interleaved(p, d, side->norm, (size_t)width);
    device_begin(d, &(PassShape){.n = p->stages->n, .max_position = p->subject->n - 1});
    rmsnorm(d, x, x, weight, rows, width, c->norm_eps);
    device_end(d);
}

// Projects with interleaved rows, then norm and RoPE in the order of the model; p->x has the
// result.
static bool project_interleaved(const Pairing *p, Device *d, const Side *side, const Matrix *matrix,
                                Error *error) {
    const Config *c = p->subject->config;
    int n = p->stages->n;
    size_t count = (size_t)n * matrix->rows, bytes = count * sizeof(float);
    DeviceMatrix *weight = device_matrix(d, matrix);
    device_reserve(d, n);
    const float *in = p->stages->layers[p->layer].in;
    float *x = device_floats(d, in, (size_t)n * matrix->cols), *out = device_alloc(d, bytes);
    Projection projection = {out, weight, upload_interleaved(p, d, side->bias, matrix->rows)};
    if (!device_good(d, error)) return false;
    device_begin(d, &(PassShape){.n = n, .max_position = p->subject->n - 1});
    project(d, x, n, &projection, 1);
    device_end(d);
    if (!c->qk_norm_after_rope) norm_interleaved(p, d, side, out);
    device_download(d, p->x, out, bytes);
    rotate_neighbours(p, side->n_heads);
    if (c->qk_norm_after_rope) {
        device_upload(d, out, p->x, bytes);
        norm_interleaved(p, d, side, out);
        device_download(d, p->x, out, bytes);
    }
    return device_good(d, error);
}

static void compare_side(const Pairing *p, Finding *f, const Side *side) {
    const Config *c = p->subject->config;
    size_t width = (size_t)side->n_heads * (size_t)c->head_dim;
    double scale = largest_magnitude(side->wanted, (size_t)p->stages->n * width);
    for (int i = 0; i < p->stages->n; i++) {
        const float *got = p->x + (size_t)i * width;
        for (size_t r = 0; r < width; r++) // back to the half order
            p->vector[half_order_row(c, r)] = got[r];
        finding_compare(f, p->layer, p->stages->first + i, p->vector,
                        side->wanted + (size_t)i * width, width, scale);
    }
}

// Queries or keys of one layer. False: exit code 5 or 6; what was found is in `f`.
static bool check_side(const Pairing *p, Finding *f, const Side *side, Error *error) {
    const ModelOptions *o = &p->subject->options;
    Matrix matrix;
    if (!matrix_reorder(&matrix, side->weight, p->subject->config, true))
        return error_set(error, ERROR_MEMORY, "no memory for a reordered matrix");
    // A second device: the scratch of the model's is sized for its own matrices.
    Device *d = device_open(o->threads, o->precision);
    bool good = d ? project_interleaved(p, d, side, &matrix, error)
                  : error_set(error, ERROR_MEMORY, "no memory for the device");
    if (good) compare_side(p, f, side);
    device_close(d);
    free((void *)matrix.data);
    return good;
}

// `angles` has room for the cosines and sines of the context.
static bool check_pairing_of_layer(Pairing *p, Finding *f, float *angles, Error *error) {
    const Subject *s = p->subject;
    const LayerWeights *w = &s->weights->layers[p->layer];
    const LayerStages *stages = &p->stages->layers[p->layer];
    Side sides[] = {{&w->wq, w->bq, w->q_norm, s->config->n_heads, stages->q_final},
                    {&w->wk, w->bk, w->k_norm, s->config->n_kv_heads, stages->k_final}};
    size_t count = (size_t)s->options.context * (size_t)(s->config->rope_dim / 2);
    p->cos = angles;
    p->sin = angles + count;
    for (int i = 0; i < 2; i++) {
        const RopeTable *table = table_of(s->model, p->layer, i == 0);
        device_download(s->model->device, angles, table->cos, count * sizeof(float));
        device_download(s->model->device, angles + count, table->sin, count * sizeof(float));
        if (!check_side(p, f, &sides[i], error)) return false;
    }
    return true;
}

bool check_rope_pairing(Subject *s, Finding *f, Error *error) {
    const Config *c = s->config;
    f->bound = 2e-6; // relative to the layer's largest value: norms sum in another order
    if (!model_has_rope(s, f)) return true;
    Stages stages = {0};
    bool good = stages_collect(&stages, s, error);
    size_t q_dim = (size_t)c->q_dim, rows = (size_t)stages.n;
    size_t angles = 2 * (size_t)s->options.context * (size_t)(c->rope_dim / 2);
    // One block: x (rows, q_dim), vector (q_dim), cos and sin (context, rope_dim / 2) each.
    float *memory = malloc((rows * q_dim + q_dim + angles) * sizeof *memory);
    if (!memory) good = error_set(error, ERROR_MEMORY, "no memory for queries");
    Pairing p = {.subject = s, .stages = &stages, .x = memory};
    for (int l = 0; good && l < c->n_layers; l++) {
        p.vector = memory + rows * q_dim;
        p.layer = l;
        good = !layer_has_rope(c, l) || check_pairing_of_layer(&p, f, p.vector + q_dim, error);
        subject_progress(s, (double)(l + 1) / c->n_layers);
    }
    free(memory);
    stages_free(&stages);
    return good;
}

// ---- norm and rotation ----

// The factor by which RoPE changes the length of a pair: 1, except with scalings such as YaRN's.
static double rope_gain(Subject *s, const RopeTable *table) {
    float cosine, sine;
    device_download(s->model->device, &cosine, table->cos, sizeof cosine);
    device_download(s->model->device, &sine, table->sin, sizeof sine);
    return hypot((double)cosine, (double)sine);
}

// Memory to norm and rotate the queries of Stages.
typedef struct NormAndRope {
    float *x, *ones;
    Rows rows;
    float *norm_first, *rope_first; // host (n, n_heads, head_dim): results of the two orders
} NormAndRope;

// False: exit code 5 or 6; norm_and_rope_close frees the rest.
static bool norm_and_rope_open(NormAndRope *t, Subject *s, const Stages *stages, Error *error) {
    size_t n = (size_t)stages->n, q_dim = (size_t)s->config->q_dim;
    Device *d = s->model->device;
    t->norm_first = malloc(2 * n * q_dim * sizeof(float));
    int32_t *positions = malloc(n * sizeof *positions);
    bool good = t->norm_first && positions;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for queries");
    if (good) {
        t->rope_first = t->norm_first + n * q_dim;
        for (size_t i = 0; i < q_dim; i++)
            t->norm_first[i] = 1;
        t->ones = device_floats(d, t->norm_first, q_dim);
        t->x = device_alloc(d, n * q_dim * sizeof(float));
        int32_t *on_device = device_alloc(d, n * sizeof *on_device);
        for (int i = 0; i < stages->n; i++)
            positions[i] = stages->first + i;
        if (on_device) device_upload(d, on_device, positions, n * sizeof *positions);
        // rope reads positions only: tokens and sequences are never looked at.
        t->rows = (Rows){stages->n, on_device, on_device, on_device};
        good = device_good(d, error);
    }
    free(positions);
    return good;
}

static void norm_and_rope_close(NormAndRope *t, Device *d) {
    device_free(d, t->x);
    device_free(d, t->ones);
    device_free(d, (void *)t->rows.positions);
    free(t->norm_first);
}

// out = the layer's queries after a norm per head without weights and RoPE, in one of the two
// orders.
static void norm_and_rotate(NormAndRope *t, Subject *s, const float *q, int l, bool norm_is_first,
                            float *out) {
    static const float NO_EPS = 1e-30f; // no more than keeps a head of zeros at zero
    const Config *c = s->config;
    Device *d = s->model->device;
    size_t bytes = (size_t)t->rows.n * (size_t)c->q_dim * sizeof(float);
    int heads = t->rows.n * c->n_heads;
    device_upload(d, t->x, q, bytes);
    device_begin(d, &(PassShape){.n = t->rows.n, .max_position = s->n - 1});
    if (norm_is_first) rmsnorm(d, t->x, t->x, t->ones, heads, c->head_dim, NO_EPS);
    rope(d, t->x, c->n_heads, c->head_dim, table_of(s->model, l, false), &t->rows);
    if (!norm_is_first) rmsnorm(d, t->x, t->x, t->ones, heads, c->head_dim, NO_EPS);
    device_end(d);
    device_download(d, out, t->x, bytes);
}

// A rotation keeps lengths, so a norm without weights may come before or after it.
bool check_norm_commutes(Subject *s, Finding *f, Error *error) {
    const Config *c = s->config;
    f->bound = 2e-6; // relative to the layer's largest value
    if (!model_has_rope(s, f)) return true;
    if (fabs(rope_gain(s, &s->model->rope) - 1) > 1e-6) {
        f->inapplicable = "this RoPE scaling changes the length of vectors";
        return true;
    }
    Stages stages = {0};
    NormAndRope t = {0};
    bool good = stages_collect(&stages, s, error) && norm_and_rope_open(&t, s, &stages, error);
    for (int l = 0; good && l < c->n_layers; l++) {
        subject_progress(s, (double)(l + 1) / c->n_layers);
        if (!layer_has_rope(c, l)) continue;
        size_t width = (size_t)c->q_dim, count = (size_t)stages.n * width;
        norm_and_rotate(&t, s, stages.layers[l].q, l, true, t.norm_first);
        norm_and_rotate(&t, s, stages.layers[l].q, l, false, t.rope_first);
        good = device_good(s->model->device, error);
        double scale = largest_magnitude(t.norm_first, count);
        for (int i = 0; good && i < stages.n; i++)
            finding_compare(f, l, stages.first + i, t.rope_first + (size_t)i * width,
                            t.norm_first + (size_t)i * width, width, scale);
    }
    norm_and_rope_close(&t, s->model->device);
    stages_free(&stages);
    return good;
}
