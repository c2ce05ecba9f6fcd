// The threads of a block as fibers: barriers, shuffles, shared memory, and in which order they run.
#include "tests/cuda/fibers.h"

#include "tests/cuda/emulator.h"

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

// Locals stay on the fibers' own stacks. So AddressSanitizer keeps no state per stack and need not
// be told of every switch, which would take several times as long as the switch itself. Freed
// memory is used again soon: fresh pages cost more than most kernels here. The first option is that
// of all tests (tests/support/support.c).
extern "C" __attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:detect_stack_use_after_return=0:quarantine_size_mb=16";
}
#endif

extern "C" int emulator_watches_addresses(void) {
#ifdef EMULATOR_ASAN
    return 1;
#else
    return 0;
#endif
}

namespace emulator {

Place place;

namespace {

enum Wait { READY, AT_BARRIER, AT_SHUFFLE, DONE };

constexpr unsigned WARP = 32;
constexpr size_t MAX_BLOCK_MEMORY = 227 << 10; // sm_90

// Stacks do not begin at multiples of a power of two: all of their tops would compete for the same
// sets of the CPU's caches. Of a fiber that has ended only the first frames are still poisoned.
constexpr size_t STACK_BYTES = (64 << 10) + 13 * 64, FIRST_FRAMES = 1 << 10;

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
    char *stack;
    uint3 thread;
    unsigned lane, warp, exchanges;
    Wait wait;
    const char *where;
};

struct Warp {
    unsigned live, arrived;
    unsigned lanes;          // bits of those that have not returned
    unsigned wanted;         // bits of those that a shuffle waits for
    uint64_t slots[2][WARP]; // two, since a fast lane may already be at the next exchange
};

struct Block {
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    unsigned live, arrived;
    void *memory;
    size_t memory_bytes;
};

// Where the order of running stands. It goes group by group, and over a group again and again until
// none of its fibers can run.
struct Walk {
    std::vector<unsigned> order; // of all threads
    size_t group;                // all threads, or a warp
    size_t begin, end, at;       // of the current group, within the order
    bool ran;                    // a fiber, since the group was last at its beginning
    bool advanced;               // a fiber has run since the walk was last at the first group
};

Block block;
Walk walk;
Fiber *current;
Context scheduler;
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

void walk_to(size_t begin) {
    size_t end = begin + walk.group;
    walk.begin = walk.at = begin;
    walk.end = end < walk.order.size() ? end : walk.order.size();
    walk.ran = false;
}

// nullptr: no fiber can run.
Fiber *next_ready() {
    for (;;) {
        while (walk.at < walk.end) {
            Fiber &f = block.fibers[walk.order[walk.at++]];
            if (f.wait != READY) continue;
            walk.ran = walk.advanced = true;
            return &f;
        }
        if (walk.ran) {
            walk_to(walk.begin);
        } else if (walk.end < walk.order.size()) {
            walk_to(walk.end);
        } else {
            if (!walk.advanced) return nullptr;
            walk.advanced = false;
            walk_to(0);
        }
    }
}

// To the next fiber that can run; to run_grid where none can.
void run_next(Context *from) {
    Fiber *next = next_ready();
    current = next;
    if (next) place.thread = next->thread;
    change(from, next ? &next->context : &scheduler);
}

void wait_here(Wait what) {
    current->wait = what;
    run_next(&current->context);
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
    (*kernel)();
    Fiber *me = current;
    Warp &warp = block.warps[me->warp];
    me->wait = DONE;
    if (warp.wanted >> me->lane & 1) die("a lane returns that a shuffle's mask names");
    warp.lanes &= ~(1u << me->lane);
    if (--block.live && block.arrived == block.live) open_barrier();
    if (--warp.live && warp.arrived == warp.live) open_warp(me->warp);
    run_next(&me->context);
    __builtin_unreachable();
}

void start(Fiber &f) {
#ifdef EMULATOR_ASAN
    __asan_unpoison_memory_region(f.stack + STACK_BYTES - FIRST_FRAMES, FIRST_FRAMES);
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
    walk.order = thread_order(n, kind);
    walk.group = kind < 3 ? n : WARP;
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
        walk_to(0);
        run_next(&scheduler);
        if (block.live) die("a barrier that not every thread reaches");
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
    wait_here(AT_BARRIER);
}

void sync_warp(const char *where) {
    Warp &warp = block.warps[current->warp];
    current->where = where;
    if (++warp.arrived == warp.live) {
        open_warp(current->warp);
        return;
    }
    wait_here(AT_SHUFFLE);
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
