// A heap of the pairs that could be joined. Joining leaves stale entries behind; one is known by
// the symbols' ends, which no longer are where they were.
#include "tokenizer/merging.h"

#include <stdlib.h>

enum { NONE = 0xffffffff, SMALL = 128 };

typedef struct Pair {
    uint32_t priority;
    uint32_t left, right; // symbols
    uint32_t end;         // of the right one, in bytes, when the pair was seen
    int32_t id;           // of the whole
} Pair;

typedef struct Heap {
    Pair *pairs; // pairs[0] is the best
    size_t count;
    uint64_t steps;
} Heap;

static bool better(const Pair *a, const Pair *b) {
    return a->priority != b->priority ? a->priority < b->priority : a->left < b->left;
}

static void heap_push(Heap *heap, Pair pair) {
    size_t i = heap->count++;
    for (; i && better(&pair, &heap->pairs[(i - 1) / 2]); i = (i - 1) / 2) {
        heap->pairs[i] = heap->pairs[(i - 1) / 2];
        heap->steps++;
    }
    heap->pairs[i] = pair;
}

static Pair heap_pop(Heap *heap) {
    Pair best = heap->pairs[0], last = heap->pairs[--heap->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && better(&heap->pairs[child + 1], &heap->pairs[child]))
            child++;
        if (!better(&heap->pairs[child], &last)) break;
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
    Pair pair = {.left = left, .right = right, .end = r->start + r->length};
    m->heap.steps++;
    if (m->rule(m->context, l, r, &pair.priority, &pair.id)) heap_push(&m->heap, pair);
}

static void join(Merging *m, const Pair *pair) {
    Symbol *left = &m->symbols[pair->left], *right = &m->symbols[pair->right];
    left->length += right->length;
    left->id = pair->id;
    left->next = right->next;
    right->length = 0;
    if (left->next != NONE) m->symbols[left->next].previous = pair->left;
    consider(m, left->previous, pair->left);
    consider(m, pair->left, left->next);
}

// Whether both symbols are still what they were when the pair was seen. The left one can only have
// grown, and then its `next` is another; the right one can have grown or gone.
static bool is_fresh(const Merging *m, const Pair *pair) {
    const Symbol *left = &m->symbols[pair->left], *right = &m->symbols[pair->right];
    return left->length && right->length && left->next == pair->right &&
           right->start + right->length == pair->end;
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
        if (is_fresh(&m, &pair)) join(&m, &pair);
    }
    *steps += m.heap.steps;
    if (m.heap.pairs != small) free(m.heap.pairs);
    return true;
}
