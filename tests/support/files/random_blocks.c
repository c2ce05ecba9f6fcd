#include "tests/support/files/random_blocks.h"

#include "base/hash.h"
#include "weights/quant.h"

#include <math.h>
#include <string.h>

// Where the half-precision factors of a block stand (m -1: none); all other bits may be random.
static const struct {
    int d, m;
    float spread; // deviation of the elements for d = 1
} BLOCKS[DTYPE_COUNT] = {
    [DTYPE_Q4_0] = {0, -1, 4.6f},    [DTYPE_Q4_1] = {0, 2, 4.6f},
    [DTYPE_Q5_0] = {0, -1, 9.2f},    [DTYPE_Q5_1] = {0, 2, 9.2f},
    [DTYPE_Q8_0] = {0, -1, 74.0f},   [DTYPE_Q2_K] = {80, 82, 10.0f},
    [DTYPE_Q3_K] = {108, -1, 43.0f}, [DTYPE_Q4_K] = {0, 2, 170.0f},
    [DTYPE_Q5_K] = {0, 2, 340.0f},   [DTYPE_Q6_K] = {208, -1, 1360.0f},
};

// low + (high - low) * (0 .. 1)
static float random_between(uint64_t *state, float low, float high) {
    return low + (high - low) * (float)(splitmix64(state) >> 40) * 0x1p-24f;
}

static void put_half(uint8_t *at, float value) {
    uint16_t h = float_to_half(value);
    memcpy(at, &h, sizeof h);
}

// The offset of an affine type has to cancel the mean of its unsigned elements: m = -mean d, or for
// K-quants, whose minima are random like the scales, dmin about that of the scales' mean.
static float offset_for(DType dtype, float d) {
    switch (dtype) {
    case DTYPE_Q4_1: return -7.5f * d;
    case DTYPE_Q5_1: return -15.5f * d;
    case DTYPE_Q2_K: return 1.5f * d;
    case DTYPE_Q4_K: return 7.5f * d;
    case DTYPE_Q5_K: return 15.5f * d;
    default: return 0.0f;
    }
}

static void random_words(uint64_t *state, uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = splitmix64(state);
        memcpy(data + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
    }
}

// Random sign and mantissa, an exponent of the four below that of 2 * deviation.
static void random_floats_16(uint64_t *state, uint8_t *data, size_t count, float deviation,
                             int mantissa_bits, int bias) {
    int exponent = ilogbf(deviation) + 1 + bias;
    uint16_t mask = (uint16_t)(0x8000u | ((1u << mantissa_bits) - 1));
    for (size_t i = 0; i < count; i++) {
        uint64_t word = splitmix64(state);
        uint16_t bits = (uint16_t)((word & mask) | (uint64_t)(exponent - (int)(word >> 32 & 3))
                                                       << mantissa_bits);
        memcpy(data + i * sizeof bits, &bits, sizeof bits);
    }
}

static void random_floats_32(uint64_t *state, uint8_t *data, size_t count, float deviation) {
    for (size_t i = 0; i < count; i++) {
        float value = random_between(state, -1.73f, 1.73f) * deviation;
        memcpy(data + i * sizeof value, &value, sizeof value);
    }
}

void random_elements(uint64_t *state, void *data, DType dtype, size_t count, float deviation) {
    if (dtype == DTYPE_F32) random_floats_32(state, data, count, deviation);
    if (dtype == DTYPE_F16) random_floats_16(state, data, count, deviation, 10, 15);
    if (dtype == DTYPE_BF16) random_floats_16(state, data, count, deviation, 7, 127);
    size_t bytes = dtype_row_bytes(dtype, count), block_bytes = dtype_info(dtype)->block_bytes;
    if (dtype_info(dtype)->block == 1) return;
    random_words(state, data, bytes);
    for (uint8_t *at = data; at < (uint8_t *)data + bytes; at += block_bytes) {
        float d = deviation / BLOCKS[dtype].spread * random_between(state, 0.7f, 1.3f);
        put_half(at + BLOCKS[dtype].d, d);
        if (BLOCKS[dtype].m >= 0) put_half(at + BLOCKS[dtype].m, offset_for(dtype, d));
    }
}
