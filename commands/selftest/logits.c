// Identities of logits: the same text gives the same logits, however it is fed. On a
// batch-invariant backend the bits are the same; elsewhere (a GPU, whose prompt kernels sum in
// another order) the difference is within what `diff` allows two runs of the precision.
//
// Each check feeds the prompt, or a part of it, in one of these ways and compares with the
// reference logits of subject.c (one token per call).
#include "commands/selftest/checks.h"

#include <stdlib.h>
#include <string.h>

// All sequences, so that no check sees what another has left.
static void reset_cache(Subject *s) {
    for (int sequence = 0; sequence < s->options.n_sequences; sequence++)
        kv_cache_reset(&s->model->cache, sequence);
}

// Without a cache, every position feeds all tokens up to it again. This work grows with the square
// of the prompt, so only some positions are compared.
bool check_cache(Subject *s, Finding *f, Error *error) {
    enum { POSITIONS = 8 };
    for (int t = 0; t < s->n; t++) {
        int row = s->row[t];
        // POSITIONS of the rows that have reference logits, evenly spaced, the last among them.
        bool chosen = (row + 1) * POSITIONS / s->n_rows > row * POSITIONS / s->n_rows;
        if (!s->wants[t] || !chosen) continue;
        reset_cache(s);
        if (!model_forward(s->model, &(Batch){.n = t + 1, .tokens = s->ids}, error)) return false;
        subject_compare_row(s, f, t, model_logits(s->model, 0));
        subject_progress(s, (double)(t + 1) / s->n);
    }
    return true;
}

// The whole prompt, then 2 and 5 tokens per call: chunks that divide it evenly and that do not.
bool check_at_once(Subject *s, Finding *f, Error *error) {
    static const int STEPS[] = {1 << 30, 2, 5}; // rows per call
    for (int i = 0; i < 3; i++) {
        int step = STEPS[i] < s->n ? STEPS[i] : s->n;
        reset_cache(s);
        if (!subject_feed(s, f, &(Feed){0, 0, s->n, step}, error)) return false;
        subject_progress(s, (i + 1) / 3.0);
    }
    return true;
}

// Three sequences: the prompt, other tokens, and the prompt reversed.
static int32_t batch_token(const Subject *s, int sequence, int t) {
    if (sequence == 0) return s->ids[t];
    return sequence == 1 ? s->others[t] : s->ids[s->n - 1 - t];
}

enum { N_SEQUENCES = 3 };

// All rows of the three sequences in one call, interleaved.
static bool batched_prefill(Subject *s, Finding *f, Batch *batch, Error *error) {
    if (!model_forward(s->model, batch, error)) return false;
    subject_compare(s, f, 0, s->n);
    return true;
}

// The three decoded as a batch: a row of each per call; the logits of the prompt are compared.
static bool batched_decode(Subject *s, Finding *f, Batch *batch, Error *error) {
    for (int t = 0; t < s->n; t++) {
        Batch step = {.n = N_SEQUENCES,
                      .tokens = batch->tokens + t * N_SEQUENCES,
                      .sequences = batch->sequences,
                      .wants_logits = batch->wants_logits + t * N_SEQUENCES};
        if (!model_forward(s->model, &step, error)) return false;
        subject_compare(s, f, t, t + 1);
        subject_progress(s, 0.5 + 0.5 * (t + 1) / s->n);
    }
    return true;
}

// Sequence 0 is the prompt, the others are company: what they hold must not change its logits.
bool check_batch(Subject *s, Finding *f, Error *error) {
    size_t n = N_SEQUENCES * (size_t)s->n;
    int32_t *tokens = malloc(n * sizeof *tokens), *sequences = malloc(n * sizeof *sequences);
    bool *wants = calloc(n, sizeof *wants);
    bool good = tokens && sequences && wants;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for a batch");
    for (int i = 0; good && i < N_SEQUENCES * s->n; i++) {
        // Rows of one position together: sequences 1, 2, 0, 1, 2, 0, ...
        sequences[i] = (i + 1) % N_SEQUENCES; // the prompt's row comes last
        tokens[i] = batch_token(s, sequences[i], i / N_SEQUENCES);
        wants[i] = !sequences[i] && s->wants[i / N_SEQUENCES];
    }
    Batch batch = {N_SEQUENCES * s->n, tokens, NULL, sequences, wants, false};
    if (good) {
        reset_cache(s);
        good = batched_prefill(s, f, &batch, error);
    }
    if (good) {
        reset_cache(s);
        good = batched_decode(s, f, &batch, error);
    }
    free(tokens);
    free(sequences);
    free(wants);
    return good;
}

