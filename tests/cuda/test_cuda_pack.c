// The planes that weights become on a GPU, read back by the drawing in
// kernels/cuda/project/matrix.h: the integers and scales of weights/quant.h, however many
// threads have packed them.
#include "kernels/cuda/project/pack.h"
#include "tests/support/device.h"
#include "tests/test.h"
#include "weights/quant.h"

enum { MOST_COLS = 2048 };

// What the drawing says of a type, written down apart from kernels/cuda/project/matrix.h.
typedef struct Drawn {
    DType dtype;
    int high_bits, groups, centre;
} Drawn;
static const Drawn DRAWN[] = {{DTYPE_Q4_0, 0, 1, 8}, {DTYPE_Q4_1, 0, 1, 0}, {DTYPE_Q5_0, 1, 1, 16},
                              {DTYPE_Q5_1, 1, 1, 0}, {DTYPE_Q8_0, 0, 1, 0}, {DTYPE_Q2_K, 0, 2, 0},
                              {DTYPE_Q3_K, 0, 2, 4}, {DTYPE_Q4_K, 0, 1, 0}, {DTYPE_Q5_K, 1, 1, 0},
                              {DTYPE_Q6_K, 2, 2, 32}};
enum { N_DRAWN = sizeof DRAWN / sizeof *DRAWN };

static size_t packed_bytes(const PackedShape *s) {
    size_t bytes = 0;
    for (int p = 0; p < N_PLANES; p++)
        bytes += s->units * s->unit_bytes[p];
    return bytes;
}

// All units in pieces of `piece`, put together as the planes lie on a GPU.
static uint8_t *pack(const Matrix *m, int threads, size_t piece) {
    PackedShape s = packed_shape(m);
    size_t bytes = packed_bytes(&s);
    Packer *packer = packer_open(m, threads);
    uint8_t *planes = malloc(bytes), *part = malloc(bytes);
    CHECK(packer && planes && part);
    for (size_t first = 0, n; first < s.units; first += n) {
        n = piece < s.units - first ? piece : s.units - first;
        memset(part, 0xa5, bytes);
        packer_run(packer, part, first, n);
        uint8_t *plane = planes, *from = part;
        for (int p = 0; p < N_PLANES; p++) {
            memcpy(plane + first * s.unit_bytes[p], from, n * s.unit_bytes[p]);
            plane += s.units * s.unit_bytes[p];
            from += n * s.unit_bytes[p];
        }
    }
    packer_close(packer);
    free(part);
    return planes;
}

// ---- the drawing ----

static int drawn_element(const Drawn *d, const uint8_t *low, const uint8_t *high, int j) {
    if (d->dtype == DTYPE_Q8_0) return (int8_t)low[j];
    int q = j < 16 ? low[j] & 15 : low[j - 16] >> 4;
    uint32_t words[2] = {0, 0};
    memcpy(words, high, 4 * (size_t)d->high_bits);
    int w = j / 4, b = j % 4;
    if (d->high_bits == 1) q |= (int)(words[0] >> (8 * b + w) & 1) << 4;
    if (d->high_bits == 2) q |= (int)(words[w / 4] >> (8 * b + 2 * (w % 4)) & 3) << 4;
    return q - d->centre;
}

static float half_at(const uint8_t *bytes) {
    uint16_t half;
    memcpy(&half, bytes, 2);
    return half_to_float(half);
}

// s and m of a group of a chunk; supers NULL: not a K-quant.
static void drawn_scales(const Drawn *d, const uint8_t *scales, const uint8_t *supers, int group,
                         float *s, float *m) {
    bool affine = dtype_is_affine(d->dtype);
    *m = 0.0f;
    if (!supers) {
        *s = half_at(scales);
        if (affine) *m = half_at(scales + 2);
        return;
    }
    *s = half_at(supers) * (float)(int8_t)scales[group];
    if (affine) *m = -(half_at(supers + 2) * (float)scales[d->groups + group]);
}

static void check_row(const Drawn *d, const Matrix *m, const uint8_t *const planes[N_PLANES],
                      size_t row) {
    static int8_t q[MOST_COLS];
    static float s[MOST_COLS], offsets[MOST_COLS];
    matrix_unpack(q, s, offsets, m, row);
    bool k = dtype_info(d->dtype)->block == 256, affine = dtype_is_affine(d->dtype);
    size_t chunks = m->cols / 32, low = d->dtype == DTYPE_Q8_0 ? 32 : 16;
    size_t high = 4 * (size_t)d->high_bits;
    size_t scale = affine && (d->groups == 2 || !k) ? 4 : 2, super = affine ? 4 : 2;
    for (size_t i = 0; i < m->cols; i++) {
        size_t chunk = row * chunks + i / 32, j = i % 32;
        int got = drawn_element(d, planes[0] + chunk * low, planes[1] + chunk * high, (int)j);
        CHECK(got == q[i], "%s row %zu element %zu: %d, not %d", dtype_info(d->dtype)->name, row, i,
              got, q[i]);
        float got_s, got_m;
        size_t of_row = i / matrix_group(m);
        drawn_scales(d, planes[2] + chunk * scale, k ? planes[3] + chunk / 8 * super : NULL,
                     d->groups == 2 && j >= 16, &got_s, &got_m);
        CHECK(got_s == s[of_row] && got_m == offsets[of_row], "%s row %zu element %zu",
              dtype_info(d->dtype)->name, row, i);
    }
}

