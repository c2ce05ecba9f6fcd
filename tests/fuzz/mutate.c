// A mutation is one replacement of bytes in the head by others; then the count, the length or the
// padding that this made wrong is put right, mostly.
#include "tests/fuzz/mutate.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

// What libFuzzer has written, MemorySanitizer has not seen: libFuzzer is not instrumented.
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define WRITTEN_BY_LIBFUZZER(data, size) __msan_unpoison(data, size)
#else
#define WRITTEN_BY_LIBFUZZER(data, size) (void)(data)
#endif

enum { MOST_BYTES = 1 << 16 };

typedef struct Work {
    uint8_t file[MOST_BYTES];
    size_t size, room;
    Layout layout;
    uint64_t random; // state
} Work;

void layout_add(Layout *layout, Span span) {
    if (layout->count < MOST_SPANS) layout->spans[layout->count++] = span;
}

static size_t below(Work *w, size_t n) {
    return (size_t)(splitmix64(&w->random) % n);
}

static const Span *any_span(Work *w) {
    return &w->layout.spans[below(w, (size_t)w->layout.count)];
}

// Another of the same kind; itself where there is none near.
static const Span *like(Work *w, const Span *span) {
    for (int i = 0; i < 20; i++) {
        const Span *other = any_span(w);
        if (other->kind == span->kind && other != span) return other;
    }
    return span;
}

static uint64_t load(const uint8_t *at, size_t n) {
    uint64_t value = 0;
    memcpy(&value, at, n < 8 ? n : 8);
    return value;
}

static void store(uint8_t *at, size_t n, uint64_t value) {
    memcpy(at, &value, n < 8 ? n : 8);
}

// ---- one replacement, and what hangs on it ----

// Moves what follows the head to where its alignment wants it. False: there is no room.
static bool replace(Work *w, size_t begin, size_t end, const void *bytes, size_t count) {
    static uint8_t tail[2 * MOST_BYTES]; // of the head, from `begin` on: `bytes` may be inside it
    Layout *l = &w->layout;
    size_t a = l->alignment ? l->alignment : 1, rest = l->head - end;
    size_t head = begin + count + rest;
    size_t from = (l->head + a - 1) / a * a, to = (head + a - 1) / a * a;
    if (from > w->size) from = w->size;
    if (head > w->room || to + w->size - from > w->room) return false;
    memcpy(tail, bytes, count);
    memcpy(tail + count, w->file + end, rest);
    memmove(w->file + to, w->file + from, w->size - from);
    memset(w->file + head, 0, to - head);
    memcpy(w->file + begin, tail, count + rest);
    w->size = to + w->size - from;
    l->head = head;
    return true;
}

// Seven times of eight: the rest stays wrong, which is an input too.
static bool repairs(Work *w) {
    return below(w, 8) != 0;
}

static void move_count(Work *w, const Span *entry, int by) {
    if (!entry->count_at || !repairs(w)) return;
    uint8_t *at = w->file + entry->count_at;
    store(at, 8, load(at, 8) + (uint64_t)(int64_t)by);
}

// ---- the four kinds ----

static void change_number(Work *w, const Span *span) {
    static const uint64_t VALUES[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      8,
                                      32,
                                      255,
                                      256,
                                      65535,
                                      65536,
                                      INT32_MAX,
                                      (uint64_t)INT32_MAX + 1,
                                      UINT32_MAX,
                                      (uint64_t)1 << 32,
                                      (uint64_t)1 << 61,
                                      INT64_MAX,
                                      (uint64_t)1 << 63,
                                      UINT64_MAX};
    uint8_t *at = w->file + span->begin;
    size_t n = span->end - span->begin;
    uint64_t value = load(at, n);
    const Span *other = like(w, span);
    switch (below(w, 5)) {
    case 0: value = VALUES[below(w, sizeof VALUES / sizeof *VALUES)]; break;
    case 1: value += 1 + below(w, 8); break;
    case 2: value -= 1 + below(w, 8); break;
    case 3: value ^= (uint64_t)1 << below(w, 8 * (n < 8 ? n : 8)); break;
    case 4: value = load(w->file + other->begin, other->end - other->begin); break;
    }
    store(at, n, value);
}

static bool change_digits(Work *w, const Span *span) {
    static const char *const TEXTS[] = {"0",
                                        "1",
                                        "-1",
                                        "2",
                                        "3",
                                        "65536",
                                        "255",
                                        "1e2",
                                        "2147483647",
                                        "4294967296",
                                        "2147483648",
                                        "-0",
                                        "1.5",
                                        "1e999",
                                        "1e-45",
                                        "null",
                                        "true",
                                        "\"1\"",
                                        "[1]",
                                        "{}",
                                        "9223372036854775808",
                                        "18446744073709551616"};
    char text[40];
    const Span *other = like(w, span);
    if (below(w, 3) == 0)
        return replace(w, span->begin, span->end, w->file + other->begin,
                       other->end - other->begin);
    snprintf(text, sizeof text, "%s", TEXTS[below(w, sizeof TEXTS / sizeof *TEXTS)]);
    if (below(w, 2)) {
        char old[24] = "";
        size_t n = span->end - span->begin;
        memcpy(old, w->file + span->begin, n < 20 ? n : 20);
        uint64_t near = (uint64_t)strtoll(old, NULL, 10) + below(w, 9) - 4;
        snprintf(text, sizeof text, "%" PRId64, (int64_t)near);
    }
    return replace(w, span->begin, span->end, text, strlen(text));
}

