#include "commands/perplexity/ablate_each.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ranking_open(HeadRanking *r, const Config *config, Error *error) {
    r->count = 1 + config->n_layers * config->n_heads;
    r->heads = calloc((size_t)r->count, sizeof *r->heads);
    if (!r->heads) return error_set(error, ERROR_MEMORY, "no memory for %d heads", r->count);
    r->heads[0] = (HeadLoss){.layer = -1, .head = -1};
    for (int i = 1; i < r->count; i++) {
        r->heads[i].layer = (i - 1) / config->n_heads;
        r->heads[i].head = (i - 1) % config->n_heads;
    }
    return true;
}

void ranking_free(HeadRanking *r) {
    free(r->heads);
    *r = (HeadRanking){0};
}

// ---- scoring ----

// A group: neighbouring heads, the k-th of which is silenced in sequence k.
typedef struct Group {
    HeadLoss *heads;
    int count;
} Group;

// n tokens of a window from ids[at] on, in every sequence of the group: rows of sequence 0, then of
// sequence 1, and so on.
static bool score_rows(const Group *g, const Session *s, const int32_t *ids, size_t at, int n,
                       const TextWindow *w, Error *error) {
    int32_t tokens[RANKING_SEQUENCES * RANKING_ROWS], sequences[RANKING_SEQUENCES * RANKING_ROWS];
    bool wants[RANKING_SEQUENCES * RANKING_ROWS];
    int rows = g->count * n;
    for (int i = 0; i < rows; i++) {
        size_t target = at + (size_t)(i % n) + 1; // the token that this row predicts
        tokens[i] = ids[target - 1];
        sequences[i] = i / n;
        wants[i] = target >= w->first && target < w->after;
    }
    if (!session_forward(
            s, &(Batch){.n = rows, .tokens = tokens, .sequences = sequences, .wants_logits = wants},
            error))
        return false;
    for (int i = 0, row = 0; i < rows; i++)
        if (wants[i])
            score_add(&g->heads[i / n].score, model_logits(s->model, row++), s->config->vocab_size,
                      ids[at + (size_t)(i % n) + 1]);
    return true;
}

static bool score_window(const Group *g, const Session *s, const int32_t *ids, const TextWindow *w,
                         Error *error) {
    for (int i = 0; i < g->count; i++)
        kv_cache_reset(&s->model->cache, i);
    for (size_t at = w->begin; at < w->end;) {
        int n = w->end - at < RANKING_ROWS ? (int)(w->end - at) : RANKING_ROWS;
        if (!score_rows(g, s, ids, at, n, w, error)) return false;
        at += (size_t)n;
    }
    return true;
}

static bool score_text(const Group *g, const Session *s, const WindowedText *text, Error *error) {
    TextWindow w;
    bool good = true;
    for (size_t i = 0; good && text_window(&w, text->windows, text->count, i); i++) {
        // As perplexity does with --second-half: BOS in place of the first token, then back.
        int32_t *first = &text->ids[w.begin], id = *first;
        if (text->bos >= 0 && text->windows->second_half) *first = text->bos;
        good = score_window(g, s, text->ids, &w, error);
        *first = id;
    }
    return good;
}

// Silences the group's heads and scores the text.
static bool run_group(const Group *g, const Session *s, const WindowedText *text, Error *error) {
    Interventions changes = {.checkpoint = s->checkpoint};
    bool good = true;
    for (int i = 0; good && i < g->count; i++)
        if (g->heads[i].layer >= 0)
            good =
                interventions_ablate_head(&changes, g->heads[i].layer, g->heads[i].head, i, error);
    good = good && interventions_attach(&changes, s->model, text->ids, text->count, error) &&
           score_text(g, s, text, error);
    model_intervene(s->model, NULL, NULL, 0, NULL);
    free(changes.changes);
    return good;
}

bool ranking_run(HeadRanking *r, const Session *s, const WindowedText *text, Error *error) {
    Progress progress;
    bool good = true;
    progress_begin(&progress, "ablate", s->options->quiet);
    interrupt_begin();
    for (int at = 0; good && at < r->count; at += RANKING_SEQUENCES) {
        int left = r->count - at;
        Group g = {r->heads + at, left < RANKING_SEQUENCES ? left : RANKING_SEQUENCES};
        good = run_group(&g, s, text, error);
        if (good && interrupt_asked()) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
        progress_update(&progress, (double)(at + g.count) / (double)r->count);
    }
    interrupt_end();
    progress_end(&progress);
    return good;
}

// ---- the table ----

// The largest loss first; equal ones by layer and head.
static int by_loss(const void *a, const void *b) {
    const HeadLoss *x = a, *y = b;
    if (x->score.sum != y->score.sum) return x->score.sum < y->score.sum ? 1 : -1;
    return x->layer != y->layer ? x->layer - y->layer : x->head - y->head;
}

static void print_json(const HeadRanking *r) {
    Figures whole = score_figures(&r->heads[0].score);
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "tokens", (int64_t)r->heads[0].score.count);
    writer_number(&w, "mean_nll", whole.mean);
    writer_number(&w, "perplexity", whole.perplexity);
    writer_begin(&w, "heads", '[');
    for (int i = 1; i < r->count; i++) {
        Figures f = score_figures(&r->heads[i].score);
        writer_begin(&w, NULL, '{');
        writer_integer(&w, "layer", r->heads[i].layer);
        writer_integer(&w, "head", r->heads[i].head);
        writer_number(&w, "mean_nll", f.mean);
        writer_number(&w, "change", f.mean - whole.mean);
        writer_number(&w, "perplexity", f.perplexity);
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

static void print_csv(const HeadRanking *r) {
    Figures whole = score_figures(&r->heads[0].score);
    output_print("layer,head,mean_nll,change,perplexity\n");
    for (int i = 1; i < r->count; i++) {
        Figures f = score_figures(&r->heads[i].score);
        output_print("%d,%d,%.9g,%.9g,%.9g\n", r->heads[i].layer, r->heads[i].head, f.mean,
                     f.mean - whole.mean, f.perplexity);
    }
}

static void print_head(const HeadLoss *h, const Figures *whole) {
    Figures f = score_figures(&h->score);
    char name[32];
    snprintf(name, sizeof name, "L%d.H%d", h->layer, h->head);
    output_print("%-10s  %10.6f  %+10.6f  %12.4f\n", name, f.mean, f.mean - whole->mean,
                 f.perplexity);
}

// Without --all, the heads that matter most and those that matter least: the latter are often ones
// without which the model predicts this text better.
static void print_text(const HeadRanking *r, bool all) {
    enum { FIRST = 15, LAST = 5 };
    Figures whole = score_figures(&r->heads[0].score);
    output_print("%zu tokens; loss %.6f nats, perplexity %.4f with all heads\n\n",
                 (size_t)r->heads[0].score.count, whole.mean, whole.perplexity);
    output_print("without     loss, nats      change    perplexity\n");
    for (int i = 1; i < r->count; i++) {
        if (!all && i > FIRST && i < r->count - LAST) {
            output_print("... %d heads between (--all shows them)\n", r->count - LAST - i);
            i = r->count - LAST;
        }
        print_head(&r->heads[i], &whole);
    }
}

void ranking_print(HeadRanking *r, const Options *o) {
    qsort(r->heads + 1, (size_t)r->count - 1, sizeof *r->heads, by_loss);
    if (o->json)
        print_json(r);
    else if (o->csv)
        print_csv(r);
    else
        print_text(r, o->all);
}
