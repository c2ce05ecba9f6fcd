// FileSet: files by what they are (device and inode), not by what they are called: a hard link, a
// symbolic link or another path leads to the same member.
//
//     FileSet inputs = {0};
//     good = file_set_add(&inputs, "model.gguf", &error) && ...
//     file_set_has(&inputs, &status) ...
//     file_set_free(&inputs);
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <sys/stat.h>

typedef struct FileIdentity {
    dev_t device;
    ino_t inode;
} FileIdentity;

typedef struct FileSet { // zero it first
    FileIdentity *files; // (room) owned
    size_t count, room;
} FileSet;

// Adds the file that `path` leads to, or that a descriptor has open; one that is not there adds
// nothing. False: exit code 4 where it cannot be looked at, or 5.
bool file_set_add(FileSet *set, const char *path, Error *error);
bool file_set_add_open(FileSet *set, int descriptor, Error *error);
// Adds everything inside a directory, not what is inside its directories. False: as above.
bool file_set_add_entries(FileSet *set, const char *directory, Error *error);

bool file_set_has(const FileSet *set, const struct stat *status); // of NULL: false
void file_set_free(FileSet *set);
bool same_file(const struct stat *a, const struct stat *b);
