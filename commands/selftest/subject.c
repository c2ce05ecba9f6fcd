// Opens the model under test, computes the reference logits, and compares others with them.
//
//   position   0  1  2  3  4  5  6  7       n = 8, n_rows = 4
//   wants      -  x  -  x  -  x  -  x       positions whose logits are compared
//   row        0  0  1  1  2  2  3  3       row of `logits` (n_rows, vocab_size), where wanted
#include "commands/selftest/subject.h"
#include "commands/shared/budget.h"
#include "kernels/precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A row of logits is as long as the vocabulary, so of a long prompt only some rows are compared.
// MAX_LOGITS: 16 MiB of floats; at least MIN_ROWS all the same, never more than MAX_ROWS.
enum { MAX_LOGITS = 4 << 20, MIN_ROWS = 4, MAX_ROWS = 64, MAX_ROWS_PER_PASS = 128 };

static int at_most(int a, int b) {
    return a < b ? a : b;
}

// Some checks add half as many tokens behind the prompt.
int subject_max_tokens(const Config *config) {
    return config->max_seq_len - (config->max_seq_len + 2) / 3;
}

// Positions whose logits are compared: all where they are few, else evenly spaced up to the last.
static void choose_positions(Subject *s) {
    int most = MAX_LOGITS / s->config->vocab_size;
    if (most < MIN_ROWS) most = MIN_ROWS;
    int rows = at_most(s->n, at_most(most, MAX_ROWS));
    for (int i = 1; i <= rows; i++)
        s->wants[(int64_t)i * s->n / rows - 1] = true;
    for (int t = 0; t < s->n; t++) {
        s->row[t] = s->n_rows;
        s->n_rows += s->wants[t];
    }
}

// Each id of the prompt plus a third of the vocabulary: different at every position.
static void make_others(Subject *s) {
    int step = s->config->vocab_size / 3 + 1;
    for (int t = 0; t < s->n; t++)
        s->others[t] = (s->ids[t] + step) % s->config->vocab_size;
}

// False: exit code 5; subject_close frees what there is.
static bool allocate(Subject *s, const int32_t *ids, Error *error) {
    size_t n = (size_t)s->n;
    s->ids = malloc(n * sizeof *s->ids);
    s->others = malloc(n * sizeof *s->others);
    s->sequence = malloc(n * sizeof *s->sequence);
    s->wants = calloc(n, sizeof *s->wants);
    s->row = malloc(n * sizeof *s->row);
    bool good = s->ids && s->others && s->sequence && s->wants && s->row;
    if (good) {
        memcpy(s->ids, ids, n * sizeof *ids);
        make_others(s);
        choose_positions(s);
        s->logits = malloc((size_t)s->n_rows * (size_t)s->config->vocab_size * sizeof(float));
    }
    return (good && s->logits) || error_set(error, ERROR_MEMORY, "no memory for the logits");
}

// The reference: one token per call.
static bool compute_reference(Subject *s, Error *error) {
    size_t vocab_size = (size_t)s->config->vocab_size;
    for (int t = 0; t < s->n; t++) {
        Batch batch = {.n = 1, .tokens = s->ids + t, .wants_logits = s->wants + t};
        if (!model_forward(s->model, &batch, error)) return false;
        if (s->wants[t])
            memcpy(s->logits + (size_t)s->row[t] * vocab_size, model_logits(s->model, 0),
                   vocab_size * sizeof(float));
        subject_progress(s, (double)(t + 1) / s->n);
    }
    return true;
}

// What `diff` allows between two runs of this precision and cache.
static double logits_bound(const Subject *s) {
    const char *precision = precision_name(s->options.precision), *kv = kv_name(s->options.kv_type);
    const char *precisions[] = {precision, precision}, *caches[] = {kv, kv};
    size_t count = (size_t)s->n_rows * (size_t)s->config->vocab_size;
    return budget_allows(budget_of_runs(precisions, caches), "logits",
                         largest_magnitude(s->logits, count));
}

// The bound is set after the reference is known, since it is relative to the largest logit.
bool subject_open(Subject *s, const Config *config, const Weights *weights,
                  const ModelOptions *options, const int32_t *ids, int n, Error *error) {
    s->config = config;
    s->weights = weights;
    s->n = n;
    if (!allocate(s, ids, error)) return false;
    s->options = *options;
    // Room for the tokens that some checks add; 3 sequences for the batch; and every wanted row of
    // a call.
    s->options.context = n + n / 2;
    s->options.n_sequences = 3;
    s->options.max_rows = at_most(3 * n, MAX_ROWS_PER_PASS);
    s->options.max_logit_rows = s->n_rows < 3 ? 3 : s->n_rows;
    if (!subject_reopen(s, NULL, error) || !compute_reference(s, error)) return false;
    if (!device_info(s->model->device)->batch_invariant) s->bound = logits_bound(s);
    return true;
}

void subject_close(Subject *s) {
    model_close(s->model);
    free(s->ids);
    free(s->others);
    free(s->sequence);
    free(s->wants);
    free(s->row);
    free(s->logits);
    *s = (Subject){0};
}

bool subject_reopen(Subject *s, const Weights *weights, Error *error) {
    model_close(s->model);
    s->model = model_open(s->config, weights ? weights : s->weights, &s->options, error);
    return s->model != NULL;
}

void subject_progress(const Subject *s, double share) {
    if (s->progress) s->progress(s->progress_context, share);
}

// ---- findings ----

bool finding_held(const Finding *f) {
    if (f->inapplicable || !f->compared) return false;
    return f->bound > 0 ? f->largest <= f->bound : !f->different;
}

// Bits are compared first, which is fast and also tells -0 from 0 and one NaN from another.
void finding_compare(Finding *f, int layer, int position, const float *got, const float *wanted,
                     size_t count, double scale) {
    if (!(scale > 0)) scale = 1;
    f->compared += count;
    if (!memcmp(got, wanted, count * sizeof *got)) return;
    for (size_t i = 0; i < count; i++) {
        if (!memcmp(&got[i], &wanted[i], sizeof *got)) continue;
        double difference = fabs((double)got[i] - (double)wanted[i]) / scale;
        // NaN on one side: larger than any bound.
        if (isnan(difference)) difference = INFINITY;
        if (!f->different++ || difference > f->largest) {
            f->largest = difference;
            f->layer = layer;
            f->position = position;
        }
    }
}

// ---- running ----

void subject_compare_row(const Subject *s, Finding *f, int t, const float *logits) {
    size_t vocab_size = (size_t)s->config->vocab_size;
    if (s->bound > f->bound) f->bound = s->bound;
    finding_compare(f, -1, t, logits, s->logits + (size_t)s->row[t] * vocab_size, vocab_size, 1);
}

void subject_compare(const Subject *s, Finding *f, int begin, int end) {
    for (int t = begin, i = 0; t < end; t++)
        if (s->wants[t]) subject_compare_row(s, f, t, model_logits(s->model, i++));
}

bool subject_feed(Subject *s, Finding *f, const Feed *feed, Error *error) {
    for (int t = 0; t < s->n; t++)
        s->sequence[t] = feed->sequence;
    for (int begin = feed->begin; begin < feed->end; begin += feed->step) {
        int end = at_most(begin + feed->step, feed->end);
        Batch batch = {.n = end - begin,
                       .tokens = s->ids + begin,
                       .sequences = s->sequence,
                       .wants_logits = s->wants + begin};
        if (!model_forward(s->model, &batch, error)) return false;
        if (f) subject_compare(s, f, begin, end);
    }
    return true;
}
