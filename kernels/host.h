// What host.c has for the host-memory backends, and what it needs of them.
#pragma once

#include "kernels/kernels.h"

// Where device_send leaves its numbers: (SEND_SLOTS), part of the device.
int32_t *host_sent(Device *device);

// Work per second of `run`, which does `work` in each repetition: one sample of at least 15 ms.
typedef void HostRun(void *context, long repetitions);
double host_rate(HostRun *run, void *context, double work);
