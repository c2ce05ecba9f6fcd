// Hash: two functions of 64 bits, in the same arithmetic on every machine.
//
//     uint64_t hash = fnv1a(FNV_START, bytes, count);   // more bytes: fnv1a(hash, ...)
//     uint64_t state = seed, random = splitmix64(&state);
#pragma once

#include <stddef.h>
#include <stdint.h>

static const uint64_t FNV_START = 0xcbf29ce484222325u;
enum { FNV_HEX = 17 }; // hexadecimal digits of a hash and the NUL

// FNV-1a by Fowler, Noll and Vo: xor a byte, then multiply.
static inline uint64_t fnv1a(uint64_t hash, const void *bytes, size_t count) {
    const uint8_t *byte = (const uint8_t *)bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

// SplitMix64 by Steele, Lea and Flood: the next random number. Any state is a seed.
static inline uint64_t splitmix64(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
