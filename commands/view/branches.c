// What the parts of the model do at each token: how sharply a head looks, how long the vectors are
// that attention and the feed-forward add, and what each part gives to the logits of the likeliest
// tokens.
#include "commands/view/view.h"

#include "commands/attention/attention.h"
#include "commands/lens/directions.h"
#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- heads ----

enum { HEAD_NUMBERS = 4 }; // entropy, share of the maximum, mass on the first token, mean distance

// NaN where a row has no such number: a mean over rows leaves it out.
bool view_heads(View *v, Page *page, Error *error) {
    size_t n_heads = (size_t)v->layers * (size_t)v->heads, at = 0;
    if (!v->attention) return true;
    float *numbers = malloc(n_heads * v->n * HEAD_NUMBERS * sizeof *numbers);
    if (!numbers) return error_set(error, ERROR_MEMORY, "no memory for %zu heads", n_heads);
    for (size_t h = 0; h < n_heads; h++)
        for (size_t t = 0; t < v->n; t++) {
            RowStatistics row = attention_row_statistics(view_attention(v, 0, (int)h, t), t);
            numbers[at++] = (float)row.entropy;
            numbers[at++] = (float)row.share;
            numbers[at++] = (float)row.first;
            numbers[at++] = (float)row.distance;
        }
    bool good = page_block(page, "headStat", numbers, at * sizeof *numbers, 4, error);
    free(numbers);
    return good;
}

// What attention takes: the last of these stages that a layer has.
static const ViewStage *last_of(const View *v, int layer, const StageId ids[3]) {
    const ViewStage *found = NULL;
    for (int i = 0; i < 3; i++) {
        const ViewStage *s = view_stage(v, ids[i], layer);
        if (s && (!found || s > found)) found = s;
    }
    return found;
}

// The constant of a row: log of the sum of e^score. A score is the log of its weight plus this, so
// one of them gives it: that of the key with the largest weight.
static float log_sum_of_row(const View *v, int l, int h, size_t t, const float *q, float *keys) {
    const Config *c = v->session->config;
    const float *weights = view_attention(v, l, h, t);
    size_t best = t, head_dim = (size_t)v->head_dim, group = (size_t)(v->heads / v->kv_heads);
    for (size_t k = 0; k <= t; k++)
        if (weights[k] > weights[best]) best = k;
    double score = attention_score(
        q + (t * (size_t)v->heads + (size_t)h) * head_dim,
        keys + (best * (size_t)v->kv_heads + (size_t)h / group) * head_dim, v->head_dim);
    return (float)(attention_scaled(c, l, score) - log((double)weights[best]));
}

// (layers, heads, n)
bool view_scores(View *v, Page *page, Error *error) {
    static const StageId QUERIES[] = {STAGE_Q, STAGE_Q_NORM, STAGE_Q_ROTATED},
                         KEYS[] = {STAGE_K, STAGE_K_NORM, STAGE_K_ROTATED};
    size_t count = (size_t)v->layers * (size_t)v->heads * v->n, at = 0;
    size_t width = v->n * (size_t)v->kv_heads * (size_t)v->head_dim;
    float *sums = malloc(count * sizeof *sums), *keys = malloc(width * sizeof *keys);
    bool good = sums && keys;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for %zu rows of scores", count);
    for (int l = 0; good && l < v->layers; l++) {
        const float *queries = last_of(v, l, QUERIES)->values;
        KvType type = v->session->model->options.kv_type;
        attention_cached_keys(keys, last_of(v, l, KEYS)->values, width, type);
        for (int h = 0; h < v->heads; h++)
            for (size_t t = 0; t < v->n; t++)
                sums[at++] = log_sum_of_row(v, l, h, t, queries, keys);
    }
    good = good && page_block(page, "scoreLse", sums, count * sizeof *sums, 4, error);
    free(sums);
    free(keys);
    return good;
}

// The last position whose token has an earlier twin, the first token excepted; 0: none. *twin: the
// nearest one.
static size_t last_repeated(const View *v, size_t *twin) {
    for (size_t t = v->n - 1; t > 1; t--)
        for (*twin = t - 1; *twin > 0; --*twin)
            if (v->ids.ids[*twin] == v->ids.ids[t]) return t;
    return 0;
}

// The head with the largest weight between a query and the keys first .. last.
static void find_head(View *v, size_t query, size_t first, size_t last) {
    float largest = -1;
    for (int l = 0; l < v->layers; l++)
        for (int h = 0; h < v->heads; h++)
            for (size_t k = first; k <= last; k++) {
                float weight = view_attention(v, l, h, query)[k];
                if (!(weight > largest)) continue;
                largest = weight;
                v->open_layer = l;
                v->open_head = h;
            }
}

