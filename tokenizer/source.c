// The path of a tokenizer: a directory's candidates, the file's bytes, and the kind that its first
// bytes show. No path is ever taken out of a file.
#include "tokenizer/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIMIT_FILE_BYTES = 256 << 20 };

typedef struct FileText {
    char *bytes; // owned, size bytes and a NUL
    size_t size;
} FileText;

static bool read_all(int fd, FileText *file, Error *error) {
    struct stat status;
    if (fstat(fd, &status)) return error_set(error, ERROR_IO, "cannot read: %s", strerror(errno));
    if (!S_ISREG(status.st_mode)) return error_set(error, ERROR_FILE, "not a regular file");
    if (status.st_size > LIMIT_FILE_BYTES)
        return error_set(error, ERROR_FILE, "a tokenizer of %lld bytes (at most %d)",
                         (long long)status.st_size, LIMIT_FILE_BYTES);
    size_t wanted = (size_t)status.st_size;
    file->bytes = malloc(wanted + 1);
    if (!file->bytes) return error_set(error, ERROR_MEMORY, "out of memory for %zu bytes", wanted);
    while (file->size < wanted) {
        ssize_t got = read(fd, file->bytes + file->size, wanted - file->size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return error_set(error, ERROR_IO, "cannot read: %s", strerror(errno));
        if (!got) break; // cut short meanwhile: what is there is what is judged
        file->size += (size_t)got;
    }
    file->bytes[file->size] = '\0';
    return true;
}

static bool read_file(const char *path, FileText *file, Error *error) {
    *file = (FileText){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(error, ERROR_IO, "cannot open: %s", strerror(errno));
    bool good = read_all(fd, file, error);
    close(fd);
    if (good) return true;
    free(file->bytes);
    *file = (FileText){0};
    return false;
}

// A JSON text is a whole tokenizer.json, or the vocab.json of a pair: only the first has "model"
// among its keys, but a vocabulary may hold that word too, so the file beside it decides.
static bool merges_beside(const char *path, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    size_t directory = slash ? (size_t)(slash - path) + 1 : 0;
    if (strcmp(path + directory, "tokenizer.json") == 0) return false;
    if (directory + sizeof "merges.txt" > size) return false;
    memcpy(out, path, directory);
    memcpy(out + directory, "merges.txt", sizeof "merges.txt");
    return access(out, F_OK) == 0;
}

static bool open_json(Tokenizer *t, const TokenizerSource *source, const char *path,
                      const FileText *file, Error *error) {
    char merges_path[PATH_MAX];
    if (!merges_beside(path, merges_path, sizeof merges_path))
        return tokenizer_json_open(t, file->bytes, file->size, source->pretokenizer, error);
    FileText merges;
    if (!read_file(merges_path, &merges, error)) return error_prefix(error, merges_path);
    bool good = vocab_merges_open(t, file->bytes, file->size, merges.bytes, merges.size,
                                  source->pretokenizer, error);
    free(merges.bytes);
    return good;
}

// "IQ== 0": base64, a space, a digit.
static bool looks_like_tiktoken(const FileText *file) {
    size_t i = 0;
    while (i < file->size && (isalnum((unsigned char)file->bytes[i]) ||
                              strchr("+/=", file->bytes[i] ? file->bytes[i] : ' ')))
        i++;
    return i && i + 1 < file->size && file->bytes[i] == ' ' &&
           isdigit((unsigned char)file->bytes[i + 1]);
}

// A .model is protobuf and begins with its first piece: field 1, a length, and inside field 1
// again. A tokenizer.bin begins with the length of its longest token, four bytes, little-endian.
static bool open_bytes(Tokenizer *t, const TokenizerSource *source, const char *path,
                       const FileText *file, Error *error) {
    const uint8_t *b = (const uint8_t *)file->bytes;
    if (!file->size) return error_set(error, ERROR_FILE, "empty, so it is no tokenizer");
    size_t blank = 0;
    while (blank < file->size && strchr(" \t\r\n", b[blank] ? b[blank] : 'x'))
        blank++;
    if (b[blank] == '{') return open_json(t, source, path, file, error);
    if (looks_like_tiktoken(file))
        return tiktoken_open(t, file->bytes, file->size, source->pretokenizer, error);
    if (file->size >= 4 && !memcmp(b, "GGUF", 4))
        return error_set(error, ERROR_FILE, "a GGUF is no tokenizer file (open it as a model)");
    if (b[0] == 0x0a && file->size >= 3 && (b[1] || b[2]))
        return sentencepiece_open(t, b, file->size, error);
    if (file->size >= 4 && !b[3])
        return spm_bpe_open_bin(t, b, file->size, source->vocab_size, error);
    return error_set(error, ERROR_FILE,
                     "no known tokenizer (wanted .model, tokenizer.bin, tokenizer.json, vocab.json "
                     "with merges.txt, or tiktoken text)");
}

static bool open_file(Tokenizer *t, const TokenizerSource *source, const char *path, Error *error) {
    FileText file;
    bool good = read_file(path, &file, error) && open_bytes(t, source, path, &file, error);
    free(file.bytes);
    return good ? true : error_prefix(error, path);
}

bool tokenizer_open_path(Tokenizer *t, const TokenizerSource *source, Error *error) {
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin",
                                        "vocab.json"};
    struct stat status;
    if (stat(source->path, &status) || !S_ISDIR(status.st_mode))
        return open_file(t, source, source->path, error);
    char path[PATH_MAX];
    size_t length = strlen(source->path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (length + 1 + strlen(names[i]) >= sizeof path) break;
        memcpy(path, source->path, length);
        path[length] = '/';
        memcpy(path + length + 1, names[i], strlen(names[i]) + 1);
        if (!access(path, F_OK)) return open_file(t, source, path, error);
    }
    error_set(error, ERROR_FILE,
              "no tokenizer.json, tokenizer.model, tokenizer.bin or vocab.json in this directory");
    return error_prefix(error, source->path);
}
