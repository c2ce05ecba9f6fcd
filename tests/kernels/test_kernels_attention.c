// attention: plain double loops over the keys that key_visible names, values worked by hand, and
// what must not matter: the future, other sequences, other rows, threads.
#include "kernels/limits.h"
#include "kernels/precision.h"
#include "tests/support/device.h"

typedef struct Case {
    int n_heads, n_kv_heads, head_dim, n_keys;
    KvType type;
    KeyPattern pattern;
} Case;

enum { SEQUENCES = 3 };

// A cache of SEQUENCES sequences with n_keys random keys and values each, and queries for all.
typedef struct Scene {
    Case c;
    Device *device;
    Kv *kv;
    AttentionShape shape;
    size_t kv_width, q_width; // floats of all heads
    float *k, *v;             // host (SEQUENCES, n_keys, n_kv_heads, head_dim)
    float *q;                 // host (SEQUENCES, n_keys, n_heads, head_dim)
    bool on_tensor_cores;     // the last call
    void (*attend)(Device *, float *, const float *, const KvView *, const Rows *,
                   const AttentionShape *, float *); // attention, or attention_naive
} Scene;

static const KeyPattern CAUSAL = {0};
#define WINDOW_OF(n)                                                                               \
    { .window = n }
#define PART(kind, a)                                                                              \
    {                                                                                              \
        0, 1, {                                                                                    \
            { kind, a }                                                                            \
        }                                                                                          \
    }

// Writes the scene's keys of one sequence from position `from` on.
static void scene_write(Scene *s, int sequence, int from) {
    int n = s->c.n_keys - from;
    int32_t positions[1024], sequences[1024];
    for (int i = 0; i < n; i++) {
        positions[i] = from + i;
        sequences[i] = sequence;
    }
    Rows rows = test_rows(s->device, n, NULL, positions, sequences);
    size_t offset = ((size_t)sequence * (size_t)s->c.n_keys + (size_t)from) * s->kv_width;
    float *k = upload_floats(s->device, s->k + offset, (size_t)n * s->kv_width);
    float *v = upload_floats(s->device, s->v + offset, (size_t)n * s->kv_width);
    kv_write(s->device, &(KvView){s->kv, 1}, k, v, &rows);
    device_sync(s->device);
    device_free(s->device, k);
    device_free(s->device, v);
}

// Precisions differ where a GPU takes another way for the rows of a prompt.
static void scene_open_at(Scene *s, Case c, int threads, Precision precision) {
    TestRandom random = {(uint64_t)(c.n_heads * 1000 + c.head_dim + c.n_keys)};
    size_t rows = (size_t)SEQUENCES * (size_t)c.n_keys;
    *s = (Scene){.c = c, .device = test_device(threads, precision), .attend = attention};
    s->shape = (AttentionShape){
        c.n_heads, c.n_kv_heads, c.head_dim, 1.0f / sqrtf((float)c.head_dim), c.pattern, 0};
    s->kv_width = (size_t)(c.n_kv_heads * c.head_dim);
    s->q_width = (size_t)(c.n_heads * c.head_dim);
    s->k = random_floats(&random, rows * s->kv_width, 1.5f);
    s->v = random_floats(&random, rows * s->kv_width, 1.0f);
    s->q = random_floats(&random, rows * s->q_width, 1.5f);
    for (size_t i = 0; c.type != KV_F32 && i < rows * s->kv_width; i++) {
        s->k[i] = kv_widen(c.type, kv_narrow(c.type, s->k[i])); // what the cache can hold
        s->v[i] = kv_widen(c.type, kv_narrow(c.type, s->v[i]));
    }
    // A layer before and after, and one position to spare.
    s->kv = kv_open(s->device, &(KvShape){3, SEQUENCES, c.n_kv_heads, c.head_dim, c.n_keys + 1,
                                          c.type, NULL, 0});
    CHECK(s->kv, "%s", device_error(s->device)->message);
    device_reserve(s->device, 1024);
    for (int i = 0; i < SEQUENCES; i++)
        scene_write(s, i, 0);
}

static void scene_open(Scene *s, Case c, int threads) {
    scene_open_at(s, c, threads, PRECISION_F32);
}

static void scene_close(Scene *s) {
    kv_close(s->device, s->kv);
    test_device_close(s->device);
    free(s->k), free(s->v), free(s->q);
}

