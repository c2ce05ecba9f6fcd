// The loops that bench measures this machine with: as fast as it can read, multiply and add. The
// widest instruction set that the processor has is chosen at run time.
#pragma once

#include <stddef.h>

// One thread's share of one measurement.
typedef struct LoopWork {
    const void *bytes; // 64-byte aligned
    size_t size;       // a multiple of 1024
    long repetitions;
} LoopWork;

// Runs the loop and returns something that depends on all of its work.
typedef double Loop(const LoopWork *work);

typedef enum LoopId {
    LOOP_READ_LINEAR,  // one stream
    LOOP_READ_STREAMS, // four streams, a quarter of the buffer apart: as a matrix of rows is read
    LOOP_FP32,         // independent multiply-adds in registers
    LOOP_INT8,         // 8-bit dot products, with VNNI where the processor has it
    LOOP_COUNT
} LoopId;

Loop *loop_of(LoopId id);
// Operations of one repetition of an arithmetic loop (a multiply-add counts as two); 0 for reads.
double loop_operations(LoopId id);
