// Patterns of neighbouring operations that one kernel does.
#pragma once

#include "kernels/cuda/device.h"

// Runs the first operations of the list as one kernel where a pattern fits: how many it took, 0
// where none does.
size_t run_fused(Device *device, const Operation *operations, size_t count);
