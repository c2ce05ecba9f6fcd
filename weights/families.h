// Families: tensor names -> roles. A table, one row per family and naming; a new family is a row.
#pragma once

#include "weights/config.h"
#include "weights/matrix.h"

// Who named the tensors.
typedef enum Naming {
    NAMES_HF,   // "model.layers.0.self_attn.q_proj.weight"; the family is config.json's model_type
    NAMES_GGUF, // "blk.0.attn_q.weight"; the family is general.architecture
    NAMES_META, // "layers.0.attention.wq.weight", as llama2.c's exporter names them; always llama
    NAMING_COUNT
} Naming;

// What a tensor is used for; its name depends on the container.
typedef enum Role {
    ROLE_NONE, // ends a list
    ROLE_EMBEDDING,
    ROLE_POSITION,
    ROLE_EMBEDDING_NORM,
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

typedef struct Family Family;

// The family of a model_type or architecture. NULL: exit code 3, `unsupported architecture "x"`.
const Family *family_find(Naming naming, const char *name, Error *error);

// Sets in `config` what every model of the family shares: its name, norm kind, activation, QK norm
// and so on. Numbers that files give (sizes, eps, theta) are not touched.
void family_defaults(const Family *family, Config *config);

// Whether such files must have the head as a tensor of its own, even where it is the embedding.
bool family_needs_head(const Family *family, Naming naming);

struct Checkpoint;

// Fills checkpoint->weights from the plan by the family's row for checkpoint->naming: every role
// found, of the type its use allows, its shape equal to the one that config gives. Norms and biases
// are copied to float32. Lists the unused tensors.
bool families_assign(struct Checkpoint *checkpoint, Error *error);

// The same without tensors: the matrices that such a model has, in `dtype` (F16 where rows are no
// whole blocks), and its vectors, at addresses that must not be read. `flags` say which of the
// tensors that may be absent are there.
struct OutlineFlags;
bool families_outline(struct Checkpoint *checkpoint, const struct OutlineFlags *flags, DType dtype,
                      Error *error);

// The name of a module: what Hugging Face's implementation calls the part of a model that holds a
// weight. It is the name of the tensor without ".weight", so it comes from the family's table, for
// a model from any container.
//
//     ModuleName name;
//     module_name(name, checkpoint, ROLE_WK, 3);   // "model.layers.3.self_attn.k_proj"
typedef char ModuleName[128];

// The module that holds `role` of `layer`, which is ignored outside the layers. Where the reference
// keeps several weights in one matrix, a suffix says which part it is:
// "model.layers.3.self_attn.qkv_proj.k". False: the family has no such module.
bool module_name(ModuleName out, const struct Checkpoint *checkpoint, Role role, int layer);
