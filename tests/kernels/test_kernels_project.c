// project: every type of weights in every precision against plain double loops over what
// quant.h says the elements are, within the bounds that precision.h implies.
#include "kernels/precision.h"
#include "tests/support/device.h"
#include "weights/quant.h"

enum { N = 5, PROMPT = 64 }; // rows; PROMPT: so many that a GPU takes another way

static const Precision PRECISIONS[] = {PRECISION_F32, PRECISION_A16, PRECISION_A8};

// Where the two largest |x| stand, the lowest columns among equals: the extracted outliers.
static void find_largest(size_t at[2], const float *x, size_t cols) {
    for (size_t i = 0; i < 2; i++) {
        at[i] = SIZE_MAX;
        for (size_t k = 0; k < cols; k++)
            if (!(i && k == at[0]) && (at[i] == SIZE_MAX || fabsf(x[k]) > fabsf(x[at[i]])))
                at[i] = k;
    }
}

// What one output may be off by. The sum itself: float32 rounding over `cols` terms, four times
// what a random walk gives. The activations: half a step of the integers of their group without
// its outliers, or of bf16.
static double bound(const Matrix *m, const float *w, const float *x, int n, Precision precision) {
    double sum = 0.0, steps = 0.0;
    size_t left[2];
    find_largest(left, x, m->cols);
    int levels = precision == PRECISION_A8 ? A8_LEVELS : A16_LEVELS;
    for (size_t g = 0; g < m->cols; g += ACTIVATION_GROUP) {
        double amax = 0.0, weights = 0.0;
        for (size_t k = g; k < m->cols && k < g + ACTIVATION_GROUP; k++) {
            if (k != left[0] && k != left[1]) amax = fmax(amax, fabs((double)x[k]));
            weights += fabs((double)w[k]);
            sum += fabs((double)w[k] * (double)x[k]);
        }
        steps += weights * (amax / levels) * 0.501;
    }
    bool is_cuda = !strcmp(TEST_BACKEND, "cuda"), in_parts = n >= PROMPT && is_cuda;
    double rounding = 4.0 * 0x1p-24 * sqrt((double)m->cols + 1.0) * sum + 1e-30;
    if (precision == PRECISION_F32) return rounding;
    // An affine type adds two large parts that may cancel: q * s and m, each rounded by itself.
    int losses = m->dtype == DTYPE_BF16 ? 1 : m->dtype == DTYPE_F16 ? 2 : 3; // project_blas.cu
    double parts = sum * (precision == PRECISION_A8 ? 0x1.02p-7 : losses * 0x1.02p-16);
    if (matrix_group(m)) return 8.0 * rounding + (in_parts ? parts : steps);
    if (precision == PRECISION_A8) return rounding + parts;
    return in_parts && m->dtype != DTYPE_F32 ? rounding + parts : rounding;
}

static void check_matrix(Precision precision, const Matrix *m, const float *x, int n,
                         const float *bias, const float *out) {
    float *w = malloc(m->cols * sizeof *w);
    for (size_t r = 0; r < m->rows; r++) {
        matrix_row(w, m, r);
        for (size_t i = 0; i < (size_t)n; i++) {
            const float *row = x + i * m->cols;
            double wanted = bias ? (double)bias[r] : 0.0;
            for (size_t k = 0; k < m->cols; k++)
                wanted += (double)w[k] * (double)row[k];
            double allowed = bound(m, w, row, n, precision) + fabs(wanted) * 0x1p-23;
            double got = (double)out[i * m->rows + r];
            CHECK(fabs(got - wanted) <= allowed,
                  "%s %s (%zu, %zu) row %zu of %zu: got %.9g, wanted %.9g +- %.2g",
                  precision_name(precision), dtype_info(m->dtype)->name, m->rows, m->cols, i, r,
                  got, wanted, allowed);
        }
    }
    free(w);
}

