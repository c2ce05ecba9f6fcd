// Sampler: logits -> the next token. Penalties and bias here, the distribution in kernels' sample.
//
// Order of what happens to the logits of one step, with `seen` the last repeat_last tokens of
// prompt and text (0: all of them) and count(t) how often t occurs in it:
//   1. logit bias:          l[t] += bias
//   2. repetition penalty r (Keskar et al. 2019, arXiv 1909.05858), for every t in seen:
//                           l[t] = l[t] > 0 ? l[t] / r : l[t] * r
//   3. presence and frequency penalties (as in OpenAI's API), for every t in seen:
//                           l[t] -= presence + frequency * count(t)
//   4. temperature, top_k, top_p, min_p, typical_p: see kernels/kernels.h, sample
// -infinity is a logit like any other (probability 0); when all are -infinity, or all equal at
// temperature 0, the lowest id wins. NaN and +infinity are an error, exit code 7.
//
// The generator is xoshiro256** seeded by splitmix64 (Blackman & Vigna 2018): the same seed,
// options and logits give the same tokens on every machine.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"

typedef struct LogitBias {
    int token;
    float bias;
} LogitBias;

typedef struct SamplerOptions {
    SampleRule rule;
    float repeat_penalty;                      // 1: none
    float presence_penalty, frequency_penalty; // 0: none
    int repeat_last;                           // 0: the whole context
    const LogitBias *bias;                     // (n_bias); borrowed until sampler_close
    int n_bias;
    uint64_t seed;
} SamplerOptions;

typedef struct Sampler Sampler;

// The options that change nothing: temperature 1, everything else off.
SamplerOptions sampler_defaults(void);

// Owned by the caller. `context`: at most so many tokens will be told to sampler_accept between two
// sampler_resets. NULL: exit code 2 (an option out of range, named) or 5.
Sampler *sampler_open(Device *device, int vocab_size, int context, const SamplerOptions *options,
                      Error *error);
void sampler_close(Sampler *sampler); // NULL is fine

void sampler_accept(Sampler *sampler, int token); // a token of the prompt or of the text
void sampler_reset(Sampler *sampler);             // forget the tokens, keep the generator's state

// The next token for host logits (vocab_size), which stay as they are; -1 with exit code 7 or 6.
int sampler_next(Sampler *sampler, const float *logits, Error *error);

// Uniform in [0, 1), 24 bits: the generator itself, for whoever else needs the same stream.
float sampler_uniform(Sampler *sampler);

// ---- drawing without the host (model/feedback.h) ----

// Logits go into the distribution as they are: no bias, no penalties.
bool sampler_is_plain(const Sampler *sampler);

// Draws from device logits (vocab_size) with the uniform number that comes `ahead` numbers after
// the next, and leaves the generator where it is. `ahead` is below 16.
void sampler_draw(Sampler *sampler, const float *device_logits, int ahead);

// Where sampler_draw leaves the token, in device memory: -1 where a logit is NaN or +infinity.
const int32_t *sampler_drawn(const Sampler *sampler);
