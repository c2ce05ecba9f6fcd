// The threads of blocks as fibers: barriers, shuffles, shared memory, and in which order they run.
// Where several blocks run side by side (schedule.h), they switch at every atomic, fence and
// barrier, and when a thread ends. Blocks of a cooperative launch all run, and under the other
// schedules one of them as far as it can go before the next.
//
// Memory is sequentially consistent: what a thread has stored, all threads see at once. So a
// missing __threadfence is not found here, but a counter that counts too early is.
#include "tests/cuda/fibers.h"

#include "tests/cuda/emulator.h"
#include "tests/cuda/schedule.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <vector>

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
bool side_by_side;

namespace {

enum Wait { READY, SPINNING, AT_BARRIER, AT_SHUFFLE, AT_EARLIER_KERNELS, DONE };

constexpr unsigned WARP = 32;
constexpr unsigned MAX_IDLE = 1000; // rounds over threads that all spin

// Side by side: at most so many blocks, as long as they have no more fibers than two of the
// largest.
constexpr unsigned MAX_BLOCKS = 4, MAX_FIBERS = 2 * MAX_THREADS;

// Stacks do not begin at multiples of a power of two: all of their tops would compete for the same
// sets of the CPU's caches. Of a fiber that has ended only the first frames are still poisoned.
constexpr size_t STACK_BYTES = (64 << 10) + 13 * 64, FIRST_FRAMES = 1 << 10;

struct alignas(64) Fiber { // one line of a cache
    Context context;
    char *stack;
    uint3 thread;
    unsigned lane, warp, exchanges;
    Wait wait;
    bool sees_others; // what kernels write: it has waited for the earlier ones, or need not
    const char *where;
};

// Apart, so that a fiber stays one line.
struct Spin {
    uint64_t since;     // so much had happened when the fiber last ran
    const void *polled; // where, and what it has found at its last poll
    unsigned found;
};

struct Warp {
    unsigned live, arrived;
    unsigned lanes;          // bits of those that have not returned
    unsigned wanted;         // bits of those that a shuffle waits for
    uint64_t slots[2][WARP]; // two, since a fast lane may already be at the next exchange
};

// Where the order of running stands. It goes group by group, and over a group again and again until
// none of its fibers can run.
struct Walk {
    size_t begin, end, at; // of the current group, within the order
    bool ran;              // a fiber, since the group was last at its beginning
    bool advanced;         // a fiber has run since the walk was last at the first group
};

struct Block {
    uint3 at; // in the grid
    std::vector<Fiber> fibers;
    std::vector<Spin> spins; // of each
    std::vector<Warp> warps;
    Walk walk;
    unsigned live, arrived, waiting; // the last: for earlier kernels
    unsigned spinning;
    SharedMemory memory;
};

// The kernel that runs.
struct Kernel {
    const std::function<void()> *body;
    Launch launch;
    bool overlaps, waited; // launched to overlap; a thread of it has waited
    ThreadOrder order;
    bool several_blocks;
    unsigned stay; // blocks side by side: at one barrier or end in so many the next block is drawn
};

Kernel kernel;
std::vector<Block> blocks; // those that run
Block *block;              // of them, that of the fiber that runs
Block *held;               // of them, one that waits until no other can go on
Fiber *current;
uint64_t happened; // counts what those that spin may wait for
unsigned idle;     // rounds over all that spin since anything else happened
Context scheduler;
char *stacks;
} // namespace

void die(const char *why, bool by_this_thread) {
    if (block) place.block = block->at;
    fprintf(stderr, "emulator: block (%u,%u,%u): %s\n", place.block.x, place.block.y, place.block.z,
            why);
    unsigned told = 0;
    if (by_this_thread)
        fprintf(stderr, "  by thread (%u,%u,%u)\n", place.thread.x, place.thread.y, place.thread.z);
    bool all = block && !by_this_thread;
    for (bool spinning : {true, false}) // those first
        for (size_t i = 0; all && i < block->fibers.size(); i++) {
            const Fiber &f = block->fibers[i];
            if (f.wait != DONE && (f.wait == SPINNING) == spinning && told++ < 8)
                fprintf(stderr, "  thread (%u,%u,%u) is at %s\n", f.thread.x, f.thread.y,
                        f.thread.z, f.where);
        }
    abort();
}

