// Opens a model: recognises the container, lets its reader fill the plan, checks the plan and
// assigns its tensors to roles.
//
//     path -> which container -> its reader (gguf/, hf/, llama2c/) fills plan, Config, Vocabulary
//          -> config_finish: the numbers make a model
//          -> families_assign: every tensor has its role and the shape that Config asks for
//
// The formats are in the readers; container.h says what they hand over. This file also releases
// pages, and answers what callers ask about an open checkpoint.
#include "weights/checkpoint.h"
#include "base/bytes.h"
#include "weights/container.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef WITHOUT_BUILTIN
const uint8_t *builtin_bytes(size_t *size) {
    *size = 0;
    return NULL;
}
#else
extern const uint8_t builtin_begin[], builtin_end[]; // embedded.S

const uint8_t *builtin_bytes(size_t *size) {
    *size = (size_t)(builtin_end - builtin_begin);
    return builtin_begin;
}
#endif

const Vocabulary VOCABULARY_ABSENT = {.bos_id = -1,
                                      .eos_id = -1,
                                      .eot_id = -1,
                                      .eom_id = -1,
                                      .unk_id = -1,
                                      .pad_id = -1,
                                      .add_bos = -1,
                                      .add_eos = -1,
                                      .add_space_prefix = -1};

const char *const ABOUT_NAMES[ABOUT_KEYS] = {"description", "author", "license", "url"};

// The mapping's path is a copy in the arena, since callers pass temporary buffers. Files are
// appended: one that the caller named stays the first.
Mapping *container_map(Checkpoint *c, const char *path, Error *error) {
    Mapping *mapping = arena_alloc(&c->arena, 1, sizeof *mapping, error);
    char *copy = arena_text(&c->arena, path, strlen(path), error);
    if (!mapping || !copy) return NULL;
    if (!mapping_open(mapping, copy, error)) {
        error_prefix(error, path);
        return NULL;
    }
    Mapping **end = &c->files;
    while (*end)
        end = &(*end)->next;
    *end = mapping;
    c->file_bytes += mapping->size;
    return mapping;
}

// ---- which container ----

enum { FIRST_BYTES = 512 }; // that is_foreign looks at

// A safetensors file starts with the length of its JSON header; read as llama2.c's dim and
// hidden_dim it would mean hidden_dim 0, so the two cannot be taken for one another.
static bool is_safetensors(const Mapping *file) {
    return file->size > 8 && file->data[8] == '{' && load_u64(file->data) <= LIMIT_JSON_HEADER;
}

// Bytes in memory have a config.json beside them only where they have the name of a path.
static bool read_safetensors(Checkpoint *c, Error *error) {
    if (c->files->mapped || strchr(c->path, '/')) return safetensors_read(c, error);
    return error_set(error, ERROR_FILE,
                     "safetensors have their config.json beside them: open the file or directory");
}

// The order matters. GGUF has a magic; safetensors is recognised by its length and '{'; llama2.c's
// v0 has no mark at all and is tried last. A file that is called .safetensors but does not look
// like one goes to that reader for its message.
static bool read_container(Checkpoint *c, bool vocabulary_only, Error *error) {
    Mapping *file = c->files;
    if (file->size < 4)
        return error_set(error, ERROR_FILE, "truncated header: the file has %zu bytes", file->size);
    if (!mapping_load(file, file->size < FIRST_BYTES ? file->size : FIRST_BYTES, error))
        return false;
    if (!memcmp(file->data, "GGUF", 4)) return gguf_read(c, vocabulary_only, error);
    if (vocabulary_only)
        return error_set(error, ERROR_FILE, "no vocabulary: this is not a GGUF file");
    if (is_safetensors(file)) return read_safetensors(c, error);
    // A llama2.c file begins with its dim, which could spell another format's two-byte magic.
    uint32_t dim = load_u32(file->data);
    bool may_be_dim = dim && dim <= LIMIT_DIM;
    size_t first = file->size < FIRST_BYTES ? file->size : FIRST_BYTES;
    if (!may_be_dim && is_foreign(file->data, first, "model", error)) return false;
    if (ends_with(file->path, ".safetensors")) return read_safetensors(c, error);
    if (llama2c_read(c, error)) return true;
    bool has_magic = !memcmp(file->data, "24ka", 4); // v1, v2
    if (!may_be_dim && !has_magic) error_prefix(error, "no GGUF, safetensors or llama2.c file");
    return false;
}

