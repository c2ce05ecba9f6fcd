// TensorWriter: a file that begins with a header and goes on with tensors at known places, put in
// pieces in any order. What the safetensors and the GGUF writer share. Internal to weights/.
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/file_writer.h"

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
// Opens the file and puts the header; `data_bytes` come behind it. False: exit code 4 or 5.
bool tensor_writer_begin(TensorWriter *writer, const char *path, const Buffer *header,
                         uint64_t data_bytes, Error *error);

// As safetensors_writer_put, _finish and _close (write.h).
bool tensor_writer_put(TensorWriter *writer, size_t tensor, uint64_t offset, const void *data,
                       uint64_t bytes, Error *error);
bool tensor_writer_finish(TensorWriter *writer, Error *error);
void tensor_writer_close(TensorWriter *writer);
