// The parts of one head's output. Weights and output come from a listener, values from the cache,
// so that the sum is over the very numbers that attention read.
#include "commands/attention/explain.h"

#include "commands/shared/interrupt.h"
#include "commands/shared/output.h"
#include "commands/shared/prompt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- what the model computed ----

// Listener: the row of the query. Hidden keys are left out of `keys`.
static void keep(void *context, const Model *model, const Stage *stage) {
    Explanation *e = context;
    if (stage->layer != e->layer) return;
    if (stage->id != STAGE_ATT_WEIGHTS && stage->id != STAGE_ATT_HEADS) return;
    KeyPattern pattern = model_pattern(model, e->layer);
    size_t heads = (size_t)stage->shape[1], width = (size_t)stage->shape[2];
    for (int i = 0; i < stage->rows.n; i++) {
        int query = stage->rows.positions[i];
        if ((size_t)query != e->position) continue;
        const float *row = stage->data + ((size_t)i * heads + (size_t)e->head) * width;
        if (stage->id == STAGE_ATT_HEADS) memcpy(e->output, row, width * sizeof *row);
        for (int t = 0; stage->id == STAGE_ATT_WEIGHTS && t <= query; t++)
            if (key_visible(&pattern, query, t))
                e->keys[e->n_keys++] = (Contribution){.key = t, .weight = row[t]};
    }
}

// Tokens after the query cannot change it, so they are not run. Those before it run without the
// listener: with one, the attention weights of all heads and layers are computed and stored, which
// takes most of the time of a long text.
static bool run_prompt(Explanation *e, Error *error) {
    Model *model = e->session->model;
    size_t fed = 0, last = 0, before = e->position;
    interrupt_begin();
    bool good =
        (!before || session_feed(e->session, e->tokens->ids, before, &fed, error)) &&
        (fed < before || (model_listen(model, keep, e, true, error) &&
                          session_feed(e->session, e->tokens->ids + before, 1, &last, error)));
    interrupt_end();
    if (good && !last) good = error_set(error, ERROR_INTERRUPTED, "interrupted");
    model_listen(model, NULL, NULL, false, NULL);
    return good;
}

// ---- lengths and shares ----

