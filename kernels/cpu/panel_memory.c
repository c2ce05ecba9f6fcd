// Memory of packed panels: carved one after another out of large mappings with 2 MB pages.
//
// Reading weights is most of a token, and page size decides its speed: Zen 4 reads these panels at
// 21 GB/s through 4 KB pages and at 30 GB/s through 2 MB pages (its prefetchers stop at the end of
// a page). Matrices are smaller than such pages, so they share mappings; the last page of a mapping
// is all that is lost. Where the kernel has no large pages it gives small ones.
#include "base/arena.h"
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { CHUNK_BYTES = 64 << 20, FIRST_CHUNK_BYTES = 1 << 20 };

struct PanelChunk {
    PanelChunk *next;
    uint8_t *mapping, *memory; // memory: the part of the mapping that starts on a large page
    size_t mapping_bytes, bytes, used;
};

// The first chunk is small and has small pages, each later one is four times the one before: a tiny
// model asks for no more than it needs.
static PanelChunk *chunk_open(const Device *device, size_t bytes) {
    PanelChunk *chunk = calloc(1, sizeof *chunk);
    if (!chunk) return NULL;
    chunk->bytes = FIRST_CHUNK_BYTES;
    if (device->panel_chunks) chunk->bytes = 4 * device->panel_chunks->bytes;
    if (chunk->bytes > CHUNK_BYTES) chunk->bytes = CHUNK_BYTES;
    if (chunk->bytes < bytes) chunk->bytes = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    chunk->mapping_bytes = chunk->bytes + LARGE_PAGE;
    void *mapping = MAP_FAILED;
    if (chunk->mapping_bytes > chunk->bytes)
        mapping = mmap(NULL, chunk->mapping_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        free(chunk);
        return NULL;
    }
    chunk->mapping = mapping;
    chunk->memory = (uint8_t *)(((uintptr_t)mapping + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
    memory_large_pages(chunk->memory, chunk->bytes);
    return chunk;
}

static void chunk_close(PanelChunk *chunk) {
    munmap(chunk->mapping, chunk->mapping_bytes);
    free(chunk);
}

size_t panel_memory_needs(size_t bytes) {
    return bytes <= SIZE_MAX - 2 * LARGE_PAGE ? (bytes + 63) / 64 * 64 : SIZE_MAX;
}

void *panel_memory(Device *device, size_t bytes) {
    if (!device_ok(device)) return NULL;
    bytes = panel_memory_needs(bytes);
    PanelChunk *chunk = device->panel_chunks;
    if (!chunk || chunk->bytes - chunk->used < bytes) {
        chunk = bytes < SIZE_MAX ? chunk_open(device, bytes) : NULL;
        if (!chunk) {
            device_fail(device, ERROR_MEMORY, "no memory for %zu bytes of weights", bytes);
            return NULL;
        }
        chunk->next = device->panel_chunks;
        device->panel_chunks = chunk;
    }
    void *panels = chunk->memory + chunk->used;
    chunk->used += bytes;
    device->taken += bytes;
    device->packed += bytes;
    return panels;
}

void panel_memory_close(Device *device) {
    for (PanelChunk *chunk = device->panel_chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        chunk_close(chunk);
    }
    device->panel_chunks = NULL;
}
