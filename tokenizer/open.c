// Opens a tokenizer: from a path, where the content of the file decides which format it has, or
// from the vocabulary of a GGUF. Paths come from the caller only, never from a file's content.
//
//     file        first bytes decide: JSON, tiktoken text, .model, tokenizer.bin
//     directory   the first of tokenizer.json, tokenizer.model, tokenizer.bin, vocab.json
//     no path     the vocabulary inside the model file
//
// A directory prefers tokenizer.json, which has what the others leave out: added tokens, BOS.
#include "base/mapping.h" // is_directory
#include "tokenizer/bpe/byte_bpe.h"
#include "tokenizer/bpe/spm.h"
#include "tokenizer/internal.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The file at hand, and where it came from.
typedef struct TokenizerFile {
    const char *path;
    FileCopy copy;
} TokenizerFile;

static bool open_with_merges(Tokenizer *t, TextSpan json, const char *path,
                             const char *pretokenizer, Error *error) {
    FileCopy beside;
    if (!file_copy_open(&beside, path, LIMIT_METADATA, error)) return error_prefix(error, path);
    TextSpan merges = {(const char *)beside.bytes, beside.size};
    bool good = true;
    uint64_t digests[] = {t->file_digest, fnv1a_wide(beside.bytes, beside.size)};
    t->file_digest = fnv1a(FNV_START, digests, sizeof digests);
    if (text_is_foreign(beside.bytes, beside.size, "list of merges", error))
        good = error_prefix(error, path);
    good = good && tokenizer_json_open(t, json, merges, pretokenizer, error);
    file_copy_close(&beside);
    return good;
}

// merges.txt is read wherever it is in the same directory; tokenizer_json.c uses it for vocab.json
// only.
static bool open_json(Tokenizer *t, const TokenizerSource *source, const TokenizerFile *file,
                      Error *error) {
    TextSpan json = {(const char *)file->copy.bytes, file->copy.size};
    char *path = path_beside(file->path, "merges.txt", error);
    if (!path) return false;
    bool good = file_is_absent(path)
                    ? tokenizer_json_open(t, json, (TextSpan){NULL, 0}, source->pretokenizer, error)
                    : open_with_merges(t, json, path, source->pretokenizer, error);
    free(path);
    return good;
}

// A NUL byte is in no set, although strchr finds the end of the string.
static bool is_one_of(uint8_t byte, const char *characters) {
    return byte && strchr(characters, byte);
}

// A line such as "IQ== 0": base64, a space, a digit.
static bool looks_like_tiktoken(const uint8_t *b, size_t size) {
    size_t i = 0;
    while (i < size && (isalnum(b[i]) || is_one_of(b[i], "+/=")))
        i++;
    return i && i + 1 < size && b[i] == ' ' && isdigit(b[i + 1]);
}

// First bytes: JSON has '{'. A .model is protobuf: 0x0a (field 1, a piece), its length, 0x0a (field
// 1 of the piece). A tokenizer.bin has the length of its longest token, uint32 little-endian, below
// 2^24. Where its first byte is 0x0a, bytes 2 and 3 are 0, which no .model has: 0 is no field.
//
// tokenizer.bin has no magic and goes last: its length's top byte is 0, b[3] here.
static bool open_bytes(Tokenizer *t, const TokenizerSource *source, const TokenizerFile *file,
                       Error *error) {
    const uint8_t *b = file->copy.bytes;
    size_t size = file->copy.size, blank = 0;
    t->file_digest = fnv1a_wide(b, size);
    if (text_is_foreign(b, size, "tokenizer", error)) return false;
    while (blank < size && is_one_of(b[blank], " \t\r\n"))
        blank++;
    // A NUL is in no JSON: then '{' is the first byte of a length, such as 123.
    if (blank < size && b[blank] == '{' && (size < 4 || b[3]))
        return open_json(t, source, file, error);
    if (looks_like_tiktoken(b, size))
        return tiktoken_open(t, (TextSpan){(const char *)b, size}, source->pretokenizer, error);
    if (size >= 4 && !memcmp(b, "GGUF", 4))
        return error_set(error, ERROR_FILE,
                         "this is a GGUF, not a tokenizer file (open it as a model)");
    if (b[0] == 0x0a && size >= 3 && (b[2] || size == 3 || b[3]))
        return sentencepiece_open(t, b, size, error);
    if (size >= 4 && !b[3]) return tokenizer_bin_open(t, b, size, source->vocab_size, error);
    return error_set(error, ERROR_FILE,
                     "unknown tokenizer format (known: .model, tokenizer.bin, tokenizer.json, "
                     "vocab.json with merges.txt, tiktoken text)");
}

