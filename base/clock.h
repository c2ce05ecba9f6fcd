// Clock: seconds of a clock that only moves forward, for progress, statistics and measurements.
#pragma once

#include <time.h>

static inline double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
