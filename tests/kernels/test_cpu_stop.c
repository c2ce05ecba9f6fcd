// PassShape.stop on the cpu backend: how much work is still done after it was set.
#include "kernels/cpu/cpu.h"
#include "tests/test.h"

enum { ITEMS = 1600, STOP_AT = 300 };

typedef struct Work {
    int stop, done, after; // items; after: of those begun when `stop` was set
} Work;

static void count(void *context, size_t begin, size_t end, int thread) {
    Work *w = context;
    (void)thread;
    if (__atomic_load_n(&w->stop, __ATOMIC_SEQ_CST))
        __atomic_fetch_add(&w->after, (int)(end - begin), __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&w->done, (int)(end - begin), __ATOMIC_SEQ_CST) >= STOP_AT)
        __atomic_store_n(&w->stop, 1, __ATOMIC_SEQ_CST);
}

static Work run(int threads, int rows, bool stops) {
    enum { CHUNK = 10 };
    Work w = {0};
    Device *device = device_open(threads, PRECISION_F32);
    StopFlag flag = {.asked = &w.stop};
    device_begin(device, &(PassShape){.n = rows, .stop = stops ? &flag : NULL});
    device_run(device, count, &w, ITEMS, CHUNK);
    device_end(device);
    Work stopped = w;
    device_run(device, count, &w, ITEMS, CHUNK); // outside a pass everything is done
    CHECK_INT(w.done - stopped.done, ITEMS);
    device_close(device);
    return stopped;
}

// Each thread ends what it has begun: a sixteenth of the operation at most.
Test(cpu_stop, what_has_not_begun_is_left_out) {
    Work w = run(4, 512, true);
    CHECK(w.done >= STOP_AT && w.done <= STOP_AT + 4 * ITEMS / 16, "%d items", w.done);
    w = run(4, 512, false);
    CHECK_INT(w.done, ITEMS);
}

// A pass of many rows takes long on one thread, so that its work is cut in 16 parts.
Test(cpu_stop, one_thread_looks_between_parts) {
    CHECK_INT(run(1, 512, true).done, 300);
    CHECK_INT(run(1, 512, false).done, ITEMS);
}

// An operation of few chunks on a single row is short: it ends, and the next one does not begin.
Test(cpu_stop, an_operation_on_few_rows_is_done_or_left_out) {
    for (int threads = 1; threads <= 4; threads += 3) {
        Work w = {0};
        Device *device = device_open(threads, PRECISION_F32);
        StopFlag flag = {.asked = &w.stop};
        device_begin(device, &(PassShape){.n = 1, .stop = &flag});
        device_run(device, count, &w, ITEMS, ITEMS / 8);
        CHECK_INT(w.done, ITEMS);
        device_run(device, count, &w, ITEMS, ITEMS / 8);
        CHECK_INT(w.done, ITEMS);
        device_end(device);
        device_close(device);
    }
}

// The head of a large model has many.
Test(cpu_stop, a_long_operation_on_one_row_is_cut_short) {
    Work w = run(4, 1, true);
    CHECK(w.done >= STOP_AT && w.done <= STOP_AT + 4 * ITEMS / 16, "%d items", w.done);
}

// Who set the number may take it back before the caller looks.
Test(cpu_stop, what_was_seen_stays_seen) {
    int asked = 0;
    StopFlag flag = {.asked = &asked}, none = {0};
    CHECK(!pass_stopped(NULL) && !pass_stopped(&none) && !pass_stopped(&flag));
    asked = 1;
    CHECK(pass_stopped(&flag));
    asked = 0;
    CHECK(pass_stopped(&flag));
    flag.seen = 0;
    CHECK(!pass_stopped(&flag));
}
