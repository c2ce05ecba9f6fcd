// Exits are many where a rule ends at every byte, as a name does, so they are kept small: by byte,
// since what is below a stack reads few bytes, and without turns where nothing counts them.
#include "grammar/masks.h"

#include <stdlib.h>

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

// A counting sort: each entry of `next` is where its turns begin, and ends up where they end.
static bool sort_by_turns(const Exit *found, size_t count, uint32_t most, Exit *sorted,
                          Error *error) {
    size_t *next = calloc((size_t)most + 2, sizeof *next);
    if (!next) return no_memory(error);
    for (size_t i = 0; i < count; i++)
        next[found[i].turns + 1]++;
    for (uint32_t t = 0; t <= most; t++)
        next[t + 1] += next[t];
    for (size_t i = 0; i < count; i++)
        sorted[next[found[i].turns]++] = found[i];
    free(next);
    return true;
}

static void sort_by_byte(Exits *e, const Trie *trie, const Exit *found) {
    uint32_t next[257] = {0};
    for (size_t i = 0; i < e->count; i++)
        next[(uint8_t)trie->nodes[found[i].node].place + 1]++;
    for (int byte = 0; byte < 256; byte++)
        next[byte + 1] += next[byte];
    for (int byte = 0; byte <= 256; byte++)
        e->first[byte] = next[byte];
    for (size_t i = 0; i < e->count; i++) {
        uint8_t byte = (uint8_t)trie->nodes[found[i].node].place;
        e->bytes.bits[byte / 64] |= (uint64_t)1 << byte % 64;
        uint32_t at = next[byte]++;
        e->nodes[at] = found[i].node;
        if (e->turns) e->turns[at] = found[i].turns;
    }
}

bool exits_sort(Exits *e, const Trie *trie, const Exit *found, size_t count, Error *error) {
    *e = (Exits){.count = count};
    if (!count) return true;
    for (size_t i = 0; i < count; i++) {
        if (found[i].turns > e->most_turns) e->most_turns = found[i].turns;
        e->levels |= (uint64_t)1 << (found[i].turns < 63 ? found[i].turns : 63);
    }
    Exit *by_turns = e->most_turns ? malloc(count * sizeof *by_turns) : NULL;
    e->nodes = malloc(count * sizeof *e->nodes);
    e->first = malloc(257 * sizeof *e->first);
    if (by_turns) e->turns = malloc(count * sizeof *e->turns);
    bool good = (e->nodes && e->first && (!e->most_turns || e->turns)) || no_memory(error);
    if (by_turns) good = good && sort_by_turns(found, count, e->most_turns, by_turns, error);
    if (good) sort_by_byte(e, trie, by_turns ? by_turns : found);
    free(by_turns);
    if (!good) exits_free(e);
    return good;
}

void exits_free(Exits *e) {
    free(e->nodes);
    free(e->turns);
    free(e->first);
    *e = (Exits){0};
}

size_t exits_bytes(const Exits *e) {
    return e->count * (e->turns ? 2 : 1) * sizeof *e->nodes +
           (e->first ? 257 * sizeof *e->first : 0);
}

// Of a byte's, the first with at least so many turns.
static uint32_t first_of(const Exits *e, uint8_t byte, uint32_t turns) {
    uint32_t low = e->first[byte], high = e->first[byte + 1];
    if (!turns || low == high) return low;
    if (turns > e->most_turns) return high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (e->turns[middle] < turns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void exits_find(const Exits *e, uint8_t byte, uint32_t low, uint32_t high, uint32_t *first,
                uint32_t *end) {
    *first = *end = 0;
    if (!e->count || low > e->most_turns) return;
    *first = first_of(e, byte, low);
    *end = high >= e->most_turns ? e->first[byte + 1] : first_of(e, byte, high + 1);
}
