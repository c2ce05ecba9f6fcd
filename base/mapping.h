// Mapping: a file's bytes in memory, read-only. In a program that has called mapping_guard they
// survive the file being cut short.
//
// What another program writes to the file shows in the mapping at once. That is fine for weights;
// the front of a file, with all that is checked, is loaded first: copied from the file into memory
// that takes the place of these pages, so that every pointer stays what it was.
//
//     |0                  loaded|                                              size|
//     |  private copy, constant |  pages of the file                               |
#pragma once

#include "base/file_reader.h"

enum { MAPPING_FILES = 1024 }; // open at once: a model of LIMIT_FILES and its other files

typedef struct Mapping {
    const char *path; // borrowed
    const uint8_t *data;
    size_t size;
    size_t loaded;     // all of it where it is plain memory
    FileReader reader; // for mapping_load; closed by mapping_seal
    bool mapped;       // else plain memory, not a file
    int slot;          // in the table of the SIGBUS handler; -1: in none
    struct Mapping *next;
} Mapping;

// For a program, not a library: from now on a read past the new end of a file that was cut gives
// zeros. Installs a SIGBUS handler, once, for exactly the mappings made after it; any other fault
// is passed to the handler from before. Without it such a read raises SIGBUS, as with any mapping.
void mapping_guard(void);

// Maps a regular file whole. False: exit code 4 (cannot open, or not a regular file), 3 (empty), 5.
bool mapping_open(Mapping *mapping, const char *path, Error *error);
void mapping_close(Mapping *mapping);

// Plain memory, borrowed, in place of a file.
Mapping mapping_of_memory(const char *path, const void *bytes, size_t size);

// Loads at least the bytes in front of `end`, which is at most `size`. False: exit code 4 or 5, and
// the mapping can only be closed.
bool mapping_load(Mapping *mapping, size_t end, Error *error);

// All is loaded that has to be. False: exit code 4 where the file was written to since it was
// opened: what is loaded may be of two versions, or of another than the weights.
bool mapping_seal(Mapping *mapping, Error *error);

// A read past the file's new end has happened, and gave zeros: only after mapping_guard.
bool mapping_damaged(const Mapping *mapping);

// False: exit code 4 where the file at its path has been written to since it was opened, so that
// what was not loaded may be of two versions. One that has been replaced is whole, as the mapping
// is of the old one.
bool mapping_check(const Mapping *mapping, Error *error);

// Whether `path` is a directory; symbolic links are followed.
bool is_directory(const char *path);

// Tells the kernel that the pages wholly inside [data, data + bytes) are not needed now. (Those
// that are loaded stay.)
void mapping_drop(const Mapping *mapping, const void *data, size_t bytes);
