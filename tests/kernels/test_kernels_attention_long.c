// attention over texts so long that a GPU cuts a row into many splits and joins them level by
// level: plain double loops over the keys that key_visible names, and the same bits however the row
// is called.
#include "tests/support/device.h"

enum { KEYS = 64 * 257, HEADS = 3, MOST_DIM = 40, ROWS = 6 };

// One key-value head, one sequence, HEADS queries that all rows share.
typedef struct Long {
    Device *device;
    Kv *kv;
    AttentionShape shape;
    float *keys, *values; // host (KEYS, head_dim)
    float *q;             // host (HEADS, head_dim)
} Long;

static void long_restore(const Long *l, const float *values) {
    kv_restore(l->device, &(KvView){l->kv, 0}, &(KvSpan){0, 0, 0, KEYS}, l->keys, values);
    CHECK(!device_error(l->device)->code, "%s", device_error(l->device)->message);
}

// Keys differ more and more along the text, so that the largest score of a split may be anywhere.
static Long long_open(int head_dim) {
    TestRandom random = {(uint64_t)head_dim};
    size_t count = (size_t)KEYS * (size_t)head_dim;
    Long l = {.device = test_device(2, PRECISION_F32)};
    l.shape = (AttentionShape){HEADS, 1, head_dim, 1.0f / sqrtf((float)head_dim), {0}, 0};
    l.keys = random_floats(&random, count, 1.0f);
    l.values = random_floats(&random, count, 1.0f);
    l.q = random_floats(&random, (size_t)(HEADS * head_dim), 1.0f);
    for (size_t i = 0; i < count; i++)
        l.keys[i] *= 0.5f + (float)(i / (size_t)(997 * head_dim) % 7) * 0.25f;
    l.kv = kv_open(l.device, &(KvShape){1, 1, 1, head_dim, KEYS, KV_F32, NULL, 0});
    device_reserve(l.device, ROWS);
    long_restore(&l, l.values);
    return l;
}

static void long_close(Long *l) {
    kv_close(l->device, l->kv);
    test_device_close(l->device);
    free(l->keys), free(l->values), free(l->q);
}

// (n, HEADS, head_dim), malloced. recorded: as one pass, whose grid is sized by the largest
// position; else by the cache.
static float *long_attend(const Long *l, int n, const int32_t *positions, bool recorded) {
    static const int32_t SEQUENCES[ROWS];
    size_t width = (size_t)(HEADS * l->shape.head_dim);
    float q[ROWS * HEADS * MOST_DIM];
    int32_t last = 0;
    for (int i = 0; i < n; i++) {
        memcpy(q + (size_t)i * width, l->q, width * sizeof *q);
        last = positions[i] > last ? positions[i] : last;
    }
    Rows rows = test_rows(l->device, n, NULL, positions, SEQUENCES);
    float *on_device = upload_floats(l->device, q, (size_t)n * width);
    float *out = poisoned(l->device, (size_t)n * width);
    if (recorded) device_begin(l->device, &(PassShape){.n = n, .max_position = last});
    attention(l->device, out, on_device, &(KvView){l->kv, 0}, &rows, &l->shape, NULL);
    if (recorded) device_end(l->device);
    return fetch(l->device, out, (size_t)n * width);
}

// One query head in double.
static void long_oracle(const Long *l, int position, int h, double *out) {
    static double weights[KEYS];
    int dim = l->shape.head_dim;
    double largest = -INFINITY, sum = 0.0;
    for (int t = 0; t <= position; t++) {
        weights[t] = key_visible(&l->shape.pattern, position, t) ? 0.0 : -INFINITY;
        for (int j = 0; j < dim; j++)
            weights[t] += (double)(l->q[h * dim + j] * l->shape.scale) *
                          (double)l->keys[(size_t)t * (size_t)dim + (size_t)j];
        largest = fmax(largest, weights[t]);
    }
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int t = 0; t <= position; t++) {
        double e = exp(weights[t] - largest);
        sum += e;
        for (int j = 0; j < dim && e > 0.0; j++)
            out[j] += e * (double)l->values[(size_t)t * (size_t)dim + (size_t)j];
    }
    for (int j = 0; j < dim; j++)
        out[j] /= sum;
}