// n rows by two matrices of one call, the second with a bias.
static void check_two(Precision precision, DType dtype, DType second, int n, size_t rows,
                      size_t cols) {
    TestRandom random = {rows * 31 + cols + (uint64_t)dtype};
    Device *device = test_device(2, precision);
    Matrix a = random_matrix(&random, dtype, rows, cols);
    Matrix b = random_matrix(&random, second, 2 * rows + 1, cols);
    DeviceMatrix *da = device_matrix(device, &a), *db = device_matrix(device, &b);
    device_reserve(device, n);
    size_t numbers = (size_t)n * cols, out_a = (size_t)n * a.rows, out_b = (size_t)n * b.rows;
    float *x = random_floats(&random, numbers, 3.0f);
    // Two outliers in every other row, which would coarsen the steps of the others; not where a
    // bound is a share of |w| |x|, which they would be all of.
    for (size_t i = 0; matrix_group(&a) && n < PROMPT && i < (size_t)n; i += 2)
        for (int far = 0; far < OUTLIERS; far++)
            x[i * cols + test_random(&random) % cols] *= 1000.0f;
    float *bias = random_floats(&random, b.rows, 1.0f);
    float *dx = upload_floats(device, x, numbers), *dbias = upload_floats(device, bias, b.rows);
    float *da_out = poisoned(device, out_a), *db_out = poisoned(device, out_b);
    project(device, dx, n, (Projection[]){{da_out, da, NULL}, {db_out, db, dbias}}, 2);
    float *got_a = fetch(device, da_out, out_a), *got_b = fetch(device, db_out, out_b);
    check_matrix(precision, &a, x, n, NULL, got_a);
    check_matrix(precision, &b, x, n, bias, got_b);
    free(got_a), free(got_b), free(x), free(bias);
    test_device_close(device);
    random_matrix_free(&a), random_matrix_free(&b);
}

static void check_rows(Precision precision, DType dtype, int n, size_t rows, size_t cols) {
    check_two(precision, dtype, dtype, n, rows, cols);
}

static void check_type(Precision precision, DType dtype, size_t rows, size_t cols) {
    check_rows(precision, dtype, N, rows, cols);
}

static void check_types(Precision precision) {
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        size_t block = dtype_info(dtype)->block;
        check_type(precision, dtype, 17, 3 * (block > 1 ? block : 64));
        check_type(precision, dtype, 1, block > 1 ? block : 1);
        check_type(precision, dtype, 33, block > 1 ? 2 * block : 40);
    }
}

Test(project, f32_is_within_rounding_of_double) {
    check_types(PRECISION_F32);
}

Test(project, a16_is_within_half_a_step_of_double) {
    check_types(PRECISION_A16);
}

Test(project, a8_is_within_half_a_step_of_double) {
    check_types(PRECISION_A8);
}

// Every type beside the next but one and the next but four, both of which are of all kinds.
Test(project, matrices_of_two_types_in_one_call) {
    static const int COUNTS[] = {1, 3, 17, 70};
    for (size_t p = 0; p < 3; p++)
        for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++)
            for (int i = 0; i < 4; i++) {
                if (EMULATED((i + (int)dtype + (int)p) % 2, 0)) continue;
                DType second = (DType)((dtype + (i % 2 ? 2 : 5)) % DTYPE_COUNT);
                check_two(PRECISIONS[p], dtype, second, COUNTS[i], 13, EMULATED(256, 512));
            }
}

Test(project, columns_that_fill_no_vector) {
    static const size_t COLS[] = {2, 8, 15, 16, 17, 31, 33, 63, 100, 257};
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < sizeof COLS / sizeof *COLS; i++) {
            check_type(PRECISIONS[p], DTYPE_F32, 7, COLS[i]);
            check_rows(PRECISIONS[p], DTYPE_F32, 1, 7, COLS[i]); // which has a kernel of its own
            check_type(PRECISIONS[p], DTYPE_F16, 7, COLS[i]);
            check_type(PRECISIONS[p], DTYPE_BF16, 7, COLS[i]);
            check_type(PRECISIONS[p], DTYPE_Q8_GROUP, 7, COLS[i]);
        }
}

// More columns than a block of a GPU has room for, alone or with several rows of x.
Test(project, wide_rows) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_K};
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
            for (int n = 1; n <= 8; n += n == 1 ? 2 : 5)
                check_rows(PRECISIONS[p], TYPES[i], n, 5, EMULATED(n < 8 ? 13312 : 4608, 13312));
    for (size_t cols = 8200; cols <= 8201; cols++)
        check_rows(PRECISION_A16, DTYPE_BF16, 3, 50, cols);
    check_two(PRECISION_A16, DTYPE_Q4_K, DTYPE_Q8_0, 20, 5, 4096);
}

