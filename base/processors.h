// Processors and threads: how many a program should start, and how.
#pragma once

#include <pthread.h>

enum { PROCESSORS_MOST = 256 };

// Processors that this process may use: its affinity, cut by the cgroup's CPU quota. 1 ..
// PROCESSORS_MOST.
int processors_usable(void);

// pthread_create of a thread that gets no signals but those of its own faults and a profiler's
// tick. An errno, 0: it runs.
int thread_start(pthread_t *thread, void *(*main)(void *), void *argument);
