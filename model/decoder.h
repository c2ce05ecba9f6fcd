// Decoder: the loop of generation: sample a token, advance, run the next pass.
//
//     Decoder d;
//     good = model_forward(model, &prompt, &error) &&     // the logits of its last row come first
//            decoder_begin(&d, model, &(DecoderOptions){.sampler = sampler, .max_tokens = 256},
//                          &error);
//     while (good && decoder_left(&d) > 0 && (id = decoder_next(&d, &error)) >= 0) ...
//     decoder_end(&d);
//
//     pass of token k-1 -> sample k -> advance -> pass of token k -> sample k+1 -> ...
//                              \ device_send                  \ device_send
//                               ... host: device_receive k     ...
//
// With a pipeline depth of d the device samples token k + d before the host has read token k, so
// that a GPU never waits for the host. The depth is that of the device; it is 0 where the host
// takes part in every step: for logits, penalties, a listener, or passes without the cache. The
// tokens, the cache afterwards and the state of the sampler are the same at every depth.
#pragma once

#include "model/model.h"
#include "model/sampler.h"

typedef struct DecoderOptions {
    Sampler *sampler;  // borrowed until decoder_end; NULL: greedy, the likeliest token
    size_t max_tokens; // at most so many will be asked for
    bool wants_logits; // decoder_logits will be called
    // The tokens of sequence 0 so far, as many as the cache holds: every pass runs all of them and
    // the new ones again, as a check of the cache. NULL: passes continue the cache.
    const int32_t *recompute;
    // The next token of each of n_sequences sequences: the loop begins with their forward pass.
    // Sampling is greedy, and decoder_next returns the tokens of sequence 0. NULL: the loop begins
    // by sampling from the model's logits of sequence 0.
    const int32_t *first;
    int n_sequences; // 0: 1
} DecoderOptions;

typedef struct Decoder {
    Model *model; // borrowed; NULL: not begun
    DecoderOptions options;
    int depth;          // tokens that the device is ahead of the host
    bool stepwise;      // every pass is a model_forward of its own
    int start;          // length of sequence 0 where it began
    int max_tokens;     // tokens there can be
    int given;          // 1: the first pass takes options.first
    int sampled, taken; // tokens so far: by the device, by the host
    int passes;         // that were run
    int32_t last;       // the token taken last
    int32_t *text;      // recompute: (context) all tokens; owned
} Decoder;

// After a model_forward with one row of logits, unless options->first is given. False: exit code 5.
bool decoder_begin(Decoder *d, Model *model, const DecoderOptions *options, Error *error);

// How many tokens are left: fewer than max_tokens where the context ends before.
int decoder_left(const Decoder *d);

// The next token, while decoder_left(d) > 0. -1 with exit code 6 or 7, as for model_forward, but
// that without wants_logits a logit of -infinity is no error.
int decoder_next(Decoder *d, Error *error);

// Host logits (vocab_size) that the last token was sampled from; borrowed until decoder_next.
const float *decoder_logits(const Decoder *d);

// Goes back n tokens, of those that decoder_next gave: the next call gives the first of them again,
// unless `last` is another one. `last` is the token before it, and of the prompt where none is
// left: that token's pass is then the next, so that the results are the same bits where the device
// is batch-invariant. The generator goes back too, and mirostat's state with it (to that behind the
// token that was there, where `last` is another); who called sampler_accept calls sampler_forget.
// For one sequence, between two calls of decoder_next. With n > 0 there are no logits until the
// next.
void decoder_rewind(Decoder *d, int n, int32_t last);

// Discards speculative passes: the cache is as if each token but the last taken had been fed, and
// no other. A zeroed decoder is fine.
void decoder_end(Decoder *d);
