// The merge loop: a priority queue of the adjacent pairs that can be merged. A merge leaves stale
// pairs in the queue; a pair is stale when its right symbol no longer ends where it ended.
//
//     symbols        t  h  e  s  e          linked list in place; start and length in bytes
//     heap           (t h: rank 0)  (h e: rank 5)  (s e: rank 7)
//     pop (t h)      th e  s  e             "h" has length 0; (h e) is stale now
//                    push (th e)            pairs with the new symbol on either side
//     .. until the heap is empty
//
// The pairs of a long text would make a heap that no cache holds. Those of its first symbols are
// all known before the first merge, so they are sorted once instead (by radix, in linear time) and
// read front to back; the heap holds the pairs that merges make. The pair to merge next is the
// front of the sorted pairs or the top of the heap, whichever has the lower `order`.
//
// Finding stale pairs when they are popped costs less than removing them from the heap. Every
// symbol is merged into another at most once, so n symbols push fewer than 3 n pairs: O(n log n)
// for any text, where a search for the best pair in each round would be O(n^2).
#include "tokenizer/bpe/merges.h"

#include <stdlib.h>
#include <string.h>

// Pairs of up to SMALL symbols are kept on the stack: nearly all words are short.
enum { NONE = 0xffffffff, SMALL = 32, CHILDREN = 4, DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

typedef struct Pair {
    uint64_t order; // priority << 32 | index of the left symbol: the least is merged first
    uint32_t end;   // where the right symbol ended when the pair was queued, in bytes
    int32_t id;     // of the merged token
} Pair;

// A 4-ary heap: the children of i are 4 i + 1 .. 4 i + 4, one cache line of 64 bytes. Half as deep
// as a binary heap.
typedef struct Heap {
    Pair *pairs; // pairs[0] is the best
    size_t count;
    uint64_t steps;
} Heap;

// steps counts the work, which a test compares with n log n (tokenizer_steps).
static void heap_push(Heap *heap, Pair pair) {
    size_t i = heap->count++;
    for (size_t parent; i; i = parent) {
        parent = (i - 1) / CHILDREN;
        if (heap->pairs[parent].order <= pair.order) break;
        heap->pairs[i] = heap->pairs[parent];
        heap->steps++;
    }
    heap->pairs[i] = pair;
}

// The least of the children of i, of which there is at least one.
static size_t best_child(const Heap *heap, size_t i) {
    size_t best = CHILDREN * i + 1, end = best + CHILDREN;
    if (end > heap->count) end = heap->count;
    for (size_t child = best + 1; child < end; child++)
        if (heap->pairs[child].order < heap->pairs[best].order) best = child;
    return best;
}

// The last pair takes the place of the first and sinks to its level.
static Pair heap_pop(Heap *heap) {
    Pair best = heap->pairs[0], last = heap->pairs[--heap->count];
    size_t i = 0;
    for (size_t child; CHILDREN * i + 1 < heap->count; i = child) {
        child = best_child(heap, i);
        if (heap->pairs[child].order >= last.order) break;
        heap->pairs[i] = heap->pairs[child];
        heap->steps++;
    }
    heap->pairs[i] = last;
    return best;
}

// Pairs in rising order, read front to back.
typedef struct Run {
    const Pair *next, *end;
} Run;

typedef struct Merging {
    Symbol *symbols;
    Heap heap;
    Run first; // of a long text: the pairs of its first symbols
    MergeRule rule;
    const void *context;
} Merging;

// The pair of two neighbours. False: it cannot be merged.
static bool find_pair(Merging *m, uint32_t left, uint32_t right, Pair *pair) {
    const Symbol *l = &m->symbols[left], *r = &m->symbols[right];
    uint32_t priority;
    m->heap.steps++;
    if (!m->rule(m->context, l, r, &priority, &pair->id)) return false;
    pair->order = (uint64_t)priority << 32 | left;
    pair->end = r->start + r->length;
    return true;
}

// Queues the pair of two neighbours, if it can be merged.
static void queue_pair(Merging *m, uint32_t left, uint32_t right) {
    Pair pair;
    if (left == NONE || right == NONE || !find_pair(m, left, right, &pair)) return;
    heap_push(&m->heap, pair);
}

// Merges the pair, unless it is stale: the left symbol has been merged into another (length 0), or
// the right symbol now ends elsewhere. The left symbol never begins elsewhere, so its index and the
// end identify the bytes of the pair.
static void merge_pair(Merging *m, const Pair *pair) {
    uint32_t at = (uint32_t)pair->order;
    Symbol *left = &m->symbols[at];
    if (!left->length || left->next == NONE) return;
    Symbol *right = &m->symbols[left->next];
    if (right->start + right->length != pair->end) return;
    left->length += right->length;
    left->id = pair->id;
    left->next = right->next;
    right->length = 0;
    if (left->next != NONE) m->symbols[left->next].previous = at;
    queue_pair(m, left->previous, at);
    queue_pair(m, at, left->next);
}

// One pass of a radix sort by the priorities' DIGIT_BITS from bit `shift` on; stable. False where
// all have the same digit: `out` is not written.
static bool sort_by_digit(Pair *out, const Pair *in, size_t n, int shift) {
    uint32_t ends[DIGITS] = {0}; // n < 2^32
    for (size_t i = 0; i < n; i++)
        ends[in[i].order >> shift & (DIGITS - 1)]++;
    if (n && ends[in[0].order >> shift & (DIGITS - 1)] == n) return false;
    for (size_t digit = 1; digit < DIGITS; digit++)
        ends[digit] += ends[digit - 1];
    for (size_t i = n; i-- > 0;)
        out[--ends[in[i].order >> shift & (DIGITS - 1)]] = in[i];
    return true;
}

// Sorts n pairs whose indices rise; only their priorities are compared, since the sort is stable.
// `room` is for as many pairs again.
static void sort_pairs(Pair *pairs, Pair *room, size_t n, uint64_t *steps) {
    Pair *from = pairs, *to = room;
    for (int shift = 32; shift < 64; shift += DIGIT_BITS) {
        if (!sort_by_digit(to, from, n, shift)) continue;
        Pair *sorted = to;
        to = from;
        from = sorted;
        *steps += n;
    }
    if (from != pairs) memcpy(pairs, from, n * sizeof *pairs);
}

// The pairs of the symbols as they are before any merge, in `room`, which has space for them twice.
static void sort_first_pairs(Merging *m, Pair *room, size_t count) {
    size_t n = 0;
    for (size_t i = 0; i + 1 < count; i++)
        n += find_pair(m, (uint32_t)i, (uint32_t)i + 1, &room[n]);
    sort_pairs(room, room + count, n, &m->heap.steps);
    m->first = (Run){room, room + n};
}

// The pair of the lowest order, from the sorted list or the heap. False: there is none.
static bool take_least(Merging *m, Pair *pair) {
    bool heaped = m->heap.count, sorted = m->first.next < m->first.end;
    if (!heaped && !sorted) return false;
    if (sorted && (!heaped || m->first.next->order < m->heap.pairs[0].order))
        *pair = *m->first.next++;
    else
        *pair = heap_pop(&m->heap);
    return true;
}

static void link_symbols(Symbol *symbols, size_t count) {
    for (size_t i = 0; i < count; i++) {
        symbols[i].previous = i ? (uint32_t)i - 1 : NONE;
        symbols[i].next = i + 1 < count ? (uint32_t)i + 1 : NONE;
    }
}

static void merge_all(Merging *m) {
    Pair pair;
    while (take_least(m, &pair))
        merge_pair(m, &pair);
}

bool merge_symbols(Symbol *symbols, size_t count, MergeRule rule, const void *context,
                   uint64_t *steps, Error *error) {
    Pair small[2 * SMALL];
    Merging m = {.symbols = symbols, .rule = rule, .context = context};
    link_symbols(symbols, count);
    // A merge removes one pair and queues at most two; there are fewer merges than symbols.
    m.heap.pairs = small;
    if (count > SMALL) {
        bool fits = count <= SIZE_MAX / (3 * sizeof(Pair));
        Pair *room = fits ? malloc(3 * count * sizeof(Pair)) : NULL;
        if (!room) return error_set(error, ERROR_MEMORY, "out of memory for a long word");
        sort_first_pairs(&m, room, count);
        m.heap.pairs = room + count;
        merge_all(&m);
        free(room);
    } else {
        for (size_t i = 0; i + 1 < count; i++)
            queue_pair(&m, (uint32_t)i, (uint32_t)i + 1);
        merge_all(&m);
    }
    *steps += m.heap.steps;
    return true;
}
