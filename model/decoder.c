// Alternates sampling and forward passes. The device runs ahead of the host by the pipeline depth.
//
// One call of decoder_next is: begin as many steps as the depth allows, then wait for the oldest
// token that the host has not read. Two modes, chosen in decoder_begin:
//
//   on the device   forward_sampled: the token goes from `sample` straight to the next pass; the
//                   host reads it later, from a slot. The logits never leave the device.
//   stepwise        model_forward for every token: the host gets and checks the logits each time.
//
// Counters, with a depth of 2 after three tokens were read:
//
//   token     0    1    2  |  3    4       |
//            read by host  | sampled ahead |      taken = 3, sampled = 5
#include "model/decoder.h"

#include "base/clock.h"
#include "model/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// Tokens of each sequence, options.first included, that the host has or had.
static int tokens_known(const Decoder *d) {
    return d->given + d->taken;
}

// The recompute buffer has room for a whole context, so that run_pass can append to it. False: exit
// code 5.
static bool copy_text(Decoder *d, Error *error) {
    size_t context = (size_t)d->model->options.context;
    d->text = malloc(context * sizeof *d->text);
    if (!d->text) return error_set(error, ERROR_MEMORY, "no memory for a text of %zu", context);
    memcpy(d->text, d->options.recompute, (size_t)d->start * sizeof *d->text);
    return true;
}

bool decoder_speculates(const Model *m, const char **why) {
    *why = NULL;
    if (model_has_listener(m)) *why = "what changes or reads the model's numbers";
    if (!device_info(m->device)->batch_invariant)
        *why = "a device whose rows depend on the size of the batch";
    return !*why;
}

bool decoder_begin(Decoder *d, Model *m, const DecoderOptions *options, Error *error) {
    *d = (Decoder){.model = m, .options = *options, .given = options->first != NULL};
    if (!d->options.n_sequences) d->options.n_sequences = 1;
    model_clear_stop(m);
    int n = d->options.n_sequences;
    d->start = kv_cache_length(&m->cache, 0);
    // The longest sequence reaches the end of the context first, and all sequences step together.
    int longest = d->start;
    for (int q = 1; q < n; q++)
        if (kv_cache_length(&m->cache, q) > longest) longest = kv_cache_length(&m->cache, q);
    int room = m->options.context - longest + 1 - d->given; // the last needs no place
    d->max_tokens = options->max_tokens < (size_t)room ? (int)options->max_tokens : room;
    // Everything that needs the logits on the host, or a pass of its own kind.
    d->stepwise = options->wants_logits || options->recompute || model_has_listener(m) ||
                  (options->sampler && !sampler_is_plain(options->sampler));
    const char *why;
    if (options->recompute || d->given || n > 1 || !decoder_speculates(m, &why))
        d->options.speculation = NULL;
    bool at_once = d->stepwise || d->options.speculation;
    d->depth = at_once ? 0 : device_info(m->device)->pipeline_depth;
    // With `first` the device begins with a pass, and greedily. Otherwise the prompt's pass has
    // left the logits of its last row, from which token 0 is sampled.
    assert(d->given ? !d->stepwise && !options->sampler : n == 1 && m->n_logit_rows == 1);
    if (options->recompute) return copy_text(d, error);
    if (d->stepwise) return true;
    if (d->given) {
        d->last = options->first[0];
        device_upload(m->device, m->scratch.sampled, options->first, (size_t)n * sizeof(int32_t));
    }
    forward_sampled_begin(m, n);
    return true;
}

int decoder_left(const Decoder *d) {
    return d->max_tokens - d->taken;
}

// ---- one step ----

// The cache has no position of a token that is not known, nor of the last one.
static void discard_passes(Decoder *d) {
    KvCache *cache = &d->model->cache;
    int known = tokens_known(d), wanted = known > 1 ? known - 1 : 0; // passes
    // Each pass has added one position to every sequence. With recompute every pass began from an
    // empty cache, so nothing is left over.
    for (int q = 0; q < d->options.n_sequences && !d->text; q++) {
        kv_cache_truncate(cache, q, kv_cache_length(cache, q) - (d->passes - wanted));
        kv_cache_settle(cache, q);
    }
    d->passes = wanted;
}

