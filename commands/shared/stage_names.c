// Names of stages, in both directions. The names of modules come from the family's own table of
// tensors (weights/families.c), so a new family needs nothing here.
#include "commands/shared/stage_names.h"

#include "weights/families.h"

#include <stdio.h>
#include <string.h>

// ---- of modules ----

// A stage has the name of the module of `role`, or of `otherwise` where the family lacks it. A
// stage that is no module's output is named below the module that is `up` levels above. For example
// STAGE_ATT_HEADS: the module of wo is model.layers.3.self_attn.o_proj; one level up and the suffix
// give model.layers.3.self_attn.heads.
static const struct {
    Role role, otherwise;
    int up;
    const char *suffix;
} NAMES[STAGE_COUNT] = {
    [STAGE_TOKEN_EMBEDDING] = {.role = ROLE_EMBEDDING},
    [STAGE_EMBEDDING] = {.role = ROLE_EMBEDDING_NORM, .otherwise = ROLE_EMBEDDING},
    [STAGE_ATT_NORM] = {.role = ROLE_ATT_NORM},
    [STAGE_Q] = {.role = ROLE_WQ},
    [STAGE_K] = {.role = ROLE_WK},
    [STAGE_V] = {.role = ROLE_WV},
    [STAGE_Q_NORM] = {.role = ROLE_Q_NORM},
    [STAGE_K_NORM] = {.role = ROLE_K_NORM},
    [STAGE_Q_ROTATED] = {.role = ROLE_WO, .up = 1, .suffix = ".q_rotated"},
    [STAGE_K_ROTATED] = {.role = ROLE_WO, .up = 1, .suffix = ".k_rotated"},
    [STAGE_ATT_WEIGHTS] = {.role = ROLE_WO, .up = 1, .suffix = ".attn_weights"},
    [STAGE_ATT_HEADS] = {.role = ROLE_WO, .up = 1, .suffix = ".heads"},
    [STAGE_ATT_PROJECTED] = {.role = ROLE_WO},
    [STAGE_ATT_OUT] = {.role = ROLE_ATT_POST_NORM, .otherwise = ROLE_WO},
    [STAGE_ATT_RESIDUAL] = {.role = ROLE_WO, .up = 2, .suffix = ".attn_residual"},
    [STAGE_FFN_NORM] = {.role = ROLE_FFN_NORM},
    [STAGE_FFN_GATE] = {.role = ROLE_W_GATE},
    [STAGE_FFN_UP] = {.role = ROLE_W_UP},
    [STAGE_FFN_ACTIVATED] = {.role = ROLE_W_DOWN, .up = 1, .suffix = ".activated"},
    [STAGE_FFN_PROJECTED] = {.role = ROLE_W_DOWN},
    [STAGE_FFN_OUT] = {.role = ROLE_FFN_POST_NORM, .otherwise = ROLE_W_DOWN},
    [STAGE_LAYER_OUT] = {.role = ROLE_WO, .up = 2},
    [STAGE_FINAL_NORM] = {.role = ROLE_FINAL_NORM},
    [STAGE_UNCAPPED] = {.role = ROLE_HEAD},
    [STAGE_LOGITS] = {.role = ROLE_HEAD},
};

bool trace_stage_name(char out[TRACE_NAME_SIZE], const Checkpoint *checkpoint, StageId id,
                      int layer) {
    ModuleName name = "logits";
    // With a soft cap or a divisor lm_head is the stage before it, and what follows has a name of
    // its own; so has the output of a block behind its factor.
    const Config *c = checkpoint_config(checkpoint);
    bool changed = id == STAGE_LOGITS && config_changes_logits(c);
    bool scaled = (id == STAGE_ATT_OUT || id == STAGE_FFN_OUT) && c->residual_scale != 1.0f;
    if (!changed && !module_name(name, checkpoint, NAMES[id].role, layer) &&
        !module_name(name, checkpoint, NAMES[id].otherwise, layer))
        return false;
    for (int i = 0; i < NAMES[id].up + scaled; i++) {
        char *dot = strrchr(name, '.');
        if (dot) *dot = '\0';
    }
    const char *suffix = scaled ? ".scaled" : NAMES[id].suffix ? NAMES[id].suffix : "";
    snprintf(out, TRACE_NAME_SIZE, "%s%s", name, suffix);
    return true;
}

// ---- of TransformerLens ----

// Below "blocks.N.". What its hook_resid_pre sees is what the layer before has left.
static const struct {
    const char *name;
    StageId id;
} HOOKS[] = {
    {"ln1.hook_normalized", STAGE_ATT_NORM},
    {"attn.hook_q", STAGE_Q},
    {"attn.hook_k", STAGE_K},
    {"attn.hook_v", STAGE_V},
    {"attn.hook_rot_q", STAGE_Q_ROTATED},
    {"attn.hook_rot_k", STAGE_K_ROTATED},
    {"attn.hook_pattern", STAGE_ATT_WEIGHTS},
    {"attn.hook_z", STAGE_ATT_HEADS},
    {"hook_attn_out", STAGE_ATT_OUT},
    {"hook_resid_mid", STAGE_ATT_RESIDUAL},
    {"ln2.hook_normalized", STAGE_FFN_NORM},
    {"mlp.hook_post", STAGE_FFN_ACTIVATED},
    {"hook_mlp_out", STAGE_FFN_OUT},
    {"hook_resid_post", STAGE_LAYER_OUT},
    // Outside the layers:
    {"hook_embed", STAGE_EMBEDDING},
    {"ln_final.hook_normalized", STAGE_FINAL_NORM},
};

