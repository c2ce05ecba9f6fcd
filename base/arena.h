// Arena: memory of one checkpoint, allocated in parts and freed at once. Large pages.
#pragma once

#include "base/error.h"

#include <stdint.h>

typedef struct Arena {
    struct ArenaBlock *blocks; // newest first
} Arena;                       // zero it first

// Room for `count` elements of `size` bytes, zeroed, 64-byte aligned, owned by the arena; never
// NULL for count 0. NULL with exit code 5. There is no free of a single allocation.
void *arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error);
// A NUL-terminated copy of `length` bytes.
char *arena_text(Arena *arena, const void *bytes, size_t length, Error *error);
void arena_free(Arena *arena);

// ---- large pages: to get a page from the kernel takes as long as to fill a small one ----

enum { LARGE_PAGE = 2 << 20 };

// Asks for large pages wherever whole ones fit into memory that nothing was written to yet. A
// kernel that has none gives small ones.
void memory_large_pages(void *memory, size_t bytes);
