// Attention of the cpu backend: against double loops, and the same bits from every
// instruction set, number of threads and cut of a prompt into calls.
#include "kernels/cpu/attention.h"
#include "kernels/precision.h"
#include "tests/test.h"

typedef struct Setup {
    int n_heads, n_kv_heads, head_dim, length, window, n_sequences;
    KvType type;
    KeyPattern pattern; // its window is the one before
    float cap;
} Setup;

// What goes in, the same for every run: position t of sequence s is row s * length + t.
typedef struct Inputs {
    Setup s;
    size_t q_size, kv_size; // floats of one row
    float *q, *k, *v;
} Inputs;

static Inputs inputs_make(const Setup *s, uint64_t seed) {
    TestRandom random = {seed};
    Inputs in = {.s = *s};
    size_t rows = (size_t)s->length * (size_t)s->n_sequences;
    in.q_size = (size_t)(s->n_heads * s->head_dim);
    in.kv_size = (size_t)(s->n_kv_heads * s->head_dim);
    in.q = malloc(rows * in.q_size * sizeof(float));
    in.k = malloc(rows * in.kv_size * sizeof(float));
    in.v = malloc(rows * in.kv_size * sizeof(float));
    for (size_t i = 0; i < rows * in.q_size; i++)
        in.q[i] = test_random_normal(&random);
    for (size_t i = 0; i < rows * in.kv_size; i++) {
        in.k[i] = test_random_normal(&random);
        in.v[i] = test_random_normal(&random);
    }
    return in;
}

static void inputs_free(Inputs *in) {
    free(in->q);
    free(in->k);
    free(in->v);
}

static KeyPattern pattern_of(const Setup *s) {
    KeyPattern pattern = s->pattern;
    pattern.window = s->window;
    return pattern;
}

static AttentionShape shape_of(const Setup *s) {
    return (AttentionShape){s->n_heads,    s->n_kv_heads,
                            s->head_dim,   1 / sqrtf((float)s->head_dim),
                            pattern_of(s), s->cap};
}

// A device of one instruction set, or NULL where this processor lacks it.
static Device *open_isa(const char *isa, int threads) {
    setenv("LIMPID_ISA", isa, 1);
    Device *device = device_open(threads, PRECISION_F32);
    unsetenv("LIMPID_ISA");
    if (device_error(device)->code == ERROR_NONE) return device;
    device_close(device);
    return NULL;
}

static KvShape kv_shape_of(const Setup *s) {
    return (KvShape){2, s->n_sequences, s->n_kv_heads, s->head_dim, s->length, s->type, NULL, 0};
}

// Rows positions[i] of sequences[i]: written to the cache, then attended to, in one call each.
static void run_rows(Device *device, const Inputs *in, Kv *kv, const int32_t *positions,
                     const int32_t *sequences, int n, float *out, float *weights) {
    size_t q_row = in->q_size, kv_row = in->kv_size;
    float *q = malloc((size_t)n * q_row * sizeof *q), *k = malloc((size_t)n * kv_row * sizeof *k);
    float *v = malloc((size_t)n * kv_row * sizeof *v);
    for (int i = 0; i < n; i++) {
        size_t row = (size_t)(sequences[i] * in->s.length + positions[i]), at = (size_t)i;
        memcpy(q + at * q_row, in->q + row * q_row, q_row * sizeof *q);
        memcpy(k + at * kv_row, in->k + row * kv_row, kv_row * sizeof *k);
        memcpy(v + at * kv_row, in->v + row * kv_row, kv_row * sizeof *v);
    }
    AttentionShape shape = shape_of(&in->s);
    Rows rows = {n, NULL, positions, sequences};
    KvView view = {kv, 1};
    kv_write(device, &view, k, v, &rows);
    attention(device, out, q, &view, &rows, &shape, weights);
    CHECK_INT(device_error(device)->code, ERROR_NONE);
    free(q);
    free(k);
    free(v);
}

