// Persistent threads, each with a share of the chunks.
//
// A region of work is published by storing the shares, end << 32 | next each, beside the region's
// fields. A thread takes the first half of what is left of its own share, or the last half of
// another's, by compare-and-swap, and only then reads the fields beside that share: while a taken
// chunk is not done, the region cannot end, so they stay put. A thread that slept through a region
// finds nothing to take, and no thread waited for it. Each thread counts the chunks that it has
// done since the pool was opened; a region has ended when the sum of the counts is the number of
// chunks of all regions so far.
//
//     run:     for each thread: fields ; share      wake those that sleep ; work ; wait for the sum
//     thread:  own share ? take n chunks -> task -> count + n ; none left: the others' shares ;
//              spin for a while on the own share ; sleep
//
// A cache line goes from one processor to another in some 60 ns, and that is what a region costs:
// one line with share and fields for each thread, one back with its count. So no thread looks at
// what others write while it waits for work, and there is no counter that all of them change.
//
// Each thread reads its own share in one direction, as suits hardware prefetchers; one that is done
// takes the far ends of the others' shares. Pieces shrink to a chunk: there are few of them, and
// threads that are equally fast end within a chunk of each other. (Guided self-scheduling,
// Polychronopoulos and Kuck 1987, does so with one list for all threads.) A thread that loses its
// processor holds up half of its share at most: the caller, which looks at all shares after they
// are published, leaves no chunk behind.
//
// Spinning hands work over in less than half a microsecond where waking costs 30, but on a busy
// machine it burns the time slice that the work needs. So it is bounded, and a thread that notices
// a gap in the clock (it was not running) spins less from then on.
#include "kernels/cpu/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN_MOST_NS = 60 * 1000, // a sleep and a wake cost about half of this
    SPIN_LEAST_NS = 1000,
    CLOCK_GAP_NS = 100 * 1000, // between two looks at the clock: we were not running
    SPINS_PER_LOOK = 32,
};

typedef struct Worker {
    // Written by pool_run, the fields first. What is left of the share is anybody's to take.
    _Alignas(64) atomic_uint_fast64_t share; // chunks: end << 32 | next
    PoolTask *task;
    void *context;
    size_t n_items, chunk;

    _Alignas(64) atomic_uint done; // chunks, since the pool was opened; modulo 2^32
    atomic_uint sleeps;            // futex: 1 while the thread sleeps or is about to
    Pool *pool;
    pthread_t thread;
    int index;
} Worker;

struct Pool {
    Worker workers[PROCESSORS_MOST]; // the caller is workers[0], which has no thread here

    _Alignas(64) int n_threads; // this line is seldom written
    int n_started;
    atomic_int sleepers;
    atomic_bool quit;
    atomic_bool caller_sleeps;
    atomic_uint caller_wakes; // futex

    _Alignas(64) unsigned n_chunks; // the caller's: of all regions, modulo 2^32
    int64_t caller_budget;          // of spin_on
};

