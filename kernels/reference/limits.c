// What plain loops on one thread can do at most: the sums of the other files, over arrays that stay
// in the first cache.
#include "kernels/limits.h"

#include "kernels/host.h"
#include "kernels/reference/device.h"
#include "weights/quant.h"

#include <math.h>
#include <string.h>

static const size_t MEMORY_BYTES = (size_t)1 << 28;
enum { COUNT = 256 }; // elements of a sum: arrays of it are on the stack

// ---- reading ----

typedef struct ReadRun {
    const uint64_t *words;
    size_t count;
} ReadRun;

// One addition per word, which a compiler may do with vector instructions.
static void read_words(void *context, long repetitions) {
    const ReadRun *run = context;
    for (long r = 0; r < repetitions; r++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < run->count; i++)
            sum += run->words[i];
        volatile uint64_t result = sum; // so that the loop is not left out
        (void)result;
    }
}

double device_read_rate(Device *device, size_t bytes) {
    if (!bytes) bytes = MEMORY_BYTES;
    ReadRun run = {.count = bytes / sizeof(uint64_t) + 1};
    run.words = device_alloc(device, run.count * sizeof(uint64_t));
    if (!run.words) return 0.0;
    double rate = host_rate(read_words, &run, (double)run.count * sizeof *run.words, true);
    device_free(device, (void *)run.words);
    return rate;
}

// ---- arithmetic ----

// The chain of dot_float in project.c: every step waits for the one before it, so this measures the
// latency of a multiply-add and not how many can run side by side.
static void sum_float32(void *context, long repetitions) {
    (void)context;
    float w[COUNT], x[COUNT];
    for (int i = 0; i < COUNT; i++)
        w[i] = x[i] = 1.0f;
    for (long r = 0; r < repetitions; r++) {
        float acc = 0.0f;
        for (int i = 0; i < COUNT; i++)
            acc = fmaf(w[i], x[i], acc);
        volatile float result = acc;
        // Makes the next repetition depend on this one, so that it is not computed once for all.
        w[0] = result;
    }
}

static void sum_float64(void *context, long repetitions) {
    (void)context;
    float w[COUNT];
    double sums[COUNT];
    memset(sums, 0, sizeof sums);
    for (int i = 0; i < COUNT; i++)
        w[i] = 1.0f;
    for (long r = 0; r < repetitions; r++) { // as attention adds up values
        for (int i = 0; i < COUNT; i++)
            sums[i] += 0.5 * (double)w[i];
        volatile double result = sums[r % COUNT];
        (void)result;
    }
}

static void sum_integers(void *context, long repetitions) {
    (void)context;
    int8_t q[COUNT];
    int16_t z[COUNT];
    for (int i = 0; i < COUNT; i++)
        q[i] = 1, z[i] = 1;
    for (long r = 0; r < repetitions; r++) {
        int32_t isum = 0;
        for (int i = 0; i < COUNT; i++)
            isum += (int32_t)q[i] * z[i];
        volatile int32_t result = isum;
        q[0] = (int8_t)result;
    }
}

double device_peak_rate(Device *device, PeakKind kind) {
    static HostRun *const RUNS[PEAK_COUNT] = {
        [PEAK_FLOAT32] = sum_float32, [PEAK_FLOAT64] = sum_float64, [PEAK_INT16] = sum_integers};
    if (device->error.code || !RUNS[kind]) return 0.0;
    return host_rate(RUNS[kind], NULL, 2.0 * COUNT, true);
}

Arithmetic project_arithmetic(Device *device, const DeviceMatrix *weight, int n) {
    (void)n;
    bool integers = device->precision != PRECISION_F32 && matrix_group(&weight->matrix);
    return (Arithmetic){integers ? PEAK_INT16 : PEAK_FLOAT32, 1};
}

Arithmetic attention_arithmetic(Device *device, const Kv *kv, int n) {
    (void)device, (void)kv, (void)n;
    return (Arithmetic){PEAK_FLOAT64, 1};
}
