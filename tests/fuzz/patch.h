// What a fuzz target gives to its reader: the input as it stands, or a valid file with the changes
// that the input spells, so that a short run without a corpus goes past the first checks.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The bytes to read, malloced, *size of them; the block ends where they end. An odd first byte of
// data[count]: `base` with one byte changed for every three that follow (offset, offset, value),
// and cut short where the second byte is odd; else the rest of the input. NULL without memory.
uint8_t *fuzz_patched(size_t *size, const uint8_t *data, size_t count, const void *base,
                      size_t base_size);
