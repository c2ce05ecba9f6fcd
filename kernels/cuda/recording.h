// What has been recorded since device_begin, and the graphs of passes that were seen before.
#pragma once

#include "kernels/cuda/device.h"

// NULL after a failure, kept in the device.
Recording *recording_open(Device *device);
void recording_close(Recording *recording); // NULL is fine

// Drops the graphs of passes seen before: memory that they use is about to go.
void recording_forget(Recording *recording);
