// Attribution: the logit of one token at one position as a sum over the parts of the model that
// wrote to the residual stream (direct logit attribution, Elhage et al. 2021, "A Mathematical
// Framework for Transformer Circuits").
//
//     Attribution a = {.session = &s, .tokens = &tokens, .position = 9, .token = -1};
//     good = attribution_compute(&a, &error);
//     ... a.parts[i].logit, a.sum, a.logit ...
//     attribution_free(&a);
//
// The stream x at the end is a sum of vectors, and the logit is linear in it once the scale s of
// the final norm is taken as given:
//
//   x = embedding + sum_l (sum_h wo_h heads_h + bo) + sum_l ffn_l      a post norm: its output,
//   with
//                                                                      its scale taken as given too
//   logit = u . (s w x + b) = sum_i d . x_i + u . b                    u: the token's row of the
//   head d = s w u                       RMSNorm;   LayerNorm: minus the mean of d, since it
//   subtracts
//                                   that of x
//
// Everything here is float64 over the weights as they are stored; the model's own logit differs by
// its arithmetic: float32 sums, activations as integers (--precision), the soft cap.
#pragma once

#include "commands/shared/session.h"

typedef enum PartKind {
    PART_EMBEDDING, // of the token, with a learned position
    PART_HEAD,
    PART_ATTENTION_BIAS, // of wo
    PART_FFN,
    PART_NORM_BIAS, // of the final norm
} PartKind;

typedef struct Part {
    PartKind kind;
    int layer, head; // -1: belongs to none
    double logit;    // what it adds
} Part;

typedef struct Attribution {
    Session *session; // with an open model whose context is position + 1 or more
    const IdList *tokens;
    size_t position; // whose row of logits it is
    int32_t token;   // -1: the likeliest one, which then stands here

    Part *parts; // (n_parts) in the order of computation
    size_t n_parts;
    double sum;         // of the parts
    double logit;       // as the model computed it, before a soft cap
    double capped;      // after it
    double probability; // of the token
} Attribution;

// Runs the prompt up to `position`. False: exit code 5, 130, or what the model said; nothing is
// left to free then.
bool attribution_compute(Attribution *attribution, Error *error);
// Only the list of parts, for a session without a model; attribution_free. False: exit code 5.
bool attribution_list(Attribution *attribution, Error *error);
void attribution_free(Attribution *attribution);

// ---- what is printed of it: attribution_report.c ----

// The `most` largest parts in a table; a CSV or a JSON object of all of them.
bool attribution_print(const Attribution *attribution, size_t most, Error *error);
void attribution_print_csv(const Attribution *attribution);
void attribution_print_json(const Attribution *attribution);
