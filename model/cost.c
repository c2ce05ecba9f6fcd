// The formulas of cost.h, each once. A test compares them with what the plain loops of
// kernels/reference/ count while they run.
#include "model/cost.h"

#include "kernels/precision.h"

#include <math.h>
#include <stddef.h>

// ---- the matrices ----

// Where a matrix is in LayerWeights. -1: not in a layer.
static ptrdiff_t layer_offset(OperationId id) {
    switch (id) {
    case OPERATION_WQ: return offsetof(LayerWeights, wq);
    case OPERATION_WK: return offsetof(LayerWeights, wk);
    case OPERATION_WV: return offsetof(LayerWeights, wv);
    case OPERATION_WO: return offsetof(LayerWeights, wo);
    case OPERATION_GATE: return offsetof(LayerWeights, w_gate);
    case OPERATION_UP: return offsetof(LayerWeights, w_up);
    case OPERATION_DOWN: return offsetof(LayerWeights, w_down);
    default: return -1;
    }
}

const char *operation_name(OperationId id) {
    static const char *const NAMES[] = {"embedding", "norms, biases", "wq",     "wk",
                                        "wv",        "scores",        "values", "wo",
                                        "w_gate",    "w_up",          "w_down", "head"};
    return NAMES[id];
}

bool operation_shape(const Config *c, OperationId id, double *rows, double *cols) {
    bool narrows = id == OPERATION_WO || id == OPERATION_DOWN;
    bool ffn = id == OPERATION_GATE || id == OPERATION_UP || id == OPERATION_DOWN;
    if ((id != OPERATION_HEAD && layer_offset(id) < 0) || (id == OPERATION_GATE && !c->gated_ffn))
        return false;
    double wide = ffn ? c->hidden_dim : c->q_dim;
    if (id == OPERATION_WK || id == OPERATION_WV) wide = c->kv_dim;
    if (id == OPERATION_HEAD) wide = c->vocab_size;
    *rows = narrows ? c->dim : wide;
    *cols = narrows ? wide : c->dim;
    return true;
}

Matrix *operation_matrix(const Weights *w, OperationId id, int layer) {
    ptrdiff_t offset = layer_offset(id);
    if (id == OPERATION_HEAD) return (Matrix *)(uintptr_t)&w->head;
    return offset < 0 ? NULL : (Matrix *)((char *)&w->layers[layer] + offset);
}

// ---- the work ----

static double work_rows(const Work *w) {
    return w->sequences * w->tokens;
}

static double logit_rows(const Work *w) {
    return w->decode || w->all_logits ? work_rows(w) : w->sequences;
}

double work_passes(const Work *w) {
    if (w->decode) return w->tokens * ceil(w->sequences / w->max_rows);
    return ceil(work_rows(w) / w->max_rows);
}

// Passes in which a row wants logits. The sequences of a prompt follow one another.
static double head_passes(const Work *w) {
    double passes = 0, last = -1;
    if (w->decode || w->all_logits) return work_passes(w);
    for (double q = 1; q <= w->sequences; q++) {
        double pass = floor((q * w->tokens - 1) / w->max_rows);
        passes += pass > last;
        last = pass;
    }
    return passes;
}

double matrix_flops(const Config *c, OperationId id, const Work *w) {
    double rows, cols;
    if (!operation_shape(c, id, &rows, &cols)) return 0;
    return 2 * rows * cols * (id == OPERATION_HEAD ? logit_rows(w) : work_rows(w));
}

double keys_seen(const Work *w, int window) {
    KeyPattern pattern = attention_pattern_within(&w->pattern, window);
    if (pattern.n_parts)
        return (double)attention_pattern_keys(&pattern, (int)w->start, (int)w->tokens);
    window = pattern.window;
    double n = w->tokens, whole = n; // so many queries see all that is before them
    if (window > 0) whole = fmin(fmax(window - w->start, 0), n);
    return whole * w->start + whole * (whole + 1) / 2 + (n - whole) * window;
}

// keys_seen of all layers: once for each window, since a pattern is counted row by row.
static double keys_of_layers(const Config *c, const Work *w) {
    double keys = 0;
    for (int l = 0; l < c->n_layers; l++) {
        int window = c->layers[l].window, earlier = 0, layers = 0;
        for (int k = 0; k < c->n_layers; k++) {
            earlier += k < l && c->layers[k].window == window;
            layers += c->layers[k].window == window;
        }
        if (!earlier) keys += layers * keys_seen(w, window);
    }
    return keys;
}

