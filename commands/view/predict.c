// What the model expects: the likeliest tokens at every position with what a sampler needs to know
// of all others, and the lens: the same question asked after every half of every layer.
#include "commands/view/view.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int at_most(int most, int count) {
    return count < most ? count : most;
}

// ---- candidates ----

typedef struct Candidates {
    LensToken *top; // (count) of one position
    uint32_t *ids;  // (n, count)
    float *logits;  // (n, count)
    double *rest;   // (n, VIEW_TEMPERATURES)
    double *others; // (vocab_size) the logits that are not among them
} Candidates;

static bool candidates_open(Candidates *c, const View *v, Error *error) {
    size_t cells = v->n * (size_t)v->n_candidates;
    c->top = malloc((size_t)v->n_candidates * sizeof *c->top);
    c->ids = malloc(cells * sizeof *c->ids);
    c->logits = malloc(cells * sizeof *c->logits);
    c->rest = malloc(v->n * VIEW_TEMPERATURES * sizeof *c->rest);
    c->others = malloc((size_t)v->vocab_size * sizeof *c->others);
    return (c->top && c->ids && c->logits && c->rest && c->others) ||
           error_set(error, ERROR_MEMORY, "no memory for the candidates of %zu tokens", v->n);
}

static void candidates_free(Candidates *c) {
    free(c->top);
    free(c->ids);
    free(c->logits);
    free(c->rest);
    free(c->others);
}

// log sum_i e^(others[i] / temperature), around the largest; -infinity of nothing.
static double rest_at(const double *others, size_t count, double temperature) {
    double largest = -INFINITY, sum = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, others[i]);
    if (!isfinite(largest)) return largest;
    for (size_t i = 0; i < count; i++)
        sum += exp((others[i] - largest) / temperature);
    return largest / temperature + log(sum);
}

// Of the likeliest the last one is the smallest; of equals the lower ids are among them.
static void take_position(Candidates *c, View *v, size_t t) {
    const float *logits = v->logits + t * (size_t)v->vocab_size;
    size_t count = (size_t)v->n_candidates, n_others = 0;
    lens_find_top(c->top, v->n_candidates, logits, v->vocab_size);
    LensToken last = c->top[count - 1];
    for (int i = 0; i < v->vocab_size; i++)
        if (logits[i] < last.logit || (logits[i] == last.logit && i > last.id))
            c->others[n_others++] = (double)logits[i];
    for (size_t k = 0; k < count; k++) {
        c->ids[t * count + k] = (uint32_t)c->top[k].id;
        c->logits[t * count + k] = c->top[k].logit;
        v->named[c->top[k].id] = true;
    }
    for (int i = 0; i < v->n_targets; i++)
        v->targets[t * (size_t)v->n_targets + (size_t)i] = c->top[i].id;
    for (int i = 0; i < VIEW_TEMPERATURES; i++)
        c->rest[t * VIEW_TEMPERATURES + (size_t)i] = rest_at(c->others, n_others, (i + 1) / 20.0);
}

// -log2 p of each token, by the logits in front of it.
static bool take_surprise(View *v, Error *error) {
    v->surprise = malloc(v->n * sizeof *v->surprise);
    if (!v->surprise) return error_set(error, ERROR_MEMORY, "no memory for %zu tokens", v->n);
    v->surprise[0] = NAN;
    for (size_t t = 1; t < v->n; t++) {
        const float *logits = v->logits + (t - 1) * (size_t)v->vocab_size;
        double total = log_sum_exp_f64(logits, v->vocab_size);
        v->surprise[t] = (total - (double)logits[v->ids.ids[t]]) / M_LN2;
    }
    return true;
}

static bool put_candidates(const Candidates *c, const View *v, Page *page, Error *error) {
    size_t cells = v->n * (size_t)v->n_candidates;
    return page_block(page, "topIds", c->ids, cells * sizeof *c->ids, 4, error) &&
           page_block(page, "topLogits", c->logits, cells * sizeof *c->logits, 4, error) &&
           page_block(page, "restLse", c->rest, v->n * VIEW_TEMPERATURES * sizeof *c->rest, 8,
                      error);
}

bool view_candidates(View *v, Page *page, Error *error) {
    if (!v->logits) return true;
    Candidates c = {0};
    Progress progress;
    v->n_candidates = at_most(VIEW_CANDIDATES, v->vocab_size);
    v->n_targets = at_most(VIEW_TARGETS, v->vocab_size);
    v->targets = malloc(v->n * (size_t)v->n_targets * sizeof *v->targets);
    bool good = v->targets || error_set(error, ERROR_MEMORY, "no memory for %zu tokens", v->n);
    good = good && take_surprise(v, error) && candidates_open(&c, v, error);
    progress_begin(&progress, "candidates", v->options->quiet);
    for (size_t t = 0; good && t < v->n; t++) {
        take_position(&c, v, t);
        progress_update(&progress, (double)(t + 1) / (double)v->n);
        if (interrupt_asked()) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    }
    progress_end(&progress);
    good = good && put_candidates(&c, v, page, error);
    candidates_free(&c);
    return good;
}

