// TraceFile: the way of every stage of a run into one safetensors file. docs/trace.md says what is
// in it.
//
//     TraceFile file = {.session = &s, .tokens = &prompt, .n_tokens = prompt.count + 8};
//     good = trace_file_plan(&file, &error) && trace_file_open(&file, &error) && ... run ... &&
//            trace_file_finish(&file, &error);
//     trace_file_close(&file);
#pragma once

#include "commands/shared/session.h"
#include "commands/trace/stage_names.h"
#include "weights/out/write.h"

typedef struct TraceTensor {
    char name[TRACE_NAME_SIZE];
    StageId id;
    int layer;
    size_t width; // of a row; attention weights: heads
} TraceTensor;

typedef struct TraceFile {
    // set by the caller
    Session *session;     // with its model open
    const IdList *tokens; // the prompt; by the end, what was generated too
    size_t n_tokens;      // how many these will be
    // results
    TraceTensor *tensors; // in the order of computation
    size_t count, room;
    uint64_t bytes; // of all tensors
    // inner
    SafetensorsWriter *out;
    Error failure; // the first write that went wrong: the listener has nobody to tell it
} TraceFile;

// Finds out what there is to write: runs the first token through the model and notes the stages
// that come by, those that the options want. The cache is empty afterwards. False: exit code 2
// where no stage is left, else what the run said.
bool trace_file_plan(TraceFile *file, Error *error);

// Whether some of it needs the logits of every row.
bool trace_file_wants_logits(const TraceFile *file);

// Begins the file --out and listens to the model from now on. Every row of every position below
// n_tokens must then come by once.
bool trace_file_open(TraceFile *file, Error *error);

// The tokens that were fed, and the file in its place.
bool trace_file_finish(TraceFile *file, Error *error);
void trace_file_close(TraceFile *file); // zeroed or half-opened is fine
