// Threads that wait for work: a bounded spin, then sleep.
//
// One region of work at a time. The caller works too, as thread 0. Items are handed out in chunks
// from one counter, so a thread that loses its processor holds up no more than one chunk.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { POOL_MAX_THREADS = 256 };

typedef struct Pool Pool;
typedef void PoolTask(void *context, size_t begin, size_t end, int thread);

// Starts n_threads - 1 threads (n_threads >= 2). NULL with errno set when that fails.
Pool *pool_open(int n_threads);
void pool_close(Pool *pool); // NULL is fine

// See device_run. Not to be called from inside a task.
void pool_run(Pool *pool, PoolTask *task, void *context, size_t n_items, size_t chunk);

// Processors that this process may use: its affinity, cut by the cgroup's CPU quota.
int pool_processors(void);
