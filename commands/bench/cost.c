// What a row of bench costs: the counts are model/cost.h's, sorted here by the instructions that
// the device computes them with.
#include "commands/bench/bench.h"

#include "kernels/limits.h"
#include "kernels/precision.h"
#include "model/cost.h"

static Work work_of(const Session *s, const BenchRow *row) {
    return (Work){.sequences = row->batch,
                  .start = row->depth,
                  .tokens = row->length,
                  .decode = !row->prefill,
                  .all_logits = row->prefill && s->options->all_logits,
                  .max_rows = s->model->options.max_rows,
                  .pattern = s->model->pattern};
}

size_t bench_weight_bytes(const Session *s) {
    Work token = {.sequences = 1, .tokens = 1, .decode = true, .max_rows = 1};
    WorkCost cost;
    work_cost(&cost, s->model, checkpoint_weights(s->checkpoint), &token);
    return (size_t)cost.total.weight_bytes;
}

// Sums by arithmetic: an activation has at most so many products with a weight.
enum { MAX_PRODUCTS = 3 };
typedef double Sums[PEAK_COUNT][MAX_PRODUCTS + 1];

static const DeviceMatrix *device_matrix_of(const Model *m, OperationId id, int l) {
    const DeviceLayer *layer = &m->layers[l];
    switch (id) {
    case OPERATION_WQ: return layer->wq.weight;
    case OPERATION_WK: return layer->wk.weight;
    case OPERATION_WV: return layer->wv.weight;
    case OPERATION_WO: return layer->wo.weight;
    case OPERATION_GATE: return layer->w_gate.weight;
    case OPERATION_UP: return layer->w_up.weight;
    case OPERATION_DOWN: return layer->w_down.weight;
    case OPERATION_HEAD: return m->head;
    default: return NULL;
    }
}

// A matrix that meets n rows in a pass.
static void add_matrix(Sums sums, const Model *m, OperationId id, int l, const Work *w, int n) {
    const DeviceMatrix *weight = device_matrix_of(m, id, l);
    if (!weight) return;
    Arithmetic arithmetic = project_arithmetic(m->device, weight, n);
    sums[arithmetic.kind][arithmetic.products] += matrix_flops(&m->config, id, w);
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
    Work work = work_of(s, row);
    double at_once = row->prefill ? row->length * row->batch : row->batch;
    int n = at_once < work.max_rows ? (int)at_once : (int)work.max_rows;
    Sums sums = {0};
    for (OperationId id = 0; id < OPERATION_HEAD; id++)
        for (int l = 0; l < s->config->n_layers; l++)
            add_matrix(sums, m, id, l, &work, n);
    add_matrix(sums, m, OPERATION_HEAD, 0, &work, work.all_logits ? n : (int)row->batch);
    BenchOperations operations = summed(sums);
    double of_attention = operation_flops(s->config, OPERATION_SCORES, &work) +
                          operation_flops(s->config, OPERATION_VALUES, &work);
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

double bench_decode_bytes(const Session *s, const BenchRow *row) {
    Work work = work_of(s, row);
    WorkCost cost;
    work_cost(&cost, s->model, checkpoint_weights(s->checkpoint), &work);
    return (cost.total.weight_bytes + cost.total.kv_query_bytes) / (row->length * row->batch);
}

static double head_product_seconds(const Session *s, int n) {
    return n ? device_product_seconds(s->model->device, n, s->config->vocab_size, s->config->dim)
             : 0;
}

// As model/forward.c asks for them: each matrix by itself, in passes of so many rows.
static double layer_product_seconds(const Session *s, int n) {
    double seconds = 0, rows, cols;
    for (OperationId id = 0; id < OPERATION_HEAD && n; id++)
        if (operation_shape(s->config, id, &rows, &cols))
            seconds += device_product_seconds(s->model->device, n, (int)rows, (int)cols);
    return seconds;
}

double bench_product_seconds(const Session *s, const BenchRow *row) {
    const Config *c = s->config;
    int n = (int)(row->length * row->batch), most = s->model->options.max_rows;
    double whole = n < most ? 0 : (n / most) * layer_product_seconds(s, most);
    double layers = c->n_layers * (whole + layer_product_seconds(s, n % most));
    if (!s->options->all_logits) return layers + head_product_seconds(s, (int)row->batch);
    whole = n < most ? 0 : (n / most) * head_product_seconds(s, most);
    return layers + whole + head_product_seconds(s, n % most);
}
