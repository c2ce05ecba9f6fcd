// What lies around the tensors of a converted model: where the output goes and whether it may, and
// the files of a directory that transformers reads.
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
    char directory[4096]; // where the others go, ends with '/'; "" for the current one
} OutPlace;

// From the name that the user gave. False: exit code 2 for a name of another kind of file.
bool out_place_find(OutPlace *place, const char *path, Error *error);

// Nothing that is there is replaced without `force`, and the model itself never. False: exit code
// 2.
bool out_place_check(const OutPlace *place, const Session *session, bool force, Error *error);

// For safetensors: makes the directory, and in it config.json, generation_config.json, the
// tokenizer and the chat template: from `vocabulary`, or where that is NULL copies of the files
// that lie beside the model. What the config cannot say is refused before anything is made.
bool out_place_fill(const OutPlace *place, const Session *session, const Outgoing *out,
                    const Vocabulary *vocabulary, Error *error);
