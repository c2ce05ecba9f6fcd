// What changes a copy of the logits, then one call of the backend's `sample`. sampler.h has the
// order. Three parts: the generator, the accepted tokens, one step of sampling. DRY and mirostat
// are in sampler_stages.c.
//
//   history     [ 7 | 9 | 4 | 4 | . ]      capacity 5, count 4, next 4: a ring of token ids
//                       '-window-'         2: the newest tokens, which penalties are about
//   counts      [4]: 2                     occurrences in the window, by token id
//
// The device gets uniform numbers ahead of time, RUN_COUNT together, so that sampling on a GPU
// needs no transfer per token:
//
//   generator   0 1 2 .. | 40 41 42 43 .. 103 | 104 ..
//                        | uniform, run = 40  |        taken = 42: the next token uses 42 + offset
#include "model/sampler.h"
#include "base/hash.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_COUNT = 64 }; // uniform numbers that are sent to the device together

struct Sampler {
    Device *device; // borrowed
    SamplerOptions options;
    int vocab_size, capacity, window;
    int *history; // (capacity) the last `count` accepted tokens, a ring that ends before `next`
    int count, next;
    int *counts;        // (vocab_size) how often each token is among the last `window`
    float *penalised;   // (vocab_size) host: logits after bias, penalties and dry
    float *logits;      // (vocab_size) device: the same
    float *uniform;     // (RUN_COUNT) device: a run of the generator's numbers
    int32_t *token;     // (1) device
    uint64_t state[4];  // xoshiro256**
    uint64_t taken;     // numbers taken from the generator so far
    float last;         // the one taken last
    const float *given; // (n_given) in place of the generator's first numbers; borrowed
    size_t n_given;
    float numbers[RUN_COUNT]; // host: the same as `uniform`
    uint64_t run;             // number of the first one in `uniform`
    bool has_run;             // `uniform` holds numbers
    SampleRule rule;          // options.rule, or what mirostat has made of it for this step
    LogitBias *biases;        // (options.n_biases)
    DryBreaker *breakers;     // (options.dry.n_breakers)
    int *newest, *lengths;    // (capacity) dry's scratch
    int *longest;             // (vocab_size) the same
    float *mu; // (capacity) mirostat's, before number i of the generator at i % capacity
    const uint64_t *allowed; // a bit for each token; NULL: all; borrowed
    SamplerRefuses *refuses; // or NULL
    void *refuses_context;
};

SamplerOptions sampler_defaults(void) {
    return (SamplerOptions){
        .rule = {.temperature = 1.0f, .top_p = 1.0f, .typical_p = 1.0f},
        .repeat_penalty = 1.0f,
        .dry = {.base = 1.75f, .allowed_length = 2, .last = -1},
        .mirostat_eta = 0.1f,
    };
}

// ---- the generator ----

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

// The upper 24 bits: as many as a float32 holds exactly, so every value is exact and below 1.
static float uniform_of(uint64_t state[4]) {
    return (float)(xoshiro256(state) >> 40) * 0x1p-24f;
}

// The generator's next number, of which `taken` came before, or the one given in its place. The
// generator advances all the same, so that those behind the given ones are its own.
static float next_uniform(const Sampler *s, uint64_t state[4], uint64_t taken) {
    float number = uniform_of(state);
    return taken < s->n_given ? s->given[taken] : number;
}

float sampler_uniform(Sampler *s) {
    s->last = next_uniform(s, s->state, s->taken);
    s->taken++;
    return s->last;
}

float sampler_peek(const Sampler *s, int offset) {
    uint64_t state[4];
    float number = 0;
    memcpy(state, s->state, sizeof state);
    for (int i = 0; i <= offset; i++)
        number = next_uniform(s, state, s->taken + (uint64_t)i);
    return number;
}

SampleRule sampler_rule(const Sampler *s) {
    SampleRule rule = s->rule;
    rule.xtc = 0.0f;
    return rule;
}

