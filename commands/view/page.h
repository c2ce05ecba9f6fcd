// Page: one HTML file of embedded assets, a JSON core and blocks of numbers. docs/page-format.md
// has the format; pictures/page.h the assets.
//
//     Page page = {0};
//     good = page_block(&page, "dla", values, count * sizeof *values, 4, &error) && ... &&
//            page_write(&page, &core, &out, &bytes, &error);
//     page_free(&page);
#pragma once

#include "base/buffer.h"
#include "base/file_writer.h"

// Of all blocks together: larger pages are slow to open in a browser.
static const uint64_t PAGE_BYTES = (uint64_t)64 << 20;

typedef struct Page {
    Buffer blocks; // as they stand in the file
} Page;            // zero it first

// Appends a block of little-endian numbers of `number` bytes (1, 2, 4 or 8), which divides `size`.
// It is compressed where that makes it smaller and the program has zlib. False: exit code 2 (more
// than PAGE_BYTES), 5, 130 (interrupted: it looks for that every few milliseconds).
bool page_block(Page *page, const char *name, const void *bytes, size_t size, int number,
                Error *error);

// Writes the page to its place, whole or not at all; *bytes: its size. `core` is a JSON text that
// may stand inside a <script>. False: exit code 2, 4 or 5.
bool page_write(const Page *page, const Buffer *core, const OutputFile *out, uint64_t *bytes,
                Error *error);
void page_free(Page *page);
