#include "commands/bench/cost.h"

#include "kernels/limits.h"
#include "kernels/precision.h"
#include "weights/quant.h"

BenchCost bench_cost(const Session *s) {
    const Weights *w = checkpoint_weights(s->checkpoint);
    BenchCost cost = {.bytes = matrix_bytes(&w->head)};
    cost.head = (double)w->head.rows * (double)w->head.cols;
    for (int l = 0; l < s->config->n_layers; l++) {
        const LayerWeights *layer = &w->layers[l];
        const Matrix *const all[] = {&layer->wq,     &layer->wk,   &layer->wv,    &layer->wo,
                                     &layer->w_gate, &layer->w_up, &layer->w_down};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            cost.bytes += matrix_bytes(all[i]);
            if (all[i]->data) cost.parameters += (double)all[i]->rows * (double)all[i]->cols;
        }
    }
    return cost;
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

double bench_operations(const Session *s, const BenchCost *cost, const BenchRow *row) {
    double tokens = row->length * row->batch;
    double logits = row->prefill ? row->batch : tokens;
    double keys = row->batch * keys_seen(s->config, row->depth, row->length);
    return 2 * cost->parameters * tokens + 2 * cost->head * logits + 4 * s->config->q_dim * keys;
}

double bench_decode_bytes(const Session *s, const BenchCost *cost, const BenchRow *row) {
    double element = (double)kv_element_bytes((KvType)s->options->kv);
    double keys = keys_seen(s->config, row->depth, row->length) / row->length;
    return (double)cost->bytes / row->batch + 2 * element * s->config->kv_dim * keys;
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
