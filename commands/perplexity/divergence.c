#include "commands/perplexity/divergence.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

bool divergence_init(Divergence *d, size_t rows, Error *error) {
    *d = (Divergence){.kl = calloc(rows ? rows : 1, sizeof *d->kl), .room = rows};
    return d->kl || error_set(error, ERROR_MEMORY, "out of memory for %zu rows", rows);
}

void divergence_free(Divergence *d) {
    free(d->kl);
    *d = (Divergence){0};
}

int likeliest(const float *logits, int count) {
    int best = 0;
    for (int i = 1; i < count; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

// In double throughout: what precisions differ by is down to 1e-10 nats, far below the 1e-7 that
// log_sum_exp (logprobs.h) is good for.
static double log_total(const float *logits, int count, double largest) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

void divergence_add(Divergence *d, const float *exact, const float *got, int vocab_size) {
    assert(d->count < d->room);
    int top_exact = likeliest(exact, vocab_size), top_got = likeliest(got, vocab_size);
    double of_exact = log_total(exact, vocab_size, (double)exact[top_exact]);
    double of_got = log_total(got, vocab_size, (double)got[top_got]);
    double kl = 0, squares = 0;
    for (int i = 0; i < vocab_size; i++) {
        double error = fabs((double)got[i] - (double)exact[i]);
        double log_p = (double)exact[i] - of_exact, log_q = (double)got[i] - of_got;
        kl += exp(log_p) * (log_p - log_q);
        squares += error * error;
        if (error > d->largest_error) d->largest_error = error;
    }
    d->kl[d->count++] = kl > 0 ? kl : 0; // rounding may leave -1e-17 of what is never negative
    d->sum_squares += squares / vocab_size;
    d->same_top += top_exact == top_got;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

DivergenceSummary divergence_summary(Divergence *d) {
    double n = (double)d->count, sum = 0;
    if (!d->count) return (DivergenceSummary){NAN, NAN, NAN, NAN, NAN, NAN};
    qsort(d->kl, d->count, sizeof *d->kl, by_size);
    for (size_t i = 0; i < d->count; i++)
        sum += d->kl[i];
    size_t p99 = d->count - d->count / 100 - 1; // all but the largest hundredth
    return (DivergenceSummary){sum / n,
                               d->kl[p99],
                               d->kl[d->count - 1],
                               (double)d->same_top / n,
                               d->largest_error,
                               sqrt(d->sum_squares / n)};
}
