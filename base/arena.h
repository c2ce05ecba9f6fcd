// Arena: memory of one checkpoint, allocated in parts and freed at once.
#pragma once

#include "base/error.h"

#include <stdint.h>

typedef struct Arena {
    struct ArenaBlock *blocks; // newest first
} Arena;                       // zero it first

// Room for `count` elements of `size` bytes, zeroed, 64-byte aligned, owned by the arena; never
// NULL for count 0. NULL with exit code 5.
void *arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error);
// A NUL-terminated copy of `length` bytes.
char *arena_text(Arena *arena, const void *bytes, size_t length, Error *error);
void arena_free(Arena *arena);
