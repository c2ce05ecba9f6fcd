// project and embed of the cpu backend against plain loops over precision.h's definition: the same
// bits, from every instruction set, any number of threads, any split of the rows.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/panels.h"
#include "kernels/precision.h"
#include "tests/test.h"
#include "weights/quant.h"

// ---- a matrix with random contents ----

typedef struct Sample {
    Matrix matrix;
    uint8_t *data;
    float *scales;
} Sample;

// Where blocks keep their f16 scales, which must be finite: random bytes could be NaN.
static void set_halves(uint8_t *block, DType dtype, TestRandom *random) {
    static const int AT[DTYPE_COUNT][2] = {
        [DTYPE_Q4_0] = {0, -1},   [DTYPE_Q4_1] = {0, 2},  [DTYPE_Q5_0] = {0, -1},
        [DTYPE_Q5_1] = {0, 2},    [DTYPE_Q8_0] = {0, -1}, [DTYPE_Q2_K] = {80, 82},
        [DTYPE_Q3_K] = {108, -1}, [DTYPE_Q4_K] = {0, 2},  [DTYPE_Q5_K] = {0, 2},
        [DTYPE_Q6_K] = {208, -1},
    };
    for (int i = 0; i < 2; i++) {
        uint16_t half = float_to_half(test_random_normal(random) * 0.02f);
        if (AT[dtype][i] >= 0) memcpy(block + AT[dtype][i], &half, 2);
    }
}

static Sample sample_matrix(DType dtype, size_t rows, size_t cols, uint32_t group) {
    TestRandom random = {rows * 1000 + cols + dtype};
    Sample s = {.matrix = {.dtype = dtype, .rows = rows, .cols = cols}};
    const DTypeInfo *info = dtype_info(dtype);
    size_t row_bytes = dtype_row_bytes(dtype, cols), bytes = rows * row_bytes;
    s.data = malloc(bytes + 1); // one off: files promise no alignment
    for (size_t i = 0; i < bytes; i++)
        s.data[1 + i] = (uint8_t)test_random(&random);
    for (size_t i = 0; i < bytes; i += info->block_bytes) {
        float x = test_random_normal(&random);
        uint16_t half = float_to_half(x), bf16 = float_to_bf16(x);
        if (dtype == DTYPE_F32) memcpy(s.data + 1 + i, &x, 4);
        if (dtype == DTYPE_F16) memcpy(s.data + 1 + i, &half, 2);
        if (dtype == DTYPE_BF16) memcpy(s.data + 1 + i, &bf16, 2);
        if (info->block > 1) set_halves(s.data + 1 + i, dtype, &random);
    }
    s.matrix.data = s.data + 1;
    if (dtype == DTYPE_Q8_GROUP) {
        s.scales = malloc(rows * cols / group * sizeof *s.scales);
        for (size_t i = 0; i < rows * cols / group; i++)
            s.scales[i] = test_random_normal(&random) * 0.01f;
        s.matrix.scales = s.scales;
        s.matrix.group_size = group;
    }
    return s;
}

static void sample_free(Sample *s) {
    free(s->data);
    free(s->scales);
}

// ---- the definition, in plain loops ----

static float dot_floats(const Matrix *m, size_t row, const float *x) {
    float *w = malloc(m->cols * sizeof *w), acc = 0.0f;
    matrix_row(w, m, row);
    for (size_t k = 0; k < m->cols; k++)
        acc = fmaf(w[k], x[k], acc);
    free(w);
    return acc;
}

static float dot_integers(const Matrix *m, size_t row, const float *x, int levels) {
    size_t group = matrix_group(m) < 32 ? matrix_group(m) : 32, cols = m->cols;
    int8_t *q = malloc(cols);
    int16_t *z = malloc(cols * sizeof *z);
    float *s = malloc(cols * 3 * sizeof *s), *offsets = s + cols, *d = offsets + cols, acc = 0.0f;
    int32_t *sums = malloc(cols * sizeof *sums);
    Outlier outliers[OUTLIERS];
    matrix_unpack(q, s, offsets, m, row);
    activation_quantise(z, d, sums, outliers, x, cols, levels);
    for (size_t k = 0; k < cols; k += group) {
        int32_t isum = 0, sum_z = 0;
        size_t g = k / matrix_group(m);
        for (size_t i = k; i < k + group; i++) {
            isum += q[i] * z[i];
            sum_z += z[i];
        }
        acc = fmaf((float)isum, s[g] * d[k / 32], acc);
        if (dtype_is_affine(m->dtype)) acc = fmaf(offsets[g], d[k / 32] * (float)sum_z, acc);
    }
    for (int o = 0; o < OUTLIERS; o++) {
        size_t k = outliers[o].column, g = k / matrix_group(m);
        float w = (float)q[k] * s[g];
        if (dtype_is_affine(m->dtype)) w = fmaf((float)q[k], s[g], offsets[g]);
        acc = fmaf(w, outliers[o].x, acc);
    }
    free(q);
    free(z);
    free(s);
    free(sums);
    return acc;
}

