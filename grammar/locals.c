// What the tokens of a vocabulary do to the upper part of a stack, whatever is below it; each is
// found once. grammar/mask.c says what for.
//
// Most states are some of the same few places: in C the name that a keyword may still become is
// beside the rest of every keyword. Each place is read alone (grammar/walk.c), once, and what a
// state's tokens do is what those of any of its places do. So it is behind exits, too.
#include "grammar/masks.h"

#include <stdlib.h>
#include <string.h>

// Locals that are made of others that are made of others: more are read.
enum { MOST_NESTED = 64 };

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

// ---- what is gathered of a local whose stacks may end at the bottom ----

typedef struct Gathered {
    ARRAY(uint32_t) ids; // tokens, while they are few, and some of them twice
    bool many;           // masks->scratch alone has them
    ARRAY(Exit) exits;   // of parts, none twice
    ARRAY(uint32_t) parts;
} Gathered;

static void gathered_free(Gathered *g) {
    free(g->ids.at);
    free(g->exits.at);
    free(g->parts.at);
}

static bool add_tokens(Masks *k, Gathered *g, const uint32_t *ids, size_t count, Error *error) {
    k->work += count / 8;
    for (size_t i = 0; i < count; i++)
        k->scratch[ids[i] / 64] |= (uint64_t)1 << ids[i] % 64;
    for (size_t i = 0; i < count && !g->many; i++) {
        g->many = g->ids.count > mask_words(k->trie->n_tokens) / 4;
        if (!ARRAY_ROOM(&g->ids, error)) return false;
        g->ids.at[g->ids.count++] = ids[i];
    }
    return true;
}

static bool add_set(Masks *k, Gathered *g, const TurnSets *sets, Error *error) {
    if (!sets->all.mask) return add_tokens(k, g, sets->all.ids, sets->all.count, error);
    g->many = true;
    turn_sets_add(sets, 0, UINT32_MAX, k->scratch, mask_words(k->trie->n_tokens));
    k->work += mask_words(k->trie->n_tokens) / 16;
    return true;
}

// Where they are most tokens, the others cleared from all.
static bool add_spans(Masks *k, Gathered *g, const Reading *r, bool ordered, Error *error) {
    const Trie *t = k->trie;
    size_t allowed = 0, at = 0;
    for (size_t i = 0; i < r->spans.count; i++)
        allowed += r->spans.at[i].end - r->spans.at[i].first;
    if (!ordered || 2 * allowed <= t->n_ids) {
        for (size_t i = 0; i < r->spans.count; i++) {
            Span s = r->spans.at[i];
            if (!add_tokens(k, g, t->ids + s.first, s.end - s.first, error)) return false;
        }
        return true;
    }
    g->many = true;
    memcpy(k->scratch, k->all, mask_words(t->n_tokens) * sizeof *k->scratch);
    for (size_t i = 0; i <= r->spans.count; i++) {
        size_t first = i < r->spans.count ? r->spans.at[i].first : t->n_ids;
        for (; at < first; at++)
            k->scratch[t->ids[at] / 64] &= ~((uint64_t)1 << t->ids[at] % 64);
        if (i < r->spans.count) at = r->spans.at[i].end;
    }
    return true;
}

// Of all tokens below a node, whether masks->scratch has them.
static bool has_all_below(Masks *k, uint32_t node) {
    const Trie *t = k->trie;
    uint32_t first = t->nodes[node].first, end = t->nodes[t->nodes[node].skip].first, i = first;
    while (i < end && k->scratch[t->ids[i] / 64] >> t->ids[i] % 64 & 1)
        i++;
    k->work += (i - first) / 8;
    return i == end;
}

// Exits whose tokens may all come anyway are left out: in a text that a name or two may make up,
// nearly all of them.
static bool keep_exits(Masks *k, Local *l, Exit *exits, size_t count, Error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!has_all_below(k, exits[i].node)) exits[kept++] = exits[i];
    return exits_sort(&l->exits, k->trie, exits, kept, error);
}

