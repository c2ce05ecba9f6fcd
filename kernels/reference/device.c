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
    size_t bytes; // as they were asked for
    char padding[64 - 2 * sizeof(Allocation *) - sizeof(size_t)];
};

void device_prepare(void) {}

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

void device_clear_memory_error(Device *device) {
    if (device->error.code == ERROR_MEMORY) device->error = (Error){0};
}

__attribute__((used)) const bool DEVICE_MEMORY_IS_HOST = true;

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
    a->bytes = bytes;
    device->taken += bytes;
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
    device->taken -= a->bytes;
    free(a);
}

void device_upload(Device *device, void *to, const void *from_host, size_t bytes) {
    if (!device->error.code) memcpy(to, from_host, bytes);
}

void device_download(Device *device, void *to_host, const void *from, size_t bytes) {
    if (!device->error.code) memcpy(to_host, from, bytes);
}

// The largest matrix decides how much scratch the operations need.
static void note_shape(Device *device, const Matrix *matrix) {
    if (matrix->cols > device->max_cols) device->max_cols = matrix->cols;
    if (matrix->rows > device->max_matrix_rows) device->max_matrix_rows = matrix->rows;
}

DeviceMatrix *device_matrix(Device *device, const Matrix *matrix) {
    DeviceMatrix *m = device_alloc(device, sizeof *m);
    if (!m) return NULL;
    m->matrix = *matrix;
    note_shape(device, matrix);
    return m;
}

// Scratch for the largest matrix: one of its rows, and the activations that it is multiplied with.
enum { SCRATCH_PARTS = 10 };
static void scratch_parts(MemoryPart parts[SCRATCH_PARTS], Device *device, int max_rows) {
    size_t cols = device->max_cols, groups = (cols + ACTIVATION_GROUP - 1) / ACTIVATION_GROUP;
    size_t rows = device->precision == PRECISION_F32 ? 0 : (size_t)max_rows; // of integers
    size_t bf16_rows = device->precision == PRECISION_A8 ? (size_t)max_rows : 0;
    const MemoryPart table[SCRATCH_PARTS] = {
        {&device->row, cols * sizeof(float)},
        {&device->q, cols},
        {&device->scale, cols * sizeof(float)},
        {&device->offset, cols * sizeof(float)},
        {&device->candidates, device->max_matrix_rows * sizeof(Candidate)},
        {&device->z, rows * cols * sizeof(int16_t)},
        {&device->z_scales, rows * groups * sizeof(float)},
        {&device->z_sums, rows * groups * sizeof(int32_t)},
        {&device->outliers, rows * OUTLIERS * sizeof(Outlier)},
        {&device->x_bf16, bf16_rows * cols * sizeof(float)},
    };
    memcpy(parts, table, sizeof table);
}

void device_reserve(Device *device, int max_rows) {
    MemoryPart parts[SCRATCH_PARTS];
    scratch_parts(parts, device, max_rows);
    parts_alloc(device, parts, SCRATCH_PARTS);
}

// ---- counting ----

void device_plan_matrix(Device *device, const Matrix *matrix) {
    device->planned += sizeof(DeviceMatrix); // the bytes of the matrix stay the host's
    note_shape(device, matrix);
}

// The weights are read from the mapped file, whose pages the operating system can drop.
void device_plan(Device *device, const MemoryPlan *plan) {
    (void)device, (void)plan;
}

DeviceMemory device_needs(Device *device, const MemoryPlan *plan) {
    MemoryPart parts[SCRATCH_PARTS];
    scratch_parts(parts, device, plan->max_rows);
    return (DeviceMemory){.matrices = device->planned,
                          .cache = kv_needs(&plan->cache),
                          .operations = parts_bytes(parts, SCRATCH_PARTS),
                          .others = plan->bytes};
}

size_t device_taken(const Device *device) {
    return device->taken;
}

bool device_counts(const Device *device, DeviceCounts *counts) {
    *counts = device->counts;
    return true;
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