// All rows of all sequences, `superblock` at a time; out (n_sequences * length, q_size).
static float *run_all(const Inputs *in, const char *isa, int threads, int superblock) {
    Device *device = open_isa(isa, threads);
    if (!device) return NULL;
    KvShape kv_shape = kv_shape_of(&in->s);
    Kv *kv = kv_open(device, &kv_shape);
    int total = in->s.length * in->s.n_sequences;
    float *out = malloc((size_t)total * in->q_size * sizeof *out);
    memset(out, 0xff, (size_t)total * in->q_size * sizeof *out);
    int32_t *positions = malloc((size_t)superblock * 4),
            *sequences = malloc((size_t)superblock * 4);
    for (int row = 0; row < total; row += superblock) {
        int n = total - row < superblock ? total - row : superblock;
        for (int i = 0; i < n; i++) {
            positions[i] = (row + i) % in->s.length;
            sequences[i] = (row + i) / in->s.length;
        }
        run_rows(device, in, kv, positions, sequences, n, out + (size_t)row * in->q_size, NULL);
    }
    free(positions);
    free(sequences);
    kv_close(device, kv);
    device_close(device);
    return out;
}

static double cached(const Setup *s, float x) {
    return s->type == KV_F32 ? x : kv_widen(s->type, kv_narrow(s->type, x));
}

// The definition in double: one row and head of `out`; weights (position + 1) or NULL.
static void expected(const Inputs *in, int sequence, int position, int head, double *out,
                     double *weights) {
    const Setup *s = &in->s;
    KeyPattern pattern = pattern_of(s);
    int hd = s->head_dim, g = head / (s->n_heads / s->n_kv_heads);
    size_t row = (size_t)(sequence * s->length + position);
    const float *q = in->q + row * in->q_size + (size_t)(head * hd);
    double *p = calloc((size_t)position + 1, sizeof *p), max = -INFINITY, sum = 0;
    for (int t = 0; t <= position; t++) {
        size_t at = (size_t)(sequence * s->length + t) * in->kv_size + (size_t)(g * hd);
        p[t] = -INFINITY;
        if (!key_visible(&pattern, position, t)) continue;
        p[t] = 0;
        for (int j = 0; j < hd; j++)
            p[t] += (double)q[j] * cached(s, in->k[at + (size_t)j]);
        p[t] /= sqrt(hd);
        if (s->cap > 0) p[t] = (double)s->cap * tanh(p[t] / (double)s->cap);
        if (p[t] > max) max = p[t];
    }
    for (int t = 0; t <= position; t++)
        sum += p[t] = exp(p[t] - max);
    for (int j = 0; j < hd; j++)
        out[j] = 0;
    for (int t = 0; t <= position; t++) {
        size_t at = (size_t)(sequence * s->length + t) * in->kv_size + (size_t)(g * hd);
        for (int j = 0; j < hd; j++)
            out[j] += p[t] / sum * cached(s, in->v[at + (size_t)j]);
        if (weights) weights[t] = p[t] / sum;
    }
    free(p);
}

// Largest error over some rows. Weights sum to 1 and values are about 1, so errors are those of the
// scores, a chain of head_dim roundings of numbers about 1, and of exp: some 1e-6.
static void check_against_double(const Inputs *in, const float *out, int step) {
    double wanted[256];
    for (int row = 0; row < in->s.length * in->s.n_sequences; row += step) {
        for (int h = 0; h < in->s.n_heads; h++) {
            expected(in, row / in->s.length, row % in->s.length, h, wanted, NULL);
            const float *got = out + (size_t)row * in->q_size + (size_t)(h * in->s.head_dim);
            for (int j = 0; j < in->s.head_dim; j++)
                CHECK_NEAR(got[j], wanted[j], 1e-5);
        }
    }
}

static void check_same(const Inputs *in, const float *wanted, float *got, const char *what) {
    size_t floats = (size_t)(in->s.length * in->s.n_sequences) * in->q_size;
    if (!got) return; // the processor lacks the instruction set
    for (size_t i = 0; i < floats; i++)
        CHECK(memcmp(got + i, wanted + i, sizeof *got) == 0, "%s: row %zu: %.9g, not %.9g", what,
              i / in->q_size, got[i], wanted[i]);
    free(got);
}

