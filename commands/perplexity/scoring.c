// The definitions of scoring.h in code. Sums are double: a text may have millions of tokens.
#include "commands/perplexity/scoring.h"

#include "commands/shared/logprobs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

// ---- windows ----

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

// Half-open ranges. The window is fed ids[begin .. end); the row of id t predicts id t + 1, so the
// scored ids lie in [begin + 1, end + 1).
bool text_window(TextWindow *w, const TextWindows *windows, size_t count, size_t i) {
    size_t size = windows->window, begin = i * windows->stride;
    if (count < 2 || (windows->max_windows && i >= windows->max_windows)) return false;
    if (windows->second_half) {
        size_t end = begin + size;
        // The last row is not needed: it would predict a token of the next window.
        *w = (TextWindow){begin, end - 1, begin + size / 2 + 1, end};
        return end <= count;
    }
    // The window before has scored up to its own end.
    size_t first = i ? begin - windows->stride + size + 1 : 1;
    *w = (TextWindow){begin, smaller(begin + size, count), first, smaller(begin + size + 1, count)};
    return first < count;
}

// By walking all windows, so that it cannot disagree with what is scored.
size_t text_windows_scored(const TextWindows *windows, size_t count, size_t *used) {
    size_t scored = 0;
    TextWindow w;
    *used = 0;
    for (size_t i = 0; text_window(&w, windows, count, i); i++) {
        scored += w.after - w.first;
        *used = w.after;
    }
    return scored;
}

// ---- perplexity ----

double score_add(Score *score, const float *logits, int vocab_size, int32_t id) {
    // -log softmax(logits)[id]
    double nll = log_sum_exp(logits, vocab_size) - (double)logits[id];
    score->count++;
    score->top1 += likeliest(logits, vocab_size) == id;
    score->sum += nll;
    score->sum_squares += nll * nll;
    return nll;
}

Figures score_figures(const Score *score) {
    double n = (double)score->count, mean = score->sum / n;
    // The standard error of e^mean by the delta method: e^mean times the standard error of the
    // mean. It treats the tokens as independent.
    double variance = n > 1 ? (score->sum_squares - n * mean * mean) / (n - 1) : NAN;
    double deviation = sqrt(variance > 0 ? variance : 0), perplexity = exp(mean);
    return (Figures){
        .mean = mean,
        .perplexity = perplexity,
        .error = n > 1 ? perplexity * deviation / sqrt(n) : NAN,
        .bits = score->bytes ? score->sum / log(2) / (double)score->bytes : NAN,
        .top1 = (double)score->top1 / n,
    };
}

// ---- divergence ----

bool divergence_init(Divergence *d, size_t rows, Error *error) {
    *d = (Divergence){.kl = calloc(rows ? rows : 1, sizeof *d->kl), .room = rows};
    return d->kl || error_set(error, ERROR_MEMORY, "out of memory for %zu rows", rows);
}

void divergence_free(Divergence *d) {
    free(d->kl);
    *d = (Divergence){0};
}

double divergence_add(Divergence *d, const float *exact, const float *got, int vocab_size) {
    assert(d->count < d->room);
    int top_exact = likeliest(exact, vocab_size), top_got = likeliest(got, vocab_size);
    // Double throughout: runs that differ by rounding have divergences down to 1e-10, which float32
    // would not resolve.
    double of_exact = log_sum_exp_f64(exact, vocab_size);
    double of_got = log_sum_exp_f64(got, vocab_size);
    double kl = 0, squares = 0;
    for (int i = 0; i < vocab_size; i++) {
        double error = fabs((double)got[i] - (double)exact[i]);
        double log_p = (double)exact[i] - of_exact, log_q = (double)got[i] - of_got;
        kl += exp(log_p) * (log_p - log_q);
        squares += error * error;
        if (error > d->largest_error) d->largest_error = error;
    }
    if (kl < 0) kl = 0; // never negative but for rounding
    d->kl[d->count++] = kl;
    d->sum_squares += squares / vocab_size;
    d->same_top += top_exact == top_got;
    return kl;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

DivergenceSummary divergence_summary(Divergence *d) {
    double n = (double)d->count, sum = 0;
    if (!d->count) return (DivergenceSummary){NAN, NAN, NAN, NAN, NAN, NAN};
    // Sorted for the percentile and the maximum; the sum is over rising values, which loses least.
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
