// The bytes that a fuzz target gives to its reader: the fuzzer's input, or a valid file changed as
// the input says. Changed files pass the first checks, which random bytes do not.
#pragma once

#include <stddef.h>
#include <stdint.h>

// malloced, *size bytes, so that AddressSanitizer sees a read past them. If the first byte of
// data[count] is odd: `base`, cut short if the second byte is odd, with one byte changed for every
// three that follow (offset low, offset high, value). Else: the input behind its first byte. NULL
// without memory.
uint8_t *fuzz_patched(size_t *size, const uint8_t *data, size_t count, const void *base,
                      size_t base_size);
