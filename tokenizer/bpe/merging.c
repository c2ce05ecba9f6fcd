// A heap of the pairs that could be joined. Joining leaves stale entries behind; one is known by
// the symbols' ends, which no longer are where they were.
#include "tokenizer/bpe/merges.h"

#include <stdlib.h>

enum { NONE = 0xffffffff, SMALL = 64, CHILDREN = 4 };

typedef struct Pair {
    uint64_t order; // priority, then the left symbol: the best pair has the least
    uint32_t end;   // of the right one, in bytes, when the pair was seen
    int32_t id;     // of the whole
} Pair;

// The children of i are 4 i + 1 .. 4 i + 4: half as deep as a binary heap, and a line of cache
// each.
typedef struct Heap {
    Pair *pairs; // pairs[0] is the best
    size_t count;
    uint64_t steps;
} Heap;

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

static size_t best_child(const Heap *heap, size_t i) {
    size_t best = CHILDREN * i + 1, end = best + CHILDREN;
    if (end > heap->count) end = heap->count;
    for (size_t child = best + 1; child < end; child++)
        if (heap->pairs[child].order < heap->pairs[best].order) best = child;
    return best;
}

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

static void consider(Merging *m, uint32_t left, uint32_t right) {
    if (left == NONE || right == NONE) return;
    const Symbol *l = &m->symbols[left], *r = &m->symbols[right];
    Pair pair = {.end = r->start + r->length};
    uint32_t priority;
    m->heap.steps++;
    if (!m->rule(m->context, l, r, &priority, &pair.id)) return;
    pair.order = (uint64_t)priority << 32 | left;
    heap_push(&m->heap, pair);
}

// Joins the pair, unless one of its symbols is no longer what it was: then the left one is gone, or
// what stands behind it ends elsewhere.
static void join(Merging *m, const Pair *pair) {
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
    consider(m, left->previous, at);
    consider(m, at, left->next);
}

bool merge_symbols(Symbol *symbols, size_t count, MergeRule rule, const void *context,
                   uint64_t *steps, Error *error) {
    Pair small[SMALL];
    // A join takes one pair out and puts at most two in, and there are fewer joins than symbols.
    size_t capacity = 2 * count;
    Merging m = {.symbols = symbols, .rule = rule, .context = context};
    m.heap.pairs = capacity <= SMALL ? small : malloc(capacity * sizeof(Pair));
    if (!m.heap.pairs) return error_set(error, ERROR_MEMORY, "out of memory for a long word");
    for (size_t i = 0; i < count; i++) {
        symbols[i].previous = i ? (uint32_t)i - 1 : NONE;
        symbols[i].next = i + 1 < count ? (uint32_t)i + 1 : NONE;
    }
    for (size_t i = 0; i + 1 < count; i++)
        consider(&m, (uint32_t)i, (uint32_t)i + 1);
    while (m.heap.count) {
        Pair pair = heap_pop(&m.heap);
        join(&m, &pair);
    }
    *steps += m.heap.steps;
    if (m.heap.pairs != small) free(m.heap.pairs);
    return true;
}
