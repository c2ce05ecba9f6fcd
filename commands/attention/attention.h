// AttentionCapture: a listener that keeps attention matrices of a prompt: the weights (softmax) or
// the scores before it.
//
//     AttentionCapture c = {.session = &s, .tokens = &tokens, .stage = ATTENTION_WEIGHTS,
//                           .first_layer = 0, .n_layers = 4, .first_head = 0, .n_heads = 8};
//     good = attention_capture(&c, &error);
//     const float *matrix = attention_matrix(&c, 3, 1);    // (T, T) of layer 3, head 1
//     attention_capture_free(&c);
#pragma once

#include "commands/shared/drawing.h"
#include "commands/shared/session.h"

typedef enum AttentionStage { // in the order of --stage
    RAW_SCORES,               // q . k
    SCALED_SCORES,            // times the layer's attention_scale
    ATTENTION_WEIGHTS,        // after the softmax
} AttentionStage;

typedef struct AttentionCapture {
    Session *session;     // with an open model whose context is tokens->count or more
    const IdList *tokens; // T of them
    AttentionStage stage;
    int first_layer, n_layers, first_head, n_heads; // which matrices are kept
    bool mean;                                      // one matrix a layer: the mean of the heads

    float *matrices; // (n_layers, n_heads or 1, T, T): rows are queries; hidden keys are NaN
    float *queries;  // of scores: (max_rows, all heads, head_dim) of the present layer
    float *keys;     // of scores: (all layers, T, all key-value heads, head_dim)
} AttentionCapture;

// All matrices together, since a prompt of some thousand tokens would fill any memory.
static const uint64_t ATTENTION_BYTES = (uint64_t)2 << 30;

// Runs the prompt. False: exit code 2 (more than ATTENTION_BYTES), 5, 130, or what the model
// said; nothing is left to free then.
bool attention_capture(AttentionCapture *capture, Error *error);
void attention_capture_free(AttentionCapture *capture);

// The matrix (T, T) of a layer and head, both of those that are kept; with `mean` head is 0.
float *attention_matrix(const AttentionCapture *capture, int layer, int head);

// --layer and --head against the model. False: exit code 2.
bool attention_check_range(const Options *options, const Config *config, Error *error);

// attention --rope, the whole run: rope.c.
bool attention_rope(const Options *options, Error *error);

// ---- scores ----

// out[count] = keys as attention reads them: the cache rounds them to its type.
void attention_cached_keys(float *out, const float *keys, size_t count, KvType type);
// q . k
double attention_score(const float *query, const float *key, int head_dim);

// The score that the softmax sees, of the dot product: times the layer's scale, bent to the cap.
double attention_scaled(const Config *config, int layer, double dot);

// ---- what is printed of matrices: report.c ----

// Of one query; row[0 .. query], hidden keys are NaN.
typedef struct RowStatistics {
    double entropy;  // bits: -sum w log2 w
    double share;    // of log2(visible keys), the entropy of equal weights; NaN: one key is visible
    double largest;  // weight
    double distance; // positions between query and key: sum w (q - k)
    double first;    // weight of token 0; NaN: hidden
} RowStatistics;

RowStatistics attention_row_statistics(const float *row, size_t query);

enum { ALL_LAYERS = -1, MEAN_OF_HEADS = -1, ROLLOUT = -2 };

typedef struct HeadMatrix {
    int layer, head;     // a number, or one of the above
    const float *values; // (n, n): rows are queries, hidden keys are NaN
    char title[64];      // "layer 3, head 1"
    int joined;          // of ALL_LAYERS: only the first so many; 0: all of them
} HeadMatrix;

typedef struct AttentionReport {
    const Options *options;
    const PictureFiles *files;
    const HeadMatrix *matrices;
    size_t n_matrices, n; // n tokens
    const int32_t *ids;
    const char *const *labels;
    bool weights; // else scores
    const char *title;
} AttentionReport;

// On standard output: a picture that fits the window; "layer,head,query,key,value" for every
// visible key; one JSON object.
bool attention_print_picture(const AttentionReport *report, Error *error);
void attention_print_csv(const AttentionReport *report);
void attention_print_json(const AttentionReport *report);

// The files of --svg and --png.
bool attention_write_files(const AttentionReport *report, Error *error);

// Of each head, averaged over the queries: see attention_statistics in report.c. A table, sorted by
// entropy; with --csv or --json in the order of layers and heads.
bool attention_print_entropy(const AttentionReport *report, Error *error);
