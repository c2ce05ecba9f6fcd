// rope: values worked by hand, double loops for odd shapes, and the identities that make it what it
// is.
#include "tests/support/device.h"

// Rotating by 90 degrees takes (a, b) to (-b, a). Pairs (0, 2) and (1, 3); channels 4 and 5 are not
// rotated.
Test(rope, a_quarter_turn_of_part_of_a_head) {
    Device *device = test_device(1, PRECISION_F32);
    int32_t position = 1;
    Rows rows = test_rows(device, 1, NULL, &position, NULL);
    float c[] = {1, 1, 0, 1}, s[] = {0, 0, 1, 0}; // position 1 rotates pair 0 alone
    RopeTable table = {upload_floats(device, c, 4), upload_floats(device, s, 4), 4};
    float x[] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
    float *dx = upload_floats(device, x, 12);
    rope(device, dx, 2, 6, &table, &rows);
    float *got = fetch(device, dx, 12);
    static const float WANTED[] = {-3, 2, 1, 4, 5, 6, -30, 20, 10, 40, 50, 60};
    for (int j = 0; j < 12; j++)
        CHECK_NEAR(got[j], WANTED[j], 0);
    free(got);
    test_device_close(device);
}

static void make_tables(float *c, float *s, int half, int positions) {
    for (int t = 0; t < positions; t++)
        for (int j = 0; j < half; j++) {
            double angle = t * pow(10000.0, -(double)j / half);
            c[t * half + j] = (float)cos(angle);
            s[t * half + j] = (float)sin(angle);
        }
}

Test(rope, equals_the_double_loop_for_odd_shapes) {
    static const int SHAPES[][3] = {{1, 2, 2},   {3, 40, 40}, {5, 64, 64},  {2, 33, 32},
                                    {4, 80, 20}, {1, 6, 6},   {2, 128, 128}};
    enum { POSITIONS = 50, N = 7 };
    TestRandom random = {5};
    for (size_t k = 0; k < sizeof SHAPES / sizeof *SHAPES; k++) {
        int heads = SHAPES[k][0], hd = SHAPES[k][1], half = SHAPES[k][2] / 2;
        size_t count = (size_t)(N * heads * hd), entries = (size_t)(POSITIONS * half);
        float *x = random_floats(&random, count, 1.0f);
        float *c = random_floats(&random, entries, 0), *s = random_floats(&random, entries, 0);
        make_tables(c, s, half, POSITIONS);
        int32_t positions[N] = {0, 49, 3, 3, 17, 48, 1};
        Device *device = test_device(2, PRECISION_F32);
        Rows rows = test_rows(device, N, NULL, positions, NULL);
        RopeTable table = {upload_floats(device, c, entries), upload_floats(device, s, entries),
                           2 * half};
        float *dx = upload_floats(device, x, count);
        rope(device, dx, heads, hd, &table, &rows);
        float *got = fetch(device, dx, count);
        for (int i = 0; i < N * heads; i++) {
            const float *in = x + i * hd, *out = got + i * hd;
            const float *ci = c + positions[i / heads] * half,
                        *si = s + positions[i / heads] * half;
            for (int j = 0; j < hd; j++) {
                double wanted = (double)in[j];
                if (j < half)
                    wanted = (double)in[j] * (double)ci[j] - (double)in[j + half] * (double)si[j];
                else if (j < 2 * half)
                    wanted = (double)in[j] * (double)ci[j - half] +
                             (double)in[j - half] * (double)si[j - half];
                CHECK_NEAR(out[j], wanted, 5e-7);
            }
        }
        free(x), free(c), free(s), free(got);
        test_device_close(device);
    }
}

