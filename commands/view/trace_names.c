// Which stage a tensor of a trace is, by its name alone: that of a module of Hugging Face's model,
// as docs/trace.md lists them. The file may come from another program and names no family.
#include "commands/view/view.h"

#include <stdio.h>
#include <string.h>

// The end of a name, behind the number of its layer. A row may stand for two stages: the second is
// meant where the layer has the norm `unless`, a post norm behind the module.
typedef struct NameRow {
    const char *end;
    StageId stage;
    const char *unless;
    StageId otherwise;
} NameRow;

static const char POST_ATT[] = ".post_attention_layernorm",
                  POST_FFN[] = ".post_feedforward_layernorm";

// In layers with two norms behind the modules (Gemma 3, OLMo 2) post_attention_layernorm is one of
// them; in all others it is the norm in front of the FFN.
static const NameRow INSIDE[] = {
    {"", STAGE_LAYER_OUT, NULL, 0},
    {".input_layernorm", STAGE_ATT_NORM, NULL, 0},
    {".ln_1", STAGE_ATT_NORM, NULL, 0},
    {".q_proj", STAGE_Q, NULL, 0},
    {".k_proj", STAGE_K, NULL, 0},
    {".v_proj", STAGE_V, NULL, 0},
    {".q", STAGE_Q, NULL, 0},
    {".k", STAGE_K, NULL, 0},
    {".v", STAGE_V, NULL, 0},
    {".q_norm", STAGE_Q_NORM, NULL, 0},
    {".k_norm", STAGE_K_NORM, NULL, 0},
    {".q_rotated", STAGE_Q_ROTATED, NULL, 0},
    {".k_rotated", STAGE_K_ROTATED, NULL, 0},
    {".heads", STAGE_ATT_HEADS, NULL, 0},
    {".o_proj", STAGE_ATT_OUT, POST_FFN, STAGE_ATT_PROJECTED},
    {".attn.c_proj", STAGE_ATT_OUT, NULL, 0},
    {".attn_residual", STAGE_ATT_RESIDUAL, NULL, 0},
    {POST_ATT, STAGE_FFN_NORM, POST_FFN, STAGE_ATT_OUT},
    {".pre_feedforward_layernorm", STAGE_FFN_NORM, NULL, 0},
    {".ln_2", STAGE_FFN_NORM, NULL, 0},
    {".gate_proj", STAGE_FFN_GATE, NULL, 0},
    {".gate", STAGE_FFN_GATE, NULL, 0},
    {".up_proj", STAGE_FFN_UP, NULL, 0},
    {".up", STAGE_FFN_UP, NULL, 0},
    {".c_fc", STAGE_FFN_UP, NULL, 0},
    {".fc1", STAGE_FFN_UP, NULL, 0},
    {".activated", STAGE_FFN_ACTIVATED, NULL, 0},
    {".down_proj", STAGE_FFN_OUT, POST_FFN, STAGE_FFN_PROJECTED},
    {".fc2", STAGE_FFN_OUT, NULL, 0},
    {".mlp.c_proj", STAGE_FFN_OUT, NULL, 0},
    {POST_FFN, STAGE_FFN_OUT, NULL, 0},
};

static const NameRow OUTSIDE[] = {
    {"model.embed_tokens", STAGE_EMBEDDING, "model.embed_norm", STAGE_TOKEN_EMBEDDING},
    {"model.embed_norm", STAGE_EMBEDDING, NULL, 0},
    {"transformer.drop", STAGE_EMBEDDING, NULL, 0},
    {"model.norm", STAGE_FINAL_NORM, NULL, 0},
    {"transformer.ln_f", STAGE_FINAL_NORM, NULL, 0},
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

static StageId meant(const NameRow *row, const SafetensorsFile *file, const char *norm) {
    return row->unless && safetensors_find(file, norm) ? row->otherwise : row->stage;
}

StageId trace_stage_of(const SafetensorsFile *file, const char *name, int layer) {
    char norm[TRACE_NAME_SIZE];
    const char *end = behind_layer(name);
    for (size_t i = 0; layer < 0 && i < sizeof OUTSIDE / sizeof *OUTSIDE; i++)
        if (!strcmp(name, OUTSIDE[i].end)) return meant(&OUTSIDE[i], file, OUTSIDE[i].unless);
    for (size_t i = 0; layer >= 0 && i < sizeof INSIDE / sizeof *INSIDE; i++) {
        bool same = *INSIDE[i].end ? ends_with(end, INSIDE[i].end) : !*end;
        snprintf(norm, sizeof norm, "%.*s%s", (int)(end - name), name,
                 INSIDE[i].unless ? INSIDE[i].unless : "");
        if (same) return meant(&INSIDE[i], file, norm);
    }
    return STAGE_COUNT;
}
