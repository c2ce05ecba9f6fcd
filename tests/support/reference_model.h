// A model beside what a reference computed on it: a Hugging Face directory with config.v4.json (the
// spelling of transformers 4) and reference.safetensors, as ../shared/data/reference-models and
// scripts/make_tiny_models.py have them (the names of the tensors stand there).
//
//     ReferenceModel m;
//     reference_model_open(&m, "build/tiny-models/qwen3", false, &budget);
//     reference_model_check(&m, "p1");
//     reference_model_close(&m);
#pragma once

#include "model/model.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

// Largest error: of a logit, of a row of the residual stream as a share of its tensor's largest
// value, of an attention weight.
typedef struct ReferenceErrors {
    double logits, rows, weights;
} ReferenceErrors;

typedef struct ReferenceModel {
    const char *directory, *prompt; // prompt: "p1"
    Checkpoint *checkpoint;
    Model *model;
    SafetensorsFile reference;
    ReferenceErrors budget, worst;            // worst: of all prompts so far
    int layers_seen, weights_seen, ends_seen; // stages that were compared
} ReferenceModel;

enum { REFERENCE_MAX_PROMPT = 64, REFERENCE_MAX_GREEDY = 32 };

// Opens both, at precision f32. `spelling_4` reads config.v4.json in place of config.json.
// `directory` is borrowed.
void reference_model_open(ReferenceModel *m, const char *directory, bool spelling_4,
                          const ReferenceErrors *budget);

// The prompt in one batch with all its logits, stage by stage, then greedily one token at a time.
// Fails the test at the first number that is over the budget.
void reference_model_check(ReferenceModel *m, const char *prompt);

// The largest error of a logit of the prompt, computed with another config: what a mistake in it
// would look like.
double reference_model_error(const ReferenceModel *m, const Config *config, const char *prompt);

void reference_model_close(ReferenceModel *m);
