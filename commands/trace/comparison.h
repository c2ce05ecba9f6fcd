// TraceDiff: two files of tensors held against each other, tensor by tensor, in the order of
// computation.
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
    VERDICT_NONFINITE, // NaN or infinity on a side: over any budget
    VERDICT_SHAPE,     // not of the same shape: over, too
    VERDICT_TYPE,      // of a type that is not compared (whole numbers, float64)
} Verdict;

typedef struct TensorDiff {
    const SafetensorsTensor *a, *b;
    Verdict verdict;
    double largest; // absolute value on either side
    double error;   // the largest difference
    double cosine;  // of the two as vectors; 1 where both are zero
    double allowed; // what the budget comes to
    uint64_t first; // OVER, NONFINITE: the first element that is, row by row from position 0
    float in_a, in_b;
    uint64_t n_over; // elements that are
} TensorDiff;

typedef struct TraceDiff {
    SafetensorsFile a, b;
    const SafetensorsTensor *ids_a, *ids_b; // input_ids, or NULL
    TensorDiff *tensors;                    // in both, in the order of computation
    const SafetensorsTensor **only_a, **only_b;
    size_t count, n_only_a, n_only_b;
    // results of trace_diff_run
    size_t n_compared, n_over; // n_over: OVER, NONFINITE and SHAPE
    const TensorDiff *first;   // the first of these; NULL: none
    const TensorDiff *nearest; // of those within, the one nearest to its budget; NULL: none
} TraceDiff;

// Opens both and pairs their names, those that `only` means. The order is what the metadata of A or
// B say, else that of A's data. False leaves nothing to close: exit code 3, 4 or 5.
bool trace_diff_open(TraceDiff *diff, const char *path_a, const char *path_b, const TextList *only,
                     Error *error);
void trace_diff_close(TraceDiff *diff);

// The budget that the metadata of both ask for. False: exit code 5.
bool trace_diff_budget(TraceDiff *diff, Budget *budget, Error *error);

// The first position where the tokens of the two differ, or that only one of them has; -1: nowhere,
// or a file does not say.
int64_t trace_diff_tokens(const TraceDiff *diff);
int64_t trace_token(const SafetensorsTensor *ids, uint64_t position);

// How close the choice between the two tokens at `position` was: gaps[0] is by how much the logits
// of A put A's token before B's, gaps[1] the same the other way round. False: a file has no logits
// there, or its token was given to it and not chosen by them.
bool trace_token_gaps(const TraceDiff *diff, uint64_t position, double gaps[2]);

// Compares all. False: exit code 4 where a file was cut short meanwhile.
bool trace_diff_run(TraceDiff *diff, const Budget *budget,
                    void (*progress)(void *context, double share), void *context, Error *error);

// The position that an element belongs to: its row, in attention weights (heads, T, T) the second
// index.
uint64_t trace_position(const TensorPlan *plan, uint64_t element);

// The largest difference as a share of what is allowed; 0 where nothing is.
double budget_share(const TensorDiff *tensor);