static void expected(float *out, const Matrix *m, const float *x, size_t n, const float *bias,
                     Precision precision) {
    bool floats = !matrix_group(m) || matrix_group(m) % 16 || precision == PRECISION_F32;
    int levels = precision == PRECISION_A8 ? A8_LEVELS : A16_LEVELS;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < m->rows; r++) {
            const float *row = x + i * m->cols;
            float dot = floats ? dot_floats(m, r, row) : dot_integers(m, r, row, levels);
            out[i * m->rows + r] = bias ? dot + bias[r] : dot;
        }
}

// ---- running the backend ----

// Of all processors; those that this one lacks are passed over.
static const char *const ISAS[] = {"amx", "avx512", "avx2", "i8mm", "dotprod", "neon", "portable"};
enum { N_ISAS = sizeof ISAS / sizeof *ISAS };

static Device *open_isa(const char *isa, int threads, Precision precision) {
    setenv("LIMPID_ISA", isa, 1);
    Device *device = device_open(threads, precision);
    unsetenv("LIMPID_ISA");
    CHECK(device != NULL, "no device");
    return device;
}

static bool runs_here(const char *isa) {
    Device *device = open_isa(isa, 1, PRECISION_A16);
    bool runs = device_error(device)->code == ERROR_NONE;
    device_close(device);
    return runs;
}

static void check_bits(const float *got, const float *wanted, size_t count, const char *what,
                       DType dtype, int n) {
    for (size_t i = 0; i < count; i++)
        CHECK(!memcmp(got + i, wanted + i, sizeof *got), "%s, %s, %d rows: [%zu] %.9g, wanted %.9g",
              what, dtype_info(dtype)->name, n, i, (double)got[i], (double)wanted[i]);
}

typedef struct Shape {
    size_t rows, cols;
} Shape;

// All of x in one call, then in calls of few and of many rows: every size of block, alone and
// beside others, straight from the packed panel and unpacked. One and two rows have kernels of
// their own for each kind of prefetch, whichever this processor takes.
static void check_matrix(Device *device, const char *isa, Prefetch prefetch, const Sample *sample,
                         const float *x, const float *bias, const float *wanted, int n) {
    const Matrix *m = &sample->matrix;
    size_t out_size = (size_t)n * m->rows;
    DeviceMatrix *w = device_matrix(device, m);
    CHECK(w != NULL, "%s", device_error(device)->message);
    size_t stored = matrix_bytes(m);
    if (m->rows % 16 == 0 && m->cols % 256 == 0)
        CHECK((double)(w->n_panels * w->panel_bytes) <= 1.12 * (double)stored,
              "%s takes %zu for %zu", dtype_info(m->dtype)->name, w->n_panels * w->panel_bytes,
              stored);
    device_reserve(device, n);
    device->prefetch = prefetch;
    float *out = malloc(out_size * sizeof *out);
    enum { CALLS = 9 };
    static const int COUNTS[CALLS] = {1, 2, 5, 3, 6, 8, 16, 4, 64};
    for (int split = 0; split < 2; split++) {
        memset(out, 0xff, out_size * sizeof *out); // NaN
        for (int i = 0, count = n, call = 0; i < n; i += count, call++) {
            if (split) count = COUNTS[call % CALLS] < n - i ? COUNTS[call % CALLS] : n - i;
            Projection p = {out + (size_t)i * m->rows, w, bias};
            project(device, x + (size_t)i * m->cols, count, &p, 1);
        }
        check_bits(out, wanted, out_size, isa, m->dtype, n);
    }
    free(out);
}

