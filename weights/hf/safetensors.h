// safetensors: one file of named tensors, as Hugging Face writes it and as limpid writes traces.
//
//     SafetensorsFile file;
//     if (!safetensors_open(&file, "reference.safetensors", &error)) ...
//     const SafetensorsTensor *logits = safetensors_find(&file, "p0.logits");
//     safetensors_close(&file);
//
//   | N: u64 | JSON of N bytes: {"name": {"dtype", "shape", "data_offsets": [begin, end)}, ..} |
//   data |
//
// Offsets count from the first byte after the JSON. The tensors cover the data without hole or
// overlap, in any order and at any alignment. Format: huggingface.co/docs/safetensors
#pragma once

#include "base/arena.h"
#include "base/bytes.h"
#include "weights/checkpoint.h"

// A kind of element that the format knows. Models use three of them, traces one more.
typedef struct SafetensorsType {
    const char *name; // "F32", "I64"
    uint32_t bits;    // of one element
    DType dtype;      // DTYPE_COUNT: limpid has no weights of this kind
} SafetensorsType;

typedef struct SafetensorsTensor {
    TensorPlan plan; // rank 0 .. 4, a dimension may be 0; plan.dtype == type->dtype
    const SafetensorsType *type;
} SafetensorsTensor;

// Checks a whole file and lists its tensors in the order of the header, in *tensors (owned by
// `arena`). False: exit code 3, or 5 (4, where a mapped file cannot be read); the message names the
// tensor or the offset.
bool safetensors_parse(SafetensorsTensor **tensors, size_t *count, Bytes file, Arena *arena);

typedef struct SafetensorsFile {
    Mapping mapping; // the header is loaded, the data of the tensors may change with the file
    Arena arena;
    SafetensorsTensor *tensors; // (count)
    size_t count;
    size_t metadata; // of SafetensorsHeader
} SafetensorsFile;

// Whether something else is in place of the file: a Git LFS pointer, another format, an archive.
// True, with its name in the message: exit code 3; or 4, 5 where it cannot be read.
bool safetensors_is_other(Mapping *file, Error *error);

// One plain file, without a config. False leaves nothing to close; the path is in front.
bool safetensors_open(SafetensorsFile *file, const char *path, Error *error);
void safetensors_close(SafetensorsFile *file);
const SafetensorsTensor *safetensors_find(const SafetensorsFile *file, const char *name); // or NULL

// The text of `key` in "__metadata__", borrowed until close; NULL in *value where there is none.
// Whoever shows it escapes it. False: exit code 5.
bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value, Error *error);

// ---- the two parsers of the header, internal to weights/ ----
//
// safetensors_json.c parses any header, with jansson; without_json.c only those that limpid writes.
// Both provide safetensors_read_text and safetensors_metadata and share the functions below.

// A header being read.
typedef struct SafetensorsHeader {
    const uint8_t *file;
    size_t start, size;         // of the data, of the file
    SafetensorsTensor *tensors; // owned by `arena`
    size_t count, room;
    Arena *arena;
    size_t metadata; // where "__metadata__" is in the text, or spaces before it; 0: nowhere
} SafetensorsHeader;

// Makes room for `most` tensors, or as many as a file may have; no more can be added. False: exit
// code 5.
bool safetensors_room(SafetensorsHeader *h, size_t most, Error *error);

// The next tensor, called `name`. NULL: exit code 3 where there are too many, or 5.
SafetensorsTensor *safetensors_add(SafetensorsHeader *h, const char *name, Error *error);

// In this order for each tensor: its type by name; from plan.shape what it comes to; its place,
// counted from the first byte after the header. Of a tensor behind the end of the file plan.data
// stays NULL, and the header is refused once it has been read. False: exit code 3.
bool safetensors_set_type(SafetensorsTensor *tensor, const char *name, Error *error);
bool safetensors_measure(SafetensorsTensor *tensor, Error *error);
bool safetensors_place(const SafetensorsHeader *h, SafetensorsTensor *tensor, uint64_t begin,
                       uint64_t end, Error *error);

// text[0] is '{'. False: exit code 3 or 5.
bool safetensors_read_text(SafetensorsHeader *h, const char *text, size_t length, Error *error);

// The text of the header of an open file, as it was checked.
const char *safetensors_header_text(const SafetensorsFile *file, size_t *length);
