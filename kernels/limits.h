// What a device does at most, measured by its own means, one sample a call: what `bench` holds the
// model against. NaN after a failure, or where it cannot be measured.
#pragma once

#include "kernels/kernels.h"

// Bytes per second of reading a buffer of so many bytes, or of as many as are free.
double device_read_rate(Device *device, size_t bytes);

// Seconds that the product of a matrix (rows, cols) with n rows of input takes the fastest library
// there is: bf16, float32 sums.
double device_product_seconds(Device *device, int n, int rows, int cols);

// Seconds that the device has worked since the call before, where that one said `watch`; else 0.
// What is left of the host's time it waited for the host. Watching costs a pass a microsecond or
// two.
double device_busy_seconds(Device *device, bool watch);