// Whether xtc applies to the token that is sampled with this number of the generator: by a second
// number, made of the first and its place, so that it is the same again after sampler_rewind and
// for the numbers of a recording.
static bool excludes_top(const Sampler *s, float uniform, uint64_t number) {
    uint64_t state = ((uint64_t)(uniform * 0x1p24f) << 40 | 1) + number;
    splitmix64(&state);
    return (float)(splitmix64(&state) >> 40) * 0x1p-24f < s->options.xtc_probability;
}

float sampler_last_uniform(const Sampler *s) {
    return s->last;
}

void sampler_give(Sampler *s, const float *numbers, size_t count) {
    s->given = numbers;
    s->n_given = count;
    s->has_run = false;
}

static void seed_generator(Sampler *s) {
    uint64_t seed = s->options.seed;
    for (int i = 0; i < 4; i++)
        s->state[i] = splitmix64(&seed);
    s->taken = 0;
}

// The generator has no step back: it begins again, and takes fewer.
void sampler_rewind(Sampler *s, int n) {
    assert(n >= 0 && (uint64_t)n <= s->taken);
    uint64_t wanted = s->taken - (uint64_t)n;
    seed_generator(s);
    while (s->taken < wanted)
        sampler_uniform(s);
}

// ---- opening ----

// One row of the options' table: a number and its range. NaN is in no range.
static bool check_range(const char *name, float value, float low, float high, Error *error) {
    if (value >= low && value <= high) return true;
    return error_set(error, ERROR_USAGE, "%s: wanted %g to %g, got %g", name, (double)low,
                     (double)high, (double)value);
}

static bool check_stages(const SamplerOptions *o, Error *error) {
    return check_range("xtc-probability", o->xtc_probability, 0.0f, 1.0f, error) &&
           check_range("xtc-threshold", o->rule.xtc, 0.0f, 1.0f, error) &&
           check_range("dry-multiplier", o->dry.multiplier, 0.0f, 1e3f, error) &&
           check_range("dry-base", o->dry.base, 1.0f, 1e3f, error) &&
           check_range("dry-allowed-length", (float)o->dry.allowed_length, 0.0f, 1e9f, error) &&
           check_range("dry-penalty-last-n", (float)o->dry.last, -1.0f, 2e9f, error) &&
           check_range("mirostat-tau", o->mirostat_tau, 0.0f, 100.0f, error) &&
           check_range("mirostat-eta", o->mirostat_eta, 0.0f, 10.0f, error);
}

// -infinity is a bias like any other: the token is never sampled.
static bool check_biases(const SamplerOptions *o, int vocab_size, Error *error) {
    for (size_t i = 0; i < o->n_biases; i++) {
        const LogitBias *b = &o->biases[i];
        if (b->token < 0 || b->token >= vocab_size)
            return error_set(error, ERROR_USAGE, "logit-bias: wanted a token 0 to %d, got %d",
                             vocab_size - 1, (int)b->token);
        if (b->bias != -INFINITY && !check_range("logit-bias", b->bias, -1e6f, 1e6f, error))
            return false;
    }
    return true;
}

// Everything that a user can set, before anything is allocated. The bounds of penalties are far
// outside of useful values: they only keep the arithmetic finite.
bool sampler_options_good(const SamplerOptions *o, int vocab_size, Error *error) {
    if (!check_range("temperature", o->rule.temperature, 0.0f, 1e30f, error) ||
        !check_range("top-p", o->rule.top_p, 0.0f, 1.0f, error) ||
        !check_range("min-p", o->rule.min_p, 0.0f, 1.0f, error) ||
        !check_range("typical-p", o->rule.typical_p, 0.0f, 1.0f, error) ||
        !check_range("repeat-penalty", o->repeat_penalty, 1e-3f, 1e3f, error) ||
        !check_range("presence-penalty", o->presence_penalty, -1e3f, 1e3f, error) ||
        !check_range("frequency-penalty", o->frequency_penalty, -1e3f, 1e3f, error))
        return false;
    if (!check_stages(o, error)) return false;
    if (o->rule.top_k < 0)
        return error_set(error, ERROR_USAGE, "top-k: wanted 0 or more, got %d", o->rule.top_k);
    if (o->repeat_last < 0)
        return error_set(error, ERROR_USAGE, "repeat-last: wanted 0 or more, got %d",
                         o->repeat_last);
    return check_biases(o, vocab_size, error);
}

