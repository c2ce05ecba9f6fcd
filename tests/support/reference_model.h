// Tests a model against its reference: a Hugging Face directory with reference.safetensors and
// config.v4.json (the keys of transformers 4).
//
//     ReferenceModel m;
//     reference_model_open(&m, "build/tiny-models/qwen3", NULL, &budget);
//     reference_model_check(&m, "p1");
//     reference_model_close(&m);
#pragma once

#include "tests/support/reference_errors.h"

typedef struct ReferenceModel {
    const char *directory;
    ReferenceRun run;
} ReferenceModel;

// Opens the reference of `directory`, and the model there, or where it is not NULL the same model
// in `files`. Both are borrowed. Like all here it fails the test where it cannot.
void reference_model_open(ReferenceModel *m, const char *directory, const char *files,
                          const ReferenceErrors *budget);
void reference_model_close(ReferenceModel *m);

// A directory with the same files, whose config.json is config.v4.json.
const char *reference_model_version_4(const char *directory);

// Fails the test with the first number that is over the budget, or the first id that differs.
void reference_model_check(ReferenceModel *m, const char *prompt);

// The largest error of a logit of the prompt, computed with another config.
double reference_model_error(const ReferenceModel *m, const Config *config, const char *prompt);
