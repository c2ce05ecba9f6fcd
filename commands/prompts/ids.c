// A set of ids that keeps 128 bits of hash of each and not the id: a million of them take 64 MB at
// most, however long they are. Two ids of one file are taken for equal with probability 2^-89 at a
// million, whoever chose them, since the hashes have keys of this process.
#include "commands/prompts/prompts.h"

#include <stdlib.h>

// The place of an entry, or of the free one where it belongs.
static size_t find(const IdSet *set, const uint64_t hash[2]) {
    size_t at = hash[0] & (set->room - 1);
    while (set->entries[at][1] &&
           (set->entries[at][0] != hash[0] || set->entries[at][1] != hash[1]))
        at = (at + 1) & (set->room - 1);
    return at;
}

// Doubles the table, so that at least half of it is free.
static bool grow(IdSet *set, Error *error) {
    IdSet larger = *set;
    larger.room = set->room ? 2 * set->room : 1024;
    larger.entries = calloc(larger.room, sizeof *larger.entries);
    if (!larger.entries)
        return error_set(error, ERROR_MEMORY, "no memory for the ids of %zu lines", set->count);
    for (size_t i = 0; i < set->room; i++) {
        if (!set->entries[i][1]) continue;
        uint64_t *to = larger.entries[find(&larger, set->entries[i])];
        to[0] = set->entries[i][0];
        to[1] = set->entries[i][1];
    }
    free(set->entries);
    *set = larger;
    return true;
}

bool id_set_add(IdSet *set, const void *bytes, size_t length, bool *is_new, Error *error) {
    if (!set->room) {
        // The second key is the first with its words in another order.
        HashKey key = hash_key();
        set->keys[0] = key;
        set->keys[1] = (HashKey){{key.words[1], key.words[0], key.words[2]}};
    }
    if (2 * set->count >= set->room && !grow(set, error)) return false;
    uint64_t hash[2] = {keyed_hash(&set->keys[0], bytes, length),
                        keyed_hash(&set->keys[1], bytes, length) | 1};
    uint64_t *entry = set->entries[find(set, hash)];
    *is_new = !entry[1];
    if (!*is_new) return true;
    entry[0] = hash[0];
    entry[1] = hash[1];
    set->count++;
    return true;
}

void id_set_free(IdSet *set) {
    free(set->entries);
    set->entries = NULL;
    set->count = set->room = 0;
}