// Where a head looks hardest from a token to its earlier twin: many models have heads that look for
// one (induction heads). The first token is left out, since most heads rest there.
void view_open_at(View *v) {
    size_t twin = 0, query = v->n > 2 ? last_repeated(v, &twin) : 0;
    v->open_position = query ? query : v->n - 1;
    if (!v->attention || v->n < 3) return;
    if (query)
        find_head(v, query, twin, twin);
    else
        find_head(v, v->n - 1, 1, v->n - 2);
}

// ---- attention ----

// Bytes for a picture, or the weights themselves.
static bool put_attention(const View *v, int layer, bool exact, void *scratch, Page *page,
                          Error *error) {
    size_t cells = (size_t)v->heads * view_pairs(v);
    const float *weights = view_attention(v, layer, 0, 0);
    float *floats = scratch;
    uint8_t *bytes = scratch;
    char name[24];
    for (size_t i = 0; i < cells; i++) {
        float weight = isnan(weights[i]) && !v->trace ? 0 : weights[i]; // of a trace it is NaN
        if (exact)
            floats[i] = weight;
        else
            bytes[i] = (uint8_t)(weight * 255 + 0.5f);
    }
    snprintf(name, sizeof name, "A%d", layer);
    return page_block(page, name, scratch, cells * (exact ? sizeof *floats : 1), exact ? 4 : 1,
                      error);
}

// Bytes whose bits, from the lowest on, are the keys of the lower triangle: 1 where it is hidden.
static size_t put_hidden_keys(uint8_t *bits, const View *v, int layer) {
    const float *weights = view_attention(v, layer, 0, 0); // a pattern is the same for all heads
    size_t hidden = 0;
    for (size_t i = 0; i < view_pairs(v); i++) {
        if (!isnan(weights[i])) continue;
        bits[i / 8] |= (uint8_t)(1u << i % 8);
        hidden++;
    }
    return hidden;
}

// A weight of 8 bits that is 0 may be that of a visible key. A trace does not say which are hidden.
static bool put_hidden(const View *v, Page *page, Error *error) {
    size_t row = (view_pairs(v) + 7) / 8, bytes = (size_t)v->layers * row, hidden = 0;
    if (v->trace) return true;
    uint8_t *bits = calloc(bytes, 1);
    if (!bits) return error_set(error, ERROR_MEMORY, "no memory for %d layers", v->layers);
    for (int l = 0; l < v->layers; l++)
        hidden += put_hidden_keys(bits + (size_t)l * row, v, l);
    bool good = !hidden || page_block(page, "hidden", bits, bytes, 1, error);
    free(bits);
    return good;
}

bool view_attention_blocks(View *v, Page *page, Error *error) {
    if (!v->attention) return true;
    if (!put_hidden(v, page, error)) return false;
    float *scratch = malloc((size_t)v->heads * view_pairs(v) * sizeof *scratch);
    bool good = scratch || error_set(error, ERROR_MEMORY, "no memory for %d heads", v->heads);
    for (int l = 0; good && l < v->layers; l++)
        if (!v->attended || v->attended[l])
            good = put_attention(v, l, v->trace || v->exact[l] || v->n <= VIEW_EXACT_WEIGHTS,
                                 scratch, page, error);
    free(scratch);
    return good;
}

// ---- the stream ----

enum { FLOW_NUMBERS = 7 };

static double root_mean_square(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum / n);
}

static double cosine(const float *a, const float *b, int n) {
    double ab = 0;
    for (int i = 0; i < n; i++)
        ab += (double)a[i] * (double)b[i];
    double sizes = root_mean_square(a, n) * root_mean_square(b, n) * n;
    return sizes > 0 ? ab / sizes : 0;
}

static const float *row_of(const View *v, StageId id, int layer, size_t t) {
    return view_stage(v, id, layer)->values + t * (size_t)v->dim;
}

static void take_flow(float out[FLOW_NUMBERS], const View *v, int l, size_t t) {
    const float *in = row_of(v, l ? STAGE_LAYER_OUT : STAGE_EMBEDDING, l - 1, t);
    const float *att_out = row_of(v, STAGE_ATT_OUT, l, t);
    const float *mid = row_of(v, STAGE_ATT_RESIDUAL, l, t);
    const float *ffn_out = row_of(v, STAGE_FFN_OUT, l, t);
    const float *end = row_of(v, STAGE_LAYER_OUT, l, t);
    const float *points[] = {in, att_out, mid, ffn_out, end};
    for (int i = 0; i < 5; i++)
        out[i] = (float)root_mean_square(points[i], v->dim);
    out[5] = (float)cosine(in, att_out, v->dim);
    out[6] = (float)cosine(mid, ffn_out, v->dim);
}

