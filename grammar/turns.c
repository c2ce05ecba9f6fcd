// Tokens by their turns: of a COUNT node's body without bounds it is known how often each token
// begins it again, and what is left of the bounds chooses among them.
//
//     [a-z]{2,9} behind "abc"     2 .. 6 turns are left
//     " the" 0 (no letter)   "d" 1   "def" 3   "internal" 8: level 3, say, has all tokens of 3
//     letters
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

// As a list, tokens take longer than all words of a mask from about here on.
static bool is_many(size_t count, size_t n_tokens) {
    return count > mask_words(n_tokens) / 2;
}

static size_t count_bits(const uint64_t *mask, size_t words) {
    size_t count = 0;
    for (size_t i = 0; i < words; i++)
        count += (size_t)__builtin_popcountll(mask[i]);
    return count;
}

static void list_bits(const uint64_t *mask, size_t words, uint32_t *ids) {
    for (size_t i = 0; i < words; i++)
        for (uint64_t bits = mask[i]; bits; bits &= bits - 1)
            *ids++ = (uint32_t)(64 * i) + (uint32_t)__builtin_ctzll(bits);
}

static bool set_of_mask(TokenSet *set, const uint64_t *mask, size_t n_tokens, Error *error) {
    size_t words = mask_words(n_tokens);
    set->count = count_bits(mask, words);
    if (!set->count) return true;
    if (is_many(set->count, n_tokens)) {
        set->mask = malloc(words * sizeof *mask);
        if (set->mask) memcpy(set->mask, mask, words * sizeof *mask);
    } else {
        set->ids = malloc(set->count * sizeof *set->ids);
        if (set->ids) list_bits(mask, words, set->ids);
    }
    return set->ids || set->mask || no_memory(error);
}

static void set_free(TokenSet *set) {
    free(set->ids);
    free(set->mask);
}

static size_t set_bytes(const TokenSet *set, size_t n_tokens) {
    return set->mask ? mask_words(n_tokens) * sizeof *set->mask : set->count * sizeof *set->ids;
}

static void add_mask(uint64_t *restrict mask, const uint64_t *restrict other, size_t words) {
    for (size_t i = 0; i < words; i++)
        mask[i] |= other[i];
}

static void add_ids(uint64_t *restrict mask, const uint32_t *restrict ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        mask[ids[i] / 64] |= (uint64_t)1 << ids[i] % 64;
}

static void set_add(const TokenSet *set, uint64_t *mask, size_t words) {
    if (set->mask)
        add_mask(mask, set->mask, words);
    else
        add_ids(mask, set->ids, set->count);
}

bool turn_sets_of_mask(TurnSets *sets, const uint64_t *mask, size_t n_tokens, Error *error) {
    *sets = (TurnSets){0};
    if (!set_of_mask(&sets->all, mask, n_tokens, error)) return false;
    sets->n_levels = sets->all.count > 0;
    return true;
}

// A token may be there twice.
static bool set_of_tokens(TokenSet *set, const uint32_t *ids, size_t count, size_t n_tokens,
                          Error *error) {
    set->count = count;
    if (!count) return true;
    if (is_many(count, n_tokens)) {
        set->mask = calloc(mask_words(n_tokens), sizeof *set->mask);
        if (set->mask) add_ids(set->mask, ids, count);
    } else {
        set->ids = malloc(count * sizeof *ids);
        if (set->ids) memcpy(set->ids, ids, count * sizeof *ids);
    }
    return set->ids || set->mask || no_memory(error);
}

bool turn_sets_of_ids(TurnSets *sets, const uint32_t *ids, size_t count, size_t n_tokens,
                      Error *error) {
    *sets = (TurnSets){.n_levels = count > 0};
    return set_of_tokens(&sets->all, ids, count, n_tokens, error);
}

// A counting sort of the tokens by their turns; ends (n_levels + 1): where the next level begins.
static void sort_by_turns(const Found *found, size_t count, uint32_t n_levels, uint32_t *order,
                          size_t *ends) {
    for (size_t i = 0; i < count; i++)
        ends[found[i].turns + 1]++;
    for (uint32_t t = 0; t < n_levels; t++)
        ends[t + 1] += ends[t];
    // Each entry is where its turns begin, and ends up where they end.
    for (size_t i = 0; i < count; i++)
        order[ends[found[i].turns]++] = found[i].id;
}

