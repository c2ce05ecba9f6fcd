// Stages: the intermediate results that a listener sees, and may change. model_forward calls
// observe at each.
//
// Without a listener observe costs one comparison. A listener is called for each chunk of max_rows
// rows, in order. A breakpoint on `observe` stops at every stage of every layer.
#pragma once

#include "kernels/kernels.h"

// In the order of computation. Those with a star exist only in models that have the step.
// Attention takes the last of Q, Q_NORM and Q_ROTATED that the model has.
typedef enum StageId {
    STAGE_TOKEN_EMBEDDING, // (n, dim) before the norm of the embedding *
    STAGE_EMBEDDING,       // (n, dim) what enters the first layer
    STAGE_ATT_NORM,        // (n, dim) the input of wq, wk, wv
    STAGE_Q,               // (n, n_heads, head_dim) as projected
    STAGE_K,               // (n, n_kv_heads, head_dim)
    STAGE_V,               // (n, n_kv_heads, head_dim)
    STAGE_Q_NORM,          // (n, n_heads, head_dim) *
    STAGE_K_NORM,          // (n, n_kv_heads, head_dim) *
    STAGE_Q_ROTATED,       // (n, n_heads, head_dim) *; nanochat rotates before the norm
    STAGE_K_ROTATED,       // (n, n_kv_heads, head_dim) *
    STAGE_ATT_WEIGHTS,     // (n, n_heads, context); only when the listener wants it
    STAGE_ATT_HEADS,       // (n, n_heads, head_dim) weighted sums of values
    STAGE_ATT_PROJECTED,   // (n, dim) after wo, before the post norm or the factor *
    STAGE_ATT_OUT,         // (n, dim) what the block adds to the residual stream
    STAGE_ATT_RESIDUAL,    // (n, dim)
    STAGE_FFN_NORM,        // (n, dim)
    STAGE_FFN_GATE,        // (n, hidden_dim) *
    STAGE_FFN_UP,          // (n, hidden_dim)
    STAGE_FFN_ACTIVATED,   // (n, hidden_dim)
    STAGE_FFN_PROJECTED,   // (n, dim) after w_down, before the post norm or the factor *
    STAGE_FFN_OUT,         // (n, dim) what the block adds to the residual stream
    STAGE_LAYER_OUT,       // (n, dim) the residual stream after the layer
    STAGE_FINAL_NORM,      // (rows that want logits, dim)
    STAGE_UNCAPPED,        // (rows that want logits, vocab_size) before a divisor or the soft cap *
    STAGE_LOGITS,          // (rows that want logits, vocab_size)
    STAGE_COUNT
} StageId;

// The argument of a listener. All pointers are host memory and valid during the call only.
typedef struct Stage {
    StageId id;
    int layer;    // -1 outside the layers
    Rows rows;    // which rows these are
    int shape[4]; // slowest first; 0 ends it
    float *data;  // of that shape; const for a Listener
} Stage;

typedef struct Model Model;

// A listener that watches: called for every stage, with the context that model_listen was given.
typedef void Listener(void *context, const Model *model, const Stage *stage);

// A listener that may change what it sees, with the context that model_intervene was given. True:
// it has changed stage->data, and the pass goes on with that. Changed attention weights change
// nothing: when they are seen, the values are already summed.
typedef bool Intervention(void *context, const Model *model, Stage *stage);

// Whether it is the residual stream itself, where a family has no norm: a change to the stage would
// be a change to that.
bool stage_is_residual(const Model *model, const Stage *stage);

// "att_norm", "q", ...: the names used in messages and traces.
const char *stage_name(StageId id);

// Number of elements: the product of the shape.
size_t stage_size(const Stage *stage);

// Called by forward.c with the result of a step, in device memory, for the rows of the chunk. With
// a listener it runs what is recorded, copies the result to the host and calls the listener.
void observe(Model *model, StageId id, int layer, const float *data);
