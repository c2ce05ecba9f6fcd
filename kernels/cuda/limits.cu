// What `bench` compares with: the GPU's measured read and product rates, and how long it is busy.
//
// Idle time is the host's time of a pass minus the time between two CUDA events, one before and one
// after the launches of the pass (usually a graph) and of the kernels that sample its token. So
// copies of tokens and logits, and the host's work between passes, count as idle; gaps between the
// kernels of a pass do not.
#include "base/clock.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/project/blas.h"
#include "kernels/cuda/project/project.h"

extern "C" {
#include "kernels/limits.h"
}

#include <math.h>

// ---- reading ----

enum {
    READ_THREADS = 256,
    READ_BLOCKS = 8,
    LOADS_IN_FLIGHT = 8,
    READ_PASSES = 5,
    PRODUCT_RUNS = 50
};
constexpr size_t LEAST_BYTES = 1 << 20,
                 BEYOND_CACHE = 16; // sizes of the L2 cache that a buffer has

// Random bits, as weights are: zeros would cost less power, and the clock could be higher.
static __global__ void fill_kernel(uint32_t *out, size_t count) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        out[i] = (uint32_t)i * 2654435761u ^ (uint32_t)(i >> 15);
}

// Every thread has LOADS_IN_FLIGHT loads of 16 bytes in flight. No buffer of fill_kernel makes the
// sum nonzero, so `never` is not written; the compiler cannot know it and keeps the loads.
static __global__ void read_kernel(const int4 *memory, size_t count, int *never) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    int sum = 0;
    for (; i + (LOADS_IN_FLIGHT - 1) * step < count; i += LOADS_IN_FLIGHT * step) {
        int4 v[LOADS_IN_FLIGHT];
        for (int k = 0; k < LOADS_IN_FLIGHT; k++)
            v[k] = load_stream(memory + i + (size_t)k * step);
        for (int k = 0; k < LOADS_IN_FLIGHT; k++)
            sum |= v[k].x & v[k].y & v[k].z & v[k].w & 1;
    }
    for (; i < count; i += step) {
        int4 v = load_stream(memory + i);
        sum |= v.x & v.y & v.z & v.w & 1;
    }
    if (sum) *never = sum;
}

bool elapsed(Device *device, cudaEvent_t begin, cudaEvent_t end, double *ms) {
    float value = 0.0f;
    bool good = CUDA_CHECK(device, cudaEventSynchronize(end)) &&
                CUDA_CHECK(device, cudaEventElapsedTime(&value, begin, end));
    *ms = (double)value;
    return good;
}

// Bytes per second over READ_PASSES launches; the launch before them is not timed.
static double time_reading(Device *device, const int4 *memory, size_t count, int *never,
                           cudaEvent_t begin, cudaEvent_t end) {
    double ms = 0.0;
    dim3 grid((unsigned)(device->n_processors * READ_BLOCKS));
    LAUNCH(device, read_kernel, grid, READ_THREADS, memory, count, never); // wakes the GPU
    if (!device_ok(device) || !CUDA_CHECK(device, cudaEventRecord(begin, device->stream)))
        return 0.0;
    for (int i = 0; i < READ_PASSES; i++)
        LAUNCH(device, read_kernel, grid, READ_THREADS, memory, count, never);
    if (!device_ok(device) || !CUDA_CHECK(device, cudaEventRecord(end, device->stream)) ||
        !elapsed(device, begin, end, &ms))
        return 0.0;
    return READ_PASSES * (double)count * sizeof(int4) / (ms * 1e-3);
}

// At most half of the free memory: a measurement must not fail for lack of it. Of 16 times the L2
// cache, a pass over the whole buffer finds less than a sixteenth in it.
static size_t bytes_to_read(Device *device, size_t bytes) {
    // `bytes` 0: the caller leaves the size to us.
    size_t free_bytes = 0, total = 0;
    int cache = 0;
    if (!bytes) {
        if (!CUDA_CHECK(device, cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, 0)))
            return 0;
        bytes = BEYOND_CACHE * (size_t)cache;
    }
    if (!CUDA_CHECK(device, cudaMemGetInfo(&free_bytes, &total))) return 0;
    if (bytes > free_bytes / 2) bytes = free_bytes / 2;
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
}

