// What tokens do to the upper part of a stack: read from a state whose stacks end at the bottom.
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

// Whether a state loops is found by moves with all bytes, which takes as long as to read so many
// nodes.
enum { MANY_BELOW = 256 };

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the masks of a grammar");
}

static void set_bit(uint64_t *mask, uint32_t id) {
    mask[id / 64] |= (uint64_t)1 << id % 64;
}

// ---- reading tokens ----

typedef struct Walk {
    Automaton *automaton;
    const Trie *trie;
    Step *path; // (depth + 1)
    uint64_t *mask;
    // of a Local; NULL: none
    Masks *masks;
    bool stays, opens; // it is of a FRAME_STAY, a FRAME_OPEN
    Reading out;
    uint64_t *kept;   // masks->node_bits of the exits; NULL: they have turns
    uint64_t *walked; // masks->walked; NULL: no node is read twice
    ByteSet follows;  // bytes that exits may go on with
    uint32_t ever;    // of a FRAME_OPEN: where it begins without counting
    uint32_t looping; // the newest state that a byte has led back to; STATE_DEAD
    uint64_t loops;   // by which kinds of characters
    size_t followed;  // places of the automaton before it
    size_t most_work;
    size_t n_read; // nodes of the trie
    Error *error;
} Walk;

// The tokens of a part of the trie may come.
static bool allow(Walk *w, uint32_t first, uint32_t end) {
    if (first == end || w->stays || w->opens) return true;
    if (w->masks) {
        if (w->out.spans.count && w->out.spans.at[w->out.spans.count - 1].end == first) {
            w->out.spans.at[w->out.spans.count - 1].end = end;
            return true;
        }
        if (!ARRAY_ROOM(&w->out.spans, w->error)) return false;
        w->out.spans.at[w->out.spans.count++] = (Span){first, end};
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
        uint8_t byte = (uint8_t)nodes[i].place;
        if (!(w->follows.bits[byte / 64] >> byte % 64 & 1)) continue;
        if (w->kept && w->kept[i / 64] >> i % 64 & 1) continue;
        if (w->out.exits.count == w->out.exits.capacity && !ARRAY_ROOM(&w->out.exits, w->error))
            return false;
        if (w->kept) set_bit(w->kept, i);
        w->out.exits.at[w->out.exits.count++] = (Exit){.node = i, .turns = turns};
    }
    return true;
}

static size_t work_of(const Walk *w) {
    size_t followed = w->automaton->n_followed - w->followed;
    return w->n_read + WORK_OF_PLACE * followed + w->out.found.count + 2 * w->out.exits.count;
}

static bool check_work(const Walk *w) {
    bool counts = w->stays || w->opens;
    return (counts ? w->automaton->n_followed - w->followed < MOST_FOLLOWED
                   : work_of(w) <= w->most_work) ||
           error_set(w->error, ERROR_FILE, "the grammar is too ambiguous %s",
                     counts ? "without bounds" : "to read its tokens");
}

static bool check_leaves(const Walk *w) {
    size_t most = MOST_LEAVES * (w->trie->n_nodes + 64);
    return (w->out.found.count <= most && w->out.exits.count <= most) ||
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
            if (w->out.found.count == w->out.found.capacity && !ARRAY_ROOM(&w->out.found, w->error))
                return false;
            w->out.found.at[w->out.found.count++] = (Found){w->trie->ids[i], f->turns};
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
        if (w->out.found.count == w->out.found.capacity && !ARRAY_ROOM(&w->out.found, w->error))
            return false;
        w->out.found.at[w->out.found.count++] = (Found){w->trie->ids[i], s->turns};
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
    Error cause = {0};
    *loops = LOOPS_KNOWN; // what is too ambiguous is read
    if (!masks_loops(w->automaton, state, loops, &cause) && cause.code != ERROR_FILE)
        return error_copy(w->error, &cause);
    *loops = k->loops.at[state] = without_left(w->automaton, state, *loops);
    return true;
}

// The step behind the byte of a node; below: how many nodes it and its subtree are. What is inside
// a character of the looping state will be in that state behind it, where the characters beyond
// ASCII loop.
static bool take_step(Walk *w, Step from, uint8_t byte, uint32_t below, uint32_t to, Step *step) {
    *step = (Step){to, to, STATE_DEAD};
    if (!w->masks || w->stays) return true;
    if (w->opens && !automaton_move(w->automaton, from.ever, byte, &step->ever, w->error))
        return false;
    if (step->ever == from.ever && step->ever != w->looping && below >= MANY_BELOW) {
        if (!know_loops(w, step->ever, &w->loops)) return false;
        w->looping = step->ever;
    }
    bool inside = from.loop == w->looping && byte >= 0x80 && w->loops & TRIE_OTHERS;
    if (step->ever == w->looping || inside) step->loop = w->looping;
    return true;
}

