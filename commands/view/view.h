// View: the numbers of one run, or of one trace, that a page shows.
//
//     View v = {.options = o, .session = &s, .ids = tokens, .n_prompt = tokens.count, .n = n};
//     good = view_check_size(&v, &error) && session_open_model(&s, &sizes, &error) &&
//            view_capture(&v, &error) && view_blocks(&v, &page, &error) && ...
//     view_free(&v);
//
// capture.c    one pass over the prompt and the generated tokens: every stage, weights, logits
// predict.c    candidates for the next token, the lens
// branches.c   parts of logits, sizes of what the layers add, statistics of the heads
// stages.c     which stage the page has, how it is coded, and its statistics
// weights.c    the matrices of a small model
// core.c       what is JSON; diff.c: of two traces
// traces.c     the same from trace files; load.c and trace_names.c: what is in them
//
// docs/page-format.md says what each block and key of the page holds.
#pragma once

#include "base/text.h"
#include "commands/lens/distribution.h"
#include "commands/shared/output.h"
#include "commands/shared/session.h"
#include "commands/trace/file.h"
#include "commands/trace/trace_diff.h"
#include "commands/view/page.h"

enum {
    VIEW_ALL_EXACT = 24,     // tokens up to which the stages of every layer are float32
    VIEW_EXACT_WEIGHTS = 47, // up to which attention weights are
    VIEW_CANDIDATES = 512,   // for the next token, the likeliest of all
    VIEW_TEMPERATURES = 40,  // steps of the slider, 0.05 each
    VIEW_LENS_TOP = 10,
    VIEW_TARGETS = 5, // tokens whose logits are taken apart
    VIEW_EXTREMES = 10,
};

// All that is in memory while a page is made.
static const uint64_t VIEW_BYTES = (uint64_t)1 << 30;

typedef enum StageCoding {
    CODING_NONE, // not on the page
    CODING_F32,
    CODING_I8,  // for pictures: see stages.c
    CODING_SUM, // of two other stages
} StageCoding;

typedef struct Extreme {
    size_t row, column;
    float value;
} Extreme;

// One stage of every token.
typedef struct ViewStage {
    char id[TRACE_NAME_SIZE];   // "3.att_out", "embedding"; a tensor without a stage: its name
    char name[TRACE_NAME_SIZE]; // in a trace
    StageId stage;              // STAGE_COUNT: unknown
    int layer;                  // -1 outside the layers
    int shape[2];               // of a row; the second number is 0 where there is one
    size_t width;
    float *values; // (n, width) owned
    // of stages.c
    StageCoding coding;
    bool exact; // every bit is on the page
    char block[12];
    size_t offset, of[2]; // in the decoded block; CODING_SUM: which stages
    float low, high, rms; // of the finite values
    size_t nans, infinities, n_extremes;
    Extreme extremes[VIEW_EXTREMES]; // by falling size
} ViewStage;

typedef struct ViewWeight { // on the page as block W<i>
    char name[48];
    size_t rows, columns;
    uint32_t group; // 0: float32; else integers of 8 bits, a scale for so many
} ViewWeight;

typedef struct View {
    const Options *options;
    Session *session; // of traces: without a checkpoint
    IdList ids;       // owned: the prompt, by the end with what was generated
    size_t n_prompt, n;
    int layers, heads, kv_heads, head_dim, dim, hidden_dim, vocab_size; // 0: unknown
    bool vocab_known; // of a trace: its vocab_size is not only that of its tokens

    ViewStage *stages; // in the order of computation; owned
    size_t n_stages, room;
    uint32_t *index;  // (layers + 1, STAGE_COUNT) 1 + the number of the stage; 0: there is none
    float *attention; // (layers, heads, n (n + 1) / 2) NaN: hidden; NULL: none
    float *logits;    // (n, vocab_size); NULL: none
    double *surprise; // (n) bits; NaN at 0
    int32_t *targets; // (n, n_targets)
    bool *named;      // (vocab_size) ids whose text the page needs
    bool *exact;      // (layers) every stage is float32
    ViewWeight *weights;
    size_t n_weights;
    int n_candidates, n_targets, n_parts; // 0: no such block
    bool has_lens, has_river;
    size_t open_position; // where the page opens
    int open_layer, open_head;

    // of traces
    bool *attended;   // (layers) the layers that have weights; NULL: all
    bool with_factor; // of trace_stage_of
    bool *post_norms; // (layers + 1) with_norm of trace_stage_of; the first is outside the layers
    uint32_t *shown;  // (tensors of the file) 1 + the number of the stage
    SafetensorsFile *trace;             // borrowed
    const SafetensorsTensor *of_logits; // in it; NULL: none
    const TraceDiff *diff;              // borrowed; NULL: one trace, or a model
    Error failure;                      // of the listener, which returns nothing
} View;