// Sealing comes after everything was read: it fails where the file was written to since it was
// opened.
static bool read_file(Checkpoint *c, bool vocabulary_only, Error *error) {
    return read_container(c, vocabulary_only, error) && mapping_seal(c->files, error);
}

// ---- opening ----

// Weights.release: drops the pages of one matrix once a device has copied it. A matrix that is not
// in a mapping, such as a transposed copy in the arena, matches no file and stays.
static void release_pages(void *owner, const Matrix *matrix) {
    const Checkpoint *c = owner;
    size_t bytes = matrix_data_bytes(matrix);
    for (const Mapping *file = c->files; file; file = file->next) {
        uintptr_t start = (uintptr_t)file->data, at = (uintptr_t)matrix->data;
        if (at >= start && at - start < file->size) mapping_drop(file, matrix->data, bytes);
    }
}

// Everything a reader may leave untouched gets its value for "not given" here.
static Checkpoint *checkpoint_new(const char *path, Error *error) {
    Checkpoint *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", sizeof *c);
        return NULL;
    }
    config_init(&c->config);
    c->vocabulary = VOCABULARY_ABSENT;
    c->generation = (GenerationDefaults){-1, -1, -1, -1, -1};
    c->path = arena_text(&c->arena, path, strlen(path), error);
    if (c->path) return c;
    checkpoint_close(c);
    return NULL;
}

// What every container has in common, after its reader has filled the plan.
static bool complete(Checkpoint *c, Error *error) {
    if (!config_finish(&c->config, error) || !families_assign(c, error)) return false;
    c->weights.release = release_pages;
    c->weights.owner = c;
    return true;
}

// Ends every kind of opening: success hands the checkpoint over, failure frees it.
static bool conclude(Checkpoint **out, Checkpoint *c, bool ok, Error *error) {
    if (!ok && c) error_prefix(error, c->path);
    if (!ok) checkpoint_close(c);
    *out = ok ? c : NULL;
    return ok;
}

// Plain memory as the checkpoint's only file.
static bool take_memory(Checkpoint *c, const void *bytes, size_t size, Error *error) {
    Mapping *mapping = arena_alloc(&c->arena, 1, sizeof *mapping, error);
    if (!mapping) return false;
    *mapping = mapping_of_memory(c->path, bytes, size);
    c->files = mapping;
    c->file_bytes = size;
    return true;
}

// The built-in model is plain memory: it is never mapped, loaded or damaged.
static bool take_file(Checkpoint *c, const char *path, Error *error) {
    size_t size = 0;
    if (!builtin_is_meant(path)) return container_map(c, path, error);
    const uint8_t *bytes = builtin_bytes(&size);
    if (bytes) return take_memory(c, bytes, size, error);
    return error_set(error, ERROR_USAGE,
                     "this program was made without a model of its own: which one? `bash "
                     "scripts/get_model smollm2` fetches one");
}

// As Hugging Face has them, or with one file of a model alone.
static bool open_directory(Checkpoint *c, Error *error) {
    const char *only = NULL;
    if (!only_model_in(&only, c->path, &c->arena, error)) return false;
    if (!only || ends_with(only, "/model.safetensors")) return safetensors_read(c, error);
    c->path = only;
    return take_file(c, only, error) && read_file(c, false, error);
}

