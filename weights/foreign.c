// What people pass by mistake in place of a model: files of other formats, which are recognised by
// their first bytes, and directories that hold several models or none.
#include "base/bytes.h"
#include "weights/container.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

// ---- files ----

// A longer magic stands before the shorter one that it begins with. Markup is compared without
// regard to case.
static const struct {
    const char *magic, *text;
    size_t at; // of the magic in the file
} KNOWN[] = {
    {"PK\x03\x04", "this is a zip archive (a PyTorch file?), not a model that limpid reads", 0},
    {"PK", "this is a zip archive, not a model that limpid reads", 0},
    {"\x1f\x8b", "this is gzip, not a model: unpack it first", 0},
    {"\xfd"
     "7zXZ",
     "this is xz, not a model: unpack it first", 0},
    {"BZh", "this is bzip2, not a model: unpack it first", 0},
    {"\x28\xb5\x2f\xfd", "this is zstd, not a model: unpack it first", 0},
    {"7z\xbc\xaf", "this is a 7z archive, not a model: unpack it first", 0},
    {"ustar", "this is a tar archive, not a model: unpack it first", 257},
    {"\x80\x02", "this is a Python pickle, which limpid does not read", 0},
    {"<!doctype", "this is an HTML page, not a model: the download failed", 0},
    {"<html", "this is an HTML page, not a model: the download failed", 0},
    {"\x89PNG", "this is a picture (PNG), not a model", 0},
    {"\xff\xd8\xff", "this is a picture (JPEG), not a model", 0},
    {"GIF8", "this is a picture (GIF), not a model", 0},
    {"RIFF", "this is a sound or a picture (RIFF), not a model", 0},
    {"%PDF", "this is a PDF document, not a model", 0},
    {"\x7f"
     "ELF",
     "this is a program, not a model", 0},
    {"\x89HDF", "this is HDF5 (a Keras model?), which limpid does not read", 0},
    {"TFL3", "this is a TensorFlow Lite model, which limpid does not read", 4},
    {"\x0a\x0e\x0a\x05<unk>", "this is a SentencePiece tokenizer, not a model: it goes with -z", 0},
    {"FUGG", "this is GGUF with its bytes swapped (big-endian), which limpid does not read", 0},
    {"gguf", "the magic is \"gguf\", wanted \"GGUF\"", 0},
    {"tjgg", "this is ggjt, the format before GGUF: convert it to GGUF", 0},
    {"ggjt", "this is ggjt, the format before GGUF: convert it to GGUF", 0},
    {"fmgg", "this is ggmf, a format before GGUF: convert it to GGUF", 0},
    {"lmgg", "this is ggml, a format before GGUF: convert it to GGUF", 0},
    {"{", "this is JSON, not a model: give the directory that it is in", 0},
};

// A protobuf of ONNX begins with field 1, its version, and field 2, the producer's name, or field
// 7, the graph.
static bool is_onnx(const uint8_t *data, size_t size) {
    return size > 4 && data[0] == 0x08 && data[1] && data[1] < 0x20 &&
           (data[2] == 0x12 || data[2] == 0x3a);
}

// What a download leaves that made room for a file and then failed.
static bool is_zeros(const uint8_t *data, size_t size) {
    size_t i = 0;
    while (i < size && !data[i])
        i++;
    return size && i == size;
}

// Every byte is one of UTF-8 that a text has. The last character may be cut.
static bool is_text(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    for (size_t i = 0, n; i < size; i += n) {
        uint32_t c = 0;
        n = utf8_decode(text + i, size - i, &c);
        if (!n) return i + 4 > size && i;
        if (c == 0x7f || (c < ' ' && !is_white_space(c))) return false;
    }
    return true;
}

