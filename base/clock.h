// Clock: seconds of a clock that only moves forward, for progress, statistics and measurements.
#pragma once

#include <time.h>

static inline double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Processor time of the calling thread: what other programs take is not in it.
static inline double thread_seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
