// Explanation: the output of one head at one position as the weighted sum that it is.
//
//     Explanation e = {.session = &s, .tokens = &tokens, .layer = 3, .head = 1, .position = 9};
//     good = explanation_compute(&e, &error);
//     ... e.keys[i].weight, e.keys[i].share ...
//     explanation_free(&e);
//
//   output = sum_t w_t v_t      over the keys t that the position sees; w: the softmax, v: values
//   of
//                               the key-value head h / (n_heads / n_kv_heads), as the cache has
//                               them
//   length_t = |w_t v_t|
//   share_t  = (w_t v_t . output) / |output|^2        they add up to 1; a key that points the other
//                                                     way has a share below 0
#pragma once

#include "commands/shared/session.h"

typedef struct Contribution {
    int key; // position
    float weight;
    double length, share;
} Contribution;

typedef struct Explanation {
    Session *session; // with an open model whose context is position + 1 or more
    const IdList *tokens;
    int layer, head;
    size_t position; // of the query

    Contribution *keys; // (n_keys) those that are visible, by position
    size_t n_keys;
    float *values; // (n_keys, head_dim)
    float *output; // (head_dim) as the model computed it
    double length; // |output|
    double error;  // |output - sum_t w_t v_t| / |output|
} Explanation;

// Runs the prompt up to `position`. False: exit code 5, 130, or what the model said; nothing is
// left to free then.
bool explanation_compute(Explanation *explanation, Error *error);
void explanation_free(Explanation *explanation);

// A table of the `most` largest weights, the rest as one sum; a CSV or a JSON object of all keys.
bool explanation_print(const Explanation *explanation, size_t most, Error *error);
void explanation_print_csv(const Explanation *explanation);
void explanation_print_json(const Explanation *explanation);
