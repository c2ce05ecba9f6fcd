// The clock that device_busy_seconds reads: two events around every pass, while somebody watches.
#pragma once

#include "kernels/cuda/device.h"

// Around the launches of a pass; behind launches that follow it without the host. They do nothing
// while the clock stands.
void clock_begin(Device *device);
void clock_end(Device *device);
void clock_extend(Device *device);
void clock_close(Device *device);
