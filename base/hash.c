// The process's key, and SipHash-1-3: one round for each word of 8 bytes, three at the end. Tables
// need resistance against chosen collisions, not against forgery, for which the paper has 2 and 4
// rounds.
#include "base/hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

// ---- the key ----

static HashKey process_key;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;

// Where the kernel has no random numbers yet: the clock, and where the system put this process.
static void make_key(void) {
    size_t size = sizeof process_key;
    if (getrandom(&process_key, size, GRND_NONBLOCK) == (ssize_t)size) return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t state = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 30 ^ (uint64_t)getpid() << 48 ^
                     (uint64_t)(uintptr_t)&now;
    for (size_t i = 0; i < sizeof process_key / sizeof *process_key.words; i++)
        process_key.words[i] = splitmix64(&state);
}

HashKey hash_key(void) {
    pthread_once(&key_made, make_key);
    return process_key;
}

// ---- FNV-1a in eight lanes ----

void fnv1a_lanes_begin(uint64_t lanes[8]) {
    for (size_t j = 0; j < 8; j++)
        lanes[j] = FNV_START + j; // else equal bytes would give equal lanes
}

void fnv1a_lanes(uint64_t lanes[8], const void *from, size_t count) {
    const uint8_t *bytes = from;
    size_t whole = count & ~(size_t)7;
    uint64_t h[8]; // in registers: `bytes` may alias `lanes`
    memcpy(h, lanes, sizeof h);
    for (size_t i = 0; i < whole; i += 8)
        for (size_t j = 0; j < 8; j++)
            h[j] = fnv1a(h[j], bytes + i + j, 1);
    for (size_t i = whole; i < count; i++)
        h[i - whole] = fnv1a(h[i - whole], bytes + i, 1);
    memcpy(lanes, h, sizeof h);
}

uint64_t fnv1a_lanes_end(const uint64_t lanes[8]) {
    return fnv1a(FNV_START, lanes, 8 * sizeof *lanes);
}

uint64_t fnv1a_wide(const void *bytes, size_t count) {
    uint64_t lanes[8];
    fnv1a_lanes_begin(lanes);
    fnv1a_lanes(lanes, bytes, count);
    return fnv1a_lanes_end(lanes);
}

// ---- SipHash-1-3 ----

typedef struct SipState {
    uint64_t v0, v1, v2, v3;
} SipState;

static inline uint64_t rotate(uint64_t word, unsigned bits) {
    return word << bits | word >> (64 - bits);
}

// One SipRound of the paper.
static inline SipState sip_round(SipState s) {
    s.v0 += s.v1;
    s.v2 += s.v3;
    s.v1 = rotate(s.v1, 13) ^ s.v0;
    s.v3 = rotate(s.v3, 16) ^ s.v2;
    s.v0 = rotate(s.v0, 32) + s.v3;
    s.v2 += s.v1;
    s.v3 = rotate(s.v3, 21) ^ s.v0;
    s.v1 = rotate(s.v1, 17) ^ s.v2;
    s.v2 = rotate(s.v2, 32);
    return s;
}

// The constants are the paper's: "somepseudorandomlygeneratedbytes".
static inline SipState sip_begin(const HashKey *key) {
    uint64_t k0 = key->words[0], k1 = key->words[1];
    return (SipState){k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                      k1 ^ 0x7465646279746573u};
}

static inline SipState sip_word(SipState s, uint64_t word) {
    s.v3 ^= word;
    s = sip_round(s);
    s.v0 ^= word;
    return s;
}

static inline uint64_t sip_end(SipState s) {
    s.v2 ^= 0xff;
    s = sip_round(sip_round(sip_round(s)));
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// memcpy, since the bytes have any alignment; compilers make one load of it.
static inline uint64_t load_word(const uint8_t *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

// The last 0 to 7 bytes, the first one lowest: two loads that overlap instead of a loop.
static inline uint64_t load_rest(const uint8_t *from, size_t count) {
    uint32_t low, high;
    if (count < 4) {
        size_t middle = count / 2;
        return !count ? 0
                      : from[0] | (uint64_t)from[middle] << 8 * middle |
                            (uint64_t)from[count - 1] << 8 * (count - 1);
    }
    memcpy(&low, from, sizeof low);
    memcpy(&high, from + count - 4, sizeof high);
    return low | (uint64_t)high << 8 * (count - 4);
}

uint64_t keyed_hash(const HashKey *key, const void *bytes, size_t count) {
    const uint8_t *from = bytes;
    SipState s = sip_begin(key);
    uint64_t last = (uint64_t)count << 56;
    // The last word has the rest of the bytes, and the length (mod 256) in its highest byte. Words
    // are in the machine's own order: the hash is never stored.
    for (; count >= 8; from += 8, count -= 8)
        s = sip_word(s, load_word(from));
    return sip_end(sip_word(s, last | load_rest(from, count)));
}
