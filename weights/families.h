// Families: tensor names -> roles. A table, one row per family and naming; a new family is a row.
#pragma once

#include "weights/config.h"

// Who named the tensors.
typedef enum Naming {
    NAMES_HF,   // "model.layers.0.self_attn.q_proj.weight"; the family is config.json's model_type
    NAMES_GGUF, // "blk.0.attn_q.weight"; the family is general.architecture
    NAMES_META, // "layers.0.attention.wq.weight", as llama2.c's exporter names them; always llama
    NAMING_COUNT
} Naming;

typedef struct Family Family;

// The family of a model_type or architecture. NULL: exit code 3, `unsupported architecture "x"`.
const Family *family_find(Naming naming, const char *name, Error *error);

// Sets in `config` what every model of the family shares: its name, norm kind, activation, QK norm
// and so on. Numbers that files give (sizes, eps, theta) are not touched.
void family_defaults(const Family *family, Config *config);

// Whether such files must have the head as a tensor of its own, even where it is the embedding.
bool family_needs_head(const Family *family, Naming naming);

// Fills checkpoint->weights from the plan by the family's row for checkpoint->naming: every role
// found, of the type its use allows, its shape equal to the one that config gives. Norms and biases
// are copied to float32. Lists the tensors that nobody uses.
struct Checkpoint;
bool families_assign(struct Checkpoint *checkpoint, Error *error);
