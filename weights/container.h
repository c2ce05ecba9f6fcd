// Container: what a reader of one file format hands to checkpoint.c. Internal to weights/.
//
// A reader (gguf.c, safetensors.c, llama2c.c) fills, in this order:
//   1. container, and for formats of several files `files` (container_map);
//   2. the plan: plan_reserve, every TensorPlan, plan_finish, then its own rules about gaps over
//      plan_order; nothing is computed from a tensor before plan_finish has accepted all of them;
//   3. family and naming, config (family_defaults, then the file's own keys; not config_finish),
//      head_required; vocabulary and generation where the format has them.
// checkpoint.c then runs config_finish and families_assign, which compares the shape of every
// tensor with the one derived from Config and fills Weights.
//
// All memory comes from `arena`, so a reader that fails simply returns false.
#pragma once

#include "base/arena.h"
#include "base/mapping.h"
#include "base/text.h"
#include "weights/checkpoint.h"
#include "weights/families.h"

struct Checkpoint {
    const char *path;
    Container container;
    char container_name[32]; // "GGUF v3"
    Arena arena;
    Mapping *files; // first one first; NULL when the path is a directory, until container_map
    uint64_t file_bytes;

    TensorPlan *tensors; // (n_tensors)
    size_t n_tensors;
    uint32_t *plan_order; // (n_tensors) indices by ascending address of data
    NameIndex names;      // name -> index of the tensor
    bool *used;           // (n_tensors) a role took it, or it is known to be of no use
    uint32_t *unused;     // (n_unused) tensors that no role uses
    size_t n_unused;

    const Family *family;
    Naming naming;
    bool head_required; // the file says that the head is not tied
    Config config;
    Weights weights;
    Vocabulary vocabulary;         // ids initialised to -1, model == NULL
    GenerationDefaults generation; // initialised to "not given"
    TextSpan name;                 // general.name of a GGUF, as it is there
    TextSpan about[ABOUT_KEYS];    // in the arena, or in what is loaded of the file
    TextSpan *keys; // (n_keys) of a GGUF, general.* and tokenizer.*: name, type and value as they
    size_t n_keys;  // are in it
};

// The readers. The path is prefixed by the caller.
// gguf, llama2c: one file, already mapped as checkpoint->files, which is read through
// bytes_of_file.
bool gguf_read(Checkpoint *checkpoint, bool vocabulary_only, Error *error);
bool llama2c_read(Checkpoint *checkpoint, Error *error);
// safetensors: either files is the one .safetensors file (config.json is in the same directory), or
// files is NULL and path a directory with config.json and *.safetensors, or shards and their index.
// Opens nothing outside that directory.
bool safetensors_read(Checkpoint *checkpoint, Error *error);

// True, with exit code 3 and what it looks like, where the first bytes of a file are those of
// something that limpid does not read: a picture, an archive, a text. 512 bytes are enough.
// `wanted`: "model", "safetensors file".
bool is_foreign(const uint8_t *data, size_t size, const char *wanted, Error *error);
// The path of the only model in a directory, if it is a file, in the arena; else NULL. False: exit
// code 5.
bool only_model_in(const char **out, const char *path, Arena *arena, Error *error);
// The error for a directory that is no model: the models in it (exit code 2), or that there is none
// (`code`; `wanted`: what a model would have). False.
bool refuse_directory(const char *path, ErrorCode code, const char *wanted, Error *error);

// What a config.json says of tensors that may be absent.
typedef struct OutlineFlags { // families_outline
    bool tied;                // the head is the embedding
    bool all_biases;          // of every attention matrix, where the family may have them or not
} OutlineFlags;

// checkpoint->path is a config.json without weights: fills family, naming and config.
bool config_json_read(Checkpoint *checkpoint, OutlineFlags *flags, Error *error);

// The preset that checkpoint->path names, in the same way; false where it names none.
bool preset_read(Checkpoint *checkpoint, OutlineFlags *flags);

// Maps one more file (its path is copied). NULL: exit code 3, 4 or 5, the path in front. Whoever
// has read its header seals it.
Mapping *container_map(Checkpoint *checkpoint, const char *path, Error *error);

// Makes tensors and used for n tensors, zeroed, and sets n_tensors. n at most LIMIT_TENSORS.
bool plan_reserve(Checkpoint *checkpoint, uint64_t n, Error *error);

// Bytes that a tensor's dtype and shape come to: false where they do not fit 63 bits or the last
// dimension is no multiple of the block. Needs name, dtype, n_dims, shape; sets bytes (0 where a
// dimension is 0).
// (Q8_GROUP: of the int8 elements; the scales are the reader's own.)
bool plan_measure(TensorPlan *tensor, Error *error);

// Checks what is the same for every format, over all tensors: name lengths, no name twice, no two
// ranges (data, bytes) overlapping. Sets names and plan_order.
bool plan_finish(Checkpoint *checkpoint, Error *error);