static const Setup SHAPES[] = {
    // heads, kv heads, head_dim, length, window, sequences, type, pattern, cap
    {8, 4, 8, 70, 0, 1, KV_F32, {0}, 0},     // stories260K
    {9, 3, 64, 300, 0, 1, KV_F16, {0}, 0},   // SmolLM2: over a chunk
    {4, 1, 256, 40, 16, 1, KV_F16, {0}, 0},  // Gemma: windows
    {5, 5, 40, 45, 7, 2, KV_F32, {0}, 0},    // head_dim no multiple of 16
    {14, 2, 48, 33, 0, 3, KV_F16, {0}, 0},   // groups of 7, several sequences
    {3, 1, 80, 530, 260, 1, KV_F32, {0}, 0}, // a window over chunks
    {2, 2, 5, 20, 1, 1, KV_F32, {0}, 0},     // its own key only
    {71, 1, 16, 18, 0, 1, KV_F16, {0}, 0},   // more heads than a pass has
    {2, 1, 96, 18, 0, 1, KV_F16, {0}, 0},
    {2, 1, 128, 18, 0, 1, KV_F32, {0}, 0},
    {9, 3, 64, 300, 0, 1, KV_BF16, {0}, 0},
    {5, 5, 40, 45, 7, 2, KV_BF16, {0}, 0},
    {9, 3, 64, 600, 0, 1, KV_F16, {0, 2, {{PATTERN_LOCAL, 64}, {PATTERN_GLOBAL, 4}}}, 0},
    {6, 2, 20, 560, 0, 2, KV_F32, {0, 2, {{PATTERN_WINDOW, 3}, {PATTERN_STRIDED, 37}}}, 0},
    {8, 1, 16, 540, 290, 1, KV_BF16, {0, 2, {{PATTERN_BLOCK, 20}, {PATTERN_STRIDED, 9}}}, 0},
    {6, 2, 40, 530, 0, 1, KV_F16, {0}, 2}, // a cap
    {6, 2, 24, 300, 9, 2, KV_F32, {0}, 0.5f},
};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };

Test(cpu_attention, is_the_definition) {
    for (int i = 0; i < N_SHAPES; i++) {
        Inputs in = inputs_make(&SHAPES[i], 1 + (uint64_t)i);
        float *out = run_all(&in, "", 2, 100);
        check_against_double(&in, out, 7);
        free(out);
        inputs_free(&in);
    }
}

// Beside portable; of all processors: those that this one lacks are passed over.
static const char *const WIDER[] = {"avx2", "avx512", "neon", "dotprod", "i8mm"};
enum { N_WIDER = sizeof WIDER / sizeof *WIDER };

Test(cpu_attention, has_the_same_bits_from_every_instruction_set) {
    for (int i = 0; i < N_SHAPES; i++) {
        Inputs in = inputs_make(&SHAPES[i], 50 + (uint64_t)i);
        float *out = run_all(&in, "portable", 1, 64);
        CHECK(out, "portable runs everywhere");
        for (int isa = 0; isa < N_WIDER; isa++)
            check_same(&in, out, run_all(&in, WIDER[isa], 1, 64), WIDER[isa]);
        free(out);
        inputs_free(&in);
    }
}

Test(cpu_attention, has_the_same_bits_from_any_threads_and_pieces) {
    static const int superblocks[] = {1000000, 1, 7, 32, 100};
    static const int threads[] = {1, 2, 3, 7};
    for (int i = 0; i < N_SHAPES; i++) {
        Inputs in = inputs_make(&SHAPES[i], 90 + (uint64_t)i);
        int total = in.s.length * in.s.n_sequences;
        float *out = run_all(&in, "", 1, total);
        for (int p = 0; p < 5; p++) {
            char what[64];
            int superblock = superblocks[p] < total ? superblocks[p] : total;
            snprintf(what, sizeof what, "shape %d, %d at a time", i, superblock);
            check_same(&in, out, run_all(&in, "", threads[p % 4], superblock), what);
        }
        free(out);
        inputs_free(&in);
    }
}

