// The threads of a block as fibers: barriers, shuffles, shared memory, and in which order they run.
#include "tests/cuda/fibers.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>
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

constexpr unsigned WARP = 32;
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

// Blocks of a GPU start in no order. Here they go row by row; or from the last one, column by
// column.
uint3 block_at(uint64_t b, dim3 grid, int kind) {
    if (kind != 1 && kind != 4)
        return {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                (unsigned)(b / grid.x / grid.y)};
    b = (uint64_t)grid.x * grid.y * grid.z - 1 - b;
    return {(unsigned)(b / grid.z / grid.y), (unsigned)(b / grid.z % grid.y),
            (unsigned)(b % grid.z)};
}

} // namespace

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
        place.block = block_at(b, grid, kind);
        set_up_block(n, size);
        while (block.live)
            if (!run_once(order, kind)) die("a barrier that not every thread reaches");
    }
    free(block.memory);
    block.memory = nullptr;
    current = nullptr;
}

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
