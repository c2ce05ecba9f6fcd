// The table of merges: a hash table from pairs of ids to ranks.
//
//     "t h"  ->  (id of "t", id of "h")  ->  rank 0, id of "th"
//     entries[hash(left, right)], linear probing; twice as many buckets as merges, so never full
//
// The rank of a merge is its place in the file. Keyed by ids and not by texts, since the merge loop
// has ids at hand: one lookup of eight bytes for each pair. The hash has a random key
// (base/hash.h), so that no file can make all pairs collide.
#include "tokenizer/bpe/merges.h"

#include <stdlib.h>
#include <string.h>

typedef struct MergeEntry {
    int32_t left, right; // ids
    int32_t merged;      // id; ~id where that is a control token, which no merge makes
    uint32_t order;      // rank + 1; 0: empty
} MergeEntry;

static size_t first_bucket(const MergeTable *table, int32_t left, int32_t right) {
    return keyed_hash_pair(&table->key, (uint32_t)left, (uint32_t)right) & (table->n_buckets - 1);
}

// The pair's entry, or the empty one where it would be added.
static MergeEntry *entry_of(const MergeTable *table, int32_t left, int32_t right) {
    size_t i = first_bucket(table, left, right);
    for (; table->entries[i].order; i = (i + 1) & (table->n_buckets - 1))
        if (table->entries[i].left == left && table->entries[i].right == right) break;
    return &table->entries[i];
}

bool merge_table_init(MergeTable *table, size_t n_merges, Error *error) {
    *table = (MergeTable){0};
    if (n_merges > LIMIT_MERGES)
        return error_set(error, ERROR_FILE, "%zu merges (at most %d)", n_merges, LIMIT_MERGES);
    size_t n_buckets = 16;
    while (n_buckets < 2 * n_merges)
        n_buckets *= 2;
    table->entries = calloc(n_buckets, sizeof *table->entries);
    if (!table->entries)
        return error_set(error, ERROR_MEMORY, "out of memory for %zu merges", n_merges);
    table->n_buckets = n_buckets;
    table->key = hash_key();
    return true;
}

void merge_table_free(MergeTable *table) {
    free(table->entries);
    *table = (MergeTable){0};
}

// False with "merge N: ..."; exit code 3.
static bool fail(const MergeTable *table, TextSpan left, TextSpan right, const char *what,
                 Error *error) {
    char l[64], r[64];
    return error_set(error, ERROR_FILE, "merge %zu: \"%s\" + \"%s\": %s", table->count,
                     escape_bytes(l, sizeof l, left.text, left.length),
                     escape_bytes(r, sizeof r, right.text, right.length), what);
}

// Refuses what the merge loop could not use: a side or a result that is no token. A pair that is
// there already would have two ranks.
bool merge_table_add(MergeTable *table, Tokenizer *t, TextSpan left, TextSpan right, Error *error) {
    if (2 * table->count >= table->n_buckets)
        return error_set(error, ERROR_FILE, "merge %zu: more merges than allocated", table->count);
    int32_t left_id = vocabulary_find(t, left.text, left.length);
    int32_t right_id = vocabulary_find(t, right.text, right.length);
    if (!left.length || left_id < 0)
        return fail(table, left, right, "the left side is no token", error);
    if (!right.length || right_id < 0)
        return fail(table, left, right, "the right side is no token", error);
    char *merged = vocabulary_piece_buffer(t, left.length + right.length);
    if (!merged) return error_set(error, ERROR_MEMORY, "out of memory for a merge");
    memcpy(merged, left.text, left.length);
    memcpy(merged + left.length, right.text, right.length);
    int32_t id = vocabulary_find(t, merged, left.length + right.length);
    if (id < 0) return fail(table, left, right, "the merged text is no token", error);
    MergeEntry *entry = entry_of(table, left_id, right_id);
    if (entry->order) return fail(table, left, right, "an earlier merge has the same pair", error);
    // Text never becomes a control token: the merge keeps its rank, and is never made.
    if (t->types[id] == TOKEN_CONTROL) id = ~id;
    *entry = (MergeEntry){left_id, right_id, id, (uint32_t)++table->count};
    return true;
}

// From the second character on, since the left token may itself begin with a space.
bool merge_table_add_line(MergeTable *table, Tokenizer *t, TextSpan line, Error *error) {
    const char *space = line.length > 1 ? memchr(line.text + 1, ' ', line.length - 1) : NULL;
    if (!space)
        return fail(table, line, (TextSpan){"", 0}, "wanted two tokens separated by a space",
                    error);
    size_t left = (size_t)(space - line.text);
    return merge_table_add(table, t, (TextSpan){line.text, left},
                           (TextSpan){space + 1, line.length - left - 1}, error);
}

// The priority is rank + 1, so that 0 can mean an empty entry; the order is the same.
bool merge_table_rule(const void *context, const Symbol *left, const Symbol *right,
                      uint32_t *priority, int32_t *id) {
    const MergeEntry *entry = entry_of(context, left->id, right->id);
    *priority = entry->order;
    *id = entry->merged;
    return entry->order && entry->merged >= 0;
}

// Walks the buckets in any order and puts each line at its rank.
bool merge_table_list(const MergeTable *table, const Tokenizer *t, const TextSpan **out,
                      Arena *arena, Error *error) {
    TextSpan *lines = arena_alloc(arena, table->count, sizeof *lines, error);
    if (!lines) return false;
    for (size_t i = 0; i < table->n_buckets; i++) {
        const MergeEntry *entry = &table->entries[i];
        if (!entry->order) continue;
        TextSpan left = t->tokens[entry->left], right = t->tokens[entry->right];
        size_t length = left.length + 1 + right.length;
        char *text = arena_alloc(arena, length, 1, error);
        if (!text) return false;
        memcpy(text, left.text, left.length);
        text[left.length] = ' ';
        memcpy(text + left.length + 1, right.text, right.length);
        lines[entry->order - 1] = (TextSpan){text, length};
    }
    *out = lines;
    return true;
}

// A token that several merges yield has the score of the first, which is the highest.
void merge_table_scores(const MergeTable *table, float *scores, size_t n_tokens) {
    for (size_t i = 0; i < table->n_buckets; i++) {
        const MergeEntry *entry = &table->entries[i];
        if (!entry->order || (size_t)entry->merged >= n_tokens) continue;
        float score = 1.0f - (float)entry->order; // exact up to 2^24 merges
        if (!(scores[entry->merged] >= score)) scores[entry->merged] = score;
    }
}

void merge_table_mark(const MergeTable *table, uint8_t *types, TokenType type) {
    for (size_t i = 0; i < table->n_buckets; i++)
        if (table->entries[i].order && table->entries[i].merged >= 0)
            types[table->entries[i].merged] = (uint8_t)type;
}
