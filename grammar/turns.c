// Tokens by their turns: of a COUNT node's body without bounds it is known how often each token
// begins it again, and what is left of the bounds chooses among them.
//
//     [a-z]{2,9} behind "abc"     2 .. 6 turns are left
//     " the" 0 (no letter)   "d" 1   "def" 3   "internal" 8: level 3, say, has all tokens of 3 letters
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

static void set_add(const TokenSet *set, uint64_t *mask, size_t words) {
    for (size_t i = 0; set->mask && i < words; i++)
        mask[i] |= set->mask[i];
    for (size_t i = 0; set->ids && i < set->count; i++)
        mask[set->ids[i] / 64] |= (uint64_t)1 << set->ids[i] % 64;
}

bool turn_sets_of_mask(TurnSets *sets, const uint64_t *mask, size_t n_tokens, Error *error) {
    *sets = (TurnSets){0};
    if (!set_of_mask(&sets->all, mask, n_tokens, error)) return false;
    sets->n_levels = sets->all.count > 0;
    return true;
}

// A set of tokens from first on, by way of the scratch.
static bool set_of_tokens(TokenSet *set, const uint32_t *ids, size_t count, size_t n_tokens,
                          uint64_t *scratch, Error *error) {
    TokenSet list = {.ids = (uint32_t *)(uintptr_t)ids, .count = count};
    set_add(&list, scratch, 0);
    bool good = set_of_mask(set, scratch, n_tokens, error);
    for (size_t i = 0; i < count; i++)
        scratch[ids[i] / 64] = 0;
    return good;
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
    if (most) sets->levels = calloc(sets->n_levels, sizeof *sets->levels);
    bool good = (order && ends && (!most || sets->levels)) || no_memory(error);
    if (good) {
        sort_by_turns(found, count, sets->n_levels, order, ends);
        good = set_of_tokens(&sets->all, order, count, n_tokens, scratch, error);
    }
    for (uint32_t t = 0; good && most && t <= most; t++) {
        size_t first = t ? ends[t - 1] : 0;
        good = set_of_tokens(&sets->levels[t], order + first, ends[t] - first, n_tokens, scratch,
                             error);
    }
    free(order);
    free(ends);
    if (!good) turn_sets_free(sets);
    return good;
}

void turn_sets_free(TurnSets *sets) {
    for (uint32_t t = 0; sets->levels && t < sets->n_levels; t++)
        set_free(&sets->levels[t]);
    free(sets->levels);
    set_free(&sets->all);
    *sets = (TurnSets){0};
}

size_t turn_sets_bytes(const TurnSets *sets, size_t n_tokens) {
    size_t bytes = set_bytes(&sets->all, n_tokens);
    for (uint32_t t = 0; sets->levels && t < sets->n_levels; t++)
        bytes += sizeof *sets->levels + set_bytes(&sets->levels[t], n_tokens);
    return bytes;
}

void turn_sets_add(const TurnSets *sets, uint32_t low, uint32_t high, uint64_t *mask,
                   size_t words) {
    if (low >= sets->n_levels) return;
    if (low == 0 && high >= sets->n_levels - 1) {
        set_add(&sets->all, mask, words);
        return;
    }
    for (uint32_t t = low; sets->levels && t < sets->n_levels && t <= high; t++)
        set_add(&sets->levels[t], mask, words);
}
