// Mapping: a file's bytes in memory, read-only, that survive the file being cut short.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAPPING_FILES = 1024 }; // open at once: a model of LIMIT_FILES and its other files

typedef struct Mapping {
    const char *path; // borrowed
    const uint8_t *data;
    size_t size;
    int slot; // in the table of the SIGBUS handler; -1: plain memory, not a file
    struct Mapping *next;
} Mapping;

// Maps a regular file whole. False: exit code 4 (cannot open, or not a regular file), 3 (empty), 5.
bool mapping_open(Mapping *mapping, const char *path, Error *error);
void mapping_close(Mapping *mapping);

// A read past the file's new end has happened: it gave zeros instead of a signal.
bool mapping_damaged(const Mapping *mapping);

// Whether `path` is a directory; symbolic links are followed.
bool is_directory(const char *path);

// Tells the kernel that the pages wholly inside [data, data + bytes) are not needed now.
void mapping_drop(const Mapping *mapping, const void *data, size_t bytes);
