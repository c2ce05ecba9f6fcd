#include "tests/support/sample_oracle.h"

#include "kernels/precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Token {
    float logit;
    int id;
    uint64_t weight;
    double key; // the smallest comes first, then the larger logit, then the lower id
} Token;

static int compare(const void *left, const void *right) {
    const Token *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id - b->id;
}

static uint64_t total(const Token *tokens, int n) {
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += tokens[i].weight;
    return sum;
}

// Sorts by key; how many it takes to reach a share of the weight, at least 1.
static int sort_and_cut(Token *tokens, int n, float share) {
    double wanted = (double)share * (double)total(tokens, n);
    qsort(tokens, (size_t)n, sizeof *tokens, compare);
    uint64_t sum = tokens[0].weight;
    int kept = 1;
    while (kept < n && (double)sum < wanted)
        sum += tokens[kept++].weight;
    return kept;
}

static int keep_typical(Token *tokens, int n, float share) {
    double sum = (double)total(tokens, n), entropy = 0.0;
    for (int i = 0; i < n; i++) {
        double p = (double)tokens[i].weight / sum;
        if (p > 0.0) entropy -= p * log_double(p);
    }
    for (int i = 0; i < n; i++) {
        double p = (double)tokens[i].weight / sum;
        tokens[i].key = p > 0.0 ? fabs(-log_double(p) - entropy) : INFINITY;
    }
    return sort_and_cut(tokens, n, share);
}

static int keep_likely(Token *tokens, int n, float min_p) {
    int kept = 1;
    for (int i = 1; i < n; i++)
        if ((double)tokens[i].weight >= (double)min_p * 0x1p40) tokens[kept++] = tokens[i];
    return kept;
}

// Exclude top choices: while the second likeliest has the share too, the likeliest goes.
static int leave_least_likely(Token *tokens, int n, float share) {
    double wanted = (double)share * (double)total(tokens, n);
    for (int i = 0; i < n; i++)
        tokens[i].key = -(double)tokens[i].logit;
    qsort(tokens, (size_t)n, sizeof *tokens, compare);
    for (; n > 1 && (double)tokens[1].weight >= wanted; n--)
        memmove(tokens, tokens + 1, (size_t)(n - 1) * sizeof *tokens);
    return n;
}

// Of tokens in order.
static int sample_from(Token *tokens, int n, const SampleRule *rule, float uniform) {
    if (rule->top_k && rule->top_k < n) n = rule->top_k;
    if (rule->top_p < 1.0f) n = sort_and_cut(tokens, n, rule->top_p);
    if (rule->min_p > 0.0f) n = keep_likely(tokens, n, rule->min_p);
    if (rule->typical_p < 1.0f) n = keep_typical(tokens, n, rule->typical_p);
    if (rule->xtc > 0.0f) n = leave_least_likely(tokens, n, rule->xtc);
    for (int i = 0; i < n; i++)
        tokens[i].key = tokens[i].id;
    qsort(tokens, (size_t)n, sizeof *tokens, compare);
    uint64_t u = (uint64_t)(uniform * 0x1p24f), sum = tokens[0].weight;
    uint64_t target = (uint64_t)((unsigned __int128)total(tokens, n) * u >> 24);
    int sampled = 0;
    while (sum <= target)
        sum += tokens[++sampled].weight;
    return tokens[sampled].id;
}

int sample_oracle(const float *logits, int n, const SampleRule *rule, float uniform) {
    float largest = -INFINITY;
    for (int t = 0; t < n; t++) {
        if (isnan(logits[t]) || logits[t] == INFINITY) return -1;
        largest = fmaxf(largest, logits[t]);
    }
    if (largest == -INFINITY) return 0;
    Token *tokens = malloc((size_t)n * sizeof *tokens);
    for (int t = 0; t < n; t++) {
        float e = exp_float((logits[t] - largest) / rule->temperature);
        tokens[t] = (Token){logits[t], t, (uint64_t)(0x1p40f * e), -(double)logits[t]};
    }
    qsort(tokens, (size_t)n, sizeof *tokens, compare);
    int sampled = sample_from(tokens, n, rule, uniform);
    free(tokens);
    return sampled;
}