static double dot(const float *a, const float *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static size_t head_dim(const Explanation *e) {
    return (size_t)e->session->config->head_dim;
}

// Values as attention read them: rounded to the cache's type.
static void read_values(const Explanation *e) {
    const Config *c = e->session->config;
    Model *model = e->session->model;
    KvView view = {model->cache.kv, e->layer};
    for (size_t i = 0; i < e->n_keys; i++)
        kv_read(model->device, &view, 0, e->head / (c->n_heads / c->n_kv_heads), e->keys[i].key,
                NULL, e->values + i * head_dim(e));
}

// Channel j of the sum of keys first .. count - 1, in the order of `keys`; NULL: their own.
static double sum_of_channel(const Explanation *e, const Contribution *const *keys, size_t first,
                             size_t count, size_t j) {
    double sum = 0;
    for (size_t i = first; i < count; i++) {
        size_t key = keys ? (size_t)(keys[i] - e->keys) : i;
        sum += (double)e->keys[key].weight * (double)e->values[key * head_dim(e) + j];
    }
    return sum;
}

static void measure(Explanation *e) {
    size_t width = head_dim(e);
    double square = dot(e->output, e->output, width), off = 0;
    e->length = sqrt(square);
    for (size_t i = 0; i < e->n_keys; i++) {
        const float *value = e->values + i * width;
        double weight = (double)e->keys[i].weight;
        e->keys[i].length = weight * sqrt(dot(value, value, width));
        e->keys[i].share = square > 0 ? weight * dot(value, e->output, width) / square : 0;
    }
    for (size_t j = 0; j < width; j++)
        off += pow((double)e->output[j] - sum_of_channel(e, NULL, 0, e->n_keys, j), 2);
    e->error = square > 0 ? sqrt(off / square) : sqrt(off);
}

bool explanation_compute(Explanation *e, Error *error) {
    size_t most = e->position + 1, width = head_dim(e);
    e->n_keys = 0;
    e->keys = malloc(most * sizeof *e->keys);
    e->values = malloc(most * width * sizeof *e->values);
    e->output = calloc(width, sizeof *e->output);
    bool good = (e->keys && e->values && e->output) ||
                error_set(error, ERROR_MEMORY, "no memory for the values of %zu keys", most);
    good = good && run_prompt(e, error);
    const Error *device = device_error(e->session->model->device);
    if (good) read_values(e);
    if (good && device->code) good = error_copy(error, device);
    if (good)
        measure(e);
    else
        explanation_free(e);
    return good;
}

void explanation_free(Explanation *e) {
    free(e->keys);
    free(e->values);
    free(e->output);
    e->keys = NULL;
    e->values = e->output = NULL;
}

// ---- the table ----

// The heaviest first; equal ones by position.
static int by_weight(const void *a, const void *b) {
    const Contribution *x = *(const Contribution *const *)a, *y = *(const Contribution *const *)b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x < y ? -1 : 1;
}

// The keys first .. n_keys - 1 of `sorted` in one line: their length is that of their sum.
static void print_rest(const Explanation *e, const Contribution *const *sorted, size_t first) {
    double weight = 0, share = 0, square = 0;
    for (size_t i = first; i < e->n_keys; i++) {
        weight += (double)sorted[i]->weight;
        share += sorted[i]->share;
    }
    for (size_t j = 0; j < head_dim(e); j++)
        square += pow(sum_of_channel(e, sorted, first, e->n_keys, j), 2);
    output_print("%6.4f  %8.4f  %11.2f %%    the other %zu together\n", weight, sqrt(square),
                 100 * share, e->n_keys - first);
}

bool explanation_print(const Explanation *e, size_t most, Error *error) {
    char **labels = token_labels(e->session, e->tokens, error);
    const Contribution **sorted = labels ? malloc(e->n_keys * sizeof *sorted) : NULL;
    if (labels && !sorted) error_set(error, ERROR_MEMORY, "no memory for %zu keys", e->n_keys);
    bool good = sorted != NULL;
    if (good) {
        for (size_t i = 0; i < e->n_keys; i++)
            sorted[i] = &e->keys[i];
        qsort(sorted, e->n_keys, sizeof *sorted, by_weight);
        output_print("layer %d, head %d at position %zu, %s: the output as a sum over %zu keys\n\n"
                     "weight    length  of the output  key\n",
                     e->layer, e->head, e->position, labels[e->position], e->n_keys);
        size_t shown = most < e->n_keys ? most : e->n_keys;
        for (size_t i = 0; i < shown; i++)
            output_print("%6.4f  %8.4f  %11.2f %%  %3d  %s\n", (double)sorted[i]->weight,
                         sorted[i]->length, 100 * sorted[i]->share, sorted[i]->key,
                         labels[sorted[i]->key]);
        if (shown < e->n_keys) print_rest(e, sorted, shown);
        if (e->length > 0)
            output_print("\nThe output has length %.4f; the sum differs from it by %.1e of that.\n",
                         e->length, e->error);
        else
            output_print(
                "\nThe output is zero, and has no shares; the keys' sum has length %.4f.\n",
                e->error);
    }
    free(sorted);
    free(labels);
    return good;
}

// ---- numbers ----

void explanation_print_csv(const Explanation *e) {
    output_print("layer,head,query,key,id,weight,length,share\n");
    for (size_t i = 0; i < e->n_keys && output_good(); i++) {
        const Contribution *k = &e->keys[i];
        output_print("%d,%d,%zu,%d,%d,%.9g,%.9g,%.9g\n", e->layer, e->head, e->position, k->key,
                     e->tokens->ids[k->key], (double)k->weight, k->length, k->share);
    }
}

void explanation_print_json(const Explanation *e) {
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    writer_integer(&w, "layer", e->layer);
    writer_integer(&w, "head", e->head);
    writer_integer(&w, "query", (int64_t)e->position);
    writer_number(&w, "length", e->length);
    writer_number(&w, "error", e->length > 0 ? e->error : NAN);
    writer_floats(&w, "output", e->output, head_dim(e));
    writer_begin(&w, "keys", '[');
    for (size_t i = 0; i < e->n_keys && output_good(); i++) {
        const Contribution *k = &e->keys[i];
        writer_begin(&w, NULL, '{');
        writer_integer(&w, "key", k->key);
        writer_integer(&w, "id", e->tokens->ids[k->key]);
        writer_number(&w, "weight", (double)k->weight);
        writer_number(&w, "length", k->length);
        writer_number(&w, "share", k->share);
        writer_floats(&w, "value", e->values + i * head_dim(e), head_dim(e));
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}