static void check_drawing(const Drawn *d, const Matrix *m) {
    PackedShape s = packed_shape(m);
    uint8_t *packed = pack(m, 1, s.units);
    const uint8_t *planes[N_PLANES], *at = packed;
    for (int p = 0; p < N_PLANES; at += s.units * s.unit_bytes[p++])
        planes[p] = at;
    for (size_t row = 0; row < m->rows; row++)
        check_row(d, m, planes, row);
    free(packed);
}

// The same bytes from any number of threads and in pieces of any size.
static void check_threads(const Matrix *m) {
    static const int THREADS[] = {2, 3, 7, PACK_MOST_THREADS, 1000, 0};
    PackedShape s = packed_shape(m);
    uint8_t *wanted = pack(m, 1, s.units);
    for (size_t i = 0; i < sizeof THREADS / sizeof *THREADS; i++) {
        uint8_t *got = pack(m, THREADS[i], i % 2 ? s.units : s.units / 3 + 1);
        CHECK(!memcmp(got, wanted, packed_bytes(&s)), "%s (%zu, %zu) by %d threads",
              dtype_info(m->dtype)->name, m->rows, m->cols, THREADS[i]);
        free(got);
    }
    free(wanted);
}

// Rows in Meta's order where there are 12 or 36 of them.
static Matrix ragged(DType dtype, size_t rows, size_t blocks) {
    TestRandom random = {(uint64_t)dtype * 100 + rows + blocks};
    uint32_t block = dtype_info(dtype)->block;
    Matrix m = random_matrix(&random, dtype, rows, blocks * block);
    if (rows % 12 == 0) m.head_dim = 12, m.rope_dim = 8;
    return m;
}

Test(cuda_pack, planes_are_as_drawn) {
    static const size_t ROWS[] = {1, 5, 36}, BLOCKS[] = {1, 3, 8};
    for (int d = 0; d < N_DRAWN; d++)
        for (int i = 0; i < 9; i++) {
            Matrix m = ragged(DRAWN[d].dtype, ROWS[i / 3], BLOCKS[i % 3]);
            check_drawing(&DRAWN[d], &m);
            check_threads(&m);
            random_matrix_free(&m);
        }
}

// Rows of floats are padded with zeros to 16 bytes.
Test(cuda_pack, floats_are_padded) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    for (int t = 0; t < 3; t++)
        for (size_t cols = 1; cols < 40; cols += 3) {
            Matrix m = ragged(TYPES[t], 12, cols);
            size_t stored = dtype_row_bytes(m.dtype, cols), padded = (stored + 15) / 16 * 16;
            PackedShape s = packed_shape(&m);
            CHECK_INT(packed_bytes(&s), 12 * padded);
            uint8_t *packed = pack(&m, 1, s.units);
            for (size_t row = 0; row < 12; row++) {
                const uint8_t *from = (const uint8_t *)m.data + matrix_stored_row(&m, row) * stored;
                CHECK(!memcmp(packed + row * padded, from, stored), "row %zu", row);
                for (size_t i = stored; i < padded; i++)
                    CHECK_INT(packed[row * padded + i], 0);
            }
            free(packed);
            check_threads(&m);
            random_matrix_free(&m);
        }
}

// llama2.c's groups: a scale per chunk, or all in float32 where they do not fill chunks.
Test(cuda_pack, groups_of_llama2c) {
    enum { ROWS = 12, COLS = 192 };
    static const uint32_t GROUPS[] = {64, 32, 192, 16, 6};
    static int8_t q[ROWS * COLS];
    static float scales[ROWS * COLS], wanted[COLS];
    TestRandom random = {7};
    for (int i = 0; i < ROWS * COLS; i++) {
        q[i] = (int8_t)test_random(&random);
        scales[i] = (float)(i + 1) * 0x1p-9f;
    }
    for (int g = 0; g < 5; g++) {
        Matrix m = {.dtype = DTYPE_Q8_GROUP,
                    .rows = ROWS,
                    .cols = COLS,
                    .data = q,
                    .scales = scales,
                    .group_size = GROUPS[g],
                    .head_dim = 12,
                    .rope_dim = 8};
        PackedShape s = packed_shape(&m);
        CHECK_INT(s.dtype, g < 3 ? DTYPE_Q8_GROUP : DTYPE_F32);
        uint8_t *packed = pack(&m, 1, s.units);
        for (size_t i = 0; i < ROWS * COLS; i++) {
            float got;
            if (i % COLS == 0) matrix_row(wanted, &m, i / COLS);
            if (g < 3) {
                memcpy(&got, packed + ROWS * COLS + i / 32 * 4, 4);
                got *= (float)(int8_t)packed[i];
            } else {
                memcpy(&got, packed + 4 * i, 4);
            }
            CHECK(got == wanted[i % COLS], "groups of %u, element %zu", GROUPS[g], i);
        }
        free(packed);
        check_threads(&m);
    }
}
