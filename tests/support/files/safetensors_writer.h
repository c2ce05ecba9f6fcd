// Safetensors files and Hugging Face directories for tests, written from the format's description
// and not with limpid's own writer, so that the reader is held against something else.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct WriterTensor {
    char name[80];
    const char *dtype; // "F32"
    size_t rank, shape[4];
    const void *data; // borrowed
    size_t bytes;
} WriterTensor;

// The whole file, malloced. `pad` spaces follow the header's JSON.
char *safetensors_bytes(size_t *size, const WriterTensor *tensors, size_t count, size_t pad);

// A llama2.c v0 file (in memory) as directory/config.json and directory/model.safetensors: the same
// numbers, the rows of wq and wk in half-split order. The directory is made where it is absent.
// Fails the test on bytes that are no such file.
void write_hugging_face(const char *directory, const char *bin, size_t size);

// The same with every tensor in bfloat16, cut off: the upper half of each float32.
void write_hugging_face_bf16(const char *directory, const char *bin, size_t size);