// Attention of n rows (sequence, position) with the scene's queries; weights may be NULL.
static float *scene_attend(Scene *s, int n, const int32_t *sequences, const int32_t *positions,
                           float **weights) {
    float *q = malloc((size_t)n * s->q_width * sizeof *q);
    for (int i = 0; i < n; i++)
        memcpy(q + (size_t)i * s->q_width,
               s->q +
                   ((size_t)sequences[i] * (size_t)s->c.n_keys + (size_t)positions[i]) * s->q_width,
               s->q_width * sizeof *q);
    Rows rows = test_rows(s->device, n, NULL, positions, sequences);
    float *dq = upload_floats(s->device, q, (size_t)n * s->q_width);
    float *out = poisoned(s->device, (size_t)n * s->q_width), *dw = NULL;
    size_t count = (size_t)n * (size_t)s->c.n_heads * (size_t)(s->c.n_keys + 1);
    if (weights) dw = poisoned(s->device, count);
    s->on_tensor_cores =
        s->attend == attention && attention_arithmetic(s->device, s->kv, n).kind == PEAK_BF16;
    s->attend(s->device, out, dq, &(KvView){s->kv, 1}, &rows, &s->shape, dw);
    float *got = fetch(s->device, out, (size_t)n * s->q_width);
    if (weights) *weights = fetch(s->device, dw, count);
    free(q);
    return got;
}

// The definition, in double: out[head_dim] and weights[n_keys] of one query head.
static void oracle(const Scene *s, int sequence, int p, int h, double *out, double *weights) {
    const Case *c = &s->c;
    size_t hd = (size_t)c->head_dim, g = (size_t)(h / (c->n_heads / c->n_kv_heads));
    size_t first = (size_t)sequence * (size_t)c->n_keys;
    const float *q = s->q + (first + (size_t)p) * s->q_width + (size_t)h * hd;
    double largest = -INFINITY, sum = 0.0;
    for (int t = 0; t < c->n_keys; t++) {
        const float *k = s->k + (first + (size_t)t) * s->kv_width + g * hd;
        weights[t] = -INFINITY;
        if (!key_visible(&c->pattern, p, t)) continue;
        weights[t] = 0.0;
        for (size_t j = 0; j < hd; j++)
            weights[t] += (double)q[j] * (double)k[j];
        weights[t] *= (double)s->shape.scale;
        double cap = (double)s->shape.cap;
        if (cap > 0) weights[t] = cap * tanh(weights[t] / cap);
        largest = fmax(largest, weights[t]);
    }
    for (int t = 0; t < c->n_keys; t++)
        sum += weights[t] = exp(weights[t] - largest);
    for (size_t j = 0; j < hd; j++)
        out[j] = 0.0;
    for (int t = 0; t < c->n_keys; t++) {
        const float *v = s->v + (first + (size_t)t) * s->kv_width + g * hd;
        weights[t] /= sum;
        for (size_t j = 0; j < hd; j++)
            out[j] += weights[t] * (double)v[j];
    }
}

// Float32 scores of about 10 are off by some 1e-6, and so are their exponentials.
static const double TOLERANCE = 1e-5;

// What tensor cores may lose beyond that. Products of two f16 are exact, but an instruction that
// adds 16 of them to a sum aligns them all to the largest and cuts each off behind 24 bits, and the
// result once more; GPUs take the 16 in up to four steps (Fasi, Higham, Mikaitis and Pranesh 2021,
// Numerical behavior of NVIDIA tensor cores). So of at most 16 products, 4 sums that come in and 4
// that go out each loses less than 2^-23 of the largest, which is at most A, the sum of |products|:
//
//   e = 24 * 2^-23 * A  an instruction
//
// A score takes 2 * dim / 16 of them (both parts of q), with A = sum |scale q k|: it is off by d at
// most, so a weight by a factor e^(2 d), its own and that of the sum. An output takes
// 2 * keys / 16 more (both parts of the softmax), in whole tiles of 64 keys, with A = sum p |v|.
//
//   |error| <= (e^(2 d) - 1 + 2 (keys / 16 + 4) 24 * 2^-23) sum w |v|
static const double LOST = 24 * 0x1p-23;

static double truncation_bound(const Scene *s, int sequence, int p, int h, int j,
                               const double *weights) {
    const Case *c = &s->c;
    size_t hd = (size_t)c->head_dim, g = (size_t)(h / (c->n_heads / c->n_kv_heads));
    size_t first = (size_t)sequence * (size_t)c->n_keys;
    const float *q = s->q + (first + (size_t)p) * s->q_width + (size_t)h * hd;
    double largest = 0.0, spread = 0.0; // of sum |scale q k|; sum w |v|
    for (int t = 0; t <= p; t++) {
        size_t at = (first + (size_t)t) * s->kv_width + g * hd;
        double sum = 0.0;
        for (size_t i = 0; i < hd; i++)
            sum += fabs((double)s->shape.scale * (double)q[i] * (double)s->k[at + i]);
        if (weights[t] > 0.0) largest = fmax(largest, sum);
        spread += weights[t] * fabs((double)s->v[at + (size_t)j]);
    }
    double d = 2 * ceil((double)hd / 16) * LOST * largest;
    return (expm1(2 * d) + 2 * (ceil((double)c->n_keys / 16) + 4) * LOST) * spread;
}

