// Lengths of sequences; the bytes of the cache are tested in test_kernels_attention.c.
#include "model/kv_cache.h"
#include "tests/support/device.h"

static const KvShape SHAPE = {2, 3, 2, 8, 20, KV_F16};

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
    KvShape huge = {1024, 1024, 8, 128, 1 << 22, KV_F32}; // 2^55 bytes
    CHECK(!kv_cache_init(&cache, device, &huge, &error), "that much memory?");
    CHECK_INT(error.code, test_memory_error());
    CHECK(strstr(error.message, "1024 sequences of 4194304 positions"), "%s", error.message);
    kv_cache_free(&cache);
    device_close(device);
}
