// The threads of the cpu backend: every item is run, once, whatever the threads do.
#include "base/clock.h"
#include "kernels/cpu/pool.h"
#include "tests/test.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static void count_items(void *context, size_t begin, size_t end, int thread) {
    (void)thread;
    for (size_t i = begin; i < end; i++)
        ((int *)context)[i]++;
}

Test(cpu_pool, runs_every_item_once) {
    static const int THREADS[] = {2, 3, 8};
    for (int t = 0; t < 3; t++) {
        Pool *pool = pool_open(THREADS[t]);
        CHECK(pool != NULL, "no pool: %d", errno);
        for (size_t n = 1; n < 300; n += 7) {
            int counts[300] = {0};
            pool_run(pool, count_items, counts, n, 1 + n % 5);
            for (size_t i = 0; i < 300; i++)
                CHECK_INT(counts[i], i < n);
        }
        pool_close(pool);
    }
}

// One right behind the other, so that a thread may come late and find the next one.
Test(cpu_pool, regions_follow_each_other) {
    Pool *pool = pool_open(4);
    CHECK(pool != NULL, "no pool: %d", errno);
    int counts[64] = {0}, wanted[64] = {0};
    for (size_t region = 0; region < 20000; region++) {
        size_t n = 1 + region * 7 % 64;
        pool_run(pool, count_items, counts, n, 1 + region % 3);
        for (size_t i = 0; i < n; i++)
            wanted[i]++;
    }
    CHECK(!memcmp(counts, wanted, sizeof counts), "an item was left out or came twice");
    pool_close(pool);
}

typedef struct Waiting {
    size_t n_items, first; // and how many the first call took
    atomic_size_t done;
    double until;
} Waiting;

// The first call ends after all others, so other threads must run what is left of its thread's
// share.
static void wait_for_others(void *context, size_t begin, size_t end, int thread) {
    Waiting *w = context;
    (void)thread;
    if (begin == 0) w->first = end;
    while (begin == 0 && atomic_load(&w->done) < w->n_items - end) {
        if (seconds_now() > w->until) return;
        sched_yield();
    }
    atomic_fetch_add(&w->done, end - begin);
}

Test(cpu_pool, a_thread_that_is_held_up_keeps_half_of_its_share) {
    for (int threads = 2; threads <= 5; threads++) {
        Pool *pool = pool_open(threads);
        CHECK(pool != NULL, "no pool: %d", errno);
        for (size_t n = 1; n < 100; n += 9) {
            Waiting waiting = {.n_items = n, .until = seconds_now() + 20};
            pool_run(pool, wait_for_others, &waiting, n, 1);
            CHECK_INT(atomic_load(&waiting.done), n);
            CHECK(seconds_now() < waiting.until, "nobody ran the rest of the share");
            size_t share = (n + (size_t)threads - 1) / (size_t)threads;
            CHECK(waiting.first <= (share + 1) / 2, "%zu of a share of %zu", waiting.first, share);
        }
        pool_close(pool);
    }
}

// Every call takes half of what is left of a share: 64 of 128 chunks, 32, 16, 8, 4, 2, 1 and 1,
// whoever takes them.
static void count_calls(void *context, size_t begin, size_t end, int thread) {
    atomic_size_t *calls = context;
    (void)thread;
    atomic_fetch_add(&calls[end - begin], 1);
}

Test(cpu_pool, calls_shrink_to_a_chunk) {
    Pool *pool = pool_open(2);
    CHECK(pool != NULL, "no pool: %d", errno);
    atomic_size_t calls[513] = {0};
    pool_run(pool, count_calls, calls, 512, 2); // 128 chunks of 2 items in each share
    for (size_t items = 4; items <= 128; items *= 2)
        CHECK_INT(atomic_load(&calls[items]), 2);
    CHECK_INT(atomic_load(&calls[2]), 4);
    pool_close(pool);
}

// ---- threads that sleep ----

enum { LONG_US = 3000 }; // beyond what a thread spins for

typedef struct Slow {
    int thread;             // that takes LONG_US for an item; -1: none
    atomic_int items, seen; // seen: bit t: thread t has taken some
} Slow;

static void slow_task(void *context, size_t begin, size_t end, int thread) {
    Slow *slow = context;
    if (thread == slow->thread) usleep(LONG_US);
    atomic_fetch_or(&slow->seen, 1 << thread);
    atomic_fetch_add(&slow->items, (int)(end - begin));
}

Test(cpu_pool, sleeping_threads_are_woken) {
    static const int THREADS[] = {2, 3, 8};
    for (int t = 0; t < 3; t++) {
        Pool *pool = pool_open(THREADS[t]);
        CHECK(pool != NULL, "no pool: %d", errno);
        Slow slow = {.thread = 0}; // the caller sleeps in its task, so others take its share too
        for (int region = 1; region <= 20; region++) {
            usleep(LONG_US / 2);
            pool_run(pool, slow_task, &slow, 64, 1);
            CHECK_INT(atomic_load(&slow.items), 64 * region);
        }
        CHECK(atomic_load(&slow.seen) & ~1, "no other thread ever worked");
        pool_close(pool);
    }
}

// The caller is done long before another thread is, and sleeps until then.
Test(cpu_pool, a_sleeping_caller_is_woken) {
    for (int threads = 2; threads <= 4; threads++) {
        Pool *pool = pool_open(threads);
        CHECK(pool != NULL, "no pool: %d", errno);
        Slow slow = {.thread = 1};
        int regions = 0;
        for (double until = seconds_now() + 20; regions < 20 && seconds_now() < until;) {
            int before = atomic_load(&slow.items);
            atomic_store(&slow.seen, 0);
            pool_run(pool, slow_task, &slow, 8, 1);
            CHECK_INT(atomic_load(&slow.items), before + 8);
            regions += atomic_load(&slow.seen) >> 1 & 1; // thread 1 had a part
        }
        CHECK_INT(regions, 20);
        pool_close(pool);
    }
}

// With fewer chunks than threads, those without a share sleep and are left alone.
Test(cpu_pool, fewer_chunks_than_threads) {
    Pool *pool = pool_open(8);
    CHECK(pool != NULL, "no pool: %d", errno);
    for (size_t n = 0; n < 16; n++) {
        int counts[16] = {0};
        usleep(500);
        for (int region = 0; region < 50; region++)
            pool_run(pool, count_items, counts, n, 1);
        for (size_t i = 0; i < 16; i++)
            CHECK_INT(counts[i], i < n ? 50 : 0);
    }
    pool_close(pool);
}
