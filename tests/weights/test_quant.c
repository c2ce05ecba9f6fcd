// Block formats: values worked by hand, and hashes of what the Python package gguf makes of the
// same bytes (scripts/quant_vectors.py).
#include "base/hash.h"
#include "tests/test.h"
#include "weights/quant.h"

enum { BLOCKS = 64 };

// ---- half and bfloat16 ----

Test(quant, halves_have_the_values_of_the_standard) {
    static const struct {
        uint16_t half;
        float value;
    } CASES[] = {
        {0x0000, 0.0f},
        {0x3c00, 1.0f},
        {0xc000, -2.0f},
        {0x7bff, 65504.0f},
        {0x0400, 0x1p-14f},
        {0x0001, 0x1p-24f},
        {0x03ff, 1023 * 0x1p-24f},
        {0x3555, 0.333251953125f},
        {0x7c00, INFINITY},
        {0xfc00, -INFINITY},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        CHECK(half_to_float(CASES[i].half) == CASES[i].value, "0x%04x", CASES[i].half);
        CHECK_INT(float_to_half(CASES[i].value), CASES[i].half);
    }
    CHECK(signbit(half_to_float(0x8000)));
    CHECK(isnan(half_to_float(0x7e00)) && isnan(half_to_float(float_to_half(NAN))));
}

Test(quant, every_half_survives_the_way_through_float) {
    for (uint32_t h = 0; h < 65536; h++) {
        if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff)) continue; // NaN
        CHECK_INT(float_to_half(half_to_float((uint16_t)h)), h);
    }
}

