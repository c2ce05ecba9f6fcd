// Reads with pread from one descriptor that stays open: the path is resolved once, so that all
// bytes are of one file even if another takes its name. Sizes and times are looked at when it is
// opened and again by file_reader_finish.
#include "base/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_is_absent(const char *path) {
    struct stat status;
    return lstat(path, &status) && (errno == ENOENT || errno == ENOTDIR);
}

bool file_cannot(Error *error, const char *what) {
    ErrorCode code = errno == ENOMEM ? ERROR_MEMORY : ERROR_IO;
    return error_set(error, code, "cannot %s: %s", what, strerror(errno));
}

// Unsigned, since an archive may say any time.
static uint64_t time_modified(const struct stat *status) {
    return (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;
}

// Files of /proc are regular ones of size 0, and what is read of them is made at that moment.
static bool refuse_empty(const FileReader *file, Error *error) {
    char byte;
    ssize_t got = pread(file->descriptor, &byte, 1, 0);
    if (got < 0) return file_cannot(error, "read it");
    if (got) return error_set(error, ERROR_IO, "not a regular file: it has bytes and no size");
    return error_set(error, ERROR_FILE, "the file is empty");
}

static bool check_kind(FileReader *file, Error *error) {
    struct stat status;
    if (fstat(file->descriptor, &status)) return file_cannot(error, "look at it");
    if (!S_ISREG(status.st_mode)) return error_set(error, ERROR_IO, "not a regular file");
    if (status.st_size == 0) return refuse_empty(file, error);
    file->size = (size_t)status.st_size;
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->modified = time_modified(&status);
    return true;
}

bool file_reader_open(FileReader *file, const char *path, Error *error) {
    // O_NONBLOCK: opening a FIFO must not wait for a writer. O_NOCTTY: a terminal given by mistake
    // must not become the controlling one.
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *file = (FileReader){.descriptor = descriptor};
    if (descriptor < 0) return file_cannot(error, "open it");
    if (check_kind(file, error)) return true;
    file_reader_close(file);
    return false;
}

static bool cut_short(const FileReader *file, size_t left, Error *error) {
    return error_set(error, ERROR_IO,
                     "the file was cut short while it was read, to %zu of %zu bytes", left,
                     file->size);
}

bool file_reader_get(const FileReader *file, void *out, size_t from, size_t count, Error *error) {
    uint8_t *to = out;
    while (count) {
        ssize_t got = pread(file->descriptor, to, count, (off_t)from);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_cannot(error, "read it");
        if (got == 0) return cut_short(file, from, error);
        to += got;
        from += (size_t)got;
        count -= (size_t)got;
    }
    return true;
}

static bool check_same(const FileReader *file, const struct stat *now, Error *error) {
    if ((size_t)now->st_size < file->size) return cut_short(file, (size_t)now->st_size, error);
    return ((size_t)now->st_size == file->size && time_modified(now) == file->modified) ||
           error_set(error, ERROR_IO,
                     "the file was written to while it was read: try again once it is whole");
}

bool file_reader_finish(FileReader *file, Error *error) {
    struct stat status;
    if (file->descriptor < 0) return true;
    bool good = !fstat(file->descriptor, &status) ? check_same(file, &status, error)
                                                  : file_cannot(error, "look at it");
    file_reader_close(file);
    return good;
}

bool file_reader_check(const FileReader *file, const char *path, Error *error) {
    struct stat status;
    bool same =
        !stat(path, &status) && status.st_dev == file->device && status.st_ino == file->inode;
    return !same || check_same(file, &status, error);
}

void file_reader_close(FileReader *file) {
    if (file->descriptor >= 0) close(file->descriptor);
    file->descriptor = -1;
}

// The size is known before anything is allocated; the limit comes first.
static bool copy_all(FileCopy *copy, FileReader *file, size_t limit, Error *error) {
    if (file->size > limit)
        return error_set(error, ERROR_FILE, "a file of %zu bytes, at most %zu are read", file->size,
                         limit);
    copy->bytes = malloc(file->size);
    copy->size = file->size;
    if (!copy->bytes) return error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", file->size);
    return file_reader_get(file, copy->bytes, 0, file->size, error) &&
           file_reader_finish(file, error);
}

bool file_copy_open(FileCopy *copy, const char *path, size_t limit, Error *error) {
    FileReader file;
    *copy = (FileCopy){0};
    if (!file_reader_open(&file, path, error)) return false;
    bool good = copy_all(copy, &file, limit, error);
    file_reader_close(&file);
    if (!good) file_copy_close(copy);
    return good;
}

void file_copy_close(FileCopy *copy) {
    free(copy->bytes);
    *copy = (FileCopy){0};
}
