// One open descriptor, and the steps from there to a name: sync the bytes, link, rename, sync the
// directory. The order is what makes a crash at any point leave the old file or the new one.
#include "base/file_writer.h"

#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct FileWriter {
    Arena arena;
    const char *path;   // as the user gave it, for messages
    const char *target; // with links followed
    int directory;      // where the target lies; -1: not open
    int descriptor;     // -1: not open
    bool unnamed;       // no name yet (O_TMPFILE)
    bool linked;        // `temporary` exists in the directory
    char temporary[40];
    const char *name; // of the target in the directory
    uint64_t size;
};

static bool fail(const FileWriter *file, Error *error, const char *what) {
    error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "cannot %s: %s", what,
              strerror(errno));
    return error_prefix(error, file->path);
}

// ---- opening ----

// Where the path leads, and the mode of the file that will be replaced (0: there is none).
static bool resolve(FileWriter *file, mode_t *mode, Error *error) {
    struct stat status;
    file->target = file->path;
    if (lstat(file->path, &status)) return errno == ENOENT || fail(file, error, "look at it");
    if (S_ISLNK(status.st_mode)) {
        char *whole = realpath(file->path, NULL);
        if (!whole) return fail(file, error, "follow the link");
        file->target = arena_text(&file->arena, whole, strlen(whole), error);
        free(whole);
        if (!file->target) return false;
        if (stat(file->target, &status)) return fail(file, error, "look at it");
    }
    *mode = status.st_mode & 0777;
    if (S_ISREG(status.st_mode)) return true;
    error_set(error, ERROR_IO, "%s, not a file to write to",
              S_ISDIR(status.st_mode) ? "is a directory" : "is a device, a pipe or a socket");
    return error_prefix(error, file->path);
}

static bool open_directory(FileWriter *file, Error *error) {
    const char *slash = strrchr(file->target, '/');
    size_t length = slash ? (size_t)(slash - file->target) : 0;
    const char *directory = !slash ? "." : length ? file->target : "/";
    if (slash && length) directory = arena_text(&file->arena, file->target, length, error);
    if (!directory) return false;
    file->name = slash ? slash + 1 : file->target;
    if (!*file->name)
        errno = *file->target ? EISDIR : ENOENT;
    else
        file->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file->directory >= 0 || fail(file, error, "write there");
}

// Takes a file name that is not in use yet (O_EXCL). link: gives it to a file opened without a
// name.
static bool take_name(FileWriter *file, bool link, Error *error) {
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", file->descriptor);
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(file->temporary, sizeof file->temporary, ".limpid-%ld-%d", (long)getpid(),
                 attempt);
        if (link) {
            file->linked =
                !linkat(AT_FDCWD, self, file->directory, file->temporary, AT_SYMLINK_FOLLOW);
        } else {
            file->descriptor = openat(file->directory, file->temporary,
                                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            file->linked = file->descriptor >= 0;
        }
        if (file->linked) return true;
        if (errno != EEXIST) break;
    }
    return fail(file, error, "write there");
}

// Without /proc a file without a name could never be given one.
static bool open_descriptor(FileWriter *file, Error *error) {
    if (!access("/proc/self/fd", X_OK))
        file->descriptor = openat(file->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    file->unnamed = file->descriptor >= 0;
    return file->unnamed || take_name(file, false, error);
}

// Where the file system cannot reserve space, a full disk is only found when writing.
static bool reserve(FileWriter *file, Error *error) {
    int failed;
    if (file->size > INT64_MAX) {
        errno = EFBIG;
        return fail(file, error, "write it");
    }
    if (!file->size) return true;
    do
        failed = fallocate(file->descriptor, 0, 0, (off_t)file->size);
    while (failed && errno == EINTR);
    if (failed && (errno == EOPNOTSUPP || errno == ENOSYS))
        failed = ftruncate(file->descriptor, (off_t)file->size);
    if (!failed) return true;
    error_set(error, ERROR_IO, "cannot take %llu bytes on the disk: %s",
              (unsigned long long)file->size, strerror(errno));
    return error_prefix(error, file->path);
}

FileWriter *file_writer_open(const char *path, uint64_t size, Error *error) {
    FileWriter *file = calloc(1, sizeof *file);
    if (!file) {
        error_set(error, ERROR_MEMORY, "out of memory: %zu bytes", sizeof *file);
        return NULL;
    }
    mode_t mode = 0;
    file->directory = file->descriptor = -1;
    file->size = size;
    file->path = arena_text(&file->arena, path, strlen(path), error);
    bool good = file->path && resolve(file, &mode, error) && open_directory(file, error) &&
                open_descriptor(file, error) && reserve(file, error);
    // The new file is as open to others as the one it replaces; not being allowed to say so is no
    // reason to fail.
    if (good && mode && fchmod(file->descriptor, mode)) errno = 0;
    if (good) return file;
    file_writer_close(file);
    return NULL;
}

// ---- writing ----

bool file_writer_put(FileWriter *file, uint64_t offset, const void *data, uint64_t bytes,
                     Error *error) {
    const char *at = data;
    if (offset > file->size || bytes > file->size - offset) {
        errno = EFBIG;
        return fail(file, error, "write behind the end");
    }
    while (bytes) {
        size_t piece = bytes < SSIZE_MAX ? (size_t)bytes : SSIZE_MAX;
        ssize_t written = pwrite(file->descriptor, at, piece, (off_t)offset);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = ENOSPC;
        if (written <= 0) return fail(file, error, "write it");
        at += written;
        offset += (uint64_t)written;
        bytes -= (uint64_t)written;
    }
    return true;
}

// On NFS, close may be the first call to report a failed write, so its result is checked.
static bool close_descriptor(FileWriter *file, Error *error) {
    int failed = close(file->descriptor);
    file->descriptor = -1;
    return !failed || errno == EINTR || fail(file, error, "write it");
}

bool file_writer_finish(FileWriter *file, Error *error) {
    if (fsync(file->descriptor)) return fail(file, error, "write it to the disk");
    if (file->unnamed && !take_name(file, true, error)) return false;
    if (!close_descriptor(file, error)) return false;
    if (renameat(file->directory, file->temporary, file->directory, file->name))
        return fail(file, error, "put it in its place");
    file->linked = false;
    // The name is there; file systems that cannot sync a directory do not need it.
    return !fsync(file->directory) || errno == EINVAL || errno == EROFS ||
           fail(file, error, "write the directory to the disk");
}

void file_writer_close(FileWriter *file) {
    if (!file) return;
    if (file->descriptor >= 0) close(file->descriptor);
    if (file->linked) unlinkat(file->directory, file->temporary, 0);
    if (file->directory >= 0) close(file->directory);
    arena_free(&file->arena);
    free(file);
}

const char *file_writer_path(const FileWriter *file) {
    return file->path;
}
