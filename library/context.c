// limpid_context: a model's weights on the device, and the cache. What comes from the caller is
// checked here, since model/ takes indices of its own callers at their word.
#include "base/processors.h"
#include "library/handles.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CONTEXT = 4096 }; // a longer one is asked for: its cache may take gigabytes

// ---- opening ----

_Static_assert(LIMPID_F32 == PRECISION_F32 + 1 && LIMPID_A16 == PRECISION_A16 + 1 &&
                   LIMPID_A8 == PRECISION_A8 + 1,
               "precisions are those of kernels.h, after a 0 for the default");
_Static_assert(LIMPID_KV_F32 == KV_F32 + 1 && LIMPID_KV_F16 == KV_F16 + 1 &&
                   LIMPID_KV_BF16 == KV_BF16 + 1,
               "and so are the types of the cache");

static bool check_range(const char *name, int value, int most, Error *error) {
    if (value >= 0 && value <= most) return true;
    return error_set(error, ERROR_USAGE, "%s: got %d, wanted 0 to %d", name, value, most);
}

static bool check_options(const limpid_options *o, const Config *config, Error *error) {
    enum { MOST = 1 << 20 }; // of what a larger number is a mistake
    return check_range("context", o->context, config_longest_context(config), error) &&
           check_range("sequences", o->sequences, MOST, error) &&
           check_range("threads", o->threads, PROCESSORS_MOST, error) &&
           check_range("precision", o->precision, LIMPID_A8, error) &&
           check_range("kv", o->kv, LIMPID_KV_BF16, error) &&
           check_range("max_rows", o->max_rows, MOST, error) &&
           check_range("max_logit_rows", o->max_logit_rows, MOST, error);
}

static ModelOptions model_options(const limpid_options *o, const Config *config) {
    int precision = o->precision ? o->precision : LIMPID_A16;
    int kv = o->kv ? o->kv : precision == LIMPID_F32 ? LIMPID_KV_F32 : LIMPID_KV_F16;
    int most = config->max_seq_len < DEFAULT_CONTEXT ? config->max_seq_len : DEFAULT_CONTEXT;
    return (ModelOptions){
        .threads = o->threads,
        .precision = (Precision)(precision - 1),
        .kv_type = (KvType)(kv - 1),
        .context = o->context ? o->context : most,
        .n_sequences = o->sequences,
        .max_rows = o->max_rows,
        .max_logit_rows = o->max_logit_rows,
        .progress = o->progress,
        .progress_context = o->user,
        .stop = o->stop,
        .full_cache = o->full_cache,
    };
}

static bool open_run(limpid_context *c, const limpid_options *options, Error *error) {
    const Config *config = c->model->config;
    if (!check_options(options, config, error)) return false;
    ModelOptions wanted = model_options(options, config);
    KeyPattern pattern = {0};
    if (options->pattern && !attention_pattern_parse(&pattern, options->pattern, error))
        return false;
    c->run = model_open(config, checkpoint_weights(c->model->checkpoint), &wanted, error);
    if (!c->run) return error_prefix(error, checkpoint_path(c->model->checkpoint));
    c->run->pattern = pattern;
    return checkpoint_check_whole(c->model->checkpoint, error);
}

limpid_context *limpid_context_open(limpid_model *model, const limpid_options *options,
                                    limpid_error *error) {
    static const limpid_options DEFAULTS = {0};
    Error cause = {0};
    bool given = model_given(model, &cause);
    limpid_context *c = given ? calloc(1, sizeof *c) : NULL;
    if (c) c->model = model;
    bool good = c ? open_run(c, options ? options : &DEFAULTS, &cause)
                  : error_set(&cause, ERROR_MEMORY, "no memory for a context");
    if (library_result(error, good, &cause)) return c;
    limpid_context_close(c);
    return NULL;
}

void limpid_context_close(limpid_context *c) {
    if (!c) return;
    model_close(c->run);
    free(c);
}

// ---- passes ----

static bool eval(limpid_context *c, const limpid_batch *batch, Error *error) {
    if (!context_given(c, error) || !library_given(batch, "batch", NULL, error) ||
        (batch->n > 0 && !library_given(batch->tokens, "tokens", NULL, error)))
        return false;
    Batch rows = {batch->n,         batch->tokens,       batch->positions,
                  batch->sequences, batch->wants_logits, false};
    bool good = model_forward(c->run, &rows, error);
    if (!good && (error->code == ERROR_NONFINITE || error->code == ERROR_MEMORY))
        model_forget(c->run, &rows);
    return good;
}

bool limpid_eval(limpid_context *c, const limpid_batch *batch, limpid_error *error) {
    Error cause = {0};
    return library_result(error, eval(c, batch, &cause), &cause);
}

const float *limpid_logits(const limpid_context *c, int i) {
    return c && i >= 0 && i < c->run->n_host_rows ? model_logits(c->run, i) : NULL;
}

