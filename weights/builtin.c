#include "weights/builtin.h"

extern const uint8_t builtin_begin[], builtin_end[]; // embedded.S

const uint8_t *builtin_bytes(size_t *size) {
    *size = (size_t)(builtin_end - builtin_begin);
    return builtin_begin;
}
