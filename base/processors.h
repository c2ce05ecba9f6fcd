// Processors and threads: how many a program should start, and how.
#pragma once

#include <pthread.h>

enum { PROCESSORS_MOST = 256 };

// Processors that this process may use: its affinity, cut by the CPU quota of its cgroup and of
// those around it. 1 .. PROCESSORS_MOST.
int processors_usable(void);

// The CPU quota of the cgroups that `groups` names (/proc/self/cgroup), which are mounted at `root`
// (/sys/fs/cgroup), in processors, rounded up; 0: none.
int cgroup_processors(const char *groups, const char *root);

// pthread_create of a thread that gets no signals but those of its own faults and a profiler's
// tick. An errno, 0: it runs.
int thread_start(pthread_t *thread, void *(*main)(void *), void *argument);
