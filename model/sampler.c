// Penalties and bias on a copy of the logits, then one call of the backend's `sample`. What is
// done in which order stands in sampler.h.
#include "model/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD_COUNT = 64 }; // numbers that are sent to the device together

struct Sampler {
    Device *device; // borrowed
    SamplerOptions options;
    int vocab_size, capacity;
    int *window; // (capacity) the last `count` accepted tokens, a ring that ends before `next`
    int count, next;
    int *counts;       // (vocab_size) how often each token is in the window
    float *adjusted;   // (vocab_size) host: logits after bias and penalties
    float *logits;     // (vocab_size) device
    float *uniform;    // (1 + AHEAD_COUNT) device: sampler_next's, then a run of the generator's
    int32_t *token;    // (1) device
    uint64_t state[4]; // xoshiro256**
    uint64_t given;    // numbers so far
    uint64_t run;      // which of them the run on the device begins with
    bool has_run;
};

SamplerOptions sampler_defaults(void) {
    return (SamplerOptions){
        .rule = {.temperature = 1.0f, .top_p = 1.0f, .typical_p = 1.0f},
        .repeat_penalty = 1.0f,
    };
}

// ---- the generator ----

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static uint64_t xoshiro256(uint64_t s[4]) {
    uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

static float uniform_of(uint64_t state[4]) {
    return (float)(xoshiro256(state) >> 40) * 0x1p-24f;
}

float sampler_uniform(Sampler *sampler) {
    sampler->given++;
    return uniform_of(sampler->state);
}

// ---- opening ----

// One row of the options' table: a number and its range. NaN is in no range.
static bool in_range(const char *name, float value, float low, float high, Error *error) {
    if (value >= low && value <= high) return true;
    return error_set(error, ERROR_USAGE, "%s: wanted %g to %g, got %g", name, (double)low,
                     (double)high, (double)value);
}

// Everything a user can set, checked before anything is allocated.
static bool options_check(const SamplerOptions *o, int vocab_size, Error *error) {
    if (!in_range("temperature", o->rule.temperature, 0.0f, 1e30f, error) ||
        !in_range("top-p", o->rule.top_p, 0.0f, 1.0f, error) ||
        !in_range("min-p", o->rule.min_p, 0.0f, 1.0f, error) ||
        !in_range("typical-p", o->rule.typical_p, 0.0f, 1.0f, error) ||
        !in_range("repeat-penalty", o->repeat_penalty, 1e-3f, 1e3f, error) ||
        !in_range("presence-penalty", o->presence_penalty, -1e3f, 1e3f, error) ||
        !in_range("frequency-penalty", o->frequency_penalty, -1e3f, 1e3f, error))
        return false;
    if (o->rule.top_k < 0)
        return error_set(error, ERROR_USAGE, "top-k: wanted 0 or more, got %d", o->rule.top_k);
    if (o->repeat_last < 0)
        return error_set(error, ERROR_USAGE, "repeat-last: wanted 0 or more, got %d",
                         o->repeat_last);
    for (int i = 0; i < o->n_bias; i++) {
        if (o->bias[i].token < 0 || o->bias[i].token >= vocab_size)
            return error_set(error, ERROR_USAGE,
                             "logit bias: token %d is not in the vocabulary "
                             "of %d",
                             o->bias[i].token, vocab_size);
        if (isnan(o->bias[i].bias) || o->bias[i].bias == INFINITY)
            return error_set(error, ERROR_USAGE,
                             "logit bias of token %d: wanted a number or "
                             "-inf, got %g",
                             o->bias[i].token, (double)o->bias[i].bias);
    }
    return true;
}

static bool sampler_allocate(Sampler *s, Error *error) {
    size_t vocab_size = (size_t)s->vocab_size;
    s->window = calloc((size_t)s->capacity, sizeof *s->window);
    s->counts = calloc(vocab_size, sizeof *s->counts);
    s->adjusted = malloc(vocab_size * sizeof *s->adjusted);
    s->logits = device_alloc(s->device, vocab_size * sizeof *s->logits);
    s->uniform = device_alloc(s->device, (1 + AHEAD_COUNT) * sizeof *s->uniform);
    s->token = device_alloc(s->device, sizeof *s->token);
    if (s->window && s->counts && s->adjusted && s->logits && s->uniform && s->token) return true;
    // A GPU's memory is its own, and so is its trouble.
    const Error *failure = device_error(s->device);
    if (failure->code == ERROR_DEVICE)
        return error_set(error, failure->code, "%s", failure->message);
    return error_set(error, ERROR_MEMORY, "no memory for a sampler of %d tokens", s->vocab_size);
}

Sampler *sampler_open(Device *device, int vocab_size, int context, const SamplerOptions *options,
                      Error *error) {
    if (!options_check(options, vocab_size, error)) return NULL;
    Sampler *s = calloc(1, sizeof *s);
    if (!s) {
        error_set(error, ERROR_MEMORY, "no memory for a sampler");
        return NULL;
    }
    s->device = device;
    s->options = *options;
    s->vocab_size = vocab_size;
    s->capacity = context > 0 ? context : 1;
    if (options->repeat_last > 0 && options->repeat_last < s->capacity)
        s->capacity = options->repeat_last;
    uint64_t seed = options->seed;
    for (int i = 0; i < 4; i++)
        s->state[i] = splitmix64(&seed);
    if (sampler_allocate(s, error)) return s;
    sampler_close(s);
    return NULL;
}

void sampler_close(Sampler *s) {
    if (!s) return;
    device_free(s->device, s->logits);
    device_free(s->device, s->uniform);
    device_free(s->device, s->token);
    free(s->window);
    free(s->counts);
    free(s->adjusted);
    free(s);
}

// ---- sampling ----

// The window is a ring: when it is full the oldest token leaves as the newest comes.
void sampler_accept(Sampler *s, int token) {
    assert(token >= 0 && token < s->vocab_size);
    if (s->count == s->capacity)
        s->counts[s->window[s->next]]--; // the oldest makes room
    else
        s->count++;
    s->window[s->next] = token;
    s->counts[token]++;
    s->next = (s->next + 1) % s->capacity;
}

void sampler_reset(Sampler *s) {
    s->count = s->next = 0;
    memset(s->counts, 0, (size_t)s->vocab_size * sizeof *s->counts);
}

static bool has_penalties(const SamplerOptions *o) {
    return o->repeat_penalty != 1.0f || o->presence_penalty != 0.0f || o->frequency_penalty != 0.0f;
}

// Bias and penalties on a copy of the logits, in the order of sampler.h.
static const float *adjust(Sampler *s, const float *logits) {
    const SamplerOptions *o = &s->options;
    bool penalised = has_penalties(o);
    float *l = s->adjusted;
    if (!penalised && !o->n_bias) return logits;
    memcpy(l, logits, (size_t)s->vocab_size * sizeof *l);
    for (int i = 0; i < o->n_bias; i++)
        l[o->bias[i].token] += o->bias[i].bias;
    for (int i = 0; penalised && i < s->count; i++) {
        int token = s->window[i], count = s->counts[token];
        if (count < 0) continue; // done already
        l[token] = l[token] > 0.0f ? l[token] / o->repeat_penalty : l[token] * o->repeat_penalty;
        l[token] -= o->presence_penalty + o->frequency_penalty * (float)count;
        s->counts[token] = -count; // marks it
    }
    for (int i = 0; i < s->count; i++)
        s->counts[s->window[i]] = abs(s->counts[s->window[i]]);
    return l;
}

int sampler_next(Sampler *s, const float *logits, Error *error) {
    size_t bytes = (size_t)s->vocab_size * sizeof *logits;
    float uniform = sampler_uniform(s);
    int32_t token = -1;
    device_upload(s->device, s->logits, adjust(s, logits), bytes);
    device_upload(s->device, s->uniform, &uniform, sizeof uniform);
    sample(s->device, s->token, s->logits, 1, s->vocab_size, &s->options.rule, s->uniform);
    device_download(s->device, &token, s->token, sizeof token);
    const Error *failure = device_error(s->device);
    if (failure->code)
        error_set(error, failure->code, "%s", failure->message);
    else if (token < 0)
        error_set(error, ERROR_NONFINITE, "a logit is NaN or +infinity");
    return failure->code ? -1 : token;
}

// ---- without the host ----

bool sampler_is_plain(const Sampler *s) {
    return !has_penalties(&s->options) && !s->options.n_bias;
}

// The next numbers of the generator, which stays where it is, on the device.
static void send_run(Sampler *s) {
    float numbers[AHEAD_COUNT];
    uint64_t state[4];
    memcpy(state, s->state, sizeof state);
    for (int i = 0; i < AHEAD_COUNT; i++)
        numbers[i] = uniform_of(state);
    device_upload(s->device, s->uniform + 1, numbers, sizeof numbers);
    s->run = s->given;
    s->has_run = true;
}

void sampler_draw(Sampler *s, const float *device_logits, int ahead) {
    uint64_t number = s->given + (uint64_t)ahead;
    bool there = s->has_run && number >= s->run && number - s->run < AHEAD_COUNT;
    if (!there && s->options.rule.temperature != 0.0f) send_run(s);
    size_t at = s->has_run ? (size_t)(number - s->run) % AHEAD_COUNT : 0;
    sample(s->device, s->token, device_logits, 1, s->vocab_size, &s->options.rule,
           s->uniform + 1 + at);
}

const int32_t *sampler_drawn(const Sampler *s) {
    return s->token;
}
