// Processors and memory that this process may use, and how threads are started.
#pragma once

#include <pthread.h>
#include <stdint.h>

enum { PROCESSORS_MOST = 256 };

// Processors that this process may use: its affinity, cut by the CPU quota of its cgroup and of
// those around it. 1 .. PROCESSORS_MOST.
int processors_usable(void);

#define OWN_GROUPS "/proc/self/cgroup" // the list of this process's groups
#define GROUPS_ROOT "/sys/fs/cgroup"   // where they are mounted

// Tests give other paths than those two. The smallest limit of the process's group and of its
// ancestors counts.

// The CPU quota in processors, rounded up; 0: none.
int cgroup_processors(const char *groups, const char *root);
// The limit of memory in bytes, without swap; UINT64_MAX: none.
uint64_t cgroup_memory(const char *groups, const char *root);

// An upper bound of this process's memory in bytes: the smaller of its groups' limit and the
// machine's memory, plus all swap.
uint64_t memory_most(void);

// pthread_create of a thread that gets no signals but those of its own faults and a profiler's
// tick. An errno, 0: it runs.
int thread_start(pthread_t *thread, void *(*main)(void *), void *argument);