// `good`: it is gathered. Either way masks->scratch is zero again.
static bool keep_gathered(Masks *k, Local *l, const Gathered *g, bool good, Exit *exits,
                          size_t n_exits, Error *error) {
    size_t n = k->trie->n_tokens, words = mask_words(n);
    good = good && keep_exits(k, l, exits, n_exits, error);
    if (good && g->many) good = turn_sets_of_mask(&l->stays, k->scratch, n, error);
    if (good && !g->many) good = turn_sets_of_ids(&l->stays, g->ids.at, g->ids.count, n, error);
    if (g->many || !good) memset(k->scratch, 0, words * sizeof *k->scratch);
    for (size_t i = 0; !g->many && i < g->ids.count; i++)
        k->scratch[g->ids.at[i] / 64] = 0;
    k->work += 2 * n_exits + (g->many ? words / 4 : g->ids.count);
    return good;
}

// ---- of one place ----

static bool keep_counted(Masks *k, Local *l, const Reading *r, Error *error) {
    size_t n = k->trie->n_tokens;
    k->work += mask_words(n) / 4;
    return exits_sort(&l->exits, k->trie, r->exits.at, r->exits.count, error) &&
           turn_sets_init(r->stays ? &l->stays : &l->leaves, r->found.at, r->found.count, n,
                          k->scratch, error);
}

static bool read_local(Masks *k, Local *l, Error *error) {
    bool ordered = l->key.parent == NOT_KNOWN;
    Gathered g = {0};
    Reading r;
    bool good = walk_local(k, l->key, &r, error);
    if (walk_counts(k, l->key.state))
        good = good && keep_counted(k, l, &r, error);
    else
        good = keep_gathered(k, l, &g, good && add_spans(k, &g, &r, ordered, error), r.exits.at,
                             r.exits.count, error);
    gathered_free(&g);
    reading_free(&r);
    return good;
}

// ---- of several ----

static bool add_exits(Masks *k, Gathered *g, const Exits *e, Error *error) {
    k->work += e->count / 4;
    for (size_t i = 0; i < e->count; i++) {
        uint32_t node = e->nodes[i];
        if (k->node_bits[node / 64] >> node % 64 & 1) continue;
        if (!ARRAY_ROOM(&g->exits, error)) return false;
        k->node_bits[node / 64] |= (uint64_t)1 << node % 64;
        g->exits.at[g->exits.count++] = (Exit){.node = node};
    }
    return true;
}

// Those that have exits, each once.
static bool add_parts(Masks *k, Gathered *g, const Local *l, Error *error) {
    for (size_t i = 0; i < (l->parts ? l->n_parts : l->exits.count > 0); i++) {
        uint32_t part = l->parts ? l->parts[i] : l->index;
        k->work += 1 + g->parts.count / 8;
        size_t at = 0;
        while (at < g->parts.count && g->parts.at[at] != part)
            at++;
        if (at < g->parts.count) continue;
        if (!ARRAY_ROOM(&g->parts, error)) return false;
        g->parts.at[g->parts.count++] = part;
    }
    return true;
}

// What a local is made of; `exits`: of those of the first member.
typedef struct Members {
    ARRAY(const Local *) at;
    bool exits;
} Members;

static bool add_member(Masks *k, Members *all, LocalKey key, Error *error) {
    const Local *member;
    if (!locals_find(k, key, &member, error)) return false;
    if (!member) return true;
    if (!ARRAY_ROOM(&all->at, error)) return false;
    all->at.at[all->at.count++] = member;
    return true;
}

// Of each place of a state.
static bool add_places(Masks *k, Members *all, LocalKey key, Error *error) {
    size_t count;
    uint64_t *places = masks_places(k->automaton, key.state, &count, error);
    bool good = places;
    for (size_t i = 0; good && !k->is_cut && i < count; i++)
        good = automaton_state(k->automaton, &places[i], 1, 0, &key.state, error) &&
               add_member(k, all, key, error);
    free(places);
    return good;
}

