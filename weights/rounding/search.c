// quantise_searched: a row to blocks with searched scales.
//
//   blocks of 32     fit.c -> halves -> the integers at what the halves hold -> bytes; compared
//   with
//                    the block of `quantise`, whose scale comes from the extremes
//   superblocks      superblock.c -> pack.c
//   floats           as quantise: there is nothing to search for
#include "weights/rounding/rounding.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Blocks of 32: their integers, and where their parts lie; -1: the type has no such part.
typedef struct Small {
    Levels levels;
    int offset_at, bits_at, q_at; // behind the half of the scale; q_at 0: another type
} Small;

static const Small SMALL[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = {{-8, 7, NO_OFFSET}, -1, -1, 2},
    [DTYPE_Q4_1] = {{0, 15, ANY_OFFSET}, 2, -1, 4},
    [DTYPE_Q5_0] = {{-16, 15, NO_OFFSET}, -1, 2, 6},
    [DTYPE_Q5_1] = {{0, 31, ANY_OFFSET}, 2, 4, 8},
    // 127 on both sides: kernels that split off the sign have no room for -128.
    [DTYPE_Q8_0] = {{-127, 127, NO_OFFSET}, -1, -1, 2},
};

static void put_half(uint8_t *at, float value) {
    uint16_t half = float_to_half(value);
    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
}

static float through_half(float x) {
    return half_to_float(float_to_half(x));
}

static void make_small(uint8_t *block, DType dtype, const Group *g) {
    const Small *k = &SMALL[dtype];
    uint8_t q[32];
    Fit fit = group_fit(g, &k->levels);
    float offset = k->offset_at < 0 ? 0 : through_half(fit.offset);
    group_round(q, g, &k->levels, through_half(fit.scale), offset);
    put_half(block, fit.scale);
    if (k->offset_at >= 0) put_half(block + k->offset_at, fit.offset);
    if (k->bits_at >= 0) pack_fifth_bits(block + k->bits_at, q);
    if (dtype != DTYPE_Q8_0) {
        pack_nibbles(block + k->q_at, q);
        return;
    }
    for (int i = 0; i < 32; i++)
        block[k->q_at + i] = (uint8_t)(int8_t)(q[i] - 127);
}

// What the bytes of a block are off. NaN where they hold no number.
static double error_of(const uint8_t *block, DType dtype, const Group *g) {
    float back[32];
    double sum = 0;
    dequantise(back, dtype, block, 32);
    for (int i = 0; i < 32; i++)
        sum += (double)g->w[i] * ((double)g->x[i] - (double)back[i]) *
               ((double)g->x[i] - (double)back[i]);
    return sum;
}

// Never worse than the plain block: the search knows its range, but not what halves round it to.
static void search_small(uint8_t *block, DType dtype, const float *x, const float *w) {
    uint8_t searched[34];
    Group g = {x, w, 32};
    make_small(searched, dtype, &g);
    quantise(block, dtype, x, 32);
    if (error_of(searched, dtype, &g) < error_of(block, dtype, &g))
        memcpy(block, searched, dtype_info(dtype)->block_bytes);
}

bool quantise_searched(void *blocks, DType dtype, const float *in, const float *importance,
                       size_t count) {
    const DTypeInfo *info = dtype_info(dtype);
    uint8_t *block = blocks;
    float w[256];
    Superblock super;
    if (info->block == 1) return quantise(blocks, dtype, in, count);
    assert(count % info->block == 0);
    for (size_t i = 0; i < info->block; i++)
        w[i] = 1;
    for (size_t i = 0; i < count; i += info->block, block += info->block_bytes) {
        if (importance) memcpy(w, importance + i, info->block * sizeof *w);
        if (SMALL[dtype].q_at) {
            search_small(block, dtype, in + i, w);
        } else {
            if (!superblock_search(&super, dtype, in + i, w)) return false;
            superblock_pack(block, dtype, &super);
        }
    }
    return true;
}

// All zeros where the row is: then any weights will do.
void quantise_importance(float *out, const float *in, const float *by, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (double)in[i] * (double)in[i];
    float mean = (float)(squares / (double)count);
    for (size_t i = 0; i < count; i++)
        out[i] = sqrtf(mean + in[i] * in[i]) * (by ? by[i] : 1);
}
