// Model: Config + device weights + scratch + KvCache, and the forward pass over them.
//
//     Model *model = model_open(config, weights, &(ModelOptions){.context = 512}, &error);
//     model_forward(model, &(Batch){.n = 3, .tokens = ids}, &error);
//     const float *logits = model_logits(model, 0);   // (vocab_size) of the last row
//     model_close(model);
//
// Between model_open and model_close nothing allocates.
#pragma once

#include "base/error.h"
#include "kernels/kernels.h"
#include "model/batch.h"
#include "model/kv_cache.h"
#include "model/observe.h"
#include "weights/config.h"
#include "weights/weights.h"

typedef struct ModelOptions {
    int threads; // 0: as many as this process may use
    Precision precision;
    KvType kv_type;
    int context;        // positions per sequence; 0: the model's max_seq_len
    int n_sequences;    // 0: 1
    int max_rows;       // rows worked on at once; 0: min(512, context)
    int max_logit_rows; // rows of logits kept from one call; 0: 1
    void (*progress)(void *context, double share); // loading, 0 .. 1; may be NULL
    void *progress_context;
} ModelOptions;

// A norm: weight (dim) and bias (dim) or NULL; weight NULL: there is none, x goes on as it is.
typedef struct DeviceNorm {
    float *weight, *bias;
} DeviceNorm;

typedef struct DeviceLinear {
    DeviceMatrix *weight; // NULL: absent
    float *bias;          // NULL: none
} DeviceLinear;

typedef struct DeviceLayer {
    DeviceNorm att_norm, att_post_norm, ffn_norm, ffn_post_norm, q_norm, k_norm;
    DeviceLinear wq, wk, wv, wo, w_gate, w_up, w_down;
} DeviceLayer;

// One buffer, one meaning; all are device memory.
typedef struct Scratch {
    float *x;       // (max_rows, dim) the residual stream
    float *x_norm;  // (max_rows, dim) what a block reads
    float *branch;  // (max_rows, dim) what a block adds
    float *q;       // (max_rows, n_heads, head_dim)
    float *k, *v;   // (max_rows, n_kv_heads, head_dim)
    float *att_out; // (max_rows, n_heads, head_dim)
    float *gate;    // (max_rows, hidden_dim); NULL without a gate
    float *up;      // (max_rows, hidden_dim)
    float *last;    // (max_logit_rows or max_rows, dim) of a piece, the rows that want logits
    float *logits;  // (max_logit_rows, vocab_size)
    int32_t *tokens, *positions, *sequences; // (max_rows)
} Scratch;

// The rows that are worked on at once: at most max_rows of a Batch, on the host and on the device.
typedef struct Piece {
    int32_t *tokens, *positions, *sequences;                   // (max_rows) host
    int32_t *logit_tokens, *logit_positions, *logit_sequences; // (max_rows) host, of those below
    int *logit_rows;                                           // (max_rows) which rows want logits
    int n, n_logit_rows, max_position;
} Piece;

struct Model {
    Config config;
    ModelOptions options; // with the defaults filled in
    Device *device;
    DeviceMatrix *token_embedding, *position_embedding, *head; // head may be token_embedding
    DeviceNorm embedding_norm, final_norm;
    DeviceLayer *layers; // (n_layers)
    RopeTable rope, rope_local;
    KvCache cache;
    Scratch scratch;
    void *scratch_block; // all of the scratch but the logits
    Piece piece;
    int n_logit_rows;                      // of the last model_forward
    float *host_logits;                    // (max_logit_rows, vocab_size)
    int *lengths_before, *lengths_planned; // (n_sequences) of the cache, around one model_forward
    const KeyPattern *pattern_override;    // somebody looks at another pattern; NULL
    Listener *listener;                    // NULL: nobody looks
    void *listener_context;
    float *att_weights; // (max_rows, n_heads, context) device; NULL unless the listener wants them
    float *host_stage;  // what observe copies to, made by model_listen
};

// Uploads the weights and allocates everything. NULL with `error`: exit code 3 (weights that do not
// fit the config are a bad file), 5 or 6. config and weights are not needed afterwards, except
// that a backend which borrows matrices (reference) needs the checkpoint to stay open.
Model *model_open(const Config *config, const Weights *weights, const ModelOptions *options,
                  Error *error);
void model_close(Model *model); // NULL is fine

// Runs a batch of any length; logits of the rows that want them are kept (at most max_logit_rows,
// checked). Tokens, positions and sequences are checked: exit code 2 with both numbers when a
// position does not fit the context. False also on a device failure (6) and where a logit is not
// finite (7, naming the first stage that holds NaN or infinity).
bool model_forward(Model *model, const Batch *batch, Error *error);

// Logits (vocab_size) of the i-th row that wanted them in the last call; borrowed until the next.
const float *model_logits(const Model *model, int i);

// Sets the listener (NULL: none). Allocates what looking needs. False: exit code 5.
bool model_listen(Model *model, Listener *listener, void *context, bool attention_weights,
                  Error *error);

// Bytes that model_open will take for the cache, the scratch and the rope tables.
typedef struct ModelCost {
    size_t cache;   // keys and values of all sequences
    size_t scratch; // activations of max_rows rows
    size_t logits;  // max_logit_rows rows, on the device and on the host
    size_t rope;    // cos and sin of every position
} ModelCost;
ModelCost model_cost(const Config *config, const ModelOptions *options);