static uint32_t top_frame(const Automaton *m, uint32_t state) {
    return (uint32_t)(m->places.at[m->states.at[state].first] >> 32);
}

// Of a place alone, and behind it of what its frame returns to.
static bool add_below(Masks *k, Members *all, LocalKey key, Error *error) {
    Automaton *m = k->automaton;
    uint32_t frame = top_frame(m, key.state), returned;
    uint64_t place = (uint32_t)m->places.at[m->states.at[key.state].first];
    if (!automaton_state(m, &place, 1, 0, &key.state, error) || !add_member(k, all, key, error) ||
        !automaton_return(m, frame, &returned, error))
        return false;
    if (k->is_cut) return true;
    const Local *alone = all->at.at[0];
    LocalKey behind = {.parent = alone->index, .turns = NOT_KNOWN, .state = returned};
    all->exits = m->states.at[returned].ends;
    return !alone->exits.count || add_places(k, all, behind, error);
}

// Behind each part of the parent.
static bool add_behind(Masks *k, Members *all, LocalKey key, Error *error) {
    const Local *parent = k->locals.at[key.parent];
    for (size_t i = 0; !k->is_cut && i < parent->n_parts; i++) {
        key.parent = parent->parts[i];
        if (!add_member(k, all, key, error)) return false;
    }
    return true;
}

static bool gather(Masks *k, Gathered *g, const Members *all, Error *error) {
    bool good = true;
    for (size_t i = 0; good && i < all->at.count; i++)
        good = add_set(k, g, &all->at.at[i]->stays, error) &&
               ((!i && !all->exits) || add_parts(k, g, all->at.at[i], error));
    for (size_t i = 0; good && i < g->parts.count; i++)
        good = add_exits(k, g, &k->locals.at[g->parts.at[i]]->exits, error);
    for (size_t i = 0; i < g->exits.count; i++)
        k->node_bits[g->exits.at[i].node / 64] = 0;
    return good;
}

typedef bool Joining(Masks *masks, Members *all, LocalKey key, Error *error);

// NULL: it is to be read. What counts is read with its counts. Joins of joins may be as many as
// there are ways down a stack, so there are none where their work or memory has no other bound.
static Joining *joining_of(const Masks *k, LocalKey key) {
    const Automaton *m = k->automaton;
    const State *s = &m->states.at[key.state];
    if (walk_counts(k, key.state) || !s->count || k->n_nested > MOST_NESTED || !masks_may_join(k))
        return NULL;
    if (s->count > 1) return add_places;
    if (key.parent != NOT_KNOWN && k->locals.at[key.parent]->n_parts) return add_behind;
    uint32_t frame = top_frame(m, key.state);
    return frame != FRAME_BOTTOM && m->frames.at[frame].base == FRAME_BOTTOM ? add_below : NULL;
}

// Where the work is over before all members are found it is empty, and not to be kept.
static bool join_local(Masks *k, Local *l, Joining *joining, Error *error) {
    Members all = {.exits = true};
    Gathered g = {0};
    k->n_nested++;
    bool good = joining(k, &all, l->key, error);
    k->n_nested--;
    if (!k->is_cut) {
        good = good && gather(k, &g, &all, error);
        good = keep_gathered(k, l, &g, good, g.exits.at, g.exits.count, error);
    }
    l->parts = g.parts.at;
    l->n_parts = g.parts.count;
    g.parts.at = NULL;
    gathered_free(&g);
    free(all.at.at);
    return good;
}

static void local_clear(Local *l) {
    turn_sets_free(&l->stays);
    turn_sets_free(&l->leaves);
    exits_free(&l->exits);
    free(l->parts);
    l->parts = NULL;
    l->n_parts = 0;
}

