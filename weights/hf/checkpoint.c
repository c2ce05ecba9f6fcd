// A Hugging Face model: config.json, generation_config.json and one .safetensors file or several
// with an index, all in one directory. No file outside that directory is opened, even if the index
// names one.
//
//     config.json, generation_config.json   -> Config, flags          (config.c, positions.c)
//     chat_template.jinja, tokenizer_config.json -> the chat template
//     model.safetensors, or the shards of the index -> the plan       (safetensors.c)
//
// config.json comes first: the family decides which unknown tensors may be ignored. The tokenizer's
// own files are not read here; tokenizer/open.c opens them.
#include "base/bytes.h"
#include "base/json.h"
#include "weights/container.h"
#include "weights/hf/config.h"
#include "weights/hf/safetensors.h"
#include "weights/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char INDEX_NAME[] = "model.safetensors.index.json";
// An index has one member for each tensor. 32 MiB are 512 bytes a tensor at the limit of tensors.
static const JsonLimits INDEX_LIMITS = {.bytes = 32 << 20, .values = 2 * (size_t)LIMIT_TENSORS};
// tokenizer_config.json has seven values for each added token, of some 200 bytes.
static const JsonLimits TOKENIZER_LIMITS = {.bytes = 4 << 20, .values = 1 << 18, .large = true};

// One file of tensors, read but not yet in the plan.
typedef struct Shard {
    const char *name; // plain, in the directory
    Mapping *file;
    SafetensorsTensor *tensors;
    size_t count;
} Shard;

// ---- files of the directory ----

typedef struct Folder {
    Checkpoint *checkpoint;
    const char *directory; // "" or with the slash at its end
    HfFlags flags;         // of config.json, once it has been read
} Folder;

// The path itself if it is a directory, else the directory that contains it.
static bool folder_find(Folder *folder, Checkpoint *checkpoint, Error *error) {
    const char *path = checkpoint->path, *slash = strrchr(path, '/');
    bool is_file = checkpoint->files != NULL;
    size_t length = !is_file ? strlen(path) : slash ? (size_t)(slash - path) + 1 : 0;
    char *directory = arena_alloc(&checkpoint->arena, length + 2, 1, error);
    if (!directory) return false;
    memcpy(directory, path, length);
    if (length && directory[length - 1] != '/') directory[length] = '/';
    *folder = (Folder){.checkpoint = checkpoint, .directory = directory};
    return true;
}

// "directory/name", owned by the arena.
// NULL: exit code 5.
static char *folder_path(const Folder *folder, const char *name, Error *error) {
    size_t length = strlen(folder->directory), more = strlen(name);
    char *path = arena_alloc(&folder->checkpoint->arena, length + more + 1, 1, error);
    if (!path) return NULL;
    memcpy(path, folder->directory, length);
    memcpy(path + length, name, more);
    return path;
}

// False only where memory runs out; the answer is in *exists.
static bool file_exists(bool *exists, const Folder *folder, const char *name, Error *error) {
    const char *path = folder_path(folder, name, error);
    *exists = path && !file_is_absent(path);
    return path != NULL;
}

// The object in a JSON file, owned; NULL with a message that does not name the file.
// The text is a copy of the file, freed here: jansson's tree does not point into it.
static json_t *parse_file(const char *path, const JsonLimits *limits, Error *error) {
    FileCopy text;
    json_t *root = NULL;
    if (file_copy_open(&text, path, limits->bytes, error))
        root = json_parse((const char *)text.bytes, text.size, limits, error);
    file_copy_close(&text);
    if (!root || json_is_object(root)) return root;
    error_set(error, ERROR_FILE, "wanted an object, got %s", json_kind(root));
    json_decref(root);
    return NULL;
}

// The same, with the file's name in front of the message.
static json_t *read_json(const Folder *folder, const char *name, const JsonLimits *limits,
                         Error *error) {
    const char *path = folder_path(folder, name, error);
    if (!path) return NULL;
    if (file_is_absent(path)) {
        error_set(error, ERROR_FILE, "there is no %s beside the weights", name);
        return NULL;
    }
    Error cause = {0};
    json_t *root = parse_file(path, limits, &cause);
    if (!root) error_set(error, cause.code, "%s: %s", name, cause.message);
    return root;
}

// ---- config.json, generation_config.json ----

