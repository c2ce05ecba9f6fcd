// The parts of a tokenizer that do not depend on its algorithm: its lifetime, splitting a text at
// added tokens, and the accessors. open.c opens one.
//
//     "Hi<|im_end|> you"  ->  "Hi" | <|im_end|> | " you"
//                             kind->encode   its id   kind->encode
#include "tokenizer/tokenizer.h"

#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

// All zeros but bos_id: tokenizer_close takes a tokenizer at any stage of opening.
Tokenizer *tokenizer_new(Error *error) {
    Tokenizer *t = calloc(1, sizeof *t);
    if (t) t->work = calloc(1, sizeof *t->work);
    if (!t || !t->work) {
        error_set(error, ERROR_MEMORY, "out of memory for a tokenizer");
        tokenizer_close(t);
        return NULL;
    }
    t->bos_id = -1;
    return t;
}

void tokenizer_close(Tokenizer *t) {
    if (!t) return;
    if (t->kind && t->kind->close) t->kind->close(t);
    if (t->work) free(t->work->piece);
    free(t->work);
    free(t->added);
    free(t->tokens);
    free(t);
}

// Each turn takes the text in front of the next added token, then the token. after_token: the
// segment does not begin the text, which decides about a space prefix.
bool tokenizer_encode(const Tokenizer *t, IdList *ids, const char *text, size_t length,
                      bool special, Error *error) {
    size_t at = 0, begin, end;
    bool after_token = false;
    while (at < length) {
        const AddedToken *added = added_next(t, text, at, length, special, &begin, &end);
        if (!added) begin = end = length;
        if (begin > at && !t->kind->encode(t, ids, text + at, begin - at, after_token, error))
            return false;
        if (added && !id_list_push(ids, added->id, error)) return false;
        after_token = true;
        at = end;
    }
    return true;
}

static bool in_range(const Tokenizer *t, int32_t id) {
    return id >= 0 && (size_t)id < t->n_tokens;
}

// A control token decodes to its spelling with `special`, else to nothing (*length is 0).
const char *tokenizer_piece(Tokenizer *t, int32_t id, bool first, bool special, size_t *length) {
    *length = 0;
    if (!in_range(t, id)) return "";
    if (t->types[id] == TOKEN_CONTROL) {
        if (special) *length = t->tokens[id].length;
        return t->tokens[id].text;
    }
    return t->kind->piece(t, id, first, length);
}

TextSpan tokenizer_spelling(const Tokenizer *t, int32_t id) {
    return in_range(t, id) ? t->tokens[id] : (TextSpan){"", 0};
}

TokenType tokenizer_type(const Tokenizer *t, int32_t id) {
    return in_range(t, id) ? (TokenType)t->types[id] : TOKEN_UNDEFINED;
}

int tokenizer_find(const Tokenizer *t, const char *spelling) {
    return vocabulary_find(t, spelling, strlen(spelling));
}

int tokenizer_size(const Tokenizer *t) {
    return (int)t->n_tokens;
}

bool tokenizer_limit(Tokenizer *t, int count) {
    size_t kept = 0, n_stops = 0;
    if (count < 1) return false;
    for (size_t i = (size_t)count; i < t->n_tokens; i++)
        if (t->types[i] != TOKEN_CONTROL) return false;
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id < count) t->added[kept++] = t->added[i];
    for (size_t i = 0; i < t->n_stops; i++)
        if (t->stops[i] < count) t->stops[n_stops++] = t->stops[i];
    t->n_added = kept;
    t->n_stops = n_stops;
    if ((size_t)count < t->n_tokens) t->n_tokens = (size_t)count;
    if (t->bos_id >= count) t->bos_id = -1;
    t->adds_bos = t->adds_bos && t->bos_id >= 0;
    return true;
}

int tokenizer_bos(const Tokenizer *t) {
    return t->bos_id;
}

bool tokenizer_adds_bos(const Tokenizer *t) {
    return t->adds_bos;
}

// Returns how many there are, which may be more than `capacity`.
size_t tokenizer_stops(const Tokenizer *t, int32_t *out, size_t capacity) {
    for (size_t i = 0; i < t->n_stops && i < capacity; i++)
        out[i] = t->stops[i];
    return t->n_stops;
}

const char *tokenizer_description(const Tokenizer *t) {
    return t->description;
}

// Lengths first, so that no two lists of pieces are the same bytes.
static void hash_spans(uint64_t lanes[8], const TextSpan *spans, size_t count) {
    fnv1a_lanes(lanes, &count, sizeof count);
    for (size_t i = 0; i < count; i++) {
        fnv1a_lanes(lanes, &spans[i].length, sizeof spans[i].length);
        fnv1a_lanes(lanes, spans[i].text, spans[i].length);
    }
}

static void hash_vocabulary(uint64_t lanes[8], const Vocabulary *v) {
    const TextSpan names[] = {{v->model, strlen(v->model)},
                              {v->pre ? v->pre : "", v->pre ? strlen(v->pre) : 0}};
    const int numbers[] = {v->bos_id, v->eos_id,  v->eot_id,  v->eom_id,          v->unk_id,
                           v->pad_id, v->add_bos, v->add_eos, v->add_space_prefix};
    hash_spans(lanes, names, sizeof names / sizeof *names);
    fnv1a_lanes(lanes, numbers, sizeof numbers);
    hash_spans(lanes, v->tokens, v->n_tokens);
    hash_spans(lanes, v->merges, v->n_merges);
    if (v->scores) fnv1a_lanes(lanes, v->scores, v->n_tokens * sizeof *v->scores);
    if (v->types) fnv1a_lanes(lanes, v->types, v->n_tokens);
}

uint64_t tokenizer_digest(const Tokenizer *t) {
    uint64_t lanes[8];
    fnv1a_lanes_begin(lanes);
    fnv1a_lanes(lanes, &t->file_digest, sizeof t->file_digest);
    if (t->source) hash_vocabulary(lanes, t->source);
    // With the splitting pattern, which an option may override.
    fnv1a_lanes(lanes, t->description, strlen(t->description));
    return fnv1a_lanes_end(lanes);
}

int tokenizer_dropped(const Tokenizer *t) {
    return t->work->has_dropped ? t->work->dropped : -1;
}

uint64_t tokenizer_steps(const Tokenizer *t) {
    return t->work->steps;
}
