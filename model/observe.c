// Names and shapes of the stages, and their way from the device to a listener. Which step has a
// stage is decided in forward.c, by where it calls observe.
#include "model/observe.h"

#include "model/internal.h"

// The shape of one row of a stage.
typedef enum Width {
    WIDTH_DIM,
    WIDTH_HIDDEN,
    WIDTH_VOCAB,
    WIDTH_Q_HEADS,  // n_heads x head_dim
    WIDTH_KV_HEADS, // n_kv_heads x head_dim
    WIDTH_WEIGHTS,  // n_heads x context
} Width;

static const struct {
    const char *name;
    Width width;
} STAGES[STAGE_COUNT] = {
    [STAGE_TOKEN_EMBEDDING] = {"token_embedding", WIDTH_DIM},
    [STAGE_EMBEDDING] = {"embedding", WIDTH_DIM},
    [STAGE_ATT_NORM] = {"att_norm", WIDTH_DIM},
    [STAGE_Q] = {"q", WIDTH_Q_HEADS},
    [STAGE_K] = {"k", WIDTH_KV_HEADS},
    [STAGE_V] = {"v", WIDTH_KV_HEADS},
    [STAGE_Q_NORM] = {"q_norm", WIDTH_Q_HEADS},
    [STAGE_K_NORM] = {"k_norm", WIDTH_KV_HEADS},
    [STAGE_Q_ROTATED] = {"q_rotated", WIDTH_Q_HEADS},
    [STAGE_K_ROTATED] = {"k_rotated", WIDTH_KV_HEADS},
    [STAGE_ATT_WEIGHTS] = {"att_weights", WIDTH_WEIGHTS},
    [STAGE_ATT_HEADS] = {"att_heads", WIDTH_Q_HEADS},
    [STAGE_ATT_PROJECTED] = {"att_projected", WIDTH_DIM},
    [STAGE_ATT_OUT] = {"att_out", WIDTH_DIM},
    [STAGE_ATT_RESIDUAL] = {"att_residual", WIDTH_DIM},
    [STAGE_FFN_NORM] = {"ffn_norm", WIDTH_DIM},
    [STAGE_FFN_GATE] = {"ffn_gate", WIDTH_HIDDEN},
    [STAGE_FFN_UP] = {"ffn_up", WIDTH_HIDDEN},
    [STAGE_FFN_ACTIVATED] = {"ffn_activated", WIDTH_HIDDEN},
    [STAGE_FFN_PROJECTED] = {"ffn_projected", WIDTH_DIM},
    [STAGE_FFN_OUT] = {"ffn_out", WIDTH_DIM},
    [STAGE_LAYER_OUT] = {"layer_out", WIDTH_DIM},
    [STAGE_FINAL_NORM] = {"final_norm", WIDTH_DIM},
    [STAGE_UNCAPPED] = {"logits_uncapped", WIDTH_VOCAB},
    [STAGE_LOGITS] = {"logits", WIDTH_VOCAB},
};

const char *stage_name(StageId id) {
    return (unsigned)id < STAGE_COUNT ? STAGES[id].name : "unknown";
}

size_t stage_size(const Stage *stage) {
    size_t size = 1;
    for (int i = 0; i < 4 && stage->shape[i]; i++)
        size *= (size_t)stage->shape[i];
    return size;
}

// The rows of the chunk, or those of them that want logits, and the shape of all: (n, width), or
// (n, heads, width) where the second number of a row is not 0.
static void set_rows(Stage *stage, const Model *model) {
    const Config *c = &model->config;
    const Chunk *k = &model->chunk;
    stage->rows = (Rows){k->n, k->tokens, k->positions, k->sequences};
    if (stage->id >= STAGE_FINAL_NORM)
        stage->rows =
            (Rows){k->n_logit_rows, k->logit_tokens, k->logit_positions, k->logit_sequences};
    const int widths[][2] = {
        [WIDTH_DIM] = {c->dim, 0},
        [WIDTH_HIDDEN] = {c->hidden_dim, 0},
        [WIDTH_VOCAB] = {c->vocab_size, 0},
        [WIDTH_Q_HEADS] = {c->n_heads, c->head_dim},
        [WIDTH_KV_HEADS] = {c->n_kv_heads, c->head_dim},
        [WIDTH_WEIGHTS] = {c->n_heads, model->options.context},
    };
    stage->shape[0] = stage->rows.n;
    stage->shape[1] = widths[STAGES[stage->id].width][0];
    stage->shape[2] = widths[STAGES[stage->id].width][1];
}

bool stage_is_residual(const Model *m, const Stage *stage) {
    return (stage->id == STAGE_ATT_NORM && !m->layers[stage->layer].att_norm.weight) ||
           (stage->id == STAGE_FFN_NORM && !m->layers[stage->layer].ffn_norm.weight);
}

void observe(Model *model, StageId id, int layer, const float *data) {
    if (!model_observes(model, id) || model_stopped(model)) return;
    Stage stage = {.id = id, .layer = layer, .data = model->host_stage};
    set_rows(&stage, model);
    size_t bytes = stage_size(&stage) * sizeof(float);
    // The operations so far may only be recorded; they run now, so that `data` holds the result.
    device_sync(model->device);
    device_download(model->device, stage.data, data, bytes);
    if (device_error(model->device)->code) return; // model_forward reports it
    // Every stage lies in a buffer of the scratch; const says that `observe` alone changes nothing.
    if (model->intervention_stages >> id & 1 &&
        model->intervention(model->intervention_context, model, &stage))
        device_upload(model->device, (float *)data, stage.data, bytes);
    if (model->listener) model->listener(model->listener_context, model, &stage);
}
