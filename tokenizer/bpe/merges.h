// BPE: the merge loop that all variants share, and the table of merges. Of all adjacent pairs of
// symbols the one with the lowest priority number is merged first (the leftmost of equals), until
// no pair can be merged. O(n log n), no recursion.
#pragma once

#include "tokenizer/internal.h"

// ---- merging.c ----

typedef struct Symbol {
    uint32_t start, length;  // bytes of the text; length 0: merged into the symbol before it
    int32_t id;              // -1: these bytes are no token
    uint32_t previous, next; // linked list, set by merge_symbols; UINT32_MAX: none
} Symbol;

// Whether `left` and `right` may be merged. Sets *priority (lower is merged earlier: a merge rank,
// or an order by score) and the *id of the merged token.
typedef bool (*MergeRule)(const void *context, const Symbol *left, const Symbol *right,
                          uint32_t *priority, int32_t *id);

// Merges symbols[count] in place. The result is the symbols with length > 0, in order; .next leads
// from symbols[0] through them. Adds the number of its steps to *steps. count < 2^32 - 1. False:
// exit code 5.
bool merge_symbols(Symbol *symbols, size_t count, MergeRule rule, const void *context,
                   uint64_t *steps, Error *error);

// ---- merge_table.c ----

// The merges of a BPE vocabulary: (left id, right id) -> merge rank, merged id.
typedef struct MergeTable {
    struct MergeEntry *entries; // (n_buckets) hash table, open addressing; owned
    size_t n_buckets;           // a power of two
    size_t count;
    HashKey key;
} MergeTable;

// Allocates room for n_merges. False: exit code 3 (too many), 5.
bool merge_table_init(MergeTable *table, size_t n_merges, Error *error);
void merge_table_free(MergeTable *table);

// Adds the next merge; its rank is the number of merges before it. `left`, `right` and both
// together must be tokens of `tokenizer`. False: exit code 3, the message begins with "merge N" (N
// from 0): no such token, or the same pair twice.
bool merge_table_add(MergeTable *table, Tokenizer *tokenizer, TextSpan left, TextSpan right,
                     Error *error);

// The same for a line "left right", split at the first space after the first character.
bool merge_table_add_line(MergeTable *table, Tokenizer *tokenizer, TextSpan line, Error *error);

// A MergeRule; `context` is a const MergeTable.
bool merge_table_rule(const void *context, const Symbol *left, const Symbol *right,
                      uint32_t *priority, int32_t *id);

// The merges by rank, each as "left right": (count) spans in `arena`. False: exit code 5.
bool merge_table_list(const MergeTable *table, const Tokenizer *tokenizer, const TextSpan **out,
                      Arena *arena, Error *error);

// scores[id] = -(rank of the first merge that yields the token), so that SPM-BPE, which merges the
// highest score first, merges in the same order. Other scores are left unchanged.
void merge_table_scores(const MergeTable *table, float *scores, size_t n_tokens);

// types[id] = type for every token that some merge yields.
void merge_table_mark(const MergeTable *table, uint8_t *types, TokenType type);