// Keys of limpid's own (`description`, ..., which convert writes), unknown to transformers. A value
// of another type was written by another program and is ignored.
static bool read_about(Checkpoint *checkpoint, const json_t *root, Error *error) {
    for (int i = 0; i < ABOUT_KEYS; i++) {
        const json_t *value = json_object_get(root, ABOUT_NAMES[i]);
        size_t length = json_string_length(value);
        if (!length) continue;
        const char *copy = arena_text(&checkpoint->arena, json_string_value(value), length, error);
        if (!copy) return false;
        checkpoint->about[i] = (TextSpan){copy, length};
    }
    return true;
}

// `text` is the object with the hyper-parameters: root, or text_config of a multimodal model.
static bool use_config(Folder *folder, const json_t *root, Error *error) {
    Checkpoint *checkpoint = folder->checkpoint;
    const json_t *text = NULL;
    const HfFamily *hf = hf_family_find(root, &text, error);
    if (!hf) return false;
    checkpoint->naming = NAMES_HF;
    checkpoint->family = family_find(NAMES_HF, hf->model_type, error);
    if (!checkpoint->family) return false;
    family_defaults(checkpoint->family, &checkpoint->config);
    if (!hf_config_read(&checkpoint->config, &folder->flags, root, &checkpoint->arena, error))
        return false;
    checkpoint->head_required = !folder->flags.tied;
    return read_about(checkpoint, root, error);
}

// config.json is required; generation_config.json adds sampling defaults and more ids that end a
// text.
static bool read_configs(Folder *folder, Error *error) {
    Checkpoint *checkpoint = folder->checkpoint;
    Error cause = {0};
    bool exists;
    json_t *root = read_json(folder, "config.json", &JSON_CONFIG_LIMITS, error);
    bool good = root && use_config(folder, root, &cause);
    json_decref(root);
    if (!good) return error_set(error, cause.code, "config.json: %s", cause.message);
    if (!file_exists(&exists, folder, "generation_config.json", error)) return false;
    if (!exists) return true;
    root = read_json(folder, "generation_config.json", &JSON_CONFIG_LIMITS, error);
    good = root && hf_generation_read(&checkpoint->config, &checkpoint->generation, root, &cause);
    json_decref(root);
    return good || error_set(error, cause.code, "generation_config.json: %s", cause.message);
}

bool config_json_read(Checkpoint *checkpoint, OutlineFlags *flags, Error *error) {
    Folder folder = {.checkpoint = checkpoint};
    json_t *root = parse_file(checkpoint->path, &JSON_CONFIG_LIMITS, error);
    bool good = root && use_config(&folder, root, error);
    json_decref(root);
    *flags = (OutlineFlags){folder.flags.tied, folder.flags.attention_biases == 4};
    return good;
}

// ---- the chat template ----

// Kept until the checkpoint closes.
static bool keep_template(Checkpoint *checkpoint, const char *text, size_t length, Error *error) {
    if (!length || length > LIMIT_TEMPLATE) return true; // it is only looked at
    const char *kept = arena_text(&checkpoint->arena, text, length, error);
    checkpoint->vocabulary.chat_template = (TextSpan){kept, length};
    return kept != NULL;
}

// "chat_template" of tokenizer_config.json: a text, or a list of named ones.
// NULL: there is none. Newer files have a list when a model has several templates, one for tools
// for instance; the default is the one for chats.
static const char *template_in(const json_t *root) {
    const json_t *value = json_object_get(root, "chat_template");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (name && !strcmp(name, "default"))
            return json_string_value(json_object_get(entry, "template"));
    }
    return json_string_value(value);
}

// True also where there is no such file.
static bool read_template_file(Folder *folder, Error *error) {
    static const char NAME[] = "chat_template.jinja";
    Error cause = {0};
    FileCopy file;
    const char *path = folder_path(folder, NAME, error);
    if (!path || file_is_absent(path)) return path;
    if (!file_copy_open(&file, path, LIMIT_TEMPLATE, &cause)) {
        error_prefix(&cause, NAME);
        return error_copy(error, &cause);
    }
    bool good = keep_template(folder->checkpoint, (const char *)file.bytes, file.size, error);
    file_copy_close(&file);
    return good;
}

// chat_template.jinja goes before tokenizer_config.json, as in transformers. A file without a
// template is none; one that cannot be read may have one, and another would be used in its place.
static bool read_template(Folder *folder, Error *error) {
    static const char NAME[] = "tokenizer_config.json";
    Checkpoint *checkpoint = folder->checkpoint;
    bool exists;
    if (!read_template_file(folder, error) || !file_exists(&exists, folder, NAME, error))
        return false;
    if (checkpoint->vocabulary.chat_template.length || !exists) return true;
    json_t *root = read_json(folder, NAME, &TOKENIZER_LIMITS, error);
    const char *text = template_in(root);
    bool good = root && (!text || keep_template(checkpoint, text, strlen(text), error));
    json_decref(root);
    return good;
}

