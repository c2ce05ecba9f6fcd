// The cache of a layer with a window, which is a ring: attention over it has the bits of attention
// over a cache of all positions, and what it holds is what was written last.
#include "kernels/limits.h"
#include "tests/support/device.h"

enum { HEADS = 6, KV_HEADS = 2, WINDOW = 300, ROWS = 40, END = 800, RING = 368 };
static const int WINDOWS[] = {0, WINDOW};

typedef struct Pair {
    Device *device;
    Kv *ring, *all; // the same keys and values
    int head_dim;
    float *out[2], *weights[2]; // device
} Pair;

static KvShape shape_of(int head_dim, KvType type, bool ring) {
    return (KvShape){2, 2, KV_HEADS, head_dim, END, type, ring ? WINDOWS : NULL, ROWS};
}

static void pair_open(Pair *p, int head_dim, KvType type, int threads, Precision precision) {
    KvShape ring = shape_of(head_dim, type, true), all = shape_of(head_dim, type, false);
    *p = (Pair){.device = test_device(threads, precision), .head_dim = head_dim};
    p->ring = kv_open(p->device, &ring);
    p->all = kv_open(p->device, &all);
    device_reserve(p->device, ROWS);
    for (int i = 0; i < 2; i++) {
        p->out[i] = device_alloc(p->device, (size_t)ROWS * HEADS * (size_t)head_dim * 4);
        p->weights[i] = device_alloc(p->device, (size_t)ROWS * HEADS * END * 4);
    }
    CHECK(!device_error(p->device)->code, "%s", device_error(p->device)->message);
}

static void pair_close(Pair *p) {
    kv_close(p->device, p->ring);
    kv_close(p->device, p->all);
    for (int i = 0; i < 2; i++) {
        device_free(p->device, p->out[i]);
        device_free(p->device, p->weights[i]);
    }
    test_device_close(p->device);
}

static float *uploaded(Pair *p, TestRandom *random, size_t count) {
    float *host = random_floats(random, count, 1.5f);
    float *device = upload_floats(p->device, host, count);
    free(host);
    return device;
}

static void check_same(Pair *p, float *const of[2], size_t count, const char *what, int first) {
    float *ring = malloc(count * sizeof *ring), *all = malloc(count * sizeof *all);
    device_download(p->device, ring, of[0], count * sizeof *ring);
    device_download(p->device, all, of[1], count * sizeof *all);
    CHECK(!memcmp(ring, all, count * sizeof *ring), "%s of the pass from %d on", what, first);
    free(ring);
    free(all);
}

// A pass of n rows of sequence 1 from position `first` on.
static void run_pass(Pair *p, TestRandom *random, int first, int n, const AttentionShape *shape,
                     bool weights) {
    int32_t positions[ROWS], sequences[ROWS];
    for (int i = 0; i < n; i++)
        positions[i] = first + i, sequences[i] = 1;
    size_t kv = (size_t)n * KV_HEADS * (size_t)p->head_dim,
           q = (size_t)n * HEADS * (size_t)p->head_dim;
    Rows rows = test_rows(p->device, n, NULL, positions, sequences);
    float *k = uploaded(p, random, kv), *v = uploaded(p, random, kv);
    float *queries = uploaded(p, random, q);
    for (int i = 0; i < 2; i++) {
        KvView view = {i ? p->all : p->ring, 1};
        device_begin(p->device, &(PassShape){.n = n, .max_position = first + n - 1});
        kv_write(p->device, &view, k, v, &rows);
        attention(p->device, p->out[i], queries, &view, &rows, shape,
                  weights ? p->weights[i] : NULL);
        device_end(p->device);
    }
    check_same(p, p->out, q, "attention", first);
    if (weights) check_same(p, p->weights, (size_t)n * HEADS * END, "weights", first);
    device_free(p->device, k);
    device_free(p->device, v);
    device_free(p->device, queries);
}