Test(project, the_rows_of_a_prompt) {
    for (size_t p = 0; p < 3; p++)
        for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            size_t block = dtype_info(dtype)->block;
            check_rows(PRECISIONS[p], dtype, PROMPT, EMULATED(5, 17), block > 1 ? 2 * block : 96);
            check_rows(PRECISIONS[p], dtype, PROMPT + 6, EMULATED(9, 33), block > 1 ? block : 41);
            check_rows(PRECISIONS[p], dtype, PROMPT - 1, 3, block > 1 ? block : 33);
        }
}

// W (2, 32) in Q8_0: d = 0.5, q[0][0] = 3, q[0][31] = -128, q[1][1] = 5; x[0] = 127, x[1] = -2.
// y = (0.5 * 3 * 127, 0.5 * 5 * -2) = (190.5, -5); x[31] = 1 adds -64 to the first.
Test(project, a_block_by_hand) {
    uint8_t blocks[2][34] = {{0}};
    for (int r = 0; r < 2; r++)
        blocks[r][1] = 0x38; // half 0x3800 = 0.5
    blocks[0][2] = 3;
    blocks[0][2 + 31] = 0x80;
    blocks[1][2 + 1] = 5;
    float x[32] = {127.0f, -2.0f, [31] = 1.0f};
    for (size_t p = 0; p < 3; p++) {
        Device *device = test_device(1, PRECISIONS[p]);
        Matrix m = {.dtype = DTYPE_Q8_0, .rows = 2, .cols = 32, .data = blocks};
        DeviceMatrix *dm = device_matrix(device, &m);
        device_reserve(device, 1);
        float *out = poisoned(device, 2);
        project(device, upload_floats(device, x, 32), 1, &(Projection){out, dm, NULL}, 1);
        float *got = fetch(device, out, 2);
        // 127 and -2 are extracted as outliers; 1, alone in its group, sets its scale.
        CHECK_NEAR(got[0], 126.5, PRECISIONS[p] == PRECISION_F32 ? 0 : 64 * 0x1p-23);
        CHECK_NEAR(got[1], -5.0, 0);
        free(got);
        test_device_close(device);
    }
}

static float *project_rows(Device *device, DeviceMatrix *m, size_t rows, size_t cols,
                           const float *x, int n) {
    float *out = poisoned(device, (size_t)n * rows);
    float *dx = upload_floats(device, x, (size_t)n * cols);
    project(device, dx, n, &(Projection){out, m, NULL}, 1);
    float *got = fetch(device, out, (size_t)n * rows);
    device_free(device, dx);
    device_free(device, out);
    return got;
}

// ---- the integers themselves ----

// A row of x: most groups random; one with ties between two integers, one of zeros, one whose scale
// would be subnormal, one with a single number. Two elements are far above all others, and equal.
static void fill_row(float *x, TestRandom *random, size_t cols, int levels) {
    for (size_t k = 0; k < cols; k++) {
        size_t group = k / ACTIVATION_GROUP % 6, at = k % ACTIVATION_GROUP;
        float step = at ? ((float)at * 3.0f - 50.5f) * 0x1p-4f : (float)levels * 0x1p-4f;
        x[k] = group == 1   ? step // d is 2^-4
               : group == 2 ? 0.0f
               : group == 3 ? (float)at * 1e-41f
               : group == 4 ? (at == 9 ? -0.7f : 0.0f)
                            : (float)test_random(random) * 0x1p-63f - 1.0f;
    }
    x[7] = -9000.0f, x[cols - 3] = 9000.0f;
}

