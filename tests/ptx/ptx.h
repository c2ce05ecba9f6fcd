// What tests of the PTX interpreter call: a kernel of a text, executed. Kernels of a build run
// in place of the emulator's with LIMPID_PTX (interpreter.h).
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PtxBuffer { // what a kernel may read and write
    void *data;
    size_t bytes;
} PtxBuffer;

typedef struct PtxLaunch {
    unsigned blocks, threads;
    size_t memory;    // bytes of shared memory that the launch gives a block
    bool cooperative; // all blocks run at once
} PtxLaunch;

// Each buffer is a parameter of the kernel: its address. A mistake of the kernel, or an instruction
// that is not known, ends the program.
void ptx_launch(const char *text, const char *kernel, PtxLaunch launch, const PtxBuffer *buffers,
                unsigned count);

// The same in a child: what it says before it ends, until the next call; "" where it ends well.
const char *ptx_complaint(const char *text, const char *kernel, PtxLaunch launch,
                          const PtxBuffer *buffers, unsigned count);

#ifdef __cplusplus
}
#endif