static void check_row(const Scene *s, int sequence, int p, const float *got, const float *weights) {
    double out[512], wanted[1024];
    for (int h = 0; h < s->c.n_heads; h++) {
        oracle(s, sequence, p, h, out, wanted);
        for (int j = 0; j < s->c.head_dim; j++) {
            double lost = 0.0;
            if (s->on_tensor_cores) lost = truncation_bound(s, sequence, p, h, j, wanted);
            CHECK_NEAR(got[h * s->c.head_dim + j], out[j], TOLERANCE + lost);
        }
        const float *w = weights + h * (s->c.n_keys + 1);
        double sum = 0.0;
        for (int t = 0; t < s->c.n_keys; t++) {
            CHECK_NEAR(w[t], wanted[t], TOLERANCE);
            CHECK(key_visible(&s->c.pattern, p, t) || w[t] == 0.0f, "a hidden key has weight");
            sum += (double)w[t];
        }
        CHECK_NEAR(w[s->c.n_keys], 0.0, 0.0);
        CHECK_NEAR(sum, 1.0, 1e-5);
    }
}

// The positions of a prompt from one row to the next; on the emulator some twenty rows of float32,
// and all rows where the precision could send a prompt to the tensor cores.
static int row_step(int n_keys, Precision precision) {
    return precision == PRECISION_F32 ? EMULATED(1 + n_keys / 20, 1) | 1 : 1;
}

// Positions of sequence 1 as one prompt, the last among them, then single rows of all sequences
// together.
static void check_scene(Scene *s, Precision precision) {
    const Case c = s->c;
    int32_t sequences[1024] = {0}, positions[1024] = {0};
    int step = row_step(c.n_keys, precision), n = (c.n_keys - 1) / step + 1;
    for (int i = 0; i < n; i++) {
        sequences[i] = 1;
        positions[i] = c.n_keys - 1 - (n - 1 - i) * step;
    }
    size_t row_weights = (size_t)c.n_heads * (size_t)(c.n_keys + 1);
    float *weights = NULL, *got = scene_attend(s, n, sequences, positions, &weights);
    for (int i = 0; i < n; i++)
        check_row(s, 1, positions[i], got + (size_t)i * s->q_width,
                  weights + (size_t)i * row_weights);
    free(got), free(weights);
    for (int i = 0; i < SEQUENCES; i++) {
        sequences[i] = i;
        positions[i] = c.n_keys - 1 - i * (c.n_keys / 4);
    }
    got = scene_attend(s, SEQUENCES, sequences, positions, &weights);
    for (int i = 0; i < SEQUENCES; i++)
        check_row(s, i, positions[i], got + (size_t)i * s->q_width,
                  weights + (size_t)i * row_weights);
    free(got), free(weights);
}

static void check_case_at(Case c, Precision precision) {
    Scene s;
    scene_open_at(&s, c, 2, precision);
    check_scene(&s, precision);
    scene_close(&s);
}

static void check_case(Case c) {
    check_case_at(c, PRECISION_F32);
}

Test(attention, equals_the_double_loops) {
    static const int SHAPES[][3] = {{1, 1, 8},  {2, 2, 16}, {3, 1, 40},  {6, 2, 64},  {4, 4, 33},
                                    {9, 3, 64}, {8, 1, 24}, {2, 1, 128}, {1, 1, 256}, {10, 2, 20}};
    static const int KEYS[] = {1, 2, 17, 70};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++)
            for (KvType type = KV_F32; type < KV_TYPE_COUNT; type++) {
                if (EMULATED((i + k + (size_t)type) % KV_TYPE_COUNT != 0, false)) continue;
                check_case((Case){SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], KEYS[k], type, CAUSAL});
            }
}

Test(attention, equals_the_double_loops_over_a_long_text) {
    check_case((Case){6, 2, 40, 300, KV_F16, CAUSAL});
    check_case((Case){4, 1, 64, 513, KV_F32, CAUSAL});
    check_case((Case){2, 1, 64, 270, KV_BF16, CAUSAL});
}

// Many heads of a key, channels that fill no load, heads wider than a warp takes at once, and the
// usual widths with a few heads of a key.
Test(attention, equals_the_double_loops_for_heads_of_any_size) {
    static const int SHAPES[][3] = {{12, 1, 16}, {2, 1, 6},   {2, 2, 12}, {3, 1, 100}, {2, 1, 200},
                                    {2, 1, 320}, {1, 1, 511}, {6, 1, 64}, {4, 1, 128}, {3, 1, 256}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (KvType type = KV_F32; type < KV_TYPE_COUNT; type++)
            check_case((Case){SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], 70, type, CAUSAL});
}