// One row each of sequences of very different lengths: threads share the chunks of the longest, and
// the rows have the bits that each has alone.
Test(cpu_attention, decodes_sequences_of_unequal_lengths) {
    enum { SEQUENCES = 5, LENGTH = 2100 };
    static const int32_t LAST[SEQUENCES] = {2, LENGTH - 1, 255, 256, 700};
    static const int32_t NUMBERS[SEQUENCES] = {0, 1, 2, 3, 4};
    Setup setup = {6, 2, 64, LENGTH, 0, SEQUENCES, KV_F16, {0}, 0};
    Inputs in = inputs_make(&setup, 11);
    size_t total = SEQUENCES * LENGTH;
    int32_t *positions = malloc(2 * total * sizeof *positions), *sequences = positions + total;
    for (size_t i = 0; i < total; i++) {
        positions[i] = (int32_t)(i % LENGTH);
        sequences[i] = (int32_t)(i / LENGTH);
    }
    float *q = malloc(SEQUENCES * in.q_size * sizeof *q);
    float *out = malloc(2 * SEQUENCES * in.q_size * sizeof *out),
          *alone = out + SEQUENCES * in.q_size;
    for (size_t i = 0; i < SEQUENCES; i++)
        memcpy(q + i * in.q_size, in.q + (i * LENGTH + (size_t)LAST[i]) * in.q_size,
               in.q_size * sizeof *q);
    for (int threads = 1; threads <= 7; threads += 2) {
        Device *device = open_isa("", threads);
        KvShape kv_shape = kv_shape_of(&setup);
        Kv *kv = kv_open(device, &kv_shape);
        KvView view = {kv, 1};
        AttentionShape shape = shape_of(&in.s);
        Rows all = {(int)total, NULL, positions, sequences},
             rows = {SEQUENCES, NULL, LAST, NUMBERS};
        kv_write(device, &view, in.k, in.v, &all);
        attention(device, out, q, &view, &rows, &shape, NULL);
        for (int i = 0; i < SEQUENCES; i++) {
            Rows one = {1, NULL, LAST + i, NUMBERS + i};
            size_t at = (size_t)i * in.q_size;
            attention(device, alone + at, q + at, &view, &one, &shape, NULL);
        }
        CHECK(!memcmp(out, alone, SEQUENCES * in.q_size * sizeof *out), "%d threads", threads);
        for (int i = 0; i < SEQUENCES; i++) {
            double wanted[64];
            expected(&in, i, LAST[i], 5, wanted, NULL);
            for (int j = 0; j < 64; j++)
                CHECK_NEAR(out[(size_t)i * in.q_size + 5 * 64 + (size_t)j], wanted[j], 1e-5);
        }
        kv_close(device, kv);
        device_close(device);
    }
    free(positions);
    free(q);
    free(out);
    inputs_free(&in);
}

// One token at the end of a long cache: threads take single chunks.
Test(cpu_attention, decodes_over_a_long_cache) {
    Setup setup = {6, 2, 64, 4100, 0, 1, KV_F16, {0}, 0};
    Inputs in = inputs_make(&setup, 7);
    float base[6 * 64], out[6 * 64];
    double wanted[64];
    static const int windows[] = {0, 1000, 4100};
    for (int w = 0; w < 3; w++) {
        in.s.window = windows[w];
        for (int threads = 1; threads <= 7; threads += 2) {
            Device *device = open_isa("", threads);
            KvShape kv_shape = kv_shape_of(&setup);
            Kv *kv = kv_open(device, &kv_shape);
            int32_t *positions = malloc(4100 * sizeof *positions), last = 4099;
            int32_t *sequences = calloc(4100, sizeof *sequences);
            for (int t = 0; t < 4100; t++)
                positions[t] = t;
            Rows rows = {4100, NULL, positions, sequences}, one = {1, NULL, &last, sequences};
            KvView view = {kv, 1};
            AttentionShape shape = shape_of(&in.s);
            kv_write(device, &view, in.k, in.v, &rows);
            attention(device, out, in.q + 4099 * in.q_size, &view, &one, &shape, NULL);
            if (threads == 1) memcpy(base, out, sizeof out);
            CHECK(memcmp(base, out, sizeof out) == 0, "%d threads", threads);
            free(positions);
            free(sequences);
            device_close(device);
        }
        for (int h = 0; h < 6; h++) {
            expected(&in, 0, 4099, h, wanted, NULL);
            for (int j = 0; j < 64; j++)
                CHECK_NEAR(base[h * 64 + j], wanted[j], 1e-5);
        }
    }
    inputs_free(&in);
}

Test(cpu_attention, mixes_sequences_in_one_batch) {
    Setup setup = {6, 2, 24, 40, 0, 4, KV_F16, {0}, 0};
    Inputs in = inputs_make(&setup, 11);
    float *wanted = run_all(&in, "", 1, setup.length);
    Device *device = open_isa("", 3);
    KvShape kv_shape = kv_shape_of(&setup);
    Kv *kv = kv_open(device, &kv_shape);
    float *out = malloc(160 * in.q_size * sizeof *out);
    for (int t = 0; t < 40; t++) { // one row of each sequence a call, in another order every time
        int32_t positions[4], sequences[4];
        for (int i = 0; i < 4; i++) {
            positions[i] = t;
            sequences[i] = (i * 3 + t) % 4;
        }
        run_rows(device, &in, kv, positions, sequences, 4, out, NULL);
        for (int i = 0; i < 4; i++) {
            size_t row = (size_t)(sequences[i] * 40 + t);
            CHECK(memcmp(out + (size_t)i * in.q_size, wanted + row * in.q_size,
                         in.q_size * sizeof *out) == 0,
                  "position %d, row %d", t, i);
        }
    }
    free(out);
    free(wanted);
    device_close(device);
    inputs_free(&in);
}

