// The threads of a block as fibers, and the few host calls that kernels/cuda makes.
#include "cuda_runtime.h"

#include "tests/cuda/emulator.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <sys/mman.h>
#include <ucontext.h>
#include <unordered_map>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif
#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

Place place;

namespace {

enum Wait { READY, AT_BARRIER, AT_SHUFFLE, DONE };

constexpr unsigned WARP = 32, MAX_THREADS = 1024;
constexpr size_t STACK_BYTES = 64 << 10, MAX_BLOCK_MEMORY = 227 << 10; // sm_90

// The stack pointer of what is not running. On x86-64 a change of fiber is eight pushes and pops;
// elsewhere ucontext does it, with a system call each time.
struct Context {
#ifdef __x86_64__
    void *stack_pointer;
#else
    ucontext_t context;
#endif
};

struct Fiber {
    Context context;
    void *fake_stack; // AddressSanitizer's
    char *stack;
    uint3 thread;
    unsigned lane, warp, exchanges;
    Wait wait;
    const char *where;
};

struct Warp {
    unsigned live, arrived;
    unsigned lanes;          // bits of those that have not returned
    unsigned wanted;         // bits of those that somebody at a shuffle waits for
    uint64_t slots[2][WARP]; // two, since a fast lane may already be at the next exchange
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned live, arrived;
    void *memory;
    size_t memory_bytes;
};

Block block;
Fiber *current;
Context scheduler;
#ifdef EMULATOR_ASAN
void *scheduler_fake_stack;
const void *scheduler_bottom;
size_t scheduler_size;
#endif
const std::function<void()> *kernel;
char *stacks;

[[noreturn]] void die(const char *why) {
    fprintf(stderr, "emulator: block (%u,%u,%u): %s\n", place.block.x, place.block.y, place.block.z,
            why);
    unsigned told = 0;
    for (const Fiber &f : block.fibers)
        if (f.wait != DONE && told++ < 8)
            fprintf(stderr, "  thread (%u,%u,%u) is at %s\n", f.thread.x, f.thread.y, f.thread.z,
                    f.where);
    abort();
}

#ifdef __x86_64__
extern "C" void emulator_switch(void **save, void *to);
__asm__(".text\n"
        ".globl emulator_switch\n"
        ".type emulator_switch,@function\n"
        "emulator_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emulator_switch,.-emulator_switch\n");
#endif

void change(Context *from, Context *to) {
#ifdef __x86_64__
    emulator_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
}

void to_scheduler() {
    Fiber *me = current;
#ifdef EMULATOR_ASAN
    __sanitizer_start_switch_fiber(me->wait == DONE ? nullptr : &me->fake_stack, scheduler_bottom,
                                   scheduler_size);
#endif
    change(&me->context, &scheduler);
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(me->fake_stack, nullptr, nullptr);
#endif
}

void resume(Fiber &f) {
    current = &f;
    place.thread = f.thread;
#ifdef EMULATOR_ASAN
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, f.stack, STACK_BYTES);
#endif
    change(&scheduler, &f.context);
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
#endif
}

void open_barrier() {
    block.arrived = 0;
    for (Fiber &f : block.fibers)
        if (f.wait == AT_BARRIER) f.wait = READY;
}

void open_warp(unsigned id) {
    block.warps[id].arrived = 0;
    block.warps[id].wanted = 0;
    for (size_t i = id * WARP; i < block.fibers.size() && i < (id + 1) * WARP; i++)
        if (block.fibers[i].wait == AT_SHUFFLE) block.fibers[i].wait = READY;
}

// Where a fiber begins. A thread that has returned no longer counts at barriers.
void thread_main() {
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
    (*kernel)();
    Fiber *me = current;
    Warp &warp = block.warps[me->warp];
    me->wait = DONE;
    if (warp.wanted >> me->lane & 1) die("a lane returns that a shuffle's mask names");
    warp.lanes &= ~(1u << me->lane);
    if (--block.live && block.arrived == block.live) open_barrier();
    if (--warp.live && warp.arrived == warp.live) open_warp(me->warp);
    to_scheduler();
    __builtin_unreachable();
}