Test(quant, halves_round_to_nearest_and_ties_to_even) {
    CHECK_INT(float_to_half(1.0f + 0x1p-11f), 0x3c00);            // a tie, down to even
    CHECK_INT(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);        // a tie, up to even
    CHECK_INT(float_to_half(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01); // above the tie
    CHECK_INT(float_to_half(65519.99f), 0x7bff);
    CHECK_INT(float_to_half(65520.0f), 0x7c00);
    CHECK_INT(float_to_half(0x1p-25f), 0); // a tie between 0 and the least subnormal
    CHECK_INT(float_to_half(1.5f * 0x1p-25f), 1);
    CHECK_INT(float_to_half(0x1p-14f - 0x1p-26f), 0x0400); // carries into the normal numbers
}

Test(quant, bfloat16_rounds_to_nearest_even) {
    CHECK(bf16_to_float(0x3f80) == 1.0f);
    CHECK_INT(float_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    CHECK_INT(float_to_bf16(1.0f + 3 * 0x1p-8f), 0x3f82);
    CHECK_INT(float_to_bf16(INFINITY), 0x7f80);
    CHECK(isnan(bf16_to_float(float_to_bf16(NAN))));
}

// ---- blocks by hand ----

Test(quant, q4_0_block_worked_by_hand) {
    uint8_t block[18] = {0x00, 0x38, 0x80}; // d = 0.5; qs[0]: element 0 is 0, element 16 is 8
    float out[32];
    block[3] = 0xf1; // element 1 is 1, element 17 is 15
    dequantise(out, DTYPE_Q4_0, block, 32);
    CHECK(out[0] == -4.0f && out[16] == 0.0f && out[1] == -3.5f && out[17] == 3.5f);
}

Test(quant, q5_1_block_worked_by_hand) {
    // d = 2, m = -1; fifth bits of elements 0 and 31; qs[0] = 0x21, qs[15] = 0x30
    uint8_t block[24] = {0x00, 0x40, 0x00, 0xbc, 0x01, 0x00, 0x00, 0x80, 0x21};
    float out[32];
    block[23] = 0x30;
    dequantise(out, DTYPE_Q5_1, block, 32);
    CHECK(out[0] == 17 * 2.0f - 1 && out[16] == 2 * 2.0f - 1);
    CHECK(out[15] == -1.0f && out[31] == 19 * 2.0f - 1);
}

Test(quant, q6_k_block_worked_by_hand) {
    uint8_t block[210] = {0};
    float out[256];
    block[0] = 0x0f;                      // low bits of element 0; element 64 has 0
    block[128] = 0x03;                    // high bits of element 0: q = 63
    block[192] = 2;                       // scale of elements 0 .. 15
    block[192 + 4] = 0xff;                // scale of elements 64 .. 79: -1
    block[208] = 0x00, block[209] = 0x3c; // d = 1
    dequantise(out, DTYPE_Q6_K, block, 256);
    CHECK(out[0] == 62.0f && out[1] == -64.0f && out[64] == 32.0f && out[16] == 0.0f);
}

Test(quant, q4_k_scales_of_the_upper_groups_are_put_together) {
    uint8_t block[144] = {0x00, 0x3c, 0x00, 0x3c}; // d = dmin = 1
    float out[256];
    uint8_t *scales = block + 4;
    scales[0] = 0xc0 | 5;  // sc[0] = 5, top bits of sc[4] = 3
    scales[4] = 0x40 | 7;  // sm[0] = 7, top bits of sm[4] = 1
    scales[8] = 0x21;      // sc[4] = 1 | 3 << 4 = 49, sm[4] = 2 | 1 << 4 = 18
    block[16] = 0x03;      // element 0 is 3
    block[16 + 64] = 0x0a; // element 128 is 10
    dequantise(out, DTYPE_Q4_K, block, 256);
    CHECK(out[0] == 5 * 3 - 7.0f && out[128] == 49 * 10 - 18.0f);
}

// ---- against gguf-py ----

static const struct {
    DType dtype;
    uint64_t dequantised, quantised; // hashes; 0: no quantiser
    int halves[2];                   // where the block's halves lie; -1: none
} VECTORS[] = {
    {DTYPE_Q4_0, 0x42b3ad5384ff8f85, 0x3d0b750d8ca9f518, {0, -1}},
    {DTYPE_Q4_1, 0x441d6b4a76b2824f, 0x3f21202f6e958886, {0, 2}},
    {DTYPE_Q5_0, 0x91c502deb307470d, 0x4a8b307e5a352073, {0, -1}},
    {DTYPE_Q5_1, 0xbad640cced568c5b, 0x26a5e94664f84209, {0, 2}},
    {DTYPE_Q8_0, 0x0f3fb9db4aa14465, 0xd15046899a8f57bc, {0, -1}},
    {DTYPE_Q2_K, 0x880b54eb7dc66a29, 0, {80, 82}},
    {DTYPE_Q3_K, 0xd0710d31add66098, 0, {108, -1}},
    {DTYPE_Q4_K, 0x4bfbe29326874f82, 0, {0, 2}},
    {DTYPE_Q5_K, 0x3b2fe5646ee55e0c, 0, {0, 2}},
    {DTYPE_Q6_K, 0xc775e012da9eb643, 0, {208, -1}},
    {DTYPE_BF16, 0, 0x051f82408111f6ef, {-1, -1}},
    {DTYPE_F16, 0, 0x3cd4cdacd24f9f17, {-1, -1}},
};
enum { N_VECTORS = sizeof VECTORS / sizeof *VECTORS };

Test(quant, dequantised_blocks_are_bit_equal_to_the_reference) {
    for (size_t v = 0; v < N_VECTORS; v++) {
        if (!VECTORS[v].dequantised) continue;
        const DTypeInfo *info = dtype_info(VECTORS[v].dtype);
        uint8_t blocks[BLOCKS * 256];
        static float out[BLOCKS * 256];
        TestRandom random = {1};
        for (size_t i = 0; i < BLOCKS * info->block_bytes; i++)
            blocks[i] = (uint8_t)test_random(&random);
        for (size_t b = 0; b < BLOCKS; b++)
            for (int h = 0; h < 2 && VECTORS[v].halves[h] >= 0; h++) {
                uint8_t *high = &blocks[b * info->block_bytes + (size_t)VECTORS[v].halves[h] + 1];
                *high = (uint8_t)((*high & 0xbf) | 0x20); // finite
            }
        dequantise(out, VECTORS[v].dtype, blocks, (size_t)BLOCKS * info->block);
        CHECK(fnv1a(FNV_START, out, BLOCKS * info->block * sizeof *out) == VECTORS[v].dequantised,
              "%s", info->name);
    }
}

static void quantiser_input(float *in) {
    TestRandom random = {1};
    for (int i = 0; i < BLOCKS * 32; i++) {
        float value = (float)((int64_t)(test_random(&random) >> 40) - (1 << 23)) * 0x1p-23f;
        in[i] = i < 32 ? 0.0f : value;
    }
}

Test(quant, quantised_blocks_are_bit_equal_to_the_reference) {
    static float in[BLOCKS * 32];
    uint8_t out[BLOCKS * 32 * 4];
    quantiser_input(in);
    for (size_t v = 0; v < N_VECTORS; v++) {
        if (!VECTORS[v].quantised) continue;
        DType dtype = VECTORS[v].dtype;
        memset(out, 0xa5, sizeof out);
        CHECK(quantise(out, dtype, in, BLOCKS * 32));
        CHECK(fnv1a(FNV_START, out, dtype_row_bytes(dtype, BLOCKS * 32)) == VECTORS[v].quantised,
              "%s", dtype_info(dtype)->name);
    }
}

Test(quant, error_of_one_round_trip_is_within_half_a_step) {
    // d / 2, and what rounding d to a half adds (NUMERICS: Q8_0 0.562 d, Q4_0 up to d at the end
    // that the opposite sign clips).
    static const struct {
        DType dtype;
        double levels, steps;
    } CASES[] = {{DTYPE_Q4_0, 8, 1.01},
                 {DTYPE_Q4_1, 7.5, 0.52},
                 {DTYPE_Q5_0, 16, 1.02},
                 {DTYPE_Q5_1, 15.5, 0.54},
                 {DTYPE_Q8_0, 127, 0.5625}};
    static float in[BLOCKS * 32];
    quantiser_input(in);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++)
        for (size_t b = 0; b < BLOCKS; b++) {
            uint8_t block[34];
            float out[32];
            quantise(block, CASES[c].dtype, in + 32 * b, 32);
            dequantise(out, CASES[c].dtype, block, 32);
            for (int i = 0; i < 32; i++) // |x| < 1, so d < 1 / levels
                CHECK_NEAR(out[i], in[32 * b + (size_t)i], CASES[c].steps / CASES[c].levels);
        }
}

Test(quant, quantisers_survive_what_is_not_a_number) {
    float in[32] = {NAN, INFINITY, -INFINITY, 1e38f, -1e38f, 1e-42f};
    uint8_t block[128];
    for (int dtype = 0; dtype <= DTYPE_Q8_0; dtype++)
        CHECK(quantise(block, (DType)dtype, in, 32));
    for (int i = 0; i < 32; i++)
        in[i] = 1e-42f * (float)i; // 1 / d overflows
    for (int dtype = 0; dtype <= DTYPE_Q8_0; dtype++)
        CHECK(quantise(block, (DType)dtype, in, 32));
    CHECK(!quantise(block, DTYPE_Q6_K, in, 32));
}

// ---- rows of a matrix ----

Test(quant, interleaved_rows_come_out_in_the_order_of_the_model) {
    // Two heads of six rows, four of which rotate: stored 0 1 2 3 are the model's 0 2 1 3.
    float data[12], out;
    for (int r = 0; r < 12; r++)
        data[r] = (float)r;
    Matrix m = {
        .dtype = DTYPE_F32, .rows = 12, .cols = 1, .data = data, .head_dim = 6, .rope_dim = 4};
    static const float WANTED[12] = {0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11};
    for (size_t r = 0; r < 12; r++) {
        matrix_row(&out, &m, r);
        CHECK(out == WANTED[r], "row %zu is %g", r, (double)out);
    }
}

Test(quant, rows_of_int8_groups_use_the_scale_of_their_group) {
    const int8_t data[8] = {1, -2, 3, 4, 5, 6, -7, 127};
    uint8_t scales[4 * sizeof(float) + 1];
    const float values[4] = {0.5f, 2.0f, 10.0f, -1.0f};
    memcpy(scales + 1, values, sizeof values); // unaligned, as in the file
    Matrix m = {.dtype = DTYPE_Q8_GROUP,
                .rows = 2,
                .cols = 4,
                .data = data,
                .scales = scales + 1,
                .group_size = 2};
    float out[4];
    matrix_row(out, &m, 1);
    CHECK(out[0] == 50 && out[1] == 60 && out[2] == 7 && out[3] == -127);
}

Test(quant, unaligned_float_rows_are_read_whole) {
    uint8_t bytes[17];
    const float values[4] = {1, 2, 3, 4};
    memcpy(bytes + 1, values, sizeof values);
    Matrix m = {.dtype = DTYPE_F32, .rows = 2, .cols = 2, .data = bytes + 1};
    float out[2];
    matrix_row(out, &m, 1);
    CHECK(out[0] == 3 && out[1] == 4);
}

Test(quant, table_of_types_agrees_with_the_format) {
    CHECK_STRING(dtype_info(DTYPE_Q5_K)->name, "Q5_K");
    CHECK_INT(dtype_row_bytes(DTYPE_Q6_K, 512), 420);
    CHECK_INT(dtype_row_bytes(DTYPE_Q4_0, 64), 36);
    CHECK_INT(dtype_row_bytes(DTYPE_BF16, 3), 6);
    CHECK_INT(dtype_info(DTYPE_BF16)->gguf_type, 30);
}
