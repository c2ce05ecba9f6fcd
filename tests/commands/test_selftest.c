// selftest: every identity holds on models of every architecture, and every check fails when a
// kernel has a fault. Faults are planted at link time (ld --wrap, see Makefile): the checks run on
// the real kernels, one of which is wrapped.
#include "tests/test.h"
#include "commands/commands.h"
#include "commands/selftest/checks.h"
#include "tests/support/files/tiny_model.h"
#include "tests/support/program.h"

// ---- kernels that can be broken ----

typedef enum Fault {
    NO_FAULT,
    SINGLE_KEYS_OFF,   // a key written in a call of one row differs from the same key of a prompt
    PROMPT_OFF,        // a projection of several rows is slightly off
    BATCH_OFF,         // all rows of a batch read the cache of its first sequence
    LOOKS_AHEAD,       // a row sees the next key
    KEEPS_STALE_KEYS,  // a position that was written once is not overwritten
    COPIES_TOO_LITTLE, // a copy lacks the last position
    SOFTMAX_OFF,       // an attention weight is a thousandth too large
    SOFTMAX_LEAKS,     // a hidden key has weight
    WRONG_GROUPS,      // query head h reads key-value head h % n_kv_heads
    WRONG_PAIRS,       // RoPE rotates neighbouring channels, not halves
    CENTRES,           // RMSNorm subtracts the mean
    THREE_THREADS_OFF, // with 3 threads a projection is slightly off
    IGNORES_ROW_ORDER, // a matrix is read in the order in which it is stored
} Fault;

static Fault fault;

// Multiplies the first of some numbers in device memory.
static void nudge(Device *device, float *numbers, float factor) {
    float first;
    device_download(device, &first, numbers, sizeof first);
    first *= factor;
    device_upload(device, numbers, &first, sizeof first);
}

// Positions or sequences of rows, owned by the caller.
static int32_t *on_host(Device *device, const int32_t *numbers, int n) {
    int32_t *host = malloc((size_t)n * sizeof *host);
    if (!host) abort();
    device_download(device, host, numbers, (size_t)n * sizeof *host);
    return host;
}

static int32_t first_of(Device *device, const int32_t *numbers) {
    int32_t first;
    device_download(device, &first, numbers, sizeof first);
    return first;
}

#define WRAPPED(result, name, ...)                                                                 \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

WRAPPED(void, kv_write, Device *device, const KvView *view, const float *k, const float *v,
        const Rows *rows) {
    static int32_t highest;
    int32_t first = first_of(device, rows->positions);
    bool stale = first && first < highest;
    highest = first == 0 || first >= highest ? first + rows->n : highest;
    if (fault == KEEPS_STALE_KEYS && stale) return;
    if (fault == SINGLE_KEYS_OFF && rows->n == 1) nudge(device, (float *)k, 1.001f);
    __real_kv_write(device, view, k, v, rows);
}

WRAPPED(void, kv_copy, Device *device, Kv *kv, int to, int from, int count) {
    __real_kv_copy(device, kv, to, from, fault == COPIES_TOO_LITTLE ? count - 1 : count);
}

WRAPPED(void, project, Device *device, const float *x, int n, const Projection *projections,
        int count) {
    __real_project(device, x, n, projections, count);
    if ((fault == PROMPT_OFF && n > 1) ||
        (fault == THREE_THREADS_OFF && device_info(device)->threads == 3))
        nudge(device, projections[0].out, 1.00001f);
}

WRAPPED(void, rmsnorm, Device *device, float *out, const float *x, const float *weight, int n,
        int dim, float eps) {
    if (fault == CENTRES)
        layernorm(device, out, x, weight, NULL, n, dim, eps);
    else
        __real_rmsnorm(device, out, x, weight, n, dim, eps);
}

WRAPPED(DeviceMatrix *, device_matrix, Device *device, const Matrix *matrix) {
    Matrix as_stored = *matrix;
    as_stored.rope_dim = 0;
    return __real_device_matrix(device, fault == IGNORES_ROW_ORDER ? &as_stored : matrix);
}

