#include "tests/support/changed_bytes.h"

#include "tests/test.h"

void check_changed_bytes(TakesBytes *takes, void *bytes, size_t size, size_t count,
                         const char *values, size_t n_values) {
    uint8_t *file = bytes;
    size_t taken = 0, refused = 0;
    if (!values) n_values = 256;
    for (size_t at = 0; at < count; at++) {
        uint8_t old = file[at];
        for (size_t v = 0; v < n_values; v++) {
            Error error = {0};
            file[at] = (uint8_t)(values ? values[v] : (char)v);
            bool good = takes(file, size, &error);
            CHECK(good ? !error.code : error.code == ERROR_FILE && error.message[0],
                  "byte %zu is %d: exit code %d, %s", at, file[at], error.code, error.message);
            CHECK(good || file[at] != old, "as it was: %s", error.message);
            taken += good, refused += !good;
        }
        file[at] = old;
    }
    CHECK(taken && refused, "%zu taken, %zu refused", taken, refused);
}