namespace {

void walk_to(Block &b, size_t begin) {
    size_t end = begin + kernel.order.group;
    b.walk.begin = b.walk.at = begin;
    b.walk.end = end < kernel.order.threads.size() ? end : kernel.order.threads.size();
    b.walk.ran = false;
}

// Since a fiber last ran, all others have: its stack has left the CPU's nearest cache. That of the
// next one is fetched while this one runs.
void fetch_ahead(const Block &b) {
#ifdef __x86_64__
    if (b.walk.at + 1 >= b.walk.end) return;
    const unsigned *threads = &kernel.order.threads[b.walk.at];
    const char *stack = (const char *)b.fibers[threads[0]].context.stack_pointer;
    for (int line = 0; line < 4; line++)
        __builtin_prefetch(stack + 64 * line);
    __builtin_prefetch(&b.fibers[threads[1]]);
#else
    (void)b;
#endif
}

Fiber *next_in_walk(Block &b) {
    Walk &walk = b.walk;
    for (;;) {
        while (walk.at < walk.end) {
            unsigned thread = kernel.order.threads[walk.at++];
            Fiber &f = b.fibers[thread];
            if (f.wait == SPINNING && b.spins[thread].since != happened)
                f.wait = READY, b.spinning--;
            if (f.wait != READY) continue;
            walk.ran = walk.advanced = true;
            fetch_ahead(b);
            return &f;
        }
        if (walk.ran) {
            walk_to(b, walk.begin);
        } else if (walk.end < kernel.order.threads.size()) {
            walk_to(b, walk.end);
        } else {
            if (!walk.advanced) return nullptr;
            walk.advanced = false;
            walk_to(b, 0);
        }
    }
}

// The earlier kernels have ended.
void end_waiting(Block &b) {
    b.waiting = 0;
    for (Fiber &f : b.fibers)
        if (f.wait == AT_EARLIER_KERNELS) f.wait = READY, f.sees_others = true;
}

// nullptr: no fiber of the block can run. All that the block can do before it waits for earlier
// kernels it does first.
Fiber *next_of(Block &b) {
    Fiber *next = next_in_walk(b);
    if (!next && b.spinning) { // other blocks may have done what is waited for
        b.walk.advanced = true;
        next = next_in_walk(b);
    }
    if (next || !b.waiting) return next;
    end_waiting(b);
    b.walk.advanced = true;
    return next_in_walk(b);
}

// Of the block that runs, or of the first that has one, from a block drawn on; of the one
// held back only where no other has one.
Fiber *next_ready(bool any_block) {
    size_t first = (size_t)(block - blocks.data()), n = blocks.size();
    if (!side_by_side && !kernel.launch.cooperative) return block->live ? next_of(*block) : nullptr;
    if (any_block) first = draw((unsigned)n);
    for (size_t i = 0; i < 2 * n; i++) {
        Block &b = blocks[(first + i) % n];
        if (i == n) held = nullptr;
        Fiber *next = b.live && &b != held ? next_of(b) : nullptr;
        if (!next) continue;
        block = &b;
        return next;
    }
    return nullptr;
}

// All that can run spin and have found nothing new. They may still have stored something: so they
// go round again, but not forever.
Fiber *next_spinning() {
    Block *one = nullptr;
    for (Block &b : blocks)
        if (b.live && b.spinning) one = &b;
    if (!one) return nullptr;
    block = one; // the one that is told of
    if (idle++ == MAX_IDLE) die("a thread waits for what no other will do");
    happened++;
    return next_ready(false);
}

// To the next fiber that can run; to run_grid where none can.
void run_next(Context *from, bool any_block) {
    if (!current || current->wait != SPINNING) happened++, idle = 0;
    Fiber *next = next_ready(any_block);
    if (!next) next = next_spinning();
    current = next;
    if (next) place.thread = next->thread, place.block = block->at;
    if (kernel.overlaps) hide_memory(next && !next->sees_others);
    Context *to = next ? &next->context : &scheduler;
    if (to != from) emulator_change(from, to);
}

// In some kernels a block often makes room for others, in some seldom.
bool leaves() {
    return side_by_side && !draw(kernel.stay);
}

void wait_here(Wait what) {
    current->wait = what;
    run_next(&current->context, what == AT_BARRIER && leaves());
}

void open_barrier() {
    block->arrived = 0;
    for (Fiber &f : block->fibers)
        if (f.wait == AT_BARRIER) f.wait = READY;
}

void open_warp(unsigned id) {
    block->warps[id].arrived = 0;
    block->warps[id].wanted = 0;
    for (size_t i = id * WARP; i < block->fibers.size() && i < (id + 1) * WARP; i++)
        if (block->fibers[i].wait == AT_SHUFFLE) block->fibers[i].wait = READY;
}

// Where a fiber begins. A thread that has returned no longer counts at barriers.
void thread_main() {
    (*kernel.body)();
    Fiber *me = current;
    Warp &warp = block->warps[me->warp];
    me->wait = DONE;
    if (warp.wanted >> me->lane & 1) die("a lane returns that a shuffle's mask names");
    warp.lanes &= ~(1u << me->lane);
    if (--block->live && block->arrived == block->live) open_barrier();
    if (--warp.live && warp.arrived == warp.live) open_warp(me->warp);
    if (!block->live) {
        if (const char *wrong = block->memory.copies.end()) die(wrong);
        emulator_change(&me->context, &scheduler); // which starts another block
    }
    run_next(&me->context, leaves());
    __builtin_unreachable();
}

void start(Fiber &f) {
#ifdef EMULATOR_ASAN
    __asan_unpoison_memory_region(f.stack + STACK_BYTES - FIRST_FRAMES, FIRST_FRAMES);
#endif
    context_start(&f.context, f.stack, STACK_BYTES, thread_main);
}

void set_up_block(Block &b, uint3 at, unsigned n, dim3 size) {
    b.at = at;
    b.live = n;
    b.arrived = b.waiting = b.spinning = 0;
    b.fibers.assign(n, Fiber{});
    b.spins.assign(n, Spin{});
    b.warps.assign((n + WARP - 1) / WARP, Warp{});
    char *own = stacks + (size_t)(&b - blocks.data()) * n * STACK_BYTES;
    for (unsigned i = 0; i < n; i++) {
        Fiber &f = b.fibers[i];
        f.stack = own + i * STACK_BYTES;
        f.thread = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
        f.lane = i % WARP;
        f.warp = i / WARP;
        f.sees_others = !kernel.overlaps;
        f.where = "its start";
        b.warps[f.warp].live++;
        b.warps[f.warp].lanes |= 1u << f.lane;
        start(f);
    }
    b.walk = Walk{};
    walk_to(b, 0);
    shared_memory_fill(&b.memory, kernel.launch.memory);
}

// Gives every place that is free to the next block; false where no block is left.
bool set_up_blocks(const BlockOrder &order, uint64_t *started, dim3 size) {
    bool live = false;
    for (Block &b : blocks) {
        if (!b.live && *started < order.count)
            set_up_block(b, order.at((*started)++), size.x * size.y * size.z, size);
        live |= b.live != 0;
    }
    return live;
}

unsigned live_blocks() {
    unsigned count = 0;
    for (const Block &b : blocks)
        count += b.live != 0;
    return count;
}

// Until a block has ended.
void run_blocks() {
    unsigned before = live_blocks();
    for (size_t i = blocks.size(); i-- > 0;)
        if (blocks[i].live) block = &blocks[i];
    run_next(&scheduler, side_by_side);
    if (kernel.overlaps) hide_memory(false);
    current = nullptr;
    if (live_blocks() == before) die("a barrier that not every thread reaches");
}

} // namespace