// The pass of the tokens sampled last. Stepwise, their logits come to the host and are checked.
static bool run_pass(Decoder *d, Error *error) {
    Model *m = d->model;
    Batch one = {.n = 1, .tokens = &d->last};
    d->n_rows = 1;
    d->row = 0;
    d->passes++;
    if (!d->stepwise) {
        if (d->drafted) forward_sampled_begin(m, 1);
        d->drafted = false;
        forward_sampled(m, m->scratch.sampled, d->options.n_sequences);
        return true;
    }
    if (!d->text) {
        // After a failure other than an interruption the row stays in the cache, so the pass still
        // counts.
        bool good = model_forward(m, &one, error);
        d->passes -= !good && model_stopped(m); // the cache does not hold it
        return good;
    }
    // Recompute: the new token goes behind the text, and the whole text runs through an empty
    // cache.
    int n = d->start + tokens_known(d);
    d->text[n - 1] = d->last;
    kv_cache_reset(&m->cache, 0);
    return model_forward(m, &(Batch){.n = n, .tokens = d->text}, error);
}

// ---- drafts ----

// The last token is the draft that the next row of the pass began with.
static bool next_row(Decoder *d) {
    if (d->row + 1 >= d->n_rows || d->tokens[d->row + 1] != d->last) return false;
    d->row++;
    return true;
}

// How many drafts a pass has room for. One for each token left but the first, which row 0 gives:
// so all of them fit the context.
static int most_drafts(const Decoder *d) {
    const ModelOptions *o = &d->model->options;
    int most = d->max_tokens - d->taken - 1, rows = o->max_rows;
    if (o->max_logit_rows < rows) rows = o->max_logit_rows;
    if (most > rows - 1) most = rows - 1;
    return most < SPECULATION_MAX ? most : SPECULATION_MAX;
}

// The pass of the last token and `n` drafts behind it. A number that is not finite may be that of a
// draft which the text does not take: then *alone, and there are no more drafts.
static bool run_drafts(Decoder *d, int n, bool *alone, Error *error) {
    _Static_assert(SPECULATION_MAX + 1 <= KV_RING_TENTATIVE, "the rings have no room for them");
    Model *m = d->model;
    Error problem = {0};
    bool wants[SPECULATION_MAX + 1];
    memset(wants, true, sizeof wants);
    d->tokens[0] = d->last;
    d->drafted = true;
    d->n_rows = n + 1;
    d->row = 0;
    Batch batch = {.n = n + 1, .tokens = d->tokens, .wants_logits = wants, .tentative = true};
    bool good = model_forward(m, &batch, &problem);
    d->passes += good || !model_stopped(m) ? n + 1 : 0; // else the cache does not hold them
    if (good) return true;
    *alone = problem.code == ERROR_NONFINITE;
    if (!*alone) return error_copy(error, &problem);
    d->options.speculation = NULL;
    discard_passes(d);
    return true;
}

// The pass of the last token, with drafts where they pay; timed, since that decides it.
static bool run_speculative(Decoder *d, Error *error) {
    Speculation *speculation = d->options.speculation;
    discard_passes(d); // of drafts that were wrong
    int n = speculation_propose(speculation, d->options.sampler, d->tokens + 1, most_drafts(d));
    bool alone = !n, good = true;
    double started = seconds_now();
    if (n) good = run_drafts(d, n, &alone, error);
    if (good && alone) good = run_pass(d, error);
    speculation_measure(speculation, n + 1, seconds_now() - started);
    return good;
}

// From the logits where they are: on the device, unless the sampler changes them.
static void sample_tokens(Decoder *d) {
    static const SampleRule GREEDY = {.top_p = 1.0f, .typical_p = 1.0f};
    Model *m = d->model;
    Sampler *sampler = d->options.sampler;
    const float *logits = m->scratch.logits + (size_t)d->row * (size_t)m->config.vocab_size;
    if (!sampler) {
        sample(m->device, m->scratch.sampled, logits, d->options.n_sequences, m->config.vocab_size,
               &GREEDY, NULL);
        return;
    }
    // The generator has advanced by `taken` numbers only; the tokens ahead use the numbers after
    // those.
    if (!sampler_is_plain(sampler)) logits = sampler_penalise(sampler, model_logits(m, d->row));
    sampler_sample(sampler, m->scratch.sampled, logits, d->sampled - d->taken);
}

// The first step has no pass when the prompt's logits are there already. False: a stepwise pass
// failed. A failure on the device shows later, as token -1.
static bool step(Decoder *d, Error *error) {
    Model *m = d->model;
    bool has_logits = !(d->given + d->sampled) || next_row(d);
    bool good =
        has_logits || (d->options.speculation ? run_speculative(d, error) : run_pass(d, error));
    if (!good) return false;
    sample_tokens(d);
    device_send(m->device, d->sampled % SEND_SLOTS, m->scratch.sampled);
    d->sampled++;
    return true;
}

