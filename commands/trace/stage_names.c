#include "commands/trace/stage_names.h"

#include "weights/hf/module_names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

// A stage has the name of the module of `role`, or of `otherwise` where the family lacks it. A
// stage that is no module's output is named below the module that is `up` levels above.
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

bool trace_name_matches(const TextList *patterns, const char *name) {
    if (!patterns->count) return true;
    for (const char *end = name; end; end = strchr(end, '.')) {
        end += *end == '.';
        for (int i = 0; i < patterns->count; i++)
            if (!fnmatch(patterns->texts[i], end, 0)) return true;
    }
    return false;
}
