// A state is found in three steps: the places behind a byte, what follows them without reading
// (todo -> found), the number of that set. automaton.h draws what it is made of.
//
// Right recursion does not deepen a stack: a call whose rule ends behind it passes its own frame
// on.
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

// Tables that seldom grow, since that is time within one token: memory that is not used is not
// touched either.
enum { FIRST_BUCKETS = 1 << 14, FIRST_SEEN = 1024, FIRST_STATES = 1 << 13 };

static uint64_t place_of(uint32_t frame, uint32_t node) {
    return (uint64_t)frame << 32 | node;
}

static bool no_memory(Error *error) {
    return error_set(error, ERROR_MEMORY, "no memory for the states of a grammar");
}

static bool check_memory(const Automaton *m, Error *error) {
    return automaton_bytes(m) <= LIMIT_GRAMMAR_MEMORY ||
           error_set(error, ERROR_FILE, "the grammar is too ambiguous: a token needs %d MiB",
                     LIMIT_GRAMMAR_MEMORY >> 20);
}

// ---- numbers of frames and states ----

static size_t hash_frame(const Automaton *m, Frame f) {
    uint32_t above = keyed_hash_pair(&m->key, f.node, f.count);
    return keyed_hash_pair(&m->key, above, f.below);
}

static size_t hash_state(const Automaton *m, const uint64_t *places, size_t count, uint32_t ends) {
    return (size_t)keyed_hash(&m->key, places, count * sizeof *places) ^ ends;
}

// Twice the buckets, where half of them are in use.
static bool grow_table(uint32_t **table, size_t *buckets, size_t count, bool *grown, Error *error) {
    *grown = 2 * count >= *buckets;
    if (!*grown) return true;
    uint32_t *larger = calloc(2 * *buckets, sizeof *larger);
    if (!larger) return no_memory(error);
    free(*table);
    *table = larger;
    *buckets *= 2;
    return true;
}

static void enter(uint32_t *table, size_t buckets, size_t hash, uint32_t index) {
    size_t at = hash & (buckets - 1);
    while (table[at])
        at = (at + 1) & (buckets - 1);
    table[at] = index + 1;
}

// From the return to this frame to the return to the one below: the bodies that a COUNT still
// wants, and what is behind the node.
static uint32_t own_needs(const Automaton *m, Frame f) {
    const Node *nodes = m->grammar->nodes.at, *n = &nodes[f.node];
    bool wants = n->kind == NODE_COUNT && f.count < n->least;
    uint32_t bodies = wants ? bytes_times(nodes[n->a].shortest, n->least - f.count) : 0;
    return bytes_plus(nodes[n->b].shortest, bodies);
}

// With what it has of the frames below.
static Frame know_below(const Automaton *m, Frame f, uint32_t index) {
    bool counts_turns = f.node & FRAME_KINDS;
    f.returned = NOT_KNOWN;
    f.bottom = counts_turns ? f.node : 0;
    f.turns = counts_turns ? f.count : 0;
    f.base = index;
    if (index == FRAME_BOTTOM || counts_turns) return f;
    const Frame *below = &m->frames.at[f.below];
    f.bottom = below->bottom;
    f.turns = below->turns;
    if (f.node == FRAME_UNION || m->grammar->nodes.at[f.node].kind == NODE_CALL)
        f.base = below->base;
    if (f.node != FRAME_UNION)
        f.needs = bytes_plus(below->needs, own_needs(m, f));
    else
        f.needs =
            below->needs < m->frames.at[f.count].needs ? below->needs : m->frames.at[f.count].needs;
    return f;
}

bool automaton_frame(Automaton *m, Frame f, uint32_t *index, Error *error) {
    size_t hash = hash_frame(m, f);
    for (size_t at = hash & (m->frame_buckets - 1); m->frame_table[at];
         at = (at + 1) & (m->frame_buckets - 1)) {
        *index = m->frame_table[at] - 1;
        const Frame *g = &m->frames.at[*index];
        if (g->node == f.node && g->count == f.count && g->below == f.below) return true;
    }
    if (!check_memory(m, error)) return false;
    bool grown;
    if (!ARRAY_ROOM(&m->frames, error) ||
        !grow_table(&m->frame_table, &m->frame_buckets, m->frames.count, &grown, error))
        return false;
    for (uint32_t i = 1; grown && i < m->frames.count; i++)
        enter(m->frame_table, m->frame_buckets, hash_frame(m, m->frames.at[i]), i);
    *index = (uint32_t)m->frames.count++;
    m->frames.at[*index] = know_below(m, f, *index);
    enter(m->frame_table, m->frame_buckets, hash, *index);
    return true;
}

static const uint64_t *places_of(const Automaton *m, uint32_t state) {
    const State *s = &m->states.at[state];
    return s->count ? m->places.at + s->first : NULL;
}

