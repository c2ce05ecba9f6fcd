// What the files of selftest share: the model under test, what a check finds, and the checks.
//
// A check computes one thing in two ways that mathematics says are the same, with the model's own
// weights and the kernels that make text, and compares. Where kernels.h promises the same bits it
// wants them; elsewhere it states a bound.
#pragma once

#include "model/model.h"

// One model, one prompt, and the logits that everything is held against.
typedef struct Subject {
    const Config *config;   // borrowed
    const Weights *weights; // borrowed
    ModelOptions options;   // of the models that are opened; threads and precision as asked for
    Model *model;           // the one that most checks use; NULL while another is open

    int n;             // tokens of the prompt
    int32_t *ids;      // (n) the prompt
    int32_t *others;   // (n) other tokens, different from the prompt's at every place
    int32_t *sequence; // (n) the sequence that subject_feed writes to, once per row
    bool *wants;       // (n) positions whose logits are compared: all, or some evenly spread
    int *row;          // (n) which row of `logits` a position has
    float *logits;     // (n_rows, vocab_size) token by token through the cache: the measure
    int n_rows;
    double bound; // of logits, where the backend does not promise the same bits for any rows; or 0

    void (*progress)(void *context, double share); // of the running check; may be NULL
    void *progress_context;
} Subject;

enum { SELFTEST_LEAST = 4 }; // tokens of a prompt

// How many tokens of a prompt the model has room for: some of the context is needed beside it.
int subject_room(const Config *config);

// Opens the model and computes the measure. n is SELFTEST_LEAST .. subject_room. False with what
// model_open or model_forward said.
bool subject_open(Subject *s, const Config *config, const Weights *weights,
                  const ModelOptions *options, const int32_t *ids, int n, Error *error);
void subject_close(Subject *s); // zeroed or half-opened is fine

// Opens the model anew with the options at hand and other weights where they are not NULL; the one
// that was open is closed first, so that there is never more than one in memory.
bool subject_reopen(Subject *s, const Weights *weights, Error *error);

// ---- what a check finds ----

typedef struct Finding {
    const char *inapplicable;     // why the identity says nothing about this model; NULL: it does
    double bound;                 // 0: the same bits are wanted
    uint64_t compared, different; // numbers; of these not the same bits
    double largest;               // difference; infinity where one side was not a number
    int layer, position;          // where that was; -1: not of a layer, of a position
} Finding;

bool finding_held(const Finding *f);

// Differences are divided by `scale`: 1, or what the bound is relative to.
void finding_compare(Finding *f, int layer, int position, const float *got, const float *wanted,
                     size_t count, double scale);

// ---- running ----

// Feeds positions begin .. end - 1 of the prompt to a sequence, `step` rows a call, and compares
// logits with the measure; `f` NULL: compares nothing.
typedef struct Feed {
    int sequence, begin, end, step;
} Feed;
bool subject_feed(Subject *s, Finding *f, const Feed *feed, Error *error);

// The logits of the call just made, `count` rows for the positions that are wanted from `begin` on.
void subject_compare(const Subject *s, Finding *f, int begin, int end);
void subject_compare_row(const Subject *s, Finding *f, int position, const float *logits);
void subject_progress(const Subject *s, double share);

// ---- the checks ----

typedef struct Check {
    const char *name; // the identity, in words
    const char *key;  // its name for scripts
    bool (*run)(Subject *s, Finding *f, Error *error);
} Check;

const Check *selftest_check(int i); // NULL behind the last; in the order in which they run

// Runs one of them. False where it could not be run at all.
bool selftest_run(const Check *check, Subject *s, Finding *f, Error *error);

// selftest_logits.c: one prompt, run in many ways
bool check_cache(Subject *s, Finding *f, Error *error);
bool check_at_once(Subject *s, Finding *f, Error *error);
bool check_batch(Subject *s, Finding *f, Error *error);
bool check_causal(Subject *s, Finding *f, Error *error);
bool check_truncate(Subject *s, Finding *f, Error *error);
bool check_copy(Subject *s, Finding *f, Error *error);
bool check_threads(Subject *s, Finding *f, Error *error);

// selftest_attention.c: what happens inside an attention block
bool check_softmax(Subject *s, Finding *f, Error *error);
bool check_repeat_kv(Subject *s, Finding *f, Error *error);

// selftest_rope.c, selftest_rows.c: two pairings of channels, two orders of rows
bool check_rope_pairing(Subject *s, Finding *f, Error *error);
bool check_norm_commutes(Subject *s, Finding *f, Error *error);
bool check_row_order(Subject *s, Finding *f, Error *error);

// What a forward pass over the last rows of the prompt showed, layer by layer. Freed with `block`.
typedef struct LayerStages {
    float *in;                  // (n, dim) what wq and wk read
    float *q;                   // (n, n_heads, head_dim) as projected
    float *q_placed, *k_placed; // (n, n_heads | n_kv_heads, head_dim) as attention takes them
    float *heads;               // (n, n_heads, head_dim) weighted sums of values
} LayerStages;

typedef struct Stages {
    int first, n; // positions first .. first + n - 1
    LayerStages *layers;
    float *block;
} Stages;

bool stages_collect(Stages *stages, Subject *s, Error *error);
void stages_free(Stages *stages);

// Some layer rotates? Else the finding says that RoPE's identities do not apply.
bool has_rope(const Subject *s, Finding *f);

// Which row of the half order stands at row r of the interleaved one (selftest_rope.c draws them).
size_t half_row(const Config *c, size_t r);
// An owned copy of `m` (free its data) whose rows lie in the half order, or in the interleaved one.
// Nothing in it says which. False: no memory.
bool matrix_reorder(Matrix *out, const Matrix *m, const Config *c, bool interleaved);

// Device memory with `count` floats from the host in it; NULL after a failure of the device.
float *device_floats(Device *device, const float *from, size_t count);
bool device_good(const Device *device, Error *error); // false with the device's own error
double largest_magnitude(const float *numbers, size_t count);
