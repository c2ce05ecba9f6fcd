// Roles: what a tensor is for, and the rows of the family tables that say so. Internal to weights/.
#pragma once

#include "weights/families.h"

#include <stdbool.h>

typedef enum Role {
    ROLE_NONE, // ends a list
    ROLE_EMBEDDING,
    ROLE_POSITION,
    ROLE_FINAL_NORM,
    ROLE_FINAL_NORM_BIAS,
    ROLE_HEAD,
    ROLE_ROPE_DIVISORS,
    ROLE_ATT_NORM,
    ROLE_ATT_NORM_BIAS,
    ROLE_WQ,
    ROLE_WK,
    ROLE_WV,
    ROLE_WO,
    ROLE_BQ,
    ROLE_BK,
    ROLE_BV,
    ROLE_BO,
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_ATT_POST_NORM,
    ROLE_FFN_NORM,
    ROLE_FFN_NORM_BIAS,
    ROLE_W_GATE,
    ROLE_W_UP,
    ROLE_W_DOWN,
    ROLE_B_UP,
    ROLE_B_DOWN,
    ROLE_FFN_POST_NORM,
    ROLE_COUNT
} Role;

typedef enum Need {
    REQUIRED,
    OPTIONAL, // absent: the step is left out, or another row brings the role
    IGNORED,  // known to be of no use, not worth a warning
} Need;

// One tensor name. '~' stands for the family's prefix, '#' for the layer's number. A tensor with
// several roles has them stacked by rows, in that order (a fused q|k|v, gate|up).
typedef struct TensorName {
    const char *pattern;
    Need need;
    Role roles[3]; // unused ones ROLE_NONE
} TensorName;

enum { N_LISTS = 4 }; // of tensor names that one family puts together

struct Family {
    const char *name;                      // Config.family
    const char *called[NAMING_COUNT];      // model_type, architecture; NULL: not in such files
    const char *prefixes[NAMING_COUNT][3]; // tried in order
    const TensorName *tensors[NAMING_COUNT][N_LISTS]; // each ends with pattern NULL
    bool interleaved[NAMING_COUNT]; // rows of wq and wk are in Meta's order (matrix.h)

    NormKind norm;
    QkNorm qk_norm;
    bool qk_norm_after_rope;
    Activation activation;
    bool plain_ffn; // no gate
    PositionKind position;
};