WRAPPED(void, rope, Device *device, float *x, int n_heads, int head_dim, const RopeTable *table,
        const Rows *rows) {
    if (fault != WRONG_PAIRS) {
        __real_rope(device, x, n_heads, head_dim, table, rows);
        return;
    }
    // Moves neighbouring channels to where the kernel pairs them, and back afterwards.
    size_t count = (size_t)rows->n * (size_t)n_heads * (size_t)head_dim, half;
    float *host = malloc(2 * count * sizeof *host), *moved = host + count;
    if (!host) abort();
    half = (size_t)table->rope_dim / 2;
    for (int back = 0; back < 2; back++) {
        device_download(device, host, x, count * sizeof *host);
        memcpy(moved, host, count * sizeof *host);
        for (size_t head = 0; head < count; head += (size_t)head_dim)
            for (size_t j = 0; j < 2 * half; j++) {
                size_t to = j % 2 * half + j / 2;
                moved[head + (back ? j : to)] = host[head + (back ? to : j)];
            }
        device_upload(device, x, moved, count * sizeof *host);
        if (!back) __real_rope(device, x, n_heads, head_dim, table, rows);
    }
    free(host);
}

// Moves query heads to the slots of other groups, or back.
static void swap_heads(Device *device, float *to, const float *from, const Rows *rows,
                       const AttentionShape *s, bool back) {
    size_t head_dim = (size_t)s->head_dim, heads = (size_t)s->n_heads;
    size_t groups = (size_t)s->n_kv_heads, bytes = (size_t)rows->n * heads * head_dim * 4;
    float *host = malloc(2 * bytes), *moved = host + bytes / 4;
    if (!host) abort();
    device_download(device, host, from, bytes);
    for (size_t i = 0; i < (size_t)rows->n; i++)
        for (size_t h = 0; h < heads; h++) {
            size_t slot = h % groups * (heads / groups) + h / groups;
            size_t a = (i * heads + (back ? slot : h)) * head_dim;
            size_t b = (i * heads + (back ? h : slot)) * head_dim;
            memcpy(moved + b, host + a, head_dim * sizeof *host);
        }
    device_upload(device, to, moved, bytes);
    free(host);
}

// Moves every row one position ahead, up to the last one that the call has written.
static void look_ahead(int32_t *positions, int n) {
    int32_t last = 0;
    for (int i = 0; i < n; i++)
        if (positions[i] > last) last = positions[i];
    for (int i = 0; i < n; i++)
        positions[i] += positions[i] < last;
}

void __real_attention(Device *device, float *out, const float *q, const KvView *view,
                      const Rows *rows, const AttentionShape *shape, float *weights_out);

// attention with wrong positions or sequences of its rows, which are restored afterwards.
static void attend_wrongly(Device *device, float *out, const float *q, const KvView *view,
                           const Rows *rows, const AttentionShape *shape, float *weights_out) {
    const int32_t *numbers = fault == LOOKS_AHEAD ? rows->positions : rows->sequences;
    size_t bytes = (size_t)rows->n * sizeof *numbers;
    int32_t *right = on_host(device, numbers, rows->n), *wrong = on_host(device, numbers, rows->n);
    if (fault == LOOKS_AHEAD) look_ahead(wrong, rows->n);
    for (int i = 0; fault == BATCH_OFF && i < rows->n; i++)
        wrong[i] = wrong[0];
    device_upload(device, (void *)numbers, wrong, bytes);
    __real_attention(device, out, q, view, rows, shape, weights_out);
    device_upload(device, (void *)numbers, right, bytes);
    free(right);
    free(wrong);
}