// The lengths of one byte stay below 128, where a protobuf's varint has one byte too.
static bool replace_string(Work *w, const Span *span, const void *bytes, size_t count) {
    size_t outer = span->outer_at, before = span->end - span->begin;
    size_t length = outer ? w->file[outer] - before + count : 0;
    if (outer && (length > 127 || count > 128)) return false;
    if (!replace(w, span->begin, span->end, bytes, count)) return false;
    if (outer && repairs(w)) w->file[outer] = (uint8_t)length;
    return true;
}

// The text inside, as libFuzzer changes it (dictionary words too); or another string of the file.
static bool change_string(Work *w, const Span *span) {
    static uint8_t text[MOST_BYTES];
    size_t front = span->length_size ? (size_t)span->length_size : 1, back = !span->length_size;
    size_t n = span->end - span->begin - front - back;
    const Span *other = like(w, span);
    size_t room = n + 32 < sizeof text - 16 ? n + 32 : sizeof text - 16;
    if (n > room) return false;
    if (below(w, 2) && other->length_size == span->length_size) {
        memcpy(text, w->file + other->begin, other->end - other->begin);
        return replace_string(w, span, text, other->end - other->begin);
    }
    memcpy(text, w->file + span->begin, span->end - span->begin);
    n = n ? LLVMFuzzerMutate(text + front, n, room) : 0;
    WRITTEN_BY_LIBFUZZER(text + front, n);
    if (span->length_size && repairs(w)) store(text, (size_t)span->length_size, n);
    if (back) text[front + n] = '"';
    return replace_string(w, span, text, front + n + back);
}

static bool drop_entry(Work *w, const Span *span) {
    size_t begin = span->begin, end = span->end;
    char separator = w->layout.separator;
    if (separator && end < w->layout.head && w->file[end] == separator)
        end++;
    else if (separator && begin && w->file[begin - 1] == separator)
        begin--;
    return replace(w, begin, end, "", 0);
}

// Doubled, or another entry of the file put in front.
static bool insert_entry(Work *w, const Span *span, const Span *other) {
    static uint8_t text[MOST_BYTES];
    size_t n = other->end - other->begin;
    if (n + 1 >= sizeof text) return false;
    memcpy(text, w->file + other->begin, n);
    if (w->layout.separator) text[n++] = (uint8_t)w->layout.separator;
    return replace(w, span->begin, span->begin, text, n);
}

static void change_entry(Work *w, const Span *span) {
    const Span *other = like(w, span);
    switch (below(w, 4)) {
    case 0:
        if (drop_entry(w, span)) move_count(w, span, -1);
        break;
    case 1:
        if (insert_entry(w, span, span)) move_count(w, span, 1);
        break;
    case 2:
        if (insert_entry(w, span, other)) move_count(w, span, 1);
        break;
    default: replace(w, span->begin, span->end, w->file + other->begin, other->end - other->begin);
    }
}

// False: the file has lost its structure.
static bool change_once(Work *w, Walk *walk) {
    memset(&w->layout, 0, offsetof(Layout, spans)); // 80 KB of spans stay as they are
    if (!walk(&w->layout, w->file, w->size) || !w->layout.count) return false;
    Span span = *any_span(w);
    switch (span.kind) {
    case SPAN_NUMBER: change_number(w, &span); break;
    case SPAN_DIGITS: change_digits(w, &span); break;
    case SPAN_STRING: change_string(w, &span); break;
    case SPAN_ENTRY: change_entry(w, &span); break;
    }
    if (w->layout.length_first && repairs(w)) store(w->file, 8, w->layout.head - 8);
    return true;
}

size_t fuzz_mutate(uint8_t *data, size_t size, size_t room, unsigned seed, Walk *walk,
                   const void *base, size_t base_size) {
    static Work work;
    Work *w = &work;
    WRITTEN_BY_LIBFUZZER(data, size);
    w->random = seed;
    bool fits = base_size + 1 <= room && room <= MOST_BYTES;
    if (!fits || !below(w, 4)) return LLVMFuzzerMutate(data, size, room);
    w->room = room - 1;
    w->size = size ? size - 1 : 0;
    bool raw = size > 1 && !(data[0] & 1);
    if (raw) memcpy(w->file, data + 1, w->size);
    bool good = raw && change_once(w, walk);
    if (!good && below(w, 2)) return LLVMFuzzerMutate(data, size, room);
    if (!good) {
        memcpy(w->file, base, w->size = base_size);
        change_once(w, walk);
        data[0] = (uint8_t)(below(w, 128) << 1);
    }
    for (size_t more = below(w, 4); more; more--)
        change_once(w, walk);
    memcpy(data + 1, w->file, w->size);
    return w->size + 1;
}
