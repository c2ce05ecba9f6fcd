// Directions: row vectors that a dot product with a part of the residual stream turns into what
// that part adds to a token's logit. attribution.h has the formula.
//
//     Directions d;
//     good = directions_open(&d, config, weights, rows, targets, &error);
//     directions_take(&d, ids, end);
//     directions_embedding(&d, parts, embedding);
//     for (int l = 0; l < config->n_layers; l++) directions_layer(&d, parts, NULL, l, &rows_of_l);
//     directions_bias(&d, parts);
//     directions_close(&d);
//
// Many rows and targets go together, since a matrix is unpacked once for all of them.
#pragma once

#include "base/error.h"
#include "weights/config.h"
#include "weights/weights.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Directions {
    const Config *config; // borrowed, as is `weights`
    const Weights *weights;
    size_t rows, targets, parts; // parts: that a logit has
    double *end;                 // (rows, targets, dim) of the stream behind the last layer
    double *attention;           // (rows, targets, dim) of what wo of the present layer gives
    double *biases;              // (rows, targets) of the final norm's bias
    double *unembedding;         // (dim) a row of the head
    float *row;                  // (max(dim, q_dim)) a row of a matrix
} Directions;

// Stages of the same rows in one layer, as a listener saw them.
typedef struct LayerRows {
    const float *heads;     // (rows, q_dim) weighted sums of values
    const float *attention; // (rows, dim) after wo, before a post norm
    const float *ffn;       // (rows, dim) after a post norm
} LayerRows;

// How many parts a logit has, in the order of computation: the embedding; of each layer the heads,
// a bias of wo, the FFN; a bias of the final norm.
size_t directions_parts(const Config *config, const Weights *weights);

// False: exit code 5, nothing is left to free.
bool directions_open(Directions *d, const Config *config, const Weights *weights, size_t rows,
                     size_t targets, Error *error);
void directions_close(Directions *d); // zeroed is fine

// ids (rows, targets): whose logits; end (rows, dim): the stream behind the last layer.
void directions_take(Directions *d, const int32_t *ids, const float *end);

// Each fills its places of out (rows, targets, parts). squares (rows, n_heads) or NULL: the squared
// length of what wo makes of each head.
void directions_embedding(const Directions *d, double *out, const float *embedding);
void directions_layer(Directions *d, double *out, double *squares, int l, const LayerRows *rows);
void directions_bias(const Directions *d, double *out);
