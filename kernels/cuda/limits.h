// The clock that device_busy_seconds reads: two events around every pass, once somebody has asked.
#pragma once

#include "kernels/cuda/device.h"

// Around the launches of a pass; they do nothing until the clock has been started.
void clock_begin(Device *device);
void clock_end(Device *device);
void clock_close(Device *device);