WRAPPED(void, attention, Device *device, float *out, const float *q, const KvView *view,
        const Rows *rows, const AttentionShape *shape, float *weights_out) {
    bool wrong_groups = fault == WRONG_GROUPS && shape->n_kv_heads < shape->n_heads;
    if (wrong_groups) swap_heads(device, (float *)q, q, rows, shape, false);
    if (fault == LOOKS_AHEAD || fault == BATCH_OFF)
        attend_wrongly(device, out, q, view, rows, shape, weights_out);
    else
        __real_attention(device, out, q, view, rows, shape, weights_out);
    if (wrong_groups) {
        swap_heads(device, out, out, rows, shape, true);
        swap_heads(device, (float *)q, q, rows, shape, true);
    }
    if (fault == SOFTMAX_OFF && weights_out) nudge(device, weights_out, 1.001f);
    if (fault == SOFTMAX_LEAKS && weights_out) {
        float leak = 1e-9f;
        device_upload(device, weights_out + first_of(device, rows->positions) + 1, &leak,
                      sizeof leak);
    }
}

// ---- on models in memory ----

enum { LENGTH = 21 };

static Finding run_check(const TinyModel *tiny, const ModelOptions *options, const char *key) {
    int32_t ids[LENGTH];
    TestRandom random = {5};
    for (int i = 0; i < LENGTH; i++)
        ids[i] = (int32_t)(test_random(&random) % (uint64_t)tiny->config.vocab_size);
    Subject s = {0};
    Finding f = {0};
    Error error = {0};
    CHECK(subject_open(&s, &tiny->config, &tiny->weights, options, ids, LENGTH, &error), "%s",
          error.message);
    const Check *check = selftest_check(0);
    for (int i = 0; check && strcmp(check->key, key); check = selftest_check(++i)) {
    }
    CHECK(check, "no check %s", key);
    CHECK(selftest_run(check, &s, &f, &error), "%s: %s", key, error.message);
    subject_close(&s);
    return f;
}

static void check_all_hold(const TinyShape *shape, const ModelOptions *options, int inapplicable) {
    TinyModel *tiny = tiny_model_open(shape);
    int not_applying = 0;
    for (int i = 0; selftest_check(i); i++) {
        const char *key = selftest_check(i)->key;
        Finding f = run_check(tiny, options, key);
        not_applying += f.inapplicable && strcmp(key, "threads") != 0;
        CHECK(f.inapplicable || finding_held(&f), "%s: %g of %g, layer %d, position %d", key,
              f.largest, f.bound, f.layer, f.position);
        CHECK(f.inapplicable || f.compared >= LENGTH, "%s: %d values", key, (int)f.compared);
    }
    CHECK_INT(not_applying, inapplicable);
    tiny_model_close(tiny);
}

Test(selftest, holds_in_every_precision_and_type) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_1};
    fault = NO_FAULT;
    for (int t = 0; t < 4; t++)
        for (int p = 0; p < 3; p++) {
            TinyShape shape = tiny_shape();
            shape.dtype = TYPES[t];
            shape.head_dim = t < 2 ? 40 : 32;
            ModelOptions options = {.precision = (Precision)p, .kv_type = p ? KV_F16 : KV_F32};
            check_all_hold(&shape, &options, 0);
        }
}

Test(selftest, holds_in_every_architecture) {
    static const ModelOptions OPTIONS = {.threads = 2, .precision = PRECISION_F32};
    fault = NO_FAULT;
    TinyShape shape = tiny_shape();
    shape.layer_norm = shape.biases = shape.plain_ffn = shape.learned = true; // GPT-2's
    shape.n_kv_heads = shape.n_heads;
    check_all_hold(&shape, &OPTIONS, 4);
    shape = tiny_shape();
    shape.biases = true; // Qwen 2's, with a window
    shape.window = 6;
    check_all_hold(&shape, &OPTIONS, 0);
    shape = tiny_shape();
    shape.qk_norm = QK_NORM_PER_HEAD; // Qwen 3's, with Gemma's norms
    shape.post_norms = true;
    check_all_hold(&shape, &OPTIONS, 0);
    shape.qk_norm = QK_NORM_FULL_WIDTH; // OLMo 2's
    shape.no_pre_norms = shape.untied = true;
    check_all_hold(&shape, &OPTIONS, 0);
}

// ---- every check can fail ----

