#include "commands/bench/bench.h"

#include "kernels/limits.h"
#include "kernels/precision.h"
#include "weights/quant.h"

size_t bench_weight_bytes(const Session *s) {
    const Weights *w = checkpoint_weights(s->checkpoint);
    size_t bytes = matrix_bytes(&w->head);
    for (int l = 0; l < s->config->n_layers; l++) {
        const LayerWeights *layer = &w->layers[l];
        const Matrix *const all[] = {&layer->wq,     &layer->wk,   &layer->wv,    &layer->wo,
                                     &layer->w_gate, &layer->w_up, &layer->w_down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            bytes += matrix_bytes(all[i]);
    }
    return bytes;
}

// Keys that `count` tokens from position `start` on see, over all layers.
static double keys_seen(const Config *c, double start, double count) {
    double sum = 0;
    for (int l = 0; l < c->n_layers; l++) {
        double mean = start + (count + 1) / 2, window = c->layers[l].window;
        sum += count * (window > 0 && window < mean ? window : mean);
    }
    return sum;
}

// Sums by arithmetic: an activation has at most so many products with a weight.
enum { MAX_PRODUCTS = 3 };
typedef double Sums[PEAK_COUNT][MAX_PRODUCTS + 1];

// A matrix (rows, cols) that meets `tokens` tokens, n in a pass.
static void add_matrix(Sums sums, Device *device, const DeviceMatrix *weight, double rows,
                       double cols, double tokens, int n) {
    if (!weight) return;
    Arithmetic arithmetic = project_arithmetic(device, weight, n);
    sums[arithmetic.kind][arithmetic.products] += 2 * rows * cols * tokens;
}

static void add_layer(Sums sums, const Model *m, const DeviceLayer *layer, double tokens, int n) {
    const Config *c = &m->config;
    const struct {
        const DeviceMatrix *weight;
        int rows, cols;
    } matrices[] = {
        {layer->wq.weight, c->q_dim, c->dim},          {layer->wk.weight, c->kv_dim, c->dim},
        {layer->wv.weight, c->kv_dim, c->dim},         {layer->wo.weight, c->dim, c->q_dim},
        {layer->w_gate.weight, c->hidden_dim, c->dim}, {layer->w_up.weight, c->hidden_dim, c->dim},
        {layer->w_down.weight, c->dim, c->hidden_dim}};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        add_matrix(sums, m->device, matrices[i].weight, matrices[i].rows, matrices[i].cols, tokens,
                   n);
}

static BenchOperations summed(Sums sums) {
    BenchOperations operations = {.most = {PEAK_FLOAT32, 1}};
    double most = 0;
    for (int kind = 0; kind < PEAK_COUNT; kind++)
        for (int products = 1; products <= MAX_PRODUCTS; products++) {
            double count = sums[kind][products];
            operations.all += count;
            operations.of_peak[kind] += products * count;
            if (count <= most) continue;
            most = count;
            operations.most = (Arithmetic){(PeakKind)kind, products};
        }
    return operations;
}

BenchOperations bench_operations(const Session *s, const BenchRow *row) {
    const Model *m = s->model;
    double tokens = row->length * row->batch, logits = row->prefill ? row->batch : tokens;
    double at_once = row->prefill ? tokens : row->batch;
    int n = at_once < m->options.max_rows ? (int)at_once : m->options.max_rows;
    Sums sums = {0};
    for (int l = 0; l < s->config->n_layers; l++)
        add_layer(sums, m, &m->layers[l], tokens, n);
    add_matrix(sums, m->device, m->head, s->config->vocab_size, s->config->dim, logits,
               (int)row->batch);
    BenchOperations operations = summed(sums);
    double keys = row->batch * keys_seen(s->config, row->depth, row->length);
    double of_attention = 4 * s->config->q_dim * keys;
    Arithmetic attention = attention_arithmetic(m->device, m->cache.kv, n);
    operations.all += of_attention;
    operations.of_peak[attention.kind] += attention.products * of_attention;
    return operations;
}

double bench_peak_seconds(const BenchOperations *operations, const LimitFigures *limits) {
    double seconds = 0;
    for (int kind = 0; kind < PEAK_COUNT; kind++)
        if (operations->of_peak[kind] > 0)
            seconds += operations->of_peak[kind] / limits->peaks[kind];
    return seconds;
}

double bench_decode_bytes(const Session *s, size_t weight_bytes, const BenchRow *row) {
    double element = (double)kv_element_bytes((KvType)s->options->kv);
    double keys = keys_seen(s->config, row->depth, row->length) / row->length;
    return (double)weight_bytes / row->batch + 2 * element * s->config->kv_dim * keys;
}

// As model/forward.c asks for them: each matrix by itself, in passes of so many rows.
static double layer_product_seconds(const Session *s, int n) {
    const Config *c = s->config;
    const int shapes[][2] = {{c->q_dim, c->dim},      {c->kv_dim, c->dim},
                             {c->kv_dim, c->dim},     {c->dim, c->q_dim},
                             {c->hidden_dim, c->dim}, {c->dim, c->hidden_dim},
                             {c->hidden_dim, c->dim}}; // the last: the gate
    int count = (int)(sizeof shapes / sizeof *shapes) - !c->gated_ffn;
    double seconds = 0;
    for (int i = 0; i < count && n; i++)
        seconds += device_product_seconds(s->model->device, n, shapes[i][0], shapes[i][1]);
    return seconds;
}

double bench_product_seconds(const Session *s, const BenchRow *row) {
    const Config *c = s->config;
    int n = (int)(row->length * row->batch), most = s->model->options.max_rows;
    double whole = n < most ? 0 : (n / most) * layer_product_seconds(s, most);
    return c->n_layers * (whole + layer_product_seconds(s, n % most)) +
           device_product_seconds(s->model->device, (int)row->batch, c->vocab_size, c->dim);
}
