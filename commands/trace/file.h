// TraceFile: writes the stages of a run to one safetensors file. docs/trace.md says what is in it.
//
//     TraceFile file = {.session = &s, .place = &out, .tokens = &prompt, .n_tokens = prompt.count +
//     8}; good = trace_file_plan(&file, &error) && trace_file_open(&file, &error) && ... run ... &&
//            trace_file_finish(&file, &error);
//     trace_file_close(&file);
#pragma once

#include "commands/shared/session.h"
#include "commands/shared/stage_names.h"
#include "weights/out/write.h"

typedef struct TraceTensor {
    char name[TRACE_NAME_SIZE];
    StageId id;
    int layer;
    size_t width; // of a row; attention weights: heads
} TraceTensor;

typedef struct TraceFile {
    // set by the caller
    Session *session; // with its model open
    const OutputFile *place;
    const IdList *tokens; // the prompt; by the end, the generated tokens too
    size_t n_tokens;      // how many there will be by the end
    // results
    TraceTensor *tensors; // in the order of computation
    size_t count, room;
    uint64_t bytes; // of all tensors
    // inner
    SafetensorsWriter *out;
    Error failure; // the first failed write: a listener returns nothing
} TraceFile;

// Lists the tensors to write: runs the first token through the model and notes each stage that the
// options ask for. The cache is empty afterwards. False: exit code 2 where no stage matches, else
// the error of the run.
bool trace_file_plan(TraceFile *file, Error *error);

// A trace of this many bytes is announced before it is written.
#define TRACE_LARGE 1000000000u
// False, exit code 4, where a trace of so many bytes is more than the disk has left (below 0: not
// known).
bool trace_check_size(const char *path, double bytes, double left, Error *error);

// Does a tensor need the logits of every row?
bool trace_file_wants_logits(const TraceFile *file);

// Begins the file at `place` and attaches the listener that writes stages. Every position below
// n_tokens must then be fed once.
bool trace_file_open(TraceFile *file, Error *error);

// Writes the tokens and moves the file to its place.
bool trace_file_finish(TraceFile *file, Error *error);
void trace_file_close(TraceFile *file); // zeroed or half-opened is fine
