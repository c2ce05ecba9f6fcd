#include "tests/fuzz/file.h"

#include <ftw.h>
#include <limits.h>
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

// ---- the directory ----

static char directory[PATH_MAX];
static pid_t owner; // AFL++ forks processes that use it and end before this one

static int remove_below(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)status;
    if (at->level) (kind == FTW_DP ? rmdir : unlink)(path);
    return 0;
}

void fuzz_clear(const char *path) {
    nftw(path, remove_below, 8, FTW_DEPTH | FTW_PHYS);
}

static void remove_directory(void) {
    if (getpid() != owner) return;
    fuzz_clear(directory);
    rmdir(directory);
}

const char *fuzz_directory(void) {
    const char *parent = getenv("TMPDIR");
    if (*directory) return directory;
    snprintf(directory, sizeof directory, "%s/limpid-fuzz-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(directory)) abort();
    owner = getpid();
    atexit(remove_directory);
    return directory;
}

size_t fuzz_safetensors(uint8_t *out, const char *json, size_t count, uint8_t fill) {
    uint64_t length = strlen(json);
    memcpy(out, &length, sizeof length);
    memcpy(out + 8, json, length);
    memset(out + 8 + length, fill, count);
    return 8 + length + count;
}

// 12 floats of embedding, 12 of norms, 112 of matrices, in v0 8 of freq_cis; v2 in groups of 2.
size_t fuzz_llama2c(uint8_t *out, int version) {
    static const int32_t SHAPE[7] = {4, 4, 1, 1, 1, 3, 2};
    static const size_t SIZES[3] = {28 + 4 * 144, 256 + 4 * 136, 256 + 4 * 12 + 124 + 4 * 62};
    memset(out, 1, SIZES[version]);
    memcpy(out + (version ? 8 : 0), SHAPE, sizeof SHAPE);
    if (version) {
        memcpy(out, "24ka\0\0\0\0", 8);
        out[4] = (uint8_t)version;
        out[36] = 1;
        memcpy(out + 37, "\2\0\0\0", 4);
    }
    return SIZES[version];
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