static inline size_t view_pairs(const View *v) {
    return v->n * (v->n + 1) / 2;
}
// A row of the lower triangle.
static inline float *view_attention(const View *v, int layer, int head, size_t query) {
    size_t matrix = (size_t)layer * (size_t)v->heads + (size_t)head;
    return v->attention + matrix * view_pairs(v) + query * (query + 1) / 2;
}
// The stage, or NULL. view_open_index comes first, once `layers` is known. False: exit code 5.
ViewStage *view_stage(const View *v, StageId id, int layer);
bool view_open_index(View *v, Error *error);

// Appends a stage with values (n, width) of NaN. NULL: exit code 5.
ViewStage *view_add_stage(View *v, StageId id, int layer, size_t width, Error *error);

void view_free(View *v); // zeroed is fine

// False: exit code 2, where more than VIEW_BYTES would be needed.
bool view_check_size(const View *v, Error *error);
// Rows of a pass, and of model_unembed: max_rows and max_logit_rows.
int view_rows(const View *v);

// Feeds the prompt and generates the rest greedily, and keeps what the model computes. False: exit
// code 5, 7 (a value is not finite), 130, or what the model said.
bool view_capture(View *v, Error *error);

// --layers; without it the layer that the page opens at. False: exit code 2 or 5.
bool view_choose_layers(View *v, Error *error);

// Each appends its blocks, in the order of the page; those without data are left out. False: exit
// code 2, 5, 130, or what the model said.
bool view_candidates(View *v, Page *page, Error *error); // also sets surprise and targets
bool view_lens(View *v, Page *page, Error *error);
bool view_heads(View *v, Page *page, Error *error);
bool view_scores(View *v, Page *page, Error *error);
bool view_flow(View *v, Page *page, Error *error); // left out where a stage of it is absent
bool view_branches(View *v, Page *page, Error *error);
bool view_attention_blocks(View *v, Page *page, Error *error);
bool view_stage_blocks(View *v, Page *page, Error *error);
bool view_weights(View *v, Page *page, Error *error);

// Finds the layer, head and position that the page opens at.
void view_open_at(View *v);

// The core as JSON. False: exit code 5.
bool view_core(const View *v, Buffer *core, Error *error);
// Its parts in diff.c. A name or path from outside has its unprintable bytes as \xNN; the name of a
// file is without its folder.
void view_put_diff(JsonWriter *w, const View *v);
void view_put_text(JsonWriter *w, const char *key, const char *text);
const char *view_file_name(const char *path);

// The page of one trace or two: of files that `trace` or another program wrote.
bool view_is_trace(const char *path);
bool view_traces(const Options *options, const OutputFile *out, Error *error);

// Writes the page of a View whose blocks are made, and says how large it is.
bool view_write(const View *v, const Page *page, const OutputFile *out, Error *error);

// ---- traces: trace_names.c, load.c ----

// The stage that a tensor of this name is; `layer` is trace_layer of the name. with_norm: the layer
// has a tensor whose name ends with TRACE_POST_NORM, or outside the layers the trace has
// TRACE_EMBEDDING_NORM. STAGE_COUNT: none that is known.
// with_factor: some tensor's name ends with TRACE_FACTOR.
StageId trace_stage_of(const char *name, int layer, bool with_norm, bool with_factor);
extern const char TRACE_POST_NORM[], TRACE_FACTOR[], TRACE_EMBEDDING_NORM[];

// Fills tokens, sizes, stages, attention and logits of a View whose `trace` is the file. Tensors
// that have not one row for each token are left out. False: exit code 2 (too large), 3 or 5.
bool view_load_trace(View *v, Error *error);

// What the tensors of one trace may take in memory.
static const uint64_t TRACE_BYTES = (uint64_t)256 << 20;
