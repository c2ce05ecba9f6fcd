// FileWriter: a file that appears whole or not at all.
//
//     FileWriter *file = file_writer_open(path, size, &error);
//     good = file && file_writer_put(file, offset, data, bytes, &error) && ... &&
//            file_writer_finish(file, &error);
//     file_writer_close(file);   // without finish nothing is left behind
//
// The bytes gather in a file without a name in the target's directory, which the kernel removes
// however the program ends; where the file system has no such thing, in one named ".limpid-...",
// which close removes. A target that is replaced keeps its old content until the rename.
#pragma once

#include "base/error.h"

#include <stdint.h>

typedef struct FileWriter FileWriter;

// Begins a file of `size` bytes and reserves space for it where the file system can. A symbolic
// link is followed. NULL: exit code 4 with the path in the message (no such directory, no space, or
// the path is something other than a regular file), or 5.
FileWriter *file_writer_open(const char *path, uint64_t size, Error *error);

// data[bytes] at `offset`, in any order, inside `size`. False: exit code 4.
bool file_writer_put(FileWriter *file, uint64_t offset, const void *data, uint64_t bytes,
                     Error *error);

// Syncs the file to disk and renames it to its path, replacing what was there. Bytes never put are
// zeros. False: exit code 4, and the target is as it was.
bool file_writer_finish(FileWriter *file, Error *error);

void file_writer_close(FileWriter *file);             // NULL is fine
const char *file_writer_path(const FileWriter *file); // as given to open