// ---- the lens ----

enum { STATISTICS = 4 }; // entropy, KL, p of the winner, its rank

typedef struct Lens {
    size_t depths; // embedding, then two halves of each layer
    int top;
    float *x;       // (rows of model_unembed, dim)
    uint32_t *ids;  // (depths, n, top)
    float *shares;  // (depths, n, top)
    float *numbers; // (depths, n, STATISTICS)
    Final final;
} Lens;

static bool lens_open(Lens *l, const View *v, Error *error) {
    size_t cells = l->depths * v->n;
    l->x = malloc((size_t)view_rows(v) * (size_t)v->dim * sizeof *l->x);
    l->ids = malloc(cells * (size_t)l->top * sizeof *l->ids);
    l->shares = malloc(cells * (size_t)l->top * sizeof *l->shares);
    l->numbers = malloc(cells * STATISTICS * sizeof *l->numbers);
    if (!l->x || !l->ids || !l->shares || !l->numbers)
        return error_set(error, ERROR_MEMORY, "no memory for the lens of %zu tokens", v->n);
    return final_open(&l->final, v->vocab_size, error);
}

static void lens_free(Lens *l) {
    free(l->x);
    free(l->ids);
    free(l->shares);
    free(l->numbers);
    final_close(&l->final);
}

// The residual stream at a depth.
static const float *stream(const View *v, size_t depth, size_t t) {
    int layer = depth ? (int)(depth - 1) / 2 : -1;
    StageId id = !depth ? STAGE_EMBEDDING : depth % 2 ? STAGE_ATT_RESIDUAL : STAGE_LAYER_OUT;
    return view_stage(v, id, layer)->values + t * (size_t)v->dim;
}

// The deepest comes first: the others are compared with it.
static void take_logits(Lens *l, View *v, size_t depth, size_t t, const float *logits) {
    LensToken top[VIEW_LENS_TOP];
    size_t cell = depth * v->n + t, at = cell * (size_t)l->top;
    if (depth == l->depths - 1) final_take(&l->final, logits, v->vocab_size);
    LensCell c = lens_measure(top, l->top, &l->final, logits, v->vocab_size);
    for (int k = 0; k < l->top; k++) {
        l->ids[at + (size_t)k] = (uint32_t)top[k].id;
        l->shares[at + (size_t)k] = top[k].probability;
        v->named[top[k].id] = true;
    }
    float numbers[STATISTICS] = {c.entropy, c.kl, c.probability, (float)c.rank};
    memcpy(l->numbers + cell * STATISTICS, numbers, sizeof numbers);
}

// Vectors go through the head in the order t = 0: deepest .. embedding, t = 1: deepest, ...
static bool unembed(Lens *l, View *v, Progress *progress, Error *error) {
    size_t vectors = l->depths * v->n, most = (size_t)view_rows(v), dim = (size_t)v->dim;
    Model *model = v->session->model;
    for (size_t at = 0, count; at < vectors; at += count) {
        count = vectors - at < most ? vectors - at : most;
        for (size_t i = at; i < at + count; i++)
            memcpy(l->x + (i - at) * dim, stream(v, l->depths - 1 - i % l->depths, i / l->depths),
                   dim * sizeof *l->x);
        if (!session_result(v->session, model_unembed(model, l->x, (int)count, error), error))
            return false;
        for (size_t i = at; i < at + count; i++)
            take_logits(l, v, l->depths - 1 - i % l->depths, i / l->depths,
                        model_logits(model, (int)(i - at)));
        progress_update(progress, (double)(at + count) / (double)vectors);
        if (interrupt_asked()) return error_set(error, ERROR_INTERRUPTED, "interrupted");
    }
    return true;
}

bool view_lens(View *v, Page *page, Error *error) {
    Lens l = {.depths = 2 * (size_t)v->layers + 1, .top = at_most(VIEW_LENS_TOP, v->vocab_size)};
    Progress progress;
    progress_begin(&progress, "lens", v->options->quiet);
    bool good = lens_open(&l, v, error) && unembed(&l, v, &progress, error);
    progress_end(&progress);
    size_t cells = l.depths * v->n, top = cells * (size_t)l.top;
    good =
        good && page_block(page, "lensIds", l.ids, top * sizeof *l.ids, 4, error) &&
        page_block(page, "lensP", l.shares, top * sizeof *l.shares, 4, error) &&
        page_block(page, "lensStat", l.numbers, cells * STATISTICS * sizeof *l.numbers, 4, error);
    lens_free(&l);
    v->has_lens = good;
    return good;
}
