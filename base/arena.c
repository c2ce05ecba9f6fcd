// Small allocations share a block, a large one has its own; nothing ever moves.
#include "base/arena.h"
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, BLOCK_BYTES = 64 * 1024 };

typedef struct ArenaBlock {
    struct ArenaBlock *next;
    size_t used, size; // of bytes
    _Alignas(ALIGNMENT) uint8_t bytes[];
} ArenaBlock;

static ArenaBlock *block_new(size_t size) {
    ArenaBlock *block = NULL;
    size_t whole = offsetof(ArenaBlock, bytes) + size;
    if (posix_memalign((void **)&block, ALIGNMENT, whole)) return NULL;
    memset(block, 0, whole);
    block->size = size;
    return block;
}

void *arena_alloc(Arena *arena, uint64_t count, size_t size, Error *error) {
    uint64_t bytes;
    if (!mul_ok(count, size, &bytes) || !align_ok(bytes, ALIGNMENT, &bytes) ||
        bytes > SIZE_MAX / 2) {
        error_set(error, ERROR_MEMORY, "out of memory: %llu elements of %zu bytes",
                  (unsigned long long)count, size);
        return NULL;
    }
    ArenaBlock *block = arena->blocks;
    if (!block || bytes > block->size - block->used) {
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
