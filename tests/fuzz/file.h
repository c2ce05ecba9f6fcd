// Files without a name on any disk, for readers that take a path.
#pragma once

#include "base/mapping.h"

enum { FUZZ_FILES = 4 };

// The path of file `which` (0 .. FUZZ_FILES - 1), which from now on has these bytes. Borrowed; it
// stays the same for each `which`. Aborts where the machine has no such files.
const char *fuzz_file(int which, const void *bytes, size_t size);

// A safetensors file: `json` with its length in front, then `count` bytes of data, byte i with the
// value `fill`. Written to out[], which must hold it; returns its size.
size_t fuzz_safetensors(uint8_t *out, const char *json, size_t count, uint8_t fill);

// From now on AddressSanitizer sees a read behind the end of a mapped file too, up to the end of
// its page, which the kernel fills with zeros; and until fuzz_unguard, which goes before it is
// closed.
void fuzz_guard(const Mapping *mapping);
void fuzz_unguard(const Mapping *mapping);
