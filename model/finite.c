// NaN and infinity: noticed in the logits, then traced to the stage they come from.
#include "model/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool all_finite(const float *numbers, size_t count) {
    uint32_t found = 0; // no early exit: the plain loop runs at the speed of memory
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, numbers + i, sizeof bits);
        found |= (bits & 0x7f800000u) == 0x7f800000u; // all ones in the exponent
    }
    return !found;
}

typedef struct Blame {
    const Stage *first; // NULL while all was finite
    Stage stage;
    int position;
    float value;
} Blame;

// Listener: remembers the first stage with a number that is not finite.
static void blame_listener(void *context, const Model *model, const Stage *stage) {
    (void)model;
    Blame *blame = context;
    size_t size = stage_size(stage);
    if (blame->first || all_finite(stage->data, size)) return;
    size_t i = 0;
    while (isfinite(stage->data[i]))
        i++;
    blame->stage = *stage;
    blame->first = &blame->stage;
    blame->position = stage->rows.positions[i / (size / (size_t)stage->shape[0])];
    blame->value = stage->data[i];
}

bool find_nonfinite_stage(Model *m, const Batch *batch, Error *error) {
    Blame blame = {0};
    Listener *listener = m->listener;
    void *context = m->listener_context;
    bool attention_weights = m->att_weights;
    if (model_listen(m, blame_listener, &blame, false, error)) {
        memcpy(m->cache.lengths, m->lengths_before,
               (size_t)m->options.n_sequences * sizeof *m->lengths_before);
        forward_batch(m, batch);
    }
    model_listen(m, listener, context, attention_weights, error);
    m->n_logit_rows = 0;
    if (!blame.first) return error_set(error, ERROR_NONFINITE, "a logit is not a finite number");
    char layer[32] = "";
    if (blame.stage.layer >= 0) snprintf(layer, sizeof layer, "layers.%d.", blame.stage.layer);
    return error_set(error, ERROR_NONFINITE,
                     "the model's numbers are not finite: first %s%s at position %d holds %f",
                     layer, stage_name(blame.stage.id), blame.position, (double)blame.value);
}
