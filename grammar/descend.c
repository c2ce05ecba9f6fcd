// What is read below exits: by which bytes, by which of a state's places, and, where it is little,
// the tokens.
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

// Some nodes are read from several stacks: at most so many times most_read in all.
enum { MOST_DESCENTS = 2 };

// The bytes that a state reads, without finding the states behind them.
static ByteSet find_bytes(const Automaton *m, uint32_t state) {
    const Grammar *g = m->grammar;
    const State *s = &m->states.at[state];
    ByteSet set = {0};
    for (uint32_t i = 0; i < s->count; i++)
        byte_set_add(&set, &g->begins[(uint32_t)m->places.at[s->first + i]]);
    return set;
}

static bool find_grounds(Masks *k, uint32_t state, Look *look, Error *error) {
    size_t count;
    uint64_t *places = masks_places(k->automaton, state, &count, error);
    bool good = places;
    look->first = (uint32_t)k->grounds.count;
    for (size_t i = 0, n; good && i < count; i += n) {
        Ground ground = {.frame = (uint32_t)(places[i] >> 32)};
        Look own;
        n = masks_same_frame(places + i, count - i);
        good = masks_move(k->automaton, places + i, n, FRAME_BOTTOM, &ground.state, error) &&
               masks_look(k, ground.state, false, &own, error) && ARRAY_ROOM(&k->grounds, error);
        if (!good) break;
        ground.reads = own.reads;
        k->bytes += sizeof ground;
        k->grounds.at[k->grounds.count++] = ground;
    }
    look->n = (uint32_t)k->grounds.count - look->first;
    free(places);
    return good;
}

bool masks_look(Masks *k, uint32_t state, bool grounds, Look *look, Error *error) {
    while (k->looks.count <= state) {
        if (!ARRAY_ROOM(&k->looks, error)) return false;
        k->bytes += sizeof *k->looks.at;
        k->looks.at[k->looks.count++] = (Look){.first = NOT_KNOWN};
    }
    *look = k->looks.at[state];
    if (look->first == NOT_KNOWN) {
        look->reads = find_bytes(k->automaton, state);
        look->first = 0;
        k->looks.at[state] = *look;
    }
    if (!grounds || look->n) return true;
    if (!find_grounds(k, state, look, error)) return false;
    k->looks.at[state] = *look;
    return true;
}

bool exits_read(Masks *k, const Exits *e, uint32_t state, bool *any, Error *error) {
    Look look;
    if (!masks_look(k, state, false, &look, error)) return false;
    ByteSet bytes = byte_set_common(&look.reads, &e->bytes);
    *any = byte_set_take(&bytes) >= 0;
    return true;
}

uint64_t *exits_places(Masks *k, const Exits *e, uint32_t state, size_t *count, Error *error) {
    Look look;
    size_t all, from = 0;
    if (!masks_look(k, state, true, &look, error)) return NULL;
    uint64_t *places = masks_places(k->automaton, state, &all, error);
    *count = 0;
    for (uint32_t g = 0; places && g < look.n; g++) {
        size_t n = masks_same_frame(places + from, all - from);
        ByteSet bytes = byte_set_common(&k->grounds.at[look.first + g].reads, &e->bytes);
        bool reads = byte_set_take(&bytes) >= 0;
        if (reads) memmove(places + *count, places + from, n * sizeof *places);
        if (reads) *count += n;
        from += n;
    }
    return places;
}

bool exits_work(Masks *k, const Local *l, uint32_t low, uint32_t high, uint32_t state, size_t *work,
                Error *error) {
    const TrieNode *nodes = k->trie->nodes;
    const Exits *e = &l->exits;
    ByteSet bytes = e->bytes;
    Look look;
    *work = 0;
    if (state != NOT_KNOWN) {
        if (!masks_look(k, state, false, &look, error)) return false;
        bytes = byte_set_common(&look.reads, &bytes);
    }
    for (int byte; *work <= k->most_read && (byte = byte_set_take(&bytes)) >= 0;) {
        uint32_t i, end;
        exits_find(e, (uint8_t)byte, low, high, &i, &end);
        for (; i < end && *work <= k->most_read; i++)
            *work += nodes[e->nodes[i]].skip - e->nodes[i];
    }
    return true;
}

// ---- down a stack ----

// Below few exits tokens are read from places on the bottom, and where those end in a token, from
// where their frame is returned from. A text comes to ever new stacks, but not to ever new states
// on the bottom.
typedef struct Descent {
    Masks *masks; // whose `read` gets the tokens
    size_t n_read, most_read;
    Error *error;
} Descent;

static bool descend(Descent *d, uint32_t state, uint32_t first, uint32_t end);

static bool descend_from(Descent *d, Ground ground, uint32_t first, uint32_t end) {
    Masks *k = d->masks;
    const TrieNode *nodes = k->trie->nodes;
    k->path[trie_depth(&nodes[first]) - 1].state = ground.state;
    for (uint32_t i = first, to, below; i < end;) {
        uint32_t depth = trie_depth(&nodes[i]), next = nodes[i].skip;
        if (++d->n_read > d->most_read) return true;
        if (!automaton_move(k->automaton, k->path[depth - 1].state, (uint8_t)nodes[i].place, &to,
                            d->error))
            return false;
        if (to == STATE_DEAD) {
            i = next;
            continue;
        }
        for (uint32_t t = nodes[i].first; t < nodes[i + 1].first; t++) {
            if (k->read.count == k->read.capacity && !ARRAY_ROOM(&k->read, d->error)) return false;
            k->read.at[k->read.count++] = k->trie->ids[t];
        }
        if (i + 1 < next && ground.frame != FRAME_BOTTOM && k->automaton->states.at[to].ends &&
            (!automaton_return(k->automaton, ground.frame, &below, d->error) ||
             !descend(d, below, i + 1, next)))
            return false;
        k->path[depth].state = to;
        i++;
    }
    return true;
}