static void check_fails(Fault which, const char *key) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = {.precision = PRECISION_F32, .threads = 2};
    fault = NO_FAULT;
    Finding sound = run_check(tiny, &options, key);
    fault = which;
    Finding broken = run_check(tiny, &options, key);
    fault = NO_FAULT;
    tiny_model_close(tiny);
    if (sound.inapplicable) SKIP("%s: %s", key, sound.inapplicable);
    CHECK(finding_held(&sound), "%s does not hold by itself", key);
    CHECK(!finding_held(&broken), "%s holds with fault %d", key, (int)which);
    CHECK(broken.different > 0 && broken.largest > broken.bound);
    CHECK(broken.layer >= 0 || broken.position >= 0);
}

Test(selftest, sees_a_cached_key_that_is_off) {
    check_fails(SINGLE_KEYS_OFF, "cache");
}

Test(selftest, sees_a_prompt_that_differs_from_its_tokens) {
    check_fails(PROMPT_OFF, "at_once");
}

Test(selftest, sees_a_batch_that_reads_one_sequence) {
    check_fails(BATCH_OFF, "batch");
}

Test(selftest, sees_a_look_ahead) {
    check_fails(LOOKS_AHEAD, "causal");
}

Test(selftest, sees_stale_keys) {
    check_fails(KEEPS_STALE_KEYS, "truncate");
}

Test(selftest, sees_a_copy_that_is_short) {
    check_fails(COPIES_TOO_LITTLE, "copy");
}

Test(selftest, sees_attention_weights_that_are_no_softmax) {
    check_fails(SOFTMAX_OFF, "softmax");
    check_fails(SOFTMAX_LEAKS, "softmax");
}

Test(selftest, sees_wrong_groups) {
    check_fails(WRONG_GROUPS, "repeat_kv");
}

Test(selftest, sees_wrong_pairs) {
    check_fails(WRONG_PAIRS, "rope_pairing");
}

Test(selftest, sees_a_norm_that_subtracts_the_mean) {
    check_fails(CENTRES, "norm_commutes");
}

Test(selftest, sees_a_result_that_depends_on_threads) {
    check_fails(THREE_THREADS_OFF, "threads");
}

Test(selftest, sees_a_row_order_that_is_ignored) {
    check_fails(IGNORES_ROW_ORDER, "row_order");
}

// A fault in every forward pass gives logits that agree with each other: only the check that
// computes the faulty step in another way sees it.
Test(selftest, a_wrong_model_is_seen_by_the_one_check_that_can) {
    static const struct {
        Fault fault;
        const char *seen_by;
    } FAULTS[] = {{WRONG_GROUPS, "repeat_kv"},
                  {WRONG_PAIRS, "rope_pairing"},
                  {CENTRES, "norm_commutes"},
                  {COPIES_TOO_LITTLE, "copy"}};
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    ModelOptions options = {.precision = PRECISION_F32, .threads = 1};
    for (size_t k = 0; k < sizeof FAULTS / sizeof *FAULTS; k++)
        for (int i = 0; selftest_check(i); i++) {
            const char *key = selftest_check(i)->key;
            fault = FAULTS[k].fault;
            Finding f = run_check(tiny, &options, key);
            fault = NO_FAULT;
            bool sees = !strcmp(key, FAULTS[k].seen_by);
            CHECK(f.inapplicable || finding_held(&f) == !sees, "fault %d, %s", (int)FAULTS[k].fault,
                  key);
        }
    tiny_model_close(tiny);
}

// The whole command on a file, with a broken kernel: exit code 1 and the first that failed.
Test(selftest, a_failed_identity_is_exit_code_1) {
    char *argv[] = {"selftest", (char *)small_model(), "--json", NULL};
    Options options;
    Error error = {0};
    CHECK(options_parse(&options, FOR_SELFTEST, 3, argv, &error), "%s", error.message);
    fault = COPIES_TOO_LITTLE;
    bool good = selftest_command(&options, &error);
    fault = NO_FAULT;
    CHECK(!good);
    CHECK_INT(error.code, ERROR_ANSWER_NO);
    CHECK(
        strstr(error.message, "identities failed, the first: a copied sequence continues the same"),
        "%s", error.message);
}
