// Lengths of sequences; the bytes of the cache are tested in test_kernels_attention.c. Snapshots: a
// model that goes on from one has the logits of one that was never interrupted, bit for bit.
#include "model/kv_cache.h"
#include "tests/support/device.h"
#include "tests/support/files/tiny_model.h"

static const KvShape SHAPE = {2, 3, 2, 8, 20, KV_F16, NULL, 0};

Test(kv_cache, starts_empty_and_keeps_lengths_apart) {
    Device *device = test_device(1, PRECISION_F32);
    KvCache cache;
    Error error = {0};
    CHECK(kv_cache_init(&cache, device, &SHAPE, &error), "%s", error.message);
    for (int s = 0; s < 3; s++)
        CHECK_INT(kv_cache_length(&cache, s), 0);
    for (int p = 0; p < 20; p++)
        kv_cache_write(&cache, 1, p);
    kv_cache_write(&cache, 2, 0);
    CHECK_INT(kv_cache_length(&cache, 0), 0);
    CHECK_INT(kv_cache_length(&cache, 1), 20);
    CHECK_INT(kv_cache_length(&cache, 2), 1);
    kv_cache_write(&cache, 1, 7); // an earlier position shortens
    CHECK_INT(kv_cache_length(&cache, 1), 8);
    kv_cache_truncate(&cache, 1, 8);
    CHECK_INT(kv_cache_length(&cache, 1), 8);
    kv_cache_truncate(&cache, 1, 3);
    CHECK_INT(kv_cache_length(&cache, 1), 3);
    kv_cache_copy(&cache, 0, 1);
    CHECK_INT(kv_cache_length(&cache, 0), 3);
    kv_cache_copy(&cache, 2, 2);
    CHECK_INT(kv_cache_length(&cache, 2), 1);
    kv_cache_reset(&cache, 1);
    CHECK_INT(kv_cache_length(&cache, 1), 0);
    kv_cache_copy(&cache, 0, 1); // a copy of an empty sequence
    CHECK_INT(kv_cache_length(&cache, 0), 0);
    kv_cache_free(&cache);
    kv_cache_free(&cache); // may be freed twice
    test_device_close(device);
}

Test(kv_cache, copies_the_bytes_too) {
    Device *device = test_device(1, PRECISION_F32);
    KvCache cache;
    Error error = {0};
    CHECK(kv_cache_init(&cache, device, &SHAPE, &error), "%s", error.message);
    float k[16], v[16], got[8];
    for (int j = 0; j < 16; j++) {
        k[j] = (float)j;
        v[j] = (float)-j;
    }
    int32_t zero = 0;
    Rows rows = test_rows(device, 1, NULL, &zero, &zero);
    float *dk = upload_floats(device, k, 16), *dv = upload_floats(device, v, 16);
    for (int layer = 0; layer < 2; layer++)
        kv_write(device, &(KvView){cache.kv, layer}, dk, dv, &rows);
    kv_cache_write(&cache, 0, 0);
    kv_cache_copy(&cache, 2, 0);
    for (int layer = 0; layer < 2; layer++) {
        kv_read(device, &(KvView){cache.kv, layer}, 2, 1, 0, NULL, got);
        for (int j = 0; j < 8; j++)
            CHECK_NEAR(got[j], -(j + 8), 0);
    }
    kv_cache_free(&cache);
    test_device_close(device);
}

Test(kv_cache, names_the_bytes_it_wanted) {
    Device *device = test_device(1, PRECISION_F32);
    KvCache cache;
    Error error = {0};
    KvShape huge = {1024, 1024, 8, 128, 1 << 22, KV_F32, NULL, 0}; // 2^55 bytes
    CHECK(!kv_cache_init(&cache, device, &huge, &error), "that much memory?");
    CHECK_INT(error.code, test_memory_error());
    CHECK(strstr(error.message, "1024 sequences of 4194304 positions"), "%s", error.message);
    kv_cache_free(&cache);
    device_close(device);
}

// ---- snapshots ----

enum { TOKENS = 37, CONTEXT = 50 };

typedef struct Parts {
    int n_parts;
    void *parts[8]; // owned
} Parts;

static Parts save(const KvCache *cache, int sequence, int length) {
    Parts s = {.n_parts = kv_cache_parts(cache)};
    Error error = {0};
    for (int i = 0; i < s.n_parts; i++) {
        KvSnapshot as = {.length = length};
        s.parts[i] = malloc(kv_cache_part_bytes(cache, i, &as));
        CHECK(kv_cache_save(cache, sequence, i, &as, s.parts[i], &error), "%s", error.message);
    }
    return s;
}

