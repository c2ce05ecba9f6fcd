// Encodes rows of a tensor on several threads. A row does not depend on others, so the bytes are
// the same for any number of them.
//
//   rows first .. first + count  ->  ranges of some rows, each taken by the thread that is free
//
// Threads are started for every call: starting one takes some 20 us, quantising a chunk of a tensor
// some tenths of a second. Where one does not start, the others do its share.
#include "commands/convert/convert.h"

#include "base/processors.h"

#include <assert.h>

enum {
    RANGES = 16,           // for each thread, so that one that is slow holds up little
    SMALL_BYTES = 64 << 10 // fewer are not worth starting threads for
};

// The rows of one call.
typedef struct Work {
    const Outgoing *out;
    size_t tensor;
    uint64_t first;      // row of the tensor
    size_t count, range; // rows in all, and of one range
    uint8_t *bytes;
    size_t next; // the first row that no thread has taken; atomic
    bool failed; // no more are to be taken; atomic
} Work;

struct EncoderThread {
    pthread_t thread;
    OutgoingScratch scratch;
    Work *work;
    size_t failed_at; // first row of the range that failed
    Error error;
};

static void *encode(void *argument) {
    EncoderThread *t = argument;
    Work *w = t->work;
    size_t row_bytes = outgoing_row_bytes(w->out, w->tensor);
    while (!__atomic_load_n(&w->failed, __ATOMIC_RELAXED)) {
        size_t at = __atomic_fetch_add(&w->next, w->range, __ATOMIC_RELAXED);
        if (at >= w->count) break;
        size_t count = w->count - at < w->range ? w->count - at : w->range;
        if (outgoing_rows(w->out, &t->scratch, w->tensor, w->first + at, count,
                          w->bytes + at * row_bytes, &t->error))
            continue;
        assert(t->error.code);
        t->failed_at = at;
        __atomic_store_n(&w->failed, true, __ATOMIC_RELAXED);
    }
    return NULL;
}

// Ranges are taken in order, so every one before a range that failed is done: of several errors the
// one of the lowest row is that of one thread alone.
static bool first_error(const Encoder *e, int n, Error *error) {
    const EncoderThread *first = NULL;
    for (const EncoderThread *t = e->threads; t < e->threads + n; t++)
        if (t->error.code && (!first || t->failed_at < first->failed_at)) first = t;
    return !first || error_copy(error, &first->error);
}

bool encoder_open(Encoder *e, Outgoing *out, int threads, Error *error) {
    e->out = out;
    e->n = threads ? threads : processors_usable();
    e->threads = arena_alloc(&out->arena, (uint64_t)e->n, sizeof *e->threads, error);
    if (!e->threads) return false;
    for (int i = 0; i < e->n; i++)
        if (!outgoing_scratch(&e->threads[i].scratch, out, error)) return false;
    return true;
}

bool encoder_rows(Encoder *e, size_t tensor, uint64_t first, size_t count, uint8_t *bytes,
                  Error *error) {
    Work work = {.out = e->out, .tensor = tensor, .first = first, .count = count, .bytes = bytes};
    size_t size = count * outgoing_row_bytes(e->out, tensor);
    int n = size < SMALL_BYTES || !outgoing_is_slow(e->out, tensor) ? 1 : e->n, started = 1;
    if ((size_t)n > count) n = (int)count;
    work.range = n > 1 ? (count - 1) / ((size_t)n * RANGES) + 1 : count;
    for (int i = 0; i < n; i++) {
        e->threads[i].work = &work;
        e->threads[i].error = (Error){0};
    }
    while (started < n && !thread_start(&e->threads[started].thread, encode, &e->threads[started]))
        started++;
    encode(&e->threads[0]);
    for (int i = 1; i < started; i++)
        pthread_join(e->threads[i].thread, NULL);
    return first_error(e, started, error);
}