static void check_type(DType dtype, uint32_t group, const Shape *shapes, int n_shapes,
                       const char *isa) {
    // 129: more than a tile of rows and than the calls above. A sanitizer and an emulated processor
    // do with fewer.
    enum { MOST = TEST_SANITIZED || TEST_CROSS ? 66 : 129 };
    static const int ROWS[] = {1, 2, 3, 7, 13, 20, 37, MOST, 64};
    TestRandom random = {7};
    for (int s = 0; s < n_shapes; s++) {
        Sample sample = sample_matrix(dtype, shapes[s].rows, shapes[s].cols, group);
        size_t rows = shapes[s].rows, cols = shapes[s].cols;
        float *x = malloc(MOST * cols * sizeof *x), *bias = malloc(rows * sizeof *bias);
        float *wanted = malloc(MOST * rows * sizeof *wanted);
        for (size_t i = 0; i < MOST * cols; i++)
            x[i] = test_random_normal(&random) * (i % 11 ? 1.0f : 30.0f);
        memset(x + cols / 2, 0, 32 * sizeof *x);
        for (size_t i = 0; i < rows; i++)
            bias[i] = test_random_normal(&random);
        for (int precision = PRECISION_F32; precision <= PRECISION_A8; precision++) {
            expected(wanted, &sample.matrix, x, MOST, s % 2 ? bias : NULL, (Precision)precision);
            for (int i = 0; i < (int)(sizeof ROWS / sizeof *ROWS); i += TEST_CROSS ? 2 : 1) {
                static const int THREADS[] = {1, 2, 3, 7};
                Device *device = open_isa(isa, THREADS[(i + precision) % 4], (Precision)precision);
                check_matrix(device, isa, (Prefetch)(i % 3), &sample, x, s % 2 ? bias : NULL,
                             wanted, ROWS[i]);
                device_close(device);
            }
        }
        free(x);
        free(bias);
        free(wanted);
        sample_free(&sample);
    }
}

static void check_isa(const char *isa) {
    if (!runs_here(isa)) {
        fprintf(stderr, "not run here: this processor has no %s\n", isa);
        return;
    }
    static const Shape FLOATS[] = {{70, 37}, {33, 64}, {130, 96}, {1, 5}};
    static const Shape BLOCKS[] = {{50, 96}, {16, 32}, {37, 288}, {64, 512}};
    static const Shape SUPER[] = {{19, 256}, {48, 768}};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        DType dtype = (DType)t;
        if (dtype_info(dtype)->block == 256) check_type(dtype, 0, SUPER, 2, isa);
        if (dtype_info(dtype)->block == 32) check_type(dtype, 0, BLOCKS, 4, isa);
        if (dtype_is_float(dtype)) check_type(dtype, 0, FLOATS, 4, isa);
        if (dtype != DTYPE_Q8_GROUP) continue;
        check_type(dtype, 32, BLOCKS, 4, isa);
        check_type(dtype, 64, BLOCKS + 3, 1, isa);
        check_type(dtype, 4, BLOCKS, 1, isa);
    }
}

#if defined(__aarch64__)
Test(cpu_project, gives_the_defined_bits_with_i8mm) {
    check_isa("i8mm");
}

Test(cpu_project, gives_the_defined_bits_with_dotprod) {
    check_isa("dotprod");
}

Test(cpu_project, gives_the_defined_bits_with_neon) {
    check_isa("neon");
}
#else
Test(cpu_project, gives_the_defined_bits_with_amx) {
    check_isa("amx");
}

Test(cpu_project, gives_the_defined_bits_with_avx512) {
    check_isa("avx512");
}

Test(cpu_project, gives_the_defined_bits_with_avx2) {
    check_isa("avx2");
}
#endif

Test(cpu_project, gives_the_defined_bits_in_plain_c) {
    check_isa("portable");
}

Test(cpu_project, takes_several_matrices_of_different_types_at_once) {
    enum { COLS = 256, N = 5 };
    static const DType TYPES[] = {DTYPE_Q4_K, DTYPE_F16, DTYPE_Q6_K, DTYPE_Q8_0};
    static const size_t ROWS[] = {100, 36, 36, 513};
    TestRandom random = {3};
    float x[N * COLS];
    for (size_t i = 0; i < N * COLS; i++)
        x[i] = test_random_normal(&random);
    Device *device = device_open(2, PRECISION_A16);
    Sample samples[4];
    Projection list[4] = {0};
    for (int i = 0; i < 4; i++) {
        samples[i] = sample_matrix(TYPES[i], ROWS[i], COLS, 0);
        list[i].weight = device_matrix(device, &samples[i].matrix);
        list[i].out = device_alloc(device, N * ROWS[i] * sizeof(float));
    }
    device_reserve(device, N);
    project(device, x, N, list, 4);
    CHECK_INT(device_error(device)->code, ERROR_NONE);
    for (int i = 0; i < 4; i++) {
        float *wanted = malloc(N * ROWS[i] * sizeof *wanted);
        expected(wanted, &samples[i].matrix, x, N, NULL, PRECISION_A16);
        check_bits(list[i].out, wanted, N * ROWS[i], "together", TYPES[i], N);
        free(wanted);
        sample_free(&samples[i]);
    }
    device_close(device);
}

