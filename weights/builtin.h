// The model that lies inside the program: the bytes of weights/builtin.gguf, put there by
// embedded.S. checkpoint_open reads it under the name "builtin"; a file of that name is ./builtin.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BUILTIN_NAME "builtin"

// NULL and size 0 in a program built with BUILTIN=0.
const uint8_t *builtin_bytes(size_t *size);

static inline bool builtin_is_meant(const char *path) {
    return !strcmp(path, BUILTIN_NAME);
}
