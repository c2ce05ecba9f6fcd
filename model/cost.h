// Cost: what forward passes compute and read, counted from the shapes of a model. Nothing is run.
//
//     Work prompt = {.sequences = 1, .tokens = 2048, .max_rows = 512};
//     WorkCost cost;
//     work_cost(&cost, model, weights, &prompt);    // a model of model_open or model_plan
//     ... cost.total.flops, cost.operations[i].weight_bytes ...
//
// Counted are the products of weights with activations, of queries with keys and of weights with
// values: a multiplication and an addition are two FLOPs. Norms, RoPE, softmax, activations and
// sums are left out: together they are below 1 % in any model that is not tiny. All numbers are
// doubles, so that no size overflows; integers up to 2^53 are exact.
#pragma once

#include "model/model.h"

typedef enum OperationId {
    OPERATION_EMBEDDING, // rows of the table, and of the learned positions
    OPERATION_VECTORS,   // norms and biases
    OPERATION_WQ,
    OPERATION_WK,
    OPERATION_WV,
    OPERATION_SCORES, // queries times keys
    OPERATION_VALUES, // attention weights times values
    OPERATION_WO,
    OPERATION_GATE,
    OPERATION_UP,
    OPERATION_DOWN,
    OPERATION_HEAD,
    OPERATION_IDS
} OperationId;

const char *operation_name(OperationId id); // "wq", "scores", ...

// What is run: tokens of several sequences, each of which already holds `start` positions.
typedef struct Work {
    double sequences, start, tokens; // tokens: of each sequence
    bool decode;     // a token of every sequence in a pass, each with logits; else a prompt in as
                     // few passes as max_rows allows, with logits of the last token
    bool all_logits; // a prompt, but with logits of every token
    double max_rows; // of a pass
    KeyPattern pattern; // of all layers, within their own windows; zeroed hides nothing
} Work;

double work_passes(const Work *work);

typedef struct Operation {
    OperationId id;
    int layers;              // in so many of them; 1 outside the layers
    int window;              // scores and values: of these layers; 0: all keys
    double flops;            // of the whole work, in all these layers
    double weight_bytes;     // as stored, once a pass
    double kv_bytes;         // read of keys or values: once a pass
    double kv_query_bytes;   // the same once for every query, as plain loops read them
    double kv_written_bytes; // by wk and wv
    double activation_bytes; // float32 inputs and outputs of the rows; scores are not stored
} Operation;

enum { MOST_WINDOWS = 8, MOST_OPERATIONS = OPERATION_IDS + 2 * MOST_WINDOWS };

typedef struct WorkCost {
    Operation operations[MOST_OPERATIONS]; // in the order of computation
    int count;
    Operation total;
} WorkCost;
void work_cost(WorkCost *cost, const Model *model, const Weights *weights, const Work *work);

// FLOPs per byte that is read or written: the arithmetic intensity (Williams et al. 2009,
// doi 10.1145/1498765.1498785). Above the ridge of a machine, which is its FLOP/s divided by its
// bytes/s, arithmetic is the limit, below it memory.
double operation_intensity(const Operation *operation);

// ---- parts of it ----

// (rows, cols) of a matrix; false where the operation has none, or this model does not.
bool operation_shape(const Config *config, OperationId id, double *rows, double *cols);

// The matrix of a layer (ignored outside the layers); NULL: the operation has none.
Matrix *operation_matrix(const Weights *weights, OperationId id, int layer);

// FLOPs of one product: 2 rows cols for each row of activations that meets it.
double matrix_flops(const Config *config, OperationId id, const Work *work);

// Keys that all queries of one sequence see together; without a pattern the sum of
// min(start + i + 1, window), i < tokens; window 0: all.
double keys_seen(const Work *work, int window);

// FLOPs of one operation of this work, in all layers; of all of them. work_cost has the same
// numbers; these need no weights.
double operation_flops(const Config *config, OperationId id, const Work *work);
double model_flops(const Config *config, const Work *work);

// What the cache saves for n tokens, one after another: without it the t-th of them takes all t
// through the layers again.
typedef struct CacheSavings {
    double rows_without, rows_with; // n (n + 1) / 2 and n
    double flops_without, flops_with;
} CacheSavings;
CacheSavings cache_savings(const Config *config, int n);

// FLOPs of scores and values together, for so many (query, key) pairs of every query head:
// 2 head_dim for a dot product, as many for a weighted value.
double attention_flops(const Config *config, double pairs);

// Bytes of a matrix of scores (queries, keys) for every head of one layer, which a naive
// implementation stores.
double score_bytes(const Config *config, double queries, double keys, double element_bytes);

// Bytes of keys and values in a cache of `positions`, in all layers: those that the last position
// sees within the layer's window and the pattern (NULL: no pattern). One position of all layers:
// positions 1.
double kv_needed_bytes(const Config *config, const KeyPattern *pattern, double positions,
                       KvType type);

// One layer's attention if keys and values had n_kv_heads heads: the numbers in wq, wk, wv and wo,
// those in wk and wv alone, and the bytes of a cache of `positions`.
typedef struct HeadCost {
    double parameters, kv_parameters, kv_bytes;
} HeadCost;
HeadCost head_cost(const Config *config, int n_kv_heads, double positions, KvType type);

// FLOPs per byte of a product (m, k) x (k, n), where both and the result are read or written once.
double product_intensity(double m, double k, double n, double element_bytes);

// The number of weights, norms and biases included; a tied head is counted once.
double parameter_count(const Model *model, const Weights *weights);
