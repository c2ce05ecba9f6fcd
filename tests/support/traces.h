// Traces that the program writes, for tests of trace and diff.
#pragma once

#include "tests/support/program.h"
#include "weights/hf/safetensors.h"

// Runs `trace MODEL OPTIONS --out FILE`, over an earlier one; options are words separated by |. The
// file's path, malloced.
char *write_trace(const char *model, const char *options, const char *name);

// A made llama2.c model of 4 layers, 60 words and 320 positions, no tokenizer: its path, malloced.
char *made_model(void);
// The same model as a directory of Hugging Face's.
char *made_hugging_face(const char *name);

SafetensorsFile open_trace(const char *path);
// Float32 data of a tensor of this shape (0: any; the second is that of the last), copied:
// malloced.
float *trace_values(const SafetensorsFile *file, const char *name, size_t rows, size_t width);

// Exit code, and `answer` on standard output; on standard error nothing where the code is 0.
// Frees the run.
void check_says(TestRun *run, int status, const char *answer);
