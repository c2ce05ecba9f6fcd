// What this machine can do at most, with the threads and the instruction set of the device.
#include "kernels/cpu/row_kernels.h"

#include "base/arena.h"
#include "base/processors.h"
#include "kernels/cpu/cpu.h"
#include "kernels/host.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

static const size_t MEMORY_BYTES = (size_t)1 << 30, LEAST_BYTES = (size_t)1 << 26;
enum { PART_BYTES = 4096 }; // a thread's part of a buffer is a multiple of it

typedef struct LimitRun {
    Device *device;
    void (*read)(const void *bytes, size_t size); // NULL: `peak` runs
    size_t part;                                  // bytes of each thread
    void (*peak)(long repetitions);
    long repetitions;
} LimitRun;

// ---- on all threads ----

// Items are threads: each reads its own part, or runs the loop by itself.
static void limit_task(void *context, size_t begin, size_t end, int thread) {
    const LimitRun *run = context;
    (void)thread;
    for (size_t i = begin; i < end; i++) {
        if (run->peak) run->peak(run->repetitions);
        for (long r = 0; run->read && r < run->repetitions; r++)
            run->read(run->device->read_buffer + i * run->part, run->part);
    }
}

// Always on all threads, also after a pass that was too small for them.
static void run_limit(void *context, long repetitions) {
    LimitRun *run = context;
    Pool *pool = run->device->pool;
    run->repetitions = repetitions;
    if (pool)
        pool_run(pool, limit_task, run, (size_t)run->device->info.threads, 1);
    else
        limit_task(run, 0, 1, 0);
}

// ---- reading ----

void limits_close(Device *device) {
    if (device->read_buffer) munmap(device->read_buffer, device->read_buffer_bytes);
    device->read_buffer = NULL;
    device->read_buffer_bytes = 0;
}

// At least `bytes` in device->read_buffer, or as many as there is room for. Written to, so that
// every page has memory of its own.
// The buffer is kept for the next call. Pages that are only mapped would all be one page of zeros.
static bool reserve_buffer(Device *device, size_t bytes) {
    if (device->read_buffer_bytes >= bytes) return true;
    limits_close(device);
    for (;; bytes /= 2) {
        void *memory =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) {
            memory_large_pages(memory, bytes);
            memset(memory, 1, bytes);
            device->read_buffer = memory;
            device->read_buffer_bytes = bytes;
            return true;
        }
        if (bytes / 2 < LEAST_BYTES) break;
    }
    device_fail(device, ERROR_MEMORY, "no memory for %zu bytes to measure the read bandwidth",
                bytes);
    return false;
}

// At most a quarter of the memory that the process can have: beyond a container's limit the
// operating system kills it without a word.
static size_t affordable(size_t bytes) {
    uint64_t most = memory_most() / 4;
    return bytes < most ? bytes : (size_t)most;
}

// The best of the ways to read.
double device_read_rate(Device *device, size_t bytes) {
    size_t threads = (size_t)device->info.threads, least = threads * PART_BYTES;
    bytes = affordable(bytes ? bytes : MEMORY_BYTES);
    if (bytes < least) bytes = least;
    if (!device_ok(device) || !reserve_buffer(device, bytes)) return 0.0;
    if (bytes > device->read_buffer_bytes) bytes = device->read_buffer_bytes;
    // What the parts leave over, less than PART_BYTES for each thread, is not read and not counted.
    LimitRun run = {.device = device, .part = bytes / threads / PART_BYTES * PART_BYTES};
    double work = (double)(run.part * threads), best = 0;
    for (int i = 0; i < READ_LOOPS; i++) {
        run.read = device->kernels->limits->reads[i];
        best = fmax(best, host_rate(run_limit, &run, work, !device->pool));
    }
    return best;
}

// ---- arithmetic ----

double device_peak_rate(Device *device, PeakKind kind) {
    const PeakLoop *loop = &device->kernels->limits->peaks[kind];
    if (!device_ok(device) || !loop->run) return 0.0;
    LimitRun run = {.device = device, .peak = loop->run};
    return host_rate(run_limit, &run, loop->operations * device->info.threads, !device->pool);
}

Arithmetic project_arithmetic(Device *device, const DeviceMatrix *weight, int n) {
    if (dtype_is_float(weight->dtype) || device->precision == PRECISION_F32)
        return (Arithmetic){PEAK_FLOAT32, 1};
    bool is_a8 = device->precision == PRECISION_A8;
    const ProjectKernels *kernels = device->kernels->project;
    int most = kernels->block_rows(weight->dtype, n, is_a8), rows = n < most ? n : most;
    switch (kernels->form(weight->dtype, n, rows, is_a8)) { // of most blocks
    case INPUT_TILES: return (Arithmetic){PEAK_INT8_TILES, is_a8 ? 1 : 2};
    case INPUT_QUADS: return (Arithmetic){PEAK_INT8, 1};
    // PEAK_INT8 counts one digit; with two each weight costs two multiplications.
    case INPUT_DIGITS: return (Arithmetic){PEAK_INT8, 2};
    default: return (Arithmetic){PEAK_INT16, 1};
    }
}

// lanes/attention.c widens the cache to float32.
Arithmetic attention_arithmetic(Device *device, const Kv *kv, int n) {
    (void)device, (void)kv, (void)n;
    return (Arithmetic){PEAK_FLOAT32, 1};
}
