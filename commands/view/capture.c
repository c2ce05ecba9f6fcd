// One run with a listener that keeps every stage of every token, in the shape of a trace.
//
// The stages are few numbers for one token and many for a long text: view_check_size says no before
// anything is allocated.
#include "commands/view/view.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the list of stages ----

static uint32_t *entry(const View *v, StageId id, int layer) {
    return &v->index[(size_t)(layer + 1) * STAGE_COUNT + (size_t)id];
}

bool view_open_index(View *v, Error *error) {
    v->index = calloc(((size_t)v->layers + 1) * STAGE_COUNT, sizeof *v->index);
    return v->index || error_set(error, ERROR_MEMORY, "no memory for %d layers", v->layers);
}

ViewStage *view_stage(const View *v, StageId id, int layer) {
    uint32_t number = id < STAGE_COUNT && layer < v->layers ? *entry(v, id, layer) : 0;
    return number ? &v->stages[number - 1] : NULL;
}

ViewStage *view_add_stage(View *v, StageId id, int layer, size_t width, Error *error) {
    if (v->n_stages == v->room) {
        size_t room = v->room ? 2 * v->room : 256;
        ViewStage *grown = realloc(v->stages, room * sizeof *grown);
        if (grown) v->stages = grown;
        if (grown) v->room = room;
    }
    float *values = v->n_stages < v->room ? malloc(v->n * width * sizeof *values) : NULL;
    if (!values) {
        error_set(error, ERROR_MEMORY, "no memory for the stages of %zu tokens", v->n);
        return NULL;
    }
    for (size_t i = 0; i < v->n * width; i++)
        values[i] = NAN;
    ViewStage *s = &v->stages[v->n_stages++];
    *s = (ViewStage){.stage = id, .layer = layer, .width = width, .values = values};
    if (id < STAGE_COUNT) *entry(v, id, layer) = (uint32_t)v->n_stages;
    return s;
}

void view_free(View *v) {
    for (size_t i = 0; i < v->n_stages; i++)
        free(v->stages[i].values);
    free(v->stages);
    free(v->attention);
    free(v->attended);
    free(v->post_norms);
    free(v->shown);
    free(v->index);
    free(v->logits);
    free(v->surprise);
    free(v->targets);
    free(v->named);
    free(v->exact);
    free(v->weights);
    id_list_free(&v->ids);
    *v = (View){0};
}

// ---- sizes ----

// In double: a prompt and the sizes of a model are far apart from what 64 bits hold of products.
static double bytes_needed(const View *v) {
    const Config *c = v->session->config;
    double n = (double)v->n, layers = c->n_layers, heads = c->n_heads, dim = c->dim;
    double stages = layers * (8 * dim + 4 * c->q_dim + 5 * c->kv_dim + 3 * c->hidden_dim) + 3 * dim;
    double attention = layers * heads * n * (n + 1) / 2;
    double lens = (2 * layers + 1) * (2 * VIEW_LENS_TOP + 4) + 2 * VIEW_CANDIDATES;
    double parts = 8 * VIEW_TARGETS * (2 * dim + layers * (heads + 2));
    return 4 * (n * (stages + lens + c->vocab_size) + attention) + n * parts;
}

bool view_check_size(const View *v, Error *error) {
    double bytes = bytes_needed(v);
    if (bytes <= (double)VIEW_BYTES) return true;
    return error_set(error, ERROR_USAGE,
                     "a page of %zu tokens of this model takes %.3g GB of memory, at most %.3g GB: "
                     "give a shorter prompt",
                     v->n, bytes / 1e9, (double)VIEW_BYTES / 1e9);
}

int view_rows(const View *v) {
    enum { FEWER = 4 }; // logits are in memory twice, and one row after another is looked at
    size_t vocab_size = (size_t)v->session->config->vocab_size;
    size_t depths = 2 * (size_t)v->session->config->n_layers + 1;
    return session_rows(v->n * depths, FEWER * vocab_size);
}

static bool reserve(View *v, Error *error) {
    const Config *c = v->session->config;
    v->layers = c->n_layers, v->heads = c->n_heads, v->kv_heads = c->n_kv_heads;
    v->head_dim = c->head_dim, v->dim = c->dim, v->hidden_dim = c->hidden_dim;
    v->vocab_size = c->vocab_size;
    size_t cells = (size_t)v->layers * (size_t)v->heads * view_pairs(v);
    v->attention = malloc(cells * sizeof *v->attention);
    v->logits = malloc(v->n * (size_t)v->vocab_size * sizeof *v->logits);
    v->named = calloc((size_t)v->vocab_size, sizeof *v->named);
    if (!v->attention || !v->logits || !v->named)
        return error_set(error, ERROR_MEMORY, "no memory for a page of %zu tokens", v->n);
    for (size_t i = 0; i < cells; i++)
        v->attention[i] = NAN;
    return view_open_index(v, error);
}

