// What the readers of a safetensors header share: all but the text of it. Internal to weights/.
//
// safetensors_json.c reads any such text, over jansson; without_json.c what limpid itself writes.
// Each provides safetensors_read_text and safetensors_metadata.
#pragma once

#include "weights/hf/safetensors.h"

// A header being read.
typedef struct SafetensorsHeader {
    const uint8_t *file;
    size_t start, size;         // of the data, of the file
    SafetensorsTensor *tensors; // owned by `arena`
    size_t count, room;
    Arena *arena;
    bool has_metadata;
} SafetensorsHeader;

// Makes room for `most` tensors, or as many as a file may have. False: exit code 5.
bool safetensors_room(SafetensorsHeader *h, size_t most, Error *error);

// The next tensor, called `name`. NULL: exit code 3 where there are too many, or 5.
SafetensorsTensor *safetensors_add(SafetensorsHeader *h, const char *name, Error *error);

// In this order for each tensor: its type by name; from plan.shape what it comes to; its place,
// counted from the first byte after the header. False: exit code 3.
bool safetensors_set_type(SafetensorsTensor *tensor, const char *name, Error *error);
bool safetensors_measure(SafetensorsTensor *tensor, Error *error);
bool safetensors_place(const SafetensorsHeader *h, SafetensorsTensor *tensor, uint64_t begin,
                       uint64_t end, Error *error);

// text[0] is '{'. False: exit code 3 or 5.
bool safetensors_read_text(SafetensorsHeader *h, const char *text, size_t length, Error *error);

// The text of the header of an open file, NULL in *text where there is none any more: the file was
// cut while it was open.
bool safetensors_header_text(const SafetensorsFile *file, const char **text, size_t *length,
                             Error *error);
