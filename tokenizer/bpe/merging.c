// The merge loop: a priority queue of the adjacent pairs that can be merged. A merge leaves stale
// pairs in the queue; a pair is stale when its right symbol no longer ends where it ended.
//
//     symbols        t  h  e  s  e          linked list in place; start and length in bytes
//     heap           (t h: rank 0)  (h e: rank 5)  (s e: rank 7)
//     pop (t h)      th e  s  e             "h" has length 0; (h e) is stale now
//                    push (th e)            pairs with the new symbol on either side
//     .. until the heap is empty
//
// Finding stale pairs when they are popped costs less than removing them from the heap. Every
// symbol is merged into another at most once, so n symbols push fewer than 3 n pairs: O(n log n)
// for any text, where a search for the best pair in each round would be O(n^2).
#include "tokenizer/bpe/merges.h"

#include <stdlib.h>

// SMALL pairs are kept on the stack: nearly all words are short.
enum { NONE = 0xffffffff, SMALL = 64, CHILDREN = 4 };

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

typedef struct Merging {
    Symbol *symbols;
    Heap heap;
    MergeRule rule;
    const void *context;
} Merging;

// Queues the pair of two neighbours, if it can be merged.
static void queue_pair(Merging *m, uint32_t left, uint32_t right) {
    if (left == NONE || right == NONE) return;
    const Symbol *l = &m->symbols[left], *r = &m->symbols[right];
    Pair pair = {.end = r->start + r->length};
    uint32_t priority;
    m->heap.steps++;
    if (!m->rule(m->context, l, r, &priority, &pair.id)) return;
    pair.order = (uint64_t)priority << 32 | left;
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

bool merge_symbols(Symbol *symbols, size_t count, MergeRule rule, const void *context,
                   uint64_t *steps, Error *error) {
    Pair small[SMALL];
    // A merge removes one pair and queues at most two; there are fewer merges than symbols.
    size_t capacity = 2 * count;
    Merging m = {.symbols = symbols, .rule = rule, .context = context};
    m.heap.pairs = capacity <= SMALL ? small : malloc(capacity * sizeof(Pair));
    if (!m.heap.pairs) return error_set(error, ERROR_MEMORY, "out of memory for a long word");
    for (size_t i = 0; i < count; i++) {
        symbols[i].previous = i ? (uint32_t)i - 1 : NONE;
        symbols[i].next = i + 1 < count ? (uint32_t)i + 1 : NONE;
    }
    for (size_t i = 0; i + 1 < count; i++)
        queue_pair(&m, (uint32_t)i, (uint32_t)i + 1);
    while (m.heap.count) {
        Pair pair = heap_pop(&m.heap);
        merge_pair(&m, &pair);
    }
    *steps += m.heap.steps;
    if (m.heap.pairs != small) free(m.heap.pairs);
    return true;
}
