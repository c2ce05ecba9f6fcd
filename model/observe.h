// The one seam for looking inside: model_forward calls observe at every stage, with its data.
//
// Nobody listens by default and then it costs one comparison. A listener sees rows in pieces of
// max_rows, in order. A breakpoint on `observe` stops at every stage of every layer.
#pragma once

#include "kernels/kernels.h"

// In the order of computation. Those with a star are told only by models that have the step.
// Attention takes the last that there is of Q, Q_NORM and Q_ROTATED.
typedef enum StageId {
    STAGE_TOKEN_EMBEDDING, // (n, dim) before the norm of the embedding *
    STAGE_EMBEDDING,       // (n, dim) what enters the first layer
    STAGE_ATT_NORM,        // (n, dim) what the projections take
    STAGE_Q,               // (n, n_heads, head_dim) as projected
    STAGE_K,               // (n, n_kv_heads, head_dim)
    STAGE_V,               // (n, n_kv_heads, head_dim)
    STAGE_Q_NORM,          // (n, n_heads, head_dim) *
    STAGE_K_NORM,          // (n, n_kv_heads, head_dim) *
    STAGE_Q_ROTATED,       // (n, n_heads, head_dim) *; nanochat rotates before the norm
    STAGE_K_ROTATED,       // (n, n_kv_heads, head_dim) *
    STAGE_ATT_WEIGHTS,     // (n, n_heads, max_seq_len); only when the listener wants it
    STAGE_ATT_HEADS,       // (n, n_heads, head_dim) weighted sums of values
    STAGE_ATT_PROJECTED,   // (n, dim) after wo, before the post norm *
    STAGE_ATT_OUT,         // (n, dim) after wo and the post norm, before the residual
    STAGE_ATT_RESIDUAL,    // (n, dim)
    STAGE_FFN_NORM,        // (n, dim)
    STAGE_FFN_GATE,        // (n, hidden_dim)
    STAGE_FFN_UP,          // (n, hidden_dim)
    STAGE_FFN_ACTIVATED,   // (n, hidden_dim)
    STAGE_FFN_PROJECTED,   // (n, dim) after w_down, before the post norm *
    STAGE_FFN_OUT,         // (n, dim) after w_down and the post norm, before the residual
    STAGE_LAYER_OUT,       // (n, dim) the residual stream after the layer
    STAGE_FINAL_NORM,      // (rows that want logits, dim)
    STAGE_UNCAPPED,        // (rows that want logits, vocab_size) before the soft cap *
    STAGE_LOGITS,          // (rows that want logits, vocab_size)
    STAGE_COUNT
} StageId;

// What a listener is told. All pointers are host memory and valid during the call only.
typedef struct Stage {
    StageId id;
    int layer;         // -1 outside the layers
    Rows rows;         // which rows these are
    int shape[4];      // slowest first; 0 ends it
    const float *data; // of that shape
} Stage;

typedef struct Model Model;

// What a listener is: called with its own context for every stage.
typedef void Listener(void *context, const Model *model, const Stage *stage);

// "att_norm", "q", ...: the names used in messages and traces.
const char *stage_name(StageId id);

// Number of elements: the product of the shape.
size_t stage_size(const Stage *stage);

// Called by forward.c with what it has just computed, in device memory, for the rows at work. Runs
// what is recorded, copies the stage to the host and tells the listener.
void observe(Model *model, StageId id, int layer, const float *data);
