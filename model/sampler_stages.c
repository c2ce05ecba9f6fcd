// DRY and mirostat. A weight here is that of the backend's `sample`, so both see the same
// distribution to the last bit.
#include "model/sampler_stages.h"
#include "kernels/precision.h"

#include <float.h>
#include <math.h>

// ---- dry ----

static const DryBreaker *first_breaker(const DryOptions *dry, int32_t head) {
    size_t low = 0, high = dry->n_breakers;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (dry->breakers[middle].head < head)
            low = middle + 1;
        else
            high = middle;
    }
    return dry->breakers + low;
}

// Whether the breaker, whose head is `at` tokens back, stands there whole.
static bool breaks_at(const DryBreaker *b, const int *newest, int at) {
    if (b->tail_length > at) return false;
    for (int i = 0; i < b->tail_length; i++)
        if (newest[at - 1 - i] != b->tail[i]) return false;
    return true;
}

// How many tokens there are after the last breaker.
static int tokens_unbroken(const DryOptions *dry, const int *newest, int count) {
    if (!dry->n_breakers) return count;
    const DryBreaker *end = dry->breakers + dry->n_breakers;
    for (int i = 0; i < count; i++) {
        int longest = -1;
        for (const DryBreaker *b = first_breaker(dry, newest[i]); b < end && b->head == newest[i];
             b++)
            if (b->tail_length > longest && breaks_at(b, newest, i)) longest = b->tail_length;
        if (longest >= 0) return i - longest;
    }
    return count;
}

static bool holds_breaker(const DryOptions *dry, int32_t token) {
    if (!dry->n_breakers) return false;
    const DryBreaker *end = dry->breakers + dry->n_breakers;
    for (const DryBreaker *b = first_breaker(dry, token); b < end && b->head == token; b++)
        if (!b->tail_length) return true;
    return false;
}

// lengths[k] = how many tokens newest[0 ..] and newest[k ..] have in common from their beginnings:
// the Z-algorithm, one pass. [begin, end) is the match that reaches farthest so far.
//
//   newest    c b a . c b a . .      lengths[4] = 3: "a b c" is said again
//             0       4
static void match_lengths(const int *newest, int count, int *lengths) {
    int begin = 0, end = 0;
    for (int k = 1; k < count; k++) {
        int n = 0;
        if (k < end) n = lengths[k - begin] < end - k ? lengths[k - begin] : end - k;
        while (k + n < count && newest[n] == newest[k + n])
            n++;
        lengths[k] = n;
        if (k + n > end) begin = k, end = k + n;
    }
}

// base^exponent by multiplications, so that it is the same on every machine; at most FLT_MAX.
static float power(float base, int exponent) {
    double result = 1.0;
    for (int i = 0; i < exponent && result < (double)FLT_MAX; i++)
        result *= (double)base;
    return result < (double)FLT_MAX ? (float)result : FLT_MAX;
}

void dry_penalise(const DryOptions *dry, float *logits, const int *newest, int count, int *lengths,
                  int *longest) {
    if (dry->last >= 0 && count > dry->last) count = dry->last;
    if (!dry_is_on(dry) || count <= dry->allowed_length) return;
    int most = tokens_unbroken(dry, newest, count);
    if (most < dry->allowed_length) return;
    match_lengths(newest, count, lengths);
    for (int k = 1; k < count; k++) {
        int length = lengths[k] < most ? lengths[k] : most, token = newest[k - 1];
        // One more than it is: 0 says that the token has none.
        if (length >= dry->allowed_length && length >= longest[token]) longest[token] = length + 1;
    }
    for (int k = 1; k < count; k++) {
        int token = newest[k - 1], length = longest[token] - 1;
        longest[token] = 0;
        if (length >= 0 && !holds_breaker(dry, token))
            logits[token] -= dry->multiplier * power(dry->base, length - dry->allowed_length);
    }
}

// ---- mirostat ----

static uint64_t weight_of(float logit, float best, float temperature) {
    return (uint64_t)(exp_float((logit - best) / temperature) * 0x1p40f);
}

// Infinite where no token can be sampled: all are -infinity, or one is NaN or +infinity.
static float largest(const float *logits, int vocab_size) {
    float best = -INFINITY;
    for (int t = 0; t < vocab_size; t++) {
        if (isnan(logits[t])) return INFINITY;
        if (logits[t] > best) best = logits[t];
    }
    return best;
}

// p >= 2^-mu is weight >= 2^-mu total, and the largest weight is 2^40.
float mirostat_min_p(const float *logits, int vocab_size, float temperature, float mu) {
    uint64_t total = 0;
    float best = largest(logits, vocab_size);
    if (!isfinite(best)) return 1.0f;
    for (int t = 0; t < vocab_size; t++)
        total += weight_of(logits[t], best, temperature);
    double share = exp2(-(double)mu) * (double)total * 0x1p-40;
    return share < 1.0 ? (float)share : 1.0f;
}

double mirostat_surprise(const float *logits, int vocab_size, const SampleRule *rule, int token) {
    uint64_t total = 0;
    float best = largest(logits, vocab_size);
    if (!isfinite(best)) return NAN;
    for (int t = 0; t < vocab_size; t++) {
        uint64_t weight = weight_of(logits[t], best, rule->temperature);
        if ((double)weight >= (double)rule->min_p * 0x1p40) total += weight;
    }
    uint64_t own = weight_of(logits[token], best, rule->temperature);
    return own ? log2((double)total / (double)own) : NAN;
}
