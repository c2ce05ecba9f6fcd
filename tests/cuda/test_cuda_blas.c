// How the CUDA backend uses cuBLASLt, by the emulator's stand-in (tests/cuda/cublaslt.cpp): when
// and how often, without it, in pieces, and with every call failing once. What comes out is checked
// with the other numbers of `project`, in test_kernels_project.c.
#include "kernels/cuda/project/blas.h"
#include "tests/cuda/emulator.h"
#include "tests/support/device.h"
#include "tests/test.h"

#include <stdio.h>

enum { PROMPT = 64, COLS = 64 };

// x (n, COLS) through a matrix of one type, in an open device; malloced.
static float *run(Device *device, const Matrix *m, int n) {
    TestRandom random = {11};
    DeviceMatrix *dm = device_matrix(device, m);
    float *x = random_floats(&random, (size_t)n * COLS, 1.0f);
    float *dx = upload_floats(device, x, (size_t)n * COLS);
    float *out = poisoned(device, (size_t)n * m->rows);
    project(device, dx, n, &(Projection){out, dm, NULL}, 1);
    float *got = fetch(device, out, (size_t)n * m->rows);
    free(x);
    return got;
}

static long products_of(Precision precision, DType dtype, int n) {
    TestRandom random = {12};
    Matrix m = random_matrix(&random, dtype, 9, COLS);
    Device *device = test_device(1, precision);
    device_matrix(device, &m); // so that device_reserve knows its size
    device_reserve(device, PROMPT);
    long before = emulator_cublas_products();
    free(run(device, &m, n));
    test_device_close(device);
    random_matrix_free(&m);
    return emulator_cublas_products() - before;
}

// Both parts of x are rows of one product; a second one has the second part of the weights.
Test(cuda_blas, multiplies_from_64_rows_on_as_often_as_the_precision_needs) {
    static const struct {
        DType dtype;
        int f32, a16, a8;
    } WANTED[] = {{DTYPE_F32, 1, 1, 1},
                  {DTYPE_BF16, 1, 1, 1},
                  {DTYPE_F16, 1, 2, 1},
                  {DTYPE_Q8_0, 1, 2, 1},
                  {DTYPE_Q4_0, 1, 2, 1}};
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        DType dtype = WANTED[i].dtype;
        CHECK_INT(products_of(PRECISION_F32, dtype, PROMPT), WANTED[i].f32);
        CHECK_INT(products_of(PRECISION_A16, dtype, PROMPT), WANTED[i].a16);
        CHECK_INT(products_of(PRECISION_A8, dtype, PROMPT), WANTED[i].a8);
        CHECK_INT(products_of(PRECISION_A16, dtype, PROMPT - 1), 0);
    }
}

Test(cuda_blas, without_the_library_our_own_kernels_multiply_and_the_device_says_so) {
    TestRandom random = {13};
    Matrix m = random_matrix(&random, DTYPE_Q8_0, 9, COLS);
    float *got[2];
    for (int hidden = 0; hidden < 2; hidden++) {
        Device *device = test_device(1, PRECISION_A16);
        device_matrix(device, &m);
        device_reserve(device, PROMPT);
        emulator_hide_cublas(hidden);
        long before = emulator_cublas_products();
        got[hidden] = run(device, &m, PROMPT);
        CHECK_INT(emulator_cublas_products() - before, hidden ? 0 : 2);
        const char *said = strstr(device_info(device)->description, ", no cuBLASLt");
        CHECK(hidden ? said && !said[13] : !said, "%s", device_info(device)->description);
        free(run(device, &m, PROMPT)); // and says it once
        CHECK(!hidden || !strcmp(strstr(device_info(device)->description, ", no"), ", no cuBLASLt"),
              "%s", device_info(device)->description);
        test_device_close(device);
    }
    emulator_hide_cublas(0);
    for (size_t i = 0; i < PROMPT * m.rows; i++)
        CHECK_NEAR(got[0][i], got[1][i], 1e-3);
    free(got[0]), free(got[1]);
    random_matrix_free(&m);
}

// A matrix that comes after device_reserve finds less room than it would fill: 70 rows of 200. Real
// ones of more than 32 MiB go the same way.
Test(cuda_blas, large_matrices_go_in_pieces) {
    static const DType TYPES[] = {DTYPE_Q4_K, DTYPE_F16, DTYPE_Q8_0};
    enum { LARGE = 200, WIDE = 256 };
    TestRandom random = {14};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++) {
        Matrix m = random_matrix(&random, TYPES[t], LARGE, WIDE), small = m;
        small.rows = 70;
        Device *device = test_device(1, PRECISION_A16);
        device_matrix(device, &small);
        device_reserve(device, PROMPT);
        DeviceMatrix *dm = device_matrix(device, &m);
        float *x = random_floats(&random, PROMPT * WIDE, 1.0f);
        float *dx = upload_floats(device, x, PROMPT * WIDE);
        float *many = poisoned(device, PROMPT * LARGE), *few = poisoned(device, LARGE);
        long before = emulator_cublas_products();
        project(device, dx, PROMPT, &(Projection){many, dm, NULL}, 1);
        project(device, dx, 1, &(Projection){few, dm, NULL}, 1);
        float *a = fetch(device, many, PROMPT * LARGE), *b = fetch(device, few, LARGE);
        CHECK_INT(emulator_cublas_products() - before, 2 * 4); // 64, 64, 64 and 8 rows
        for (int r = 0; r < LARGE; r++)
            CHECK_NEAR(a[r], b[r], 1e-3);
        for (int i = 0; i < PROMPT * LARGE; i++)
            CHECK(isfinite(a[i]), "output %d is missing", i);
        free(a), free(b), free(x);
        test_device_close(device);
        random_matrix_free(&m);
    }
}