static void compare(int head_dim, KvType type, int threads, Precision precision) {
    static const KeyPattern PATTERNS[] = {{.window = WINDOW},
                                          {WINDOW, 2, {{PATTERN_STRIDED, 7}, {PATTERN_LOCAL, 90}}}};
    for (int i = 0; i < 2; i++) {
        TestRandom random = {(uint64_t)(head_dim + i)};
        Pair p;
        pair_open(&p, head_dim, type, threads, precision);
        AttentionShape shape = {HEADS, KV_HEADS, head_dim, 0.2f, PATTERNS[i], i ? 3.0f : 0.0f};
        int first = 0;
        for (; first + ROWS <= END - 20; first += ROWS)
            run_pass(&p, &random, first, ROWS, &shape, first % 3 == 0);
        for (; first < END; first++)
            run_pass(&p, &random, first, 1, &shape, first % 5 == 0);
        pair_close(&p);
    }
}

Test(ring, attention_has_the_bits_of_a_cache_of_all_positions) {
    for (int type = 0; type < KV_TYPE_COUNT; type++)
        for (int threads = 1; threads <= (TEST_EMULATED ? 1 : 4); threads += 3)
            compare(type == KV_F16 ? 64 : 40, (KvType)type, threads, PRECISION_A16);
}

// Hand-worked: the window, a pass and 16 tentative rows, in tiles of 16, of the second layer alone.
Test(ring, has_room_for_the_window_and_a_pass) {
    KvShape ring = shape_of(16, KV_F32, true), all = shape_of(16, KV_F32, false);
    CHECK_INT(kv_slots(&ring, 0), END);
    CHECK_INT(kv_slots(&ring, 1), RING); // 300 + 40 + 16 = 356, rounded up
    CHECK_INT(kv_bytes(&all),
              2 * 2 * 2 * KV_HEADS * END * 16 * 4); // keys, values; layers; sequences
    CHECK_INT(kv_bytes(&ring), 2 * 2 * KV_HEADS * (END + RING) * 16 * 4);
    ring.max_rows = 1; // as many as a Decoder takes back
    CHECK_INT(kv_slots(&ring, 1), 336);
    ring.max_rows = 600; // no more than there are positions
    CHECK_INT(kv_slots(&ring, 1), END);
    CHECK_INT(kv_bytes(&ring), kv_bytes(&all));
}

// Positions 432 .. 799 are held; a span of them goes round the end of the ring at 736.
Test(ring, saves_restores_copies_and_reads_what_it_holds) {
    TestRandom random = {5};
    Pair p;
    pair_open(&p, 40, KV_F16, 2, PRECISION_F32);
    AttentionShape shape = {HEADS, KV_HEADS, 40, 0.2f, {.window = WINDOW}, 0};
    for (int first = 0; first < END; first += ROWS)
        run_pass(&p, &random, first, ROWS, &shape, false);
    KvView ring = {p.ring, 1}, all = {p.all, 1};
    size_t bytes = (size_t)RING * 40 * 2;
    char *saved = calloc(4, bytes), *wanted = saved + 2 * bytes;
    KvSpan span = {1, 1, END - RING, END};
    kv_save(p.device, &ring, &span, saved, saved + bytes);
    kv_save(p.device, &all, &span, wanted, wanted + bytes);
    CHECK(!memcmp(saved, wanted, 2 * bytes), "saved");
    kv_restore(p.device, &ring, &(KvSpan){0, 0, END - RING, END}, saved, saved + bytes);
    kv_copy(p.device, p.ring, 0, 1, 0); // nothing
    for (int position = END - RING; position < END; position++) {
        float k[40], v[40], wanted_k[40], wanted_v[40];
        kv_read(p.device, &ring, 0, 0, position, k, v);
        kv_read(p.device, &all, 1, 1, position, wanted_k, wanted_v);
        CHECK(!memcmp(k, wanted_k, sizeof k) && !memcmp(v, wanted_v, sizeof v), "%d", position);
    }
    kv_copy(p.device, p.ring, 0, 1, END);
    memset(saved, 0, 2 * bytes);
    span.sequence = 0;
    kv_save(p.device, &ring, &span, saved, saved + bytes);
    CHECK(!memcmp(saved, wanted, 2 * bytes), "copied");
    free(saved);
    pair_close(&p);
}
