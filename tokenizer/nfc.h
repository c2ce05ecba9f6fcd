// Normalisation form C, in time O(n log n) whatever marks stand in a row.
#pragma once

#include "error.h"

#include <stdbool.h>
#include <stddef.h>

// The form C of valid UTF-8: *out is `text` itself where that is plainly in form C, else malloced.
// False: exit code 5.
bool nfc(char **out, size_t *out_length, const char *text, size_t length, Error *error);
