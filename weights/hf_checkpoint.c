// A Hugging Face model: config.json, generation_config.json and one .safetensors file or several
// with an index, all in one directory. Nothing outside it is ever opened, whatever the index says.
#include "weights/bytes.h"
#include "weights/container.h"
#include "weights/hf_config.h"
#include "weights/json.h"
#include "weights/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const JsonLimits INDEX_LIMITS = {.bytes = 32 << 20, .values = 2 * (size_t)LIMIT_TENSORS};

// One file of tensors, read but not yet in the plan.
typedef struct Shard {
    const char *name; // plain, in the directory
    const Mapping *file;
    SafetensorsTensor *tensors;
    size_t count;
} Shard;

// ---- files of the directory ----

// "directory/name", owned by the arena.
static char *path_beside(Checkpoint *checkpoint, const char *name, Error *error) {
    const char *path = checkpoint->path;
    size_t length = strlen(path);
    if (checkpoint->files) { // the path is a file: its directory, with the slash, or nothing
        const char *slash = strrchr(path, '/');
        length = slash ? (size_t)(slash - path) + 1 : 0;
    }
    bool slash = length && path[length - 1] != '/';
    char *out = arena_alloc(&checkpoint->arena, length + slash + strlen(name) + 1, 1, error);
    if (!out) return NULL;
    memcpy(out, path, length);
    if (slash) out[length++] = '/';
    memcpy(out + length, name, strlen(name));
    return out;
}

static bool file_exists(Checkpoint *checkpoint, const char *name, Error *error) {
    const char *path = path_beside(checkpoint, name, error);
    return path && !access(path, F_OK);
}

// The parsed JSON file, owned; NULL with the file's name in front of the message.
static json_t *read_json(Checkpoint *checkpoint, const char *name, const JsonLimits *limits,
                         Error *error) {
    const char *path = path_beside(checkpoint, name, error);
    if (!path) return NULL;
    if (access(path, F_OK)) {
        error_set(error, ERROR_FILE, "there is no %s beside the weights", name);
        return NULL;
    }
    Error cause = {0};
    Mapping mapping;
    json_t *root = NULL;
    if (mapping_open(&mapping, path, &cause))
        root = json_parse((const char *)mapping.data, mapping.size, limits, &cause);
    mapping_close(&mapping);
    if (root && !json_is_object(root)) {
        error_set(&cause, ERROR_FILE, "wanted an object, got %s", json_kind(root));
        json_decref(root);
        root = NULL;
    }
    if (!root) error_set(error, cause.code, "%s: %s", name, cause.message);
    return root;
}

// ---- config.json, generation_config.json ----

static bool use_config(Checkpoint *checkpoint, const json_t *root, Error *error) {
    const json_t *text = NULL;
    HfFlags flags = {0};
    const HfFamily *hf = hf_family_find(root, &text, error);
    if (!hf) return false;
    checkpoint->naming = NAMES_HF;
    checkpoint->family = family_find(NAMES_HF, hf->model_type, error);
    if (!checkpoint->family) return false;
    family_defaults(checkpoint->family, &checkpoint->config);
    if (!hf_config_read(&checkpoint->config, &flags, root, &checkpoint->arena, error)) return false;
    checkpoint->head_required = !flags.tied;
    return true;
}

static bool read_configs(Checkpoint *checkpoint, Error *error) {
    Error cause = {0};
    json_t *root = read_json(checkpoint, "config.json", &JSON_CONFIG_LIMITS, error);
    bool good = root && use_config(checkpoint, root, &cause);
    json_decref(root);
    if (!good) return error_set(error, cause.code, "config.json: %s", cause.message);
    if (!file_exists(checkpoint, "generation_config.json", error)) return !error->code;
    root = read_json(checkpoint, "generation_config.json", &JSON_CONFIG_LIMITS, error);
    good = root && hf_generation_read(&checkpoint->config, &checkpoint->generation, root, &cause);
    json_decref(root);
    return good || error_set(error, cause.code, "generation_config.json: %s", cause.message);
}

// ---- shards ----

// A name that can only mean a file of this directory, and only a file of tensors.
static bool shard_name_is_plain(const char *name) {
    static const char SUFFIX[] = ".safetensors";
    size_t length = strlen(name), suffix = sizeof SUFFIX - 1;
    return length > suffix && length < 256 && name[0] != '.' && !strchr(name, '/') &&
           !strcmp(name + length - suffix, SUFFIX);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const Shard *)a)->name, ((const Shard *)b)->name);
}

// The different file names of the index, sorted.
static bool list_shards(Checkpoint *checkpoint, const json_t *map, Shard **shards, size_t *count,
                        Error *error) {
    size_t n = 0, unique = 0;
    Shard *list = arena_alloc(&checkpoint->arena, json_object_size(map), sizeof *list, error);
    if (!list) return false;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value) {
        const char *name = json_string_value(value);
        if (!name)
            return error_set(error, ERROR_FILE, "\"%.100s\": wanted a file name, got %s", key,
                             json_kind(value));
        if (!shard_name_is_plain(name))
            return error_set(error, ERROR_FILE,
                             "\"%.100s\" is in \"%.100s\": wanted a plain name ending in "
                             ".safetensors",
                             key, name);
        list[n++].name = name;
    }
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(list[i].name, list[unique - 1].name) != 0) list[unique++] = list[i];
    if (!unique || unique > LIMIT_FILES / 2)
        return error_set(error, ERROR_FILE, "%zu files of tensors, wanted 1 .. %d", unique,
                         LIMIT_FILES / 2);
    *shards = list;
    *count = unique;
    return true;
}