bool is_foreign(const uint8_t *data, size_t size, const char *wanted, Error *error) {
    if (text_is_foreign(data, size, wanted, error)) return true;
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        size_t at = KNOWN[i].at, length = strlen(KNOWN[i].magic);
        bool letters = KNOWN[i].magic[0] == '<';
        if (size < at + length) continue;
        if (letters ? !strncasecmp((const char *)data, KNOWN[i].magic, length)
                    : !memcmp(data + at, KNOWN[i].magic, length))
            return !error_set(error, ERROR_FILE, "%s", KNOWN[i].text);
    }
    if (is_zeros(data, size))
        return !error_set(error, ERROR_FILE,
                          "its first %zu bytes are 0: not a model, or one that did not arrive",
                          size);
    if (is_onnx(data, size))
        return !error_set(error, ERROR_FILE, "this is an ONNX model, which limpid does not read");
    return is_text(data, size) && !error_set(error, ERROR_FILE, "this is a text, not a %s", wanted);
}

// ---- directories ----

enum { NAMES_SHOWN = 8, NAME_SIZE = 256 };

typedef struct Found {
    char names[NAMES_SHOWN][NAME_SIZE]; // the first in the order of the alphabet
    int count;                          // of all
    bool parts;                         // the index of a model in several files
} Found;

// A file of a model by its name, or a directory that holds one; `directory` is an open one.
static bool may_be_model(int directory, const char *name, bool safetensors) {
    static const char *const ENDS[] = {".gguf", ".bin", ".safetensors"};
    char path[NAME_SIZE + sizeof "/config.json"];
    struct stat status;
    if (*name == '.' || strstr(name, "-of-0")) return false; // a part of one
    for (int i = 0; i < 2 + safetensors; i++)
        if (ends_with(name, ENDS[i])) return strcmp(name, "tokenizer.bin") != 0;
    int length = snprintf(path, sizeof path, "%s/config.json", name);
    return length > 0 && length < (int)sizeof path && !fstatat(directory, path, &status, 0);
}

static void insert(Found *found, const char *name) {
    int at = found->count < NAMES_SHOWN ? found->count : NAMES_SHOWN;
    found->count++;
    for (; at && strcmp(name, found->names[at - 1]) < 0; at--)
        if (at < NAMES_SHOWN) memcpy(found->names[at], found->names[at - 1], NAME_SIZE);
    if (at < NAMES_SHOWN) snprintf(found->names[at], NAME_SIZE, "%s", name);
}

static void find_named(Found *found, const char *path, bool safetensors) {
    DIR *entries = opendir(path);
    found->parts = false;
    for (const struct dirent *e; entries && (e = readdir(entries));) {
        if (may_be_model(dirfd(entries), e->d_name, safetensors)) insert(found, e->d_name);
        found->parts |= ends_with(e->d_name, ".index.json");
    }
    if (entries) closedir(entries);
}

// A safetensors file is a model together with a config.json alone; beside other models it is a
// trace, logits, or a steering vector.
static void find_models(Found *found, const char *path) {
    found->count = 0;
    find_named(found, path, false);
    if (!found->count) find_named(found, path, true);
}

static bool is_file(const char *path) {
    struct stat status;
    return !stat(path, &status) && S_ISREG(status.st_mode);
}

bool only_model_in(const char **out, const char *path, Arena *arena, Error *error) {
    Found found;
    find_models(&found, path);
    *out = NULL;
    if (found.count != 1 || found.parts) return true;
    size_t length = strlen(path), size = length + NAME_SIZE + 2;
    char *joined = arena_alloc(arena, size, 1, error);
    if (!joined) return false;
    snprintf(joined, size, "%s%s%s", path, length && path[length - 1] == '/' ? "" : "/",
             found.names[0]);
    if (is_file(joined)) *out = joined;
    return true;
}

bool refuse_directory(const char *path, ErrorCode code, const char *wanted, Error *error) {
    Found found;
    find_models(&found, path);
    if (!found.count)
        return error_set(error, code, "a directory without %s or a GGUF file", wanted);
    char list[NAMES_SHOWN * 40] = "";
    size_t used = 0;
    for (int i = 0; i < found.count && i < NAMES_SHOWN && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 found.names[i]);
    if (found.count == 1)
        return error_set(error, ERROR_USAGE, "a directory; the model in it is %s", list);
    return error_set(error, ERROR_USAGE, "a directory with %d models, which one? %s%s", found.count,
                     list, found.count > NAMES_SHOWN ? ", ..." : "");
}
