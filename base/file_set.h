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

// ---- a file that one run at a time has open ----

// It is locked (flock) until its descriptor is closed or the process ends. A file system without
// locks is as good.
//
// Opens the file with these flags of open(2), O_CREAT and O_CLOEXEC added, and locks it. *made: it
// was not there, and is empty. Without `may_be_there` a file that was there is an error. The file
// is the one that the path leads to when this returns. False: exit code 4 (among others, another
// run has it open) or 5; *descriptor is -1, and nothing of ours is left.
bool locked_file_open(const char *path, int flags, bool may_be_there, int *descriptor, bool *made,
                      Error *error);
// Whether the path still leads to the file of the descriptor.
bool locked_file_is_at(const char *path, int descriptor);
