#include "tests/fuzz/patch.h"

#include <stdlib.h>
#include <string.h>

uint8_t *fuzz_patched(size_t *size, const uint8_t *data, size_t count, const void *base,
                      size_t base_size) {
    if (count < 4 || !(data[0] & 1)) {
        *size = count ? count - 1 : 0;
        uint8_t *copy = malloc(*size + !*size);
        if (copy && *size) memcpy(copy, data + 1, *size);
        return copy;
    }
    *size = base_size - (data[1] & 1 ? (size_t)(data[1] >> 1) % base_size : 0);
    uint8_t *copy = malloc(*size);
    if (!copy) return NULL;
    memcpy(copy, base, *size);
    for (size_t i = 2; i + 3 <= count; i += 3)
        copy[(data[i] | (size_t)data[i + 1] << 8) % *size] = data[i + 2];
    return copy;
}
