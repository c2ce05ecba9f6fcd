// Files without a name on any disk, for readers that take a path.
#pragma once

#include "base/mapping.h"

enum { FUZZ_FILES = 4 };

// The path of file `which` (0 .. FUZZ_FILES - 1), which from now on has these bytes. Borrowed; it
// stays the same for each `which`. Aborts where the machine has no such files.
const char *fuzz_file(int which, const void *bytes, size_t size);

// A directory of this process in $TMPDIR, or in /tmp, removed at exit with all that is in it. The
// same path in every call, borrowed. Aborts where none can be made.
const char *fuzz_directory(void);

// Removes what is in the directory `path`, links and not what they lead to.
void fuzz_clear(const char *path);

// A safetensors file: `json` with its length in front, then `count` bytes of data, byte i with the
// value `fill`. Written to out[], which must hold it; returns its size.
size_t fuzz_safetensors(uint8_t *out, const char *json, size_t count, uint8_t fill);

// The smallest llama2.c file of a version, 0 to 2, written to out[FUZZ_LLAMA2C]; returns its size.
// Four channels, one layer, one head, three tokens, a context of 2.
enum { FUZZ_LLAMA2C = 1024 };
size_t fuzz_llama2c(uint8_t *out, int version);

// From now on AddressSanitizer sees a read behind the end of a mapped file too, up to the end of
// its page, which the kernel fills with zeros; and until fuzz_unguard, which goes before it is
// closed.
void fuzz_guard(const Mapping *mapping);
void fuzz_unguard(const Mapping *mapping);
