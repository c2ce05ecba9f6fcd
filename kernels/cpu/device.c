// The device: threads, memory, the first failure. Nothing is recorded: operations run at once.
#include "base/clock.h"
#include "base/processors.h"
#include "kernels/cpu/cpu.h"
#include "kernels/host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// In front of each block of device memory; 64 bytes, so that the block stays aligned.
struct Allocation {
    _Alignas(64) Allocation *previous;
    Allocation *next;
    size_t bytes; // as they were asked for
    void *base;   // what malloc gave
};

void device_fail(Device *device, ErrorCode code, const char *format, ...) {
    char message[ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error_set(&device->error, code, "%s", message);
}

// The best instruction set that this processor has, or the one that LIMPID_ISA asks for.
static void choose_kernels(Device *device) {
    const char *wanted = getenv("LIMPID_ISA");
    size_t count;
    const CpuKernels *const *list = isa_list(&count);
    device->kernels = list[count - 1];
    for (size_t i = 0; i < count; i++) {
        if (wanted && *wanted && strcmp(wanted, list[i]->name) != 0) continue;
        if (isa_supported(list[i])) {
            device->kernels = list[i];
            return;
        }
        if (wanted && *wanted) {
            device_fail(device, ERROR_DEVICE, "LIMPID_ISA=%s: this machine does not have it",
                        wanted);
            return;
        }
    }
    char names[80] = "";
    for (size_t i = 0, used = 0; i < count; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 list[i]->name);
    device_fail(device, ERROR_DEVICE, "LIMPID_ISA=%s: wanted one of %s", wanted, names);
}

void device_prepare(void) {}

Device *device_open(int threads, Precision precision) {
    Device *device = calloc(1, sizeof *device);
    if (!device) return NULL;
    device->precision = precision;
    device->info = (DeviceInfo){.threads = 1, .batch_invariant = true};
    device->active_threads = 1;
    device->parts = 1;
    choose_kernels(device);
    if (threads <= 0) threads = processors_usable();
    if (threads > PROCESSORS_MOST)
        device_fail(device, ERROR_DEVICE, "%d threads: at most %d", threads, PROCESSORS_MOST);
    else if (threads > 1) {
        device->pool = pool_open(threads);
        if (device->pool)
            device->info.threads = device->active_threads = threads;
        else
            device_fail(device, ERROR_MEMORY, // EAGAIN: what a thread needs is not there
                        "cannot start %d threads: %s", threads, strerror(errno));
    }
    DeviceInfo *info = &device->info;
    snprintf(info->description, sizeof info->description, "cpu, %d thread%s, %s (%s)",
             info->threads, info->threads == 1 ? "" : "s", device->kernels->name,
             device->kernels->features);
    return device;
}

void device_close(Device *device) {
    if (!device) return;
    pool_close(device->pool);
    while (device->allocations)
        device_free(device, device->allocations + 1);
    panel_memory_close(device);
    limits_close(device);
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
    return &device->info;
}

void *device_alloc(Device *device, size_t bytes) {
    if (!device_ok(device)) return NULL;
    Allocation *block = NULL;
    if (bytes <= SIZE_MAX - 2 * sizeof *block) {
        // calloc: a large cache takes no memory before it is written to.
        void *base = calloc(1, bytes + 2 * sizeof *block);
        if (base) {
            block = (Allocation *)(((uintptr_t)base + sizeof *block - 1) / 64 * 64);
            block->base = base;
        }
    }
    if (!block) {
        device_fail(device, ERROR_MEMORY, "no memory for %zu bytes", bytes);
        return NULL;
    }
    block->bytes = bytes;
    device->taken += bytes;
    block->next = device->allocations;
    if (block->next) block->next->previous = block;
    device->allocations = block;
    return block + 1;
}

void device_free(Device *device, void *memory) {
    if (!memory) return;
    Allocation *block = (Allocation *)memory - 1;
    if (block->next) block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        device->allocations = block->next;
    device->taken -= block->bytes;
    free(block->base);
}

void device_upload(Device *device, void *to, const void *from_host, size_t bytes) {
    if (device_ok(device) && bytes) memcpy(to, from_host, bytes);
}

void device_download(Device *device, void *to_host, const void *from, size_t bytes) {
    if (device_ok(device) && bytes) memcpy(to_host, from, bytes);
}

// Weights that an L2 cache mostly holds need not be brought there: the built-in model, of 3 MB,
// takes 8 % longer where they are.
static const size_t LEAST_FOR_L2 = (size_t)8 << 20;

void device_reserve(Device *device, int max_rows) {
    if (!device_ok(device)) return;
    device->max_rows = max_rows;
    device->prefetch = isa_prefetch();
    if (device->prefetch == PREFETCH_L1_AND_L2 && device->packed < LEAST_FOR_L2)
        device->prefetch = PREFETCH_L1;
    project_reserve(device, max_rows);
    sample_reserve(device);
}

DeviceMemory device_needs(Device *device, const MemoryPlan *plan) {
    size_t operations = project_needs(device, plan->max_rows) + sample_needs(device);
    return (DeviceMemory){.matrices = device->planned,
                          .cache = kv_needs(device, &plan->cache),
                          .operations = operations,
                          .others = plan->bytes};
}

// Beyond its limit the operating system kills the process, without a word. Only the matrices are
// certain to be written whole: of a cache and of scratch, pages are taken as they are used.
void device_plan(Device *device, const MemoryPlan *plan) {
    uint64_t most = memory_most();
    double needed = (double)device->planned;
    (void)plan;
    if (needed > (double)most)
        device_fail(device, ERROR_MEMORY,
                    "the weights take %.1f MB; the machine or a cgroup allows this process %.1f MB "
                    "of memory and swap",
                    needed / 1e6, (double)most / 1e6);
}

size_t device_taken(const Device *device) {
    return device->taken;
}

bool device_counts(const Device *device, DeviceCounts *counts) {
    (void)device;
    *counts = (DeviceCounts){0};
    return false;
}

// A task of a pass that may be stopped: what is left of its chunks is then taken and not run.
typedef struct Stoppable {
    PoolTask *task;
    void *context;
    StopFlag *stop;
    size_t step; // items between two looks at `stop`
} Stoppable;

static void run_until_stopped(void *context, size_t begin, size_t end, int thread) {
    const Stoppable *s = context;
    for (; begin < end && !pass_stopped(s->stop); begin += s->step)
        s->task(s->context, begin, end - begin < s->step ? end : begin + s->step, thread);
}

// An operation of so many chunks takes long enough to look at `stop` within it, and one of fewer is
// over soon. One thread takes a second for a matrix of a large model and a chunk of rows; for few
// rows it takes less than a tenth of that, and looking once is enough.
enum { MANY_CHUNKS = 8, MANY_ROWS = 32, PARTS = 16 };

void device_run(Device *device, PoolTask *task, void *context, size_t n_items, size_t chunk) {
    if (!n_items || pass_stopped(device->stop)) return;
    bool shares = device->active_threads > 1 && n_items > chunk;
    size_t parts = shares ? PARTS : device->parts;
    Stoppable stoppable = {task, context, device->stop, (n_items + parts - 1) / parts};
    if (device->stop && (device->parts > 1 || n_items / MANY_CHUNKS > chunk)) {
        task = run_until_stopped;
        context = &stoppable;
    }
    if (shares)
        pool_run(device->pool, task, context, n_items, chunk);
    else
        task(context, 0, n_items, 0);
}

// Nothing is recorded. A pass is timed to find out how many threads suit it; what follows until the
// next one, sampling above all, runs on as many.
void device_begin(Device *device, const PassShape *shape) {
    device->stop = shape->stop;
    device->parts = shape->stop && shape->n >= MANY_ROWS ? PARTS : 1;
    if (!device->pool) return;
    bool all = pass_threads_begin(&device->pass_threads, shape->n);
    device->active_threads = all ? device->info.threads : 1;
    device->pass_began = seconds_now();
}

void device_end(Device *device) {
    device->stop = NULL;
    device->parts = 1;
    if (device->pool) pass_threads_end(&device->pass_threads, seconds_now() - device->pass_began);
}

int32_t *host_sent(Device *device) {
    return device->sent;
}
