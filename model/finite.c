// NaN and infinity: found in the logits, then traced to the first stage that has them.
//
// Only logits are checked in every pass: NaN or infinity in the residual stream reaches them, and a
// check of every stage would need its numbers on the host. When logits fail, the same batch runs a
// second time with a listener that stops at the first bad number.
#include "model/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool all_finite(const float *numbers, size_t count) {
    uint32_t found = 0; // no early exit, so that the loop is vectorised
    for (size_t i = 0; i < count; i++) {
        // Finite float32 numbers have an exponent field below 255; with 255 it is infinity or NaN.
        uint32_t bits;
        memcpy(&bits, numbers + i, sizeof bits);
        found |= (bits & 0x7f800000u) == 0x7f800000u; // all ones in the exponent
    }
    return !found;
}

bool logits_finite(const Model *m) {
    return all_finite(m->host_logits, (size_t)m->n_host_rows * (size_t)m->config.vocab_size);
}

// The first number that is not finite.
typedef struct Culprit {
    const Stage *first; // NULL: there was none
    Stage stage;
    int position;
    float value;
} Culprit;

// A listener: keeps the first number that is not finite, ignores all stages after it. The stage is
// copied, since it is valid during the call only.
static void find_culprit(void *context, const Model *model, const Stage *stage) {
    (void)model;
    Culprit *found = context;
    size_t size = stage_size(stage);
    if (found->first || all_finite(stage->data, size)) return;
    size_t i = 0;
    while (isfinite(stage->data[i]))
        i++;
    found->stage = *stage;
    found->first = &found->stage;
    found->position = stage->rows.positions[i / (size / (size_t)stage->shape[0])];
    found->value = stage->data[i];
}

bool find_nonfinite_stage(Model *m, const Batch *batch, Error *error) {
    Culprit found = {0};
    Error lost = {0};
    if (m->ranked) // most stages are in other processes
        return error_set(error, ERROR_NONFINITE,
                         "a logit is not a finite number; one process alone names the stage");
    Listener *listener = m->listener;
    void *context = m->listener_context;
    bool attention_weights = m->att_weights;
    // The second run starts from the cache of before, if layers with a window still have it, also
    // what rows at earlier positions see. An intervention acts again; the caller's listener is put
    // back after it.
    if (!kv_cache_return(&m->cache, m->lengths_before))
        memcpy(m->lengths_before, m->cache.lengths, // what is left, for model_forget too
               (size_t)m->options.n_sequences * sizeof *m->lengths_before);
    else if (check_model_batch(m, batch, &lost) &&
             model_listen(m, find_culprit, &found, false, error))
        forward_batch(m, batch);
    model_listen(m, listener, context, attention_weights, error);
    m->n_logit_rows = m->n_host_rows = 0;
    if (!found.first) return error_set(error, ERROR_NONFINITE, "a logit is not a finite number");
    char layer[32] = "";
    if (found.stage.layer >= 0) snprintf(layer, sizeof layer, "layers.%d.", found.stage.layer);
    return error_set(error, ERROR_NONFINITE,
                     "the model's numbers are not finite: first %s%s at position %d holds %f",
                     layer, stage_name(found.stage.id), found.position, (double)found.value);
}
