// What the tokens of a vocabulary do to the upper part of a stack, whatever is below it: read from
// a state whose stacks end at the bottom. grammar/mask.c says what for.
//
// Of a repetition without bounds each token keeps its turns. Those that stay in it (FRAME_STAY)
// keep the fewest, since only the upper bound can refuse them: below the lower one it goes on. They
// are the most tokens, and the same whatever comes behind. Those that leave it (FRAME_OPEN) keep
// all the turns after which they can. They are few, and where nothing below a node of the trie
// leaves, nothing is read.
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

// A token may leave a repetition after many turns where the grammar is ambiguous: of all tokens
// and exits so many times as there are nodes in the trie. And so many places are followed for a
// repetition without bounds, some 20 ms; beyond, it keeps its bounds.
enum { MOST_LEAVES = 16, MOST_FOLLOWED = 1 << 18 };

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

static void set_bit(uint64_t *mask, uint32_t id) {
    mask[id / 64] |= (uint64_t)1 << id % 64;
}

// ---- reading tokens ----

typedef struct Span {
    uint32_t first, end;
} Span;

typedef struct Walk {
    Automaton *automaton;
    const Trie *trie;
    Step *path; // (depth + 1)
    uint64_t *mask;
    // of a Local; NULL: none
    Masks *masks;
    bool stays, opens;  // it is of a FRAME_STAY, a FRAME_OPEN
    size_t followed;    // places of the automaton before it
    size_t most_work;   // where it is of no Local
    uint32_t ever;      // of a FRAME_OPEN: where it begins without counting
    uint32_t looping;   // the newest state that a byte has led back to; STATE_DEAD
    uint64_t loops;     // by which kinds of characters
    size_t n_read;      // nodes of the trie
    ARRAY(Found) found; // of those two; else:
    ARRAY(Span) spans;  // of trie->ids
    ARRAY(Exit) exits;  // in any order
    Error *error;
} Walk;

// The tokens of a part of the trie may come.
static bool allow(Walk *w, uint32_t first, uint32_t end) {
    if (first == end || w->stays || w->opens) return true;
    if (w->masks) {
        if (w->spans.count && w->spans.at[w->spans.count - 1].end == first) {
            w->spans.at[w->spans.count - 1].end = end;
            return true;
        }
        if (!ARRAY_ROOM(&w->spans, w->error)) return false;
        w->spans.at[w->spans.count++] = (Span){first, end};
        return true;
    }
    for (uint32_t i = first; i < end; i++)
        set_bit(w->mask, w->trie->ids[i]);
    return true;
}

// The nodes one below are where tokens go on.
static bool add_exits(Walk *w, uint32_t node, uint32_t turns) {
    const TrieNode *nodes = w->trie->nodes;
    for (uint32_t i = node + 1; i < nodes[node].skip; i = nodes[i].skip) {
        if (w->exits.count == w->exits.capacity && !ARRAY_ROOM(&w->exits, w->error)) return false;
        w->exits.at[w->exits.count++] = (Exit){.node = i, .turns = turns};
    }
    return true;
}

static size_t work_of(const Walk *w) {
    size_t followed = w->automaton->n_followed - w->followed;
    return w->n_read + WORK_OF_PLACE * followed + w->found.count + 2 * w->exits.count;
}

static bool check_work(const Walk *w) {
    bool counts = w->stays || w->opens;
    return (counts ? w->automaton->n_followed - w->followed < MOST_FOLLOWED
                   : w->masks || work_of(w) <= w->most_work) ||
           error_set(w->error, ERROR_FILE, "the grammar is too ambiguous %s",
                     counts ? "without bounds" : "to read its tokens");
}

static bool check_leaves(const Walk *w) {
    size_t most = MOST_LEAVES * (w->trie->n_nodes + 64);
    return (w->found.count <= most && w->exits.count <= most) ||
           error_set(w->error, ERROR_FILE,
                     "the grammar is too ambiguous: tokens leave a repetition "
                     "in more than %zu ways",
                     most);
}

