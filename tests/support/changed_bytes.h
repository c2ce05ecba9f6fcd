// A valid file with one byte or one number changed, again and again: a reader takes it or refuses
// it with exit code 3 and a message.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// Whether the reader takes bytes[size]; where it does not, *error, which is empty before, says why.
typedef bool TakesBytes(const void *bytes, size_t size, Error *error);

// Sets each of the first `count` bytes to each of values[n_values] (NULL: to all 256), one byte at
// a time, and puts it back; then each four and each eight bytes in a row among them, from any
// offset (with `values` from every fourth), to numbers at which lengths, counts and sums go wrong.
// Fails the test where a failure has no exit code 3 or a success has an error, where the file as it
// was is refused, and where the reader takes all changed files or none.
void check_changed_bytes(TakesBytes *takes, void *bytes, size_t size, size_t count,
                         const char *values, size_t n_values);
