// The files that a command reads, which its outputs must never replace: the model, all files in its
// directory, the files that are found beside it, the tokenizer, the prompt.
//
//     FileSet inputs = {0};
//     OutputFile out = {.path = options->out, .inputs = &inputs, .force = options->force};
//     good = inputs_find(&inputs, options, &error) && inputs_check(&out, options, &error) && ...
//     file_set_free(&inputs);
#pragma once

#include "base/file_writer.h"
#include "commands/shared/options.h"

// The files of a model in its directory besides the tensors, ends with NULL.
extern const char *const MODEL_FILES[];
bool is_model_file(const char *name);
// llama2.c's, which may also belong to a .bin in that directory.
#define TOKENS_FILE "tokenizer.bin"

// The directory that a model is read from, itself or that of its file, with the slash at its end;
// "./" is the current one. The caller frees it. NULL: exit code 5.
char *model_directory(const char *model, Error *error);

// Adds every file that the options name, and those that go with it. A model that is a directory:
// all that is in it. A model or tokenizer that is a file: MODEL_FILES and TOKENS_FILE in its
// directory. Standard input. False: exit code 4 where one cannot be looked at, or 5.
bool inputs_find(FileSet *inputs, const Options *options, Error *error);

// Enters the sandbox, with the outputs that the options name, before anything is read: nothing with
// --no-sandbox. -v tells what it is.
void sandbox_begin(const Options *options, CommandBit command);

// output_file_check; exit code 2 also for a new file that would be read with the model from now on,
// such as model.safetensors in a directory with shards.
bool inputs_check(const OutputFile *out, const Options *options, Error *error);
