#include "tests/support/changed_bytes.h"

#include "tests/test.h"

typedef struct Changing {
    TakesBytes *takes;
    uint8_t *file; // (size)
    size_t size, taken, refused;
} Changing;

// The `width` bytes at `at` become those of `value`, are read, and are put back.
static void check_changed(Changing *c, size_t at, uint64_t value, size_t width) {
    uint64_t old = 0;
    Error error = {0};
    memcpy(&old, c->file + at, width);
    memcpy(c->file + at, &value, width);
    bool same = !memcmp(&old, c->file + at, width), good = c->takes(c->file, c->size, &error);
    memcpy(c->file + at, &old, width);
    CHECK(good ? !error.code : error.code == ERROR_FILE && error.message[0],
          "%zu bytes at %zu are %#llx: exit code %d, %s", width, at, (unsigned long long)value,
          error.code, error.message);
    CHECK(good || !same, "as it was: %s", error.message);
    c->taken += good, c->refused += !good;
}

// Limits of signed and unsigned integers of 8, 16 and 32 bits and their neighbours, what wraps when
// it is multiplied by 4 or more, a not-a-number of float32.
static const uint32_t OF_4[] = {0,          1,          2,          0x7f,       0x80,
                                0xff,       0x100,      0x7fff,     0x8000,     0xffff,
                                0x10000,    0x3fffffff, 0x40000000, 0x7fc00000, 0x7fffffff,
                                0x80000000, 0xfffffffe, 0xffffffff};
// The same of 64 bits, and a not-a-number of float64.
static const uint64_t OF_8[] = {0,
                                1,
                                0x7fffffff,
                                0x80000000,
                                0xffffffff,
                                0x100000000,
                                0x100000001,
                                0x1fffffffffffffff,
                                0x2000000000000000,
                                0x4000000000000000,
                                0x7ff8000000000000,
                                0x7fffffffffffffff,
                                0x8000000000000000,
                                0xfffffffffffffff8,
                                0xffffffffffffffff};
enum { N_OF_4 = sizeof OF_4 / sizeof *OF_4, N_OF_8 = sizeof OF_8 / sizeof *OF_8 };

// `count` bytes of the file are changed.
static void check_numbers(Changing *c, size_t at, size_t count) {
    size_t left = c->size - at; // what a length from here on may be at most
    for (size_t i = 0; at + 4 <= count && i < N_OF_4; i++)
        check_changed(c, at, OF_4[i], 4);
    for (size_t i = 0; at + 8 <= count && i < N_OF_8; i++)
        check_changed(c, at, OF_8[i], 8);
    for (size_t i = 0; at + 8 <= count && i < 4; i++) {
        check_changed(c, at, left - i, 4);
        check_changed(c, at, left - 4 - i, 8);
    }
}

void check_changed_bytes(TakesBytes *takes, void *bytes, size_t size, size_t count,
                         const char *values, size_t n_values) {
    Changing c = {.takes = takes, .file = bytes, .size = size};
    if (!values) n_values = 256;
    for (size_t at = 0; at < count; at++) {
        for (size_t v = 0; v < n_values; v++)
            check_changed(&c, at, values ? (uint8_t)values[v] : v, 1);
        if (!values || at % 4 == 0) check_numbers(&c, at, count);
    }
    CHECK(c.taken && c.refused, "%zu taken, %zu refused", c.taken, c.refused);
}
