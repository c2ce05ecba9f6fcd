// Attention of one query at a time, as the paper has it (Vaswani et al. 2017, arXiv 1706.03762):
// scores of all visible keys, softmax, weighted sum of their values.
//
// Grouped queries (Ainslie et al. 2023, arXiv 2305.13245): with 6 query and 2 key-value heads
//
//   query head       0  1  2  3  4  5
//   key-value head   0  0  0  1  1  1        g = h / (n_heads / n_kv_heads)
//
// Sums are taken in double.
#include "kernels/limits.h"
#include "kernels/precision.h"
#include "kernels/reference/device.h"

#include <math.h>

// scores[0 .. p] = scale q . k[t], bent towards the cap; -infinity where the pattern hides the key;
// returns the largest.
static float attention_scores(float *scores, const float *q, const KvView *view, int sequence,
                              int g, int p, const AttentionShape *shape) {
    float largest = -INFINITY;
    for (int t = 0; t <= p; t++) {
        scores[t] = -INFINITY;
        if (!key_visible(&shape->pattern, p, t)) continue;
        const float *k = kv_vector(view, view->kv->keys, sequence, g, t);
        double dot = 0.0;
        for (int j = 0; j < shape->head_dim; j++)
            dot += (double)q[j] * (double)k[j];
        double score = dot * (double)shape->scale, cap = (double)shape->cap;
        scores[t] = (float)(cap > 0.0 ? cap * tanh(score / cap) : score);
        // Not fmaxf, which would lose a NaN.
        if (!(scores[t] <= largest)) largest = scores[t];
    }
    return largest;
}

// In place. The largest score is subtracted first, so that no exponential overflows.
static void softmax(float *scores, int count, float largest) {
    double sum = 0.0;
    for (int t = 0; t < count; t++)
        sum += scores[t] == -INFINITY ? 0.0 : exp((double)scores[t] - (double)largest);
    for (int t = 0; t < count; t++) {
        double e = scores[t] == -INFINITY ? 0.0 : exp((double)scores[t] - (double)largest);
        scores[t] = (float)(e / sum);
    }
}

static void weighted_values(float *out, const float *weights, const KvView *view, int sequence,
                            int g, int p, const AttentionShape *shape) {
    double *sums = view->kv->sums;
    for (int j = 0; j < shape->head_dim; j++)
        sums[j] = 0.0;
    for (int t = 0; t <= p; t++) {
        if (!key_visible(&shape->pattern, p, t)) continue;
        const float *v = kv_vector(view, view->kv->values, sequence, g, t);
        for (int j = 0; j < shape->head_dim; j++)
            sums[j] += (double)weights[t] * (double)v[j];
    }
    for (int j = 0; j < shape->head_dim; j++)
        out[j] = (float)sums[j];
}

// A product for each number of a key or value. The other heads of a group meet the same vectors.
static void count_reads(Device *device, Kv *kv, bool first_of_group) {
    size_t numbers = kv->vectors_read * (size_t)kv->shape.head_dim;
    kv->vectors_read = 0;
    device->counts.attention_products += numbers;
    if (first_of_group) device->counts.kv_read_bytes += numbers * kv_element_bytes(kv->shape.type);
}

void attention(Device *device, float *out, const float *q, const KvView *view, const Rows *rows,
               const AttentionShape *shape, float *weights_out) {
    if (device->error.code) return;
    int max_seq_len = view->kv->shape.max_seq_len;
    int group = shape->n_heads / shape->n_kv_heads; // query heads per key-value head
    float *scores = view->kv->scores;
    view->kv->vectors_read = 0;
    for (int i = 0; i < rows->n && !pass_stopped(device->stop); i++) {
        // A row reads the cache up to its own position. kv_write has put the keys and values of
        // all rows of the call there, so a prompt and single tokens give the same result.
        int p = rows->positions[i], sequence = rows->sequences[i];
        for (int h = 0; h < shape->n_heads; h++) {
            float largest = attention_scores(scores, q, view, sequence, h / group, p, shape);
            softmax(scores, p + 1, largest);
            weighted_values(out, scores, view, sequence, h / group, p, shape);
            count_reads(device, view->kv, h % group == 0);
            q += shape->head_dim;
            out += shape->head_dim;
            if (!weights_out) continue;
            for (int t = 0; t < max_seq_len; t++)
                weights_out[t] = t <= p ? scores[t] : 0.0f;
            weights_out += max_seq_len;
        }
    }
}

void attention_naive(Device *device, float *out, const float *q, const KvView *view,
                     const Rows *rows, const AttentionShape *shape, float *weights) {
    attention(device, out, q, view, rows, shape, weights);
}