// Scratch of every thread is aligned, whatever the widths: a float matrix may have an odd one.
Test(cpu_project, takes_floats_of_an_odd_width_beside_quantised_ones) {
    enum { ROWS = 200, N = 40 };
    static const struct {
        DType dtype;
        size_t cols;
    } MATRICES[] = {{DTYPE_Q8_0, 64}, {DTYPE_F32, 1025}};
    TestRandom random = {9};
    static float x[N * 1025], out[N * ROWS], wanted[N * ROWS];
    for (size_t i = 0; i < N * 1025; i++)
        x[i] = test_random_normal(&random);
    Device *device = device_open(3, PRECISION_A16);
    Sample samples[2];
    DeviceMatrix *matrices[2];
    for (int i = 0; i < 2; i++) {
        samples[i] = sample_matrix(MATRICES[i].dtype, ROWS, MATRICES[i].cols, 0);
        matrices[i] = device_matrix(device, &samples[i].matrix);
    }
    device_reserve(device, N);
    for (int i = 0; i < 2; i++) {
        project(device, x, N, &(Projection){.out = out, .weight = matrices[i]}, 1);
        CHECK_INT(device_error(device)->code, ERROR_NONE);
        expected(wanted, &samples[i].matrix, x, N, NULL, PRECISION_A16);
        check_bits(out, wanted, N * ROWS, "odd", MATRICES[i].dtype, N);
        sample_free(&samples[i]);
    }
    device_close(device);
}

// The largest elements meet z = 128 = 256 * 1 - 128: bytes of -128, whose sums of products come
// closest to the end of 16 bits.
Test(cpu_project, adds_the_largest_products_of_bytes) {
    enum { ROWS = 16, COLS = 256, N = 18, COUNTS = 3 };
    static const int ROWS_OF_X[COUNTS] = {1, 2, N}; // all are multiplied as digits, N by tiles
    static float x[N * COLS], out[N * ROWS], wanted[N * ROWS];
    for (int k = 0; k < N * COLS; k++)
        x[k] = k % 32 == 2 ? (float)A16_LEVELS : 128.0f;
    for (int t = 0; t < DTYPE_Q8_GROUP; t++) {
        DType dtype = (DType)t;
        if (dtype_is_float(dtype)) continue;
        Sample sample = sample_matrix(dtype, ROWS, COLS, 0);
        TestRandom random = {5};
        size_t bytes = ROWS * dtype_row_bytes(dtype, COLS), block = dtype_info(dtype)->block_bytes;
        memset(sample.data + 1, 0xff, bytes);
        for (size_t i = 0; i < bytes; i += block)
            set_halves(sample.data + 1 + i, dtype, &random);
        expected(wanted, &sample.matrix, x, N, NULL, PRECISION_A16);
        for (int i = 0; i < N_ISAS * COUNTS; i++) {
            int n = ROWS_OF_X[i / N_ISAS];
            const char *isa = ISAS[i % N_ISAS];
            if (!runs_here(isa)) continue;
            Device *device = open_isa(isa, 1, PRECISION_A16);
            Projection p = {.out = out, .weight = device_matrix(device, &sample.matrix)};
            device_reserve(device, n);
            project(device, x, n, &p, 1);
            check_bits(out, wanted, (size_t)n * ROWS, isa, dtype, n);
            device_close(device);
        }
        sample_free(&sample);
    }
}

// Q8_0 with d = 1 and q = 1 in a16: the sum of 64 inputs that z holds exactly.
Test(cpu_project, adds_up_what_one_can_add_by_hand) {
    uint8_t blocks[2 * 34];
    uint16_t one = float_to_half(1.0f);
    for (int b = 0; b < 2; b++) {
        memset(blocks + 34 * b + 2, 1, 32);
        memcpy(blocks + 34 * b, &one, 2);
    }
    float x[64] = {0}, out = 0;
    x[0] = 32639.0f, x[31] = -39.0f, x[32] = 32639.0f, x[40] = -2.0f;
    Device *device = device_open(1, PRECISION_A16);
    Matrix m = {.dtype = DTYPE_Q8_0, .rows = 1, .cols = 64, .data = blocks};
    Projection p = {.out = &out, .weight = device_matrix(device, &m)};
    device_reserve(device, 1);
    project(device, x, 1, &p, 1);
    CHECK_NEAR(out, 32600.0 + 32637.0, 0);
    device_close(device);
}

