// The mutators that know a format, as a library that afl-fuzz loads beside its own mutations
// (AFL_CUSTOM_MUTATOR_LIBRARY). One library a target: the target's LLVMFuzzerCustomMutator, with
// what it calls. The target itself runs in another process.
#include "base/hash.h"

#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 8192 }; // as -max_len of libFuzzer in scripts/fuzz

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// What afl-fuzz looks up by name; all else is hidden (-fvisibility=hidden).
#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *afl_custom_init(void *afl, unsigned seed);
EXPORTED size_t afl_custom_fuzz(void *context, uint8_t *data, size_t size, uint8_t **out,
                                uint8_t *other, size_t other_size, size_t room);
EXPORTED void afl_custom_deinit(void *context);

typedef struct Shim {
    uint64_t random; // state
    uint8_t bytes[MOST_BYTES];
} Shim;

static Shim shim;

static size_t below(size_t n) {
    return (size_t)(splitmix64(&shim.random) % n);
}

// In libFuzzer's place: a mutator calls it for the text of a string, or for what it does not
// understand. A byte changes, a range goes, or a range is written twice.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room) {
    static const uint8_t BYTES[] = {0, 1, 27, ' ', '"', '/', '\\', '{', 127, 128, 0xc3, 0xff};
    if (!size) return size;
    size_t at = below(size), n = 1 + below(size - at < 16 ? size - at : 16);
    switch (below(4)) {
    case 0: data[at] ^= (uint8_t)(1u << below(8)); break;
    case 1: data[at] = BYTES[below(sizeof BYTES)]; break;
    case 2:
        if (n == size) break;
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    default:
        if (n > room - size) break;
        memmove(data + at + n, data + at, size - at);
        return size + n;
    }
    return size;
}

void *afl_custom_init(void *afl, unsigned seed) {
    static char name[] = "fuzz", *words[] = {name, NULL}, **argv = words;
    int argc = 1, position = optind; // afl-fuzz has not looked at all of its words yet
    (void)afl;
    shim.random = seed;
    if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
    optind = position;
    return &shim;
}

// The new input is borrowed until the next call.
size_t afl_custom_fuzz(void *context, uint8_t *data, size_t size, uint8_t **out, uint8_t *other,
                       size_t other_size, size_t room) {
    (void)context, (void)other, (void)other_size;
    if (room > MOST_BYTES) room = MOST_BYTES;
    if (size > room) size = room;
    memcpy(shim.bytes, data, size);
    *out = shim.bytes;
    return LLVMFuzzerCustomMutator(shim.bytes, size, room, (unsigned)splitmix64(&shim.random));
}

void afl_custom_deinit(void *context) {
    (void)context;
}