double operation_flops(const Config *c, OperationId id, const Work *w) {
    if (id != OPERATION_SCORES && id != OPERATION_VALUES)
        return matrix_flops(c, id, w) * (id == OPERATION_HEAD ? 1 : c->n_layers);
    return attention_flops(c, keys_of_layers(c, w) * w->sequences) / 2;
}

double model_flops(const Config *c, const Work *w) {
    double flops = 0;
    for (OperationId id = 0; id < OPERATION_IDS; id++)
        flops += operation_flops(c, id, w);
    return flops;
}

CacheSavings cache_savings(const Config *c, int n) {
    Work with = {.sequences = 1, .tokens = n, .decode = true};
    CacheSavings s = {.rows_with = n, .flops_with = model_flops(c, &with)};
    for (int t = 1; t <= n; t++) {
        s.rows_without += t;
        s.flops_without += model_flops(c, &(Work){.sequences = 1, .tokens = t});
    }
    return s;
}

// Keys of one sequence that are read where a pass reads each once: those that its rows see.
static double keys_read(const Work *w, int window) {
    if (w->decode) return keys_seen(w, window);
    double sum = 0;
    KeyPattern pattern = attention_pattern_within(&w->pattern, window);
    for (double begin = 0; begin < w->tokens; begin += w->max_rows)
        sum += attention_pattern_read(&pattern, (int)(w->start + begin),
                                      (int)fmin(w->max_rows, w->tokens - begin));
    return sum;
}

double attention_flops(const Config *c, double pairs) {
    return 4.0 * c->q_dim * pairs;
}

double score_bytes(const Config *c, double queries, double keys, double element_bytes) {
    return c->n_heads * queries * keys * element_bytes;
}

static double key_bytes(const Config *c, KvType type) { // of one layer and position
    return (double)c->kv_dim * (double)kv_element_bytes(type);
}

double kv_needed_bytes(const Config *c, const KeyPattern *pattern, double positions, KvType type) {
    Work last = {.start = positions - 1, .tokens = 1};
    if (pattern) last.pattern = *pattern;
    return 2 * key_bytes(c, type) * keys_of_layers(c, &last);
}

// ---- the operations ----

static Operation *add_operation(WorkCost *cost, OperationId id, int layers) {
    Operation *o = &cost->operations[cost->count++];
    *o = (Operation){.id = id, .layers = layers};
    return o;
}

static double row_bytes(const Matrix *m) {
    return m->data ? (double)matrix_bytes(m) / (double)m->rows : 0;
}

static void add_matrix(WorkCost *cost, const Model *m, const Weights *weights, OperationId id,
                       const Work *w) {
    const Config *c = &m->config;
    double rows, cols, bytes = 0;
    bool head = id == OPERATION_HEAD;
    if (!operation_shape(c, id, &rows, &cols)) return;
    Operation *o = add_operation(cost, id, head ? 1 : c->n_layers);
    for (int l = 0; l < o->layers; l++)
        bytes += (double)matrix_bytes(operation_matrix(weights, id, l));
    o->flops = matrix_flops(c, id, w) * o->layers;
    o->weight_bytes = bytes * (head ? head_passes(w) : work_passes(w));
    o->activation_bytes =
        (rows + cols) * (head ? logit_rows(w) : work_rows(w)) * sizeof(float) * o->layers;
    if (id == OPERATION_WK || id == OPERATION_WV)
        o->kv_written_bytes = work_rows(w) * key_bytes(c, m->options.kv_type) * o->layers;
}

// Norms are read once a pass, the final norm once for every run of rows that want logits.
static void add_ends(WorkCost *cost, const Model *m, const Weights *weights, const Work *w) {
    const Config *c = &m->config;
    Operation *o = add_operation(cost, OPERATION_EMBEDDING, 1);
    o->weight_bytes = work_rows(w) * (row_bytes(&weights->token_embedding) +
                                      row_bytes(&weights->position_embedding));
    o->activation_bytes = work_rows(w) * c->dim * sizeof(float);
    double last = (double)c->dim * (weights->final_norm_bias ? 2 : 1) * sizeof(float);
    double runs = w->decode || w->all_logits || w->tokens == 1 ? head_passes(w) : w->sequences;
    o = add_operation(cost, OPERATION_VECTORS, c->n_layers);
    o->weight_bytes = ((double)m->weight_bytes.vectors - last) * work_passes(w) + last * runs;
}