// All scores stored: what bench compares the online softmax with.
Test(attention, naive_equals_the_double_loops) {
    static const Case CASES[] = {{1, 1, 8, 1, KV_F32, {0}},
                                 {8, 8, 32, 70, KV_F32, {0}},
                                 {9, 3, 33, 70, KV_F16, {0}},
                                 {8, 1, 24, 300, KV_BF16, {0}},
                                 {2, 1, 64, 290, KV_F32, PART(PATTERN_STRIDED, 90)}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Scene s;
        scene_open(&s, CASES[i], 2);
        s.attend = attention_naive;
        check_scene(&s, PRECISION_F32);
        scene_close(&s);
    }
}

// cap tanh(score / cap): scores of some 10 are bent, and keys that a window hides stay hidden.
Test(attention, equals_the_double_loops_with_a_cap) {
    static const Case CASES[] = {{1, 1, 8, 2, KV_F32, {0}},
                                 {6, 2, 40, 300, KV_F16, {0}},
                                 {9, 3, 33, 70, KV_F32, WINDOW_OF(16)},
                                 {4, 1, 64, 290, KV_BF16, WINDOW_OF(33)},
                                 {2, 1, 320, 70, KV_F32, PART(PATTERN_STRIDED, 9)}};
    static const float CAPS[] = {0.5f, 3.0f, 50.0f};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (size_t j = 0; j < sizeof CAPS / sizeof *CAPS; j++)
            for (Precision p = PRECISION_F32; p <= PRECISION_A16; p++) {
                Scene s;
                scene_open_at(&s, CASES[i], 2, p);
                s.shape.cap = CAPS[j];
                check_scene(&s, PRECISION_F32);
                s.attend = attention_naive;
                check_scene(&s, PRECISION_F32);
                scene_close(&s);
            }
}

// Windows that begin many positions after the text does.
Test(attention, equals_the_double_loops_behind_what_no_window_shows) {
    static const KeyPattern PATTERNS[] = {WINDOW_OF(33), WINDOW_OF(150), PART(PATTERN_LOCAL, 90),
                                          PART(PATTERN_BLOCK, 50), PART(PATTERN_STRIDED, 90)};
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++)
        check_case((Case){3, 1, 64, 290, KV_BF16, PATTERNS[i]});
}

Test(attention, sees_what_windows_and_patterns_show) {
    static const KeyPattern PATTERNS[] = {
        WINDOW_OF(1),
        WINDOW_OF(16),
        WINDOW_OF(64),
        WINDOW_OF(65),
        WINDOW_OF(70),
        PART(PATTERN_LOCAL, 8),
        PART(PATTERN_STRIDED, 4),
        PART(PATTERN_GLOBAL, 4),
        PART(PATTERN_BLOCK, 8),
        PART(PATTERN_STRIDED, 1),
        PART(PATTERN_LOCAL, 1),
    };
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        check_case((Case){6, 2, 40, 70, KV_F32, PATTERNS[i]});
        check_case((Case){3, 1, 64, 133, KV_F16, PATTERNS[i]});
    }
}

// One head of one dimension, scale 1: scores q k = ln 1, ln 2, ln 5 -> weights 1/8, 2/8, 5/8.
Test(attention, three_keys_by_hand) {
    Device *device = test_device(1, PRECISION_F32);
    Kv *kv = kv_open(device, &(KvShape){1, 1, 1, 1, 3, KV_F32, NULL, 0});
    device_reserve(device, 3);
    Rows rows = test_rows(device, 3, NULL, NULL, NULL);
    float k[] = {0.0f, logf(2.0f), logf(5.0f)}, v[] = {8.0f, 16.0f, 24.0f}, ones[] = {1, 1, 1};
    KvView view = {kv, 0};
    kv_write(device, &view, upload_floats(device, k, 3), upload_floats(device, v, 3), &rows);
    float *out = poisoned(device, 3);
    AttentionShape shape = {1, 1, 1, 1.0f, CAUSAL, 0};
    attention(device, out, upload_floats(device, ones, 3), &view, &rows, &shape, NULL);
    float *got = fetch(device, out, 3);
    CHECK_NEAR(got[0], 8.0, 1e-6);
    CHECK_NEAR(got[1], 8.0 / 3 + 32.0 / 3, 1e-5);
    CHECK_NEAR(got[2], 8.0 / 8 + 32.0 / 8 + 120.0 / 8, 1e-5);
    free(got);
    test_device_close(device);
}