// Behind several exits a walk may come to a node again, and in the same state all below it is
// known.
static bool was_here(const Walk *w, uint32_t node, uint32_t state) {
    if (!w->walked) return false;
    uint64_t here = (uint64_t)w->masks->walk << 32 | state;
    bool was = w->walked[node] == here;
    w->walked[node] = here;
    return was;
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
        if (to == STATE_DEAD || was_here(w, i, to)) {
            i = nodes[i].skip;
            continue;
        }
        if (!take_step(w, from, byte, nodes[i].skip - i, to, step)) return false;
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

static bool walk_exits(Walk *w, Masks *k, const Exits *e, uint32_t low, uint32_t high,
                       uint32_t state) {
    Look look;
    if (!masks_look(k, state, false, &look, w->error)) return false;
    ByteSet bytes = byte_set_common(&look.reads, &e->bytes);
    for (int byte; (byte = byte_set_take(&bytes)) >= 0;) {
        uint32_t i, end;
        for (exits_find(e, (uint8_t)byte, low, high, &i, &end); i < end; i++) {
            uint32_t node = e->nodes[i];
            if (!walk(w, state, node, w->trie->nodes[node].skip)) return false;
        }
    }
    return true;
}

static size_t work_left(const Masks *k) {
    size_t done = masks_work(k);
    return done < k->refuse_end ? k->refuse_end - done : 0;
}

bool exits_walk(Masks *k, const Local *l, uint32_t low, uint32_t high, uint32_t state,
                uint64_t *mask, Error *error) {
    Walk w = {.automaton = k->automaton,
              .trie = k->trie,
              .path = k->path,
              .mask = mask,
              .followed = k->automaton->n_followed,
              .most_work = work_left(k),
              .error = error};
    bool good = walk_exits(&w, k, &l->exits, low, high, state);
    k->work += w.n_read;
    return good;
}

// ---- of a local ----

static uint32_t bottom_of(const Automaton *m, uint32_t state) {
    const State *s = &m->states.at[state];
    return s->count ? m->frames.at[m->places.at[s->first] >> 32].bottom : 0;
}

bool walk_counts(const Masks *k, uint32_t state) {
    return bottom_of(k->automaton, state);
}

static bool walk_behind(Walk *w, LocalKey key) {
    Masks *k = w->masks;
    w->walked = w->stays || w->opens ? NULL : k->walked;
    if (!++k->walk) { // the numbers of 2^32 walks are used up
        memset(k->walked, 0, k->trie->n_nodes * sizeof *k->walked);
        k->walk = 1;
    }
    return walk_exits(w, k, &k->locals.at[key.parent]->exits,
                      key.turns == NOT_KNOWN ? 0 : key.turns, key.turns, key.state);
}

bool walk_local(Masks *k, LocalKey key, Reading *out, Error *error) {
    uint32_t bottom = bottom_of(k->automaton, key.state);
    Walk w = {.automaton = k->automaton,
              .trie = k->trie,
              .path = k->path,
              .masks = k,
              .stays = bottom & FRAME_STAY,
              .out = {.stays = bottom & FRAME_STAY},
              .opens = bottom & FRAME_OPEN,
              .kept = bottom ? NULL : k->node_bits,
              .ever = key.ever,
              .followed = k->automaton->n_followed,
              .most_work = work_left(k),
              .error = error};
    bool good = automaton_follows(k->automaton, key.state, &w.follows, error);
    if (key.parent == NOT_KNOWN)
        good = good && walk(&w, key.state, 1, (uint32_t)k->trie->n_nodes);
    else
        good = good && walk_behind(&w, key);
    for (size_t i = 0; w.kept && i < w.out.exits.count; i++)
        w.kept[w.out.exits.at[i].node / 64] = 0;
    k->work += w.n_read + w.out.found.count + 2 * w.out.exits.count; // to keep one takes longer
    *out = w.out;
    return good;
}

void reading_free(Reading *r) {
    free(r->found.at);
    free(r->spans.at);
    free(r->exits.at);
    *r = (Reading){0};
}
