// The twin of builtin.c for BUILTIN=0: a program without a model of its own.
#include "weights/builtin.h"

const uint8_t *builtin_bytes(size_t *size) {
    *size = 0;
    return NULL;
}
