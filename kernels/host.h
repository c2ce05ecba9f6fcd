// What host.c has for the host-memory backends, and what it needs of them.
#pragma once

#include "kernels/kernels.h"

// Where device_send leaves its numbers: (SEND_SLOTS), part of the device.
int32_t *host_sent(Device *device);

// A table of memory: what is allocated by it is also what is counted. `pointer` is the address of
// the pointer to fill; one of 0 bytes becomes NULL.
typedef struct MemoryPart {
    void *pointer;
    size_t bytes;
} MemoryPart;
size_t parts_bytes(const MemoryPart *parts, size_t count);
void parts_alloc(Device *device, const MemoryPart *parts, size_t count);

size_t sum_or_most(size_t a, size_t b); // SIZE_MAX where the sum is larger

// Work per second of `run`, which does `work` in each repetition: one sample of at least 15 ms.
// alone: all of it is done by the calling thread, and its processor time counts.
typedef void HostRun(void *context, long repetitions);
double host_rate(HostRun *run, void *context, double work, bool alone);
