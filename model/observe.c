// The stages by name, and the way from the device to a listener.
#include "model/observe.h"

#include "model/model.h"

static const char *const NAMES[STAGE_COUNT] = {
    [STAGE_EMBEDDING] = "embedding",
    [STAGE_ATT_NORM] = "att_norm",
    [STAGE_Q] = "q",
    [STAGE_K] = "k",
    [STAGE_V] = "v",
    [STAGE_Q_ROTATED] = "q_rotated",
    [STAGE_K_ROTATED] = "k_rotated",
    [STAGE_ATT_WEIGHTS] = "att_weights",
    [STAGE_ATT_HEADS] = "att_heads",
    [STAGE_ATT_OUT] = "att_out",
    [STAGE_ATT_RESIDUAL] = "att_residual",
    [STAGE_FFN_NORM] = "ffn_norm",
    [STAGE_FFN_GATE] = "ffn_gate",
    [STAGE_FFN_UP] = "ffn_up",
    [STAGE_FFN_ACTIVATED] = "ffn_activated",
    [STAGE_FFN_OUT] = "ffn_out",
    [STAGE_LAYER_OUT] = "layer_out",
    [STAGE_FINAL_NORM] = "final_norm",
    [STAGE_LOGITS] = "logits",
};

const char *stage_name(StageId id) {
    return (unsigned)id < STAGE_COUNT ? NAMES[id] : "unknown";
}

size_t stage_size(const Stage *stage) {
    size_t size = 1;
    for (int i = 0; i < 4 && stage->shape[i]; i++)
        size *= (size_t)stage->shape[i];
    return size;
}

void observe(Model *model, const Stage *stage) {
    if (!model->listener) return;
    const Piece *p = &model->piece;
    Stage seen = *stage;
    seen.data = model->host_stage;
    seen.rows = (Rows){p->n, p->tokens, p->positions, p->sequences};
    if (stage->id >= STAGE_FINAL_NORM)
        seen.rows =
            (Rows){p->n_logit_rows, p->logit_tokens, p->logit_positions, p->logit_sequences};
    device_sync(model->device);
    device_download(model->device, model->host_stage, stage->data,
                    stage_size(stage) * sizeof(float));
    if (device_error(model->device)->code) return; // told by model_forward
    model->listener(model->listener_context, model, &seen);
}