// Every shape is asked about once: another call of the same shape makes the same host calls but for
// those of the plan.
Test(cuda_blas, a_shape_is_asked_about_once) {
    TestRandom random = {15};
    Matrix m = random_matrix(&random, DTYPE_BF16, 9, COLS);
    Device *device = test_device(1, PRECISION_A16);
    DeviceMatrix *dm = device_matrix(device, &m);
    device_reserve(device, PROMPT);
    float *x = poisoned(device, PROMPT * COLS), *out = poisoned(device, PROMPT * 9);
    long calls[3];
    for (int i = 0; i < 3; i++) {
        emulator_fail_call(0, 0);
        project(device, x, PROMPT, &(Projection){out, dm, NULL}, 1);
        calls[i] = emulator_calls();
    }
    CHECK(calls[0] > calls[1], "%ld, then %ld host calls", calls[0], calls[1]);
    CHECK_INT(calls[1], 3); // taking x apart, a product, joining its halves
    CHECK_INT(calls[2], calls[1]);
    test_device_close(device);
    random_matrix_free(&m);
}

// ---- measuring, and faults ----

Test(cuda_blas, measures_a_product) {
    Device *device = test_device(1, PRECISION_A16);
    CHECK(blas_seconds(device, 24, 8, 20, 2) > 0.0, "no time has passed");
    emulator_hide_cublas(1);
    Device *without = test_device(1, PRECISION_A16);
    CHECK(blas_seconds(without, 24, 8, 20, 2) == 0.0, "what is not there takes no time");
    emulator_hide_cublas(0);
    test_device_close(device), test_device_close(without);
}

// Two projections of a prompt, the second with a bias, and a measurement; the code of the failure.
static bool try_all(const Matrix *m, long *calls, Error *error) {
    float x[PROMPT * COLS] = {1.0f}, got[1];
    Device *device = device_open(1, PRECISION_A16);
    DeviceMatrix *dm = device_matrix(device, m);
    device_reserve(device, PROMPT);
    float *dx = device_alloc(device, sizeof x), *bias = device_alloc(device, 9 * sizeof *bias);
    float *out = device_alloc(device, PROMPT * 9 * sizeof *out);
    device_upload(device, dx, x, sizeof x);
    project(device, dx, PROMPT, (Projection[]){{out, dm, NULL}, {out, dm, bias}}, 2);
    device_download(device, got, out, sizeof got);
    double seconds = blas_seconds(device, 9, 8, 8, 1);
    *error = *device_error(device);
    CHECK(error->code ? seconds < 0.0 : seconds > 0.0, "%g seconds", seconds);
    *calls = emulator_calls();
    device_close(device);
    return !error->code;
}

Test(cuda_blas, every_call_fails_once) {
    TestRandom random = {16};
    Matrix m = random_matrix(&random, DTYPE_Q8_0, 9, COLS);
    Error error = {0};
    long calls, made, told = 0;
    emulator_fail_call(0, 0);
    CHECK(try_all(&m, &calls, &error), "%s", error.message);
    CHECK(calls > 60, "only %ld host calls", calls);
    for (long i = 1; i <= calls; i++) {
        static const int ERRORS[] = {2, 719}; // out of memory, a failed launch
        emulator_fail_call(i, ERRORS[i % 2]);
        CHECK(!try_all(&m, &made, &error), "call %ld is not missed", i);
        CHECK(error.code == ERROR_DEVICE, "call %ld: %d %s", i, error.code, error.message);
        bool blas =
            strstr(error.message, "GPU: cublasLt") && strstr(error.message, "CUBLAS_STATUS");
        CHECK(blas || strstr(error.message, "GPU: cuda") || strstr(error.message, "_kernel"),
              "call %ld: %s", i, error.message);
        if (strstr(error.message, "cublasLtMatmul:") || strstr(error.message, "cublasLtMatmul for"))
            CHECK(strstr(error.message, " rows by bf16 weights (9, "), "%s", error.message);
        told += blas;
        CHECK_INT(emulator_live_objects(), 0);
    }
    CHECK(told > 20, "only %ld of %ld were cuBLASLt's", told, calls);
    emulator_fail_call(0, 0);
    random_matrix_free(&m);
}
