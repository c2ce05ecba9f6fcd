// Weights: the tensors of a model by role, ready for model/. Types only.
//
// Ready means: norms are float32 vectors with Gemma's "1 + w" already added; fused tensors are
// split into row ranges; GPT-2's Conv1D matrices are transposed; a weightless norm is a vector of
// ones; a tied head is the same Matrix as the embedding. What a model does not have is NULL
// (data == NULL for a Matrix), and the step is left out.
#pragma once

#include "weights/matrix.h"

typedef struct LayerWeights {
    const float *att_norm, *att_norm_bias; // (dim)
    Matrix wq, wk, wv, wo;                 // (q_dim|kv_dim, dim), wo (dim, q_dim)
    const float *bq, *bk, *bv, *bo;        // (rows of the matrix)
    const float *q_norm, *k_norm;          // (head_dim), or (q_dim) and (kv_dim): full width
    const float *att_post_norm;            // (dim) on the branch's output, before the residual
    const float *ffn_norm, *ffn_norm_bias; // (dim)
    Matrix w_gate, w_up, w_down;           // (hidden_dim, dim) twice, (dim, hidden_dim)
    const float *b_up, *b_down;            // (hidden_dim), (dim)
    const float *ffn_post_norm;            // (dim)
} LayerWeights;

typedef struct Weights {
    Matrix token_embedding;                    // (vocab_size, dim)
    Matrix position_embedding;                 // (max_seq_len, dim), learned positions only
    const float *embedding_norm;               // (dim), nanochat
    LayerWeights *layers;                      // (n_layers)
    const float *final_norm, *final_norm_bias; // (dim)
    Matrix head;                               // (vocab_size, dim)

    // Called by model_open with each Matrix that the device has taken over, so that its pages need
    // not stay in memory; may be NULL. `owner` is the checkpoint.
    void (*release)(void *owner, const Matrix *matrix);
    void *owner;
} Weights;