// A row of moves for each state there is room for.
static bool room_for_moves(Automaton *m, Error *error) {
    if (m->states.count < m->moves_capacity) return true;
    size_t capacity = m->states.capacity, width = m->grammar->n_classes;
    if (capacity < FIRST_STATES) capacity = FIRST_STATES;
    uint32_t *moves = realloc(m->moves, capacity * width * sizeof *moves);
    if (!moves) return no_memory(error);
    m->moves = moves;
    m->moves_capacity = capacity;
    return true;
}

bool automaton_state(Automaton *m, const uint64_t *places, size_t count, uint32_t ends,
                     uint32_t *state, Error *error) {
    size_t hash = hash_state(m, places, count, ends);
    for (size_t at = hash & (m->state_buckets - 1); m->state_table[at];
         at = (at + 1) & (m->state_buckets - 1)) {
        *state = m->state_table[at] - 1;
        const State *s = &m->states.at[*state];
        if (s->count == count && s->ends == ends &&
            (!count || !memcmp(places_of(m, *state), places, count * sizeof *places)))
            return true;
    }
    if (!check_memory(m, error)) return false;
    bool grown;
    if (!ARRAY_ROOM(&m->states, error) || !room_for_moves(m, error) ||
        !grow_table(&m->state_table, &m->state_buckets, m->states.count, &grown, error))
        return false;
    for (uint32_t i = 0; grown && i < m->states.count; i++)
        enter(m->state_table, m->state_buckets,
              hash_state(m, places_of(m, i), m->states.at[i].count, m->states.at[i].ends), i);
    *state = (uint32_t)m->states.count;
    State new = {.first = (uint32_t)m->places.count,
                 .count = (uint32_t)count,
                 .ends = ends,
                 .turns = NOT_KNOWN};
    for (size_t i = 0; i < count; i++) {
        if (!ARRAY_ROOM(&m->places, error)) return false;
        m->places.at[m->places.count++] = places[i];
        const Frame *f = &m->frames.at[places[i] >> 32];
        bool left = f->bottom == FRAME_LEFT;
        new.n_left += left;
        if (!left && f->turns < new.turns) new.turns = f->turns;
    }
    m->states.at[m->states.count++] = new;
    for (size_t i = 0; i < m->grammar->n_classes; i++)
        m->moves[*state * m->grammar->n_classes + i] = NOT_KNOWN;
    enter(m->state_table, m->state_buckets, hash, *state);
    return true;
}

// ---- what follows without reading a byte ----

static bool is_new(Automaton *m, uint64_t place, bool *new, Error *error);

static bool grow_seen(Automaton *m, Error *error) {
    Automaton old = *m;
    bool new;
    m->seen_size *= 2;
    m->seen = malloc(m->seen_size * sizeof *m->seen);
    m->stamps = calloc(m->seen_size, sizeof *m->stamps);
    if (!m->seen || !m->stamps) {
        free(m->seen);
        free(m->stamps);
        m->seen = old.seen;
        m->stamps = old.stamps;
        m->seen_size = old.seen_size;
        return no_memory(error);
    }
    m->n_seen = 0;
    for (size_t i = 0; i < old.seen_size; i++)
        if (old.stamps[i] == m->stamp) is_new(m, old.seen[i], &new, error);
    free(old.seen);
    free(old.stamps);
    return true;
}

static bool is_new(Automaton *m, uint64_t place, bool *new, Error *error) {
    if (2 * m->n_seen >= m->seen_size && !grow_seen(m, error)) return false;
    size_t at = keyed_hash_pair(&m->key, (uint32_t)(place >> 32), (uint32_t)place);
    for (at &= m->seen_size - 1; m->stamps[at] == m->stamp; at = (at + 1) & (m->seen_size - 1))
        if (m->seen[at] == place) {
            *new = false;
            return true;
        }
    m->seen[at] = place;
    m->stamps[at] = m->stamp;
    m->n_seen++;
    *new = true;
    return true;
}

// Of nodes whose end cannot be reached there is none.
bool automaton_add(Automaton *m, uint32_t node, uint32_t frame, Error *error) {
    bool new;
    if (!m->grammar->nodes.at[node].alive) return true;
    if (!is_new(m, place_of(frame, node), &new, error)) return false;
    if (!new) return true;
    if (m->n_seen > LIMIT_GRAMMAR_POSITIONS)
        return error_set(error, ERROR_FILE,
                         "the grammar is too ambiguous: a text may be at more than %d places of it",
                         LIMIT_GRAMMAR_POSITIONS);
    if (!ARRAY_ROOM(&m->todo, error)) return false;
    m->todo.at[m->todo.count++] = place_of(frame, node);
    return true;
}

static bool refuse_stacks(Error *error) {
    return error_set(error, ERROR_FILE,
                     "the grammar is too ambiguous: a text may be on more than %d stacks of it",
                     LIMIT_GRAMMAR_STACKS);
}

