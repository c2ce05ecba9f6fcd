#include "commands/stage_names.h"

#include "weights/module_names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

// A stage is named after the module of a role; where the family lacks that one, of the second. What
// is no module's output hangs below the one that is `up` levels above a module.
static const struct {
    Role role, otherwise;
    int up;
    const char *suffix;
} NAMES[STAGE_COUNT] = {
    [STAGE_TOKEN_EMBEDDING] = {ROLE_EMBEDDING},
    [STAGE_EMBEDDING] = {ROLE_EMBEDDING_NORM, ROLE_EMBEDDING},
    [STAGE_ATT_NORM] = {ROLE_ATT_NORM},
    [STAGE_Q] = {ROLE_WQ},
    [STAGE_K] = {ROLE_WK},
    [STAGE_V] = {ROLE_WV},
    [STAGE_Q_NORM] = {ROLE_Q_NORM},
    [STAGE_K_NORM] = {ROLE_K_NORM},
    [STAGE_Q_ROTATED] = {ROLE_WO, .up = 1, .suffix = ".q_rotated"},
    [STAGE_K_ROTATED] = {ROLE_WO, .up = 1, .suffix = ".k_rotated"},
    [STAGE_ATT_WEIGHTS] = {ROLE_WO, .up = 1, .suffix = ".attn_weights"},
    [STAGE_ATT_HEADS] = {ROLE_WO, .up = 1, .suffix = ".heads"},
    [STAGE_ATT_PROJECTED] = {ROLE_WO},
    [STAGE_ATT_OUT] = {ROLE_ATT_POST_NORM, ROLE_WO},
    [STAGE_ATT_RESIDUAL] = {ROLE_WO, .up = 2, .suffix = ".attn_residual"},
    [STAGE_FFN_NORM] = {ROLE_FFN_NORM},
    [STAGE_FFN_GATE] = {ROLE_W_GATE},
    [STAGE_FFN_UP] = {ROLE_W_UP},
    [STAGE_FFN_ACTIVATED] = {ROLE_W_DOWN, .up = 1, .suffix = ".activated"},
    [STAGE_FFN_PROJECTED] = {ROLE_W_DOWN},
    [STAGE_FFN_OUT] = {ROLE_FFN_POST_NORM, ROLE_W_DOWN},
    [STAGE_LAYER_OUT] = {ROLE_WO, .up = 2},
    [STAGE_FINAL_NORM] = {ROLE_FINAL_NORM},
    [STAGE_UNCAPPED] = {ROLE_HEAD},
    [STAGE_LOGITS] = {ROLE_HEAD},
};

bool trace_stage_name(char out[TRACE_NAME_SIZE], const Checkpoint *checkpoint, StageId id,
                      int layer) {
    ModuleName name = "logits";
    bool capped = id == STAGE_LOGITS && checkpoint_config(checkpoint)->logit_softcap != 0.0f;
    if (!capped && !module_name(name, checkpoint, NAMES[id].role, layer) &&
        !module_name(name, checkpoint, NAMES[id].otherwise, layer))
        return false;
    for (int i = 0; i < NAMES[id].up; i++) {
        char *dot = strrchr(name, '.');
        if (dot) *dot = '\0';
    }
    snprintf(out, TRACE_NAME_SIZE, "%s%s", name, NAMES[id].suffix ? NAMES[id].suffix : "");
    return true;
}

bool trace_name_meant(const TextList *patterns, const char *name) {
    if (!patterns->count) return true;
    for (const char *end = name; end; end = strchr(end, '.')) {
        end += *end == '.';
        for (int i = 0; i < patterns->count; i++)
            if (!fnmatch(patterns->texts[i], end, 0)) return true;
    }
    return false;
}