// With other tokens from `cut` on, the logits before it stay the same.
static bool check_cut(Subject *s, Finding *f, int cut, Error *error) {
    size_t n = (size_t)s->n;
    int32_t *tokens = malloc(n * sizeof *tokens);
    if (!tokens) return error_set(error, ERROR_MEMORY, "no memory for a batch");
    for (int t = 0; t < s->n; t++)
        tokens[t] = t < cut ? s->ids[t] : s->others[t];
    reset_cache(s);
    Batch batch = {.n = s->n, .tokens = tokens, .wants_logits = s->wants};
    bool good = model_forward(s->model, &batch, error);
    if (good) subject_compare(s, f, 0, cut);
    free(tokens);
    return good;
}

// Cut at a third, at two thirds, and in front of the last token.
bool check_causal(Subject *s, Finding *f, Error *error) {
    bool good = true;
    for (int i = 1; good && i <= 3; i++) {
        good = check_cut(s, f, i < 3 ? i * s->n / 3 : s->n - 1, error);
        subject_progress(s, i / 3.0);
    }
    return good;
}

// Feeds other tokens, half as many as the prompt has, behind what sequence 0 holds.
static bool feed_others(Subject *s, Error *error) {
    return model_forward(s->model, &(Batch){.n = s->n / 2, .tokens = s->others}, error);
}

// Extends the prompt, goes back to its half, and feeds the second half again.
bool check_truncate(Subject *s, Finding *f, Error *error) {
    int half = s->n / 2;
    reset_cache(s);
    if (!subject_feed(s, NULL, &(Feed){0, 0, s->n, s->n}, error) || !feed_others(s, error))
        return false;
    int left = kv_cache_go_back(&s->model->cache, 0, half);
    if (!subject_feed(s, f, &(Feed){0, left, s->n, 1}, error)) return false;
    subject_progress(s, 0.5);
    // Then from an empty cache: stale keys behind the end must not be read.
    kv_cache_truncate(&s->model->cache, 0, 0);
    return subject_feed(s, f, &(Feed){0, 0, half, half}, error);
}

// Copies a sequence at the half of the prompt; then both must continue independently.
bool check_copy(Subject *s, Finding *f, Error *error) {
    int half = s->n / 2;
    reset_cache(s);
    if (!subject_feed(s, NULL, &(Feed){0, 0, half, half}, error)) return false;
    kv_cache_copy(&s->model->cache, 1, 0);
    if (!feed_others(s, error)) return false; // only the original is extended
    if (!subject_feed(s, f, &(Feed){1, half, s->n, 1}, error)) return false;
    subject_progress(s, 0.5);
    int left = kv_cache_go_back(&s->model->cache, 0, half); // and the copy has not changed it
    return subject_feed(s, f, &(Feed){0, left, s->n, s->n}, error);
}

// The first three quarters in one call, the rest token by token.
static bool prompt_and_decode(Subject *s, Finding *f, Error *error) {
    int prompt = s->n - s->n / 4;
    return subject_feed(s, f, &(Feed){0, 0, prompt, prompt}, error) &&
           subject_feed(s, f, &(Feed){0, prompt, s->n, 1}, error);
}

// How work is divided among threads must not change a bit. 7 and 3 divide few widths evenly.
bool check_threads(Subject *s, Finding *f, Error *error) {
    static const int THREADS[] = {7, 3, 2, 1};
    int asked = s->options.threads;
    bool good = true;
    for (int i = 0; good && i < 4; i++) {
        s->options.threads = THREADS[i];
        good = subject_reopen(s, NULL, error);
        if (good && device_info(s->model->device)->threads != THREADS[i]) {
            f->inapplicable = "this backend has one thread";
            break;
        }
        good = good && prompt_and_decode(s, f, error);
        subject_progress(s, (i + 1) / 4.0);
    }
    s->options.threads = asked;
    return good;
}
