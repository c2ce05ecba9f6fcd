// The row and element operations of kernels.h: values worked by hand, and double loops.
// rope, project, attention and sample have files of their own.
#include "base/clock.h"
#include "kernels/limits.h"
#include "tests/support/device.h"
#include "weights/quant.h"

// ---- norms ----

static float *run_rmsnorm(const float *x, const float *w, int n, int dim, float eps, int threads) {
    Device *device = test_device(threads, PRECISION_F32);
    size_t count = (size_t)n * (size_t)dim;
    float *out = poisoned(device, count);
    device_reserve(device, n);
    rmsnorm(device, out, upload_floats(device, x, count), upload_floats(device, w, (size_t)dim), n,
            dim, eps);
    float *got = fetch(device, out, count);
    test_device_close(device);
    return got;
}

// rms of (3, 4) is sqrt(12.5).
Test(rmsnorm, by_hand) {
    float *got = run_rmsnorm((float[]){3, 4}, (float[]){1, 2}, 1, 2, 0.0f, 1);
    CHECK_NEAR(got[0], 0.848528137, 2e-7);
    CHECK_NEAR(got[1], 2.262741700, 4e-7);
    free(got);
    // eps 0.5: sqrt(12.5 + 0.5)
    got = run_rmsnorm((float[]){3, 4}, (float[]){1, 2}, 1, 2, 0.5f, 1);
    CHECK_NEAR(got[0], 0.832050294, 2e-7);
    free(got);
}

Test(rmsnorm, equals_the_double_loop) {
    static const int DIMS[] = {1, 2, 7, 15, 16, 17, 40, 64, 96, 576, 1001, 4096};
    static const float SCALES[] = {1.0f, 1e-6f, 1e5f};
    TestRandom random = {1};
    for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++) {
        for (int s = 0; s < 3; s++) {
            int dim = DIMS[d], n = 3;
            float *x = random_floats(&random, (size_t)(n * dim), SCALES[s]);
            float *w = random_floats(&random, (size_t)dim, 1.0f);
            float *got = run_rmsnorm(x, w, n, dim, 1e-6f, 2);
            for (int i = 0; i < n; i++) {
                double squares = 0.0;
                for (int j = 0; j < dim; j++)
                    squares += (double)x[i * dim + j] * (double)x[i * dim + j];
                double rms = sqrt(squares / dim + (double)1e-6f);
                for (int j = 0; j < dim; j++) {
                    double wanted = (double)x[i * dim + j] / rms * (double)w[j];
                    CHECK_NEAR(got[i * dim + j], wanted, 1e-6 * fabs(wanted) + 1e-30);
                }
            }
            free(x), free(w), free(got);
        }
    }
}

Test(rmsnorm, of_zero_is_zero_and_of_nan_is_nan) {
    float x[80] = {0}, w[40];
    for (int j = 0; j < 40; j++)
        w[j] = 1.0f;
    x[40 + 7] = NAN;
    float *got = run_rmsnorm(x, w, 2, 40, 1e-5f, 1);
    for (int j = 0; j < 40; j++) {
        CHECK_NEAR(got[j], 0.0, 0.0);
        CHECK(isnan(got[40 + j]), "element %d", j);
    }
    free(got);
}

Test(rmsnorm, in_place_alone_or_among_rows_gives_the_same_bits) {
    TestRandom random = {2};
    for (int dim = 33; dim <= 577; dim += 136) {
        size_t count = 9 * (size_t)dim;
        float *x = random_floats(&random, count, 1.0f);
        float *w = random_floats(&random, (size_t)dim, 1.0f);
        float *all = run_rmsnorm(x, w, 9, dim, 1e-5f, 3);
        for (int i = 0; i < 9; i++) {
            float *one = run_rmsnorm(x + i * dim, w, 1, dim, 1e-5f, 1);
            CHECK(!memcmp(one, all + i * dim, (size_t)dim * sizeof *one), "row %d", i);
            free(one);
        }
        Device *device = test_device(1, PRECISION_F32);
        float *dx = upload_floats(device, x, count);
        rmsnorm(device, dx, dx, upload_floats(device, w, (size_t)dim), 9, dim, 1e-5f);
        float *in_place = fetch(device, dx, count);
        CHECK(!memcmp(in_place, all, count * sizeof *all), "in place");
        test_device_close(device);
        free(x), free(w), free(all), free(in_place);
    }
}

