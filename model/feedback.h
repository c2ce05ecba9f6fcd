// Feedback: the next tokens of sequence 0, drawn and fed back on the device. The host learns each
// of them some passes later, so that a device of its own never waits for it.
//
//     Feedback f;
//     feedback_begin(&f, model, sampler, 256);      // behind the model_forward of the prompt
//     while (feedback_left(&f) > 0 && (id = feedback_next(&f, &error)) >= 0) ...
//     feedback_end(&f);                             // passes nobody asked for never were
//
//     pass of token k-1 -> sample k -> (advance) -> pass of token k -> sample k+1 -> ...
//                              \ device_send                 \ device_send
//                               ... host: device_receive k    ...
//
// The tokens, the cache afterwards and the sampler's state are those of sampler_next and
// model_forward in turns. Not for samplers with penalties or bias (sampler_is_plain), nor while
// somebody listens to the model.
#pragma once

#include "model/model.h"
#include "model/sampler.h"

typedef struct Feedback {
    Model *model; // borrowed; NULL: not begun
    Sampler *sampler;
    int start;        // length of sequence 0 where it began
    int most;         // tokens there can be
    int drawn, taken; // tokens so far: by the device, by the host
    int32_t last;     // the last one taken
    int ahead; // tokens under way while the host looks at one; feedback_begin asks the device
} Feedback;

// After a model_forward whose last row wanted logits and had a single row of them. At most
// `max_tokens` are asked for.
void feedback_begin(Feedback *f, Model *model, Sampler *sampler, size_t max_tokens);

// How many tokens are left: fewer than max_tokens where the context ends before.
int feedback_left(const Feedback *f);

// The next token, of feedback_left(f) > 0. -1 with exit code 6 or 7, as model_forward has them.
int feedback_next(Feedback *f, Error *error);

// Leaves the cache as if each token but the last taken had been fed by itself, and no other.
void feedback_end(Feedback *f);
