// The cache of kernels.h: what is written is read back, in its own place and no other.
#include "kernels/precision.h"
#include "tests/support/device.h"

enum { LAYERS = 3, SEQUENCES = 2, HEADS = 2, POSITIONS = 40 };

// A cache with random keys and values in every place of layer 1, and the other way round in layer
// 2; layer 0 stays as it was opened.
typedef struct Cache {
    Device *device;
    Kv *kv;
    size_t head_dim;
    float *k, *v; // host (SEQUENCES, POSITIONS, HEADS, head_dim), as the cache can hold them
} Cache;

static size_t place(const Cache *c, int sequence, int position, int head) {
    return (size_t)((sequence * POSITIONS + position) * HEADS + head) * c->head_dim;
}

static void cache_open(Cache *c, int head_dim, KvType type) {
    TestRandom random = {(uint64_t)head_dim};
    size_t rows = SEQUENCES * POSITIONS, count = rows * HEADS * (size_t)head_dim;
    int32_t positions[SEQUENCES * POSITIONS], sequences[SEQUENCES * POSITIONS];
    KvShape shape = {LAYERS, SEQUENCES, HEADS, head_dim, POSITIONS, type, NULL, 0};
    *c = (Cache){.device = test_device(1, PRECISION_F32), .head_dim = (size_t)head_dim};
    c->kv = kv_open(c->device, &shape);
    CHECK(c->kv, "%s", device_error(c->device)->message);
    CHECK(kv_bytes(&shape) >= LAYERS * 2 * count * kv_element_bytes(type), "room for all");
    c->k = random_floats(&random, count, 1);
    c->v = random_floats(&random, count, 1);
    for (int i = 0; i < SEQUENCES * POSITIONS; i++) {
        positions[i] = i % POSITIONS;
        sequences[i] = i / POSITIONS;
    }
    Rows all = test_rows(c->device, (int)rows, NULL, positions, sequences);
    float *k = upload_floats(c->device, c->k, count), *v = upload_floats(c->device, c->v, count);
    kv_write(c->device, &(KvView){c->kv, 1}, k, v, &all);
    kv_write(c->device, &(KvView){c->kv, 2}, v, k, &all);
    for (size_t i = 0; type != KV_F32 && i < count; i++) {
        c->k[i] = kv_widen(type, kv_narrow(type, c->k[i]));
        c->v[i] = kv_widen(type, kv_narrow(type, c->v[i]));
    }
}

static void cache_close(Cache *c) {
    kv_close(c->device, c->kv);
    test_device_close(c->device);
    free(c->k), free(c->v);
}

// What stands at a place is what was written to (sequence, position).
static void check_place(Cache *c, int at_sequence, int at, int head, int sequence, int position) {
    float k[64], v[64];
    size_t from = place(c, sequence, position, head), bytes = c->head_dim * sizeof *k;
    for (int layer = 1; layer < LAYERS; layer++) {
        bool swapped = layer == 2;
        kv_read(c->device, &(KvView){c->kv, layer}, at_sequence, head, at, swapped ? v : k,
                swapped ? k : v);
        CHECK(!memcmp(k, c->k + from, bytes) && !memcmp(v, c->v + from, bytes),
              "layer %d, sequence %d, position %d, head %d", layer, at_sequence, at, head);
    }
}

static const int HEAD_DIMS[] = {64, 40, 10, 7};

Test(kv, gives_back_what_was_written) {
    for (int i = 0; i < 4 * KV_TYPE_COUNT; i++) {
        Cache c;
        float k[64];
        cache_open(&c, HEAD_DIMS[i / KV_TYPE_COUNT], (KvType)(i % KV_TYPE_COUNT));
        for (int s = 0; s < SEQUENCES; s++)
            for (int t = 0; t < POSITIONS; t++)
                for (int h = 0; h < HEADS; h++)
                    check_place(&c, s, t, h, s, t);
        kv_read(c.device, &(KvView){c.kv, 0}, 0, 0, 3, k, NULL);
        for (size_t j = 0; j < c.head_dim; j++)
            CHECK_NEAR(k[j], 0, 0); // the other layer
        cache_close(&c);
    }
}

// None, less than a tile of keys, a tile and some, all.
Test(kv, copies_the_positions_asked_for_and_no_more) {
    static const int COUNTS[] = {0, 13, 21, POSITIONS};
    for (int i = 0; i < 16 * KV_TYPE_COUNT; i++) {
        Cache c;
        int count = COUNTS[i % 4];
        cache_open(&c, HEAD_DIMS[i / 4 % 4], (KvType)(i / 16));
        kv_copy(c.device, c.kv, 1, 0, count);
        for (int t = 0; t < POSITIONS; t++)
            for (int h = 0; h < HEADS; h++) {
                check_place(&c, 1, t, h, t < count ? 0 : 1, t);
                check_place(&c, 0, t, h, 0, t); // as it was
            }
        cache_close(&c);
    }
}