static float *run_layernorm(const float *x, const float *w, const float *b, int n, int dim) {
    Device *device = test_device(2, PRECISION_F32);
    size_t count = (size_t)n * (size_t)dim;
    float *out = poisoned(device, count);
    layernorm(device, out, upload_floats(device, x, count), upload_floats(device, w, (size_t)dim),
              b ? upload_floats(device, b, (size_t)dim) : NULL, n, dim, 1e-5f);
    float *got = fetch(device, out, count);
    test_device_close(device);
    return got;
}

// (1, 2, 3, 4): mean 2.5, biased variance 1.25.
Test(layernorm, by_hand) {
    float *got =
        run_layernorm((float[]){1, 2, 3, 4}, (float[]){1, 1, 2, 1}, (float[]){0, 0, 0, 10}, 1, 4);
    CHECK_NEAR(got[0], -1.341635, 2e-6);
    CHECK_NEAR(got[1], -0.447212, 2e-6);
    CHECK_NEAR(got[2], 0.894423, 2e-6);
    CHECK_NEAR(got[3], 11.341635, 2e-6);
    free(got);
}

Test(layernorm, equals_the_double_loop) {
    static const int DIMS[] = {2, 15, 17, 96, 768, 1001};
    TestRandom random = {4};
    for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++) {
        int dim = DIMS[d], n = 3;
        float *x = random_floats(&random, (size_t)(n * dim), 2.0f);
        float *w = random_floats(&random, (size_t)dim, 1.0f);
        for (int j = 0; j < n * dim; j++)
            x[j] += 3.0f; // a mean to subtract
        float *got = run_layernorm(x, w, NULL, n, dim);
        for (int i = 0; i < n; i++) {
            double sum = 0.0, squares = 0.0;
            for (int j = 0; j < dim; j++)
                sum += (double)x[i * dim + j];
            for (int j = 0; j < dim; j++)
                squares += pow((double)x[i * dim + j] - sum / dim, 2);
            for (int j = 0; j < dim; j++) {
                double wanted = ((double)x[i * dim + j] - sum / dim) /
                                sqrt(squares / dim + (double)1e-5f) * (double)w[j];
                CHECK_NEAR(got[i * dim + j], wanted, 1e-5 * (1.0 + fabs(wanted)));
            }
        }
        free(x), free(w), free(got);
    }
}

// ---- single numbers ----

static double exact(ActivationKind kind, double x) {
    switch (kind) {
    case ACTIVATE_SILU: return x / (1.0 + exp(-x));
    case ACTIVATE_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
    case ACTIVATE_GELU_ERF: return 0.5 * x * erfc(-x / sqrt(2.0));
    case ACTIVATE_RELU2: return x > 0.0 ? x * x : 0.0;
    }
    return NAN;
}

static float *run_activate(const float *gate, const float *up, size_t count, ActivationKind kind) {
    Device *device = test_device(2, PRECISION_F32);
    float *dg = upload_floats(device, gate, count);
    activate(device, dg, up ? upload_floats(device, up, count) : NULL, count, kind);
    float *got = fetch(device, dg, count);
    test_device_close(device);
    return got;
}

// Values from tables of the functions at 1, -1 and 3.
Test(activate, by_hand) {
    static const double WANTED[4][3] = {{0.731058579, -0.268941421, 2.857722380},
                                        {0.841191990, -0.158808010, 2.996362607},
                                        {0.841344746, -0.158655254, 2.995950306},
                                        {1.0, 0.0, 9.0}};
    for (int kind = 0; kind < 4; kind++) {
        float *got = run_activate((float[]){1, -1, 3}, (float[]){1, 1, 1}, 3, (ActivationKind)kind);
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(got[i], WANTED[kind][i], 5e-7 * (1 + fabs(WANTED[kind][i])));
        free(got);
    }
}