// How many blocks run at once.
static uint64_t places_for(uint64_t count, unsigned threads) {
    if (kernel.launch.cooperative) return count;
    uint64_t most = !side_by_side                       ? 1
                    : MAX_FIBERS / threads < MAX_BLOCKS ? MAX_FIBERS / threads
                                                        : MAX_BLOCKS;
    return count < most ? count : most;
}

void run_grid(const Launch &launch, const std::function<void()> &body) {
    dim3 grid = launch.grid, size = launch.size;
    unsigned n = size.x * size.y * size.z;
    int kind = schedule();
    side_by_side = kind >= SIDE_BY_SIDE;
    kernel.body = &body;
    kernel.launch = launch;
    kernel.overlaps = launch.overlaps && side_by_side;
    kernel.waited = false;
    kernel.order = thread_order(n, kind);
    kernel.stay = 2u << 4 * draw(3);
    held = nullptr;
    BlockOrder order(grid, kind);
    kernel.several_blocks = order.count > 1;
    blocks.resize(places_for(order.count, n));
    if (!stacks) { // in large pages: one per stack are more than the CPU has room to look up
        stacks = (char *)mmap(nullptr, MAX_FIBERS * STACK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        madvise(stacks, MAX_FIBERS * STACK_BYTES, MADV_HUGEPAGE);
    }
    place.grid_size = grid;
    place.block_size = size;
    for (uint64_t started = 0; set_up_blocks(order, &started, size);)
        run_blocks();
    if (kernel.overlaps && !kernel.waited)
        die("launched to overlap the kernel before it, for which no thread waits");
    for (Block &b : blocks)
        shared_memory_free(&b.memory);
    block = nullptr;
}

// At an atomic or a fence: the thread goes on, the next is drawn, or the block falls far behind.
void switch_now(const char *where) {
    unsigned drawn = draw(8);
    if (!current || drawn < 3) return;
    if (!held && drawn > 4) held = block;
    current->where = where;
    run_next(&current->context, true);
}

static Spin &current_spin() {
    return block->spins[(size_t)(current - block->fibers.data())];
}

void spin(const char *where, bool again) {
    if (!again) happened++, idle = 0;
    current->where = where;
    current_spin().since = happened;
    block->spinning++;
    wait_here(SPINNING);
}

bool poll(const void *address, unsigned value, const char *where) {
    Spin &last = current_spin();
    bool again = last.polled == address && last.found == value;
    last.polled = address, last.found = value;
    if (again && !kernel.launch.cooperative && kernel.several_blocks)
        die("waits for other blocks, but the launch is not cooperative", true);
    if (again)
        spin(where, true);
    else
        happened++, idle = 0;
    return again;
}

void wait_for_earlier_kernels() {
    kernel.waited = true;
    if (current->sees_others) return;
    current->where = "wait_for_earlier_kernels";
    block->waiting++;
    wait_here(AT_EARLIER_KERNELS);
}

bool has_to_wait() {
    return current && !current->sees_others;
}

void sync_block(const char *where) {
    current->where = where;
    if (++block->arrived == block->live) {
        open_barrier();
        if (leaves()) run_next(&current->context, true);
        return;
    }
    wait_here(AT_BARRIER);
}

void sync_warp(const char *where) {
    Warp &warp = block->warps[current->warp];
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
    Warp &warp = block->warps[current->warp];
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
    return block->warps[current->warp].slots[(current->exchanges - 1) % 2];
}

unsigned ballot(bool predicate, unsigned mask, const char *where) {
    exchange(predicate, current->lane, mask, where);
    const Warp &warp = block->warps[current->warp];
    const uint64_t *slots = warp.slots[(current->exchanges - 1) % 2];
    unsigned bits = 0;
    for (unsigned i = 0; i < WARP; i++)
        if ((mask >> i & 1) && slots[i]) bits |= 1u << i;
    return bits;
}

SharedMemory &shared_memory() {
    return block->memory;
}

} // namespace emulator
