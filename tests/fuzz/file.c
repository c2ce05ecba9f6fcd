#include "tests/fuzz/file.h"

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(int which, const void *bytes, size_t size) {
    static int files[FUZZ_FILES];
    static char paths[FUZZ_FILES][32];
    if (!files[which]) {
        files[which] = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(paths[which], sizeof paths[which], "/proc/self/fd/%d", files[which]);
    }
    if (files[which] < 0 || ftruncate(files[which], 0) ||
        pwrite(files[which], bytes, size, 0) != (ssize_t)size)
        abort();
    return paths[which];
}

size_t fuzz_safetensors(uint8_t *out, const char *json, size_t count, uint8_t fill) {
    uint64_t length = strlen(json);
    memcpy(out, &length, sizeof length);
    memcpy(out + 8, json, length);
    memset(out + 8 + length, fill, count);
    return 8 + length + count;
}

static size_t rest_of_page(const Mapping *mapping) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (page - mapping->size % page) % page;
}

void fuzz_guard(const Mapping *mapping) {
    ASAN_POISON_MEMORY_REGION(mapping->data + mapping->size, rest_of_page(mapping));
}

void fuzz_unguard(const Mapping *mapping) {
    ASAN_UNPOISON_MEMORY_REGION(mapping->data + mapping->size, rest_of_page(mapping));
}
