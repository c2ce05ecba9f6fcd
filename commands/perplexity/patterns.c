#include "commands/perplexity/patterns.h"

#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <stdlib.h>
#include <string.h>

bool patterns_parse(PatternTable *t, const char *list, Error *error) {
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (!length)
            return error_set(error, ERROR_USAGE, "--patterns: an empty pattern in \"%.80s\"", list);
        if (t->count == OPTIONS_MAX_LIST)
            return error_set(error, ERROR_USAGE, "--patterns: more than %d patterns",
                             OPTIONS_MAX_LIST);
        PatternRow *row = &t->rows[t->count++];
        if (length >= sizeof row->name)
            return error_set(error, ERROR_USAGE, "--patterns: \"%.40s..\" is longer than %d bytes",
                             at, PATTERN_NAME_SIZE - 1);
        memcpy(row->name, at, length);
        if (!attention_pattern_parse(&row->pattern, row->name, error)) return false;
        at += length;
        if (!*at) return true;
    }
}

bool patterns_open(PatternTable *t, const Model *m, size_t scored, int chunk_rows, Error *error) {
    size_t vocab_size = (size_t)m->config.vocab_size;
    t->first = malloc((size_t)chunk_rows * vocab_size * sizeof *t->first);
    if (!t->first)
        return error_set(error, ERROR_MEMORY, "no memory for %d rows of logits", chunk_rows);
    for (int i = 0; i < t->count; i++)
        if (!divergence_init(&t->rows[i].divergence, scored, error)) return false;
    return true;
}

void patterns_free(PatternTable *t) {
    for (int i = 0; i < t->count; i++)
        divergence_free(&t->rows[i].divergence);
    free(t->first);
    t->first = NULL;
}

// ---- scoring ----

// Bytes of the keys and values that `count` tokens from position `start` on see, in all layers.
static double seen_bytes(const Model *m, int start, int count) {
    double keys = 0, element = (double)kv_element_bytes(m->options.kv_type);
    for (int l = 0; l < m->config.n_layers; l++) {
        KeyPattern pattern = model_pattern(m, l);
        keys += (double)attention_pattern_keys(&pattern, start, count);
    }
    return 2 * element * m->config.kv_dim * keys;
}

// Sequence `index`, under its pattern.
static bool score_pattern(PatternTable *t, int index, const Session *s, const TextChunk *c,
                          int32_t *sequences, Error *error) {
    PatternRow *row = &t->rows[index];
    Model *m = s->model;
    int vocab_size = m->config.vocab_size, logit_row = 0;
    for (int i = 0; i < c->n; i++)
        sequences[i] = index;
    m->pattern = row->pattern;
    row->kv_bytes += seen_bytes(m, kv_cache_length(&m->cache, index), c->n);
    Batch batch = {.n = c->n, .tokens = c->ids, .sequences = sequences, .wants_logits = c->wants};
    double started = seconds_now();
    if (!session_forward(s, &batch, error)) return false;
    row->seconds += seconds_now() - started;
    for (int i = 0; i < c->n; i++) {
        if (!c->wants[i]) continue;
        const float *logits = model_logits(m, logit_row);
        float *first = t->first + (size_t)logit_row++ * (size_t)vocab_size;
        if (!index) memcpy(first, logits, (size_t)vocab_size * sizeof *first);
        score_add(&row->score, logits, vocab_size, c->ids[i + 1]);
        divergence_add(&row->divergence, first, logits, vocab_size);
    }
    return true;
}

bool patterns_score(PatternTable *t, const Session *s, const TextChunk *c, Error *error) {
    KeyPattern before = s->model->pattern;
    int32_t *sequences = malloc((size_t)c->n * sizeof *sequences);
    bool good = sequences || error_set(error, ERROR_MEMORY, "no memory for %d tokens", c->n);
    for (int i = 0; good && i < t->count; i++)
        good = score_pattern(t, i, s, c, sequences, error);
    t->fed += (size_t)c->n;
    s->model->pattern = before;
    free(sequences);
    return good;
}

// ---- the table ----

typedef struct PatternFigures {
    Figures score;
    DivergenceSummary divergence;
    double tokens_per_second, kv_bytes_per_token;
} PatternFigures;

static PatternFigures figures_of(const PatternTable *t, PatternRow *row) {
    return (PatternFigures){score_figures(&row->score), divergence_summary(&row->divergence),
                            (double)t->fed / row->seconds, row->kv_bytes / (double)t->fed};
}

static void print_json_row(JsonWriter *w, const PatternRow *row, const PatternFigures *f) {
    writer_begin(w, NULL, '{');
    writer_string(w, "pattern", row->name);
    writer_number(w, "mean_nll", f->score.mean);
    writer_number(w, "perplexity", f->score.perplexity);
    writer_number(w, "standard_error", f->score.error);
    writer_number(w, "top1", f->score.top1);
    writer_number(w, "kl_mean", f->divergence.kl_mean);
    writer_number(w, "top1_agreement", f->divergence.top1_agreement);
    writer_number(w, "tokens_per_second", f->tokens_per_second);
    writer_number(w, "kv_bytes_per_token", f->kv_bytes_per_token);
    writer_end(w, '}');
}

static void print_json(PatternTable *t, const TextWindows *windows) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "tokens", (int64_t)t->rows[0].score.count);
    writer_integer(&w, "window", (int64_t)windows->window);
    writer_integer(&w, "stride", (int64_t)windows->stride);
    writer_begin(&w, "patterns", '[');
    for (int i = 0; i < t->count; i++) {
        PatternFigures f = figures_of(t, &t->rows[i]);
        print_json_row(&w, &t->rows[i], &f);
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}

static void print_csv(PatternTable *t) {
    output_print("pattern,tokens,perplexity,standard_error,kl_mean,top1_agreement,"
                 "tokens_per_second,kv_bytes_per_token\n");
    for (int i = 0; i < t->count; i++) {
        PatternFigures f = figures_of(t, &t->rows[i]);
        output_print("%s,%zu,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", t->rows[i].name,
                     (size_t)t->rows[i].score.count, f.score.perplexity, f.score.error,
                     f.divergence.kl_mean, f.divergence.top1_agreement, f.tokens_per_second,
                     f.kv_bytes_per_token);
    }
}

static void print_text(PatternTable *t, const TextWindows *windows) {
    int width = 7;
    for (int i = 0; i < t->count; i++)
        if ((int)strlen(t->rows[i].name) > width) width = (int)strlen(t->rows[i].name);
    output_print("%zu tokens in windows of %zu; KL divergence and likeliest token against %s\n\n",
                 (size_t)t->rows[0].score.count, windows->window, t->rows[0].name);
    output_print("%-*s  perplexity     +-  KL, nats  same top-1  tokens/s  KV MB/token\n", width,
                 "pattern");
    for (int i = 0; i < t->count; i++) {
        PatternFigures f = figures_of(t, &t->rows[i]);
        output_print("%-*s  %10.4f %6.3f  %8.3g  %8.2f %%  %8.1f  %11.4f\n", width, t->rows[i].name,
                     f.score.perplexity, f.score.error, f.divergence.kl_mean,
                     100 * f.divergence.top1_agreement, f.tokens_per_second,
                     f.kv_bytes_per_token / 1e6);
    }
}

void patterns_print(PatternTable *t, const Options *o, const TextWindows *windows) {
    if (o->json)
        print_json(t, windows);
    else if (o->csv)
        print_csv(t);
    else
        print_text(t, windows);
}