Test(cpu_attention, knows_every_pattern_and_tells_its_weights) {
    static const KeyPattern patterns[] = {
        {0},
        {.window = 9},
        {0, 1, {{PATTERN_LOCAL, 6}}},
        {0, 1, {{PATTERN_STRIDED, 5}}},
        {0, 1, {{PATTERN_GLOBAL, 3}}},
        {0, 1, {{PATTERN_BLOCK, 8}}},
        {0, 2, {{PATTERN_LOCAL, 64}, {PATTERN_GLOBAL, 4}}},
        {200, 3, {{PATTERN_STRIDED, 3}, {PATTERN_STRIDED, 16}, {PATTERN_WINDOW, 2}}},
    };
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        Setup setup = {4, 2, 12, 600, patterns[p].window, 1, KV_F32, patterns[p], 0};
        Inputs in = inputs_make(&setup, 30);
        float *out = run_all(&in, "", 2, 600);
        check_against_double(&in, out, 59);
        Device *device = open_isa("", 2);
        KvShape kv_shape = kv_shape_of(&setup);
        Kv *kv = kv_open(device, &kv_shape);
        int32_t *positions = malloc(600 * 4), *sequences = calloc(600, 4);
        for (int t = 0; t < 600; t++)
            positions[t] = t;
        float *weights = malloc(600 * 4 * 600 * sizeof *weights);
        run_rows(device, &in, kv, positions, sequences, 600, out, weights);
        double wanted[12], probability[600];
        for (int t = 0; t < 600; t += 37) {
            for (int h = 0; h < 4; h++) {
                expected(&in, 0, t, h, wanted, probability);
                for (int key = 0; key < 600; key++)
                    CHECK_NEAR(weights[(size_t)(t * 4 + h) * 600 + (size_t)key],
                               key <= t ? probability[key] : 0, 1e-6);
            }
        }
        free(positions);
        free(sequences);
        free(weights);
        free(out);
        device_close(device);
        inputs_free(&in);
    }
}

// What was once written beyond the last position must not reach a result, whatever it is.
Test(cpu_attention, does_not_see_what_lies_beyond) {
    Setup setup = {6, 2, 20, 300, 0, 1, KV_F16, {0}, 0};
    Inputs in = inputs_make(&setup, 5);
    float *wanted = run_all(&in, "", 1, 300);
    Device *device = open_isa("", 1);
    KvShape kv_shape = kv_shape_of(&setup);
    Kv *kv = kv_open(device, &kv_shape);
    int32_t positions[300], sequences[300] = {0};
    float *bad = malloc(300 * in.kv_size * sizeof *bad);
    for (size_t i = 0; i < 300 * in.kv_size; i++)
        bad[i] = i % 3 ? (i % 3 == 1 ? NAN : INFINITY) : -INFINITY;
    for (int t = 0; t < 300; t++)
        positions[t] = t;
    Rows rows = {300, NULL, positions, sequences};
    KvView view = {kv, 1};
    kv_write(device, &view, bad, bad, &rows);
    float *out = malloc(300 * in.q_size * sizeof *out);
    for (int t = 0; t < 300; t += 13)
        run_rows(device, &in, kv, positions + t, sequences, t + 13 < 300 ? 13 : 300 - t,
                 out + (size_t)t * in.q_size, NULL);
    CHECK(memcmp(out, wanted, 300 * in.q_size * sizeof *out) == 0, "stale keys or values count");
    free(out);
    free(bad);
    free(wanted);
    device_close(device);
    inputs_free(&in);
}

Test(cpu_attention, says_nan_where_a_query_is_not_finite) {
    Setup setup = {2, 1, 16, 20, 0, 1, KV_F32, {0}, 0};
    Inputs in = inputs_make(&setup, 6);
    in.q[10 * in.q_size] = NAN;
    in.q[11 * in.q_size] = INFINITY;
    float *out = run_all(&in, "", 1, 20);
    for (int j = 0; j < 16; j++) {
        CHECK(isnan(out[10 * in.q_size + (size_t)j]), "NaN in q");
        CHECK(isnan(out[11 * in.q_size + (size_t)j]), "infinity in q");
        CHECK(isfinite(out[10 * in.q_size + 16 + (size_t)j]), "the other head");
        CHECK(isfinite(out[12 * in.q_size + (size_t)j]), "the next row");
    }
    free(out);
    inputs_free(&in);
}
