// The GPU: opening it, or saying why it cannot be opened; its memory; uploads of weights.
#include "kernels/cuda/device.h"
#include "kernels/cuda/project/blas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- failures ----

void device_fail(Device *device, ErrorCode code, const char *format, ...) {
    char message[ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(&device->error, code, "%s", message);
}

bool cuda_check(Device *device, cudaError_t error, const char *what, const char *sizes) {
    if (error == cudaSuccess) return true;
    char call[64]; // the name of the call or kernel, without its arguments
    what += strspn(what, "(");
    snprintf(call, sizeof call, "%.*s", (int)strcspn(what, "(<"), what);
    device_fail(device, ERROR_DEVICE, "GPU: %s%s%s%s: %s (%d %s)", call, sizes,
                *device->name ? " on " : "", device->name, cudaGetErrorString(error), (int)error,
                cudaGetErrorName(error));
    (void)cudaGetLastError(); // clears the runtime's error, which is reported above
    return false;
}

bool bytes_check(Device *device, cudaError_t error, const char *call, size_t bytes) {
    if (error == cudaSuccess) return true;
    char sizes[40];
    snprintf(sizes, sizeof sizes, " of %zu bytes", bytes);
    return cuda_check(device, error, call, sizes);
}

bool launch_check(Device *device, cudaError_t error, const char *kernel, dim3 grid,
                  unsigned threads) {
    if (error == cudaSuccess) return true;
    char sizes[80];
    snprintf(sizes, sizeof sizes, ", grid (%u, %u, %u) of %u threads,", grid.x, grid.y, grid.z,
             threads);
    return cuda_check(device, error, kernel, sizes);
}

void launch_wait(Device *device, const char *name, dim3 grid, unsigned threads) {
    if (!device_ok(device)) return;
    launch_check(device, cudaStreamSynchronize(device->stream), name, grid, threads);
}

// 0 where it cannot be had.
static int version(cudaError_t (*get)(int *)) {
    int value = 0;
    if (get(&value) == cudaSuccess) return value;
    (void)cudaGetLastError();
    return 0;
}

// What cudaGetDeviceCount's codes mean; their own texts mislead (35 is also "no driver at all").
static bool find_gpu(Device *device) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count); // leaves count alone where it fails
    (void)cudaGetLastError();
    if (error == cudaSuccess && count > 0) return true;
    int driver = version(cudaDriverGetVersion), runtime = version(cudaRuntimeGetVersion);
    if (error == cudaErrorInsufficientDriver && !driver)
        device_fail(device, ERROR_DEVICE,
                    "no NVIDIA driver on this machine (libcuda.so.1 not found); make BACKEND=cpu "
                    "builds for the CPU");
    else if (error == cudaErrorInsufficientDriver)
        device_fail(device, ERROR_DEVICE,
                    "the NVIDIA driver supports CUDA %d.%d, this program needs %d.%d",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    else if (error == cudaErrorStubLibrary)
        device_fail(device, ERROR_DEVICE,
                    "libcuda.so.1 is the CUDA toolkit's stub, not a driver "
                    "(LD_LIBRARY_PATH?)");
    else if (error == cudaErrorNoDevice || error == cudaSuccess)
        device_fail(device, ERROR_DEVICE,
                    "an NVIDIA driver, but no GPU to be seen (CUDA_VISIBLE_DEVICES?)");
    else
        cuda_check(device, error, "cudaGetDeviceCount");
    return false;
}

// ---- opening ----

static bool open_halves(Device *device, Halves *halves, size_t bytes) {
    for (int i = 0; i < 2; i++) {
        if (!BYTES_CHECK(device, cudaMallocHost((void **)&halves->halves[i], bytes), bytes) ||
            !CUDA_CHECK(device,
                        cudaEventCreateWithFlags(&halves->copied[i], cudaEventDisableTiming)))
            return false;
    }
    return true;
}

static void close_halves(Halves *halves) {
    for (int i = 0; i < 2; i++) {
        if (halves->copied[i]) cudaEventDestroy(halves->copied[i]);
        cudaFreeHost(halves->halves[i]);
    }
}

// To the other half, once the copies out of it have ended.
static bool next_half(Device *device, Halves *halves) {
    if (!CUDA_CHECK(device, cudaEventRecord(halves->copied[halves->current], device->stream)))
        return false;
    halves->used = 0;
    halves->current ^= 1;
    return CUDA_CHECK(device, cudaEventSynchronize(halves->copied[halves->current]));
}