double device_read_rate(Device *device, size_t bytes) {
    if (!device_ok(device)) return 0.0;
    device_sync(device);
    bytes = bytes_to_read(device, bytes) / 16 * 16;
    uint8_t *memory = (uint8_t *)device_alloc(device, bytes + 16);
    cudaEvent_t begin = NULL, end = NULL;
    double rate = 0.0;
    if (memory && CUDA_CHECK(device, cudaEventCreateWithFlags(&begin, cudaEventDefault)) &&
        CUDA_CHECK(device, cudaEventCreateWithFlags(&end, cudaEventDefault))) {
        LAUNCH(device, fill_kernel, dim3((unsigned)(device->n_processors * READ_BLOCKS)),
               READ_THREADS, (uint32_t *)memory, bytes / sizeof(uint32_t));
        rate = time_reading(device, (const int4 *)memory, bytes / sizeof(int4),
                            (int *)(memory + bytes), begin, end);
    }
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    device_free(device, memory);
    return device_ok(device) ? rate : 0.0;
}

// ---- products ----

double device_product_seconds(Device *device, int n, int rows, int cols) {
    if (!device_ok(device)) return 0.0;
    device_sync(device);
    double seconds = blas_seconds(device, rows, n, cols, PRODUCT_RUNS);
    return seconds > 0.0 ? seconds : 0.0; // a failure is below zero
}

// The tensor cores' peak: the largest product, or the first that takes so long.
// Doubles the edge up to 8,192. A GPU so slow that a smaller product takes 0.5 ms need not wait for
// the larger ones.
static double rate_of_products(Device *device) {
    constexpr int LARGEST = 8192;
    constexpr double LONG_ENOUGH = 5e-4;
    for (int edge = 64;; edge *= 2) {
        double seconds = device_product_seconds(device, edge, edge, edge);
        if (seconds <= 0.0) return 0.0; // there is no library
        if (edge == LARGEST || seconds >= LONG_ENOUGH) return 2.0 * edge * edge * edge / seconds;
    }
}

// ---- arithmetic ----

enum { PEAK_THREADS = 256, PEAK_BLOCKS = 8, CHAINS = 8, PEAK_UNITS = 4 }; // blocks per SM; sums
constexpr double PEAK_MS = 2.0;                                           // of a sample at least