// The unit matrix in Q8_0: column k of x comes out as z d, which is rounded once.
static void check_integers(Precision precision, size_t cols, int n) {
    TestRandom random = {cols * 64 + (uint64_t)n};
    int levels = precision == PRECISION_A8 ? A8_LEVELS : A16_LEVELS;
    uint8_t *blocks = calloc(cols * cols / 32, 34);
    float *x = random_floats(&random, (size_t)n * cols, 1.0f), *scales = calloc(cols, sizeof *x);
    int16_t *z = calloc(cols, sizeof *z);
    int32_t *sums = calloc(cols, sizeof *sums);
    CHECK(blocks && scales && z && sums, "no memory");
    for (size_t r = 0; r < cols; r++) {
        uint8_t *block = blocks + (r * cols + r) / 32 * 34;
        block[1] = 0x3c; // half 0x3c00 = 1
        block[2 + r % 32] = 1;
    }
    Device *device = test_device(1, precision);
    Matrix m = {.dtype = DTYPE_Q8_0, .rows = cols, .cols = cols, .data = blocks};
    DeviceMatrix *dm = device_matrix(device, &m);
    device_reserve(device, n);
    for (int i = 0; i < n; i++)
        fill_row(x + (size_t)i * cols, &random, cols, levels);
    float *got = project_rows(device, dm, cols, cols, x, n);
    for (int i = 0; i < n; i++) {
        const float *row = x + (size_t)i * cols;
        Outlier outliers[OUTLIERS];
        activation_quantise(z, scales, sums, outliers, row, cols, levels);
        for (size_t k = 0; k < cols; k++) {
            bool out = k == outliers[0].column || k == outliers[1].column;
            float wanted = out ? row[k] : (float)z[k] * scales[k / ACTIVATION_GROUP];
            CHECK(got[(size_t)i * cols + k] == wanted,
                  "%s, row %d of %d, column %zu: %.9g, not %.9g", precision_name(precision), i, n,
                  k, (double)got[(size_t)i * cols + k], (double)wanted);
        }
    }
    test_device_close(device);
    free(got), free(x), free(scales), free(z), free(sums), free(blocks);
}

// Alone, in a batch, and in so many rows that a GPU quantises them in a kernel of its own; columns
// that fill a warp's loads and that do not.
Test(project, activations_become_the_integers_of_precision_h) {
    static const int COUNTS[] = {1, 3, 40};
    for (int i = 0; i < 3; i++)
        for (size_t cols = 32; cols <= EMULATED(224, 1248); cols += EMULATED(96, 64)) {
            check_integers(PRECISION_A16, cols, COUNTS[i]);
            check_integers(PRECISION_A8, cols, COUNTS[i]);
        }
}

// So many rows together have the bits of one alone: any number, or as many as a GPU does not take
// for a prompt, whose products a library makes in an order of its own.
static size_t same_bits_up_to(const Device *device, size_t most) {
    enum { NO_PROMPT = 37 };
    return device_info(device)->batch_invariant || most < NO_PROMPT ? most : NO_PROMPT;
}

// One row at a time, any number together, one thread or three: the same bits.
static void check_bits(DType dtype, size_t rows, size_t cols) {
    // On either side of the counts at which kernels/cpu changes its way.
    enum { MOST = EMULATED(37, 70) };
    static const int ALL[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 25, 31, 49, 64, MOST};
    static const int SOME[] = {1, 5, 9, 31};
    const int *counts = EMULATED(SOME, ALL);
    size_t n_counts = EMULATED(sizeof SOME, sizeof ALL) / sizeof *ALL;
    for (int p = 0; p < 3; p++) {
        TestRandom random = {(uint64_t)dtype};
        Matrix m = random_matrix(&random, dtype, rows, cols);
        float *x = random_floats(&random, MOST * cols, 1.0f), *wanted = NULL;
        for (int threads = 1; threads <= EMULATED(1, 3); threads += 2) {
            Device *device = test_device(threads, PRECISIONS[p]);
            DeviceMatrix *dm = device_matrix(device, &m);
            device_reserve(device, MOST);
            size_t most = same_bits_up_to(device, MOST);
            if (!wanted) wanted = project_rows(device, dm, rows, cols, x, (int)most);
            for (size_t c = 0; c < n_counts; c++) {
                size_t n = (size_t)counts[c], first = most - n;
                if (n > most) continue;
                float *got = project_rows(device, dm, rows, cols, x + first * cols, counts[c]);
                CHECK(!memcmp(got, wanted + first * rows, sizeof(float) * rows * n),
                      "%s %s, %zu rows, %d threads", precision_name(PRECISIONS[p]),
                      dtype_info(dtype)->name, n, threads);
                free(got);
            }
            test_device_close(device);
        }
        free(wanted), free(x);
        random_matrix_free(&m);
    }
}