// Saved from one cache and restored in another: the elements are those of the cache, one position
// after another whatever the backend's layout is.
Test(kv, restores_what_it_saved_and_no_more) {
    static const int COUNTS[] = {0, 13, 21, POSITIONS};
    for (int i = 0; i < 16 * KV_TYPE_COUNT; i++) {
        Cache c;
        int count = COUNTS[i % 4];
        KvType type = (KvType)(i / 16);
        cache_open(&c, HEAD_DIMS[i / 4 % 4], type);
        size_t bytes = POSITIONS * c.head_dim * kv_element_bytes(type);
        unsigned char *saved = malloc(2 * bytes);
        for (int layer = 1; layer < LAYERS; layer++)
            for (int h = 0; h < HEADS; h++) {
                KvView view = {c.kv, layer};
                kv_save(c.device, &view, &(KvSpan){0, h, 0, POSITIONS}, saved, saved + bytes);
                for (int t = 0; t < POSITIONS * (int)c.head_dim; t++) {
                    size_t from = place(&c, 0, t / (int)c.head_dim, h) + (size_t)t % c.head_dim;
                    float wanted = (layer == 1 ? c.k : c.v)[from], got = 0;
                    if (type == KV_F32)
                        memcpy(&got, saved + 4 * t, 4);
                    else {
                        uint16_t half;
                        memcpy(&half, saved + 2 * t, 2);
                        got = kv_widen(type, half);
                    }
                    CHECK(got == wanted, "element %d is %g, not %g", t, got, wanted);
                }
                kv_restore(c.device, &view, &(KvSpan){1, h, 0, count}, saved, saved + bytes);
            }
        free(saved);
        for (int t = 0; t < POSITIONS; t++)
            for (int h = 0; h < HEADS; h++) {
                check_place(&c, 1, t, h, t < count ? 0 : 1, t);
                check_place(&c, 0, t, h, 0, t); // as it was
            }
        cache_close(&c);
    }
}

Test(kv, says_what_it_takes) {
    KvShape shape = {2, 3, 4, 64, 100, KV_F32, NULL, 0};
    CHECK(kv_bytes(&shape) >= 2u * 2 * 3 * 4 * 64 * 100 * 4, "%zu", kv_bytes(&shape));
    size_t full = kv_bytes(&shape);
    for (shape.type = KV_F16; shape.type <= KV_BF16; shape.type++)
        CHECK(kv_bytes(&shape) <= full * 6 / 10, "%zu of %zu", kv_bytes(&shape), full);
}

// Ties to even, what is too large or too small, what is no number: by hand.
Test(kv, rounds_to_bf16_as_it_should) {
    static const struct {
        float written, read;
    } NUMBERS[] = {
        {1.0f + 0x1p-8f, 1.0f},          // half way: to even, below
        {1.0f + 3 * 0x1p-8f, 1.015625f}, // half way: to even, above
        {1.0f + 0x1.001p-8f, 1.0078125f},
        {-1.0f - 0x1p-8f, -1.0f},
        {0x1.fffffep127f, INFINITY},
        {0x1.fep127f, 0x1.fep127f},
        {0x1p-133f, 0x1p-133f},
        {0x1.8p-133f, 0x1p-132f}, // subnormal
        {0x1p-140f, 0.0f},
        {-0.0f, -0.0f},
        {-INFINITY, -INFINITY},
        {NAN, NAN},
    };
    enum { N = sizeof NUMBERS / sizeof *NUMBERS };
    float wide[N], got[N];
    for (int i = 0; i < N; i++)
        wide[i] = NUMBERS[i].written;
    Device *device = test_device(1, PRECISION_F32);
    KvView view = {kv_open(device, &(KvShape){1, 1, 1, N, 1, KV_BF16, NULL, 0}), 0};
    Rows row = test_rows(device, 1, NULL, NULL, NULL);
    float *memory = upload_floats(device, wide, N);
    kv_write(device, &view, memory, memory, &row);
    for (int pass = 0; pass < 2; pass++) {
        kv_read(device, &view, 0, 0, 0, pass ? got : NULL, pass ? NULL : got);
        for (int i = 0; i < N; i++)
            CHECK(!memcmp(got + i, &NUMBERS[i].read, sizeof *got), "%a: %a, not %a",
                  (double)wide[i], (double)got[i], (double)NUMBERS[i].read);
    }
    kv_close(device, view.kv);
    test_device_close(device);
}

Test(kv, refuses_a_size_beyond_memory) {
    static const KvShape SHAPES[] = {
        {1024, 1 << 20, 8, 128, 1 << 22, KV_F32, NULL, 0}, // 2^65 bytes
        {1 << 20, 1 << 20, 1 << 20, 1 << 10, 1 << 30, KV_F32, NULL, 0}};
    for (int i = 0; i < 2; i++) {
        CHECK(kv_bytes(&SHAPES[i]) == SIZE_MAX, "%zu", kv_bytes(&SHAPES[i]));
        Device *device = test_device(1, PRECISION_F32);
        CHECK(!kv_open(device, &SHAPES[i]), "that much memory?");
        CHECK_INT(device_error(device)->code, test_memory_error());
        device_close(device);
    }
}