// ---- the listener ----

// (rows, n_heads, context): the visible keys of each query.
static void keep_attention(View *v, const Stage *stage) {
    KeyPattern pattern = model_pattern(v->session->model, stage->layer);
    size_t context = (size_t)stage->shape[2];
    for (int i = 0; i < stage->rows.n; i++)
        for (int h = 0; h < v->heads; h++) {
            int query = stage->rows.positions[i];
            const float *from = stage->data + ((size_t)i * (size_t)v->heads + (size_t)h) * context;
            float *to = view_attention(v, stage->layer, h, (size_t)query);
            for (int key = 0; key <= query; key++)
                if (key_visible(&pattern, query, key)) to[key] = from[key];
        }
}

static void copy_rows(float *to, const Stage *stage, size_t width) {
    for (int i = 0; i < stage->rows.n; i++)
        memcpy(to + (size_t)stage->rows.positions[i] * width, stage->data + (size_t)i * width,
               width * sizeof *to);
}

// A stage that no trace has (the family lacks the module) equals an earlier one.
static ViewStage *new_stage(View *v, const Stage *stage) {
    char name[TRACE_NAME_SIZE];
    if (!trace_stage_name(name, v->session->checkpoint, stage->id, stage->layer)) return NULL;
    size_t width = stage_size(stage) / (size_t)stage->rows.n;
    ViewStage *s = view_add_stage(v, stage->id, stage->layer, width, &v->failure);
    if (!s) return NULL;
    s->shape[0] = stage->shape[1], s->shape[1] = stage->shape[2];
    memcpy(s->name, name, sizeof s->name);
    if (s->layer < 0)
        snprintf(s->id, sizeof s->id, "%s", stage_name(s->stage));
    else
        snprintf(s->id, sizeof s->id, "%d.%s", s->layer, stage_name(s->stage));
    return s;
}

// Listener.
static void keep(void *context, const Model *model, const Stage *stage) {
    View *v = context;
    (void)model;
    if (v->failure.code || stage->id == STAGE_UNCAPPED) return;
    if (stage->id == STAGE_ATT_WEIGHTS) {
        keep_attention(v, stage);
    } else if (stage->id == STAGE_LOGITS) {
        copy_rows(v->logits, stage, (size_t)v->vocab_size);
    } else {
        ViewStage *s = view_stage(v, stage->id, stage->layer);
        if (!s) s = new_stage(v, stage);
        if (s) copy_rows(s->values, stage, s->width);
    }
}

// ---- the run ----

// Feeds ids[begin .. count); every row wants logits.
static bool feed(View *v, size_t begin, Progress *progress, Error *error) {
    size_t most = (size_t)v->session->model->options.max_rows;
    bool all[SESSION_MAX_ROWS], good = true;
    memset(all, true, sizeof all);
    for (size_t at = begin, rows; good && at < v->ids.count; at += rows) {
        rows = v->ids.count - at < most ? v->ids.count - at : most;
        Batch batch = {.n = (int)rows, .tokens = v->ids.ids + at, .wants_logits = all};
        good = session_forward(v->session, &batch, error);
        if (good && v->failure.code) good = error_copy(error, &v->failure);
        if (good && interrupt_asked()) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
        progress_update(progress, (double)(at + rows) / (double)v->n);
    }
    return good;
}

bool view_capture(View *v, Error *error) {
    Model *model = v->session->model;
    Progress progress;
    if (!reserve(v, error) || !model_listen(model, keep, v, true, error)) return false;
    progress_begin(&progress, "run", v->options->quiet);
    bool good = feed(v, 0, &progress, error);
    while (good && v->ids.count < v->n) {
        size_t fed = v->ids.count, vocab_size = (size_t)v->vocab_size;
        int32_t next = likeliest(v->logits + (fed - 1) * vocab_size, v->vocab_size);
        good = id_list_push(&v->ids, next, error) && feed(v, fed, &progress, error);
    }
    progress_end(&progress);
    model_listen(model, NULL, NULL, false, NULL);
    for (size_t i = 0; good && i < v->n; i++)
        v->named[v->ids.ids[i]] = true;
    return good;
}