void start(Fiber &f) {
#ifdef EMULATOR_ASAN
    __asan_unpoison_memory_region(f.stack, STACK_BYTES); // the last thread here never unwound
#endif
#ifdef __x86_64__
    void **top = (void **)(f.stack + STACK_BYTES);
    *--top = nullptr; // keeps the stack 16-byte aligned at the first call
    *--top = (void *)thread_main;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    f.context.stack_pointer = top;
#else
    getcontext(&f.context.context);
    f.context.context.uc_stack.ss_sp = f.stack;
    f.context.context.uc_stack.ss_size = STACK_BYTES;
    f.context.context.uc_link = nullptr;
    makecontext(&f.context.context, thread_main, 0);
#endif
}

void set_up_block(unsigned n, dim3 size) {
    block.live = n;
    block.arrived = 0;
    block.warps.assign((n + WARP - 1) / WARP, Warp{});
    for (unsigned i = 0; i < n; i++) {
        Fiber &f = block.fibers[i];
        f = Fiber{};
        f.stack = stacks + i * STACK_BYTES;
        f.thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
        f.lane = i % WARP;
        f.warp = i / WARP;
        f.where = "its start";
        block.warps[f.warp].live++;
        block.warps[f.warp].lanes |= 1u << f.lane;
        start(f);
    }
    if (block.memory) memset(block.memory, 0xff, block.memory_bytes); // NaN
}

int schedule() { // 0 up, 1 down, 2 shuffled threads; 3 up, 4 down: one warp as far as it can go
    const char *text = getenv("EMULATOR_SCHEDULE");
    return text ? atoi(text) : 0;
}

// Every fiber that can run, once; for schedules 3 and 4 every warp until it cannot.
bool run_once(const std::vector<unsigned> &order, int kind) {
    bool any = false;
    if (kind < 3) {
        for (unsigned i : order)
            if (block.fibers[i].wait == READY) any = true, resume(block.fibers[i]);
        return any;
    }
    for (size_t k = 0; k < order.size(); k += WARP) {
        for (bool more = true; more;) {
            more = false;
            for (size_t i = k; i < order.size() && i < k + WARP; i++)
                if (block.fibers[order[i]].wait == READY)
                    more = any = true, resume(block.fibers[order[i]]);
        }
    }
    return any;
}

std::vector<unsigned> thread_order(unsigned n, int kind) {
    std::vector<unsigned> order(n);
    uint64_t random = 88172645463325252ull;
    for (unsigned i = 0; i < n; i++)
        order[i] = kind == 1 || kind == 4 ? n - 1 - i : i;
    for (unsigned i = n - 1; kind == 2 && i; i--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        std::swap(order[i], order[random % (i + 1)]);
    }
    return order;
}

void run_grid(dim3 grid, dim3 size, const std::function<void()> &body) {
    unsigned n = size.x * size.y * size.z;
    int kind = schedule();
    std::vector<unsigned> order = thread_order(n, kind);
    if (!stacks)
        stacks = (char *)mmap(nullptr, MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block.fibers.assign(n, Fiber{});
    kernel = &body;
    place.grid_size = grid;
    place.block_size = size;
    for (uint64_t b = 0; b < (uint64_t)grid.x * grid.y * grid.z; b++) {
        place.block = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                       (unsigned)(b / grid.x / grid.y)};
        set_up_block(n, size);
        while (block.live)
            if (!run_once(order, kind)) die("a barrier that not every thread reaches");
    }
    free(block.memory);
    block.memory = nullptr;
    current = nullptr;
}

} // namespace

void sync_block(const char *where) {
    current->where = where;
    if (++block.arrived == block.live) {
        open_barrier();
        return;
    }
    current->wait = AT_BARRIER;
    to_scheduler();
}

void sync_warp(const char *where) {
    Warp &warp = block.warps[current->warp];
    current->where = where;
    if (++warp.arrived == warp.live) {
        open_warp(current->warp);
        return;
    }
    current->wait = AT_SHUFFLE;
    to_scheduler();
}

unsigned lane() {
    return current->lane;
}