// Rows alone, together in any number, on one thread or three: the same bits.
Test(attention, rows_and_threads_do_not_change_a_bit) {
    Case c = {6, 2, 40, 150, KV_F16, WINDOW_OF(100)};
    int32_t sequences[150], positions[150];
    float *wanted = NULL;
    for (int threads = 1; threads <= EMULATED(1, 3); threads += 2) {
        Scene s;
        scene_open(&s, c, threads);
        for (int i = 0; i < 150; i++) {
            sequences[i] = i % SEQUENCES;
            positions[i] = 149 - i;
        }
        float *all = scene_attend(&s, 150, sequences, positions, NULL);
        if (!wanted) wanted = all;
        CHECK(!memcmp(all, wanted, 150 * s.q_width * sizeof *all), "threads");
        for (int i = 0; i < 150; i += EMULATED(31, 7)) {
            int n = 1 + i % 5;
            if (i + n > 150) n = 1;
            float *got = scene_attend(&s, n, sequences + i, positions + i, NULL);
            CHECK(!memcmp(got, all + (size_t)i * s.q_width, (size_t)n * s.q_width * sizeof *got),
                  "row %d among %d", i, n);
            free(got);
        }
        if (all != wanted) free(all);
        scene_close(&s);
    }
    free(wanted);
}

// Asking for the weights changes nothing but speed.
Test(attention, is_nearly_the_same_with_weights_out) {
    Scene s;
    scene_open(&s, (Case){6, 2, 40, 90, KV_F32, CAUSAL}, 1);
    int32_t sequence = 2, position = 89;
    float *weights = NULL, *with = scene_attend(&s, 1, &sequence, &position, &weights);
    float *without = scene_attend(&s, 1, &sequence, &position, NULL);
    for (size_t j = 0; j < s.q_width; j++)
        CHECK_NEAR(with[j], without[j], 1e-6);
    free(weights), free(with), free(without);
    scene_close(&s);
}

// NaN in every key and value after the row's position: left over from a text that was truncated.
Test(attention, does_not_see_the_future) {
    for (KvType type = KV_F32; type < KV_TYPE_COUNT; type++) {
        Scene s;
        scene_open(&s, (Case){3, 1, 40, 100, type, CAUSAL}, 1);
        int32_t sequence = 1;
        for (int32_t p = 0; p < 99; p += EMULATED(31, 7)) {
            float *before = scene_attend(&s, 1, &sequence, &p, NULL);
            size_t from = (100 + (size_t)p + 1) * s.kv_width, count = (99 - (size_t)p) * s.kv_width;
            for (size_t i = 0; i < count; i++)
                s.k[from + i] = s.v[from + i] = NAN;
            scene_write(&s, sequence, p + 1);
            float *after = scene_attend(&s, 1, &sequence, &p, NULL);
            CHECK(!memcmp(before, after, s.q_width * sizeof *after), "position %d", p);
            free(before), free(after);
            scene_close(&s);
            scene_open(&s, (Case){3, 1, 40, 100, type, CAUSAL}, 1);
        }
        scene_close(&s);
    }
}

// W keys, the row's own included: key p - W is out, key p - W + 1 is in.
Test(attention, a_window_ends_where_it_says) {
    static const int WINDOWS[] = {1, 2, 16, 33, 64, 80};
    for (size_t w = 0; w < sizeof WINDOWS / sizeof *WINDOWS; w++) {
        for (int inside = 0; inside < 2; inside++) {
            Scene s;
            int window = WINDOWS[w];
            scene_open(&s, (Case){3, 1, 40, 100, KV_F32, WINDOW_OF(window)}, 1);
            int32_t sequence = 0, p = 95;
            float *before = scene_attend(&s, 1, &sequence, &p, NULL);
            size_t t = (size_t)(p - window + inside);
            for (size_t j = 0; j < s.kv_width; j++)
                s.v[t * s.kv_width + j] += 1000.0f;
            scene_write(&s, 0, (int)t);
            float *after = scene_attend(&s, 1, &sequence, &p, NULL);
            bool same = !memcmp(before, after, s.q_width * sizeof *after);
            CHECK_INT(same, !inside);
            free(before), free(after);
            scene_close(&s);
        }
    }
}

// 6 query heads over 2 key-value heads = 6 over 6 with every key-value head three times.
Test(attention, grouped_queries_equal_repeated_keys) {
    Scene a, b;
    scene_open(&a, (Case){6, 2, 40, 60, KV_F32, CAUSAL}, 1);
    scene_open(&b, (Case){6, 6, 40, 60, KV_F32, CAUSAL}, 1);
    memcpy(b.q, a.q, SEQUENCES * 60 * a.q_width * sizeof *a.q);
    for (size_t row = 0; row < SEQUENCES * 60; row++)
        for (size_t h = 0; h < 6; h++) {
            memcpy(b.k + (row * 6 + h) * 40, a.k + (row * 2 + h / 3) * 40, 40 * sizeof(float));
            memcpy(b.v + (row * 6 + h) * 40, a.v + (row * 2 + h / 3) * 40, 40 * sizeof(float));
        }
    for (int i = 0; i < SEQUENCES; i++)
        scene_write(&b, i, 0);
    for (int32_t i = 0; i < 60; i += 9) {
        int32_t sequence = i % SEQUENCES;
        float *x = scene_attend(&a, 1, &sequence, &i, NULL);
        float *y = scene_attend(&b, 1, &sequence, &i, NULL);
        for (size_t j = 0; j < a.q_width; j++)
            CHECK_NEAR(x[j], y[j], 1e-6);
        free(x), free(y);
    }
    scene_close(&a);
    scene_close(&b);
}