// What has left the repetition, and where that ends too.
static bool keep_left(Walk *w, uint32_t node, const State *s) {
    const TrieNode *n = &w->trie->nodes[node];
    const Automaton *m = w->automaton;
    uint32_t last = NOT_KNOWN;
    for (uint32_t at = 0; at < s->count; at++) {
        uint64_t place = m->places.at[s->first + at];
        const Frame *f = &m->frames.at[place >> 32];
        if (f->bottom != FRAME_LEFT) continue;
        for (uint32_t i = n->first; f->turns != last && i < n[1].first; i++) {
            if (w->found.count == w->found.capacity && !ARRAY_ROOM(&w->found, w->error))
                return false;
            w->found.at[w->found.count++] = (Found){w->trie->ids[i], f->turns};
        }
        last = f->turns;
        if ((uint32_t)place == NODE_THE_RETURN && !add_exits(w, node, f->turns)) return false;
    }
    return check_leaves(w);
}

static bool keep_found(Walk *w, uint32_t node, uint32_t state) {
    const TrieNode *n = &w->trie->nodes[node];
    const State *s = &w->automaton->states.at[state];
    for (uint32_t i = n->first; w->stays && i < n[1].first; i++) {
        if (w->found.count == w->found.capacity && !ARRAY_ROOM(&w->found, w->error)) return false;
        w->found.at[w->found.count++] = (Found){w->trie->ids[i], s->turns};
    }
    if (s->ends && !add_exits(w, node, 0)) return false;
    return !s->n_left || keep_left(w, node, s);
}

// What has left a repetition must not read on in what loops, nor end with it: such tokens have
// turns of their own.
static uint64_t without_left(const Automaton *m, uint32_t state, uint64_t loops) {
    State s = m->states.at[state];
    for (uint32_t i = 0; i < s.count; i++) {
        uint64_t place = m->places.at[s.first + i];
        const Node *n = &m->grammar->nodes.at[(uint32_t)place];
        if (m->frames.at[place >> 32].bottom != FRAME_LEFT) continue;
        if ((uint32_t)place == NODE_THE_RETURN) return LOOPS_KNOWN;
        for (const Edge *e = &m->grammar->edges.at[n->a], *end = e + n->b; e < end; e++) {
            for (int byte = e->low; byte <= e->high && byte < 0x80; byte++)
                loops &= ~((uint64_t)1 << trie_kind((uint8_t)byte));
            if (e->high >= 0x80) loops &= ~TRIE_OTHERS;
        }
    }
    return loops;
}

// Room for every state, as far as there are any.
static bool know_loops(Walk *w, uint32_t state, uint64_t *loops) {
    Masks *k = w->masks;
    while (k->loops.count < k->automaton->states.count) {
        if (!ARRAY_ROOM(&k->loops, w->error)) return false;
        k->loops.at[k->loops.count++] = 0;
    }
    *loops = k->loops.at[state];
    if (*loops) return true;
    if (!masks_loops(w->automaton, state, loops, w->error)) return false;
    *loops = k->loops.at[state] = without_left(w->automaton, state, *loops);
    return true;
}

// The step behind a byte. What is inside a character of the looping state will be in that state
// behind it, where the characters beyond ASCII loop.
static bool take_step(Walk *w, Step from, uint8_t byte, uint32_t to, Step *step) {
    *step = (Step){to, to, STATE_DEAD};
    if (!w->masks || w->stays) return true;
    if (w->opens && !automaton_move(w->automaton, from.ever, byte, &step->ever, w->error))
        return false;
    if (step->ever == from.ever && step->ever != w->looping) {
        if (!know_loops(w, step->ever, &w->loops)) return false;
        w->looping = step->ever;
    }
    bool inside = from.loop == w->looping && byte >= 0x80 && w->loops & TRIE_OTHERS;
    if (step->ever == w->looping || inside) step->loop = w->looping;
    return true;
}

// Reads the nodes first .. end - 1 of the trie, siblings and all below them, from a state. Where a
// byte cannot be read, all below it is passed over; and so is what loops, with its tokens allowed:
// exits there would only allow them again.
static bool walk(Walk *w, uint32_t state, uint32_t first, uint32_t end) {
    const TrieNode *nodes = w->trie->nodes;
    uint32_t ever = w->opens ? w->ever : state;
    if (first < end) w->path[trie_depth(&nodes[first]) - 1] = (Step){state, ever, STATE_DEAD};
    for (uint32_t i = first, to; i < end;) {
        uint32_t depth = trie_depth(&nodes[i]);
        w->n_read++;
        uint8_t byte = (uint8_t)nodes[i].place;
        Step from = w->path[depth - 1], *step = &w->path[depth];
        if (!automaton_move(w->automaton, from.state, byte, &to, w->error) || !check_work(w))
            return false;
        if (to == STATE_DEAD) {
            i = nodes[i].skip;
            continue;
        }
        if (!take_step(w, from, byte, to, step)) return false;
        bool loops = step->loop != STATE_DEAD && step->loop == w->looping &&
                     !(w->trie->kinds[i] & ~w->loops);
        uint32_t next = loops ? nodes[i].skip : i + 1;
        if (!allow(w, nodes[i].first, nodes[next].first) || (w->masks && !keep_found(w, i, to)))
            return false;
        i = next;
    }
    return true;
}

