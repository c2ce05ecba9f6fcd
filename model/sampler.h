// Sampler: logits -> the next token. Penalties here, the distribution in the backend's `sample`.
//
// What happens to the logits l of one step, in this order, with `seen` the last repeat_last tokens
// of prompt and text (0: all of them) and count(t) how often t occurs among them:
//   1. logit bias, for every entry:  l[t] += bias
//   2. repetition penalty r (Keskar et al. 2019, arXiv 1909.05858), for every t in seen:
//                           l[t] = l[t] > 0 ? l[t] / r : l[t] * r
//   3. presence and frequency penalties (as in OpenAI's API), for every t in seen:
//                           l[t] -= presence + frequency * count(t)
//   4. dry (sampler_stages.h), over the text so far
//   5. the logits of tokens that sampler_allow leaves out become -infinity
//   6. temperature, top_k, top_p, min_p, typical_p: see kernels/kernels.h, sample
//   7. xtc, with xtc_probability: sample again, rule.xtc being the threshold
// mirostat (sampler_stages.h) takes the place of all cuts.
// -infinity is a logit like any other (probability 0); when all are -infinity, or all equal at
// temperature 0, the lowest id wins. NaN and +infinity are an error, exit code 7.
//
// The generator is xoshiro256** seeded by splitmix64 (Blackman & Vigna 2018): the same seed,
// options and logits give the same tokens on every machine.
#pragma once

#include "base/error.h"
#include "model/sampler_stages.h"

typedef struct SamplerOptions {
    SampleRule rule;
    float repeat_penalty;                      // 1: none
    float presence_penalty, frequency_penalty; // 0: none
    int repeat_last;                           // 0: the whole context
    uint64_t seed;
    const LogitBias *biases; // (n_biases)
    size_t n_biases;
    DryOptions dry;
    float xtc_probability;            // 0: rule.xtc is not used
    float mirostat_tau, mirostat_eta; // bits; tau 0: off
} SamplerOptions;

typedef struct Sampler Sampler;

// The options that change nothing: temperature 1, everything else off.
SamplerOptions sampler_defaults(void);

// False: exit code 2, an option out of range, named. dry.breakers are not looked at.
bool sampler_options_good(const SamplerOptions *options, int vocab_size, Error *error);

// Owned by the caller; the arrays of the options are copied. `context`: the most tokens given to
// sampler_accept between two sampler_resets. NULL: exit code 2 as above, or 5.
Sampler *sampler_open(Device *device, int vocab_size, int context, const SamplerOptions *options,
                      Error *error);
void sampler_close(Sampler *sampler); // NULL is fine

void sampler_accept(Sampler *sampler, int token); // a token of the prompt or of the text
void sampler_reset(Sampler *sampler);             // forget the tokens, keep the generator's state

// Takes back the newest n calls of sampler_accept, at most as many as sampler_accepted says: all
// since sampler_reset, or the newest `context`.
void sampler_forget(Sampler *sampler, int n);
int sampler_accepted(const Sampler *sampler);

// Before another text: mirostat begins again. sampler_open does it for the first.
void sampler_begin_text(Sampler *sampler);

// The next token for host logits (vocab_size), which stay as they are; -1 with exit code 7 or 6.
int sampler_next(Sampler *sampler, const float *logits, Error *error);

// Uniform in [0, 1), 24 bits: the next number of the generator.
float sampler_uniform(Sampler *sampler);
// Takes back the last n numbers of the generator, of all that it gave: they come again.
void sampler_rewind(Sampler *sampler, int n);
// The number that sampler_uniform gave last: after a token was taken, the one it was sampled with,
// whatever the temperature. 0 before the first.
float sampler_last_uniform(const Sampler *sampler);

// The number that comes `offset` numbers after the next; the generator stays where it is.
float sampler_peek(const Sampler *sampler, int offset);
// What the next token is sampled by, without xtc; with mirostat as for the token before.
SampleRule sampler_rule(const Sampler *sampler);

// numbers[i] in [0, 1) takes the place of the generator's i-th number since sampler_open; what
// comes behind `count` is what it would have been. Borrowed until sampler_close.
void sampler_give(Sampler *sampler, const float *numbers, size_t count);

// Only tokens t with bit t % 64 of allowed[t / 64] are sampled, of those whose logit is above
// -infinity; read at each sampler_next, and borrowed until the next call. NULL: all tokens.
void sampler_allow(Sampler *sampler, const uint64_t *allowed);

// Asked about each token that was sampled. Before it returns true it changes sampler_allow's mask;
// the token is then refused, and another is sampled from the same logits with the next number.
// Where it takes tokens away, this one among them, the distribution is the one over those that are
// left. NULL: none.
typedef bool SamplerRefuses(void *context, int32_t token);
void sampler_refuse(Sampler *sampler, SamplerRefuses *refuses, void *context);

// ---- the steps of sampler_next, for a decoder (model/decoder.h) ----

// Whether the token is refused: its number is then taken, and another token is to be sampled.
bool sampler_refuses(Sampler *sampler, int token);

// Takes the next number of the generator, by which `token` was sampled.
void sampler_take(Sampler *sampler, int token);

// As if `token` had been sampled from host logits (vocab_size): what a text that is known is gone
// through with. Needed where sampler_follows; else sampler_uniform does the same.
void sampler_follow(Sampler *sampler, const float *logits, int token);
bool sampler_follows(const Sampler *sampler); // mirostat

// Nothing changes the logits: they go into the distribution as they are.
bool sampler_is_plain(const Sampler *sampler);

// A copy of host logits (vocab_size) with bias, penalties, dry and sampler_allow applied, in device
// memory; borrowed until the next call.
const float *sampler_penalise(Sampler *sampler, const float *logits);

// out[0] (device) = a token sampled from device logits (vocab_size) with the uniform number that
// comes `offset` numbers after the next; offset < 16. The generator stays where it is: who takes
// the token calls sampler_take. -1 where a logit is NaN or +infinity.
void sampler_sample(Sampler *sampler, int32_t *out, const float *logits, int offset);
