// FileReader: copies bytes of a regular file into memory of our own.
//
//     FileCopy copy;
//     if (!file_copy_open(&copy, path, LIMIT_METADATA, &error)) return error_prefix(&error, path);
//     ... copy.bytes, copy.size ...
//     file_copy_close(&copy);
//
// Another program may rewrite or cut a file at any moment, and a mapping shows that at once: also
// between a check and the use of what was checked. So metadata, vocabularies and JSON are copied
// first, then checked in the copy and used from the copy. Weights alone stay mapped
// (base/mapping.h), since every value is a weight.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct FileReader {
    int descriptor; // -1: closed
    size_t size;
    uint64_t modified; // when it was last written before it was opened, in nanoseconds
    uint64_t device, inode;
} FileReader;

// False: exit code 4 (cannot open, or not a regular file), 3 (empty); nothing is left to close.
bool file_reader_open(FileReader *file, const char *path, Error *error);

// Copies bytes [from, from + count), which are inside `size`, to out[count]. False: exit code 4
// where they cannot be read, or are no longer there.
bool file_reader_get(const FileReader *file, void *out, size_t from, size_t count, Error *error);

// False: exit code 4 where the file was written to or cut since it was opened, so that the copies
// may be of two versions. A closed one is fine.
bool file_reader_finish(FileReader *file, Error *error);
void file_reader_close(FileReader *file); // without that check

// Also of a closed one, opened at `path`. False: exit code 4 where that is still the same file and
// has been written to or cut since it was opened.
bool file_reader_check(const FileReader *file, const char *path, Error *error);

// Whether nothing has this name. A link that leads nowhere, or a file that may not be looked at, is
// there: opening it tells what is wrong, where taking another file in its place would not.
bool file_is_absent(const char *path);

// "cannot `what`: " and errno's text, without the file's name; exit code 4, or 5 of memory. False.
bool file_cannot(Error *error, const char *what);

// ---- a whole file ----

typedef struct FileCopy {
    uint8_t *bytes; // (size) owned
    size_t size;
} FileCopy;

// False: exit code 3 (empty, or larger than `limit`), 4 (as above) or 5; nothing is left to close.
bool file_copy_open(FileCopy *copy, const char *path, size_t limit, Error *error);
void file_copy_close(FileCopy *copy); // zeroed is fine