uint64_t exchange(uint64_t value, unsigned from, unsigned mask, const char *where) {
    Warp &warp = block.warps[current->warp];
    current->where = where;
    if (!(mask >> current->lane & 1)) die("a shuffle by a lane that its mask leaves out");
    if (mask & ~warp.lanes) die("a shuffle whose mask names a lane that has returned");
    uint64_t *slots = warp.slots[current->exchanges++ % 2];
    slots[current->lane] = value;
    warp.wanted |= mask;
    sync_warp(where);
    return slots[from % WARP];
}

const uint64_t *exchange_all(uint64_t value, const char *where) {
    exchange(value, current->lane, 0xffffffffu, where);
    return block.warps[current->warp].slots[(current->exchanges - 1) % 2];
}

unsigned ballot(bool predicate, unsigned mask, const char *where) {
    exchange(predicate, current->lane, mask, where);
    const Warp &warp = block.warps[current->warp];
    const uint64_t *slots = warp.slots[(current->exchanges - 1) % 2];
    unsigned bits = 0;
    for (unsigned i = 0; i < WARP; i++)
        if ((mask >> i & 1) && slots[i]) bits |= 1u << i;
    return bits;
}

// Exactly as large as asked for, so that AddressSanitizer sees who goes past it.
void *block_memory(size_t bytes) {
    if (bytes > MAX_BLOCK_MEMORY) die("more shared memory than a block can have");
    if (!block.memory) {
        if (posix_memalign(&block.memory, 16, bytes)) die("no memory");
        block.memory_bytes = bytes;
        memset(block.memory, 0xff, bytes);
    }
    if (block.memory_bytes != bytes) die("two kinds of shared memory in one kernel");
    return block.memory;
}

} // namespace emulator

// ---- host calls ----

struct EmulatorGraph {
    std::vector<std::function<void()>> nodes;
};
struct EmulatorStream {
    EmulatorGraph *capturing;
};
struct EmulatorEvent {
    long recorded, happened; // how often
    double seconds;          // of the host's clock, when it last happened
};

namespace {

long calls, failing_call, live_objects, kernels;
size_t memory_bytes = (size_t)1 << 34, memory_used;
std::unordered_map<void *, size_t> memory_blocks; // of the GPU
cudaError_t failing_with;

// Every host call passes here; the one that the test names fails.
bool fails(cudaError_t *error) {
    *error = ++calls == failing_call ? failing_with : cudaSuccess;
    return *error != cudaSuccess;
}

// What was given to a stream runs as late as it may: when the host waits for it, or frees memory.
// So who reads too early, or writes over what is still to be read, is wrong every time.
std::deque<std::function<void()>> pending;

void run_pending() {
    for (; !pending.empty(); pending.pop_front())
        pending.front()();
}

template <class Work> cudaError_t enqueue(cudaStream_t stream, Work work) {
    if (stream && stream->capturing)
        stream->capturing->nodes.push_back(work);
    else if (stream)
        pending.push_back(work);
    else
        work();
    return cudaSuccess;
}

// Memory of cudaMallocHost may be copied from and to later; other memory of the host may not.
std::map<const void *, size_t> pinned;

bool is_pinned(const void *p) {
    auto after = pinned.upper_bound(p);
    if (after == pinned.begin()) return false;
    --after;
    return (const char *)p < (const char *)after->first + after->second;
}

} // namespace

extern "C" void emulator_fail_call(long number, int error) {
    calls = 0;
    failing_call = number;
    failing_with = (cudaError_t)error;
}

extern "C" long emulator_calls(void) {
    return calls;
}

extern "C" long emulator_kernels(void) {
    run_pending();
    return kernels;
}

extern "C" void emulator_memory(size_t bytes) {
    memory_bytes = bytes;
}

extern "C" size_t emulator_memory_used(void) {
    return memory_used;
}

extern "C" long emulator_live_objects(void) {
    return live_objects;
}

bool emulator::call_fails(cudaError_t *error) {
    return fails(error);
}

void emulator::count_objects(long more) {
    live_objects += more;
}

void emulator::finish() {
    run_pending();
}

void emulator::run_in(cudaStream_t stream, std::function<void()> work) {
    enqueue(stream, work);
}

