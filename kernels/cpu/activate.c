// Element-wise operations: blocks of elements shared out over the threads; lanes/rows.c has the
// arithmetic.
#include "kernels/cpu/cpu.h"

enum { BLOCK = 1024 }; // elements of one item

typedef struct ElementWork {
    const RowKernels *kernels;
    float *x;       // (count)
    const float *y; // (count) or NULL
    size_t count;
    ActivationKind kind;
    float number; // a factor, or a cap
} ElementWork;

// The last block may be shorter. All others are a multiple of the sixteen lanes, so that only the
// end of the array takes the slower partial loads and stores.
static size_t blocks(size_t count) {
    return (count + BLOCK - 1) / BLOCK;
}

// The elements of items begin .. end - 1.
static size_t elements(const ElementWork *w, size_t begin, size_t end) {
    return (end * BLOCK < w->count ? end * BLOCK : w->count) - begin * BLOCK;
}

// The tasks get items, which are blocks, and pass one run of elements on to the kernel: blocks next
// to each other are contiguous.
static void activate_task(void *context, size_t begin, size_t end, int thread) {
    const ElementWork *w = context;
    size_t start = begin * BLOCK;
    w->kernels->activate(w->x + start, w->y ? w->y + start : NULL, elements(w, begin, end),
                         w->kind);
    (void)thread;
}

static void add_task(void *context, size_t begin, size_t end, int thread) {
    const ElementWork *w = context;
    size_t start = begin * BLOCK;
    w->kernels->add(w->x + start, w->y + start, elements(w, begin, end));
    (void)thread;
}

static void scale_task(void *context, size_t begin, size_t end, int thread) {
    const ElementWork *w = context;
    w->kernels->scale(w->x + begin * BLOCK, elements(w, begin, end), w->number);
    (void)thread;
}

static void softcap_task(void *context, size_t begin, size_t end, int thread) {
    const ElementWork *w = context;
    w->kernels->softcap(w->x + begin * BLOCK, elements(w, begin, end), w->number);
    (void)thread;
}

// The chunks: 8 multiply-adds for an element with an exponential function or a division (cpu.h), 2
// for an addition or a factor, which only read and write memory.
void activate(Device *device, float *gate, const float *up, size_t count, ActivationKind kind) {
    if (!device_ok(device)) return;
    ElementWork work = {device->kernels->rows, gate, up, count, kind, 0};
    device_run(device, activate_task, &work, blocks(count), work_chunk(8 * BLOCK));
}

void add(Device *device, float *x, const float *y, size_t count) {
    if (!device_ok(device)) return;
    ElementWork work = {.kernels = device->kernels->rows, .x = x, .y = y, .count = count};
    device_run(device, add_task, &work, blocks(count), work_chunk(2 * BLOCK));
}

void scale(Device *device, float *x, size_t count, float factor) {
    if (!device_ok(device)) return;
    ElementWork work = {.kernels = device->kernels->rows, .x = x, .count = count, .number = factor};
    device_run(device, scale_task, &work, blocks(count), work_chunk(2 * BLOCK));
}

void softcap(Device *device, float *x, size_t count, float cap) {
    if (!device_ok(device)) return;
    ElementWork work = {.kernels = device->kernels->rows, .x = x, .count = count, .number = cap};
    device_run(device, softcap_task, &work, blocks(count), work_chunk(8 * BLOCK));
}
