// The next token from the logits: sorts all tokens, then cuts the list. kernels.h has the
// definition.
//
// top_k keeps a fixed number of tokens; top_p (Holtzman et al. 2019, arXiv 1904.09751) the fewest
// that together have that probability; min_p those with at least that share of the largest
// probability; typical_p those whose surprise, -log p, is nearest to the entropy; xtc all but
// the least likely of the tokens that have at least that probability.
#include "kernels/precision.h"
#include "kernels/reference/device.h"

#include <math.h>

// The lowest of the ids with the largest logit; -1 where a logit is NaN.
static int largest_logit(const float *logits, int vocab_size) {
    int best = 0;
    for (int t = 0; t < vocab_size; t++) {
        if (isnan(logits[t])) return -1;
        if (logits[t] > logits[best]) best = t;
    }
    return best;
}

typedef bool Before(const Candidate *a, const Candidate *b);

static bool by_logit(const Candidate *a, const Candidate *b) {
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static bool by_id(const Candidate *a, const Candidate *b) {
    return a->id < b->id;
}

static bool by_surprise(const Candidate *a, const Candidate *b) {
    return a->surprise != b->surprise ? a->surprise < b->surprise : by_logit(a, b);
}

// Lets c[root] sink to its place in a heap whose root is the last in order.
static void heap_sink(Candidate *c, size_t root, size_t count, Before *before) {
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && before(&c[child], &c[child + 1])) child++;
        if (!before(&c[root], &c[child])) return;
        Candidate swapped = c[root];
        c[root] = c[child];
        c[child] = swapped;
    }
}

// Heapsort: in place, where qsort may allocate.
// Not a stable sort, but no two candidates are equal in any of the orders: the id decides at last.
static void sort(Candidate *c, size_t count, Before *before) {
    for (size_t root = count / 2; root-- > 0;)
        heap_sink(c, root, count, before);
    for (size_t last = count; last-- > 1;) {
        Candidate swapped = c[0];
        c[0] = c[last];
        c[last] = swapped;
        heap_sink(c, 0, last, before);
    }
}

static uint64_t total_weight(const Candidate *c, size_t count) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += c[i].weight;
    return total;
}

// Length of the shortest prefix that holds `share` of all the weight; at least 1.
static size_t prefix_with(const Candidate *c, size_t count, float share) {
    double wanted = (double)share * (double)total_weight(c, count);
    uint64_t sum = c[0].weight;
    size_t kept = 1;
    while (kept < count && (double)sum < wanted)
        sum += c[kept++].weight;
    return kept;
}

// Filters in place, so what stays is still in order.
static size_t cut_min_p(Candidate *c, size_t count, float min_p) {
    size_t kept = 1; // the first is the largest
    for (size_t i = 1; i < count; i++)
        if ((double)c[i].weight >= (double)min_p * 0x1p40) c[kept++] = c[i];
    return kept;
}

// The entropy is the surprise to be expected; what lies closest to it comes first, which need not
// be the most likely token.
static size_t cut_typical(Candidate *c, size_t count, float typical_p) {
    double total = (double)total_weight(c, count), entropy = 0.0;
    for (size_t i = 0; i < count; i++) {
        double p = (double)c[i].weight / total;
        if (p > 0.0) entropy -= p * log_double(p);
    }
    for (size_t i = 0; i < count; i++) {
        double p = (double)c[i].weight / total;
        c[i].surprise = p > 0.0 ? fabs(-log_double(p) - entropy) : INFINITY;
    }
    sort(c, count, by_surprise);
    return prefix_with(c, count, typical_p);
}

// The likeliest come first, so all with the share are a prefix; its last one stays.
static size_t cut_xtc(Candidate *c, size_t count, float share) {
    double wanted = (double)share * (double)total_weight(c, count);
    size_t likely = 0;
    sort(c, count, by_logit);
    while (likely < count && (double)c[likely].weight >= wanted)
        likely++;
    size_t gone = likely ? likely - 1 : 0;
    for (size_t i = gone; i < count; i++)
        c[i - gone] = c[i];
    return count - gone;
}

// From logits to one token; c is scratch for all candidates.
static int sample_row(Candidate *c, const float *logits, int vocab_size, const SampleRule *rule,
                      float uniform) {
    int best = largest_logit(logits, vocab_size);
    if (best < 0 || logits[best] == INFINITY) return -1;
    if (logits[best] == -INFINITY || rule->temperature == 0.0f) return best;
    size_t count = (size_t)vocab_size;
    for (int t = 0; t < vocab_size; t++) {
        float e = exp_float((logits[t] - logits[best]) / rule->temperature);
        c[t] = (Candidate){logits[t], t, (uint64_t)(e * 0x1p40f), 0.0};
    }
    sort(c, count, by_logit);
    if (rule->top_k > 0 && (size_t)rule->top_k < count) count = (size_t)rule->top_k;
    if (rule->top_p < 1.0f) count = prefix_with(c, count, rule->top_p);
    if (rule->min_p > 0.0f) count = cut_min_p(c, count, rule->min_p);
    if (rule->typical_p < 1.0f) count = cut_typical(c, count, rule->typical_p);
    if (rule->xtc > 0.0f) count = cut_xtc(c, count, rule->xtc);
    // Inverse transform: the line from 0 to the total is cut into one piece per token, and a point
    // on it, `uniform` of the way along, falls into one of them.
    sort(c, count, by_id);
    // A weight has up to 41 bits, their sum over a vocabulary some 18 more, `uniform` 24: the
    // product needs more than 64, but that of the upper and that of the lower part do not.
    uint64_t total = total_weight(c, count), share = (uint64_t)(uniform * 0x1p24f);
    uint64_t target = (total >> 24) * share + ((total & 0xffffff) * share >> 24), sum = 0;
    size_t i = 0;
    while ((sum += c[i].weight) <= target)
        i++;
    return c[i].id;
}

void sample(Device *device, int32_t *out, const float *logits, int n, int vocab_size,
            const SampleRule *rule, const float *uniform) {
    if (device->error.code) return;
    if ((size_t)vocab_size > device->max_matrix_rows) {
        error_set(&device->error, ERROR_DEVICE, "sample: room for %zu logits, got %d",
                  device->max_matrix_rows, vocab_size);
        return;
    }
    for (int i = 0; i < n; i++)
        out[i] = sample_row(device->candidates, logits + (size_t)i * (size_t)vocab_size, vocab_size,
                            rule, uniform ? uniform[i] : 0.0f);
}