bool masks_walk(Automaton *automaton, const Trie *trie, uint32_t state, size_t *work,
                uint64_t *mask, Error *error) {
    Walk w = {.automaton = automaton,
              .trie = trie,
              .mask = mask,
              .followed = automaton->n_followed,
              .most_work = *work,
              .error = error};
    w.path = malloc((trie->depth + 1) * sizeof *w.path);
    bool good = w.path ? walk(&w, state, 1, (uint32_t)trie->n_nodes) : no_memory(error);
    size_t done = work_of(&w);
    *work -= done < *work ? done : *work;
    free(w.path);
    return good;
}

// ---- exits ----

static size_t nodes_below(const Trie *t, uint32_t node) {
    return t->nodes[node].skip - node;
}

// Two counting sorts: by turns, then by byte.
static bool sort_exits(Exits *e, const Trie *trie, const Exit *found, size_t count, Error *error) {
    *e = (Exits){0};
    if (!count) return true;
    for (size_t i = 0; i < count; i++)
        if (found[i].turns > e->most_turns) e->most_turns = found[i].turns;
    Exit *by_turns = malloc(count * sizeof *by_turns);
    size_t *ends = calloc((size_t)e->most_turns + 2, sizeof *ends);
    e->at = malloc((count + 1) * sizeof *e->at);
    e->first = calloc(257, sizeof *e->first);
    bool good = (by_turns && ends && e->at && e->first) || no_memory(error);
    if (good) {
        for (size_t i = 0; i < count; i++) {
            ends[found[i].turns + 1]++;
            e->levels |= (uint64_t)1 << (found[i].turns < 63 ? found[i].turns : 63);
            e->first[(uint8_t)trie->nodes[found[i].node].place + 1]++;
        }
        for (uint32_t t = 0; t <= e->most_turns; t++)
            ends[t + 1] += ends[t];
        for (int byte = 0; byte < 256; byte++)
            e->first[byte + 1] += e->first[byte];
        for (size_t i = 0; i < count; i++)
            by_turns[ends[found[i].turns]++] = found[i];
        uint32_t next[256];
        memcpy(next, e->first, sizeof next);
        for (size_t i = 0; i < count; i++)
            e->at[next[(uint8_t)trie->nodes[by_turns[i].node].place]++] = by_turns[i];
        size_t before = 0;
        for (size_t i = 0; i < count; i++) {
            e->at[i].before = before;
            before += nodes_below(trie, e->at[i].node);
        }
        e->at[count] = (Exit){.before = before};
        e->count = count;
    }
    free(by_turns);
    free(ends);
    return good;
}

