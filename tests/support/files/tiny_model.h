// A small random model in memory, of any shape and type: what tests of model/ run on.
//
//     TinyModel *tiny = tiny_model_open(&(TinyShape){.n_layers = 2, ...});
//     Model *model = tiny_model_run(tiny, (ModelOptions){.context = 50});
//     model_close(model);
//     tiny_model_close(tiny);
#pragma once

#include "model/model.h"

typedef struct TinyShape {
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, vocab_size, max_seq_len;
    DType dtype;       // of all matrices
    bool untied;       // else the head is the embedding
    bool plain_ffn;    // no gate
    bool biases;       // on q, k, v, o, up and down
    bool layer_norm;   // LayerNorm with biases instead of RMSNorm
    bool post_norms;   // on both branches
    bool no_pre_norms; // with post_norms: OLMo 2
    bool learned;      // learned positions instead of RoPE
    QkNorm qk_norm;
    int window; // of every layer
    uint64_t seed;
} TinyShape;

enum { TINY_MAX_PIECES = 1024 };

typedef struct TinyModel {
    Config config;
    Weights weights;
    void *pieces[TINY_MAX_PIECES]; // all that was allocated
    int n_pieces;
} TinyModel;

// Odd sizes: three query heads per key-value head, head_dim 40, nothing a power of two.
TinyShape tiny_shape(void);
// Two layers whose rows are whole blocks of 32: any quantised type fits.
TinyShape tiny_shape_of_blocks(void);
// And one whose rows are whole blocks of 256, which K-quants have.
TinyShape tiny_shape_of_large_blocks(void);

TinyModel *tiny_model_open(const TinyShape *shape); // aborts the test program without memory
void tiny_model_close(TinyModel *tiny);

// wv and w_down of another type, as files of two types have it (Q4_K_M); and w_up.
void tiny_model_mix(TinyModel *tiny, DType dtype, bool up);

// All matrices as float32, with the same values.
void tiny_model_dequantise(TinyModel *tiny);

// The model over it, and a pass of it; both fail the test where they fail.
Model *tiny_model_run(const TinyModel *tiny, ModelOptions options);
void tiny_model_forward(Model *model, const Batch *batch);

// A matrix of normal random numbers with the given deviation, of random blocks in the types that
// `quantise` does not write; F16 where the blocks do not fit the columns.
Matrix tiny_matrix(TinyModel *tiny, DType dtype, int rows, int cols, float deviation,
                   uint64_t *seed);