static bool map_shard(Checkpoint *checkpoint, Shard *shard, Error *error) {
    const char *path = path_beside(checkpoint, shard->name, error);
    if (!path) return false;
    if (access(path, F_OK))
        return error_set(error, ERROR_FILE, "there is no %.200s in this directory", shard->name);
    shard->file = container_map(checkpoint, path, error);
    return shard->file != NULL;
}

static bool parse_shard(Checkpoint *checkpoint, Shard *shard, Error *error) {
    Error cause = {0};
    if (safetensors_parse(&shard->tensors, &shard->count, shard->file->data, shard->file->size,
                          &checkpoint->arena, &cause))
        return true;
    if (shard->name) error_prefix(&cause, shard->name);
    return error_set(error, cause.code, "%s", cause.message);
}

// ---- the plan ----

static bool plan_shards(Checkpoint *checkpoint, const Shard *shards, size_t n_shards,
                        Error *error) {
    uint64_t total = 0;
    for (size_t i = 0; i < n_shards; i++)
        total += shards[i].count;
    if (!plan_reserve(checkpoint, total, error)) return false;
    TensorPlan *plan = checkpoint->tensors;
    for (size_t i = 0; i < n_shards; i++) {
        for (size_t j = 0; j < shards[i].count; j++) {
            const SafetensorsTensor *tensor = &shards[i].tensors[j];
            if (tensor->type->dtype == DTYPE_COUNT)
                return error_set(error, ERROR_FILE,
                                 "tensor \"%.100s\": dtype %s is not supported (F32, F16 and BF16 "
                                 "are)",
                                 tensor->plan.name, tensor->type->name);
            *plan++ = tensor->plan;
        }
    }
    return plan_finish(checkpoint, error);
}

// Every tensor of the index stands in the file that the index says.
static bool check_index(const Checkpoint *checkpoint, const json_t *map, const Shard *shards,
                        size_t n_shards, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value) {
        Shard wanted = {.name = json_string_value(value)};
        const Shard *shard = bsearch(&wanted, shards, n_shards, sizeof *shards, by_name);
        int64_t item = names_find(&checkpoint->names, key);
        const uint8_t *at = item < 0 ? NULL : checkpoint->tensors[item].data;
        if (!at || at < shard->file->data || at > shard->file->data + shard->file->size)
            return error_set(error, ERROR_FILE, "tensor \"%.100s\" is not in %.100s", key,
                             wanted.name);
    }
    return true;
}

static bool read_sharded(Checkpoint *checkpoint, const json_t *map, Error *error) {
    Shard *shards;
    size_t n_shards;
    if (!map) return error_set(error, ERROR_FILE, "\"weight_map\" is missing");
    if (!list_shards(checkpoint, map, &shards, &n_shards, error)) return false;
    for (size_t i = 0; i < n_shards; i++)
        if (!map_shard(checkpoint, &shards[i], error) ||
            !parse_shard(checkpoint, &shards[i], error))
            return false;
    return plan_shards(checkpoint, shards, n_shards, error) &&
           check_index(checkpoint, map, shards, n_shards, error);
}

static bool read_index(Checkpoint *checkpoint, Error *error) {
    static const char NAME[] = "model.safetensors.index.json";
    const json_t *map = NULL;
    json_t *root = read_json(checkpoint, NAME, &INDEX_LIMITS, error);
    Error cause = {0};
    bool good = root && json_read_object(root, "weight_map", &map, &cause) &&
                read_sharded(checkpoint, map, &cause);
    json_decref(root);
    return good || error_set(error, cause.code, "%s: %s", NAME, cause.message);
}

static bool read_single(Checkpoint *checkpoint, Error *error) {
    Shard shard = {.name = checkpoint->files ? NULL : "model.safetensors",
                   .file = checkpoint->files};
    return (shard.file || map_shard(checkpoint, &shard, error)) &&
           parse_shard(checkpoint, &shard, error) && plan_shards(checkpoint, &shard, 1, error);
}

bool safetensors_read(Checkpoint *checkpoint, Error *error) {
    snprintf(checkpoint->container, sizeof checkpoint->container, "safetensors");
    bool single = checkpoint->files || file_exists(checkpoint, "model.safetensors", error);
    bool sharded = !single && file_exists(checkpoint, "model.safetensors.index.json", error);
    if (error->code) return false;
    if (!single && !sharded)
        return error_set(error, ERROR_FILE,
                         "a directory without model.safetensors or model.safetensors.index.json");
    if (!read_configs(checkpoint, error)) return false;
    return single ? read_single(checkpoint, error) : read_index(checkpoint, error);
}
