// Hash: FNV-1a, 64 bits, by Fowler, Noll and Vo: xor a byte, then multiply.
//
//     uint64_t hash = fnv1a(FNV_START, bytes, count);   // more bytes: fnv1a(hash, ...)
#pragma once

#include <stddef.h>
#include <stdint.h>

static const uint64_t FNV_START = 0xcbf29ce484222325u;
enum { FNV_HEX = 17 }; // hexadecimal digits of a hash and the NUL

static inline uint64_t fnv1a(uint64_t hash, const void *bytes, size_t count) {
    const uint8_t *byte = (const uint8_t *)bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}
