// The reference device: the host's memory and one thread. All its allocations are in one list,
// which device_close frees.
#include "kernels/reference/device.h"

#include "kernels/host.h"
#include "kernels/precision.h"
#include "weights/quant.h"

#include <stdlib.h>
#include <string.h>

// Before every block of memory; 64 bytes, so that the block itself is 64-byte aligned.
struct Allocation {
    Allocation *next, *previous;
    char padding[64 - 2 * sizeof(Allocation *)];
};

Device *device_open(int threads, Precision precision) {
    (void)threads; // plain loops, one after another
    Device *device = calloc(1, sizeof *device);
    if (device) device->precision = precision;
    return device;
}

void device_close(Device *device) {
    if (!device) return;
    for (Allocation *a = device->allocations, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    free(device);
}

const Error *device_error(const Device *device) {
    return &device->error;
}

const DeviceInfo *device_info(const Device *device) {
    static const DeviceInfo INFO = {.description = "reference, 1 thread, plain loops",
                                    .threads = 1,
                                    .batch_invariant = true,
                                    .borrows_weights = true};
    (void)device;
    return &INFO;
}

// Zeroed memory behind its list entry. A size that overflows fails like one that is too large.
void *device_alloc(Device *device, size_t bytes) {
    if (device->error.code) return NULL;
    size_t total = 0, rounded = 0;
    Allocation *a = NULL;
    if (!__builtin_add_overflow(bytes, sizeof *a + 63, &total)) {
        rounded = total / 64 * 64; // aligned_alloc wants a multiple of the alignment
        a = aligned_alloc(64, rounded);
    }
    if (!a) {
        error_set(&device->error, ERROR_MEMORY, "no memory for %zu bytes", bytes);
        return NULL;
    }
    memset(a, 0, rounded);
    a->next = device->allocations;
    if (a->next) a->next->previous = a;
    device->allocations = a;
    return a + 1;
}

void device_free(Device *device, void *memory) {
    if (!memory) return;
    Allocation *a = (Allocation *)memory - 1;
    if (a->previous)
        a->previous->next = a->next;
    else
        device->allocations = a->next;
    if (a->next) a->next->previous = a->previous;
    free(a);
}

void device_upload(Device *device, void *to, const void *from_host, size_t bytes) {
    if (!device->error.code) memcpy(to, from_host, bytes);
}

void device_download(Device *device, void *to_host, const void *from, size_t bytes) {
    if (!device->error.code) memcpy(to_host, from, bytes);
}

DeviceMatrix *device_matrix(Device *device, const Matrix *matrix) {
    DeviceMatrix *m = device_alloc(device, sizeof *m);
    if (!m) return NULL;
    m->matrix = *matrix;
    if (matrix->cols > device->max_cols) device->max_cols = matrix->cols;
    if (matrix->rows > device->max_matrix_rows) device->max_matrix_rows = matrix->rows;
    return m;
}

// Scratch for the largest matrix: one of its rows, and the activations that it is multiplied with.
void device_reserve(Device *device, int max_rows) {
    size_t cols = device->max_cols, rows = (size_t)max_rows;
    size_t groups = (cols + ACTIVATION_GROUP - 1) / ACTIVATION_GROUP;
    device->row = device_alloc(device, cols * sizeof(float));
    device->q = device_alloc(device, cols);
    device->scale = device_alloc(device, cols * sizeof(float));
    device->offset = device_alloc(device, cols * sizeof(float));
    device->candidates = device_alloc(device, device->max_matrix_rows * sizeof(Candidate));
    if (device->precision == PRECISION_F32) return;
    device->z = device_alloc(device, rows * cols * sizeof(int16_t));
    device->z_scales = device_alloc(device, rows * groups * sizeof(float));
    device->z_sums = device_alloc(device, rows * groups * sizeof(int32_t));
    device->outliers = device_alloc(device, rows * OUTLIERS * sizeof(Outlier));
    if (device->precision == PRECISION_A8)
        device->x_bf16 = device_alloc(device, rows * cols * sizeof(float));
}

// Nothing is recorded.
void device_begin(Device *device, const PassShape *shape) {
    device->stop = shape->stop;
}

void device_end(Device *device) {
    device->stop = NULL;
}

int32_t *host_sent(Device *device) {
    return device->sent;
}
