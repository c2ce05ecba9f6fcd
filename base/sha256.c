// SHA-256 as FIPS 180-4 defines it.
#include "base/hash.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

// The constants are the first 32 bits of the fractions of roots of the first 64 primes.
static void constants(uint32_t k[64], uint32_t h[8]) {
    for (int n = 2, found = 0; found < 64; n++) {
        bool prime = true;
        for (int d = 2; d * d <= n; d++)
            prime = prime && n % d;
        if (!prime) continue;
        long double cube = cbrtl(n), square = sqrtl(n);
        k[found] = (uint32_t)((cube - floorl(cube)) * 0x1p32L);
        if (found < 8) h[found] = (uint32_t)((square - floorl(square)) * 0x1p32L);
        found++;
    }
}

static void block(uint32_t h[8], const uint32_t k[64], const uint8_t *p) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

void sha256_hex(char out[SHA256_HEX], const void *bytes, size_t size) {
    uint32_t k[64], h[8];
    constants(k, h);
    const uint8_t *p = bytes;
    size_t left = size;
    for (; left >= 64; left -= 64, p += 64)
        block(h, k, p);
    uint8_t last[128] = {0};
    memcpy(last, p, left);
    last[left] = 0x80;
    size_t blocks = left < 56 ? 1 : 2;
    for (size_t i = 0; i < 8; i++)
        last[64 * blocks - 1 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t i = 0; i < blocks; i++)
        block(h, k, last + 64 * i);
    for (int i = 0; i < 8; i++)
        snprintf(out + 8 * i, 9, "%08x", h[i]);
}