// Sleeps only while *word == value, which the kernel checks: a wake between the caller's last look
// at the word and this call is not lost. It may return early, so every caller looks again.
static void futex_wait(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// A stretch of spinning: false when it is time to sleep. `budget` belongs to the spinning thread
// and adapts: halved by a gap in the clock, slowly restored.
typedef struct Spin {
    int64_t start, last;
    int count;
} Spin;

// The clock is read every SPINS_PER_LOOK pauses; start is 0 before the first look.
static bool spin_on(Spin *spin, int64_t *budget) {
    spin_pause();
    if (++spin->count % SPINS_PER_LOOK) return true;
    int64_t now = clock_ns();
    if (!spin->start) spin->start = spin->last = now;
    bool gap = now - spin->last > CLOCK_GAP_NS;
    spin->last = now;
    if (gap) *budget = *budget / 2 > SPIN_LEAST_NS ? *budget / 2 : SPIN_LEAST_NS;
    return !gap && now - spin->start < *budget;
}

static void spin_paid(int64_t *budget) { // work came while we spun
    if (*budget < SPIN_MOST_NS) *budget += *budget / 16 + 1;
}

typedef struct Chunks { // taken together
    size_t first, count;
} Chunks;

static bool has_share(Worker *worker) {
    uint64_t share = atomic_load_explicit(&worker->share, memory_order_acquire);
    return (uint32_t)share < (uint32_t)(share >> 32);
}

// The compare-and-swap may succeed on numbers that a thread read in an earlier region, if a later
// one has come to the same. That is right too: the chunk taken is one of the later region, whose
// fields are read only now.
static bool take_chunks(Worker *from, bool is_own, Chunks *chunks) {
    uint64_t rest, share = atomic_load_explicit(&from->share, memory_order_acquire);
    do {
        uint32_t next = (uint32_t)share, end = (uint32_t)(share >> 32);
        if (next >= end) return false;
        uint32_t count = (end - next + 1) / 2;
        rest = is_own ? share + count : (uint64_t)(end - count) << 32 | next;
        *chunks = (Chunks){is_own ? next : end - count, count};
    } while (!atomic_compare_exchange_weak(&from->share, &share, rest));
    return true;
}

static void run_chunks(Worker *worker, const Worker *from, Chunks taken) {
    size_t begin = taken.first * from->chunk, end = begin + taken.count * from->chunk;
    from->task(from->context, begin, end < from->n_items ? end : from->n_items, worker->index);
    // From here on the region may end. The other half is in wait_until_done, which first says that
    // it sleeps and then looks at the counts. Both pairs are sequentially consistent, so at least
    // one thread sees what the other wrote.
    Pool *pool = worker->pool;
    atomic_fetch_add(&worker->done, (unsigned)taken.count);
    if (!atomic_load(&pool->caller_sleeps)) return;
    atomic_fetch_add(&pool->caller_wakes, 1);
    futex_wake(&pool->caller_wakes);
}

static void run_share(Worker *worker, Worker *from) {
    for (Chunks taken; take_chunks(from, from == worker, &taken);)
        run_chunks(worker, from, taken);
}

// Takes and runs chunks until none is left. Looking once at the others' shares is enough: one that
// was not published yet is left to its thread and to the caller.
static void work(Worker *worker) {
    Pool *pool = worker->pool;
    run_share(worker, worker);
    int n_threads = pool->n_threads;
    for (int i = worker->index + 1; i < n_threads; i++)
        run_share(worker, &pool->workers[i]);
    for (int i = 0; i < worker->index; i++)
        run_share(worker, &pool->workers[i]);
}

// Either the thread sees its share, or the one that stores it sees that the thread sleeps: each
// writes first and then reads. The futex sleeps only while `sleeps` is still 1.
static void sleep_for_work(Worker *worker) {
    Pool *pool = worker->pool;
    atomic_store(&worker->sleeps, 1);
    atomic_fetch_add(&pool->sleepers, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (!has_share(worker) && !atomic_load(&pool->quit)) futex_wait(&worker->sleeps, 1);
    atomic_fetch_sub(&pool->sleepers, 1);
    atomic_store(&worker->sleeps, 0);
}

// Works where it has a share; else spins until it has, the budget is used up or the pool is closed.
// Only work that came during the spin restores the budget.
static void *worker_main(void *argument) {
    Worker *worker = argument;
    Pool *pool = worker->pool;
    int64_t budget = SPIN_MOST_NS;
    while (!atomic_load(&pool->quit)) {
        Spin spin = {0};
        bool waiting = true;
        while (!has_share(worker) && waiting && !atomic_load(&pool->quit))
            waiting = spin_on(&spin, &budget);
        if (waiting)
            spin_paid(&budget);
        else
            sleep_for_work(worker);
        work(worker); // woken: of the others' shares, where its own is taken
    }
    return NULL;
}

Pool *pool_open(int n_threads) {
    Pool *pool = aligned_alloc(_Alignof(Pool), sizeof *pool);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads;
    pool->caller_budget = SPIN_MOST_NS;
    pool->workers[0].pool = pool;
    for (pool->n_started = 1; pool->n_started < n_threads; pool->n_started++) {
        Worker *worker = &pool->workers[pool->n_started];
        worker->pool = pool;
        worker->index = pool->n_started;
        // The threads started so far find `quit` set, and are joined.
        int failed = thread_start(&worker->thread, worker_main, worker);
        if (failed) {
            pool_close(pool);
            errno = failed;
            return NULL;
        }
    }
    return pool;
}

static void wake(Worker *worker) {
    if (atomic_exchange(&worker->sleeps, 0)) futex_wake(&worker->sleeps);
}

// Not to be called during a region. Sleeping threads are woken to see `quit`.
void pool_close(Pool *pool) {
    if (!pool) return;
    atomic_store(&pool->quit, true);
    for (int i = 1; i < pool->n_started; i++) {
        wake(&pool->workers[i]);
        pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool);
}

static bool all_done(Pool *pool) {
    unsigned done = 0;
    for (int t = 0; t < pool->n_threads; t++)
        done += atomic_load(&pool->workers[t].done);
    return done == pool->n_chunks;
}

// The caller has run out of chunks; others may still be at theirs. One that is done after the
// caller has said that it sleeps changes the futex word, so futex_wait does not sleep.
static void wait_until_done(Pool *pool) {
    Spin spin = {0};
    while (!all_done(pool)) {
        if (spin_on(&spin, &pool->caller_budget)) continue;
        unsigned seen = atomic_load(&pool->caller_wakes);
        atomic_store(&pool->caller_sleeps, true);
        if (!all_done(pool)) futex_wait(&pool->caller_wakes, seen);
        atomic_store(&pool->caller_sleeps, false);
        spin.last = clock_ns(); // that was no lost processor
    }
    spin_paid(&pool->caller_budget);
}

void pool_run(Pool *pool, PoolTask *task, void *context, size_t n_items, size_t chunk) {
    if (!n_items) return;
    size_t n_chunks = (n_items + chunk - 1) / chunk;
    if (n_chunks > INT_MAX) {
        chunk = n_items / INT_MAX + 1;
        n_chunks = (n_items + chunk - 1) / chunk;
    }
    pool->n_chunks += (unsigned)n_chunks;
    // The caller takes the first half of its own share before the others can see it.
    uint64_t shares = (uint64_t)pool->n_threads, begin = 0, end;
    if (shares > n_chunks) shares = n_chunks; // always those of the same threads: others may sleep
    Chunks own = {0, ((n_chunks + shares - 1) / shares + 1) / 2};
    for (uint64_t t = 0; t < shares; t++, begin = end) {
        // The share is empty and all chunks taken of it are done, so no thread reads the fields.
        Worker *worker = &pool->workers[t];
        worker->task = task;
        worker->context = context;
        worker->n_items = n_items;
        worker->chunk = chunk;
        end = (n_chunks * (t + 1) + shares - 1) / shares;
        if (!t) begin = own.count;
        atomic_store_explicit(&worker->share, end << 32 | begin, memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst); // as in sleep_for_work
    for (uint64_t t = 1; t < shares && atomic_load(&pool->sleepers); t++)
        wake(&pool->workers[t]);
    run_chunks(&pool->workers[0], &pool->workers[0], own);
    work(&pool->workers[0]);
    wait_until_done(pool);
}