static int attribute(cudaDeviceAttr which) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, 0) != cudaSuccess) (void)cudaGetLastError();
    return value;
}

// What a measurement has to name: the GPU, its clocks at most (kHz here), what the driver is good
// for.
static void describe(Device *device, const cudaDeviceProp *p) {
    int driver = version(cudaDriverGetVersion);
    snprintf(device->info.description, sizeof device->info.description,
             "cuda, %s, sm_%d%d, %d SMs at up to %d MHz, memory %d MHz x %d bits, driver for "
             "CUDA %d.%d",
             device->name, p->major, p->minor, p->multiProcessorCount,
             attribute(cudaDevAttrClockRate) / 1000, attribute(cudaDevAttrMemoryClockRate) / 1000,
             attribute(cudaDevAttrGlobalMemoryBusWidth), driver / 1000, driver % 1000 / 10);
    Switches used = device->switches;
    used.persistent = device->persistent;
    switches_describe(&used, device->info.description, sizeof device->info.description);
}

// Queried in place of all kernels, which are compiled for the same architectures.
static __global__ void probe_kernel() {}

// The least of GPU_ARCHS in the Makefile.
#ifndef LEAST_GPU
#define LEAST_GPU 80
#endif

bool has_programmatic_launches(const cudaDeviceProp *p, cudaError_t *error) {
    cudaFuncAttributes code = {};
    *error = cudaFuncGetAttributes(&code, probe_kernel);
    return *error == cudaSuccess && p->major >= 9 && code.ptxVersion >= 90;
}

// Whether there is code for this GPU, and what that code can do.
static bool find_code(Device *device, const cudaDeviceProp *p) {
    if (10 * p->major + p->minor < LEAST_GPU) {
        device_fail(device, ERROR_DEVICE,
                    "GPU: %s is an sm_%d%d, this program has code for sm_%d and later",
                    device->name, p->major, p->minor, LEAST_GPU);
        return false;
    }
    cudaError_t error;
    bool programmatic = has_programmatic_launches(p, &error);
    if (!cuda_check(device, error, "cudaFuncGetAttributes")) return false;
    const Switches &off = device->switches;
    device->block_memory = p->sharedMemPerBlockOptin;
    device->programmatic = programmatic && !off.nopdl;
    device->persistent = programmatic && off.persistent && !off.nograph && !off.nofuse &&
                         !off.noprefetch && !off.nofew && chains_have_room(device);
    return true;
}

void device_prepare(void) {
    int count;
    if (driver_is_ready()) return;
    (void)cudaGetDeviceCount(&count);
    (void)cudaGetLastError();
}

Device *device_open(int threads, Precision precision) {
    (void)threads; // of the host; a GPU has its own
    Device *device = (Device *)calloc(1, sizeof *device);
    if (!device) return NULL;
    device->precision = precision;
    DeviceInfo *info = &device->info;
    snprintf(info->description, sizeof info->description, "cuda, no GPU");
    info->threads = 1;
    if (!switches_read(device)) return device;
    // batch_invariant: not where prompts use other kernels.
    info->pipeline_depth = device->switches.nofeed ? 0 : PIPELINE_DEPTH;
    cudaDeviceProp properties;
    if (!find_gpu(device) || !CUDA_CHECK(device, cudaSetDevice(0)) ||
        !CUDA_CHECK(device, cudaGetDeviceProperties(&properties, 0)))
        return device;
    snprintf(device->name, sizeof device->name, "%.79s", properties.name);
    if (!find_code(device, &properties) ||
        !CUDA_CHECK(device, cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking)) ||
        !open_halves(device, &device->staging, STAGING_BYTES) ||
        !open_halves(device, &device->uploads, UPLOAD_BYTES) || !sends_open(device) ||
        !chains_open(device))
        return device;
    device->n_processors = properties.multiProcessorCount;
    device->recording = recording_open(device);
    describe(device, &properties);
    return device;
}

// Freeing and destroying, here and elsewhere, is the one thing that is not checked: nothing could
// be done about it, and what a program has read was waited for and checked before.
static void release_memory(void *memory, Place place) {
    if (place == ON_HOST) free(memory);
    if (place == PINNED) cudaFreeHost(memory);
    if (place == ON_GPU) cudaFree(memory);
}

