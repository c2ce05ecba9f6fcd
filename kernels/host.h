// What host.c needs of the backend that it serves.
#pragma once

#include "kernels/kernels.h"

// Where device_send leaves its numbers: (SEND_SLOTS), part of the device.
int32_t *host_sent(Device *device);
