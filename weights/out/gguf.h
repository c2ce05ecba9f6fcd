// A GGUF going out (version 3; the format is drawn in gguf.c): keys as they come, then tensors.
//
//     GgufKeys keys = {0};
//     gguf_put_text(&keys, "general.architecture", "llama");
//     good = gguf_put_model(&keys, &out, &vocabulary, "stories", &error);
//     TensorWriter *file = gguf_writer_open(&place, &keys, out.tensors, out.n, &error);
//     ... tensor_writer_put(file, i, offset, rows, bytes, &error) ...
#pragma once

#include "base/buffer.h"
#include "weights/out/outgoing.h"
#include "weights/out/write.h"

typedef struct GgufKeys {
    Buffer bytes;
    Buffer names; // size_t each: where in `bytes` the name of a key begins, gguf_put_new's left out
    uint64_t count;
} GgufKeys;

void gguf_keys_free(GgufKeys *keys);

// No key twice. Where memory runs out, bytes.failed or names.failed says so.
void gguf_put_u32(GgufKeys *keys, const char *key, uint32_t value);
void gguf_put_i32(GgufKeys *keys, const char *key, int32_t value);
void gguf_put_f32(GgufKeys *keys, const char *key, float value);
void gguf_put_bool(GgufKeys *keys, const char *key, bool value);
void gguf_put_text(GgufKeys *keys, const char *key, TextSpan text);
void gguf_put_texts(GgufKeys *keys, const char *key, const TextSpan *texts, size_t count);
void gguf_put_f32s(GgufKeys *keys, const char *key, const float *values, size_t count);
void gguf_put_types(GgufKeys *keys, const char *key, const uint8_t *types, size_t count); // i32
void gguf_put_bools(GgufKeys *keys, const char *key, const bool *values, size_t count);
// A name, its length in front, with a type and a value, as they are in a GGUF that was checked;
// unless another function has put one of that name.
void gguf_put_new(GgufKeys *keys, TextSpan key);

// Every key that the architecture of `out` needs to be this model again (weights/gguf/keys.c), and
// the vocabulary, padded to the embedding's rows; `name`: general.name, length 0: none;
// vocabulary->model == NULL: none. False: exit code 3 where the architecture has no key for what
// the model does.
bool gguf_put_model(GgufKeys *keys, const Outgoing *out, const Vocabulary *vocabulary,
                    TextSpan name, Error *error);

// Tensors lie in the order given, each at a multiple of 32 bytes. NULL: exit code 2 (a name of more
// than 63 bytes; a file that must not be replaced), 4 or 5, the path in front.
TensorWriter *gguf_writer_open(const OutputFile *out, const GgufKeys *keys,
                               const TensorPlan *tensors, size_t n, Error *error);