// A body that may be empty could be begun again and again without reading. With a lower count all
// is allowed that is with a higher one, since its least is 0; so only lower ones go on.
static bool is_least(Automaton *m, Frame f, bool *least, Error *error) {
    *least = true;
    for (size_t i = 0; i < m->counted.count; i++) {
        Frame *g = &m->counted.at[i];
        if (g->node != f.node || g->below != f.below) continue;
        *least = f.count < g->count;
        if (*least) g->count = f.count;
        return true;
    }
    if (m->counted.count == LIMIT_GRAMMAR_STACKS) return refuse_stacks(error);
    if (!ARRAY_ROOM(&m->counted, error)) return false;
    m->counted.at[m->counted.count++] = f;
    return true;
}

// The body in this frame.
static bool begin_in(Automaton *m, uint32_t body, Frame f, Error *error) {
    uint32_t frame;
    if (m->grammar->nodes.at[body].empty) {
        bool least;
        if (!is_least(m, f, &least, error)) return false;
        if (!least) return true;
    }
    return automaton_frame(m, f, &frame, error) && automaton_add(m, body, frame, error);
}

// The body of a COUNT node for the count-th time. Without an upper bound counts end at the lower
// one.
static bool begin_body(Automaton *m, uint32_t index, uint32_t count, uint32_t below, Error *error) {
    const Node *n = &m->grammar->nodes.at[index];
    if (n->most == UNBOUNDED && count > n->least) count = n->least;
    return begin_in(m, n->a, (Frame){.node = index, .count = count, .below = below}, error);
}

// Of the frames that stand on the bottom.
static bool leave_open(Automaton *m, Frame f, Error *error) {
    const Node *n = &m->grammar->nodes.at[f.node & ~FRAME_KINDS];
    Frame above = {.node = FRAME_LEFT, .count = f.count, .below = FRAME_BOTTOM};
    uint32_t left;
    if (!automaton_frame(m, above, &left, error) || !automaton_add(m, n->b, left, error))
        return false;
    f.count += f.node & FRAME_OPEN ? 1 : 0;
    return begin_in(m, n->a, f, error);
}

static bool keep_place(Automaton *m, uint64_t place, Error *error) {
    if (!ARRAY_ROOM(&m->found, error)) return false;
    m->found.at[m->found.count++] = place;
    return true;
}

static bool leave(Automaton *m, uint32_t frame, Error *error) {
    Frame f = m->frames.at[frame];
    if (frame == FRAME_BOTTOM) m->ends = 1;
    if (frame == FRAME_BOTTOM) return true;
    if (f.node & FRAME_STAY && !keep_place(m, place_of(frame, NODE_THE_RETURN), error))
        return false;
    if (f.node == FRAME_LEFT) return true;
    if (f.node & FRAME_STAY) {
        uint32_t body = f.node & ~FRAME_KINDS;
        f.count++;
        return begin_in(m, body, f, error);
    }
    if (f.node & FRAME_KINDS) return leave_open(m, f, error);
    if (f.node == FRAME_UNION)
        return automaton_add(m, NODE_THE_RETURN, f.count, error) &&
               automaton_add(m, NODE_THE_RETURN, f.below, error);
    const Node *n = &m->grammar->nodes.at[f.node];
    if (n->kind == NODE_CALL) return automaton_add(m, n->b, f.below, error);
    if (f.count >= n->least && !automaton_add(m, n->b, f.below, error)) return false;
    return f.count >= n->most || begin_body(m, f.node, f.count + 1, f.below, error);
}

static bool call(Automaton *m, uint32_t index, uint32_t frame, Error *error) {
    const Node *n = &m->grammar->nodes.at[index];
    uint32_t above = frame;
    if (n->b != NODE_THE_RETURN &&
        !automaton_frame(m, (Frame){.node = index, .below = frame}, &above, error))
        return false;
    return automaton_add(m, m->grammar->starts[n->a], above, error);
}

static bool follow(Automaton *m, uint64_t place, Error *error) {
    uint32_t index = (uint32_t)place, frame = (uint32_t)(place >> 32);
    const Node *n = &m->grammar->nodes.at[index];
    m->n_followed++;
    switch (n->kind) {
    case NODE_RETURN: return leave(m, frame, error);
    case NODE_SPLIT:
        return automaton_add(m, n->a, frame, error) && automaton_add(m, n->b, frame, error);
    case NODE_CALL: return call(m, index, frame, error);
    case NODE_COUNT:
        return (n->least || automaton_add(m, n->b, frame, error)) &&
               (!n->most || begin_body(m, index, 1, frame, error));
    default: return keep_place(m, place, error);
    }
}