cudaError_t emulator::launch(const cudaLaunchConfig_t *config, std::function<void()> body) {
    cudaError_t error;
    if (fails(&error)) return error;
    dim3 grid = config->gridDim, size = config->blockDim;
    unsigned threads = size.x * size.y * size.z;
    if (!threads || threads > MAX_THREADS || !grid.x || !grid.y || !grid.z || grid.y > 65535 ||
        grid.z > 65535 || config->dynamicSmemBytes)
        return cudaErrorInvalidValue;
    return enqueue(config->stream, [=] {
        kernels++;
        run_grid(grid, size, body);
    });
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    default: return "cudaErrorOther";
    }
}

const char *cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error made by a test";
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t error;
    if (fails(&error)) return error; // the count stays unwritten, as on a machine without a driver
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int) {
    cudaError_t error;
    fails(&error);
    return error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
    cudaError_t error;
    if (fails(&error)) return error;
    *properties = cudaDeviceProp{};
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->totalGlobalMem = memory_bytes;
    properties->multiProcessorCount = 4;
    properties->major = 9;
    return cudaSuccess;
}

// Of no use but to be told: it is not made to fail.
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    *value = 1000;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    cudaError_t error;
    if (fails(&error)) return error;
    *total_bytes = memory_bytes;
    *free_bytes = memory_bytes > memory_used ? memory_bytes - memory_used : 0;
    return cudaSuccess;
}

static cudaError_t allocate(void **memory, size_t bytes) {
    cudaError_t error;
    if (fails(&error)) return error;
    if (posix_memalign(memory, 256, bytes)) return cudaErrorMemoryAllocation;
    memset(*memory, 0xff, bytes);
    live_objects++;
    return cudaSuccess;
}

// Freeing and destroying is never made to fail: nobody could do anything about it.
cudaError_t cudaFreeHost(void *memory) {
    run_pending();
    live_objects -= memory != nullptr;
    pinned.erase(memory);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes) {
    cudaError_t error = allocate(memory, bytes);
    if (error == cudaSuccess) pinned[*memory] = bytes;
    return error;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    if (memory_used + bytes > memory_bytes) return cudaErrorMemoryAllocation;
    cudaError_t error = allocate(memory, bytes);
    if (error == cudaSuccess) memory_used += memory_blocks[*memory] = bytes;
    return error;
}

cudaError_t cudaFree(void *memory) {
    memory_used -= memory_blocks[memory];
    memory_blocks.erase(memory);
    return cudaFreeHost(memory);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    return enqueue(stream, [=] { memset(memory, value, bytes); });
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    enqueue(stream, [=] { memmove(to, from, bytes); });
    const void *host = kind == cudaMemcpyHostToDevice ? from : to;
    if (kind != cudaMemcpyDeviceToDevice && !is_pinned(host) && !(stream && stream->capturing))
        run_pending();
    return cudaSuccess;
}

template <class T> static cudaError_t create(T **object) {
    cudaError_t error;
    if (fails(&error)) return error;
    *object = new T{};
    live_objects++;
    return cudaSuccess;
}

template <class T> static cudaError_t destroy(T *object) {
    live_objects -= object != nullptr;
    delete object;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
    return create(stream);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    run_pending();
    if (stream) destroy(stream->capturing);
    return destroy(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    if (stream && stream->capturing) return cudaErrorInvalidValue;
    run_pending();
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    return create(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    run_pending();
    return destroy(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    event->recorded++;
    return enqueue(stream, [=] {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        event->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
        event->happened++;
    });
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    cudaError_t error;
    *milliseconds = (float)((to->seconds - from->seconds) * 1e3);
    fails(&error);
    return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error;
    if (fails(&error)) return error;
    while (event->happened < event->recorded) { // and no further than that
        std::function<void()> work = pending.front();
        pending.pop_front();
        work();
    }
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
    return create(&stream->capturing);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    cudaError_t error;
    *graph = nullptr;
    if (fails(&error)) {
        destroy(stream->capturing);
    } else {
        *graph = stream->capturing;
    }
    stream->capturing = nullptr;
    return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph, unsigned long long) {
    cudaError_t error = create(instance);
    if (error == cudaSuccess) (*instance)->nodes = graph->nodes;
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return destroy(graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
    run_pending();
    return destroy(instance);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
    cudaError_t error;
    if (fails(&error)) return error;
    return enqueue(stream, [=] {
        for (const std::function<void()> &node : instance->nodes)
            node();
    });
}