Test(project, rows_and_threads_do_not_change_a_bit) {
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++)
        check_bits(dtype, EMULATED(19, 45), 256);
    check_bits(DTYPE_BF16, 3, 8456);
    check_bits(DTYPE_Q4_0, 3, 12352);
    // A GPU cuts a batch into groups of rows where not all fit in shared memory at once, and has
    // more loads in flight where a matrix has few rows.
    check_bits(DTYPE_BF16, 3, 2560);
    check_bits(DTYPE_Q8_0, 3, 4608);
    check_bits(DTYPE_F16, 50, 1288);
    check_bits(DTYPE_BF16, 50, 1032);
    check_bits(DTYPE_F32, 50, 520);
    check_bits(DTYPE_Q4_1, 50, 1056);
}

// The activations' scale group says NaN for a row with infinity or NaN in it, and for no other row.
Test(project, what_is_not_finite_stays_so_and_stays_in_its_row) {
    TestRandom random = {5};
    for (int p = 0; p < 3; p++) {
        for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            Matrix m = random_matrix(&random, dtype, 19, 256);
            Device *device = test_device(1, PRECISIONS[p]);
            DeviceMatrix *dm = device_matrix(device, &m);
            device_reserve(device, 3);
            float *x = random_floats(&random, 3 * 256, 1.0f);
            x[256 + 200] = p == 1 ? INFINITY : NAN;
            float *got = project_rows(device, dm, 19, 256, x, 3);
            for (int r = 0; r < 19; r++) {
                CHECK(isfinite(got[r]) && isfinite(got[2 * 19 + r]),
                      "a non-finite row changed its neighbour");
                CHECK(!isfinite(got[19 + r]), "%s %s hides what is not finite",
                      precision_name(PRECISIONS[p]), dtype_info(dtype)->name);
            }
            free(got), free(x);
            test_device_close(device);
            random_matrix_free(&m);
        }
    }
}

Test(project, zeros_and_tiny_numbers_give_zero_or_nearly) {
    TestRandom random = {6};
    float x[2 * 256] = {0};
    for (int k = 0; k < 256; k++)
        x[256 + k] = 1e-42f; // their scale would be subnormal
    for (int p = 0; p < 3; p++) {
        for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++) {
            Matrix m = random_matrix(&random, dtype, 9, 256);
            Device *device = test_device(1, PRECISIONS[p]);
            DeviceMatrix *dm = device_matrix(device, &m);
            device_reserve(device, 2);
            float *got = project_rows(device, dm, 9, 256, x, 2);
            for (int r = 0; r < 18; r++)
                CHECK_NEAR(got[r], 0.0, r < 9 ? 0.0 : 1e-39);
            free(got);
            test_device_close(device);
            random_matrix_free(&m);
        }
    }
}

// Rows stored interleaved (GGUF llama, llama2.c) come out in the model's order.
Test(project, follows_the_row_order) {
    TestRandom random = {8};
    Matrix m = random_matrix(&random, DTYPE_Q8_0, 3 * 10, 64);
    float *x = random_floats(&random, 64, 1.0f);
    for (int p = 0; p < 3; p++) {
        Device *device = test_device(2, PRECISIONS[p]);
        Matrix turned = m;
        turned.head_dim = 10;
        turned.rope_dim = 8; // 8 of 10 rows of a head; 0 2 4 6 1 3 5 7 | 8 9
        static const int ORDER[] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 9};
        DeviceMatrix *plain = device_matrix(device, &m), *other = device_matrix(device, &turned);
        device_reserve(device, 1);
        float *a = poisoned(device, 30), *b = poisoned(device, 30);
        float *dx = upload_floats(device, x, 64);
        project(device, dx, 1, (Projection[]){{a, plain, NULL}, {b, other, NULL}}, 2);
        float *stored = fetch(device, a, 30), *got = fetch(device, b, 30);
        for (int r = 0; r < 30; r++)
            CHECK_NEAR(got[r], stored[r / 10 * 10 + ORDER[r % 10]], 0);
        free(stored), free(got);
        test_device_close(device);
    }
    free(x);
    random_matrix_free(&m);
}
