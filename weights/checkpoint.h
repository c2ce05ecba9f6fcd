// A model on disk: recognises the container, checks all of it, and returns Config + Weights.
//
//     Checkpoint *checkpoint = NULL;
//     if (!checkpoint_open(&checkpoint, "SmolLM2.gguf", &error)) ...
//     model = model_open(checkpoint_config(checkpoint), checkpoint_weights(checkpoint), ...);
//
// Accepted: a .gguf file (v2, v3), a .safetensors file or a directory with config.json and one or
// more of them, a llama2.c .bin (v0, v1, v2). The content decides, not the name.
#pragma once

#include "base/error.h"
#include "weights/config.h"
#include "weights/vocabulary.h"
#include "weights/weights.h"

#include <string.h>

// The model that is inside the program: the bytes of weights/builtin.gguf, put there by embedded.S.
// checkpoint_open reads it under the name "builtin"; a file of that name is ./builtin.
#define BUILTIN_NAME "builtin"
const uint8_t *builtin_bytes(size_t *size); // NULL and size 0 in a program built with BUILTIN=0
static inline bool builtin_is_meant(const char *path) {
    return !strcmp(path, BUILTIN_NAME);
}

typedef struct Checkpoint Checkpoint;

typedef enum Container {
    CONTAINER_GGUF,
    CONTAINER_SAFETENSORS,
    CONTAINER_LLAMA2C,
} Container;

// One tensor of the plan: as the container describes it, with its range checked. `inspect`,
// `convert` and the assignment of roles read the plan.
typedef struct TensorPlan {
    const char *name; // NUL-terminated, no NUL inside; escape before printing
    DType dtype;
    uint32_t n_dims;
    uint64_t shape[4];     // slowest first, as torch prints it: (rows, cols)
    const uint8_t *data;   // inside the mapping: the only bytes of a file that may change
    uint64_t bytes;        // of the data
    uint64_t offset;       // in the file
    const uint8_t *scales; // Q8_GROUP: float32, one per group_size elements; else NULL
    uint32_t group_size;
} TensorPlan;

uint64_t plan_elements(const TensorPlan *tensor); // the product of its shape, which is checked

// Sampling defaults of generation_config.json; negative: not given.
typedef struct GenerationDefaults {
    float temperature, top_p, top_k, min_p, repetition_penalty;
} GenerationDefaults;

// What its makers wrote about the model: general.description and so on of a GGUF, the keys of these
// names in config.json.
typedef enum AboutKey {
    ABOUT_DESCRIPTION,
    ABOUT_AUTHOR,
    ABOUT_LICENSE,
    ABOUT_URL,
    ABOUT_KEYS
} AboutKey;
extern const char *const ABOUT_NAMES[ABOUT_KEYS]; // "description", ...

// Maps the file(s) read-only and checks everything. Whatever is no tensor is copied first, so that
// a program that rewrites a file can change weights alone, each of which is a legal one. The path
// "builtin" is the model inside the program; exit code 2 where it was made without one. On failure
// *checkpoint is NULL and `error` says why, with the path in front: exit code 3 (content), 4
// (cannot read, or written to meanwhile) or 5.
bool checkpoint_open(Checkpoint **checkpoint, const char *path, Error *error);

// The same for a tokenizer alone: a GGUF file with a vocabulary, whose tensors (if it has any) are
// ignored. Config and Weights of such a checkpoint are empty.
bool checkpoint_open_vocabulary(Checkpoint **checkpoint, const char *path, Error *error);

// The same over bytes in memory (borrowed until close) of a GGUF or llama2.c file, for tests and
// fuzzing. `name` is used in messages.
bool checkpoint_open_memory(Checkpoint **checkpoint, const char *name, const void *bytes,
                            size_t size, Error *error);

// ---- outlines: shapes without weights ----

// Sizes of a published model, as its config.json has them.
typedef struct Preset {
    const char *name;       // "gpt2"
    const char *model_type; // of a config.json: the family
    int dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, vocab_size, max_seq_len;
    int window, global_every; // every so many layers see all keys, 0: none; window 0: all do
    bool tied;
    bool one_theta; // layers with a window rotate as the others do
    int rope_dim;   // channels of a head that rotate; 0: all
} Preset;
const Preset *preset_at(size_t i); // NULL behind the last

// Whether a model's name stands for an outline: a preset, or a path that ends in .json.
bool outline_is_meant(const char *name);

// Config and Weights of a preset or of a config.json alone. The matrices have shapes in `dtype`
// (F16 where rows are no whole blocks) and no bytes: their data must not be read. False: exit code
// 3, 4 or 5.
bool checkpoint_open_outline(Checkpoint **checkpoint, const char *name, DType dtype, Error *error);

void checkpoint_close(Checkpoint *checkpoint); // NULL is fine

// All borrowed until checkpoint_close.
const Config *checkpoint_config(const Checkpoint *checkpoint);
const Weights *checkpoint_weights(const Checkpoint *checkpoint);
const Vocabulary *
checkpoint_vocabulary(const Checkpoint *checkpoint); // model == NULL: none inside,
                                                     // but maybe chat_template
const GenerationDefaults *checkpoint_generation(const Checkpoint *checkpoint);
TextSpan checkpoint_name(const Checkpoint *checkpoint); // general.name of a GGUF; length 0: none
const TextSpan *checkpoint_about(const Checkpoint *checkpoint); // (ABOUT_KEYS); length 0: nothing
const TensorPlan *checkpoint_tensors(const Checkpoint *checkpoint, size_t *count);
const char *checkpoint_path(const Checkpoint *checkpoint); // as given to checkpoint_open
Container checkpoint_container(const Checkpoint *checkpoint);
// With its version, for people: "GGUF v3", "llama2.c v0", "safetensors", ...
const char *checkpoint_container_name(const Checkpoint *checkpoint);
uint64_t checkpoint_file_bytes(const Checkpoint *checkpoint); // of all files together

// Whether `path` is one of the mapped files, through links too (compared by device and inode).
bool checkpoint_reads(const Checkpoint *checkpoint, const char *path);

// Names of tensors that no role uses (tolerated, worth a warning): count, and the i-th.
size_t checkpoint_unused(const Checkpoint *checkpoint);
const char *checkpoint_unused_name(const Checkpoint *checkpoint, size_t i);

// The path of a mapped file that was cut short while it was in use, so that what was computed since
// is not to be trusted; NULL: none. In a program that has called mapping_guard (base/mapping.h) a
// read past the new end gives zeros, not a signal.
const char *checkpoint_damaged(const Checkpoint *checkpoint);

// After all weights were read. False: exit code 4, a file was written to meanwhile, so that they
// may be of two versions.
bool checkpoint_check_whole(const Checkpoint *checkpoint, Error *error);