Test(activate, equals_double_everywhere_and_stays_finite) {
    enum { COUNT = 4003 };
    float x[COUNT], up[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = ((float)i - 2000.0f) * 0.01f;
        up[i] = (float)(i % 7) - 3.0f;
    }
    x[0] = -1e30f, x[1] = 1e18f, x[2] = -90.0f, x[3] = 90.0f, x[4] = -3e5f, x[5] = 0.0f;
    x[6] = 1e-30f;
    for (int kind = 0; kind < 4; kind++) {
        for (int with_up = 0; with_up < 2; with_up++) {
            float *got = run_activate(x, with_up ? up : NULL, COUNT, (ActivationKind)kind);
            for (int i = 0; i < COUNT; i++) {
                double f = exact((ActivationKind)kind, (double)x[i]);
                double wanted = f * (with_up ? (double)up[i] : 1.0);
                // Where f is small beside x, 1 + tanh or 1 + erf cancels.
                double slack = (2e-6 * fabs(f) + 3e-7 * fmin(fabs((double)x[i]), 8.0)) * 3.0;
                CHECK(fabs((double)got[i] - wanted) <= slack,
                      "kind %d of %g: got %.9g, wanted %.9g", kind, (double)x[i], (double)got[i],
                      wanted);
            }
            free(got);
        }
    }
}

Test(activate, nan_stays_nan) {
    for (int kind = 0; kind < 4; kind++) {
        float x[20] = {[3] = NAN};
        float *got = run_activate(x, NULL, 20, (ActivationKind)kind);
        CHECK(isnan(got[3]) && got[4] == 0.0f, "kind %d", kind);
        free(got);
    }
}

Test(add, adds_in_place) {
    enum { COUNT = 1003 };
    TestRandom random = {8};
    float *x = random_floats(&random, COUNT, 1.0f), *y = random_floats(&random, COUNT, 1.0f);
    Device *device = test_device(2, PRECISION_F32);
    float *dx = upload_floats(device, x, COUNT);
    add(device, dx, upload_floats(device, y, COUNT), COUNT);
    float *got = fetch(device, dx, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == x[i] + y[i], "element %d", i);
    free(x), free(y), free(got);
    test_device_close(device);
}

Test(scale, multiplies_every_element) {
    enum { COUNT = 5003 };
    TestRandom random = {8};
    float *x = random_floats(&random, COUNT, 1.0f);
    Device *device = test_device(2, PRECISION_F32);
    float *dx = upload_floats(device, x, COUNT);
    scale(device, dx, COUNT, 0.22f);
    float *got = fetch(device, dx, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == x[i] * 0.22f, "element %d", i);
    free(x), free(got);
    test_device_close(device);
}

// 15 tanh(1) = 11.4239.
Test(softcap, bends_towards_the_cap) {
    float x[] = {0.0f, 15.0f, -15.0f, 1e30f, -1e30f, 0.15f, NAN};
    static const double WANTED[] = {0.0, 11.4239123, -11.4239123, 15.0, -15.0, 0.149995};
    Device *device = test_device(1, PRECISION_F32);
    float *dx = upload_floats(device, x, 7);
    softcap(device, dx, 7, 15.0f);
    float *got = fetch(device, dx, 7);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(got[i], WANTED[i], 4e-6);
    CHECK(isnan(got[6]), "NaN");
    free(got);
    test_device_close(device);
}

// ---- embed ----

Test(embed, takes_rows_of_every_type) {
    enum { VOCAB = 11, POSITIONS = 5, N = 4 };
    TestRandom random = {9};
    int32_t tokens[N] = {10, 0, 3, 3}, positions[N] = {4, 0, 1, 2};
    for (DType dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        size_t dim = dtype_info(dtype)->block > 1 ? dtype_info(dtype)->block : 40;
        Matrix table = random_matrix(&random, dtype, VOCAB, dim);
        Matrix learned = random_matrix(&random, DTYPE_F32, POSITIONS, dim);
        Device *device = test_device(2, PRECISION_A16);
        DeviceMatrix *dt = device_matrix(device, &table), *dl = device_matrix(device, &learned);
        device_reserve(device, N);
        Rows rows = test_rows(device, N, tokens, positions, NULL);
        float *plain = poisoned(device, N * dim), *both = poisoned(device, N * dim);
        embed(device, plain, dt, NULL, 1.0f, &rows);
        embed(device, both, dt, dl, 25.25f, &rows);
        float *got = fetch(device, plain, N * dim), *sum = fetch(device, both, N * dim);
        float *row = malloc(2 * dim * sizeof *row), *place = row + dim;
        for (size_t i = 0; i < N; i++) {
            matrix_row(row, &table, (size_t)tokens[i]);
            matrix_row(place, &learned, (size_t)positions[i]);
            for (size_t j = 0; j < dim; j++) {
                CHECK(got[i * dim + j] == row[j], "%s: got %.9g, wanted %.9g",
                      dtype_info(dtype)->name, (double)got[i * dim + j], (double)row[j]);
                double wanted = 25.25 * (double)row[j] + (double)place[j];
                CHECK_NEAR(sum[i * dim + j], wanted, 3e-7 * (25.25 * fabs((double)row[j]) + 1.0));
            }
        }
        free(got), free(sum), free(row);
        test_device_close(device);
        random_matrix_free(&table), random_matrix_free(&learned);
    }
}

