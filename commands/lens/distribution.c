// From a row of logits to a few numbers: its likeliest tokens, its entropy, how far it is from the
// row that counts in the end.
//
//   final_take     last row  -> probabilities f, sum f log f, the winner
//   lens_measure   any row   -> top tokens, p and rank of the winner, entropy, KL(f || p)
#include "commands/lens/distribution.h"

#include "commands/shared/logprobs.h"

#include <math.h>
#include <stdlib.h>

bool final_open(Final *f, int vocab_size, Error *error) {
    *f = (Final){.probabilities = malloc((size_t)vocab_size * sizeof *f->probabilities)};
    return f->probabilities ||
           error_set(error, ERROR_MEMORY, "no memory for %d probabilities", vocab_size);
}

void final_close(Final *f) {
    free(f->probabilities);
    f->probabilities = NULL;
}

void final_take(Final *f, const float *logits, int vocab_size) {
    double total = log_sum_exp_f64(logits, vocab_size);
    f->winner = likeliest(logits, vocab_size);
    f->negentropy = 0;
    for (int i = 0; i < vocab_size; i++) {
        double log_f = (double)logits[i] - total;
        f->probabilities[i] = exp(log_f);
        f->negentropy += f->probabilities[i] * log_f;
    }
}

// Whether token a comes before token b: by falling logit; of equals the lower id.
static bool comes_before(const LensToken *a, const LensToken *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

// Puts `token` where heap[at] was and on towards the leaves. A parent comes after its children.
static void sift(LensToken *heap, int count, int at, LensToken token) {
    for (int child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && comes_before(&heap[child], &heap[child + 1])) child++;
        if (!comes_before(&token, &heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = token;
}

// The root comes last of the best so far, so most tokens are compared with it alone, and --top of a
// whole vocabulary takes little longer than three.
void lens_find_top(LensToken *top, int count, const float *logits, int vocab_size) {
    for (int i = 0; i < count; i++)
        top[i] = (LensToken){.id = i, .logit = logits[i]};
    for (int i = count / 2 - 1; i >= 0; i--)
        sift(top, count, i, top[i]);
    for (int i = count; i < vocab_size; i++) {
        LensToken token = {.id = i, .logit = logits[i]};
        if (comes_before(&token, top)) sift(top, count, 0, token);
    }
    for (int n = count - 1; n > 0; n--) {
        LensToken last = top[0];
        sift(top, n, 0, top[n]);
        top[n] = last;
    }
}

static int rank_of(int id, const float *logits, int vocab_size) {
    int before = 0;
    for (int i = 0; i < vocab_size; i++)
        before += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
    return before + 1;
}

// With l the logits, Z = sum e^l:   H = log Z - sum p l,   KL = sum f log f - sum f l + log Z.
// Exponentials in float32 are good to 1e-7, sums are in float64.
LensCell lens_measure(LensToken *top, int count, const Final *f, const float *logits,
                      int vocab_size) {
    lens_find_top(top, count, logits, vocab_size);
    float largest = top->logit;
    double z = 0, sum_p = 0, sum_f = 0;
    for (int i = 0; i < vocab_size; i++) {
        float l = logits[i] - largest, e = expf(l);
        z += (double)e;
        sum_p += (double)e * (double)l;
        sum_f += f->probabilities[i] * (double)l;
    }
    double log_z = log(z), kl = f->negentropy - sum_f + log_z;
    for (int k = 0; k < count; k++)
        top[k].probability = (float)exp((double)top[k].logit - (double)largest - log_z);
    double of_winner = (double)logits[f->winner] - (double)largest - log_z;
    return (LensCell){.probability = (float)exp(of_winner),
                      .rank = rank_of(f->winner, logits, vocab_size),
                      .entropy = (float)((log_z - sum_p / z) / M_LN2),
                      .kl = (float)(kl > 0 ? kl / M_LN2 : 0)}; // below 0 by rounding only
}
