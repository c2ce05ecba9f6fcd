// Merging: the loop that all BPE kinds share. Neighbouring symbols are joined, the best pair first,
// the leftmost of equals, until no pair can be joined. O(n log n), no recursion.
#pragma once

#include "tokenizer/internal.h"

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

// ---- merge_table.c ----

typedef struct MergeTable {
    struct MergeEntry *entries; // (n_buckets) open addressing, owned
    size_t n_buckets;           // a power of two
    size_t count;
} MergeTable;

// Room for n_merges. False: exit code 3 (too many), 5.
bool merge_table_init(MergeTable *table, size_t n_merges, Error *error);
void merge_table_free(MergeTable *table);

// Adds the next merge; its rank is the number of those before it. Both sides and the whole are
// spellings of `tokenizer`. False: exit code 3 with "merge N" in front, N counted from 0: no such
// token, or the same pair twice.
bool merge_table_add(MergeTable *table, Tokenizer *tokenizer, TextSpan left, TextSpan right,
                     Error *error);

// The same for "left right", cut at the first space after the first character.
bool merge_table_add_line(MergeTable *table, Tokenizer *tokenizer, TextSpan line, Error *error);

// A MergeRule; `context` is a const MergeTable.
bool merge_table_rule(const void *context, const Symbol *left, const Symbol *right,
                      uint32_t *priority, int32_t *id);

// The merges in their order, each as "left right": (count) spans in `arena`. False: exit code 5.
bool merge_table_list(const MergeTable *table, const Tokenizer *tokenizer, const TextSpan **out,
                      Arena *arena, Error *error);

// scores[id] = minus the rank of the first merge that makes the token: the order of joining that
// SPM-BPE takes from scores. Others stay as they are.
void merge_table_scores(const MergeTable *table, float *scores, size_t n_tokens);

// types[id] = type for every token that some merge makes.
void merge_table_mark(const MergeTable *table, uint8_t *types, TokenType type);
