// Names of stages in traces: the name that Hugging Face's model of the family gives to the module
// whose output the stage of model/observe.h is. docs/trace.md lists them.
#pragma once

#include "commands/shared/options.h"
#include "model/observe.h"
#include "weights/checkpoint.h"

enum { TRACE_NAME_SIZE = 160 };

// "model.layers.3.self_attn.k_proj" for STAGE_K of layer 3. False: the family has no such module,
// and the stage equals an earlier one (OLMo 2 has no norm in front of attention).
bool trace_stage_name(char out[TRACE_NAME_SIZE], const Checkpoint *checkpoint, StageId id,
                      int layer);

// Does `name` match one of the patterns? They are those of a shell, and * crosses dots. Each is
// compared with the whole name and with every part of it from a dot to the end: "q_proj",
// "layers.3.*", "*attn*". Without patterns every name matches.
bool trace_name_matches(const TextList *patterns, const char *name);