static bool open_file(Tokenizer *t, const TokenizerSource *source, const char *path, Error *error) {
    TokenizerFile file = {.path = path};
    bool good = file_copy_open(&file.copy, path, LIMIT_METADATA, error) &&
                open_bytes(t, source, &file, error);
    file_copy_close(&file.copy);
    return good || error_prefix(error, path);
}

static const char *const NAMES[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin",
                                    "vocab.json"};

// Writes the path of the first of NAMES[first ..] that is in the directory to path[room] and
// returns its index; -1: none is.
static int find_candidate(char *path, size_t room, const char *directory, int first) {
    for (int i = first; i < (int)(sizeof NAMES / sizeof *NAMES); i++) {
        snprintf(path, room, "%s/%s", directory, NAMES[i]);
        if (!file_is_absent(path)) return i;
    }
    return -1;
}

static bool open_directory(Tokenizer *t, const TokenizerSource *source, char *path, size_t room,
                           Error *error) {
    Error failure = {0};
    int found = find_candidate(path, room, source->path, 0);
    if (found < 0) {
        error_set(error, ERROR_FILE,
                  "no tokenizer.json, tokenizer.model, tokenizer.bin or vocab.json in this "
                  "directory");
        return error_prefix(error, source->path);
    }
    if (open_file(t, source, path, &failure)) return true;
    // Two tokenizer files of one model may differ, so the user has to choose the other one.
    int next = find_candidate(path, room, source->path, found + 1);
    // Memory and reading errors are not about the format: the other file would not help.
    if (failure.code != ERROR_FILE || next < 0) return error_copy(error, &failure);
    return error_set(error, ERROR_FILE, "%s; use -z to choose the %s in the same directory",
                     failure.message, NAMES[next]);
}

static bool open_path(Tokenizer *t, const TokenizerSource *source, Error *error) {
    if (!is_directory(source->path)) return open_file(t, source, source->path, error);
    size_t room = strlen(source->path) + sizeof "/tokenizer.model"; // the longest of NAMES
    char *path = malloc(room);
    if (!path) return error_set(error, ERROR_MEMORY, "out of memory for a path");
    bool good = open_directory(t, source, path, room, error);
    free(path);
    return good;
}

// ---- a vocabulary inside a model file ----

// A GGUF names two algorithms; T5's and BERT's are refused when the model file is read.
static bool open_vocabulary(Tokenizer *t, const TokenizerSource *source, Error *error) {
    const Vocabulary *v = source->vocabulary;
    if (!v || !v->model) return error_set(error, ERROR_FILE, "the file has no tokenizer");
    t->source = v;
    if (!strcmp(v->model, "llama")) return spm_bpe_open_vocabulary(t, v, error);
    if (!strcmp(v->model, "gpt2"))
        return byte_bpe_open_vocabulary(t, v, source->pretokenizer, error);
    char shown[64];
    return error_set(error, ERROR_FILE, "tokenizer.ggml.model: unknown \"%s\" (known: llama, gpt2)",
                     escape_bytes(shown, sizeof shown, v->model, strlen(v->model)));
}

Tokenizer *tokenizer_open(const TokenizerSource *source, Error *error) {
    Tokenizer *t = tokenizer_new(error);
    if (!t) return NULL;
    bool good = source->path ? open_path(t, source, error) : open_vocabulary(t, source, error);
    if (good) return t;
    tokenizer_close(t);
    return NULL;
}
