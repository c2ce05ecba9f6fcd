// The draft's cache between two proposals: the text as it was, then the drafts of which each but
// the last was fed. Those that the text took are kept; one pass feeds what is new in the text.
//
//   proposed    a b c | x y z          ahead: x y
//   the text    a b c x q              kept: x; fed next: q
#include "base/clock.h"
#include "model/speculation/drafts.h"

#include <stdlib.h>

bool draft_init(Draft *d, Model *model, int capacity, Error *error) {
    *d = (Draft){.model = model};
    d->uniform = device_alloc(model->device, sizeof *d->uniform);
    d->ahead = malloc((size_t)capacity * sizeof *d->ahead);
    if (d->uniform && d->ahead) return true;
    const Error *failure = device_error(model->device);
    if (failure->code) return error_copy(error, failure);
    return error_set(error, ERROR_MEMORY, "no memory for %d drafts", capacity);
}

void draft_free(Draft *d) {
    if (d->model) device_free(d->model->device, d->uniform);
    free(d->ahead);
    *d = (Draft){0};
}

void draft_truncate(Draft *d, int count) {
    if (d->followed < count) return;
    d->followed = count;
    d->n_ahead = 0;
}

// The cache keeps what agrees with the text, but for its last token, whose logits are wanted.
static void follow(Draft *d, const int32_t *text, int count) {
    for (int i = 0; i < d->n_ahead && d->followed < count && d->ahead[i] == text[d->followed]; i++)
        d->followed++;
    if (d->followed > count - 1) d->followed = count - 1;
    d->n_ahead = 0;
    d->followed = kv_cache_go_back(&d->model->cache, 0, d->followed);
}

// From the logits of the pass just run; -1: the device failed.
static int32_t guess(const Draft *d, const Sampler *sampler, int offset) {
    static const SampleRule GREEDY = {.top_p = 1.0f, .typical_p = 1.0f};
    Model *m = d->model;
    SampleRule rule = sampler ? sampler_rule(sampler) : GREEDY;
    float uniform = sampler ? sampler_peek(sampler, offset) : 0.0f;
    int32_t token = -1;
    device_upload(m->device, d->uniform, &uniform, sizeof uniform);
    sample(m->device, m->scratch.sampled, m->scratch.logits, 1, m->config.vocab_size, &rule,
           d->uniform);
    device_download(m->device, &token, m->scratch.sampled, sizeof token);
    return device_error(m->device)->code ? -1 : token;
}

static bool feed(Draft *d, const int32_t *tokens, int n) {
    Error failure = {0}; // the text goes on without drafts
    bool good = model_forward(d->model, &(Batch){.n = n, .tokens = tokens}, &failure);
    if (!good && failure.code != ERROR_INTERRUPTED) d->failure = failure;
    return good;
}

// Number i behind a text of `count` tokens; the first pass feeds what the cache lacks of the text.
static int32_t next_guess(Draft *d, const int32_t *text, int count, int32_t *out, int i,
                          const Sampler *sampler) {
    const int32_t *tokens = i ? out + i - 1 : text + d->followed;
    if (!feed(d, tokens, i ? 1 : count - d->followed)) return -1;
    if (i)
        d->ahead[d->n_ahead++] = out[i - 1];
    else
        d->followed = count;
    return guess(d, sampler, i);
}

int draft_behind(const Draft *d, int count) {
    enum { BRIEF = 2 }; // behind the text where all drafts were taken
    int behind = count - d->followed - d->n_ahead;
    return behind > BRIEF ? behind : 0;
}

void draft_read(Draft *d, const int32_t *text, int count, int n, DraftTime *time) {
    *time = (DraftTime){0};
    if (d->failure.code) return;
    follow(d, text, count);
    if (n > count - 1 - d->followed) n = count - 1 - d->followed;
    if (n < 1 || d->followed + n > d->model->options.context) return;
    double started = seconds_now();
    if (!feed(d, text + d->followed, n)) return;
    d->followed += n;
    time->reading = seconds_now() - started;
    time->n_read = n;
}

int draft_propose(Draft *d, const int32_t *text, int count, const Sampler *sampler, int vocab_size,
                  int32_t *out, int n, DraftTime *time) {
    int room = d->model->options.context - count + 1, drafted = 0;
    *time = (DraftTime){0};
    if (n > room) n = room;
    if (d->failure.code || count < 1 || n < 1) return 0;
    follow(d, text, count);
    time->n_read = draft_behind(d, count);
    double started = seconds_now();
    while (drafted < n) {
        int32_t token = next_guess(d, text, count, out, drafted, sampler);
        if (token < 0 || token >= vocab_size) break;
        out[drafted++] = token;
        if (drafted > 1 || !time->n_read) continue;
        time->reading = seconds_now() - started;
        started += time->reading;
    }
    int timed = drafted - (time->n_read > 0);
    if (timed > 0) time->guess = (seconds_now() - started) / timed;
    return drafted;
}