// Of equal 8s the two at the lowest columns are extracted; 1 is then the largest of its group, and
// the third 8 of its own. A value that is not finite is not extracted, and its group is NaN.
Test(cpu_project, extracts_the_outliers) {
    float x[64] = {[3] = -8.0f, [5] = 8.0f, [7] = 1.0f, [8] = -0.5f, [40] = 8.0f}, d[2];
    int16_t z[64];
    int32_t sums[2];
    Outlier outliers[OUTLIERS];
    activation_quantise(z, d, sums, outliers, x, 64, A8_LEVELS);
    CHECK(outliers[0].column == 3 && outliers[0].x == -8.0f, "first %u", outliers[0].column);
    CHECK(outliers[1].column == 5 && outliers[1].x == 8.0f, "second %u", outliers[1].column);
    CHECK(d[0] == 1.0f / 127.0f && d[1] == 8.0f / 127.0f, "%g, %g", (double)d[0], (double)d[1]);
    CHECK(!z[3] && !z[5] && z[7] == 127 && z[8] == -64 && z[40] == 127, "%d %d %d %d", z[3], z[7],
          z[8], z[40]); // -63.5 to even
    CHECK(sums[0] == 63 && sums[1] == 127, "%d, %d", sums[0], sums[1]);
    float bad[64] = {[0] = INFINITY, [1] = NAN, [33] = 2.0f};
    activation_quantise(z, d, sums, outliers, bad, 64, A16_LEVELS);
    CHECK(outliers[0].column == 33 && outliers[0].x == 2.0f, "%u", outliers[0].column);
    CHECK(outliers[1].column == 0 && outliers[1].x == 0.0f, "%u", outliers[1].column);
    CHECK(isnan(d[0]) && d[1] == 0.0f && !z[0] && !z[33], "%g, %g", (double)d[0], (double)d[1]);
}

// Equal sizes, both in one group, nothing but zeros or one element, smallest numbers.
Test(cpu_project, finds_outliers_wherever_they_are) {
    enum { ROWS = 16, COLS = 96, KINDS = 6, N = 6 * KINDS };
    static float x[N * COLS], wanted[N * ROWS];
    for (int k = 0; k < COLS; k++) {
        x[k] = k % 2 ? 3.0f : -3.0f;
        x[COLS + k] = sinf((float)k) + (k == 31 ? 50.0f : k == 30 ? -60.0f : 0.0f);
        x[4 * COLS + k] = 1e-42f * (float)k;
        x[5 * COLS + k] = k < 64 ? cosf((float)k) : 0.0f;
    }
    x[3 * COLS + 95] = -7.0f; // alone in its row; row 2 has none
    for (int k = KINDS * COLS; k < N * COLS; k++)
        x[k] = x[k - KINDS * COLS];
    for (DType dtype = DTYPE_Q4_0; dtype <= DTYPE_Q8_0; dtype++) {
        Sample sample = sample_matrix(dtype, ROWS, COLS, 0);
        for (int precision = PRECISION_A16; precision <= PRECISION_A8; precision++) {
            expected(wanted, &sample.matrix, x, N, NULL, (Precision)precision);
            for (int i = 0; i < N_ISAS; i++) {
                if (!runs_here(ISAS[i])) continue;
                Device *device = open_isa(ISAS[i], 1, (Precision)precision);
                check_matrix(device, ISAS[i], PREFETCH_L1, &sample, x, NULL, wanted, N);
                device_close(device);
            }
        }
        sample_free(&sample);
    }
}

Test(cpu_project, follows_the_row_order_of_the_container) {
    enum { ROWS = 48, COLS = 64 };
    Sample sample = sample_matrix(DTYPE_Q8_0, ROWS, COLS, 0);
    sample.matrix.head_dim = 24;
    sample.matrix.rope_dim = 16;
    float x[COLS], out[ROWS], wanted[ROWS];
    for (int i = 0; i < COLS; i++)
        x[i] = sinf((float)i);
    Device *device = device_open(1, PRECISION_A16);
    Projection p = {.out = out, .weight = device_matrix(device, &sample.matrix)};
    device_reserve(device, 1);
    project(device, x, 1, &p, 1);
    expected(wanted, &sample.matrix, x, 1, NULL, PRECISION_A16);
    check_bits(out, wanted, ROWS, "permuted", DTYPE_Q8_0, 1);
    device_close(device);
    sample_free(&sample);
}

