// A GGUF file as a list of keys and tensors that a test can build, change and write.
//
//     GgufFile *file = gguf_tiny_llama();
//     gguf_set_u32(file, "llama.block_count", 0);
//     size_t size;
//     uint8_t *bytes = gguf_write(file, &size);   // malloced
//     gguf_file_free(file);
//
// Nothing is checked, since tests write wrong files too; a programmer's mistake aborts. Without
// tests/test.h, so that fuzz targets can link it.
#pragma once

#include "weights/gguf/gguf.h"

typedef struct GgufKey {
    char *name;
    size_t name_length;
    uint64_t said_length; // the length of the name as the file gives it
    uint32_t type;
    uint8_t *payload; // everything after the type
    size_t size;
} GgufKey;

typedef struct GgufTensor {
    char *name;
    size_t name_length;
    uint32_t n_dims;
    uint64_t dims[8]; // fastest first, as the file has them
    uint32_t type;
    uint64_t offset; // set by gguf_write unless fixed_offset
    bool fixed_offset;
    uint8_t *data;
    size_t size;
} GgufTensor;

typedef struct GgufFile {
    uint32_t version, alignment;
    GgufKey *keys;
    size_t n_keys;
    GgufTensor *tensors;
    size_t n_tensors;
    bool lies_of_keys, lies_of_tensors; // the header then says...
    uint64_t said_keys, said_tensors;
    size_t gap_after; // index of a tensor after which...
    size_t gap;       // ...so many more bytes come
    size_t tail;      // bytes after the last tensor, beyond its padding
} GgufFile;

GgufFile *gguf_file_new(void);
void gguf_file_free(GgufFile *file);

// A llama of two layers, F32, with a vocabulary of the same size; 16-byte rows, below 4 KiB.
GgufFile *gguf_tiny_llama(void);

// Keys: replaced where the name exists, else added. gguf_add_raw always adds.
void gguf_set_raw(GgufFile *file, const char *key, uint32_t type, const void *payload, size_t size);
void gguf_add_raw(GgufFile *file, const void *key, size_t length, uint32_t type,
                  const void *payload, size_t size);
void gguf_set_u32(GgufFile *file, const char *key, uint32_t value);
void gguf_set_f32(GgufFile *file, const char *key, float value);
void gguf_set_bool(GgufFile *file, const char *key, uint8_t value);
void gguf_set_text(GgufFile *file, const char *key, const char *text);
void gguf_set_strings(GgufFile *file, const char *key, const char *const *texts, size_t count);
// An array of numbers: `count` elements of `element` type.
void gguf_set_array(GgufFile *file, const char *key, uint32_t element, const void *values,
                    uint64_t count);
void gguf_remove_key(GgufFile *file, const char *key);

GgufTensor *gguf_find_tensor(GgufFile *file, const char *name); // must be there
// Adds a tensor of small random numbers; dims fastest first; n_dims 1 or 2. Any type `quantise`
// writes; for others the bytes are random.
GgufTensor *gguf_add_tensor(GgufFile *file, const char *name, DType dtype, uint64_t cols,
                            uint64_t rows);
void gguf_remove_tensor(GgufFile *file, const char *name);

uint8_t *gguf_write(const GgufFile *file, size_t *size);
