// What tests of the PTX interpreter call: a kernel of a text, executed. Kernels of a build run
// in place of the emulator's with LIMPID_PTX (interpreter.h).
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PtxBuffer { // what a kernel may read and write
    void *data;
    size_t bytes;
} PtxBuffer;

// Runs one block of so many threads. Each buffer is a parameter of the kernel: its address. A
// mistake of the kernel, or an instruction that is not known, ends the program.
void ptx_run(const char *text, const char *kernel, unsigned threads, const PtxBuffer *buffers,
             unsigned count);

#ifdef __cplusplus
}
#endif
