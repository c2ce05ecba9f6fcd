// The examples by which attention is taught, on the kernels that models run.
#include "tests/support/device.h"

enum { WIDTH = 4, MOST = 8 };

// The output of one query behind n keys and their values (n, WIDTH), one head, into out[WIDTH].
static void attend(float out[WIDTH], const float *q, const float *k, const float *v, int n,
                   float scale) {
    Device *device = test_device(1, PRECISION_F32);
    Kv *kv = kv_open(device, &(KvShape){1, 1, 1, WIDTH, n, KV_F32, NULL, 0});
    device_reserve(device, n);
    KvView view = {kv, 0};
    Rows rows = test_rows(device, n, NULL, NULL, NULL);
    size_t size = (size_t)n * WIDTH;
    kv_write(device, &view, upload_floats(device, k, size), upload_floats(device, v, size), &rows);
    float queries[MOST * WIDTH] = {0};
    memcpy(queries + size - WIDTH, q, WIDTH * sizeof *q); // the last row sees all keys
    float *result = poisoned(device, size);
    AttentionShape shape = {1, 1, WIDTH, scale, {0}, 0};
    attention(device, result, upload_floats(device, queries, size), &view, &rows, &shape, NULL);
    float *got = fetch(device, result, size);
    memcpy(out, got + size - WIDTH, WIDTH * sizeof *out);
    free(got);
    test_device_close(device);
}

// q . k1 = 3, q . k2 = 1. The values are unit vectors, so the output is the weights themselves:
// softmax(3, 1) without the scale, softmax(1.5, 0.5) with 1 / sqrt(4).
Test(classroom, the_scale_makes_the_softmax_softer) {
    static const float Q[] = {2, 1, 0, 1}, K[] = {1, 0, 1, 1, 0, 1, 2, 0};
    static const float V[] = {1, 0, 0, 0, 0, 1, 0, 0};
    float out[WIDTH];
    attend(out, Q, K, V, 2, 1.0f);
    CHECK_NEAR(out[0], 0.880797, 1e-6);
    CHECK_NEAR(out[1], 0.119203, 1e-6);
    attend(out, Q, K, V, 2, 0.5f);
    CHECK_NEAR(out[0], 0.731059, 1e-6);
    CHECK_NEAR(out[1], 0.268941, 1e-6);
    CHECK_NEAR(out[2], 0, 0);
}

// Without positions attention is a set operation: keys and values in any order give one output.
Test(classroom, without_positions_the_order_of_the_keys_does_not_matter) {
    enum { N = 7 };
    static const int ORDER[N] = {3, 6, 0, 5, 1, 4, 2};
    TestRandom random = {42};
    float *q = random_floats(&random, WIDTH, 1), *k = random_floats(&random, N * WIDTH, 1.5f);
    float *v = random_floats(&random, N * WIDTH, 1), a[WIDTH], b[WIDTH];
    float k2[N * WIDTH], v2[N * WIDTH];
    for (int i = 0; i < N; i++) {
        memcpy(k2 + i * WIDTH, k + ORDER[i] * WIDTH, WIDTH * sizeof *k);
        memcpy(v2 + i * WIDTH, v + ORDER[i] * WIDTH, WIDTH * sizeof *v);
    }
    attend(a, q, k, v, N, 0.5f);
    attend(b, q, k2, v2, N, 0.5f);
    for (int i = 0; i < WIDTH; i++)
        CHECK_NEAR(a[i], b[i], 1e-6);
    free(q), free(k), free(v);
}

// A softmax takes no harm from large scores: 1e4 and -1e4 give weights of 1 and 0, not NaN.
Test(classroom, a_stable_softmax_survives_scores_of_ten_thousand) {
    static const float Q[] = {100, 0, 0, 0}, K[] = {100, 0, 0, 0, -100, 0, 0, 0};
    static const float V[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float out[WIDTH];
    attend(out, Q, K, V, 2, 1.0f);
    for (int i = 0; i < WIDTH; i++)
        CHECK_NEAR(out[i], (double)(i + 1), 0);
}