Test(cpu_project, says_nan_where_an_input_is_not_finite) {
    enum { ROWS = 20, COLS = 64, N = 18 };
    Sample sample = sample_matrix(DTYPE_Q4_0, ROWS, COLS, 0);
    static float x[N * COLS], out[N * ROWS];
    for (int i = 0; i < N; i++)
        x[i * COLS + (i % 2 ? 40 : 3)] = i % 2 ? NAN : INFINITY;
    for (int n = 2; n <= N; n += N - 2) {
        Device *device = device_open(1, PRECISION_A16);
        Projection p = {.out = out, .weight = device_matrix(device, &sample.matrix)};
        device_reserve(device, n);
        project(device, x, n, &p, 1);
        for (int i = 0; i < n * ROWS; i++)
            CHECK(isnan(out[i]), "%d rows: [%d] is %g", n, i, (double)out[i]);
        device_close(device);
    }
    sample_free(&sample);
}

Test(cpu_embed, gathers_rows_of_every_type) {
    enum { ROWS = 83, COLS = 512, N = 3 };
    int32_t tokens[N] = {82, 0, 37}, positions[N] = {1, 2, 50}, sequences[N] = {0};
    Rows rows = {N, tokens, positions, sequences};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        Sample table = sample_matrix((DType)t, ROWS, COLS, 64);
        Sample learned = sample_matrix(DTYPE_F16, 60, COLS, 0);
        Device *device = device_open(2, PRECISION_A16);
        float *out = device_alloc(device, N * COLS * sizeof *out), a[COLS], b[COLS];
        DeviceMatrix *packed = device_matrix(device, &table.matrix);
        DeviceMatrix *packed_learned = device_matrix(device, &learned.matrix);
        device_reserve(device, N);
        embed(device, out, packed, packed_learned, 1.5f, &rows);
        CHECK_INT(device_error(device)->code, ERROR_NONE);
        for (int i = 0; i < N; i++) {
            matrix_row(a, &table.matrix, (size_t)tokens[i]);
            matrix_row(b, &learned.matrix, (size_t)positions[i]);
            for (int k = 0; k < COLS; k++)
                a[k] = a[k] * 1.5f + b[k];
            check_bits(out + i * COLS, a, COLS, "embed", (DType)t, i);
        }
        device_close(device);
        sample_free(&table);
        sample_free(&learned);
    }
}

Test(cpu_device, refuses_an_instruction_set_that_is_not_there) {
    Device *device = open_isa("sse9", 1, PRECISION_A16);
    CHECK_INT(device_error(device)->code, ERROR_DEVICE);
    CHECK(device_alloc(device, 64) == NULL, "allocates after a failure");
    device_close(device);
}

Test(cpu_device, refuses_more_threads_than_it_has_room_for) {
    Device *device = device_open(100000, PRECISION_A16);
    CHECK_INT(device_error(device)->code, ERROR_DEVICE);
    device_close(device);
}

Test(cpu_device, says_when_there_is_no_memory) {
    Device *device = device_open(1, PRECISION_A16);
    CHECK(device_alloc(device, SIZE_MAX - 8) == NULL, "got memory");
    CHECK_INT(device_error(device)->code, ERROR_MEMORY);
    device_close(device);
}

// Only sizes are announced: nothing of this is allocated or read.
Test(cpu_project, weights_larger_than_all_memory_are_refused) {
    const Matrix small = {.dtype = DTYPE_F32, .rows = 64, .cols = 64};
    const Matrix huge = {.dtype = DTYPE_F32, .rows = (size_t)1 << 20, .cols = SIZE_MAX >> 30};
    const MemoryPlan plan = {.max_rows = 1};
    Device *device = device_open(1, PRECISION_F32);
    device_plan_matrix(device, &small);
    device_plan(device, &plan);
    CHECK_INT(device_error(device)->code, 0);
    for (int i = 0; i < 256; i++)
        device_plan_matrix(device, &huge);
    device_plan(device, &plan);
    CHECK_INT(device_error(device)->code, ERROR_MEMORY);
    CHECK(strstr(device_error(device)->message, "the weights take"), "%s",
          device_error(device)->message);
    device_close(device);
}