// ---- the cache ----

int limpid_length(const limpid_context *c, int sequence) {
    bool there = c && sequence >= 0 && sequence < c->run->options.n_sequences;
    return there ? kv_cache_length(&c->run->cache, sequence) : -1;
}

int limpid_rewinds(const limpid_context *c, int sequence) {
    int length = limpid_length(c, sequence);
    return length < 0 ? -1 : kv_cache_lowest(&c->run->cache, sequence, length);
}

bool limpid_truncate(limpid_context *c, int sequence, int length) {
    if (length < 0 || length > limpid_length(c, sequence) ||
        (length && length < limpid_rewinds(c, sequence)))
        return false;
    kv_cache_truncate(&c->run->cache, sequence, length);
    return true;
}

bool limpid_copy(limpid_context *c, int to, int from) {
    if (limpid_length(c, to) < 0 || limpid_length(c, from) < 0) return false;
    kv_cache_copy(&c->run->cache, to, from);
    return true;
}

// ---- snapshots ----
//
// The parts, of as many positions as the length alone says; behind them, where some layer is a
// ring, the least length that the sequence can be cut to (u32): it may have lost more than that.

static KvSnapshot snapshot_of(const limpid_context *c, int length) {
    return (KvSnapshot){length, kv_cache_lowest(&c->run->cache, -1, length)};
}

static size_t trailer_bytes(const limpid_context *c) {
    return kv_cache_rings(&c->run->cache) ? sizeof(uint32_t) : 0;
}

size_t limpid_state_size(const limpid_context *c, int length) {
    if (!c || length < 0 || length > c->run->options.context) return 0;
    KvSnapshot all = snapshot_of(c, length);
    return length ? kv_cache_bytes(&c->run->cache, &all) + trailer_bytes(c) : 0;
}

static bool save(const limpid_context *c, int sequence, void *bytes, Error *error) {
    if (!context_given(c, error)) return false;
    const KvCache *cache = &c->run->cache;
    int length = limpid_length(c, sequence);
    if (length < 0) return error_set(error, ERROR_USAGE, "no sequence %d", sequence);
    char *at = bytes;
    KvSnapshot all = snapshot_of(c, length);
    bool good = !length || library_given(bytes, "bytes", NULL, error);
    for (int i = 0; good && length && i < kv_cache_parts(cache); i++) {
        good = kv_cache_save(cache, sequence, i, &all, at, error);
        at += kv_cache_part_bytes(cache, i, &all);
    }
    uint32_t lowest = (uint32_t)kv_cache_lowest(cache, sequence, length);
    if (good && length) memcpy(at, &lowest, trailer_bytes(c));
    return good;
}

bool limpid_save(const limpid_context *c, int sequence, void *bytes, limpid_error *error) {
    Error cause = {0};
    return library_result(error, save(c, sequence, bytes, &cause), &cause);
}

static bool check_state(const limpid_context *c, int sequence, int length, size_t size,
                        Error *error) {
    size_t wanted = limpid_state_size(c, length);
    if (limpid_length(c, sequence) < 0)
        return error_set(error, ERROR_USAGE, "no sequence %d", sequence);
    if (length < 0 || length > c->run->options.context)
        return error_set(error, ERROR_USAGE, "a state of %d tokens; the context has %d", length,
                         c->run->options.context);
    if (size == wanted) return true;
    return error_set(error, ERROR_USAGE, "a state of %d tokens has %zu bytes here, got %zu", length,
                     wanted, size);
}

static bool restore(limpid_context *c, int sequence, int length, const void *bytes, size_t size,
                    Error *error) {
    if (!context_given(c, error) || !check_state(c, sequence, length, size, error) ||
        (size && !library_given(bytes, "bytes", NULL, error)))
        return false;
    KvCache *cache = &c->run->cache;
    const char *at = bytes;
    KvSnapshot all = snapshot_of(c, length);
    uint32_t lowest = 0;
    if (length) memcpy(&lowest, at + size - trailer_bytes(c), trailer_bytes(c));
    if (lowest > (uint32_t)length)
        return error_set(error, ERROR_USAGE, "bytes that limpid_save has not written: %u of %d",
                         (unsigned)lowest, length);
    for (int i = 0; length && i < kv_cache_parts(cache); i++) {
        kv_cache_restore(cache, sequence, i, at, &all, length);
        at += kv_cache_part_bytes(cache, i, &all);
    }
    if ((int)lowest > all.lowest) all.lowest = (int)lowest;
    return kv_cache_restored(cache, sequence, &all, length, error);
}

bool limpid_restore(limpid_context *c, int sequence, int length, const void *bytes, size_t size,
                    limpid_error *error) {
    Error cause = {0};
    return library_result(error, restore(c, sequence, length, bytes, size, &cause), &cause);
}