static bool has_byte(const ByteSet *set, uint8_t byte) {
    return set->bits[byte / 64] >> byte % 64 & 1;
}

static bool reads_any(const Trie *trie, const ByteSet *reads, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i = trie->nodes[i].skip)
        if (has_byte(reads, (uint8_t)trie->nodes[i].place)) return true;
    return false;
}

// The nodes first .. end - 1, siblings and all below them, from where a frame is returned from.
static bool descend(Descent *d, uint32_t state, uint32_t first, uint32_t end) {
    const Trie *trie = d->masks->trie;
    Look look;
    if (!masks_look(d->masks, state, false, &look, d->error)) return false;
    if (!reads_any(trie, &look.reads, first, end)) return true;
    if (!masks_look(d->masks, state, true, &look, d->error)) return false;
    for (uint32_t g = 0; g < look.n; g++) {
        Ground ground = d->masks->grounds.at[look.first + g];
        for (uint32_t i = first; i < end; i = trie->nodes[i].skip)
            if (has_byte(&ground.reads, (uint8_t)trie->nodes[i].place) &&
                !descend_from(d, ground, i, trie->nodes[i].skip))
                return false;
    }
    return true;
}

// Each of a state's grounds reads few of the bytes that exits go on with.
static bool descend_exits(Descent *d, const Exits *e, uint32_t low, uint32_t high, uint32_t state) {
    Look look;
    if (!masks_look(d->masks, state, true, &look, d->error)) return false;
    for (uint32_t g = 0; g < look.n; g++) {
        Ground ground = d->masks->grounds.at[look.first + g];
        ByteSet bytes = byte_set_common(&ground.reads, &e->bytes);
        for (int byte; (byte = byte_set_take(&bytes)) >= 0;) {
            uint32_t i, end;
            for (exits_find(e, (uint8_t)byte, low, high, &i, &end); i < end; i++) {
                uint32_t node = e->nodes[i];
                if (!descend_from(d, ground, node, d->masks->trie->nodes[node].skip)) return false;
            }
        }
    }
    return true;
}

// ---- what was read before ----

// Each token of a word leads to a new state, but its stacks are the same further down, and mostly
// its exits too: the same nodes would be read again from the same states. So the results are kept,
// in a cache with one place for each value of a hash.

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

bool descended_open(Masks *k, Error *error) {
    k->descended = malloc(DESCENDED * sizeof *k->descended);
    if (!k->descended) return no_memory(error);
    for (size_t i = 0; i < DESCENDED; i++)
        k->descended[i] = (Descended){.local = NOT_KNOWN};
    return true;
}

void descended_free(Masks *k) {
    for (size_t i = 0; k->descended && i < DESCENDED; i++)
        free(k->descended[i].ids);
    free(k->descended);
    free(k->read.at);
}

// The cache entry for these values; another's may be there.
static Descended *place_of(const Masks *k, const Descended *wanted) {
    const HashKey *key = &k->automaton->key;
    uint32_t turns = keyed_hash_pair(key, wanted->low, wanted->high);
    uint32_t hash = keyed_hash_pair(key, keyed_hash_pair(key, turns, wanted->local), wanted->state);
    return &k->descended[hash % DESCENDED];
}

// Replaces the entry.
static bool keep(Masks *k, Descended *place, Descended read, Error *error) {
    if (read.done && k->read.count) {
        read.count = k->read.count;
        read.ids = malloc(read.count * sizeof *read.ids);
        if (!read.ids) return no_memory(error);
        memcpy(read.ids, k->read.at, read.count * sizeof *read.ids);
    }
    k->bytes += read.count * sizeof *read.ids;
    k->bytes -= place->count * sizeof *place->ids;
    free(place->ids);
    *place = read;
    return true;
}

static void add_tokens(Masks *k, const uint32_t *ids, size_t count, uint64_t *mask) {
    k->work += count / 8;
    for (size_t i = 0; i < count; i++)
        mask[ids[i] / 64] |= (uint64_t)1 << ids[i] % 64;
}

bool exits_below(Masks *k, const Local *l, uint32_t low, uint32_t high, uint32_t state,
                 uint64_t *mask, bool *done, Error *error) {
    Descended read = {.local = l->index, .low = low, .high = high, .state = state};
    Descended *place = place_of(k, &read);
    if (place->local == read.local && place->low == low && place->high == high &&
        place->state == state) {
        add_tokens(k, place->ids, place->count, mask);
        *done = place->done;
        return true;
    }
    size_t work;
    if (!exits_work(k, l, low, high, state, &work, error)) return false;
    Descent d = {k, 0, MOST_DESCENTS * (k->most_read + 1), error};
    k->read.count = 0;
    if (work && work <= k->most_read && !descend_exits(&d, &l->exits, low, high, state))
        return false;
    k->work += d.n_read;
    *done = read.done = work <= k->most_read && d.n_read <= d.most_read;
    add_tokens(k, k->read.at, k->read.count, mask);
    return keep(k, place, read, error);
}
