// How the emulator runs a kernel: fibers.cpp. The host calls around it are emulator.cpp's.
#pragma once

#include "cuda_runtime.h"

#include <functional>

namespace emulator {

constexpr unsigned MAX_THREADS = 1024; // of a block

// All blocks of the grid, `body` once for each thread. `overlaps`: the kernel is launched to start
// before the one before it has ended.
void run_grid(dim3 grid, dim3 size, bool overlaps, const std::function<void()> &body);

// Whether the thread that runs has yet to wait for earlier kernels; and what ends the program then.
bool has_to_wait();
[[noreturn]] void die(const char *why);

// memset of memory that emulator.cpp allocated: fill.cpp.
void fill(void *memory, int value, size_t bytes);

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
