// A growing list that is searched from front to back: a run reads few files.
#include "base/file_set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

// Twice is no harm: members are only looked up. False: exit code 5.
static bool add(FileSet *set, const struct stat *status, Error *error) {
    if (set->count == set->room) {
        size_t room = set->room ? 2 * set->room : 16;
        FileIdentity *grown = realloc(set->files, room * sizeof *grown);
        if (!grown) return error_set(error, ERROR_MEMORY, "out of memory for %zu files", room);
        set->files = grown;
        set->room = room;
    }
    set->files[set->count++] = (FileIdentity){status->st_dev, status->st_ino};
    return true;
}

// A file that cannot be looked at cannot be told from others either.
static bool unknown(const char *path, Error *error) {
    if (errno == ENOENT || errno == ENOTDIR) return true;
    error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "cannot look at it: %s",
              strerror(errno));
    return error_prefix(error, path);
}

bool file_set_add(FileSet *set, const char *path, Error *error) {
    struct stat status;
    return stat(path, &status) ? unknown(path, error) : add(set, &status, error);
}

bool file_set_add_open(FileSet *set, int descriptor, Error *error) {
    struct stat status;
    return fstat(descriptor, &status) || add(set, &status, error);
}

bool file_set_add_entries(FileSet *set, const char *directory, Error *error) {
    struct stat status;
    bool good = true;
    DIR *entries = opendir(directory);
    if (!entries) return unknown(directory, error);
    for (struct dirent *e; good && (errno = 0, e = readdir(entries));)
        good = fstatat(dirfd(entries), e->d_name, &status, 0) ? unknown(e->d_name, error)
               : S_ISDIR(status.st_mode)                      ? true
                                                              : add(set, &status, error);
    if (good && errno) good = unknown(directory, error);
    closedir(entries);
    return good;
}

bool file_set_has(const FileSet *set, const struct stat *status) {
    for (size_t i = 0; set && i < set->count; i++)
        if (set->files[i].device == status->st_dev && set->files[i].inode == status->st_ino)
            return true;
    return false;
}

void file_set_free(FileSet *set) {
    free(set->files);
    *set = (FileSet){0};
}

bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

// ---- a file that one run at a time has open ----

bool locked_file_is_at(const char *path, int descriptor) {
    struct stat mine, named;
    return !fstat(descriptor, &mine) && !stat(path, &named) && same_file(&mine, &named);
}

bool locked_file_open(const char *path, int flags, bool may_be_there, int *descriptor, bool *made,
                      Error *error) {
    flags |= O_CREAT | O_CLOEXEC;
    // Again where the path has come to lead to another file before this one was locked.
    for (int attempt = 0; attempt < 100; attempt++) {
        int file = open(path, flags | O_EXCL, 0666);
        *made = file >= 0;
        if (file < 0 && errno == EEXIST && may_be_there) file = open(path, flags, 0666);
        *descriptor = file;
        if (file < 0)
            return error_set(error, errno == ENOMEM ? ERROR_MEMORY : ERROR_IO, "%s: %s", path,
                             strerror(errno));
        bool taken = flock(file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
        if (!taken && locked_file_is_at(path, file)) return true;
        close(file);
        *descriptor = -1;
        *made = false; // it is that run's
        if (taken) return error_set(error, ERROR_IO, "%s: another run has it open", path);
    }
    return error_set(error, ERROR_IO, "%s: other runs replace it", path);
}