// ---- shards ----

// A name that can only mean a file of this directory, and only a file of tensors.
// The index is untrusted: "../other/x.safetensors" would be a file outside the directory.
static bool shard_name_is_plain(const char *name) {
    static const char SUFFIX[] = ".safetensors";
    size_t length = strlen(name), suffix = sizeof SUFFIX - 1;
    return length > suffix && length < 256 && name[0] != '.' && !strchr(name, '/') &&
           !strcmp(name + length - suffix, SUFFIX);
}

// Sorted by name: for the different names here, for the search in check_index.
static int by_name(const void *a, const void *b) {
    return strcmp(((const Shard *)a)->name, ((const Shard *)b)->name);
}

// The different file names of the index, sorted.
// The names stay borrowed from the parsed index, which lives until all shards are read.
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
    if (!unique || unique > LIMIT_FILES)
        return error_set(error, ERROR_FILE, "%zu files of tensors, wanted 1 .. %d", unique,
                         LIMIT_FILES);
    *shards = list;
    *count = unique;
    return true;
}

// Every shard becomes one of the checkpoint's files, so that its pages are released and checked
// like those of a single file.
static bool map_shard(const Folder *folder, Shard *shard, Error *error) {
    const char *path = folder_path(folder, shard->name, error);
    if (!path) return false;
    if (file_is_absent(path))
        return error_set(error, ERROR_FILE, "there is no %.200s in this directory", shard->name);
    shard->file = container_map(folder->checkpoint, path, error);
    return shard->file != NULL;
}

// The header only. Sealed at once, since nothing but data of tensors is read later. A directory
// that git cloned without LFS has a pointer here.
static bool parse_shard(Checkpoint *checkpoint, Shard *shard, Error *error) {
    Error cause = {0};
    if (!safetensors_is_other(shard->file, &cause) &&
        safetensors_parse(&shard->tensors, &shard->count, bytes_of_file(shard->file, &cause),
                          &checkpoint->arena) &&
        mapping_seal(shard->file, &cause))
        return true;
    if (shard->name) error_prefix(&cause, shard->name);
    return error_copy(error, &cause);
}

// ---- the plan ----

// Buffers of other types that the family is known to have and not to need, such as GPT-2's causal
// mask as a table of BOOL, do not enter the plan.
static bool left_out(const Checkpoint *checkpoint, const SafetensorsTensor *tensor) {
    return tensor->type->dtype == DTYPE_COUNT &&
           tensor_name_ignored(checkpoint->family, NAMES_HF, tensor->plan.name);
}

