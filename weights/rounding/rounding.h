// Searched rounding: blocks whose scales are chosen for the least squared error, not from the
// extremes. Internal to weights/; the entry is quantise_searched (weights/quant.h).
//
//   fit.c         one group of 16 or 32 weights: x ~ scale q + offset, which scale and offset?
//   superblock.c  the groups of a K-quant: their scales as small multiples of d and dmin
//   search.c      blocks of 32, and the way from a row to its blocks
//   pack.c        integers into the bytes that unpack.c draws
//
// Everywhere the error is sum_i w_i (x_i - stored_i)^2, with the importance w_i of the element's
// input channel (1 where nothing is known).
#pragma once

#include "weights/quant.h"

// ---- one group (fit.c) ----

typedef struct Group {
    const float *x, *w; // (n) weights, and the importance of each, not negative
    int n;              // 16 or 32
} Group;

// The integers that an element may be, and what the type has beside the scale.
typedef struct Levels {
    int low, high;
    enum { NO_OFFSET, OFFSET_BELOW_0, ANY_OFFSET } offset;
} Levels;

typedef struct Fit {
    float scale, offset, error;
} Fit;

// Sums over a group that is rounded at a scale and an offset: q the integers, r = x - scale q -
// offset what is left.
typedef struct Sums {
    float w, q, qq, r, rq, rr; // of w, w q, w q q, w r, w r q, w r r
} Sums;
Sums group_sums(const Group *group, const Levels *levels, float scale, float offset);

// The integers themselves, from 0: q - low.
void group_round(uint8_t *q, const Group *group, const Levels *levels, float scale, float offset);

// The best scale and offset that the search finds; zeros for a group of zeros.
Fit group_fit(const Group *group, const Levels *levels);

// ---- superblocks (superblock.c, pack.c) ----

// 256 elements of a K-quant before they are packed.
typedef struct Superblock {
    uint8_t q[256];     // from 0
    int sc[16], mn[16]; // of each group: scale = d sc, offset = -dmin mn
    uint16_t d, dmin;   // halves
} Superblock;

// False for a type that is no K-quant.
bool superblock_search(Superblock *out, DType dtype, const float *x, const float *w);
void superblock_pack(uint8_t *block, DType dtype, const Superblock *from);

// Elements and fifth bits of a block of 32 (search.c), as unpack.c draws them.
void pack_nibbles(uint8_t *bytes, const uint8_t *q);
void pack_fifth_bits(uint8_t *word, const uint8_t *q);