static void check_position(const Long *l, int32_t position) {
    float *got = long_attend(l, 1, &position, false);
    for (int h = 0; h < HEADS; h++) {
        double wanted[MOST_DIM];
        long_oracle(l, position, h, wanted);
        for (int j = 0; j < l->shape.head_dim; j++)
            CHECK(fabs((double)got[h * l->shape.head_dim + j] - wanted[j]) <= 1e-5,
                  "position %d, head %d of %d channels: channel %d is %.9g, not %.9g", position, h,
                  l->shape.head_dim, j, (double)got[h * l->shape.head_dim + j], wanted[j]);
    }
    free(got);
}

// Splits are 64 positions long: 1, 2, a whole group of 16, one more, whole levels, one more.
static const int SPLITS[] = {1, 2, 16, 17, 33, 256, 257};
enum { N_SPLITS = sizeof SPLITS / sizeof *SPLITS };

Test(long_attention, of_any_number_of_splits_equals_the_double_loops) {
    static const int DIMS[] = {8, 6, 40}; // of whole loads, and not
    for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++) {
        Long l = long_open(DIMS[d]);
        for (size_t i = 0; i < N_SPLITS; i++) {
            check_position(&l, 64 * SPLITS[i] - 1);
            if (!d) check_position(&l, 64 * (SPLITS[i] - 1)); // the last split has one key
        }
        long_close(&l);
    }
}

// The first split that has keys to see is not the first of the text, and some between have none.
// What attention keeps of an earlier call is NaN by then: nothing of it may come back.
Test(long_attention, with_keys_that_a_pattern_hides_equals_the_double_loops) {
    static const KeyPattern PATTERNS[] = {
        {.window = 1000},
        {.window = 1100},
        {.window = 16300},
        {0, 2, {{PATTERN_GLOBAL, 70}, {PATTERN_WINDOW, 130}}},
        {0, 2, {{PATTERN_WINDOW, 5}, {PATTERN_STRIDED, 777}}},
    };
    static const int32_t POSITIONS[] = {63, 1100, 9000, KEYS - 1};
    Long l = long_open(8);
    float *nan = malloc((size_t)KEYS * 8 * sizeof *nan);
    for (size_t i = 0; i < (size_t)KEYS * 8; i++)
        nan[i] = NAN;
    for (size_t p = 0; p < sizeof PATTERNS / sizeof *PATTERNS; p++)
        for (size_t i = 0; i < sizeof POSITIONS / sizeof *POSITIONS; i++) {
            int32_t last = KEYS - 1;
            l.shape.pattern = (KeyPattern){0};
            long_restore(&l, nan);
            float *got = long_attend(&l, 1, &last, false);
            CHECK(isnan(got[0]), "NaN values give %g", (double)got[0]);
            free(got);
            long_restore(&l, l.values);
            l.shape.pattern = PATTERNS[p];
            check_position(&l, POSITIONS[i]);
        }
    free(nan);
    long_close(&l);
}

// Alone or among others, launched for the whole cache or for what the pass needs: which parts meet,
// and in what order, is a matter of the position alone.
Test(long_attention, has_the_same_bits_in_any_batch_and_launch) {
    static const int32_t POSITIONS[ROWS] = {KEYS - 1, 3, 64 * 16 - 1, 64 * 16, 5000, 64 * 256 - 1};
    Long l = long_open(8);
    size_t width = (size_t)(HEADS * 8);
    float *all = long_attend(&l, ROWS, POSITIONS, false);
    for (int i = 0; i < ROWS; i++) {
        for (int recorded = 0; recorded < 2; recorded++) {
            float *alone = long_attend(&l, 1, POSITIONS + i, recorded);
            CHECK(!memcmp(alone, all + (size_t)i * width, width * sizeof *alone), "position %d, %s",
                  POSITIONS[i], recorded ? "recorded" : "at once");
            free(alone);
        }
    }
    free(all);
    long_close(&l);
}
