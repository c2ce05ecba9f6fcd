// In which order the emulator runs blocks and threads: EMULATOR_SCHEDULE.
//
//   0 to 4          one block after another, those of a cooperative launch each as far as it can
//                   go before it waits for others; threads switch at barriers and shuffles.
//                   0 threads up, 1 down, 2 shuffled; 3 up, 4 down: one warp as far as it can go.
//                   1 and 4 begin with the last block.
//   5 and above     several blocks side by side, from any of them on. Which fiber of which block is
//                   next is drawn anew at every atomic, fence and barrier, and when a thread ends.
//                   The number is the seed: the same one gives the same order.
#pragma once

#include "cuda_runtime.h"

#include <vector>

namespace emulator {

enum { SIDE_BY_SIDE = 5 }; // the first such schedule

int schedule(); // the environment's, now

unsigned draw(unsigned below); // a number from 0 on; what schedule() has found is the seed

struct ThreadOrder {
    std::vector<unsigned> threads; // of a block
    size_t group;                  // all threads, or a warp: so many take turns until none can run
};
ThreadOrder thread_order(unsigned n, int kind);

// Blocks of a GPU start in no order. Here they go row by row; from the last one, column by column;
// or side by side, from any of them on in steps that meet all.
struct BlockOrder {
    dim3 grid;
    int kind;
    uint64_t count, first, step;

    BlockOrder(dim3 grid, int kind);
    uint3 at(uint64_t b) const;
};

} // namespace emulator
