// Names of modules: what Hugging Face's implementation calls the part of a model that holds a
// weight. They are the names of its tensors without ".weight", so the family tables have them, and
// a model from any container gets them.
//
//     ModuleName name;
//     module_name(name, checkpoint, ROLE_WK, 3);   // "model.layers.3.self_attn.k_proj"
#pragma once

#include "weights/checkpoint.h"
#include "weights/role.h"

typedef char ModuleName[128];

// The module that holds `role` (of `layer`; outside the layers it does not matter). Where the
// reference keeps several in one matrix, the part's letter follows: "model.layers.3.self_attn
// .qkv_proj.k". False: the family has no such module.
bool module_name(ModuleName out, const Checkpoint *checkpoint, Role role, int layer);
