// The cache of kernels.h: what is written is read back, in its own place and no other.
#include "tests/support/device.h"
#include "weights/quant.h"

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
    KvShape shape = {LAYERS, SEQUENCES, HEADS, head_dim, POSITIONS, type};
    *c = (Cache){.device = test_device(1, PRECISION_F32), .head_dim = (size_t)head_dim};
    c->kv = kv_open(c->device, &shape);
    CHECK(c->kv, "%s", device_error(c->device)->message);
    CHECK(kv_bytes(&shape) >= LAYERS * 2 * count * (type == KV_F16 ? 2 : 4), "room for all");
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
    for (size_t i = 0; type == KV_F16 && i < count; i++) {
        c->k[i] = half_to_float(float_to_half(c->k[i]));
        c->v[i] = half_to_float(float_to_half(c->v[i]));
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
    for (int i = 0; i < 8; i++) {
        Cache c;
        float k[64];
        cache_open(&c, HEAD_DIMS[i / 2], i % 2 ? KV_F16 : KV_F32);
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
    for (int i = 0; i < 32; i++) {
        Cache c;
        int count = COUNTS[i % 4];
        cache_open(&c, HEAD_DIMS[i / 8], i / 4 % 2 ? KV_F16 : KV_F32);
        kv_copy(c.device, c.kv, 1, 0, count);
        for (int t = 0; t < POSITIONS; t++)
            for (int h = 0; h < HEADS; h++) {
                check_place(&c, 1, t, h, t < count ? 0 : 1, t);
                check_place(&c, 0, t, h, 0, t); // as it was
            }
        cache_close(&c);
    }
}

Test(kv, says_what_it_takes) {
    KvShape shape = {2, 3, 4, 64, 100, KV_F32};
    CHECK(kv_bytes(&shape) >= 2u * 2 * 3 * 4 * 64 * 100 * 4, "%zu", kv_bytes(&shape));
    size_t full = kv_bytes(&shape);
    shape.type = KV_F16;
    CHECK(kv_bytes(&shape) <= full * 6 / 10, "%zu of %zu", kv_bytes(&shape), full);
}

Test(kv, refuses_a_size_beyond_memory) {
    static const KvShape SHAPES[] = {{1024, 1 << 20, 8, 128, 1 << 22, KV_F32}, // 2^65 bytes
                                     {1 << 20, 1 << 20, 1 << 20, 1 << 10, 1 << 30, KV_F32}};
    for (int i = 0; i < 2; i++) {
        CHECK(kv_bytes(&SHAPES[i]) == SIZE_MAX, "%zu", kv_bytes(&SHAPES[i]));
        Device *device = test_device(1, PRECISION_F32);
        CHECK(!kv_open(device, &SHAPES[i]), "that much memory?");
        CHECK_INT(device_error(device)->code, test_memory_error());
        device_close(device);
    }
}