static void release(Allocation *a) {
    release_memory(a->memory, a->place);
    free(a);
}

void device_close(Device *device) {
    if (!device) return;
    if (device->stream) (void)cudaStreamSynchronize(device->stream);
    recording_close(device);
    blas_close(device);
    clock_close(device);
    for (Allocation *a = device->allocations, *next; a; a = next) {
        next = a->next;
        release(a);
    }
    close_halves(&device->staging);
    close_halves(&device->uploads);
    sends_close(device);
    if (device->stream) cudaStreamDestroy(device->stream);
    free(device);
}

const Error *device_error(const Device *device) {
    return &device->error;
}

void device_clear_memory_error(Device *device) {
    if (device->error.code == ERROR_MEMORY) device->error = Error{};
}

__attribute__((used)) const bool DEVICE_MEMORY_IS_HOST = false;

const DeviceInfo *device_info(const Device *device) {
    return &device->info;
}

// ---- memory ----

static void *keep(Device *device, void *memory, size_t bytes, Place place) {
    Allocation *a = memory ? (Allocation *)malloc(sizeof *a) : NULL;
    if (!a) {
        if (memory) release_memory(memory, place);
        return NULL;
    }
    *a = Allocation{device->allocations, memory, place == ON_GPU ? bytes : 0, place};
    device->taken += a->bytes;
    device->allocations = a;
    return memory;
}

static void forget(Device *device, void *memory) {
    for (Allocation **link = &device->allocations; *link; link = &(*link)->next) {
        if ((*link)->memory != memory) continue;
        Allocation *a = *link;
        *link = a->next;
        device->taken -= a->bytes;
        release(a);
        return;
    }
}

void *host_alloc(Device *device, size_t bytes) {
    if (!device_ok(device)) return NULL;
    void *memory = keep(device, calloc(1, bytes ? bytes : 1), bytes, ON_HOST);
    if (!memory) device_fail(device, ERROR_MEMORY, "no memory for %zu bytes", bytes);
    return memory;
}

void host_free(Device *device, void *memory) {
    if (memory) forget(device, memory);
}

// Pinned memory cannot be swapped out: more than this stays pageable, and copies to it take longer.
static constexpr size_t MOST_PINNED = (size_t)64 << 20;

void *device_host_alloc(Device *device, size_t bytes) {
    void *memory = NULL;
    if (bytes > MOST_PINNED || !device_ok(device)) return host_alloc(device, bytes);
    if (!BYTES_CHECK(device, cudaMallocHost(&memory, bytes ? bytes : 1), bytes)) return NULL;
    if (!keep(device, memory, bytes, PINNED))
        device_fail(device, ERROR_MEMORY, "no memory for a list entry");
    return device_ok(device) ? memory : NULL;
}

void device_host_free(Device *device, void *memory) {
    host_free(device, memory);
}

// Both in the larger unit that leaves something of the first.
struct Bytes {
    double needed, free;
    const char *unit;
};

static Bytes bytes_in_words(size_t needed, size_t free) {
    bool large = needed >= (size_t)1 << 30;
    double unit = large ? 0x1p30 : 0x1p20;
    return Bytes{(double)needed / unit, (double)free / unit, large ? "GiB" : "MiB"};
}

