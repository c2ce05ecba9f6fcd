// The clock that device_busy_seconds reads: two events around every pass, while somebody watches.
#pragma once

#include "kernels/cuda/device.h"

extern "C" {
#include "kernels/limits.h"
}

// Before the first launches of a pass (begun twice is begun the first time), behind its last, and
// behind what follows it without the host. They do nothing while the clock stands.
void clock_begin(Device *device);
void clock_end(Device *device);
void clock_extend(Device *device);
void clock_close(Device *device);
