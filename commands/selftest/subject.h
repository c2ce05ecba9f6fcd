// The model under test (Subject) and what a check of it finds (Finding).
//
// A check computes one thing in two ways that mathematics says are the same, with the model's own
// weights and the kernels that generate text, and compares. Where kernels.h promises the same bits,
// the check wants the same bits; elsewhere it states a bound.
#pragma once

#include "model/model.h"

// ---- what a check finds ----

typedef struct Finding {
    const char *inapplicable; // why the identity says nothing about this model; NULL: it applies
    double bound;             // 0: the same bits are wanted
    uint64_t compared, different; // values compared; values whose bits differ
    double largest;               // largest difference; infinity where one side is NaN
    int layer, position;          // of the largest difference; -1: it has no layer, no position
} Finding;

bool finding_held(const Finding *f);

// Compares `count` values. Differences are divided by `scale`: 1, or what the bound is relative to.
void finding_compare(Finding *f, int layer, int position, const float *got, const float *wanted,
                     size_t count, double scale);

// ---- the model under test ----

// One model, one prompt, and reference logits: those of the prompt fed one token at a time.
typedef struct Subject {
    const Config *config;   // borrowed
    const Weights *weights; // borrowed
    ModelOptions options;   // of every model that is opened; threads and precision as asked for
    Model *model;           // the model that most checks use; NULL while another one is open

    int n;             // tokens of the prompt
    int32_t *ids;      // (n) the prompt
    int32_t *others;   // (n) other tokens, different from the prompt's at every position
    int32_t *sequence; // (n) the sequence that subject_feed writes to, once per row
    bool *wants;       // (n) positions whose logits are compared: all, or some evenly spaced
    int *row;          // (n) the row of `logits` that a position has
    float *logits;     // (n_rows, vocab_size) reference logits
    int n_rows;
    double bound; // of logits, where the backend is not batch-invariant; else 0: the same bits

    void (*progress)(void *context, double share); // of the running check; may be NULL
    void *progress_context;
} Subject;

enum { SELFTEST_MIN_TOKENS = 4 }; // of a prompt

// The longest prompt: a third of the context is left for the tokens that some checks add.
int subject_max_tokens(const Config *config);

// Opens the model and computes the reference logits. n is SELFTEST_MIN_TOKENS ..
// subject_max_tokens. False with the error of model_open or model_forward.
bool subject_open(Subject *s, const Config *config, const Weights *weights,
                  const ModelOptions *options, const int32_t *ids, int n, Error *error);
void subject_close(Subject *s); // zeroed or half-opened is fine

// Opens the model anew with the present options, and with other weights unless they are NULL. The
// open model is closed first, so that memory never holds two.
bool subject_reopen(Subject *s, const Weights *weights, Error *error);

// Feeds positions begin .. end - 1 of the prompt to a sequence, `step` rows a call, and compares
// their logits with the reference. `f` NULL: compares nothing.
typedef struct Feed {
    int sequence, begin, end, step;
} Feed;
bool subject_feed(Subject *s, Finding *f, const Feed *feed, Error *error);

// Compares the logits of the last call: its rows are the wanted positions of begin .. end - 1.
void subject_compare(const Subject *s, Finding *f, int begin, int end);
void subject_compare_row(const Subject *s, Finding *f, int position, const float *logits);

void subject_progress(const Subject *s, double share);