static size_t sum_or_most(size_t a, size_t b) {
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

DeviceMemory device_needs(Device *device, const MemoryPlan *plan) {
    size_t operations = project_bytes(device, plan->max_rows) +
                        project_blas_bytes(device, plan->max_rows) + sample_bytes(device) +
                        attention_bytes(plan);
    return DeviceMemory{device->planned, kv_bytes(&plan->cache), operations, plan->bytes};
}

size_t device_taken(const Device *device) {
    return device->taken;
}

bool device_counts(const Device *device, DeviceCounts *counts) {
    (void)device;
    *counts = DeviceCounts{};
    return false;
}

// The model's memory and the scratch of its operations.
void device_plan(Device *device, const MemoryPlan *plan) {
    size_t free_bytes = 0, total = 0;
    if (!device_ok(device) || !CUDA_CHECK(device, cudaMemGetInfo(&free_bytes, &total))) return;
    DeviceMemory needs = device_needs(device, plan);
    size_t others = needs.matrices + needs.operations + needs.others;
    size_t needed = sum_or_most(needs.cache, others);
    if (needed <= free_bytes) return;
    Bytes b = bytes_in_words(needed, free_bytes);
    device_fail(device, ERROR_DEVICE, "GPU: needs %.1f %s, %.1f free%s", b.needed, b.unit, b.free,
                others <= free_bytes ? "; a smaller context (-c) takes less" : "");
}

// Compared with the free memory first, so that the message has both numbers.
void *device_alloc(Device *device, size_t bytes) {
    if (!device_ok(device)) return NULL;
    size_t free_bytes = 0, total = 0;
    if (!CUDA_CHECK(device, cudaMemGetInfo(&free_bytes, &total))) return NULL;
    if (bytes > free_bytes) {
        Bytes b = bytes_in_words(bytes, free_bytes);
        device_fail(device, ERROR_DEVICE, "GPU: needs %.1f %s more, %.1f free", b.needed, b.unit,
                    b.free);
        return NULL;
    }
    void *memory = NULL;
    if (!BYTES_CHECK(device, cudaMalloc(&memory, bytes ? bytes : 1), bytes)) return NULL;
    if (!keep(device, memory, bytes, ON_GPU)) {
        device_fail(device, ERROR_MEMORY, "no memory for a list entry");
        return NULL;
    }
    if (BYTES_CHECK(device, cudaMemsetAsync(memory, 0, bytes, device->stream), bytes))
        return memory;
    device_free(device, memory);
    return NULL;
}

void device_free(Device *device, void *memory) {
    if (!memory) return;
    CUDA_CHECK(device, cudaStreamSynchronize(device->stream)); // a kernel may still use it
    device->sends.drawn = NULL;
    forget(device, memory);
}

// Through pinned memory: a copy out of any other may or may not have left it on return, and the
// caller is about to use it again.
void upload_now(Device *device, void *to, const void *from_host, size_t bytes) {
    Halves *h = &device->uploads;
    const uint8_t *from = (const uint8_t *)from_host;
    uint8_t *at = (uint8_t *)to;
    for (size_t n; bytes && device_ok(device); from += n, at += n, bytes -= n) {
        if (h->used == UPLOAD_BYTES && !next_half(device, h)) return;
        n = bytes < UPLOAD_BYTES - h->used ? bytes : UPLOAD_BYTES - h->used;
        uint8_t *pinned = h->halves[h->current] + h->used;
        memcpy(pinned, from, n);
        h->used += n;
        BYTES_CHECK(device, cudaMemcpyAsync(at, pinned, n, cudaMemcpyHostToDevice, device->stream),
                    n);
    }
}

void device_upload(Device *device, void *to, const void *from_host, size_t bytes) {
    device_sync(device);        // what is recorded came before
    device->sends.drawn = NULL; // what was drawn may be what is written over
    upload_now(device, to, from_host, bytes);
}

void device_download(Device *device, void *to_host, const void *from, size_t bytes) {
    device_sync(device);
    if (!device_ok(device) || !bytes) return;
    BYTES_CHECK(device,
                cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, device->stream),
                bytes) &&
        CUDA_CHECK(device, cudaStreamSynchronize(device->stream));
}

void device_reserve(Device *device, int max_rows) {
    if (!device_ok(device)) return;
    device->max_rows = max_rows;
    project_reserve(device);
    sample_reserve(device);
}

// ---- staging ----

bool staging_begin(Device *device, void *to) {
    device->staging.to = (uint8_t *)to;
    device->staging.used = 0;
    return device_ok(device);
}

// Sends the current half and switches to the other one, once its last copy has ended.
static void staging_send(Device *device) {
    Staging *s = &device->staging;
    size_t bytes = s->used;
    if (!bytes) return;
    if (BYTES_CHECK(device,
                    cudaMemcpyAsync(s->to, s->halves[s->current], bytes, cudaMemcpyHostToDevice,
                                    device->stream),
                    bytes) &&
        next_half(device, s))
        s->to += bytes;
}

uint8_t *staging_take(Device *device, size_t bytes) {
    Staging *s = &device->staging;
    if (s->used + bytes > STAGING_BYTES) staging_send(device);
    if (!device_ok(device)) return NULL;
    uint8_t *at = s->halves[s->current] + s->used;
    s->used += bytes;
    return at;
}

void staging_end(Device *device) {
    if (device_ok(device)) staging_send(device);
}
