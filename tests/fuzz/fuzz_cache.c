// generate --cache, chat --session: any file is read into a cache whole, or refused with one error.
// Exercises: commands/cache/cache_file.c model/kv_cache.c kernels/kv_shape.h kernels/reference/kv.c
// base/
#include "base/bytes.h"
#include "commands/cache/cache_file.h"
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

// Two layers of a head of four channels, a context of five.
static const int WINDOWS[] = {0, 2};
static const KvShape SHAPE = {2, 1, 1, 4, 5, KV_F16, WINDOWS, 1};
enum { VOCAB = 16, TOKENS = 4, HEADER_AT = 16 };
static const CacheKey KEY = {
    {"0.1.0", "cpu", "0123456789abcdef", "a16", "f16", "causal", "the model's own"}};

static Device *device;
static KvCache cache;
static uint8_t base[1024];
static size_t base_size;

// False: the file was refused, by one error.
static bool reads(const void *bytes, size_t size) {
    CacheFile file;
    Error error = {0};
    bool good = cache_file_open(&file, fuzz_file(0, bytes, size), &error);
    if (good) {
        if (file.cached < 0 || (size_t)file.cached > file.ids.count) abort();
        if (file.lowest < 0 || file.lowest > file.cached) abort();
        if (file.text.length > size) abort();
        int length = kv_cache_checkpoint(&cache, &(KvSnapshot){file.cached, file.lowest}, TOKENS);
        good = cache_file_restore(&file, &cache, VOCAB, length, &error);
        if (kv_cache_length(&cache, 0) != (good ? length : 0)) abort();
        for (size_t i = 0; good && file.cached && i < file.ids.count; i++)
            if (file.ids.ids[i] < 0 || file.ids.ids[i] >= VOCAB) abort();
    }
    if (good != !error.code || (!good && !error.message[0])) abort();
    cache_file_close(&file);
    return good;
}

// The checksum of the header is made right, or else hardly a change would get past it. The parts'
// are over it too, so that what is behind a changed header is seen as damaged.
static void make_right(uint8_t *file, size_t size) {
    if (size < HEADER_AT + 8) return;
    uint64_t header = load_u64(file + HEADER_AT);
    if (header < 8 || header > size) return;
    uint64_t checksum = fnv1a_wide(file, (size_t)header - 8);
    memcpy(file + header - 8, &checksum, sizeof checksum);
}

// Numbers of the prefix, the strings of the key, the ids, the text.
static bool walk(Layout *layout, const uint8_t *file, size_t size) {
    static const size_t NUMBERS[] = {8, 12, 16, 24, 32, 36, 40, 44, 48};
    size_t at = 48;
    if (size < 56 || memcmp(file, "limpidkv", 8) != 0) return false;
    for (int i = 0; i < 8; i++)
        layout_add(layout, (Span){NUMBERS[i], NUMBERS[i + 1], SPAN_NUMBER, 0, 0, 0});
    for (int i = 0; i < CACHE_KEYS && size - at >= 8; i++) {
        uint64_t length = load_u64(file + at);
        if (length > size - at - 8) break;
        layout_add(layout, (Span){at, at + 8 + length, SPAN_STRING, 0, 8, 0});
        at += 8 + length;
    }
    for (int i = 0; i < TOKENS && size - at >= 4; i++, at += 4)
        layout_add(layout, (Span){at, at + 4, SPAN_NUMBER, 0, 0, 0});
    layout->head = at;
    return true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    static const int32_t IDS[TOKENS] = {1, 5, 9, 3};
    char path[300];
    Error error = {0};
    device = device_open(1, PRECISION_A16);
    if (!device || !kv_cache_init(&cache, device, &SHAPE, &error)) abort();
    for (int i = 0; i < TOKENS; i++)
        kv_cache_write(&cache, 0, i);
    snprintf(path, sizeof path, "%s/base", fuzz_directory());
    CacheContent content = {.key = &KEY,
                            .ids = IDS,
                            .n_ids = TOKENS,
                            .cached = TOKENS - 1,
                            .text = {"text", 4},
                            .cache = &cache};
    FileCopy copy;
    if (!cache_file_write(&(OutputFile){.path = path, .force = true}, &content, &error) ||
        !file_copy_open(&copy, path, sizeof base, &error))
        abort();
    base_size = copy.size;
    memcpy(base, copy.bytes, copy.size);
    file_copy_close(&copy);
    unlink(path);
    if (!reads(base, base_size)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, walk, base, base_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *file = fuzz_patched(&size, data, count, base, base_size);
    if (!file) return 0;
    reads(file, size);
    make_right(file, size);
    reads(file, size);
    free(file);
    return 0;
}