static int compare_places(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool automaton_begin_search(Automaton *m, Error *error) {
    m->todo.count = m->found.count = m->counted.count = m->n_seen = 0;
    m->ends = 0;
    if (!++m->stamp) { // the stamps of 2^32 searches are used up
        memset(m->stamps, 0, m->seen_size * sizeof *m->stamps);
        m->stamp = 1;
    }
    return not_stopped(m->stop, error);
}

// Each stack is looked at by itself, and those of repetitions, which are not shared, may double at
// every byte.
static bool check_stacks(const Automaton *m, Error *error) {
    int stacks = 0;
    for (size_t i = 0; i < m->found.count; i++)
        stacks += !i || m->found.at[i] >> 32 != m->found.at[i - 1] >> 32;
    return stacks <= LIMIT_GRAMMAR_STACKS || refuse_stacks(error);
}

static bool end_search(Automaton *m, uint32_t *state, Error *error) {
    while (m->todo.count)
        if (!follow(m, m->todo.at[--m->todo.count], error)) return false;
    if (!automaton_share(m, m->found.at, &m->found.count, error)) return false;
    if (m->found.count > 1) qsort(m->found.at, m->found.count, sizeof *m->found.at, compare_places);
    return check_stacks(m, error) &&
           automaton_state(m, m->found.at, m->found.count, m->ends, state, error);
}

bool automaton_start(Automaton *m, uint32_t *state, Error *error) {
    return automaton_begin_search(m, error) &&
           automaton_add(m, m->grammar->start, FRAME_BOTTOM, error) && end_search(m, state, error);
}

bool automaton_return(Automaton *m, uint32_t frame, uint32_t *state, Error *error) {
    *state = m->frames.at[frame].returned;
    if (*state != NOT_KNOWN) return true;
    if (!automaton_begin_search(m, error) || !automaton_add(m, NODE_THE_RETURN, frame, error) ||
        !end_search(m, state, error))
        return false;
    m->frames.at[frame].returned = *state;
    return true;
}

bool automaton_find_move(Automaton *m, uint32_t from, uint8_t class, Error *error) {
    const Grammar *g = m->grammar;
    uint8_t byte = m->byte_of[class];
    State s = m->states.at[from];
    uint32_t to;
    if (!automaton_begin_search(m, error)) return false;
    for (uint32_t i = 0; i < s.count; i++) {
        uint64_t place = m->places.at[s.first + i];
        const Node *n = &g->nodes.at[(uint32_t)place];
        for (const Edge *e = &g->edges.at[n->a], *end = e + n->b; e < end; e++)
            if (e->low <= byte && byte <= e->high &&
                !automaton_add(m, e->to, (uint32_t)(place >> 32), error))
                return false;
    }
    if (!end_search(m, &to, error)) return false;
    m->moves[from * g->n_classes + class] = to;
    return true;
}

// ---- lifetime ----

bool automaton_open(Automaton *m, const Grammar *grammar, const int *stop, Error *error) {
    uint32_t dead, bottom;
    *m = (Automaton){.grammar = grammar,
                     .stop = stop,
                     .frame_buckets = FIRST_BUCKETS,
                     .state_buckets = FIRST_BUCKETS,
                     .seen_size = FIRST_SEEN,
                     .key = hash_key()};
    m->frame_table = calloc(FIRST_BUCKETS, sizeof *m->frame_table);
    m->state_table = calloc(FIRST_BUCKETS, sizeof *m->state_table);
    m->seen = malloc(FIRST_SEEN * sizeof *m->seen);
    m->stamps = calloc(FIRST_SEEN, sizeof *m->stamps);
    if (!m->frame_table || !m->state_table || !m->seen || !m->stamps) return no_memory(error);
    for (int byte = 0; byte < 256; byte++)
        m->byte_of[grammar->classes[byte]] = (uint8_t)byte;
    // The first of each: no places, and nothing below.
    return automaton_state(m, NULL, 0, 0, &dead, error) &&
           automaton_frame(m, (Frame){0}, &bottom, error);
}

void automaton_free(Automaton *m) {
    free(m->frames.at);
    free(m->states.at);
    free(m->places.at);
    free(m->moves);
    free(m->frame_table);
    free(m->state_table);
    free(m->todo.at);
    free(m->found.at);
    free(m->members.at);
    free(m->counted.at);
    free(m->seen);
    free(m->stamps);
    *m = (Automaton){0};
}

size_t automaton_bytes(const Automaton *m) {
    return m->frames.capacity * sizeof *m->frames.at + m->states.capacity * sizeof *m->states.at +
           m->places.capacity * sizeof *m->places.at +
           m->moves_capacity * m->grammar->n_classes * sizeof *m->moves +
           (m->frame_buckets + m->state_buckets) * sizeof *m->frame_table +
           m->seen_size * (sizeof *m->seen + sizeof *m->stamps);
}