// No token could be sampled: the pass that gave these logits is run again with all checks, which
// name the cause.
static int find_cause(Decoder *d, Error *error) {
    Model *m = d->model;
    const Error *failure = model_failure(m);
    if (failure->code) {
        error_copy(error, failure);
        return -1;
    }
    if (!d->stepwise && d->options.n_sequences == 1 && tokens_known(d)) {
        decoder_end(d);
        d->passes++;
        if (!model_forward(m, &(Batch){.n = 1, .tokens = &d->last}, error)) return -1;
    }
    error_set(error, ERROR_NONFINITE, "a logit is NaN or +infinity");
    return -1;
}

// The token of the oldest step that the host has not read. One that the sampler refuses is sampled
// again: a sampler that may refuse is not plain, so the device is not ahead.
static int32_t receive_token(Decoder *d) {
    int32_t token = device_receive(d->model->device, d->taken % SEND_SLOTS);
    while (!model_stopped(d->model) && d->options.sampler &&
           sampler_refuses(d->options.sampler, token)) {
        assert(d->stepwise && d->sampled == d->taken + 1);
        d->sampled--;
        sample_tokens(d);
        device_send(d->model->device, d->taken % SEND_SLOTS, d->model->scratch.sampled);
        d->sampled++;
        token = device_receive(d->model->device, d->taken % SEND_SLOTS);
    }
    return token;
}

int decoder_next(Decoder *d, Error *error) {
    assert(decoder_left(d) > 0 && d->depth < SEND_SLOTS);
    while (d->sampled < d->max_tokens && d->sampled - d->taken <= d->depth)
        if (!step(d, error)) return -1;
    int32_t token = receive_token(d);
    if (model_stopped(d->model)) {
        error_set(error, ERROR_INTERRUPTED, "interrupted");
        return -1;
    }
    if (token < 0) return find_cause(d, error);
    if (d->options.sampler) sampler_take(d->options.sampler, token);
    if (d->options.speculation) speculation_take(d->options.speculation, token);
    d->taken++;
    d->last = token;
    return token;
}

const float *decoder_logits(const Decoder *d) {
    assert(d->options.wants_logits && d->taken);
    return model_logits(d->model, d->row);
}

// Whether the cache can be cut to where it was n tokens before (discard_passes).
static bool can_rewind(const Decoder *d, int n) {
    const KvCache *cache = &d->model->cache;
    bool all = n == d->taken && !d->given; // the last token of the prompt too
    int now = tokens_known(d), then = now - n + all, begin = kv_cache_length(cache, 0) - d->passes;
    int length = begin - all + (then > 1 ? then - 1 : 0);
    int settled = begin + (now > 1 ? now - 1 : 0); // the rest of the cache is tentative
    return d->text || !length || length >= kv_cache_lowest(cache, 0, settled);
}

// Where no token is left, the logits of the prompt are gone: its last token becomes the first one
// that is fed, as if it had been options.first.
bool decoder_rewind(Decoder *d, int n, int32_t last) {
    Model *m = d->model;
    assert(n >= 0 && n <= d->taken && d->options.n_sequences == 1);
    if (!can_rewind(d, n)) return false;
    discard_passes(d); // guesses beyond the text do not count, and its own rows do
    if (n == d->taken && !d->given) {
        d->given = 1;
        d->start--;
        d->passes++; // that of this token
    }
    if (n) m->n_logit_rows = m->n_host_rows = 0; // they are of a token that is gone
    Speculation *speculation = d->options.speculation;
    if (speculation) // `last` may be another
        speculation_text(speculation, speculation_length(speculation) - n - 1, &last, 1);
    d->taken -= n;
    if (n) d->n_rows = d->row = 0;
    discard_passes(d);
    d->sampled = d->taken;
    d->last = last;
    if (d->options.sampler) sampler_rewind(d->options.sampler, n);
    if (d->stepwise) return true;
    device_upload(m->device, m->scratch.sampled, &last, sizeof last);
    forward_sampled_begin(m, 1);
    return true;
}

void decoder_end(Decoder *d) {
    if (!d->model) return;
    discard_passes(d);
    free(d->text);
    d->text = NULL;
}
