// Files of tensors going out: traces, saved logits, converted models.
//
//     WriteTensor tensors[] = {{"logits", "F32", 2, {n, vocab_size}}, {"ids", "I64", 1, {n}}};
//     WriteMetadata metadata[] = {{"model", path}};
//     OutputFile file = {.path = path, .inputs = &inputs, .force = options->force};
//     SafetensorsWriter *out = safetensors_writer_open(&file, tensors, 2, metadata, 1, &error);
//     good = out && safetensors_writer_put(out, 0, row * row_bytes, logits, row_bytes, &error) &&
//            ... && safetensors_writer_finish(out, &error);
//     safetensors_writer_close(out);   // without finish nothing is left behind
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/file_writer.h"

#include <stddef.h>
#include <stdint.h>

typedef struct WriteTensor {
    const char *name; // UTF-8, not empty, no name twice, not "__metadata__"
    const char *type; // as the format spells it: "F32", "F16", "BF16", "I64", "I32"
    uint32_t rank;    // 0 .. 4
    uint64_t shape[4];
} WriteTensor;

typedef struct WriteMetadata {
    const char *key, *value; // text; no key twice
} WriteMetadata;

typedef struct TensorWriter SafetensorsWriter;

// Lays out the file and begins it (base/file_writer.h). Tensors lie in the order given, those
// with wider elements first, so that each begins at a multiple of its element's size. Nothing of
// the arguments is kept but the inputs of `out`. NULL: exit code 2 (names, types or shapes that
// no file can have; a file that must not be replaced), 4 or 5.
SafetensorsWriter *safetensors_writer_open(const OutputFile *out, const WriteTensor *tensors,
                                           size_t n, const WriteMetadata *metadata,
                                           size_t n_metadata, Error *error);

// data[bytes] at byte `offset` of tensors[tensor], in any order, every byte once. False: exit code
// 2 (outside the tensor) or 4.
bool safetensors_writer_put(SafetensorsWriter *writer, size_t tensor, uint64_t offset,
                            const void *data, uint64_t bytes, Error *error);

// Puts the file in its place. False: exit code 2 where bytes of a tensor were never put, or 4.
bool safetensors_writer_finish(SafetensorsWriter *writer, Error *error);
void safetensors_writer_close(SafetensorsWriter *writer); // NULL is fine

// ---- TensorWriter, internal to weights/ and convert: what both writers are made of ----
//
// A file that begins with a header, followed by tensors at known offsets, which are put in any
// order.

typedef struct PlacedTensor {
    const char *name;
    uint64_t begin, bytes; // begin: behind the header
    uint64_t written;
} PlacedTensor;

typedef struct TensorWriter {
    Arena arena;
    FileWriter *file;
    PlacedTensor *tensors; // (n) in the arena
    size_t n;
    uint64_t data_start; // bytes of the header
} TensorWriter;

// NULL: exit code 5. Room for n tensors, zeroed; their names are copied by tensor_writer_name.
TensorWriter *tensor_writer_new(size_t n, Error *error);
bool tensor_writer_name(TensorWriter *writer, size_t tensor, const char *name, Error *error);
// Opens the file and puts the header; `data_bytes` come behind it. False: exit code 2, 4 or 5.
bool tensor_writer_begin(TensorWriter *writer, const OutputFile *out, const Buffer *header,
                         uint64_t data_bytes, Error *error);

// As safetensors_writer_put, _finish and _close.
bool tensor_writer_put(TensorWriter *writer, size_t tensor, uint64_t offset, const void *data,
                       uint64_t bytes, Error *error);
bool tensor_writer_finish(TensorWriter *writer, Error *error);
void tensor_writer_close(TensorWriter *writer);