static bool has_flow(const View *v) {
    static const StageId NEEDED[] = {STAGE_ATT_OUT, STAGE_ATT_RESIDUAL, STAGE_FFN_OUT,
                                     STAGE_LAYER_OUT};
    const ViewStage *s = view_stage(v, STAGE_EMBEDDING, -1);
    bool has = s && s->width == (size_t)v->dim;
    for (int l = 0; has && l < v->layers; l++)
        for (int i = 0; has && i < 4; i++) {
            s = view_stage(v, NEEDED[i], l);
            has = s && s->width == (size_t)v->dim;
        }
    return has;
}

bool view_flow(View *v, Page *page, Error *error) {
    if (!has_flow(v)) return true;
    size_t count = (size_t)v->layers * v->n * FLOW_NUMBERS;
    float *flow = malloc(count * sizeof *flow), *at = flow;
    if (!flow) return error_set(error, ERROR_MEMORY, "no memory for %d layers", v->layers);
    for (int l = 0; l < v->layers; l++)
        for (size_t t = 0; t < v->n; t++, at += FLOW_NUMBERS)
            take_flow(at, v, l, t);
    v->has_river = page_block(page, "flow", flow, count * sizeof *flow, 4, error);
    free(flow);
    return v->has_river;
}

// ---- parts of logits ----

typedef struct Shares {
    Directions directions;
    double *parts;   // (n, n_targets, n_parts)
    double *squares; // (n, heads)
    float *norms;    // (layers, n, heads) rms of each head's part of wo's result
    float *rounded;  // (n, n_targets, n_parts)
} Shares;

static bool shares_open(Shares *s, View *v, Error *error) {
    const Weights *w = checkpoint_weights(v->session->checkpoint);
    size_t targets = (size_t)v->n_targets, heads = (size_t)v->heads, layers = (size_t)v->layers;
    v->n_parts = (int)directions_parts(v->session->config, w);
    s->parts = malloc(v->n * targets * (size_t)v->n_parts * sizeof *s->parts);
    s->rounded = malloc(v->n * targets * (size_t)v->n_parts * sizeof *s->rounded);
    s->squares = malloc(v->n * heads * sizeof *s->squares);
    s->norms = malloc(layers * v->n * heads * sizeof *s->norms);
    if (!s->parts || !s->rounded || !s->squares || !s->norms)
        return error_set(error, ERROR_MEMORY, "no memory for %d parts of logits", v->n_parts);
    return directions_open(&s->directions, v->session->config, w, v->n, targets, error);
}

static void shares_free(Shares *s) {
    directions_close(&s->directions);
    free(s->parts);
    free(s->rounded);
    free(s->squares);
    free(s->norms);
}

// Without a post norm what follows it is what wo gives.
static void take_layer(Shares *s, const View *v, int l) {
    const ViewStage *projected = view_stage(v, STAGE_ATT_PROJECTED, l);
    if (!projected) projected = view_stage(v, STAGE_ATT_OUT, l);
    LayerRows rows = {.heads = view_stage(v, STAGE_ATT_HEADS, l)->values,
                      .attention = projected->values,
                      .ffn = view_stage(v, STAGE_FFN_OUT, l)->values};
    size_t cells = v->n * (size_t)v->heads;
    directions_layer(&s->directions, s->parts, s->squares, l, &rows);
    for (size_t i = 0; i < cells; i++)
        s->norms[(size_t)l * cells + i] = (float)sqrt(s->squares[i] / v->dim);
}

static bool take_shares(Shares *s, const View *v, Error *error) {
    Progress progress;
    bool good = true;
    directions_take(&s->directions, v->targets,
                    view_stage(v, STAGE_LAYER_OUT, v->layers - 1)->values);
    directions_embedding(&s->directions, s->parts, view_stage(v, STAGE_EMBEDDING, -1)->values);
    progress_begin(&progress, "parts", v->options->quiet);
    for (int l = 0; good && l < v->layers; l++) {
        take_layer(s, v, l);
        progress_update(&progress, (l + 1.0) / v->layers);
        if (interrupt_asked()) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    }
    progress_end(&progress);
    directions_bias(&s->directions, s->parts);
    return good && session_result(v->session, true, error);
}

bool view_branches(View *v, Page *page, Error *error) {
    Shares s = {0};
    bool good = view_flow(v, page, error) && shares_open(&s, v, error) && take_shares(&s, v, error);
    size_t norms = (size_t)v->layers * v->n * (size_t)v->heads;
    size_t parts = v->n * (size_t)v->n_targets * (size_t)v->n_parts;
    for (size_t i = 0; good && i < parts; i++)
        s.rounded[i] = (float)s.parts[i];
    good = good && page_block(page, "headNorm", s.norms, norms * sizeof *s.norms, 4, error);
    // Where they do not add up to the logit the page has no parts of it.
    if (interventions_break_parts(v->session->interventions))
        v->n_parts = 0;
    else
        good = good && page_block(page, "dla", s.rounded, parts * sizeof *s.rounded, 4, error);
    shares_free(&s);
    return good;
}
