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
//
// With `speculation` (speculation/speculate.h) a pass may have several rows: the last token, then
// drafts of what follows. Each row is sampled as if it had been run alone; the next row counts only
// if the token is its draft. The cache then forgets the rows behind.
//
//     rows       the | cat  sat  on        the: taken; cat, sat, on: drafts
//     sampled    cat   sat  down           cat, sat: as drafted; down: not, so that row 3 is for
//                                          nothing, and the next pass begins with `down`
#pragma once

#include "model/model.h"
#include "model/sampler.h"
#include "model/speculation/speculate.h"

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
    // Borrowed until decoder_end; its text is that of the cache and of the last token. No effect
    // with `recompute` or `first`, a listener, or a device that is not batch-invariant. NULL: none.
    // A pass has as many drafts as max_rows and max_logit_rows of the model leave room for.
    Speculation *speculation;
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
    int passes;         // that were run; with drafts their rows
    int32_t last;       // the token taken last
    // Of the pass run last: its tokens, the first of which is known; the row sampled from.
    int32_t tokens[SPECULATION_MAX + 1];
    int n_rows, row;
    bool drafted;  // the positions on the device are not those that forward_sampled goes on from
    int32_t *text; // recompute: (context) all tokens; owned
} Decoder;

// After a model_forward with one row of logits, unless options->first is given. False: exit code 5.
bool decoder_begin(Decoder *d, Model *model, const DecoderOptions *options, Error *error);

// Whether a Decoder of this model could use drafts; else *why says what it is off with.
bool decoder_speculates(const Model *model, const char **why);

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
// is batch-invariant. The generator goes back n numbers, and mirostat's state with it (to that
// behind the token that was there, where `last` is another); numbers of refused tokens stay taken.
// Who called sampler_accept calls sampler_forget. For one sequence, between two calls of
// decoder_next. With n > 0 there are no logits until the next. False, with nothing changed: layers
// with a window have lost what that position sees.
bool decoder_rewind(Decoder *d, int n, int32_t last);

// Discards speculative passes: the cache is as if each token but the last taken had been fed, and
// no other. A zeroed decoder is fine.
void decoder_end(Decoder *d);