static double dot(const float *a, const float *b, int n) {
    double sum = 0.0;
    for (int j = 0; j < n; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

// q at position p and k at position p - 5: their product is the same for every p.
Test(rope, products_depend_on_relative_positions_only) {
    enum { HD = 40, POSITIONS = 400 };
    TestRandom random = {6};
    float *q = random_floats(&random, HD, 1.0f), *k = random_floats(&random, HD, 1.0f);
    float *c = random_floats(&random, POSITIONS * HD / 2, 0);
    float *s = random_floats(&random, POSITIONS * HD / 2, 0);
    make_tables(c, s, HD / 2, POSITIONS);
    Device *device = test_device(1, PRECISION_F32);
    RopeTable table = {upload_floats(device, c, POSITIONS * HD / 2),
                       upload_floats(device, s, POSITIONS * HD / 2), HD};
    double first = 0.0;
    for (int32_t p = 5; p < POSITIONS; p += 79) {
        int32_t earlier = p - 5;
        Rows at_p = test_rows(device, 1, NULL, &p, NULL);
        Rows at_earlier = test_rows(device, 1, NULL, &earlier, NULL);
        float *dq = upload_floats(device, q, HD), *dk = upload_floats(device, k, HD);
        rope(device, dq, 1, HD, &table, &at_p);
        rope(device, dk, 1, HD, &table, &at_earlier);
        float *rq = fetch(device, dq, HD), *rk = fetch(device, dk, HD);
        if (p == 5) first = dot(rq, rk, HD);
        CHECK_NEAR(dot(rq, rk, HD), first, 1e-5);
        CHECK_NEAR(dot(rq, rq, HD), dot(q, q, HD), 1e-5);
        free(rq), free(rk);
    }
    free(q), free(k), free(c), free(s);
    test_device_close(device);
}

// Interleaved pairs (2j, 2j+1) rotated by hand, then put in half-split order, equal the permuted
// vector under this backend's half-split rope.
Test(rope, permuted_interleaved_equals_half_split) {
    enum { HD = 24, HALF = 12 };
    TestRandom random = {7};
    float *x = random_floats(&random, HD, 1.0f), split[HD], c[4 * HALF], s[4 * HALF];
    make_tables(c, s, HALF, 4);
    for (int j = 0; j < HALF; j++) {
        split[j] = x[2 * j];
        split[j + HALF] = x[2 * j + 1];
    }
    Device *device = test_device(1, PRECISION_F32);
    int32_t position = 3;
    Rows rows = test_rows(device, 1, NULL, &position, NULL);
    RopeTable table = {upload_floats(device, c, 4 * HALF), upload_floats(device, s, 4 * HALF), HD};
    float *dx = upload_floats(device, split, HD);
    rope(device, dx, 1, HD, &table, &rows);
    float *got = fetch(device, dx, HD);
    for (int j = 0; j < HALF; j++) {
        double co = (double)c[3 * HALF + j], si = (double)s[3 * HALF + j];
        CHECK_NEAR(got[j], (double)x[2 * j] * co - (double)x[2 * j + 1] * si, 5e-7);
        CHECK_NEAR(got[j + HALF], (double)x[2 * j + 1] * co + (double)x[2 * j] * si, 5e-7);
    }
    free(x), free(got);
    test_device_close(device);
}

// A rotation keeps the mean square, so a weightless norm and RoPE commute.
Test(rmsnorm, without_weights_commutes_with_rope) {
    TestRandom random = {3};
    float *x = random_floats(&random, 5 * 40, 1.0f), w[40], c[5 * 20], s[5 * 20];
    for (int j = 0; j < 40; j++)
        w[j] = 1.0f;
    for (int j = 0; j < 100; j++) {
        c[j] = cosf((float)j);
        s[j] = sinf((float)j);
    }
    float *results[2];
    for (int order = 0; order < 2; order++) {
        Device *device = test_device(1, PRECISION_F32);
        Rows rows = test_rows(device, 5, NULL, NULL, NULL);
        float *dx = upload_floats(device, x, 200), *dw = upload_floats(device, w, 40);
        RopeTable table = {upload_floats(device, c, 100), upload_floats(device, s, 100), 40};
        if (order) rope(device, dx, 1, 40, &table, &rows);
        rmsnorm(device, dx, dx, dw, 5, 40, 1e-6f);
        if (!order) rope(device, dx, 1, 40, &table, &rows);
        results[order] = fetch(device, dx, 200);
        test_device_close(device);
    }
    for (int j = 0; j < 200; j++)
        CHECK_NEAR(results[0][j], results[1][j], 1e-6);
    free(results[0]), free(results[1]), free(x);
}
