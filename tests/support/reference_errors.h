// The error of a model against its reference.safetensors, which a reference implementation computed
// (../shared/data/reference-models) or numpy (scripts/make_tiny_models.py, which lists the
// tensors). Needs no test framework.
//
//     ReferenceRun run;
//     good = reference_open(&run, "qwen3/reference.safetensors", "qwen3.gguf", &error) &&
//            reference_measure(&run, "p0", &error) && reference_measure(&run, "p1", &error);
//     printf("%g, %d of %d\n", run.worst.logits, run.greedy_equal, run.greedy);
//     reference_close(&run);
#pragma once

#include "model/model.h"
#include "weights/checkpoint.h"
#include "weights/hf/safetensors.h"

// Largest errors: of a logit; of a value of the residual stream, divided by its tensor's largest
// value; of an attention weight. Masked weights must be exactly 0.
typedef struct ReferenceErrors {
    double logits, rows, weights;
} ReferenceErrors;

typedef struct ReferenceRun {
    Checkpoint *checkpoint;
    Model *model;
    SafetensorsFile reference;
    ReferenceErrors worst;    // of all prompts so far; NaN once a value was NaN
    int greedy, greedy_equal; // ids, and how many of them are the reference's
    ReferenceErrors budget;   // infinite unless set
    int max_greedy;           // ids that are fed at most; 0: all of the reference's
    Error over;               // the first number that was over the budget
    const char *prompt;       // "p1"
    int layers_seen, weights_seen, ends_seen;
    Error missing; // a tensor that the reference lacks, or of another shape
} ReferenceRun;

enum { REFERENCE_MAX_PROMPT = 64, REFERENCE_MAX_GREEDY = 32 };

// Opens the reference and a model in any container, at precision f32. False leaves nothing open.
bool reference_open(ReferenceRun *run, const char *reference, const char *model, Error *error);
void reference_close(ReferenceRun *run);

// The prompt in one batch with all its logits, stage by stage, then the reference's own greedy ids
// one at a time. False where either cannot be computed or is not there.
bool reference_measure(ReferenceRun *run, const char *prompt, Error *error);

// The largest error of a logit of the prompt, computed with another config: what a mistake in it
// would look like.
bool reference_mistake(const ReferenceRun *run, const Config *config, const char *prompt,
                       double *worst, Error *error);
