// Persistent threads, each with a share of the chunks.
//
// A region of work is published by storing the shares, end << 32 | next each, and adding its chunks
// to `left`. A thread takes the first half of what is left of its own share, or the last half of
// another's, by compare-and-swap, and only then reads what the region is: while a taken chunk is
// not done, the region cannot end, so the fields stay put. A thread that slept through a region
// finds nothing to take, and no thread waited for it.
//
//     run:     task, context ... ; shares ; left + n ; wake the sleepers ; work ; done == n ?
//              (n without the chunks that the caller keeps for itself)
//     thread:  take n chunks, left - n -> task -> done + n ; none left: spin for a while ; sleep
//
// So each thread reads its own share in one direction, as the hardware that fetches ahead likes it;
// one that is done takes the far ends of the others' shares. Pieces shrink to a chunk: there are
// few of them, and threads that are equally fast end within a chunk of each other. (Guided
// self-scheduling, Polychronopoulos and Kuck 1987, does so with one list for all threads.) A thread
// that loses its processor holds up half of its share at most.
//
// Spinning hands work over in half a microsecond where waking costs 30, but on a busy machine it
// burns the time slice that the work needs. So it is bounded, and a thread that notices a gap in
// the clock (it was not running) spins less from then on.
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

struct Pool {
    // What is written often has a cache line of its own.
    _Alignas(64) atomic_int left; // chunks that nobody has taken
    _Alignas(64) atomic_uint done;
    _Alignas(64) atomic_uint wakes; // futex: threads sleep on it
    atomic_uint sleepers;
    atomic_uint caller_sleeps;
    atomic_bool quit;

    PoolTask *task; // the region; stable while a taken chunk is not done
    void *context;
    size_t n_items, chunk;
    int64_t caller_budget; // of spin_on

