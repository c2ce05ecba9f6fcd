// Merging: the loop that all BPE kinds share. Neighbouring symbols are joined, the best pair first,
// the leftmost of equals, until no pair can be joined. O(n log n), no recursion.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Symbol {
    uint32_t start, length;  // bytes of the text; length 0: merged into the one before it
    int32_t id;              // -1: no token is spelt like this
    uint32_t previous, next; // set by merge_symbols; UINT32_MAX: none
} Symbol;

// Whether `left` and `right` may be joined: *priority (lower is better) and the *id of the whole.
typedef bool (*MergeRule)(const void *context, const Symbol *left, const Symbol *right,
                          uint32_t *priority, int32_t *id);

// Merges symbols[count] in place: afterwards those with length > 0, in order, are the result, and
// .next leads from symbols[0] to each of them. Adds its steps to *steps. count < 2^32 - 1. False:
// out of memory.
bool merge_symbols(Symbol *symbols, size_t count, MergeRule rule, const void *context,
                   uint64_t *steps, Error *error);
