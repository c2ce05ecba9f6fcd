// Integers into bytes: the inverse of unpack.c, which draws the layouts.
#include "weights/rounding/rounding.h"

#include <string.h>

static void put_half(uint8_t *at, uint16_t half) {
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

// q[j] in the low half of byte j, q[j + 16] in the high half.
void pack_nibbles(uint8_t *bytes, const uint8_t *q) {
    for (int j = 0; j < 16; j++)
        bytes[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

// Bit i of the 32-bit little-endian word is bit 4 of q[i].
void pack_fifth_bits(uint8_t *word, const uint8_t *q) {
    memset(word, 0, 4);
    for (int i = 0; i < 32; i++)
        word[i / 8] |= (uint8_t)((q[i] >> 4 & 1) << (i % 8));
}

// Bit `bit` of element i into bit i / 32 of byte i % 32: third bits of Q3_K, fifth ones of Q5_K.
static void put_bits(uint8_t *bytes, const uint8_t *q, int bit) {
    for (int i = 0; i < 256; i++)
        bytes[i % 32] |= (uint8_t)((q[i] >> bit & 1) << (i / 32));
}

// Two bits of each element, from bit `shift` on: of each 128 elements 32 bytes.
static void put_pairs(uint8_t *bytes, const uint8_t *q, int shift) {
    for (int i = 0; i < 256; i++)
        bytes[32 * (i / 128) + i % 32] |= (uint8_t)((q[i] >> shift & 3) << (i % 128 / 32 * 2));
}

// Low nibbles of 32 elements, then high ones of the next 32, in the same bytes.
static void put_k_nibbles(uint8_t *bytes, const uint8_t *q) {
    for (int i = 0; i < 256; i++)
        bytes[32 * (i / 64) + i % 32] |= (uint8_t)((q[i] & 15) << (i % 64 / 32 * 4));
}

// Eight 6-bit scales and minima in 12 bytes, as scales_and_minima in unpack.c reads them.
static void put_scales(uint8_t *b, const Superblock *s) {
    for (int g = 0; g < 4; g++) {
        b[g] = (uint8_t)(s->sc[g] | s->sc[g + 4] >> 4 << 6);
        b[g + 4] = (uint8_t)(s->mn[g] | s->mn[g + 4] >> 4 << 6);
        b[g + 8] = (uint8_t)((s->sc[g + 4] & 15) | (s->mn[g + 4] & 15) << 4);
    }
}

static void pack_q2_k(uint8_t *b, const Superblock *s) {
    for (int g = 0; g < 16; g++)
        b[g] = (uint8_t)(s->sc[g] | s->mn[g] << 4);
    put_pairs(b + 16, s->q, 0);
    put_half(b + 80, s->d);
    put_half(b + 82, s->dmin);
}

// Scales from -32 .. 31 to six bits from 0.
static void pack_q3_k(uint8_t *b, const Superblock *s) {
    put_bits(b, s->q, 2);
    put_pairs(b + 32, s->q, 0);
    for (int g = 0; g < 16; g++) {
        int sc = s->sc[g] + 32;
        b[96 + g % 8] |= (uint8_t)((sc & 15) << (g / 8 * 4));
        b[104 + g % 4] |= (uint8_t)((sc >> 4) << (g / 4 * 2));
    }
    put_half(b + 108, s->d);
}

static void pack_q4_k(uint8_t *b, const Superblock *s) {
    put_half(b, s->d);
    put_half(b + 2, s->dmin);
    put_scales(b + 4, s);
    put_k_nibbles(b + 16, s->q);
}

static void pack_q5_k(uint8_t *b, const Superblock *s) {
    put_half(b, s->d);
    put_half(b + 2, s->dmin);
    put_scales(b + 4, s);
    put_bits(b + 16, s->q, 4);
    put_k_nibbles(b + 48, s->q);
}

static void pack_q6_k(uint8_t *b, const Superblock *s) {
    for (int i = 0; i < 256; i++)
        b[64 * (i / 128) + i % 64] |= (uint8_t)((s->q[i] & 15) << (i % 128 / 64 * 4));
    put_pairs(b + 128, s->q, 4);
    for (int g = 0; g < 16; g++)
        b[192 + g] = (uint8_t)(int8_t)s->sc[g];
    put_half(b + 208, s->d);
}

void superblock_pack(uint8_t *block, DType dtype, const Superblock *from) {
    memset(block, 0, dtype_info(dtype)->block_bytes);
    switch (dtype) {
    case DTYPE_Q2_K: pack_q2_k(block, from); break;
    case DTYPE_Q3_K: pack_q3_k(block, from); break;
    case DTYPE_Q4_K: pack_q4_k(block, from); break;
    case DTYPE_Q5_K: pack_q5_k(block, from); break;
    case DTYPE_Q6_K: pack_q6_k(block, from); break;
    default: break; // superblock_search has refused it
    }
}
