// The merges of a BPE vocabulary: which two tokens may be joined, how early, and into which.
#pragma once

#include "tokenizer/bpe/merging.h"
#include "tokenizer/kinds.h"

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