bool checkpoint_open(Checkpoint **out, const char *path, Error *error) {
    Checkpoint *c = checkpoint_new(path, error);
    bool ok = c != NULL;
    if (ok && !builtin_is_meant(path) && is_directory(path))
        ok = open_directory(c, error);
    else
        ok = ok && take_file(c, path, error) && read_file(c, false, error);
    return conclude(out, c, ok && complete(c, error), error);
}

// `complete` is left out: a tokenizer has no Config to check and no tensors to assign.
bool checkpoint_open_vocabulary(Checkpoint **out, const char *path, Error *error) {
    Checkpoint *c = checkpoint_new(path, error);
    return conclude(out, c, c && take_file(c, path, error) && read_file(c, true, error), error);
}

bool checkpoint_open_memory(Checkpoint **out, const char *name, const void *bytes, size_t size,
                            Error *error) {
    Checkpoint *c = checkpoint_new(name, error);
    bool ok = c && take_memory(c, bytes, size, error) && read_file(c, false, error);
    return conclude(out, c, ok && complete(c, error), error);
}

bool checkpoint_open_outline(Checkpoint **out, const char *name, DType dtype, Error *error) {
    Checkpoint *c = checkpoint_new(name, error);
    OutlineFlags flags = {0};
    bool ok = c && (preset_read(c, &flags) || config_json_read(c, &flags, error));
    return conclude(
        out, c, ok && config_finish(&c->config, error) && families_outline(c, &flags, dtype, error),
        error);
}

// The mappings are closed before the arena, which holds their structs.
void checkpoint_close(Checkpoint *c) {
    if (!c) return;
    for (Mapping *file = c->files; file; file = file->next)
        mapping_close(file);
    arena_free(&c->arena);
    free(c);
}

// ---- what it holds ----

const Config *checkpoint_config(const Checkpoint *c) {
    return &c->config;
}
const Weights *checkpoint_weights(const Checkpoint *c) {
    return &c->weights;
}
const Vocabulary *checkpoint_vocabulary(const Checkpoint *c) {
    return &c->vocabulary;
}
const GenerationDefaults *checkpoint_generation(const Checkpoint *c) {
    return &c->generation;
}
TextSpan checkpoint_name(const Checkpoint *checkpoint) {
    return checkpoint->name;
}

const TextSpan *checkpoint_about(const Checkpoint *c) {
    return c->about;
}
const char *checkpoint_path(const Checkpoint *c) {
    return c->path;
}
Container checkpoint_container(const Checkpoint *c) {
    return c->container;
}
const char *checkpoint_container_name(const Checkpoint *c) {
    return c->container_name;
}
uint64_t checkpoint_file_bytes(const Checkpoint *c) {
    return c->file_bytes;
}
size_t checkpoint_unused(const Checkpoint *c) {
    return c->n_unused;
}

const TensorPlan *checkpoint_tensors(const Checkpoint *c, size_t *count) {
    *count = c->n_tensors;
    return c->tensors;
}

const char *checkpoint_unused_name(const Checkpoint *c, size_t i) {
    return i < c->n_unused ? c->tensors[c->unused[i]].name : NULL;
}

// A path that does not exist names no mapped file; the writers of files ask this before they
// replace one.
bool checkpoint_reads(const Checkpoint *c, const char *path) {
    struct stat wanted, status;
    if (stat(path, &wanted)) return false;
    for (const Mapping *file = c->files; file; file = file->next)
        if (!stat(file->path, &status) && status.st_dev == wanted.st_dev &&
            status.st_ino == wanted.st_ino)
            return true;
    return false;
}

bool checkpoint_check_whole(const Checkpoint *c, Error *error) {
    for (const Mapping *file = c->files; file; file = file->next)
        if (!mapping_check(file, error)) return error_prefix(error, file->path);
    return true;
}

const char *checkpoint_damaged(const Checkpoint *c) {
    for (const Mapping *file = c->files; file; file = file->next)
        if (mapping_damaged(file)) return file->path;
    return NULL;
}
