// What a backend is spared that runs in the host's own memory, each operation at once: nothing is
// recorded, uploaded or waited for. cpu/ and reference/ have it in common.
#include "kernels/host.h"
#include "kernels/limits.h"

#include <math.h>

// The host's memory is the system's to count.
void device_plan_matrix(Device *device, const Matrix *matrix) {
    (void)device, (void)matrix;
}

void device_plan(Device *device, const MemoryPlan *plan) {
    (void)device, (void)plan;
}

// Nothing is recorded, so there is nothing to wait for.
void device_sync(Device *device) {
    (void)device;
}

// ---- tokens that stay on the device ----

void advance(Device *device, int32_t *tokens, int32_t *positions, const int32_t *drawn, int n) {
    for (int i = 0; i < n && !device_error(device)->code; i++) {
        tokens[i] = drawn[i] > 0 ? drawn[i] : 0;
        positions[i]++;
    }
}

void device_send(Device *device, int slot, const int32_t *from) {
    host_sent(device)[slot] = *from;
}

int32_t device_receive(Device *device, int slot) {
    return device_error(device)->code ? -1 : host_sent(device)[slot];
}

// ---- limits: the host's, which bench measures with loops of its own ----

double device_read_rate(Device *device, size_t bytes) {
    (void)device, (void)bytes;
    return NAN;
}

double device_product_seconds(Device *device, int n, int rows, int cols) {
    (void)device, (void)n, (void)rows, (void)cols;
    return NAN;
}

double device_busy_seconds(Device *device, bool watch) {
    (void)device, (void)watch;
    return NAN;
}
