// SHA-256 (FIPS 180-4), to hold whole results against published sums.
#pragma once

#include <stddef.h>

// Writes the sum as 64 hex digits and a NUL.
void sha256_hex(char out[65], const void *bytes, size_t size);
