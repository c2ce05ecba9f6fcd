// Defaults for host-memory backends: cpu/ and reference/ run each operation at once in the host's
// own memory, so nothing is recorded or waited for.
#include "kernels/host.h"

#include "base/clock.h"
#include "kernels/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t sum_or_most(size_t a, size_t b) {
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

size_t parts_bytes(const MemoryPart *parts, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes = sum_or_most(bytes, parts[i].bytes);
    return bytes;
}

void parts_alloc(Device *device, const MemoryPart *parts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *memory = parts[i].bytes ? device_alloc(device, parts[i].bytes) : NULL;
        memcpy(parts[i].pointer, &memory, sizeof memory);
    }
}

// Nothing is recorded, so there is nothing to wait for.
void device_sync(Device *device) {
    (void)device;
}

// Host memory is the device's own.
void *device_host_alloc(Device *device, size_t bytes) {
    (void)device;
    return malloc(bytes ? bytes : 1);
}

void device_host_free(Device *device, void *memory) {
    (void)device;
    free(memory);
}

// ---- tokens that stay on the device ----

void advance(Device *device, int32_t *tokens, int32_t *positions, const int32_t *sampled, int n) {
    for (int i = 0; i < n && !device_error(device)->code; i++) {
        tokens[i] = sampled[i] > 0 ? sampled[i] : 0;
        positions[i]++;
    }
}

void device_send(Device *device, int slot, const int32_t *from) {
    host_sent(device)[slot] = *from;
}

int32_t device_receive(Device *device, int slot) {
    return device_error(device)->code ? -1 : host_sent(device)[slot];
}

// ---- limits ----

double device_product_seconds(Device *device, int n, int rows, int cols) {
    (void)device, (void)n, (void)rows, (void)cols;
    return 0.0;
}

double device_idle_seconds(Device *device, bool watch) {
    (void)device, (void)watch;
    return 0.0;
}

// Other work on the machine makes a run longer, never shorter: the better of two counts.
double host_rate(HostRun *run, void *context, double work, bool alone) {
    double (*now)(void) = alone ? thread_seconds_now : seconds_now;
    static const double SAMPLE_SECONDS = 0.015, MOST_REPETITIONS = 1e15;
    double repetitions = 1;
    while (repetitions < MOST_REPETITIONS) {
        double best = INFINITY;
        for (int i = 0; i < 2 && best >= SAMPLE_SECONDS; i++) {
            double started = now();
            run(context, (long)repetitions);
            best = fmin(best, now() - started);
        }
        if (best >= SAMPLE_SECONDS) return work * repetitions / best;
        repetitions *= ceil(fmin(fmax(1.2 * SAMPLE_SECONDS / best, 2), 16));
    }
    return 0.0;
}
