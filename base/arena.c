// Small allocations share a block, a large one has its own; nothing ever moves, so pointers stay
// valid until arena_free.
//
//   block of 64 KiB (open)  -> block of its own  -> block of its own  -> earlier 64 KiB block
//   [ a | b | c |   free  ]    [ large        ]
//
// A block is "open" while it is first in the list; what is left of it when the next one is opened
// (at most a quarter) is not used again.
//
// AddressSanitizer sees each allocation by itself, as it sees those of malloc: what is behind its
// last byte is poisoned, at least RED_ZONE bytes, and so is the free part of a block.
#include "base/arena.h"
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
enum { ALIGNMENT = 64, BLOCK_BYTES = 4 * 1024, RED_ZONE = 64 };
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
enum { ALIGNMENT = 64, BLOCK_BYTES = 64 * 1024, RED_ZONE = 0 };
#endif

typedef struct ArenaBlock {
    struct ArenaBlock *next;
    size_t used, size; // of bytes
    uint8_t *bytes;    // aligned
} ArenaBlock;

void memory_large_pages(void *memory, size_t bytes) {
    uintptr_t at = (uintptr_t)memory, end = (at + bytes) / LARGE_PAGE * LARGE_PAGE;
    at = (at + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (at < end) madvise((void *)at, end - at, MADV_HUGEPAGE);
}

// A large block comes from the kernel, as zeros: calloc does not touch it.
static ArenaBlock *block_new(size_t size) {
    ArenaBlock *block = calloc(1, sizeof *block + ALIGNMENT + size);
    if (!block) return NULL;
    uintptr_t behind = (uintptr_t)(block + 1);
    block->bytes = (uint8_t *)((behind + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    block->size = size;
    ASAN_POISON_MEMORY_REGION(block->bytes, size);
    if (size >= LARGE_PAGE) memory_large_pages(block, sizeof *block + ALIGNMENT + size);
    return block;
}

void *arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error) {
    uint64_t asked, bytes;
    if (!mul_ok(count, size, &asked) || !align_ok(asked, ALIGNMENT, &bytes) ||
        bytes > SIZE_MAX / 2) {
        error_set(error, ERROR_MEMORY, "out of memory: %llu elements of %zu bytes",
                  (unsigned long long)count, size);
        return NULL;
    }
    bytes += RED_ZONE;
    ArenaBlock *block = arena->blocks;
    if (!block || bytes > block->size - block->used) {
        // Above a quarter of a block an allocation would waste too much of a shared one.
        bool own = bytes > BLOCK_BYTES / 4;
        block = block_new(own ? (size_t)bytes : BLOCK_BYTES);
        if (!block) {
            error_set(error, ERROR_MEMORY, "out of memory: %llu bytes", (unsigned long long)bytes);
            return NULL;
        }
        // A full block goes behind the open one, which still has room for small allocations.
        ArenaBlock **place = own && arena->blocks ? &arena->blocks->next : &arena->blocks;
        block->next = *place;
        *place = block;
    }
    void *at = block->bytes + block->used;
    block->used += (size_t)bytes;
    ASAN_UNPOISON_MEMORY_REGION(at, (size_t)asked);
    return at;
}

char *arena_text(Arena *arena, const void *bytes, size_t length, Error *error) {
    char *text = arena_alloc(arena, (uint64_t)length + 1, 1, error);
    if (text && length) memcpy(text, bytes, length);
    return text;
}

void arena_free(Arena *arena) {
    while (arena->blocks) {
        ArenaBlock *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
