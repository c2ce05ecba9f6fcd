// The unigram model: of all ways to cut a text into pieces, the one with the highest sum of scores
// (log-probabilities), found by the Viterbi algorithm. best[e] is the last piece of the best way to
// cut what ends at byte e:
//
//     best[e].score = max over the pieces [s, e) of the text of  best[s].score + score(piece)
//
// Where no piece reaches across a place, every way goes through it, so what is before is emitted at
// once: `best` is as long as the longest stretch without such a place.
//
// Source: sentencepiece's unigram_model.cc, version 0.1.97, for the score of user-defined pieces
// and unknown characters, and for sums in float32, which decide between ways in a long text.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/text.h"

#include <float.h>
#include <stdlib.h>

static const float UNKNOWN_PENALTY = 10; // below the lowest score of a normal piece

typedef struct Best {
    float score;     // of the whole text up to here
    uint32_t length; // of the last piece; 0: none ends here yet
    int32_t id;      // -1: an unknown character
} Best;

typedef struct Lattice {
    const char *text;
    size_t length;
    size_t base;  // what is before has been emitted
    size_t reach; // the furthest end of a piece so far
    Best *best;   // (room) best[e - base], set up to `reach`
    size_t room;
    Error *error;
} Lattice;

// ---- scores ----

// As the library computes it: the product in float32, the rest in double.
static double score_of(const Unigram *u, const Tokenizer *t, int32_t id, size_t length) {
    if (t->types[id] != TOKEN_USER_DEFINED) return (double)t->scores[id];
    float highest = (float)length * u->highest;
    return (double)highest - 0.1;
}

// Room for a piece that ends `length` bytes behind `at`, the furthest one so far. False: exit code
// 5, as below.
static bool extend(Lattice *l, size_t at, size_t length) {
    size_t end = at + length;
    if (end - l->base >= l->room) {
        size_t room = 2 * (end - l->base), bytes;
        bool fits = !__builtin_mul_overflow(room, sizeof *l->best, &bytes);
        Best *best = fits ? realloc(l->best, bytes) : NULL;
        if (!best)
            return error_set(l->error, ERROR_MEMORY, "out of memory for a text of %zu bytes",
                             l->length);
        l->best = best;
        l->room = room;
    }
    for (; l->reach < end; l->reach++)
        l->best[l->reach + 1 - l->base].length = 0;
    return true;
}

// A piece text[at .. at + length), with the score of the whole way.
static bool offer(Lattice *l, size_t at, size_t length, double score, int32_t id) {
    if (at + length > l->reach && !extend(l, at, length)) return false;
    Best *best = &l->best[at + length - l->base];
    if (!best->length || score > (double)best->score)
        *best = (Best){(float)score, (uint32_t)length, id};
    return true;
}

// A byte that is no UTF-8 is a character.
static size_t character_length(const char *text, size_t length) {
    uint32_t codepoint;
    size_t n = utf8_decode(text, length, &codepoint);
    return n ? n : 1;
}

// All pieces that begin at `at`, and the character there as unknown, unless it is a piece.
static bool offer_pieces(Lattice *l, const Unigram *u, const Tokenizer *t, size_t at,
                         size_t character) {
    float here = l->best[at - l->base].score;
    bool known = false;
    uint32_t node = 0;
    for (int32_t id; (id = piece_trie_next(&u->trie, &node, l->text + at, l->length - at)) >= 0;) {
        size_t length = t->tokens[id].length;
        if (!offer(l, at, length, score_of(u, t, id, length) + (double)here, id)) return false;
        known |= length == character;
        t->work->steps++;
    }
    float unknown = u->unknown + here;
    t->work->steps++;
    return known || offer(l, at, character, (double)unknown, -1);
}

// ---- the best way ----

// Emits what is between `base` and `end`. The way back from `end` is turned round first: then
// best[s] holds the piece that begins at s.
static bool emit_best(Lattice *l, SpmOutput *out, size_t end) {
    float score = l->best[end - l->base].score;
    Best last = l->best[end - l->base];
    for (size_t at = end; at > l->base;) {
        at -= last.length;
        Best before = l->best[at - l->base];
        l->best[at - l->base] = last;
        last = before;
    }
    for (size_t at = l->base; at < end;) {
        Best piece = l->best[at - l->base];
        if (!spm_put(out, piece.id, l->text + at, piece.length)) return false;
        at += piece.length;
    }
    l->best[0] = (Best){.score = score};
    l->base = end;
    return true;
}

// A place is every beginning of a character: pieces may end inside of one, and none goes on there.
bool unigram_encode(const Unigram *u, const Tokenizer *t, SpmOutput *out, const char *text,
                    size_t length) {
    enum { ROOM = 256 };
    Lattice l = {.text = text, .length = length, .room = ROOM, .error = out->error};
    l.best = malloc(ROOM * sizeof *l.best);
    if (!l.best)
        return error_set(out->error, ERROR_MEMORY, "out of memory for a text of %zu bytes", length);
    l.best[0] = (Best){0};
    bool good = true;
    for (size_t at = 0, character; good && at < length; at += character) {
        character = character_length(text + at, length - at);
        if (at == l.reach) good = emit_best(&l, out, at);
        good = good && offer_pieces(&l, u, t, at, character);
    }
    good = good && emit_best(&l, out, length);
    free(l.best);
    return good;
}

// ---- opening ----

bool unigram_open(Unigram *u, const Tokenizer *t, Error *error) {
    float lowest = FLT_MAX;
    u->highest = FLT_MIN; // as in the library: at least this, also where all scores are negative
    for (size_t i = 0; i < t->n_tokens; i++) {
        if (t->types[i] != TOKEN_NORMAL) continue;
        if (t->scores[i] < lowest) lowest = t->scores[i];
        if (t->scores[i] > u->highest) u->highest = t->scores[i];
    }
    u->unknown = lowest - UNKNOWN_PENALTY;
    if (!piece_trie_open(&u->trie, t, 1u << TOKEN_NORMAL | 1u << TOKEN_USER_DEFINED, error))
        return false;
    return u->trie.n_nodes > 1 || error_set(error, ERROR_FILE, "no piece that a text can match");
}

void unigram_close(Unigram *u) {
    piece_trie_close(&u->trie);
}
