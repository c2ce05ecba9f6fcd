#include "commands/cost/cost.h"

#include "kernels/limits.h"

#include <math.h>

// Of NVIDIA's data sheets, dense bf16 with float32 sums and the memory of the SXM boards: A100
// 40 and 80 GB 312 TFLOP/s; its bandwidth is the rounded 2.0 TB/s that gives the ridge of 156
// FLOP/byte in teaching material (2,039 GB/s with 80 GB, 1,555 GB/s with 40). H100 and H200 989
// TFLOP/s, 3.35 and 4.8 TB/s.
static const Machine MACHINES[] = {
    [MACHINE_MEASURED] = {"this machine", 0, 0, 0},
    [MACHINE_A100] = {"A100", 2.0e12, 312e12, 0},
    [MACHINE_H100] = {"H100", 3.35e12, 989e12, 0},
    [MACHINE_H200] = {"H200", 4.8e12, 989e12, 0},
};

// Rows of activations that products are measured for: of a prompt.
enum { ROWS = 64, COLS = 256 };

static const double MOST_CACHED = 1 << 30; // bytes: no cache is larger

// A backend that does not have a figure says so with NaN or 0.
static double known(double rate) {
    return rate > 0 && isfinite(rate) ? rate : 0;
}

// The instructions that multiply weights of this type, at their peak.
static double measure_flops(Device *device, DType dtype) {
    static const uint8_t ZEROS[ROWS * COLS * sizeof(float)];
    if (dtype == DTYPE_Q8_GROUP) dtype = DTYPE_Q8_0;
    Matrix matrix = {.dtype = dtype, .rows = ROWS, .cols = COLS, .data = ZEROS};
    DeviceMatrix *weight = device_matrix(device, &matrix);
    if (!weight) return 0;
    Arithmetic arithmetic = project_arithmetic(device, weight, ROWS);
    return known(device_peak_rate(device, arithmetic.kind)) / fmax(arithmetic.products, 1);
}

// On a device of its own, since measure_flops adds a matrix, which would count as the model's.
Machine machine_open(MachineKind kind, const ModelOptions *options, DType dtype,
                     double weight_bytes) {
    Machine machine = MACHINES[kind];
    if (kind != MACHINE_MEASURED) return machine;
    Device *device = device_open(options->threads, options->precision);
    if (!device) return machine; // out of memory: its figures are unknown
    machine.read = known(device_read_rate(device, 0));
    if (weight_bytes < MOST_CACHED)
        machine.read = fmax(machine.read, known(device_read_rate(device, (size_t)weight_bytes)));
    machine.flops = measure_flops(device, dtype);
    device_close(device);
    return machine;
}

double machine_ridge(const Machine *m) {
    if (m->ridge > 0) return m->ridge;
    return m->read > 0 ? m->flops / m->read : 0;
}

double machine_seconds(const Machine *m, double flops, double bytes) {
    if (m->read <= 0 || m->flops <= 0) return 0;
    return fmax(flops / m->flops, bytes / m->read);
}

bool memory_is_limit(const Machine *m, double flops, double bytes) {
    return flops < machine_ridge(m) * bytes;
}
