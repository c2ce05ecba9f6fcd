// The list of checks. Each is false where it could not be run at all; what it found is in `f`. A
// new check: its function here, a row in CHECKS (selftest.c), N_CHECKS.
#pragma once

#include "commands/selftest/subject.h"

typedef struct Check {
    const char *name; // the identity, in words
    const char *key;  // its name for scripts
    bool (*run)(Subject *s, Finding *f, Error *error);
} Check;

enum { N_CHECKS = 12 };
const Check *selftest_check(int i); // in the order in which they run; NULL after the last

// Opens the subject's model if it is closed, and runs the check.
bool selftest_run(const Check *check, Subject *s, Finding *f, Error *error);

// logits.c: one prompt, run in many ways
bool check_cache(Subject *s, Finding *f, Error *error);
bool check_at_once(Subject *s, Finding *f, Error *error);
bool check_batch(Subject *s, Finding *f, Error *error);
bool check_causal(Subject *s, Finding *f, Error *error);
bool check_truncate(Subject *s, Finding *f, Error *error);
bool check_copy(Subject *s, Finding *f, Error *error);
bool check_threads(Subject *s, Finding *f, Error *error);

// attention.c: what happens inside an attention block
bool check_softmax(Subject *s, Finding *f, Error *error);
bool check_repeat_kv(Subject *s, Finding *f, Error *error);

// rope.c: rotary positions, computed with the other pairing of channels; norms beside them
bool check_rope_pairing(Subject *s, Finding *f, Error *error);
bool check_norm_commutes(Subject *s, Finding *f, Error *error);

// row_order.c: wq and wk stored in the other order of rows
bool check_row_order(Subject *s, Finding *f, Error *error);