static bool find_local(Masks *k, Local *l, Error *error) {
    if (!not_stopped(k->automaton->stop, error)) return false;
    if (k->bytes > LIMIT_GRAMMAR_MEMORY)
        return error_set(error, ERROR_FILE, "the grammar is too ambiguous: a token needs %d MiB",
                         LIMIT_GRAMMAR_MEMORY >> 20);
    Joining *joining = joining_of(k, l->key);
    bool good = joining ? join_local(k, l, joining, error) : read_local(k, l, error);
    if (!good) local_clear(l);
    k->bytes += sizeof *l + turn_sets_bytes(&l->stays, k->trie->n_tokens) +
                turn_sets_bytes(&l->leaves, k->trie->n_tokens) + exits_bytes(&l->exits) +
                l->n_parts * sizeof *l->parts;
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

// To make a local of several places takes longer than to ask each of them a few times, and most
// sets of places do not come again. Those that do are asked together then: on a text of ever new
// stacks they may be hundreds of places, and the same in each mask.
enum { ASKED_EACH = 1 << 12, MOST_ASKED_EACH = 4 };

bool locals_open(Masks *k, Error *error) {
    k->asked_each = calloc(ASKED_EACH, sizeof *k->asked_each);
    return k->asked_each || no_memory(error);
}

// Keys with the same hash are counted together.
static bool ask_each(Masks *k, LocalKey key) {
    if (k->joins || k->n_nested || joining_of(k, key) != add_places) return false;
    uint32_t hash = (uint32_t)hash_local(k, key);
    AskedEach *asked = &k->asked_each[hash % ASKED_EACH];
    if (asked->hash != hash) *asked = (AskedEach){.hash = hash};
    return asked->times++ < MOST_ASKED_EACH;
}

// What was too ambiguous before is so again.
static bool check_ambiguous(const Local *l, Error *error) {
    return !l->too_ambiguous ||
           error_set(error, ERROR_FILE, "the grammar is too ambiguous to find its masks");
}

// Behind exits that go on with none of the state's bytes.
static const Local NO_TOKENS = {.index = NOT_KNOWN};

bool locals_find(Masks *k, LocalKey key, const Local **local, Error *error) {
    *local = &NO_TOKENS;
    if (key.parent != NOT_KNOWN) {
        bool reads;
        if (!exits_read(k, &k->locals.at[key.parent]->exits, key.state, &reads, error))
            return false;
        if (!reads) return true;
    }
    if (!room_for_local(k, error)) return false;
    *local = NULL;
    for (size_t at = hash_local(k, key) & (k->local_buckets - 1); k->local_table[at];
         at = (at + 1) & (k->local_buckets - 1)) {
        Local *l = k->locals.at[k->local_table[at] - 1];
        if (l->key.parent == key.parent && l->key.turns == key.turns && l->key.state == key.state) {
            *local = l;
            k->n_asked += !l->was_asked;
            l->was_asked = true;
            return check_ambiguous(l, error);
        }
    }
    if (k->n_nested && masks_work(k) > k->work_end) k->is_cut = true;
    if (k->is_cut) return true;
    if (ask_each(k, key)) return true;
    Local *new = malloc(sizeof *new);
    if (!new) return no_memory(error);
    *new = (Local){.key = key, .was_asked = true};
    Error cause = {0};
    bool good = find_local(k, new, &cause), room = false;
    if (cause.code == ERROR_FILE) // else there may be time for it in another mask
        new->too_ambiguous = masks_work(k) <= k->refuse_end;
    if ((good || new->too_ambiguous) && !k->is_cut)
        room = ARRAY_ROOM(&k->locals, &cause) && room_for_local(k, &cause); // others came
    if (room) {
        new->index = (uint32_t)k->locals.count;
        k->locals.at[k->locals.count++] = new;
        enter_local(k, new);
        k->n_asked++;
        *local = new;
    } else {
        local_clear(new);
        free(new);
    }
    return (good && (room || k->is_cut)) || error_copy(error, &cause);
}

void locals_free(Masks *k) {
    for (size_t i = 0; i < k->locals.count; i++) {
        local_clear(k->locals.at[i]);
        free(k->locals.at[i]);
    }
    free(k->locals.at);
    free(k->asked_each);
    free(k->local_table);
}
