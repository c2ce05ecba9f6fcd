// The output of convert besides its tensors: its paths, the checks that protect existing files, and
// the other files of a directory that transformers reads.
#pragma once

#include "commands/shared/session.h"
#include "weights/out/outgoing.h"

typedef enum OutKind {
    OUT_GGUF,      // a .gguf
    OUT_FILE,      // a .safetensors with config.json beside it
    OUT_DIRECTORY, // model.safetensors and config.json in it
} OutKind;

typedef struct OutPlace {
    OutKind kind;
    char tensors[4096];   // the path of the file with the tensors
    char directory[4096]; // of the other files, ends with '/'; "" for the current directory
} OutPlace;

// The kind follows from the name of the output. False: exit code 2 for any other extension.
bool out_place_find(OutPlace *place, const char *path, Error *error);

// Refuses to replace existing files without `force`, and the input always. False: exit code 2.
bool out_place_check(const OutPlace *place, const Session *session, bool force, Error *error);

// For safetensors: makes the directory, and in it config.json, generation_config.json, the
// tokenizer and the chat template: from `vocabulary`, or if that is NULL, copies of the files in
// the model's directory. A model that config.json cannot describe is refused before anything is
// written.
bool out_place_fill(const OutPlace *place, const Session *session, const Outgoing *out,
                    const Vocabulary *vocabulary, Error *error);
