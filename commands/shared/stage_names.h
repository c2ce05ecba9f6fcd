// Names of stages. One stage has three:
//
//   layers.3.att_heads                 limpid's own, from model/observe.h
//   model.layers.3.self_attn.heads     of the module in Hugging Face's model of the family, whose
//                                      output it is: the names of traces (docs/trace.md)
//   blocks.3.attn.hook_z               the hook point of TransformerLens, an alias
//
// A stage of limpid that no module puts out is named below the module that it belongs to, as
// ".heads" above; TransformerLens has no name for some, such as the queries after a norm.
//
//     StagePlace place;
//     if (!stage_place_find(&place, checkpoint, name, strlen(name), &error)) return false;
#pragma once

#include "model/observe.h"
#include "weights/checkpoint.h"

enum { TRACE_NAME_SIZE = 160 };

typedef struct StagePlace {
    StageId id;
    int layer; // -1 outside the layers
} StagePlace;

// Whether the stage is computed once per layer, rather than before or after all of them. By the
// order of StageId: the stages of a layer lie between those before the first and after the last.
static inline bool stage_is_in_layer(StageId id) {
    return id >= STAGE_ATT_NORM && id <= STAGE_LAYER_OUT;
}

// The name of a stage: that of the module, in Hugging Face's model of the family, whose output it
// is, such as "model.layers.3.self_attn.k_proj" for STAGE_K of layer 3. False: the family has no
// such module, and the stage equals an earlier one (OLMo 2 has no norm in front of attention).
bool trace_stage_name(char out[TRACE_NAME_SIZE], const Checkpoint *checkpoint, StageId id,
                      int layer);

// The stage that name[0 .. length) means, by any of the three kinds of names. Whether the model
// computes it is not known here: many stages exist only in models that have the step. False: exit
// code 2, no stage has that name, or the layer does not exist.
bool stage_place_find(StagePlace *place, const Checkpoint *checkpoint, const char *name,
                      size_t length, Error *error);
