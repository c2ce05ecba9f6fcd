// How the emulator runs a kernel: fibers.cpp. The host calls around it are emulator.cpp's.
#pragma once

#include "cuda_runtime.h"
#include "tests/ptx/copy_barriers.h"

#include <functional>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulator {

constexpr unsigned MAX_THREADS = 1024;         // of a block
constexpr size_t MAX_BLOCK_MEMORY = 227 << 10; // of shared memory: sm_90

struct Launch {
    dim3 grid, size;  // blocks, and the threads of each
    size_t memory;    // bytes of shared memory that launched_memory gives a block
    bool overlaps;    // it may start before the kernel before it has ended
    bool cooperative; // all blocks run at once
};
// All blocks of the grid, `body` once for each thread.
void run_grid(const Launch &launch, const std::function<void()> &body);

// Whether the thread that runs has yet to wait for earlier kernels; and what ends the program then.
bool has_to_wait();
unsigned processors(); // of the GPU: emulator_processors
[[noreturn]] void die(const char *why, bool by_this_thread = has_to_wait());

// The thread that runs waits for something that others do: they run first. `again`: it has found
// nothing new since it last waited. Where no thread can do anything else, the program ends.
void spin(const char *where, bool again);

// The shared memory of one block: shared_memory.cpp.
struct SharedMemory {
    void *named, *launched; // of block_memory and of launched_memory; NULL: there is none
    size_t named_bytes, launched_bytes;
    CopyBarriers copies; // into it
};
SharedMemory &shared_memory(); // of the block that runs

// Full of NaN, for a block that starts; and all of it.
void shared_memory_fill(SharedMemory *memory, size_t launched_bytes);
void shared_memory_free(SharedMemory *memory);

// memset of memory that emulator.cpp allocated: fill.cpp.
void fill(void *memory, int value, size_t bytes);

// ---- what a fiber changes to, and from: context.cpp ----

// Where code that is not running stands. On x86-64 a change is eight pushes and pops; elsewhere
// ucontext does it, with a system call each time.
struct Context {
#ifdef __x86_64__
    void *stack_pointer;
#else
    ucontext_t context;
#endif
};

// So that a change to it calls `run`, which never returns, on that stack.
void context_start(Context *context, char *stack, size_t stack_bytes, void (*run)());

// Saves what runs in `from` and goes on with `to`.
extern "C" void emulator_change(Context *from, const Context *to);

// ---- device memory under a schedule of blocks side by side: hidden_memory.cpp ----

void *watched_memory_take(size_t bytes); // nullptr: there is none
bool watched_memory_give(void *memory);  // false: it is not such memory

// While `hide` is on, any access to what kernels have written so far, and any store, ends the
// program.
void hide_memory(bool hide);

// Copies and fills of a stream store into `memory`: between open and close that makes it no memory
// that kernels write.
void watched_memory_open(void *memory);
void watched_memory_close(void *memory);

} // namespace emulator
