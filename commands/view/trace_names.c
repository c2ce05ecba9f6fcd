// Which stage a tensor of a trace is, by its name alone: that of a module of Hugging Face's model,
// as docs/trace.md lists them. The file may come from another program and names no family.
#include "commands/view/view.h"

#include <string.h>

// The end of a name, behind the number of its layer, and what it is: in a model without, and in one
// with norms behind the modules (Gemma 3, OLMo 2) or behind the embedding (nanochat).
typedef struct NameRow {
    const char *end;
    StageId stage, with_norm;
} NameRow;

static const NameRow INSIDE[] = {
    {"", STAGE_LAYER_OUT, STAGE_LAYER_OUT},
    {".input_layernorm", STAGE_ATT_NORM, STAGE_ATT_NORM},
    {".ln_1", STAGE_ATT_NORM, STAGE_ATT_NORM},
    {".q_proj", STAGE_Q, STAGE_Q},
    {".k_proj", STAGE_K, STAGE_K},
    {".v_proj", STAGE_V, STAGE_V},
    {".q", STAGE_Q, STAGE_Q},
    {".k", STAGE_K, STAGE_K},
    {".v", STAGE_V, STAGE_V},
    {".q_norm", STAGE_Q_NORM, STAGE_Q_NORM},
    {".k_norm", STAGE_K_NORM, STAGE_K_NORM},
    {".query_layernorm", STAGE_Q_NORM, STAGE_Q_NORM},
    {".key_layernorm", STAGE_K_NORM, STAGE_K_NORM},
    {".q_rotated", STAGE_Q_ROTATED, STAGE_Q_ROTATED},
    {".k_rotated", STAGE_K_ROTATED, STAGE_K_ROTATED},
    {".heads", STAGE_ATT_HEADS, STAGE_ATT_HEADS},
    {".o_proj", STAGE_ATT_OUT, STAGE_ATT_PROJECTED},
    {".attn.c_proj", STAGE_ATT_OUT, STAGE_ATT_OUT},
    {".attention.dense", STAGE_ATT_OUT, STAGE_ATT_OUT},
    {".self_attn.scaled", STAGE_ATT_OUT, STAGE_ATT_OUT},
    {".attn_residual", STAGE_ATT_RESIDUAL, STAGE_ATT_RESIDUAL},
    {".post_attention_layernorm", STAGE_FFN_NORM, STAGE_ATT_OUT},
    {".pre_feedforward_layernorm", STAGE_FFN_NORM, STAGE_FFN_NORM},
    {".ln_2", STAGE_FFN_NORM, STAGE_FFN_NORM},
    {".gate_proj", STAGE_FFN_GATE, STAGE_FFN_GATE},
    {".gate", STAGE_FFN_GATE, STAGE_FFN_GATE},
    {".up_proj", STAGE_FFN_UP, STAGE_FFN_UP},
    {".up", STAGE_FFN_UP, STAGE_FFN_UP},
    {".c_fc", STAGE_FFN_UP, STAGE_FFN_UP},
    {".fc1", STAGE_FFN_UP, STAGE_FFN_UP},
    {".dense_h_to_4h", STAGE_FFN_UP, STAGE_FFN_UP},
    {".activated", STAGE_FFN_ACTIVATED, STAGE_FFN_ACTIVATED},
    {".down_proj", STAGE_FFN_OUT, STAGE_FFN_PROJECTED},
    {".output_linear", STAGE_FFN_OUT, STAGE_FFN_OUT},
    {".dense_4h_to_h", STAGE_FFN_OUT, STAGE_FFN_OUT},
    {"mlp.scaled", STAGE_FFN_OUT, STAGE_FFN_OUT},
    {".fc2", STAGE_FFN_OUT, STAGE_FFN_OUT},
    {".mlp.c_proj", STAGE_FFN_OUT, STAGE_FFN_OUT},
    {".post_feedforward_layernorm", STAGE_FFN_OUT, STAGE_FFN_OUT},
};

static const NameRow OUTSIDE[] = {
    {"model.embed_tokens", STAGE_EMBEDDING, STAGE_TOKEN_EMBEDDING},
    {"model.embed_norm", STAGE_EMBEDDING, STAGE_EMBEDDING},
    {"transformer.drop", STAGE_EMBEDDING, STAGE_EMBEDDING},
    {"gpt_neox.embed_in", STAGE_EMBEDDING, STAGE_EMBEDDING},
    {"gpt_neox.final_layer_norm", STAGE_FINAL_NORM, STAGE_FINAL_NORM},
    {"model.norm", STAGE_FINAL_NORM, STAGE_FINAL_NORM},
    {"transformer.ln_f", STAGE_FINAL_NORM, STAGE_FINAL_NORM},
};

// What comes behind the layer's number: ".mlp.up_proj" of "model.layers.3.mlp.up_proj".
static const char *behind_layer(const char *name) {
    const char *dot = name;
    while ((dot = strchr(dot, '.'))) {
        size_t digits = strspn(++dot, "0123456789");
        if (digits && (!dot[digits] || dot[digits] == '.')) return dot + digits;
    }
    return name;
}

const char TRACE_POST_NORM[] = ".post_feedforward_layernorm";
const char TRACE_FACTOR[] = ".scaled";
const char TRACE_EMBEDDING_NORM[] = "model.embed_norm";

// Where a block's output has a factor, what its last matrix gives is the stage before.
static StageId before_factor(StageId stage, const char *name) {
    if (ends_with(name, TRACE_FACTOR)) return stage;
    return stage == STAGE_ATT_OUT   ? STAGE_ATT_PROJECTED
           : stage == STAGE_FFN_OUT ? STAGE_FFN_PROJECTED
                                    : stage;
}

StageId trace_stage_of(const char *name, int layer, bool with_norm, bool with_factor) {
    const NameRow *rows = layer < 0 ? OUTSIDE : INSIDE;
    size_t count = layer < 0 ? sizeof OUTSIDE / sizeof *OUTSIDE : sizeof INSIDE / sizeof *INSIDE;
    const char *end = layer < 0 ? name : behind_layer(name);
    for (size_t i = 0; i < count; i++) {
        bool whole = layer < 0 || !*rows[i].end;
        if (whole ? !strcmp(end, rows[i].end) : ends_with(end, rows[i].end))
            return with_norm     ? rows[i].with_norm
                   : with_factor ? before_factor(rows[i].stage, name)
                                 : rows[i].stage;
    }
    return STAGE_COUNT;
}
