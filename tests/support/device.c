#include "tests/support/device.h"

#include "tests/support/files/random_blocks.h"
#include "weights/quant.h"

Device *test_device(int threads, Precision precision) {
    Device *device = device_open(threads, precision);
    CHECK(device, "no device");
    CHECK(!device_error(device)->code, "%s", device_error(device)->message);
    return device;
}

void test_device_close(Device *device) {
    CHECK(!device_error(device)->code, "%s", device_error(device)->message);
    device_close(device);
}

ErrorCode test_memory_error(void) {
    return strcmp(TEST_BACKEND, "cuda") ? ERROR_MEMORY : ERROR_DEVICE;
}

static void *upload(Device *device, const void *from, size_t bytes) {
    void *to = device_alloc(device, bytes);
    CHECK(to, "no device memory");
    device_upload(device, to, from, bytes);
    return to;
}

float *upload_floats(Device *device, const float *from, size_t count) {
    return upload(device, from, count * sizeof *from);
}

int32_t *upload_ints(Device *device, const int32_t *from, size_t count) {
    return upload(device, from, count * sizeof *from);
}

static void *test_malloc(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    CHECK(memory, "no memory");
    return memory;
}

float *poisoned(Device *device, size_t count) {
    float *host = test_malloc(count * sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = NAN;
    float *to = upload_floats(device, host, count);
    free(host);
    return to;
}

float *fetch(Device *device, const float *from, size_t count) {
    float *to = test_malloc(count * sizeof *to);
    device_download(device, to, from, count * sizeof *to);
    CHECK(!device_error(device)->code, "%s", device_error(device)->message);
    return to;
}

Rows test_rows(Device *device, int n, const int32_t *tokens, const int32_t *positions,
               const int32_t *sequences) {
    size_t count = (size_t)n;
    int32_t *ascending = test_malloc(2 * count * sizeof *ascending), *zeros = ascending + n;
    for (int i = 0; i < n; i++) {
        ascending[i] = i;
        zeros[i] = 0;
    }
    Rows rows = {n, upload_ints(device, tokens ? tokens : zeros, count),
                 upload_ints(device, positions ? positions : ascending, count),
                 upload_ints(device, sequences ? sequences : zeros, count)};
    free(ascending);
    return rows;
}

float *random_floats(TestRandom *random, size_t count, float deviation) {
    float *values = test_malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = deviation * test_random_normal(random);
    return values;
}

static void random_groups(TestRandom *random, Matrix *m, float deviation) {
    size_t count = m->rows * m->cols, groups = count / m->group_size;
    uint8_t *scales = test_malloc(groups * sizeof(float) + 1);
    m->scales = scales + 1;
    for (size_t i = 0; i < count; i++)
        ((uint8_t *)m->data)[i] = (uint8_t)(test_random(random) % 255 - 127);
    for (size_t g = 0; g < groups; g++) {
        float scale = deviation / 64.0f * test_random_float(random, 0.5f, 1.5f);
        memcpy(scales + 1 + g * sizeof scale, &scale, sizeof scale);
    }
}

Matrix random_matrix(TestRandom *random, DType dtype, size_t rows, size_t cols) {
    Matrix m = {.dtype = dtype, .rows = rows, .cols = cols};
    float deviation = 1.0f / sqrtf((float)cols);
    size_t bytes = rows * dtype_row_bytes(dtype, cols);
    uint8_t *data = (uint8_t *)test_malloc(bytes + 1) + 1;
    m.data = data;
    if (dtype == DTYPE_Q8_GROUP) {
        m.group_size = 64;
        while (cols % m.group_size)
            m.group_size /= 2; // as llama2.c's exporter does
        random_groups(random, &m, deviation);
    } else {
        random_elements(&random->state, data, dtype, rows * cols, deviation);
    }
    return m;
}

void random_matrix_free(Matrix *m) {
    free((uint8_t *)m->data - 1);
    if (m->scales) free((uint8_t *)m->scales - 1);
    *m = (Matrix){0};
}