// Scores of 1e5 and differences of thousands: the largest takes all, nothing overflows.
Test(attention, survives_large_scores) {
    Scene s;
    scene_open(&s, (Case){3, 1, 40, 80, KV_F32, CAUSAL}, 1);
    s.shape.scale = 3000.0f;
    int32_t sequence = 0, p = 79;
    float *got = scene_attend(&s, 1, &sequence, &p, NULL);
    double out[40], weights[80];
    for (int h = 0; h < 3; h++) {
        oracle(&s, 0, 79, h, out, weights);
        for (int j = 0; j < 40; j++)
            CHECK_NEAR(got[h * 40 + j], out[j], 1e-3);
    }
    free(got);
    scene_close(&s);
}

Test(attention, a_visible_nan_is_not_hidden) {
    Scene s;
    scene_open(&s, (Case){3, 1, 40, 80, KV_F32, CAUSAL}, 1);
    s.k[30 * s.kv_width + 5] = NAN;
    scene_write(&s, 0, 0);
    int32_t sequence = 0, p = 79;
    float *got = scene_attend(&s, 1, &sequence, &p, NULL);
    CHECK(isnan(got[0]), "got %g", (double)got[0]);
    free(got);
    scene_close(&s);
}

// ---- unions ----

static const KeyPattern UNIONS[] = {
    {0, 2, {{PATTERN_LOCAL, 16}, {PATTERN_GLOBAL, 3}}},
    {0, 2, {{PATTERN_WINDOW, 5}, {PATTERN_STRIDED, 40}}},
    {0, 3, {{PATTERN_STRIDED, 6}, {PATTERN_STRIDED, 7}, {PATTERN_GLOBAL, 70}}},
    {0, 2, {{PATTERN_BLOCK, 9}, {PATTERN_GLOBAL, 1}}},
    {100, 2, {{PATTERN_LOCAL, 30}, {PATTERN_GLOBAL, 20}}}, // within a layer's own window
    {50, 1, {{PATTERN_STRIDED, 17}}},
    {0, 4, {{PATTERN_LOCAL, 2}, {PATTERN_GLOBAL, 2}, {PATTERN_BLOCK, 4}, {PATTERN_STRIDED, 64}}},
    {0, 2, {{PATTERN_GLOBAL, 1}, {PATTERN_WINDOW, 300}}},
};
enum { N_UNIONS = sizeof UNIONS / sizeof *UNIONS };

// The runs of a position are the keys that the definition names, each as long as it can be.
Test(attention, runs_are_the_visible_keys) {
    for (size_t u = 0; u < N_UNIONS + 3; u++) {
        static const KeyPattern OTHERS[] = {{0}, {.window = 7}, PART(PATTERN_STRIDED, 1)};
        const KeyPattern *pattern = u < N_UNIONS ? &UNIONS[u] : &OTHERS[u - N_UNIONS];
        for (int p = 0; p < 320; p++) {
            KeyReach reach = key_reach(pattern, p);
            int t = 0;
            for (KeyRun r = key_run(&reach, 0); r.first < r.end; r = key_run(&reach, r.end)) {
                CHECK(t == 0 || r.first > t, "pattern %zu: runs that touch at %d", u, t);
                for (; t < r.first; t++)
                    CHECK(!key_visible(pattern, p, t), "pattern %zu: %d sees %d", u, p, t);
                for (; t < r.end; t++)
                    CHECK(key_visible(pattern, p, t), "pattern %zu: %d hides %d", u, p, t);
                CHECK(key_run(&reach, r.end - 1).first == r.end - 1, "from the middle of a run");
            }
            CHECK(t == p + 1, "pattern %zu: position %d does not see itself", u, p);
        }
    }
}

// Prompts and single rows, with and without groups, in each of the ways that a device has.
Test(attention, equals_the_double_loops_for_unions) {
    for (size_t u = 0; u < N_UNIONS; u++) {
        check_case((Case){3, 1, 40, 290, KV_F16, UNIONS[u]});
        check_case((Case){EMULATED(2, 6), 2, 16, EMULATED(140, 600), KV_F32, UNIONS[u]});
        check_case_at((Case){EMULATED(2, 6), 2, 40, EMULATED(99, 290), KV_F16, UNIONS[u]},
                      PRECISION_A16);
    }
}

