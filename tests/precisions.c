// What the precisions cost in exactness: the logits of a16 and a8 held against f32, on a real model
// and a real text. A JSON line for each precision:
//
//     precisions MODEL.gguf TEXT [TOKENS]
//
//   nll          mean negative log-likelihood of the next token, nats
//   max_error    largest difference of a logit;  rms_error: root of the mean square
//   kl           mean Kullback-Leibler divergence of the next-token distributions, nats
//   top1         share of positions where the most likely token is the same
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "weights/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WINDOW = 128, PRECISIONS = 3 };

typedef struct Sums {
    double nll, square, kl, top1, max_error;
    long rows;
} Sums;

static int largest(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

static double log_sum_exp(const float *logits, int n) {
    double max = logits[largest(logits, n)], sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp(logits[i] - max);
    return max + log(sum);
}

static void compare(Sums *s, const float *exact, const float *got, int n, int next) {
    double of_exact = log_sum_exp(exact, n), of_got = log_sum_exp(got, n);
    for (int i = 0; i < n; i++) {
        double error = fabs((double)got[i] - exact[i]);
        double p = exact[i] - of_exact, q = got[i] - of_got;
        s->square += error * error / n;
        s->kl += exp(p) * (p - q);
        if (error > s->max_error) s->max_error = error;
    }
    s->nll += of_got - got[next];
    s->top1 += largest(exact, n) == largest(got, n);
    s->rows++;
}

static void stop(const Error *error) {
    fprintf(stderr, "precisions: %s\n", error->message);
    exit(error->code);
}

static char *read_text(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(1 << 20);
    if (!file || !text) {
        fprintf(stderr, "precisions: cannot read %s\n", path);
        exit(4);
    }
    *length = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    static const char *const NAMES[PRECISIONS] = {"f32", "a16", "a8"};
    if (argc < 3) {
        fprintf(stderr, "usage: precisions MODEL.gguf TEXT [TOKENS]\n");
        return 2;
    }
    Error error = {0};
    Checkpoint *checkpoint = NULL;
    if (!checkpoint_open(&checkpoint, argv[1], &error)) stop(&error);
    TokenizerSource source = {.vocabulary = checkpoint_vocabulary(checkpoint)};
    Tokenizer *tokenizer = tokenizer_open(&source, &error);
    if (!tokenizer) stop(&error);
    size_t length, wanted = argc > 3 ? strtoul(argv[3], NULL, 10) : 2048;
    char *text = read_text(argv[2], &length);
    IdList ids = {0};
    if (!tokenizer_encode(tokenizer, &ids, text, length, false, &error)) stop(&error);

    Model *models[PRECISIONS];
    Sums sums[PRECISIONS] = {{0}};
    bool all[WINDOW];
    for (int i = 0; i < WINDOW; i++)
        all[i] = true;
    for (int p = 0; p < PRECISIONS; p++) {
        ModelOptions options = {.precision = (Precision)p,
                                .kv_type = p ? KV_F16 : KV_F32,
                                .context = WINDOW,
                                .max_logit_rows = WINDOW};
        models[p] = model_open(checkpoint_config(checkpoint), checkpoint_weights(checkpoint),
                               &options, &error);
        if (!models[p]) stop(&error);
    }
    int vocab_size = checkpoint_config(checkpoint)->vocab_size;
    for (size_t at = 0; at + WINDOW < ids.count && at < wanted; at += WINDOW) {
        Batch batch = {.n = WINDOW, .tokens = ids.ids + at, .wants_logits = all};
        for (int p = 0; p < PRECISIONS; p++) {
            kv_cache_reset(&models[p]->cache, 0);
            if (!model_forward(models[p], &batch, &error)) stop(&error);
            for (int i = 0; i < WINDOW; i++)
                compare(&sums[p], model_logits(models[0], i), model_logits(models[p], i),
                        vocab_size, ids.ids[at + (size_t)i + 1]);
        }
    }
    for (int p = 0; p < PRECISIONS; p++) {
        double n = (double)sums[p].rows;
        printf("{\"precision\":\"%s\",\"kv\":\"%s\",\"tokens\":%ld,\"nll\":%.6f,\"max_error\":%.3g,"
               "\"rms_error\":%.3g,\"kl\":%.3g,\"top1\":%.5f}\n",
               NAMES[p], p ? "f16" : "f32", sums[p].rows, sums[p].nll / n, sums[p].max_error,
               sqrt(sums[p].square / n), sums[p].kl / n, sums[p].top1 / n);
        model_close(models[p]);
    }
    free(text);
    id_list_free(&ids);
    tokenizer_close(tokenizer);
    checkpoint_close(checkpoint);
    return 0;
}
