// Identities over logits: however a text is run, the model says the same. Where kernels.h promises
// the bits these want them; on a GPU, whose kernels for a prompt add in another order, they want
// what diff allows two runs of the precision.
#include "commands/selftest/selftest.h"

#include <stdlib.h>
#include <string.h>

static void forget(Subject *s) {
    for (int sequence = 0; sequence < s->options.n_sequences; sequence++)
        kv_cache_reset(&s->model->cache, sequence);
}

// Without a cache every step would run all tokens before it again. Some positions suffice: the work
// grows with the square of the prompt.
bool check_cache(Subject *s, Finding *f, Error *error) {
    enum { POSITIONS = 8 };
    for (int t = 0; t < s->n; t++) {
        int row = s->row[t];
        bool chosen = (row + 1) * POSITIONS / s->n_rows > row * POSITIONS / s->n_rows;
        if (!s->wants[t] || !chosen) continue;
        forget(s);
        if (!model_forward(s->model, &(Batch){.n = t + 1, .tokens = s->ids}, error)) return false;
        subject_compare_row(s, f, t, model_logits(s->model, 0));
        subject_progress(s, (double)(t + 1) / s->n);
    }
    return true;
}

bool check_at_once(Subject *s, Finding *f, Error *error) {
    static const int STEPS[] = {1 << 30, 2, 5}; // rows of a call
    for (int i = 0; i < 3; i++) {
        int step = STEPS[i] < s->n ? STEPS[i] : s->n;
        forget(s);
        if (!subject_feed(s, f, &(Feed){0, 0, s->n, step}, error)) return false;
        subject_progress(s, (i + 1) / 3.0);
    }
    return true;
}

// Three texts, token after token: the prompt, other tokens, and the prompt backwards.
static int32_t company_token(const Subject *s, int sequence, int t) {
    if (sequence == 0) return s->ids[t];
    return sequence == 1 ? s->others[t] : s->ids[s->n - 1 - t];
}

enum { COMPANY = 3 };

// All rows of the three texts in one call, their rows mixed.
static bool mixed_prompts(Subject *s, Finding *f, Batch *batch, Error *error) {
    if (!model_forward(s->model, batch, error)) return false;
    subject_compare(s, f, 0, s->n);
    return true;
}

// The three decoded side by side: a row of each in every call, the prompt's logits wanted.
static bool side_by_side(Subject *s, Finding *f, Batch *batch, Error *error) {
    for (int t = 0; t < s->n; t++) {
        Batch step = {.n = COMPANY,
                      .tokens = batch->tokens + t * COMPANY,
                      .sequences = batch->sequences,
                      .wants_logits = batch->wants_logits + t * COMPANY};
        if (!model_forward(s->model, &step, error)) return false;
        subject_compare(s, f, t, t + 1);
        subject_progress(s, 0.5 + 0.5 * (t + 1) / s->n);
    }
    return true;
}

bool check_batch(Subject *s, Finding *f, Error *error) {
    size_t n = COMPANY * (size_t)s->n;
    int32_t *tokens = malloc(n * sizeof *tokens), *sequences = malloc(n * sizeof *sequences);
    bool *wants = calloc(n, sizeof *wants);
    bool good = tokens && sequences && wants;
    if (!good) error_set(error, ERROR_MEMORY, "no memory for a batch");
    for (int i = 0; good && i < COMPANY * s->n; i++) {
        sequences[i] = (i + 1) % COMPANY; // the prompt's row comes last
        tokens[i] = company_token(s, sequences[i], i / COMPANY);
        wants[i] = !sequences[i] && s->wants[i / COMPANY];
    }
    Batch batch = {COMPANY * s->n, tokens, NULL, sequences, wants};
    if (good) {
        forget(s);
        good = mixed_prompts(s, f, &batch, error);
    }
    if (good) {
        forget(s);
        good = side_by_side(s, f, &batch, error);
    }
    free(tokens);
    free(sequences);
    free(wants);
    return good;
}

// Other tokens from `cut` on: the logits before it stay.
static bool check_cut(Subject *s, Finding *f, int cut, Error *error) {
    size_t n = (size_t)s->n;
    int32_t *tokens = malloc(n * sizeof *tokens);
    if (!tokens) return error_set(error, ERROR_MEMORY, "no memory for a batch");
    for (int t = 0; t < s->n; t++)
        tokens[t] = t < cut ? s->ids[t] : s->others[t];
    forget(s);
    Batch batch = {.n = s->n, .tokens = tokens, .wants_logits = s->wants};
    bool good = model_forward(s->model, &batch, error);
    if (good) subject_compare(s, f, 0, cut);
    free(tokens);
    return good;
}

bool check_causal(Subject *s, Finding *f, Error *error) {
    bool good = true;
    for (int i = 1; good && i <= 3; i++) {
        good = check_cut(s, f, i < 3 ? i * s->n / 3 : s->n - 1, error);
        subject_progress(s, i / 3.0);
    }
    return good;
}

// Half as many tokens again, of another text, behind what sequence 0 holds.
static bool digress(Subject *s, Error *error) {
    return model_forward(s->model, &(Batch){.n = s->n / 2, .tokens = s->others}, error);
}

bool check_truncate(Subject *s, Finding *f, Error *error) {
    int half = s->n / 2;
    forget(s);
    if (!subject_feed(s, NULL, &(Feed){0, 0, s->n, s->n}, error) || !digress(s, error))
        return false;
    kv_cache_truncate(&s->model->cache, 0, half);
    if (!subject_feed(s, f, &(Feed){0, half, s->n, 1}, error)) return false;
    subject_progress(s, 0.5);
    // Nothing kept, and then less than there was: what lies behind the end must not be seen.
    kv_cache_truncate(&s->model->cache, 0, 0);
    return subject_feed(s, f, &(Feed){0, 0, half, half}, error);
}

bool check_copy(Subject *s, Finding *f, Error *error) {
    int half = s->n / 2;
    forget(s);
    if (!subject_feed(s, NULL, &(Feed){0, 0, half, half}, error)) return false;
    kv_cache_copy(&s->model->cache, 1, 0);
    if (!digress(s, error)) return false; // what happens to the original
    if (!subject_feed(s, f, &(Feed){1, half, s->n, 1}, error)) return false;
    subject_progress(s, 0.5);
    kv_cache_truncate(&s->model->cache, 0, half); // nor has the copy touched it
    return subject_feed(s, f, &(Feed){0, half, s->n, s->n}, error);
}

// A prompt in one call, but for the last tokens, which come one by one.
static bool prompt_and_decode(Subject *s, Finding *f, Error *error) {
    int prompt = s->n - s->n / 4;
    return subject_feed(s, f, &(Feed){0, 0, prompt, prompt}, error) &&
           subject_feed(s, f, &(Feed){0, prompt, s->n, 1}, error);
}

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