// ---- memory ----

Test(device, memory_is_zeroed_aligned_and_keeps_what_it_is_given) {
    Device *device = test_device(0, PRECISION_A16);
    CHECK(device_info(device)->threads >= 1 && device_info(device)->description[0],
          "no description");
    for (size_t bytes = 1; bytes < 5000; bytes = bytes * 3 + 1) {
        unsigned char *host = malloc(2 * bytes);
        memset(host, 0xff, 2 * bytes);
        void *memory = device_alloc(device, bytes);
        CHECK(memory && !((uintptr_t)memory & 63), "%zu bytes", bytes);
        device_download(device, host, memory, bytes);
        for (size_t i = 0; i < bytes; i++)
            CHECK_INT(host[i], 0);
        device_upload(device, memory, host + bytes, bytes);
        device_download(device, host, memory, bytes);
        CHECK(!memcmp(host, host + bytes, bytes), "%zu bytes", bytes);
        if (bytes % 2) device_free(device, memory); // the others go with the device
        free(host);
    }
    device_free(device, NULL);
    test_device_close(device);
    device_close(NULL);
}

Test(device, keeps_its_first_failure) {
    Device *device = test_device(1, PRECISION_A16);
    CHECK(!device_alloc(device, SIZE_MAX - 100), "gave out the whole address space");
    CHECK_INT(device_error(device)->code, test_memory_error());
    CHECK(!device_alloc(device, 64), "went on after a failure");
    rmsnorm(device, NULL, NULL, NULL, 1, 64, 1e-5f); // nothing happens
    device_close(device);
}

// The peaks that the kernels are compared with can be measured; others are 0 and no failure.
Test(device, measures_its_limits) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_Q8_0, DTYPE_Q4_0};
    TestRandom random = {21};
    Device *device = test_device(2, PRECISION_A16);
    CHECK(device_read_rate(device, 1 << 20) > 0, "%s", device_error(device)->message);
    for (int t = 0; t < 3; t++) {
        Matrix m = random_matrix(&random, TYPES[t], 32, 64);
        const DeviceMatrix *weight = device_matrix(device, &m);
        for (int n = 1; n < 100; n += 98) {
            Arithmetic arithmetic = project_arithmetic(device, weight, n);
            CHECK(arithmetic.products >= 1, "%d products", arithmetic.products);
            CHECK(device_peak_rate(device, arithmetic.kind) > 0, "%s, %d rows",
                  dtype_info(TYPES[t])->name, n);
        }
        random_matrix_free(&m);
    }
    for (int kind = 0; kind < PEAK_COUNT; kind++) {
        double rate = device_peak_rate(device, (PeakKind)kind);
        CHECK(rate >= 0, "%g", rate);
    }
    test_device_close(device);
}

// Only a GPU can wait for the host, and has a library for products.
Test(device, what_a_host_does_not_have_is_zero) {
    bool gpu = !strcmp(TEST_BACKEND, "cuda");
    Device *device = test_device(1, PRECISION_A16);
    CHECK(device_idle_seconds(device, true) == 0, "nobody watched before");
    double began = seconds_now();
    while (seconds_now() < began + 2e-3) {
    }
    double idle = device_idle_seconds(device, false);
    CHECK(gpu ? idle >= 2e-3 : idle == 0, "%g s", idle);
    double product = device_product_seconds(device, 2, 16, 8); // 0 without a library
    CHECK(product == 0 || (gpu && product > 0), "%g", product);
    test_device_close(device);
}