static bool is(const char *name, size_t length, const char *text) {
    return strlen(text) == length && !memcmp(name, text, length);
}

// `name` within layer `layer`, or outside the layers where that is -1.
static bool find_hook(StagePlace *place, const Config *c, const char *name, size_t length,
                      int layer) {
    if (layer >= 0 && is(name, length, "hook_resid_pre")) {
        *place =
            layer ? (StagePlace){STAGE_LAYER_OUT, layer - 1} : (StagePlace){STAGE_EMBEDDING, -1};
        return true;
    }
    // The gate is what the activation function sees; without one the first matrix is.
    *place = (StagePlace){c->gated_ffn ? STAGE_FFN_GATE : STAGE_FFN_UP, layer};
    if (layer >= 0 && is(name, length, "mlp.hook_pre")) return true;
    // With learned positions (GPT-2) the stage holds both; TransformerLens hooks the token alone.
    if (c->position == POSITION_LEARNED && is(name, length, "hook_embed")) return false;
    *place = (StagePlace){STAGE_FFN_UP, layer};
    if (layer >= 0 && c->gated_ffn && is(name, length, "mlp.hook_pre_linear")) return true;
    for (size_t i = 0; i < sizeof HOOKS / sizeof *HOOKS; i++) {
        *place = (StagePlace){HOOKS[i].id, layer};
        if (stage_is_in_layer(place->id) == (layer >= 0) && is(name, length, HOOKS[i].name))
            return true;
    }
    return false;
}

// ---- any of them ----

// limpid's own name, within a layer or outside.
static bool find_own(StagePlace *place, const char *name, size_t length, int layer) {
    for (int i = 0; i < STAGE_COUNT; i++) {
        *place = (StagePlace){(StageId)i, layer};
        if (stage_is_in_layer(place->id) == (layer >= 0) && is(name, length, stage_name(place->id)))
            return true;
    }
    return false;
}

// By comparing with the name of every stage. Where two stages have one name, the last is meant: it
// is what leaves the module (logits, not what their soft cap reads).
static bool find_module(StagePlace *place, const Checkpoint *checkpoint, const char *name,
                        size_t length) {
    char of_stage[TRACE_NAME_SIZE];
    for (int i = STAGE_COUNT; i-- > 0;) {
        bool inside = stage_is_in_layer((StageId)i);
        int end = inside ? checkpoint_config(checkpoint)->n_layers : 0;
        for (int l = inside ? 0 : -1; l < end; l++) {
            *place = (StagePlace){(StageId)i, l};
            if (trace_stage_name(of_stage, checkpoint, place->id, l) && is(name, length, of_stage))
                return true;
        }
    }
    return false;
}

// Takes "layers.12." or "blocks.12." from the front of the name. -1: it does not begin so.
static int take_layer(const char **name, size_t *length, const char *word) {
    size_t begin = strlen(word), at = begin;
    int layer = 0;
    if (*length <= begin || memcmp(*name, word, begin)) return -1;
    for (; at < *length && (*name)[at] >= '0' && (*name)[at] <= '9' && layer < 100 * 1000 * 1000;
         at++)
        layer = 10 * layer + (*name)[at] - '0';
    if (at == begin || at == *length || (*name)[at] != '.') return -1;
    *name += at + 1;
    *length -= at + 1;
    return layer;
}

static bool find_in_layer(StagePlace *place, const Config *c, const char *name, size_t length) {
    const char *own = name, *hook = name;
    size_t own_length = length, hook_length = length;
    int own_layer = take_layer(&own, &own_length, "layers.");
    int hook_layer = take_layer(&hook, &hook_length, "blocks.");
    return find_own(place, own, own_length, own_layer) ||
           find_hook(place, c, hook, hook_length, hook_layer);
}

bool stage_place_find(StagePlace *place, const Checkpoint *checkpoint, const char *name,
                      size_t length, Error *error) {
    const Config *c = checkpoint_config(checkpoint);
    char escaped[80];
    escape_bytes(escaped, sizeof escaped, name, length);
    if (!find_in_layer(place, c, name, length) && !find_module(place, checkpoint, name, length))
        return error_set(error, ERROR_USAGE,
                         "no stage is called \"%s\" (layers.0.att_out is one; docs/trace.md lists "
                         "them)",
                         escaped);
    if (place->layer < c->n_layers) return true;
    return error_set(error, ERROR_USAGE, "%s: the model's layers are 0 to %d", escaped,
                     c->n_layers - 1);
}
