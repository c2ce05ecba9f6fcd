// Hash: checksums, random numbers, and keyed hashes for tables.
//
//     uint64_t hash = fnv1a(FNV_START, bytes, count);   // more bytes: fnv1a(hash, ...)
//     uint64_t state = seed, random = splitmix64(&state);
//     size_t bucket = keyed_hash(&key, text, length) & (n_buckets - 1);
//
// The first two give the same numbers on every machine.
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

// FNV-1a waits for a multiplication after every byte. Eight hashes, one for each byte of a word, do
// not wait for each other, and are faster than a disk: of bytes in memory, and of bytes in pieces
// whose lengths, but for the last, are part of what is hashed.
uint64_t fnv1a_wide(const void *bytes, size_t count);
void fnv1a_lanes_begin(uint64_t lanes[8]);
void fnv1a_lanes(uint64_t lanes[8], const void *bytes, size_t count);
uint64_t fnv1a_lanes_end(const uint64_t lanes[8]);

// SplitMix64 by Steele, Lea and Flood: the next random number. Any state is a seed.
static inline uint64_t splitmix64(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// ---- SHA-256: sha256.c ----

enum { SHA256_HEX = 65 }; // hexadecimal digits of a sum and the NUL

// What sha256sum prints for these bytes, to compare with published sums.
void sha256_hex(char out[SHA256_HEX], const void *bytes, size_t size);

// ---- keyed hashes, for tables over what comes from files and prompts ----
//
// Without the key, which every process chooses at random, nobody can write a file whose entries
// collide. The order of a table differs from run to run, and nothing may depend on it.

typedef struct HashKey {
    uint64_t words[3]; // the first two are SipHash's
} HashKey;

// The key of this process, from the kernel's random numbers. Any thread.
HashKey hash_key(void);

// Of bytes: SipHash-1-3 by Aumasson and Bernstein ("SipHash: a fast short-input PRF", 2012).
uint64_t keyed_hash(const HashKey *key, const void *bytes, size_t count);

// Of a pair of numbers, 32 bits of hash: the strongly universal (k0 + a) (k1 + b) + k2 of Thorup
// ("High speed hashing for integers and strings", 2015). Two pairs collide in n buckets with
// probability 1 / n, whoever chose them. BPE looks up every pair of neighbours, so it costs one
// multiplication.
static inline uint32_t keyed_hash_pair(const HashKey *key, uint32_t a, uint32_t b) {
    const uint64_t *k = key->words;
    return (uint32_t)(((k[0] + a) * (k[1] + b) + k[2]) >> 32);
}
