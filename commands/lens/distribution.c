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

// Inserts where it belongs by falling logit; of equals the one that came first, the lower id,
// stays in front.
static void insert(LensToken *top, int count, int32_t id, float logit) {
    int at = count - 1;
    for (; at > 0 && top[at - 1].logit < logit; at--)
        top[at] = top[at - 1];
    top[at] = (LensToken){.id = id, .logit = logit};
}

void lens_find_top(LensToken *top, int count, const float *logits, int vocab_size) {
    for (int k = 0; k < count; k++)
        top[k] = (LensToken){.id = -1, .logit = -INFINITY};
    for (int i = 0; i < vocab_size; i++)
        if (logits[i] > top[count - 1].logit) insert(top, count, i, logits[i]);
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
