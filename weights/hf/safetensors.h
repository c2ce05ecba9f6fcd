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
#include "base/error.h"
#include "base/mapping.h"
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

// Checks the whole of data[size] and lists its tensors in the order of the header, in *tensors
// (owned by `arena`). False: exit code 3, or 5; the message names the tensor or the offset.
bool safetensors_parse(SafetensorsTensor **tensors, size_t *count, const uint8_t *data, size_t size,
                       Arena *arena, Error *error);

typedef struct SafetensorsFile {
    Mapping mapping;
    Arena arena;
    SafetensorsTensor *tensors; // (count)
    size_t count;
} SafetensorsFile;

// One plain file, without a config. False leaves nothing to close; the path is in front.
bool safetensors_open(SafetensorsFile *file, const char *path, Error *error);
void safetensors_close(SafetensorsFile *file);
const SafetensorsTensor *safetensors_find(const SafetensorsFile *file, const char *name); // or NULL

// The text of `key` in "__metadata__", borrowed until close; NULL in *value where there is none.
// Whoever shows it escapes it. False: exit code 5.
bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value, Error *error);