    int n_threads, n_started; // the caller included: workers[0], which has no thread here
    struct Worker {
        _Alignas(64) atomic_uint_fast64_t share; // chunks: end << 32 | next
        Pool *pool;
        pthread_t thread;
        int index;
    } workers[PROCESSORS_MOST];
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

static bool chunks_left(Pool *pool) {
    return atomic_load(&pool->left) > 0;
}

// The compare-and-swap may succeed on numbers that a thread read in an earlier region, if a later
// one has come to the same. That is right too: the chunk taken is one of the later region, whose
// fields are read only now.
static bool take_from(atomic_uint_fast64_t *share, bool is_own, Chunks *chunks) {
    // An atomic operation, though it changes nothing, brings the line of the own share for writing:
    // a load would bring it for reading, and the compare-and-swap would wait for it again.
    uint64_t rest, state = is_own ? atomic_fetch_or(share, 0)
                                  : atomic_load_explicit(share, memory_order_acquire);
    do {
        uint32_t next = (uint32_t)state, end = (uint32_t)(state >> 32);
        if (next >= end) return false;
        uint32_t count = (end - next + 1) / 2;
        rest = is_own ? state + count : (uint64_t)(end - count) << 32 | next;
        *chunks = (Chunks){is_own ? next : end - count, count};
    } while (!atomic_compare_exchange_weak(share, &state, rest));
    return true;
}

// From the own share first. `left` may be below 0 for a moment, when a chunk is taken before
// pool_run has added it.
static bool take_chunks(Pool *pool, int thread, Chunks *chunks) {
    for (int i = 0; i < pool->n_threads && chunks_left(pool); i++) {
        struct Worker *worker = &pool->workers[(thread + i) % pool->n_threads];
        if (take_from(&worker->share, i == 0, chunks)) {
            atomic_fetch_sub(&pool->left, (int)chunks->count);
            return true;
        }
    }
    return false;
}

static void run_chunks(Pool *pool, Chunks taken, int thread) {
    size_t begin = taken.first * pool->chunk, end = begin + taken.count * pool->chunk;
    // Before the task: as soon as `done` reaches n_chunks the caller may overwrite the region.
    unsigned n_chunks = (unsigned)((pool->n_items + pool->chunk - 1) / pool->chunk);
    pool->task(pool->context, begin, end < pool->n_items ? end : pool->n_items, thread);
    // The other half is in wait_until_done, which first says that it sleeps and then looks at
    // `done`. Both pairs are sequentially consistent, so at least one thread sees what the other
    // wrote.
    unsigned count = (unsigned)taken.count;
    if (atomic_fetch_add(&pool->done, count) + count == n_chunks &&
        atomic_load(&pool->caller_sleeps))
        futex_wake(&pool->done);
}

// Takes and runs chunks until none is left. True if there was any.
static bool work(Pool *pool, int thread) {
    bool any = false;
    for (Chunks taken; take_chunks(pool, thread, &taken); any = true)
        run_chunks(pool, taken, thread);
    return any;
}

// `wakes` is read before anything is looked at: a region published after that changes it, and
// futex_wait returns at once. pool_run adds to `left` and then reads `sleepers`; here it is the
// reverse, so that not both can miss the other.
static void sleep_for_work(Pool *pool) {
    unsigned seen = atomic_load(&pool->wakes);
    atomic_fetch_add(&pool->sleepers, 1);
    if (!chunks_left(pool) && !atomic_load(&pool->quit)) futex_wait(&pool->wakes, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

// Works where there is work; else spins until there is some, the budget is used up or the pool is
// closed. Only work that came during the spin restores the budget.
static void *worker_main(void *argument) {
    struct Worker *worker = argument;
    Pool *pool = worker->pool;
    int64_t budget = SPIN_MOST_NS;
    while (!atomic_load(&pool->quit)) {
        Spin spin = {0};
        bool any = false, waiting = true;
        while (!(any = work(pool, worker->index)) && waiting && !atomic_load(&pool->quit))
            waiting = spin_on(&spin, &budget);
        if (any && waiting) spin_paid(&budget);
        if (any || waiting) continue;
        sleep_for_work(pool);
        work(pool, worker->index);
    }
    return NULL;
}

Pool *pool_open(int n_threads) {
    Pool *pool = aligned_alloc(_Alignof(Pool), sizeof *pool);
    if (!pool) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads;
    pool->caller_budget = SPIN_MOST_NS;
    for (pool->n_started = 1; pool->n_started < n_threads; pool->n_started++) {
        struct Worker *worker = &pool->workers[pool->n_started];
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

static void wake_threads(Pool *pool) {
    atomic_fetch_add(&pool->wakes, 1);
    futex_wake(&pool->wakes);
}

// Not to be called during a region. Sleeping threads are woken to see `quit`.
void pool_close(Pool *pool) {
    if (!pool) return;
    atomic_store(&pool->quit, true);
    wake_threads(pool);
    for (int i = 1; i < pool->n_started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    free(pool);
}

// The caller has run out of chunks; others may still be at theirs. `done` is the futex word: a
// chunk that ends after the last look changes it, so futex_wait does not sleep.
static void wait_until_done(Pool *pool, unsigned n_chunks) {
    Spin spin = {0};
    unsigned done;
    while ((done = atomic_load(&pool->done)) < n_chunks) {
        if (spin_on(&spin, &pool->caller_budget)) continue;
        atomic_store(&pool->caller_sleeps, 1);
        if ((done = atomic_load(&pool->done)) < n_chunks) futex_wait(&pool->done, done);
        atomic_store(&pool->caller_sleeps, 0);
    }
    spin_paid(&pool->caller_budget);
}

void pool_run(Pool *pool, PoolTask *task, void *context, size_t n_items, size_t chunk) {
    size_t n_chunks = (n_items + chunk - 1) / chunk;
    if (n_chunks > INT_MAX) {
        chunk = n_items / INT_MAX + 1;
        n_chunks = (n_items + chunk - 1) / chunk;
    }
    // No chunk is left of the region before and all of its tasks have ended, so no thread reads
    // these. The stores of the shares publish them, and `done` with them.
    pool->task = task;
    pool->context = context;
    pool->n_items = n_items;
    pool->chunk = chunk;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    // The caller takes the first half of its own share before the others can see it. That spares it
    // two atomic operations on cache lines that the others are reading.
    uint64_t n_threads = (uint64_t)pool->n_threads, begin = 0, end;
    Chunks own = {0, ((n_chunks + n_threads - 1) / n_threads + 1) / 2};
    for (uint64_t t = 0; begin < n_chunks; t++, begin = end) {
        end = (n_chunks * (t + 1) + n_threads - 1) / n_threads;
        if (!t) begin = own.count;
        atomic_store_explicit(&pool->workers[t].share, end << 32 | begin, memory_order_release);
    }
    atomic_fetch_add(&pool->left, (int)(n_chunks - own.count));
    if (atomic_load(&pool->sleepers)) wake_threads(pool);
    run_chunks(pool, own, 0);
    work(pool, 0);
    wait_until_done(pool, (unsigned)n_chunks);
}