static void restore(KvCache *cache, int sequence, const Parts *s, int saved, int length) {
    Error error = {0};
    KvSnapshot of = {.length = saved};
    for (int i = 0; i < s->n_parts; i++)
        kv_cache_restore(cache, sequence, i, s->parts[i], &of, length);
    CHECK(kv_cache_restored(cache, sequence, &of, length, &error), "%s", error.message);
    CHECK_INT(kv_cache_length(cache, sequence), length);
}

static void snapshot_free(Parts *s) {
    for (int i = 0; i < s->n_parts; i++)
        free(s->parts[i]);
}

// The rest of the tokens in sequence 1, one at a time: that is how the model has them without a
// snapshot too, so that a GPU, whose bits depend on the rows of a call, is held to it as well.
static void check_rest(Model *restored, const float *wanted, const int32_t *ids, int from) {
    size_t bytes = (size_t)restored->config.vocab_size * sizeof *wanted;
    int32_t one = 1;
    for (int i = from; i < TOKENS; i++)
        tiny_model_forward(restored, &(Batch){.n = 1, .tokens = ids + i, .sequences = &one});
    CHECK(!memcmp(model_logits(restored, 0), wanted, bytes), "logits after %d tokens", from);
}

static void goes_on(const TinyModel *tiny, Precision precision, KvType type) {
    ModelOptions options = {.context = CONTEXT,
                            .n_sequences = 2,
                            .precision = precision,
                            .kv_type = type,
                            .threads = 2};
    Model *whole = tiny_model_run(tiny, options);
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (7 * i + 3) % tiny->config.vocab_size;
    for (int i = 0; i < TOKENS; i++)
        tiny_model_forward(whole, &(Batch){.n = 1, .tokens = ids + i});
    Parts all = save(&whole->cache, 0, TOKENS), some = save(&whole->cache, 0, 20);
    const int lengths[] = {0, 1, 15, 16, 20, TOKENS - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        Model *other = tiny_model_run(tiny, options);
        restore(&other->cache, 1, &all, TOKENS, lengths[i]);
        check_rest(other, model_logits(whole, 0), ids, lengths[i]);
        if (lengths[i] <= 20) {
            restore(&other->cache, 1, &some, 20, lengths[i]);
            check_rest(other, model_logits(whole, 0), ids, lengths[i]);
        }
        model_close(other);
    }
    snapshot_free(&all);
    snapshot_free(&some);
    model_close(whole);
}

Test(snapshots, go_on_with_the_bits_of_an_uninterrupted_run) {
    TinyShape shape = tiny_shape();
    TinyModel *tiny = tiny_model_open(&shape);
    for (int p = PRECISION_F32; p <= PRECISION_A8; p++)
        for (int type = 0; type < KV_TYPE_COUNT; type++)
            if (!TEST_EMULATED || p == type) goes_on(tiny, (Precision)p, (KvType)type);
    tiny_model_close(tiny);
}

Test(snapshots, are_cut_at_any_checkpoint_that_fits) {
    Device *device = test_device(1, PRECISION_F32);
    KvCache cache;
    Error error = {0};
    CHECK(kv_cache_init(&cache, device, &SHAPE, &error), "%s", error.message);
    CHECK_INT(kv_cache_parts(&cache), 2);
    KvSnapshot five = {.length = 5}, twelve = {.length = 12}, thirty = {.length = 30};
    CHECK_INT(kv_cache_part_bytes(&cache, 0, &five),
              5 * 2 * 2 * 8 * 2); // keys, values; heads; half
    CHECK_INT(kv_cache_checkpoint(&cache, &twelve, 7), 7);
    CHECK_INT(kv_cache_checkpoint(&cache, &twelve, 15), 12);
    CHECK_INT(kv_cache_checkpoint(&cache, &thirty, 40), 20); // the context of this cache
    for (int p = 0; p < 9; p++)
        kv_cache_write(&cache, 2, p);
    CHECK_INT(kv_cache_go_back(&cache, 2, 12), 9);
    CHECK_INT(kv_cache_go_back(&cache, 2, 4), 4);
    CHECK_INT(kv_cache_length(&cache, 2), 4);
    kv_cache_free(&cache);
    test_device_close(device);
}
