// Names of stages in traces: what Hugging Face's model of the family calls the module that a stage
// of model/observe.h comes out of. docs/trace.md lists them.
#pragma once

#include "commands/shared/options.h"
#include "model/observe.h"
#include "weights/checkpoint.h"

enum { TRACE_NAME_SIZE = 160 };

// "model.layers.3.self_attn.k_proj" for STAGE_K of layer 3. False: the family has no such module,
// and the stage is a copy of one before it (OLMo 2 has no norm in front of attention).
bool trace_stage_name(char out[TRACE_NAME_SIZE], const Checkpoint *checkpoint, StageId id,
                      int layer);

// Whether `name` is meant by one of the patterns (as in a shell, * crosses dots): each is held
// against the whole name and against every end of it that begins after a dot, so "q_proj",
// "layers.3.*" and "*attn*" do what they say. No patterns: every name is.
bool trace_name_meant(const TextList *patterns, const char *name);
