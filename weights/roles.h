// The rows of the family tables, and access to a model's tensors by role. Internal to weights/.
#pragma once

#include "weights/config.h"
#include "weights/families.h"
#include "weights/matrix.h"

#include <stdbool.h>

typedef enum Need {
    REQUIRED,
    OPTIONAL,    // absent: the step is left out, or another row brings the role
    ALTERNATIVE, // the same, but another row is what limpid writes
    IGNORED,     // known to be unused: no warning
    UNSTORED,    // a module without a tensor, listed for module_name
} Need;

// One tensor name. '~' stands for the family's prefix, '#' for the layer's number. A tensor with
// several roles has them stacked by rows, in that order (a fused q|k|v, gate|up).
typedef struct TensorName {
    const char *pattern;
    Need need;
    Role roles[3]; // unused ones ROLE_NONE
} TensorName;

// ---- lists of tensor names (tensor_lists.c) ----

extern const TensorName HF_DECODER[], HF_FUSED_DECODER[], HF_GATED_FFN[], HF_PLAIN_FFN[],
    HF_SHARED_FFN[], HF_GPT_NEOX[], HF_UNGATED_FFN[], HF_PRE_NORMS[], HF_POST_NORMS[],
    HF_WEIGHTLESS_NORMS[], HF_FOUR_NORMS[], HF_OPTIONAL_BIASES[], HF_QKV_BIASES[], HF_QK_NORMS[],
    HF_LAYERNORMS_OF_QK[], HF_GPT2[], GGUF_DECODER[], GGUF_GATED_FFN[], GGUF_PLAIN_FFN[],
    GGUF_FUSED_DECODER[], GGUF_PRE_NORMS[], GGUF_POST_NORMS[], GGUF_BIASED_DECODER[],
    GGUF_POSITIONS[], GGUF_OPTIONAL_BIASES[], GGUF_QKV_BIASES[], GGUF_QK_NORMS[], GGUF_NANOCHAT[],
    META_DECODER[];

enum { N_LISTS = 6, N_PREFIXES = 4, N_ONES = 8 }; // what a row of the table has room for

struct Family {
    const char *name;                 // Config.family
    const char *called[NAMING_COUNT]; // model_type, architecture; NULL: not in such files
    const char *prefixes[NAMING_COUNT][N_PREFIXES];   // tried in order
    const TensorName *tensors[NAMING_COUNT][N_LISTS]; // each ends with pattern NULL

    // How such files store what Weights holds in one form (weights.h).
    bool interleaved[NAMING_COUNT];            // rows of wq and wk are in Meta's order (matrix.h)
    bool norms_stored_minus_one[NAMING_COUNT]; // norm weight = stored value + 1
    bool by_heads[NAMING_COUNT]; // a fused q|k|v has the three of a head together, head after head
    bool transposed[NAMING_COUNT]; // layer matrices are stored (cols, rows): y = x W
    Role ones[N_ONES];             // norms without a weight; ends with ROLE_NONE
    bool own_head[NAMING_COUNT];   // the head must be there, also where it is the embedding
    bool complete;                 // a tensor that is not in the table means another model

    NormKind norm;
    QkNorm qk_norm;
    bool qk_norm_after_rope;
    bool rope_backwards; // rotates by minus the angle
    Activation activation;
    bool plain_ffn; // no gate
    bool parallel_residual;
    PositionKind position;
};

// GPT-NeoX: the tensor has q, k and v of head 0, then those of head 1, .., head_dim rows each
//
//     stored  q0 k0 v0 q1 k1 v1 ..     stack  q0 q1 .. k0 k1 .. v0 v1 ..
//
// From a row of the stack to the stored one, and back. As many heads of keys as of queries.
static inline size_t by_heads_stored_row(const Config *c, size_t row) {
    size_t head_dim = (size_t)c->head_dim, width = (size_t)c->q_dim;
    return (row % width / head_dim * 3 + row / width) * head_dim + row % head_dim;
}
static inline size_t by_heads_stack_row(const Config *c, size_t stored) {
    size_t head_dim = (size_t)c->head_dim;
    size_t head = stored / head_dim / 3, part = stored / head_dim % 3;
    return part * (size_t)c->q_dim + head * head_dim + stored % head_dim;
}

// What a model has for a role, for whoever writes it out again (roles.c).
typedef struct RoleView {
    const char *name;    // "layers.#.wq" without its number: "wq"
    bool of_layer;       // there is one in every layer
    bool rotary, norm;   // rows follow RoPE's pairing; the weight of a norm
    size_t rows, cols;   // what the Config asks for; cols 1: a vector
    const float *vector; // (rows); NULL: the model has none, or it is a matrix
    const Matrix *matrix;
} RoleView;
RoleView role_view(const struct Checkpoint *checkpoint, Role role, int layer);

// ---- names of tensors (tensor_names.c) ----

typedef char TensorNameText[LIMIT_NAME_LENGTH + 32];

// The name that a pattern stands for.
void tensor_name_text(TensorNameText out, const char *pattern, const char *prefix, int layer);

// The prefix under which the first tensor of the family's table is found, or its first one.
const char *tensor_name_prefix(const struct Checkpoint *checkpoint);

// Whether a tensor without a role belongs to the model, so that ignoring it would change the
// result.
bool tensor_name_belongs(const struct Checkpoint *checkpoint, const char *name, const char *prefix);

// Whether the family's table lists this tensor as unused.
bool tensor_name_ignored(const Family *family, Naming naming, const char *name);