// Behind every level that is a mask, and where the lists since the last one are long together.
static bool find_up_to(TurnSets *sets, size_t n_tokens, uint64_t *scratch, Error *error) {
    size_t words = mask_words(n_tokens), listed = 0;
    bool good = true;
    for (uint32_t t = 0; good && t < sets->n_levels; t++) {
        set_add(&sets->levels[t], scratch, words);
        listed += sets->levels[t].count;
        if (!is_many(listed, n_tokens)) continue;
        listed = 0;
        sets->up_to[t] = malloc(words * sizeof **sets->up_to);
        good = sets->up_to[t] || no_memory(error);
        if (good) memcpy(sets->up_to[t], scratch, words * sizeof *scratch);
    }
    memset(scratch, 0, words * sizeof *scratch);
    return good;
}

static bool find_levels(TurnSets *sets, const uint32_t *order, const size_t *ends, size_t n_tokens,
                        uint64_t *scratch, Error *error) {
    sets->levels = calloc(sets->n_levels, sizeof *sets->levels);
    sets->up_to = calloc(sets->n_levels, sizeof *sets->up_to);
    bool good = (sets->levels && sets->up_to) || no_memory(error);
    for (uint32_t t = 0; good && t < sets->n_levels; t++) {
        size_t first = t ? ends[t - 1] : 0;
        good = set_of_tokens(&sets->levels[t], order + first, ends[t] - first, n_tokens, error);
    }
    return good && find_up_to(sets, n_tokens, scratch, error);
}

bool turn_sets_init(TurnSets *sets, const Found *found, size_t count, size_t n_tokens,
                    uint64_t *scratch, Error *error) {
    *sets = (TurnSets){0};
    if (!count) return true;
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (found[i].turns > most) most = found[i].turns;
    sets->n_levels = most + 1;
    uint32_t *order = malloc(count * sizeof *order);
    size_t *ends = calloc((size_t)most + 2, sizeof *ends);
    bool good = (order && ends) || no_memory(error);
    if (good) {
        sort_by_turns(found, count, sets->n_levels, order, ends);
        good = set_of_tokens(&sets->all, order, count, n_tokens, error);
    }
    if (good && most) good = find_levels(sets, order, ends, n_tokens, scratch, error);
    free(order);
    free(ends);
    if (!good) turn_sets_free(sets);
    return good;
}

void turn_sets_free(TurnSets *sets) {
    for (uint32_t t = 0; sets->levels && t < sets->n_levels; t++)
        set_free(&sets->levels[t]);
    for (uint32_t t = 0; sets->up_to && t < sets->n_levels; t++)
        free(sets->up_to[t]);
    free(sets->levels);
    free(sets->up_to);
    set_free(&sets->all);
    *sets = (TurnSets){0};
}

size_t turn_sets_bytes(const TurnSets *sets, size_t n_tokens) {
    size_t bytes = set_bytes(&sets->all, n_tokens);
    for (uint32_t t = 0; sets->levels && t < sets->n_levels; t++)
        bytes += sizeof *sets->levels + sizeof *sets->up_to +
                 set_bytes(&sets->levels[t], n_tokens) +
                 (sets->up_to[t] ? mask_words(n_tokens) * sizeof **sets->up_to : 0);
    return bytes;
}

void turn_sets_add(const TurnSets *sets, uint32_t low, uint32_t high, uint64_t *mask,
                   size_t words) {
    if (low >= sets->n_levels) return;
    uint32_t last = high < sets->n_levels ? high : sets->n_levels - 1, t = last + 1;
    if (!low && t == sets->n_levels) {
        set_add(&sets->all, mask, words);
        return;
    }
    for (; t > low && (low || !sets->up_to[t - 1]); t--)
        set_add(&sets->levels[t - 1], mask, words);
    if (t > low) add_mask(mask, sets->up_to[t - 1], words);
}
