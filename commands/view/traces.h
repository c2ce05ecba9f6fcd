// What a page of traces needs to know of files that other programs may have written.
//
//     StageId id = trace_stage_of(&file, "model.layers.3.mlp.up_proj", 3);    // STAGE_FFN_UP
//     view_load_trace(&view, &file, &error);
#pragma once

#include "base/text.h"
#include "commands/view/view.h"

// The stage that a tensor of this name is; `layer` is trace_layer of the name. STAGE_COUNT: none
// that is known.
StageId trace_stage_of(const SafetensorsFile *file, const char *name, int layer);

// Fills tokens, sizes, stages, attention and logits of a View whose `trace` is the file. Tensors
// that have not one row for each token are left out. False: exit code 2 (too large), 3 or 5.
bool view_load_trace(View *v, Error *error);

// What the tensors of one trace may take in memory.
static const uint64_t TRACE_BYTES = (uint64_t)256 << 20;

// Numbers that a trace's metadata tells of the model; 0: not told.
typedef struct TraceSizes {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, vocab_size;
} TraceSizes;

// From the text of `config`, which is JSON with integers; what is beyond a limit counts as not
// told.
TraceSizes trace_sizes(const char *config);
