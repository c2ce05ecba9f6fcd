#include "commands/selftest/checks.h"

// Checks that use the open model come first; the last two open other ones.
static const Check CHECKS[N_CHECKS] = {
    {"cached = uncached", "cache", check_cache},
    {"prompt at once = token by token", "at_once", check_at_once},
    {"batched = one sequence at a time", "batch", check_batch},
    {"earlier logits ignore later tokens", "causal", check_causal},
    {"truncated = never extended", "truncate", check_truncate},
    {"a copied sequence continues the same", "copy", check_copy},
    {"softmax rows sum to 1", "softmax", check_softmax},
    {"repeated KV heads = grouped attention", "repeat_kv", check_repeat_kv},
    {"half = interleaved RoPE, permuted rows", "rope_pairing", check_rope_pairing},
    {"weightless norm and RoPE commute", "norm_commutes", check_norm_commutes},
    {"1, 2, 3 and 7 threads", "threads", check_threads},
    {"wq, wk stored in the other row order", "row_order", check_row_order},
};

const Check *selftest_check(int i) {
    return i >= 0 && i < N_CHECKS ? &CHECKS[i] : NULL;
}

bool selftest_run(const Check *check, Subject *s, Finding *f, Error *error) {
    *f = (Finding){.layer = -1, .position = -1};
    return (s->model || subject_reopen(s, NULL, error)) && check->run(s, f, error);
}
