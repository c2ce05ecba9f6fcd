// How the emulator runs a kernel: fibers.cpp. The host calls around it are emulator.cpp's.
#pragma once

#include "cuda_runtime.h"

#include <functional>

namespace emulator {

constexpr unsigned MAX_THREADS = 1024; // of a block

// All blocks of the grid, one after another, `body` once for each thread.
void run_grid(dim3 grid, dim3 size, const std::function<void()> &body);

} // namespace emulator
