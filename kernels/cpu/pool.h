// Threads that wait for work: a bounded spin, then sleep.
//
// One region of work at a time. The caller works too, as thread 0. Each thread has a share of the
// items, which lie beside each other, and takes half of what is left of it, down to a chunk; one
// that is done takes from the others, from the end.
#pragma once

#include "base/processors.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct Pool Pool;
typedef void PoolTask(void *context, size_t begin, size_t end, int thread);

// Starts n_threads - 1 threads (2 <= n_threads <= PROCESSORS_MOST). NULL with errno set when that
// fails.
Pool *pool_open(int n_threads);
void pool_close(Pool *pool); // NULL is fine

// See device_run. Not to be called from inside a task.
void pool_run(Pool *pool, PoolTask *task, void *context, size_t n_items, size_t chunk);

// ---- all threads or one (pass_threads.c) ----

// PassThreads: whether a forward pass runs on all threads or on the caller's alone, decided by the
// time that each has taken.
//
// Handing a matrix to another thread costs about half a microsecond. A pass over a small model
// takes less than a hundred, so there one thread can be faster than two; which one is, depends on
// the model, the machine and what else runs on it, so it is measured. The results do not depend on
// the choice: a row has the same bits for every number of threads.
//
//     bool all = pass_threads_begin(&choice, n_rows);
//     ... the pass, on all threads or on one ...
//     pass_threads_end(&choice, seconds);
//
// Both ways are tried at first. The faster one is kept, and the other is tried again after 64
// passes, then after 128, 256 .. 4,096. A pass of more than a millisecond is not tried on
// one thread: there, handing over is a small part of it.

enum { TRIAL_SAMPLES = 3, TRIAL_PASSES = TRIAL_SAMPLES + 1, PASS_CLASSES = 16 };

// One way of running a pass: the last few times it took.
typedef struct PassTimes {
    double seconds[TRIAL_SAMPLES]; // newest last
    int count;                     // of them, and of the pass before them that only warms up
} PassTimes;

// Passes of about as many rows: 1, 2 to 3, 4 to 7, ...
typedef struct PassClass {
    bool alone;      // the way chosen; at first all threads
    bool trying;     // the other way runs now
    int until_trial; // passes
    int interval;    // between two trials; 0: none so far
    PassTimes chosen, other;
} PassClass;

typedef struct PassThreads {
    PassClass classes[PASS_CLASSES];
    PassClass *current; // between begin and end; else NULL
} PassThreads;          // zero it first

bool pass_threads_begin(PassThreads *threads, int n_rows); // true: all threads
void pass_threads_end(PassThreads *threads, double seconds);