// Each thread's CHAINS sums do not wait for each other. `never` is not written: the compiler cannot
// know that the sums are no such numbers.
static __global__ void float32_kernel(int repetitions, float x, float y, int *never) {
    float sums[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        sums[i] = (float)(threadIdx.x + i);
    for (int r = 0; r < repetitions; r++)
        for (int u = 0; u < PEAK_UNITS; u++)
            for (int i = 0; i < CHAINS; i++)
                sums[i] = fmaf(sums[i], x, y);
    float sum = 0.0f;
    for (int i = 0; i < CHAINS; i++)
        sum += sums[i];
    if (sum == -1.0f) *never = 1;
}

static __global__ void int8_kernel(int repetitions, int x, int *never) {
    int sums[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        sums[i] = (int)threadIdx.x + i;
    for (int r = 0; r < repetitions; r++)
        for (int u = 0; u < PEAK_UNITS; u++)
            for (int i = 0; i < CHAINS; i++)
                sums[i] = dot4(sums[i], x, sums[i]);
    int sum = 0;
    for (int i = 0; i < CHAINS; i++)
        sum += sums[i];
    if (sum == -1) *never = 1;
}

static void launch_peak(Device *device, PeakKind kind, int repetitions, int *never) {
    dim3 grid((unsigned)(device->n_processors * PEAK_BLOCKS));
    if (kind == PEAK_FLOAT32)
        LAUNCH(device, float32_kernel, grid, PEAK_THREADS, repetitions, 0.999f, 1e-3f, never);
    else
        LAUNCH(device, int8_kernel, grid, PEAK_THREADS, repetitions, 0x01010101, never);
}

// Operations per second; repeats until a sample is long enough.
static double time_peak(Device *device, PeakKind kind, int *never, cudaEvent_t begin,
                        cudaEvent_t end) {
    // dot4 is four multiply-adds, so eight operations; fmaf is two.
    double each = (double)device->n_processors * PEAK_BLOCKS * PEAK_THREADS * CHAINS * PEAK_UNITS *
                  (kind == PEAK_INT8 ? 8.0 : 2.0);
    for (int repetitions = 1; repetitions < 1 << 24; repetitions *= 4) {
        double ms = 0.0;
        if (!CUDA_CHECK(device, cudaEventRecord(begin, device->stream))) break;
        launch_peak(device, kind, repetitions, never);
        if (!device_ok(device) || !CUDA_CHECK(device, cudaEventRecord(end, device->stream)) ||
            !elapsed(device, begin, end, &ms))
            break;
        if (ms >= PEAK_MS) return each * repetitions / (ms * 1e-3);
    }
    return 0.0;
}

double device_peak_rate(Device *device, PeakKind kind) {
    if (!device_ok(device)) return 0.0;
    if (kind == PEAK_BF16) return rate_of_products(device);
    if (kind != PEAK_FLOAT32 && kind != PEAK_INT8) return 0.0;
    device_sync(device);
    int *never = (int *)device_alloc(device, sizeof *never);
    cudaEvent_t begin = NULL, end = NULL;
    double rate = 0.0;
    if (never && CUDA_CHECK(device, cudaEventCreateWithFlags(&begin, cudaEventDefault)) &&
        CUDA_CHECK(device, cudaEventCreateWithFlags(&end, cudaEventDefault)))
        rate = time_peak(device, kind, never, begin, end);
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    device_free(device, never);
    return device_ok(device) ? rate : 0.0;
}

// As run_project chooses.
Arithmetic project_arithmetic(Device *device, const DeviceMatrix *weight, int n) {
    DType dtype = weight->planes.dtype;
    if (fits_blas(device, n)) {
        int products = blas_products(device, dtype);
        return products ? Arithmetic{PEAK_BF16, products} : Arithmetic{PEAK_FLOAT32, 1};
    }
    if (!meets_integers(device, dtype)) return Arithmetic{PEAK_FLOAT32, 1};
    return Arithmetic{PEAK_INT8, device->precision == PRECISION_A8 ? 1 : 2};
}

// Tiles multiply both f16 parts of a query, and of a softmax, with the f16 cache.
Arithmetic attention_arithmetic(Device *device, const Kv *kv, int n) {
    bool tiles = fits_tiles(device, &kv->shape, n);
    return tiles ? Arithmetic{PEAK_BF16, 2} : Arithmetic{PEAK_FLOAT32, 1};
}

// ---- the clock ----

enum { CLOCK_PASSES = 128 }; // in flight before the host waits for one

struct Clock {
    bool running, begun; // begun: a pass, not yet ended
    cudaEvent_t begin[CLOCK_PASSES], end[CLOCK_PASSES];
    int count;      // passes whose time has not been read
    double seconds; // of the passes that have been read
    double started; // by the host's clock: when watching began
};

// Waits for the passes in flight and adds their times up.
static void clock_read(Device *device) {
    Clock *c = device->clock;
    for (int i = 0; i < c->count; i++) {
        double ms = 0.0;
        if (!elapsed(device, c->begin[i], c->end[i], &ms)) return;
        c->seconds += ms * 1e-3;
    }
    c->count = 0;
}

static bool clock_runs(const Device *device) {
    return device->clock && device->clock->running && device_ok(device);
}

void clock_begin(Device *device) {
    Clock *c = device->clock;
    if (!clock_runs(device) || c->begun) return;
    // All pairs of events are in use.
    if (c->count == CLOCK_PASSES) clock_read(device);
    if (!device_ok(device)) return;
    c->begun = CUDA_CHECK(device, cudaEventRecord(c->begin[c->count], device->stream));
}

void clock_end(Device *device) {
    Clock *c = device->clock;
    if (!clock_runs(device) || !c->begun) return;
    if (CUDA_CHECK(device, cudaEventRecord(c->end[c->count], device->stream))) c->count++;
    c->begun = false;
}

// Recording an event again replaces its time.
void clock_extend(Device *device) {
    Clock *c = device->clock;
    if (!clock_runs(device) || !c->count) return;
    CUDA_CHECK(device, cudaEventRecord(c->end[c->count - 1], device->stream));
}

// The struct itself belongs to the device's list.
void clock_close(Device *device) {
    Clock *c = device->clock;
    for (int i = 0; c && i < CLOCK_PASSES; i++) {
        if (c->begin[i]) cudaEventDestroy(c->begin[i]);
        if (c->end[i]) cudaEventDestroy(c->end[i]);
    }
    device->clock = NULL;
}

// Events with times, unlike those of feedback.cu.
static bool clock_open(Device *device) {
    Clock *c = device->clock = (Clock *)host_alloc(device, sizeof(Clock));
    for (int i = 0; c && i < CLOCK_PASSES; i++)
        if (!CUDA_CHECK(device, cudaEventCreateWithFlags(&c->begin[i], cudaEventDefault)) ||
            !CUDA_CHECK(device, cudaEventCreateWithFlags(&c->end[i], cudaEventDefault)))
            return false;
    return c;
}

double device_idle_seconds(Device *device, bool watch) {
    if (!device_ok(device) || (!device->clock && !clock_open(device))) return 0.0;
    Clock *c = device->clock;
    clock_read(device);
    // Host time since the last call, less the time of the passes in it.
    double idle = c->running ? seconds_now() - c->started - c->seconds : 0.0;
    c->seconds = 0.0;
    c->running = watch;
    c->begun = false;
    c->started = seconds_now();
    return device_ok(device) && idle > 0.0 ? idle : 0.0;
}
