// The threads of the cpu backend: every item is run, once, whatever the threads do.
#include "base/clock.h"
#include "kernels/cpu/pool.h"
#include "tests/test.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

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