// Those that are off need nothing, and malloc(0) may give NULL.
static bool allocate_stages(Sampler *s) {
    SamplerOptions *o = &s->options;
    size_t capacity = (size_t)s->capacity, biases = o->n_biases * sizeof *s->biases;
    size_t breakers = o->dry.n_breakers * sizeof *s->breakers;
    s->biases = malloc(biases + 1);
    s->breakers = malloc(breakers + 1);
    if (!s->biases || !s->breakers) return false;
    if (biases) memcpy(s->biases, o->biases, biases);
    if (breakers) memcpy(s->breakers, o->dry.breakers, breakers);
    o->biases = s->biases;
    o->dry.breakers = s->breakers;
    if (dry_is_on(&o->dry)) {
        s->newest = malloc(capacity * sizeof *s->newest);
        s->lengths = malloc(capacity * sizeof *s->lengths);
        s->longest = calloc((size_t)s->vocab_size, sizeof *s->longest);
        if (!s->newest || !s->lengths || !s->longest) return false;
    }
    if (sampler_follows(s)) s->mu = malloc(capacity * sizeof *s->mu);
    return !sampler_follows(s) || s->mu;
}

// False: exit code 5, or 6 of a GPU. sampler_close frees what was allocated.
static bool sampler_allocate(Sampler *s, Error *error) {
    size_t vocab_size = (size_t)s->vocab_size;
    s->history = calloc((size_t)s->capacity, sizeof *s->history);
    s->counts = calloc(vocab_size, sizeof *s->counts);
    s->penalised = malloc(vocab_size * sizeof *s->penalised);
    s->logits = device_alloc(s->device, vocab_size * sizeof *s->logits);
    s->uniform = device_alloc(s->device, RUN_COUNT * sizeof *s->uniform);
    s->token = device_alloc(s->device, sizeof *s->token);
    if (s->history && s->counts && s->penalised && s->logits && s->uniform && s->token &&
        allocate_stages(s))
        return true;
    // The message of a GPU names its own memory.
    const Error *failure = device_error(s->device);
    if (failure->code == ERROR_DEVICE) return error_copy(error, failure);
    device_clear_memory_error(s->device);
    return error_set(error, ERROR_MEMORY, "no memory for a sampler of %d tokens", s->vocab_size);
}

Sampler *sampler_open(Device *device, int vocab_size, int context, const SamplerOptions *options,
                      Error *error) {
    if (!sampler_options_good(options, vocab_size, error)) return NULL;
    Sampler *s = calloc(1, sizeof *s);
    if (!s) {
        error_set(error, ERROR_MEMORY, "no memory for a sampler");
        return NULL;
    }
    s->device = device;
    s->options = *options;
    s->vocab_size = vocab_size;
    // A text never exceeds the context, so a history of that size never forgets.
    s->capacity = s->window = context > 0 ? context : 1;
    if (options->repeat_last > 0 && options->repeat_last < s->window)
        s->window = options->repeat_last;
    s->rule = options->rule;
    seed_generator(s);
    if (!sampler_allocate(s, error)) {
        sampler_close(s);
        return NULL;
    }
    sampler_begin_text(s);
    return s;
}

void sampler_close(Sampler *s) {
    if (!s) return;
    device_free(s->device, s->logits);
    device_free(s->device, s->uniform);
    device_free(s->device, s->token);
    free(s->history);
    free(s->counts);
    free(s->penalised);
    free(s->biases);
    free(s->breakers);
    free(s->newest);
    free(s->lengths);
    free(s->longest);
    free(s->mu);
    free(s);
}

// ---- sampling ----