// NaN in all keys and values that no row of the call sees: the same bits as without.
static void check_hidden(const KeyPattern *pattern, int first, int n, Precision precision) {
    enum { KEYS = 400 };
    Scene s;
    int32_t sequences[KEYS] = {0}, positions[KEYS];
    scene_open_at(&s, (Case){6, 2, 40, KEYS, KV_F16, *pattern}, 2, precision);
    for (int i = 0; i < n; i++)
        positions[i] = first + i;
    float *wanted = scene_attend(&s, n, sequences, positions, NULL);
    int hidden = 0;
    for (int t = 0; t < KEYS; t++) {
        bool seen = false;
        for (int i = 0; i < n; i++)
            seen |= key_visible(pattern, positions[i], t);
        for (size_t j = 0; !seen && j < s.kv_width; j++)
            s.k[(size_t)t * s.kv_width + j] = s.v[(size_t)t * s.kv_width + j] = NAN;
        hidden += !seen;
    }
    scene_write(&s, 0, 0);
    float *weights = NULL, *got = scene_attend(&s, n, sequences, positions, &weights);
    for (size_t i = 0; i < (size_t)n * s.q_width; i++)
        CHECK(isfinite(got[i]), "%d hidden keys, value %zu", hidden, i);
    CHECK(!memcmp(got, wanted, (size_t)n * s.q_width * sizeof *got), "%d hidden keys", hidden);
    for (size_t i = 0; i < (size_t)(n * 6 * (KEYS + 1)); i++)
        CHECK(isfinite(weights[i]), "weight %zu", i);
    free(wanted), free(got), free(weights);
    scene_close(&s);
}

Test(attention, hidden_keys_have_no_influence_whatever_they_are) {
    for (size_t u = 0; u < N_UNIONS; u++) {
        check_hidden(&UNIONS[u], 390, 1, PRECISION_F32);
        check_hidden(&UNIONS[u], 300, 5, PRECISION_F32);
        check_hidden(&UNIONS[u], 280, 70, PRECISION_A16);
    }
}

// ---- the rows of a prompt, so many that a GPU takes another way ----

enum { PROMPT = 64 };

Test(attention, of_a_prompt_equals_the_double_loops) {
    static const int SHAPES[][3] = {{2, 2, 40}, {6, 2, 64}, {8, 1, 128}, {3, 1, 256}, {5, 1, 96},
                                    {4, 4, 8},  {9, 3, 72}, {2, 1, 33},  {20, 1, 16}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        check_case_at((Case){SHAPES[i][0], SHAPES[i][1], SHAPES[i][2], 70, KV_F16, CAUSAL},
                      i % 2 ? PRECISION_A16 : PRECISION_A8);
    check_case_at((Case){2, 1, 64, PROMPT, KV_F16, CAUSAL}, PRECISION_A16);
    check_case_at((Case){3, 1, 128, 131, KV_F16, CAUSAL}, PRECISION_A16);
    check_case_at((Case){2, 1, 64, 70, KV_F32, CAUSAL}, PRECISION_A16);
}

Test(attention, of_a_prompt_sees_what_windows_and_patterns_show) {
    static const KeyPattern PATTERNS[] = {
        WINDOW_OF(1),
        WINDOW_OF(16),
        WINDOW_OF(64),
        WINDOW_OF(65),
        WINDOW_OF(90),
        PART(PATTERN_LOCAL, 8),
        PART(PATTERN_STRIDED, 4),
        PART(PATTERN_GLOBAL, 4),
        PART(PATTERN_BLOCK, 8),
    };
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++)
        check_case_at((Case){EMULATED(2, 3), 1, 40, EMULATED(99, 133), KV_F16, PATTERNS[i]},
                      PRECISION_A16);
    check_case_at((Case){1, 1, 136, 90, KV_F16, WINDOW_OF(33)}, PRECISION_A16);
    check_case_at((Case){1, 1, 128, 90, KV_F16, PART(PATTERN_STRIDED, 9)}, PRECISION_A16);
    check_case_at((Case){1, 1, 136, 70, KV_F16, PART(PATTERN_LOCAL, 20)}, PRECISION_A16);
}

