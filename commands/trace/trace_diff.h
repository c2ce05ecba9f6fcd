// TraceDiff: two trace files, A and B, compared tensor by tensor in the order of computation.
//
//     TraceDiff diff;
//     good = trace_diff_open(&diff, a, b, &only, &error) && trace_diff_budget(&diff, &budget, ..)
//            && trace_diff_run(&diff, &budget, NULL, NULL, &error);
//     trace_diff_close(&diff);
#pragma once

#include "commands/shared/budget.h"
#include "commands/shared/options.h"
#include "weights/hf/safetensors.h"

typedef enum Verdict {
    VERDICT_WITHIN,
    VERDICT_OVER,
    VERDICT_NONFINITE, // NaN or infinity in A or B: over any budget
    VERDICT_SHAPE,     // different shapes: over any budget
    VERDICT_TYPE,      // a type that is not compared (integers, float64)
} Verdict;

typedef struct TensorDiff {
    const SafetensorsTensor *a, *b;
    Verdict verdict;
    double largest;   // absolute value in A and B
    double error;     // the largest difference
    double cosine;    // of the two as vectors; 1 where both are zero
    double allowed;   // the largest difference within the budget
    uint64_t first;   // OVER, NONFINITE: the first such element, by position
    float in_a, in_b; // its values
    uint64_t n_over;  // how many such elements
    bool same_bits;   // OVER, NONFINITE, WITHIN: also in the signs of zeros and in the type
} TensorDiff;

typedef struct TraceDiff {
    SafetensorsFile a, b;
    const SafetensorsTensor *ids_a, *ids_b; // input_ids, or NULL
    TensorDiff *tensors;                    // in both files, in the order of computation
    const SafetensorsTensor **only_a, **only_b;
    size_t count, n_only_a, n_only_b;
    // results of trace_diff_run
    size_t n_compared, n_over; // over: OVER, NONFINITE and SHAPE
    const TensorDiff *first;   // the first that is over; NULL: none
    const TensorDiff *nearest; // of those within, the one closest to its budget; NULL: none
} TraceDiff;

// Opens both files and pairs tensors by name, those that match `only`. Their order is the one in
// the metadata of A or else of B, else the order of A's data. False: nothing to close; exit code 3,
// 4, 5.
bool trace_diff_open(TraceDiff *diff, const char *path_a, const char *path_b, const TextList *only,
                     Error *error);
void trace_diff_close(TraceDiff *diff);

// The budget for the precisions and caches in the metadata of both files. False: exit code 5.
bool trace_diff_budget(TraceDiff *diff, Budget *budget, Error *error);

// The first position where the tokens of the two files differ, or that only one of them has; -1:
// they are the same, or a file has no tokens.
int64_t trace_diff_tokens(const TraceDiff *diff);
int64_t trace_token(const SafetensorsTensor *ids, uint64_t position);

// How close the choice between the two tokens at `position` was: gaps[0] is the logit of A's token
// minus that of B's token in A, gaps[1] the reverse in B. False: a file has no logits there, or its
// token was part of the prompt.
bool trace_token_gaps(const TraceDiff *diff, uint64_t position, double gaps[2]);

// Compares all tensors. False: exit code 4 where a file was cut short meanwhile.
bool trace_diff_run(TraceDiff *diff, const Budget *budget,
                    void (*progress)(void *context, double share), void *context, Error *error);

// The tensors of a file in the order of computation, without its tokens, in the file's arena. NULL:
// exit code 3 or 5.
const SafetensorsTensor **trace_tensors(SafetensorsFile *file, size_t *count, Error *error);

// The layer in a name: its first part that is a number; -1: none.
int trace_layer(const char *name);

// The position of an element: its row; of attention weights (heads, T, T), the second index.
uint64_t trace_position(const TensorPlan *plan, uint64_t element);

// The largest difference as a share of what is allowed; 0 where the budget is 0.
double budget_share(const TensorDiff *tensor);

// ---- the report: a table of tensors and one sentence, or one JSON object ----

typedef struct DiffReport {
    const TraceDiff *diff;
    const Budget *budget;
    const char *path_a, *path_b;
    bool all; // list every tensor, not just those around the answer
} DiffReport;

void diff_report_print(const DiffReport *report);
void diff_report_json(const DiffReport *report);

// Says that nothing was compared, since the tokens of the two files differ from `position` on.
void diff_report_tokens(const DiffReport *report, uint64_t position, bool json);