// Layers with the same window are one row each for scores and values. Layers with still another
// window, which no known model has, join the last row.
static void add_attention(WorkCost *cost, const Model *m, OperationId id, const Work *w) {
    const Config *c = &m->config;
    int first = cost->count;
    // Of the window that a row had last: a pattern takes time for every position.
    struct {
        int window;
        double keys, read;
    } of_row[MOST_WINDOWS];
    for (int l = 0; l < c->n_layers; l++) {
        int window = c->layers[l].window, at = first;
        while (at < cost->count && cost->operations[at].window != window)
            at++;
        if (at == first + MOST_WINDOWS) at--;
        Operation *o = &cost->operations[at];
        int row = at - first;
        bool is_new = at == cost->count;
        if (is_new) add_operation(cost, id, 0)->window = window;
        double bytes = key_bytes(c, m->options.kv_type);
        if (is_new || of_row[row].window != window) {
            of_row[row].window = window;
            of_row[row].keys = keys_seen(w, window) * w->sequences;
            of_row[row].read = keys_read(w, window) * w->sequences;
        }
        o->layers++;
        o->flops += attention_flops(c, of_row[row].keys) / 2;
        o->kv_query_bytes += of_row[row].keys * bytes;
        o->kv_bytes += of_row[row].read * bytes;
        o->activation_bytes += work_rows(w) * c->q_dim * sizeof(float);
    }
}

static void sum_up(WorkCost *cost) {
    cost->total = (Operation){.layers = 1};
    for (int i = 0; i < cost->count; i++) {
        const Operation *o = &cost->operations[i];
        cost->total.flops += o->flops;
        cost->total.weight_bytes += o->weight_bytes;
        cost->total.kv_bytes += o->kv_bytes;
        cost->total.kv_query_bytes += o->kv_query_bytes;
        cost->total.kv_written_bytes += o->kv_written_bytes;
        cost->total.activation_bytes += o->activation_bytes;
    }
}

void work_cost(WorkCost *cost, const Model *m, const Weights *weights, const Work *w) {
    cost->count = 0;
    add_ends(cost, m, weights, w);
    for (OperationId id = OPERATION_WQ; id < OPERATION_IDS; id++) {
        if (id == OPERATION_SCORES || id == OPERATION_VALUES)
            add_attention(cost, m, id, w);
        else
            add_matrix(cost, m, weights, id, w);
    }
    sum_up(cost);
}

double operation_intensity(const Operation *o) {
    double bytes = o->weight_bytes + o->kv_bytes + o->kv_written_bytes + o->activation_bytes;
    return bytes > 0 ? o->flops / bytes : 0;
}

double parameter_count(const Model *m, const Weights *weights) {
    const Config *c = &m->config;
    bool tied = weights->head.data == weights->token_embedding.data;
    double count = (double)m->weight_bytes.vectors / sizeof(float), rows, cols;
    for (OperationId id = 0; id < OPERATION_IDS; id++)
        if (operation_shape(c, id, &rows, &cols))
            count += id == OPERATION_HEAD ? (tied ? 0 : rows * cols) : rows * cols * c->n_layers;
    count += (double)weights->token_embedding.rows * c->dim;
    return count + (weights->position_embedding.data ? (double)c->max_seq_len * c->dim : 0);
}

HeadCost head_cost(const Config *c, int n_kv_heads, double positions, KvType type) {
    double kv_dim = (double)n_kv_heads * c->head_dim;
    return (HeadCost){.parameters = 2.0 * c->dim * (c->q_dim + kv_dim),
                      .kv_parameters = 2.0 * c->dim * kv_dim,
                      .kv_bytes = 2 * kv_dim * positions * (double)kv_element_bytes(type)};
}

double product_intensity(double m, double k, double n, double element_bytes) {
    return 2 * m * k * n / ((m * k + k * n + m * n) * element_bytes);
}