// All keys are the same, with scores of some 200, and the values of the first half are 1, of the
// others 0. A sum that is scaled anew for every tile, by a factor that is nearly 1, would weigh
// early keys more than late ones, or less.
Test(attention, of_a_prompt_weighs_early_and_late_keys_alike) {
    enum { KEYS = 1024, DIM = 64 };
    Scene s;
    scene_open_at(&s, (Case){1, 1, DIM, KEYS, KV_F16, CAUSAL}, 2, PRECISION_A16);
    for (size_t i = 0; i < (size_t)SEQUENCES * KEYS * DIM; i++) {
        s.q[i] = 1.37f, s.k[i] = 1.23f;
        s.v[i] = i / DIM % KEYS < KEYS / 2 ? 1.0f : 0.0f;
    }
    s.shape.scale = 1.9f;
    int32_t sequences[PROMPT] = {0}, positions[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        positions[i] = KEYS - PROMPT + i;
    scene_write(&s, 0, 0);
    float *got = scene_attend(&s, PROMPT, sequences, positions, NULL);
    for (int i = 0; i < PROMPT; i++)
        CHECK_NEAR(got[(size_t)i * DIM], 512.0 / (positions[i] + 1), 3e-6);
    free(got);
    scene_close(&s);
}

// A cap; and a scale below 0, with which the largest product is the least weight.
Test(attention, of_a_prompt_caps_scores_and_takes_negative_scales) {
    static const int HEAD_DIMS[] = {40, 128, 136};
    for (size_t i = 0; i < sizeof HEAD_DIMS / sizeof *HEAD_DIMS; i++)
        for (int negative = 0; negative < 2; negative++) {
            Scene s;
            scene_open_at(&s, (Case){2, 1, HEAD_DIMS[i], 70, KV_F16, WINDOW_OF(50)}, 2,
                          PRECISION_A16);
            s.shape.cap = negative ? 0.0f : 3.0f;
            s.shape.scale *= negative ? -1.0f : 1.0f;
            check_scene(&s, PRECISION_A16);
            scene_close(&s);
        }
}

// Rows of all sequences, one after another, and in runs; later positions first.
Test(attention, of_many_prompts_together_keeps_them_apart) {
    enum { ROWS = EMULATED(90, 150) };
    Case c = {EMULATED(4, 6), 2, 40, 150, KV_F16, WINDOW_OF(100)};
    int32_t sequences[ROWS], positions[ROWS];
    for (int run = 1; run <= 50; run += 19) {
        Scene s;
        scene_open_at(&s, c, 2, PRECISION_A16);
        for (int i = 0; i < ROWS; i++) {
            sequences[i] = i / run % SEQUENCES;
            positions[i] = 149 - i;
        }
        float *weights = NULL, *got = scene_attend(&s, ROWS, sequences, positions, &weights);
        for (int i = 0; i < ROWS; i++)
            check_row(&s, sequences[i], positions[i], got + (size_t)i * s.q_width,
                      weights + (size_t)(i * c.n_heads * 151));
        free(got), free(weights);
        scene_close(&s);
    }
}

// A key at position 40, a value at 50 of sequence 0 that is not finite: rows that see them show it,
// rows before them, past the window and of other sequences do not.
Test(attention, of_a_prompt_shows_what_is_not_finite_to_those_who_see_it) {
    enum { KEYS = 120, WINDOW = 30, ROWS = 2 * KEYS };
    for (int value = 0; value < 2; value++) {
        Scene s;
        scene_open_at(&s, (Case){4, 2, 40, KEYS, KV_F16, WINDOW_OF(WINDOW)}, 1, PRECISION_A16);
        int at = value ? 50 : 40;
        for (int h = 0; h < 2; h++)
            (value ? s.v : s.k)[((size_t)at * 2 + (size_t)h) * 40 + 7] = value ? INFINITY : NAN;
        scene_write(&s, 0, 0);
        int32_t sequences[ROWS], positions[ROWS];
        for (int i = 0; i < ROWS; i++) {
            sequences[i] = i % 2;
            positions[i] = i / 2;
        }
        float *got = scene_attend(&s, ROWS, sequences, positions, NULL);
        for (int i = 0; i < ROWS; i++) {
            bool sees = !sequences[i] && positions[i] >= at && positions[i] < at + WINDOW;
            for (int j = 0; j < 160; j++) {
                bool here = sees && (!value || j % 40 == 7);
                CHECK_INT(!isfinite(got[i * 160 + j]), here);
            }
        }
        free(got);
        scene_close(&s);
    }
}

// Queries beyond the range of f16, and others below; the scores are those of before.
Test(attention, of_a_prompt_takes_queries_of_any_size) {
    static const float SIZES[] = {1e6f, 1e-6f, 1e-30f};
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        Scene s;
        scene_open_at(&s, (Case){2, 1, 64, 70, KV_F16, CAUSAL}, 1, PRECISION_A16);
        for (size_t i = 0; i < SEQUENCES * 70 * s.q_width; i++)
            s.q[i] *= SIZES[k];
        s.shape.scale /= SIZES[k];
        int32_t sequences[70], positions[70];
        for (int i = 0; i < 70; i++) {
            sequences[i] = 2;
            positions[i] = i;
        }
        float *weights = NULL, *got = scene_attend(&s, 70, sequences, positions, &weights);
        for (int i = 0; i < 70; i++)
            check_row(&s, 2, i, got + (size_t)i * s.q_width, weights + (size_t)i * 2 * 71);
        free(got), free(weights);
        scene_close(&s);
    }
}
