// What the CUDA backend measures of itself, on the emulator: figures are there, the clock counts
// passes and nothing else, every host call fails once.
#include "base/clock.h"
#include "kernels/limits.h"
#include "model/model.h"
#include "tests/cuda/emulator.h"
#include "tests/support/files/tiny_model.h"
#include "tests/test.h"

static TinyModel *open_tiny(void) {
    TinyShape shape = tiny_shape();
    shape.n_layers = 1;
    return tiny_model_open(&shape);
}

Test(cuda_limits, rates_are_measured) {
    Device *device = device_open(0, PRECISION_A16);
    CHECK(device_read_rate(device, 3 << 20) > 0, "%s", device_error(device)->message);
    CHECK(device_read_rate(device, 1) > 0, "a buffer too small to measure is not used");
    CHECK(device_product_seconds(device, 3, 40, 24) > 0, "%s", device_error(device)->message);
    static const PeakKind PEAKS[] = {PEAK_FLOAT32, PEAK_INT8, PEAK_BF16};
    for (int i = 0; i < 3; i++)
        CHECK(device_peak_rate(device, PEAKS[i]) > 0, "%s", device_error(device)->message);
    CHECK(device_peak_rate(device, PEAK_INT16) == 0, "no kernel multiplies words");
    emulator_hide_cublas(1);
    Device *poor = device_open(0, PRECISION_A16);
    CHECK(device_product_seconds(poor, 3, 40, 24) == 0, "there is no library");
    CHECK(device_peak_rate(poor, PEAK_BF16) == 0, "so nothing asks the tensor cores");
    CHECK_INT(device_error(poor)->code, ERROR_NONE);
    emulator_hide_cublas(0);
    device_close(poor);
    device_close(device);
    CHECK_INT(emulator_live_objects(), 0);
}

// More passes than the clock has places for: it reads them in between.
Test(cuda_limits, the_clock_counts_passes) {
    enum { PASSES = 140 };
    TinyModel *tiny = open_tiny();
    Error error = {0};
    ModelOptions options = {.precision = PRECISION_F32, .context = PASSES};
    Model *model = model_open(&tiny->config, &tiny->weights, &options, &error);
    CHECK(model, "%s", error.message);
    CHECK(device_idle_seconds(model->device, false) == 0, "nobody watched");
    int32_t token = 1;
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = &token});
    CHECK(device_idle_seconds(model->device, true) == 0, "nobody watched");
    double began = seconds_now();
    tiny_model_forward(model, &(Batch){.n = 1, .tokens = &token});
    double first = seconds_now() - began, idle = device_idle_seconds(model->device, true);
    CHECK(idle >= 0 && idle < first, "%g of %g s: the pass was work", idle, first);
    began = seconds_now();
    while (seconds_now() < began + first) {
    }
    idle = device_idle_seconds(model->device, true);
    CHECK(idle >= first, "%g s: nothing has run for %g", idle, first);
    began = seconds_now();
    for (int i = 2; i < PASSES; i++)
        tiny_model_forward(model, &(Batch){.n = 1, .tokens = &token});
    double all = seconds_now() - began;
    idle = device_idle_seconds(model->device, false);
    CHECK(idle >= 0 && idle < all, "%g s of %g: the passes were work", idle, all);
    model_close(model);
    tiny_model_close(tiny);
    CHECK_INT(emulator_live_objects(), 0);
}

static bool try_all(Error *error) {
    Device *device = device_open(0, PRECISION_A16);
    (void)device_idle_seconds(device, true);
    double rate = device_read_rate(device, 1 << 20);
    double product = device_product_seconds(device, 2, 8, 8);
    double peak = device_peak_rate(device, PEAK_INT8);
    (void)device_idle_seconds(device, false);
    *error = *device_error(device);
    bool good = !error->code;
    CHECK(!good || (rate > 0 && product > 0 && peak > 0), "%g %g %g", rate, product, peak);
    device_close(device);
    return good;
}

Test(cuda_limits, every_host_call_fails_once) {
    Error error = {0};
    emulator_fail_call(0, 0);
    CHECK(try_all(&error), "%s", error.message);
    long calls = emulator_calls();
    CHECK(calls > 50, "only %ld host calls", calls);
    for (long i = 1;; i++) {
        emulator_fail_call(i, i % 2 ? 2 : 719); // out of memory, a failed launch
        bool good = try_all(&error);
        CHECK_INT(emulator_live_objects(), 0);
        if (good) { // the last call waits, before all is closed, and is not checked
            CHECK(i >= emulator_calls(), "call %ld of %ld failed unnoticed", i, emulator_calls());
            // A peak is sampled for so many milliseconds: a slow run makes fewer calls.
            CHECK(i > calls / 2, "only %ld host calls, %ld before", i, calls);
            break;
        }
        CHECK(error.code == ERROR_DEVICE, "call %ld: %d %s", i, error.code, error.message);
    }
    emulator_fail_call(0, 0);
}
