#include "commands/convert/files.h"
#include "base/buffer.h"
#include "base/file_writer.h"
#include "base/mapping.h"
#include "commands/shared/output.h"
#include "tokenizer/tokenizer.h"
#include "weights/out/outgoing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef char PathText[4096];

static bool join(PathText out, const char *directory, const char *name, Error *error) {
    if (snprintf(out, sizeof(PathText), "%s%s", directory, name) < (int)sizeof(PathText))
        return true;
    return error_set(error, ERROR_USAGE, "a path of more than %zu bytes", sizeof(PathText) - 1);
}

// Files of a model's directory besides the tensors. config.json is always written, the others are
// copied where they exist.
static const char *const FILES[] = {
    "config.json",       "generation_config.json", "tokenizer.json",
    "tokenizer.model",   "tokenizer_config.json",  "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",    "vocab.json",
    "merges.txt"};
enum { N_FILES = sizeof FILES / sizeof *FILES };

// ---- the paths of the output ----

bool out_place_find(OutPlace *place, const char *path, Error *error) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    *place = (OutPlace){.kind = OUT_DIRECTORY};
    if (!*path) return error_set(error, ERROR_USAGE, "the output has no name");
    if (is_directory(path) || path[strlen(path) - 1] == '/')
        return join(place->directory, path, path[strlen(path) - 1] == '/' ? "" : "/", error) &&
               join(place->tensors, place->directory, "model.safetensors", error);
    if (ends_with(path, ".gguf") || ends_with(path, ".safetensors")) {
        place->kind = ends_with(path, ".gguf") ? OUT_GGUF : OUT_FILE;
        if (length >= sizeof place->directory) length = 0; // then join refuses the path
        memcpy(place->directory, path, length);
        return join(place->tensors, path, "", error);
    }
    static const char *const OTHERS[] = {".bin", ".model", ".json", ".pt", ".pth"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (ends_with(path, OTHERS[i]))
            return error_set(error, ERROR_USAGE,
                             "%.200s: convert writes .gguf, .safetensors, and directories with "
                             "model.safetensors, no %s",
                             path, OTHERS[i]);
    return join(place->directory, path, "/", error) &&
           join(place->tensors, place->directory, "model.safetensors", error);
}

// ---- checks before anything is written ----

// The directory that the model was read from.
static void source_directory(PathText out, const Session *s) {
    const char *path = checkpoint_path(s->checkpoint), *slash = strrchr(path, '/');
    if (is_directory(path))
        snprintf(out, sizeof(PathText), "%s/", path);
    else
        snprintf(out, sizeof(PathText), "%.*s", slash ? (int)(slash - path + 1) : 0, path);
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return !stat(*a ? a : ".", &x) && !stat(*b ? b : ".", &y) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static bool refuse_existing(const char *path, Error *error) {
    return error_set(error, ERROR_USAGE, "%.300s is there already; --force replaces it", path);
}

// Whether `path` is an input file, links followed.
static bool is_input(const Session *s, const char *path) {
    const char *tokenizer = s->options->tokenizer;
    return checkpoint_reads(s->checkpoint, path) || (tokenizer && same_file(tokenizer, path));
}

static bool refuse_input(const char *path, Error *error) {
    return error_set(error, ERROR_USAGE, "%.300s is what is converted: give another output", path);
}

// No output file may replace a file in the directory of the model.
static bool check_files(const OutPlace *place, const Session *s, Error *error) {
    PathText source, from, to;
    source_directory(source, s);
    for (int i = 0; i < N_FILES; i++) {
        if (!join(from, source, FILES[i], error) || !join(to, place->directory, FILES[i], error))
            return false;
        if (is_input(s, to) || same_file(from, to)) return refuse_input(to, error);
    }
    return !same_file(place->directory, source) ||
           error_set(
               error, ERROR_USAGE,
               "the output's config.json would be written beside %.200s: give another directory",
               checkpoint_path(s->checkpoint));
}

bool out_place_check(const OutPlace *place, const Session *s, bool force, Error *error) {
    PathText config;
    struct stat status;
    bool gguf = place->kind == OUT_GGUF;
    if (is_input(s, place->tensors)) return refuse_input(place->tensors, error);
    if (!gguf && !check_files(place, s, error)) return false;
    if (!join(config, place->directory, FILES[0], error)) return false;
    if (!force && !lstat(place->tensors, &status)) return refuse_existing(place->tensors, error);
    if (!force && !gguf && !lstat(config, &status)) return refuse_existing(config, error);
    return true;
}

// ---- files of a directory ----

static bool write_file(const OutPlace *place, const char *name, const void *bytes, size_t size,
                       Error *error) {
    PathText path;
    if (!join(path, place->directory, name, error)) return false;
    FileWriter *file = file_writer_open(path, size, error);
    bool good =
        file && file_writer_put(file, 0, bytes, size, error) && file_writer_finish(file, error);
    file_writer_close(file);
    return good;
}

static bool write_buffer(const OutPlace *place, const char *name, Buffer *buffer, bool good,
                         Error *error) {
    if (buffer->failed) good = error_set(error, ERROR_MEMORY, "out of memory for %s", name);
    good = good && write_file(place, name, buffer->bytes, buffer->size, error);
    buffer_free(buffer);
    return good;
}

// Copies directory/name if it exists.
static bool copy_file(const OutPlace *place, const char *directory, const char *name,
                      Error *error) {
    PathText path;
    Mapping file;
    if (!join(path, directory, name, error)) return false;
    if (access(path, F_OK)) return true;
    if (!mapping_open(&file, path, error)) return error_prefix(error, path);
    bool good = write_file(place, name, file.data, file.size, error);
    if (good && mapping_damaged(&file))
        good = error_set(error, ERROR_IO, "%.300s: the file was cut short while in use", path);
    mapping_close(&file);
    return good;
}

static bool make_directory(const OutPlace *place, Error *error) {
    if (place->kind != OUT_DIRECTORY || !mkdir(place->directory, 0777) || errno == EEXIST)
        return true;
    return error_set(error, ERROR_IO, "%.300s: cannot make the directory: %s", place->directory,
                     strerror(errno));
}

// Writes the vocabulary in the file format of its tokenizer kind.
static bool write_vocabulary(const OutPlace *place, const Vocabulary *v, Error *error) {
    TextSpan text = v->chat_template;
    Buffer bytes = {0};
    const char *name = NULL;
    if (text.length && !write_file(place, "chat_template.jinja", text.text, text.length, error))
        return false;
    if (!v->model) return true;
    vocabulary_write_config(&bytes, v);
    if (!write_buffer(place, "tokenizer_config.json", &bytes, true, error)) return false;
    bool good = vocabulary_write(&bytes, v, &name, error);
    return write_buffer(place, name, &bytes, good, error);
}

static bool copy_files(const OutPlace *place, const Session *s, Error *error) {
    PathText source;
    source_directory(source, s);
    for (int i = 1; i < N_FILES; i++)
        if (!copy_file(place, source, FILES[i], error)) return false;
    return true;
}

bool out_place_fill(const OutPlace *place, const Session *s, const Outgoing *out,
                    const Vocabulary *vocabulary, Error *error) {
    Buffer json = {0};
    bool good = hf_config_write(&json, out, error) && make_directory(place, error);
    good = write_buffer(place, "config.json", &json, good, error);
    if (!vocabulary) return good && copy_files(place, s, error);
    hf_generation_write(&json, s->checkpoint);
    return write_buffer(place, "generation_config.json", &json, good, error) &&
           write_vocabulary(place, vocabulary, error);
}
