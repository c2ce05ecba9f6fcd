// log softmax(logits)[i] = logits[i] - log sum_j e^logits[j].
#include "commands/shared/logprobs.h"
#include "commands/shared/output.h"
#include "kernels/precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The likeliest token that comes after `id` in order (falling logit, then rising id); -1: the first
// of all. The few that are printed take one pass each over the vocabulary, less than a sort.
static int next_likeliest(const float *logits, int count, int id) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        bool after = id < 0 || logits[i] < logits[id] || (logits[i] == logits[id] && i > id);
        if (after && (best < 0 || logits[i] > logits[best])) best = i;
    }
    return best;
}

int likeliest(const float *logits, int count) {
    return next_likeliest(logits, count, -1);
}

// The largest is subtracted first, so that no exponential overflows. Not by the C library, whose
// logarithm has other last bits on other machines.
double log_sum_exp(const float *logits, int count) {
    float largest = logits[likeliest(logits, count)];
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += exp_float(logits[i] - largest);
    return largest + log_double(sum);
}

// As log_sum_exp, slower and to the last bits of double.
double log_sum_exp_f64(const float *logits, int count) {
    double largest = logits[likeliest(logits, count)], sum = 0;
    for (int i = 0; i < count; i++)
        sum += exp((double)logits[i] - largest);
    return largest + log(sum);
}

// The members of one token; a log probability of minus infinity is printed as null.
static void put_token(JsonWriter *w, const Logprobs *l, int32_t id, const char *piece,
                      size_t length, double logprob) {
    writer_integer(w, "id", id);
    if (l->tokenizer) writer_text(w, "text", piece, length);
    writer_number(w, "logprob", logprob);
}

void logprobs_print(const Logprobs *l, int32_t id, const float *logits, const char *piece,
                    size_t length) {
    double total = log_sum_exp(logits, l->vocab_size);
    JsonWriter w = {0};
    writer_begin(&w, NULL, '{');
    put_token(&w, l, id, piece, length, logits[id] - total);
    writer_begin(&w, "top", '[');
    for (int n = 0, other = -1; n < l->count; n++) {
        other = next_likeliest(logits, l->vocab_size, other);
        if (other < 0) break;
        size_t other_length = 0;
        const char *text = "";
        if (l->tokenizer) text = tokenizer_piece(l->tokenizer, other, false, false, &other_length);
        writer_begin(&w, NULL, '{');
        put_token(&w, l, other, text, other_length, logits[other] - total);
        writer_end(&w, '}');
    }
    writer_end(&w, ']');
    writer_end(&w, '}');
    writer_line(&w);
}