// The token accepted `back` tokens ago; 1: the newest.
static int token_back(const Sampler *s, int back) {
    return s->history[(s->next - back + s->capacity) % s->capacity];
}

// Once the window is full, its oldest token leaves as the newest comes.
void sampler_accept(Sampler *s, int token) {
    assert(token >= 0 && token < s->vocab_size);
    if (s->count >= s->window) s->counts[token_back(s, s->window)]--;
    if (s->count < s->capacity) s->count++;
    s->history[s->next] = token;
    s->counts[token]++;
    s->next = (s->next + 1) % s->capacity;
}

// The other way: the newest leaves, and the one that it had pushed out of the window returns.
void sampler_forget(Sampler *s, int n) {
    assert(n >= 0 && n <= s->count);
    for (; n; n--) {
        s->counts[token_back(s, 1)]--;
        s->next = (s->next - 1 + s->capacity) % s->capacity;
        s->count--;
        if (s->count >= s->window) s->counts[token_back(s, s->window)]++;
    }
}

int sampler_accepted(const Sampler *s) {
    return s->count;
}

void sampler_reset(Sampler *s) {
    s->count = s->next = 0;
    memset(s->counts, 0, (size_t)s->vocab_size * sizeof *s->counts);
}

void sampler_allow(Sampler *s, const uint64_t *allowed) {
    s->allowed = allowed;
}

void sampler_refuse(Sampler *s, SamplerRefuses *refuses, void *context) {
    s->refuses = refuses;
    s->refuses_context = context;
}

bool sampler_refuses(Sampler *s, int token) {
    if (token < 0 || !s->refuses || !s->refuses(s->refuses_context, token)) return false;
    uint64_t capacity = (uint64_t)s->capacity;
    sampler_uniform(s);
    if (s->mu) s->mu[s->taken % capacity] = s->mu[(s->taken - 1) % capacity];
    return true;
}

bool sampler_is_plain(const Sampler *s) {
    const SamplerOptions *o = &s->options;
    return !s->allowed && o->repeat_penalty == 1.0f && o->presence_penalty == 0.0f &&
           o->frequency_penalty == 0.0f && !o->n_biases && !dry_is_on(&o->dry) &&
           !sampler_follows(s);
}

// Each token of the window once, however often it occurs: its count is negative when it is done.
static void penalise(Sampler *s, float *l) {
    const SamplerOptions *o = &s->options;
    int seen = s->count < s->window ? s->count : s->window;
    for (int i = 1; i <= seen; i++) {
        int token = token_back(s, i), count = s->counts[token];
        if (count < 0) continue;
        l[token] = l[token] > 0.0f ? l[token] / o->repeat_penalty : l[token] * o->repeat_penalty;
        l[token] -= o->presence_penalty + o->frequency_penalty * (float)count;
        s->counts[token] = -count;
    }
    for (int i = 1; i <= seen; i++)
        s->counts[token_back(s, i)] = abs(s->counts[token_back(s, i)]);
}

static void penalise_repetition(Sampler *s, float *l) {
    if (!dry_is_on(&s->options.dry)) return;
    for (int i = 0; i < s->count; i++)
        s->newest[i] = token_back(s, i + 1);
    dry_penalise(&s->options.dry, l, s->newest, s->count, s->lengths, s->longest);
}

// Of 64 tokens at a time most often all or none are allowed.
static void forbid(const Sampler *s, float *l) {
    for (int i = 0; i < s->vocab_size; i += 64) {
        uint64_t word = s->allowed[i / 64];
        int end = s->vocab_size - i < 64 ? s->vocab_size : i + 64;
        for (int t = i; word != UINT64_MAX && t < end; t++)
            if (!(word >> (t - i) & 1)) l[t] = -INFINITY;
    }
}