// The first exit of this byte with at least so many turns.
static uint32_t exits_from(const Exits *e, int byte, uint32_t turns) {
    uint32_t low = e->first[byte], high = e->first[byte + 1];
    if (!turns || low == high) return low;
    if (turns > e->most_turns) return high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (e->at[middle].turns < turns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t exits_to(const Exits *e, int byte, uint32_t turns) {
    return turns >= e->most_turns ? e->first[byte + 1] : exits_from(e, byte, turns + 1);
}

// The bytes that a state reads, without finding the states behind them.
static void find_bytes(const Automaton *m, uint32_t state, bool reads[256]) {
    const Grammar *g = m->grammar;
    State s = m->states.at[state];
    memset(reads, false, 256);
    for (uint32_t i = 0; i < s.count; i++) {
        const Node *n = &g->nodes.at[(uint32_t)m->places.at[s.first + i]];
        for (const Edge *e = &g->edges.at[n->a], *end = e + n->b; e < end; e++)
            memset(reads + e->low, true, (size_t)(e->high - e->low) + 1);
    }
}

size_t exits_work(const Masks *k, const Local *l, uint32_t low, uint32_t high, uint32_t state) {
    const Exits *e = &l->exits;
    bool reads[256];
    size_t work = 0;
    if (low > e->most_turns) return 0;
    find_bytes(k->automaton, state, reads);
    for (int byte = 0; byte < 256; byte++) {
        if (!reads[byte] || e->first[byte] == e->first[byte + 1]) continue;
        uint32_t first = exits_from(e, byte, low), end = exits_to(e, byte, high);
        if (first < end) work += e->at[end].before - e->at[first].before;
    }
    return work;
}

static bool walk_exits(Walk *w, const Exits *e, uint32_t low, uint32_t high, uint32_t state) {
    bool reads[256];
    if (!e->count || low > e->most_turns) return true;
    find_bytes(w->automaton, state, reads);
    for (int byte = 0; byte < 256; byte++) {
        if (!reads[byte]) continue;
        for (uint32_t i = exits_from(e, byte, low), end = exits_to(e, byte, high); i < end; i++) {
            uint32_t node = e->at[i].node;
            if (!walk(w, state, node, w->trie->nodes[node].skip)) return false;
        }
    }
    return true;
}

bool exits_walk(Masks *k, const Local *l, uint32_t low, uint32_t high, uint32_t state,
                uint64_t *mask, Error *error) {
    Walk w = {.automaton = k->automaton,
              .trie = k->trie,
              .path = k->path,
              .mask = mask,
              .most_work = SIZE_MAX,
              .error = error};
    bool good = walk_exits(&w, &l->exits, low, high, state);
    k->work += w.n_read;
    return good;
}

// ---- locals ----

// The tokens of the spans: set, or, where they are in order and are the most, the others cleared
// from all.
static bool set_of_spans(Masks *k, TurnSets *sets, const Span *spans, size_t count, bool ordered,
                         Error *error) {
    const Trie *t = k->trie;
    size_t allowed = 0, at = 0, words = mask_words(t->n_tokens);
    for (size_t i = 0; i < count; i++)
        allowed += spans[i].end - spans[i].first;
    bool most = ordered && 2 * allowed > t->n_ids;
    if (most) memcpy(k->scratch, k->all, words * sizeof *k->scratch);
    for (size_t i = 0; i <= count; i++) {
        size_t first = i < count ? spans[i].first : t->n_ids;
        for (; most && at < first; at++)
            k->scratch[t->ids[at] / 64] &= ~((uint64_t)1 << t->ids[at] % 64);
        if (i == count) break;
        for (at = first; !most && at < spans[i].end; at++)
            set_bit(k->scratch, t->ids[at]);
        at = spans[i].end;
    }
    bool good = turn_sets_of_mask(sets, k->scratch, t->n_tokens, error);
    memset(k->scratch, 0, words * sizeof *k->scratch);
    return good;
}

// The frame that the places of a state end at.
static uint32_t bottom_of(const Automaton *m, uint32_t state) {
    const State *s = &m->states.at[state];
    return s->count ? m->frames.at[m->places.at[s->first] >> 32].bottom : 0;
}

static bool fill_local(Masks *k, Local *l, Walk *w, Error *error) {
    size_t n = k->trie->n_tokens;
    bool all = l->key.parent == NOT_KNOWN;
    const Exits *exits = all ? NULL : &k->locals.at[l->key.parent]->exits;
    uint32_t turns = l->key.turns, least = turns == NOT_KNOWN ? 0 : turns;
    bool read = all ? walk(w, l->key.state, 1, (uint32_t)k->trie->n_nodes)
                    : walk_exits(w, exits, least, turns, l->key.state);
    if (!read || !sort_exits(&l->exits, k->trie, w->exits.at, w->exits.count, error)) return false;
    if (w->stays)
        return turn_sets_init(&l->stays, w->found.at, w->found.count, n, k->scratch, error);
    if (w->opens)
        return turn_sets_init(&l->leaves, w->found.at, w->found.count, n, k->scratch, error);
    return set_of_spans(k, &l->stays, w->spans.at, w->spans.count, all, error);
}

static void local_clear(Local *l) {
    turn_sets_free(&l->stays);
    turn_sets_free(&l->leaves);
    free(l->exits.at);
    free(l->exits.first);
    l->exits = (Exits){0};
}

static bool find_local(Masks *k, Local *l, Error *error) {
    if (k->bytes > LIMIT_GRAMMAR_MEMORY)
        return error_set(error, ERROR_FILE, "the grammar is too ambiguous: a token needs %d MiB",
                         LIMIT_GRAMMAR_MEMORY >> 20);
    uint32_t bottom = bottom_of(k->automaton, l->key.state);
    Walk w = {.automaton = k->automaton,
              .trie = k->trie,
              .path = k->path,
              .masks = k,
              .stays = bottom & FRAME_STAY,
              .opens = bottom & FRAME_OPEN,
              .ever = l->key.ever,
              .followed = k->automaton->n_followed,
              .error = error};
    bool good = fill_local(k, l, &w, error);
    // A node that is kept takes longer; and a set is about as long as the vocabulary.
    k->work += w.n_read + w.found.count + 2 * w.exits.count + mask_words(k->trie->n_tokens) / 4;
    free(w.found.at);
    free(w.spans.at);
    free(w.exits.at);
    if (!good) local_clear(l);
    k->bytes += sizeof *l + turn_sets_bytes(&l->stays, k->trie->n_tokens) +
                turn_sets_bytes(&l->leaves, k->trie->n_tokens) +
                l->exits.count * sizeof *l->exits.at +
                (l->exits.at ? 257 * sizeof *l->exits.first : 0);
    return good;
}

// ---- their table ----

enum { FIRST_BUCKETS = 1 << 10 };

static size_t hash_local(const Masks *k, LocalKey key) {
    uint32_t above = keyed_hash_pair(&k->automaton->key, key.parent, key.turns);
    return keyed_hash_pair(&k->automaton->key, above, key.state);
}

static void enter_local(Masks *k, const Local *l) {
    size_t at = hash_local(k, l->key) & (k->local_buckets - 1);
    while (k->local_table[at])
        at = (at + 1) & (k->local_buckets - 1);
    k->local_table[at] = l->index + 1;
}

static bool room_for_local(Masks *k, Error *error) {
    if (2 * (k->locals.count + 1) < k->local_buckets) return true;
    size_t buckets = k->local_buckets ? 2 * k->local_buckets : FIRST_BUCKETS;
    uint32_t *larger = calloc(buckets, sizeof *larger);
    if (!larger) return no_memory(error);
    free(k->local_table);
    k->local_table = larger;
    k->local_buckets = buckets;
    for (size_t i = 0; i < k->locals.count; i++)
        enter_local(k, k->locals.at[i]);
    return true;
}

// What was too ambiguous before is so again.
static bool check_ambiguous(const Local *l, Error *error) {
    return !l->too_ambiguous ||
           error_set(error, ERROR_FILE, "the grammar is too ambiguous to find its masks");
}

bool locals_find(Masks *k, LocalKey key, const Local **local, Error *error) {
    if (!room_for_local(k, error) || !ARRAY_ROOM(&k->locals, error)) return false;
    for (size_t at = hash_local(k, key) & (k->local_buckets - 1); k->local_table[at];
         at = (at + 1) & (k->local_buckets - 1)) {
        Local *l = k->locals.at[k->local_table[at] - 1];
        *local = l;
        if (l->key.parent == key.parent && l->key.turns == key.turns && l->key.state == key.state) {
            k->n_asked += !l->was_asked;
            l->was_asked = true;
            return check_ambiguous(l, error);
        }
    }
    Local *new = malloc(sizeof *new);
    if (!new) return no_memory(error);
    *new = (Local){.key = key, .index = (uint32_t)k->locals.count, .was_asked = true};
    Error cause = {0};
    bool good = find_local(k, new, &cause);
    new->too_ambiguous = !good &&cause.code == ERROR_FILE;
    if (good || new->too_ambiguous) {
        k->locals.at[k->locals.count++] = new;
        enter_local(k, new);
        k->n_asked++;
        *local = new;
    } else {
        free(new);
    }
    return good || error_copy(error, &cause);
}

void locals_free(Masks *k) {
    for (size_t i = 0; i < k->locals.count; i++) {
        local_clear(k->locals.at[i]);
        free(k->locals.at[i]);
    }
    free(k->locals.at);
    free(k->local_table);
}