// Counted first, so that the plan is allocated once. A tensor of a type without weights that the
// family does not list as unused is an error: it would be missing later.
static bool plan_shards(Checkpoint *checkpoint, const Shard *shards, size_t n_shards,
                        Error *error) {
    uint64_t total = 0;
    for (size_t i = 0; i < n_shards; i++)
        for (size_t j = 0; j < shards[i].count; j++)
            total += !left_out(checkpoint, &shards[i].tensors[j]);
    if (!plan_reserve(checkpoint, total, error)) return false;
    TensorPlan *plan = checkpoint->tensors;
    for (size_t i = 0; i < n_shards; i++) {
        for (size_t j = 0; j < shards[i].count; j++) {
            const SafetensorsTensor *tensor = &shards[i].tensors[j];
            if (left_out(checkpoint, tensor)) continue;
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

// Every tensor of the index is in the shard that the index names.
// Found by address: the tensor's data has to lie in the mapping of that shard. A name that is in
// another shard, or in none, means that index and shards are not of one model.
static bool check_index(const Checkpoint *checkpoint, const json_t *map, const Shard *shards,
                        size_t n_shards, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value) {
        Shard wanted = {.name = json_string_value(value)};
        const Shard *shard = bsearch(&wanted, shards, n_shards, sizeof *shards, by_name);
        int64_t item = names_find(&checkpoint->names, key);
        if (item < 0 && tensor_name_ignored(checkpoint->family, NAMES_HF, key)) continue;
        const uint8_t *at = item < 0 ? NULL : checkpoint->tensors[item].data;
        if (!at || at < shard->file->data || at > shard->file->data + shard->file->size)
            return error_set(error, ERROR_FILE, "tensor \"%.100s\" is not in %.100s", key,
                             wanted.name);
    }
    return true;
}

static bool read_sharded(const Folder *folder, const json_t *map, Error *error) {
    Shard *shards = NULL;
    size_t n_shards = 0;
    if (!map) return error_set(error, ERROR_FILE, "\"weight_map\" is missing");
    if (!list_shards(folder->checkpoint, map, &shards, &n_shards, error)) return false;
    uint64_t headers = 0; // bytes of all, which stay in memory
    for (size_t i = 0; i < n_shards; i++) {
        if (!map_shard(folder, &shards[i], error) ||
            !parse_shard(folder->checkpoint, &shards[i], error))
            return false;
        headers += load_u64(shards[i].file->data);
        if (headers > LIMIT_METADATA)
            return error_set(error, ERROR_FILE, "the headers of %zu shards have more than %d bytes",
                             i + 1, LIMIT_METADATA);
    }
    return plan_shards(folder->checkpoint, shards, n_shards, error) &&
           check_index(folder->checkpoint, map, shards, n_shards, error);
}

static bool read_index(const Folder *folder, Error *error) {
    const json_t *map = NULL;
    json_t *root = read_json(folder, INDEX_NAME, &INDEX_LIMITS, error);
    Error cause = {0};
    bool good = root && json_read_object(root, "weight_map", &map, &cause) &&
                read_sharded(folder, map, &cause);
    json_decref(root);
    return good || error_set(error, cause.code, "%s: %s", INDEX_NAME, cause.message);
}

// `name` is NULL where the path itself is the file: it is mapped already, and messages have its
// path in front.
static bool read_single(const Folder *folder, const char *name, Error *error) {
    Checkpoint *checkpoint = folder->checkpoint;
    Shard shard = {.name = name, .file = checkpoint->files};
    return (shard.file || map_shard(folder, &shard, error)) &&
           parse_shard(checkpoint, &shard, error) && plan_shards(checkpoint, &shard, 1, error);
}

// Biases are optional to the table of families, where GGUF files say nothing about them;
// config.json does say, and a missing or surplus one would silently be another model.
// Counted over all layers: 4, 3 or 0 in each (HfFlags).
static bool check_biases(const Folder *folder, Error *error) {
    const Checkpoint *checkpoint = folder->checkpoint;
    int wanted = folder->flags.attention_biases * checkpoint->config.n_layers, found = 0;
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        const char *name = checkpoint->tensors[i].name;
        const char *part = strstr(name, ".self_attn."), *end = strstr(name, "_proj.bias");
        found += part && end;
    }
    if (found == wanted) return true;
    return error_set(error, ERROR_FILE, "%d biases of attention matrices, config.json wants %d",
                     found, wanted);
}

// Why a file without config.json is no model. A file that is cut short has another fault than that,
// and a trace (docs/trace.md) is no model at all.
static bool explain_file(const Folder *folder, Error *error) {
    SafetensorsFile file;
    bool config;
    if (!file_exists(&config, folder, "config.json", error)) return false;
    if (config) return true;
    if (!safetensors_open(&file, folder->checkpoint->path, error)) return false;
    const SafetensorsTensor *ids = safetensors_find(&file, "input_ids");
    bool trace = ids && !strcmp(ids->type->name, "I64"); // view shows no other
    safetensors_close(&file);
    return !trace ||
           error_set(error, ERROR_FILE, "a trace of a run, not a model: `run view FILE` shows it");
}

// model.safetensors goes before an index, as in transformers' from_pretrained.
bool safetensors_read(Checkpoint *checkpoint, Error *error) {
    static const char SINGLE_NAME[] = "model.safetensors";
    Folder folder;
    bool single = true, sharded = false, is_file = checkpoint->files != NULL;
    checkpoint->container = CONTAINER_SAFETENSORS;
    snprintf(checkpoint->container_name, sizeof checkpoint->container_name, "safetensors");
    if (!folder_find(&folder, checkpoint, error) ||
        (!is_file && (!file_exists(&single, &folder, SINGLE_NAME, error) ||
                      !file_exists(&sharded, &folder, INDEX_NAME, error))))
        return false;
    if (!single && !sharded) {
        bool config;
        if (!file_exists(&config, &folder, "config.json", error)) return false;
        // Nothing of a model at all: the wrong path, not a bad model.
        return refuse_directory(checkpoint->path, config ? ERROR_FILE : ERROR_IO,
                                "model.safetensors, an index of its parts", error);
    }
    if (is_file && !explain_file(&folder, error)) return false;
    if (!read_configs(&folder, error) || !read_template(&folder, error)) return false;
    return (single ? read_single(&folder, is_file ? NULL : SINGLE_NAME, error)
                   : read_index(&folder, error)) &&
           check_biases(&folder, error);
}