// The logits of this step as they become a distribution, in `penalised`; with mirostat its cut.
static void change_logits(Sampler *s, const float *logits) {
    const SamplerOptions *o = &s->options;
    memcpy(s->penalised, logits, (size_t)s->vocab_size * sizeof *logits);
    for (size_t i = 0; i < o->n_biases; i++)
        s->penalised[o->biases[i].token] += o->biases[i].bias;
    penalise(s, s->penalised);
    penalise_repetition(s, s->penalised);
    if (s->allowed) forbid(s, s->penalised);
    if (!sampler_follows(s)) return;
    float temperature = o->rule.temperature, mu = s->mu[s->taken % (uint64_t)s->capacity];
    s->rule = (SampleRule){.temperature = temperature, .top_p = 1.0f, .typical_p = 1.0f};
    s->rule.min_p = mirostat_min_p(s->penalised, s->vocab_size, temperature, mu);
}

const float *sampler_penalise(Sampler *s, const float *logits) {
    if (!sampler_is_plain(s)) {
        change_logits(s, logits);
        logits = s->penalised;
    }
    device_upload(s->device, s->logits, logits, (size_t)s->vocab_size * sizeof *logits);
    return s->logits;
}

// ---- mirostat, from token to token ----

bool sampler_follows(const Sampler *s) {
    return s->options.mirostat_tau > 0.0f && s->options.rule.temperature > 0.0f;
}

void sampler_begin_text(Sampler *s) {
    if (s->mu) s->mu[s->taken % (uint64_t)s->capacity] = 2.0f * s->options.mirostat_tau;
}

// A token that has no weight, which a person has put there, says nothing about the text's surprise.
void sampler_take(Sampler *s, int token) {
    uint64_t capacity = (uint64_t)s->capacity;
    sampler_uniform(s);
    if (!s->mu) return;
    double surprise = mirostat_surprise(s->penalised, s->vocab_size, &s->rule, token);
    float mu = s->mu[(s->taken - 1) % capacity], tau = s->options.mirostat_tau;
    if (!isnan(surprise)) mu -= s->options.mirostat_eta * ((float)surprise - tau);
    s->mu[s->taken % capacity] = mu;
}

void sampler_follow(Sampler *s, const float *logits, int token) {
    if (sampler_follows(s)) change_logits(s, logits);
    sampler_take(s, token);
}

// The next RUN_COUNT numbers of the generator, which stays where it is, go to the device.
static void upload_run(Sampler *s) {
    uint64_t state[4];
    memcpy(state, s->state, sizeof state);
    for (int i = 0; i < RUN_COUNT; i++)
        s->numbers[i] = next_uniform(s, state, s->taken + (uint64_t)i);
    device_upload(s->device, s->uniform, s->numbers, sizeof s->numbers);
    s->run = s->taken;
    s->has_run = true;
}

void sampler_sample(Sampler *s, int32_t *out, const float *logits, int offset) {
    uint64_t number = s->taken + (uint64_t)offset;
    // A new run begins at `taken`, not at `number`: later calls may ask for smaller offsets. offset
    // < 16 is inside it.
    bool uploaded = s->has_run && number >= s->run && number - s->run < RUN_COUNT;
    if (!uploaded && s->options.rule.temperature != 0.0f) upload_run(s);
    size_t at = s->has_run ? (size_t)(number - s->run) % RUN_COUNT : 0; // greedy reads none
    SampleRule rule = s->rule;
    if (rule.xtc > 0.0f && !excludes_top(s, s->numbers[at], number)) rule.xtc = 0.0f;
    sample(s->device, out, logits, 1, s->vocab_size, &rule, s->uniform + at);
}

int sampler_next(Sampler *s, const float *logits, Error *error) {
    int32_t token = -1;
    do {
        sampler_sample(s, s->token, sampler_penalise(s, logits), 0);
        device_download(s->device, &token, s->token, sizeof token);
    } while (!device_error(s->device)->code && sampler_refuses(s, token));
    const Error *failure = device_error(s->device);
    sampler_take(s, token < 0 || failure->code ? 0 : token);
    if (failure->code)
        error_copy(error, failure);
    else if (token < 0)
        error_set(error, ERROR_NONFINITE, "a logit is NaN or +infinity");
    return failure->code ? -1 : token;
}
