// SHA-256 (FIPS 180-4), to compare whole results with published sums.
#pragma once

#include <stddef.h>

// Writes the sum as 64 hex digits and a NUL.
void sha256_hex(char out[65], const void *bytes, size_t size);
