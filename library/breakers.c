// The sequence breakers of DRY as tokens.
//
// A breaker is a text, and a text is many rows of tokens: any token that holds it ends a
// repetition, and so does one that ends with its beginning before those that the rest is encoded
// as. That is llama.cpp's way, so that "\n" breaks at "}\n\n" as well:
//
//   breaker "ab"    x a b y   head, alone
//                   x a       head, then the tokens of "b"
#include "library/handles.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 40 };     // of a breaker; the rest is left out
enum { MOST_ROWS = 1 << 18 }; // of tokens, some 24 MB
static const char *const DEFAULTS[] = {"\n", ":", "\"", "*"};

// Unless it is one of those from `first` on, of the same token and breaker: a token may hold the
// beginning of a breaker twice.
static bool push_breaker(BreakerList *list, size_t first, const DryBreaker *b, Error *error) {
    for (size_t i = first; i < list->count; i++)
        if (!memcmp(&list->at[i], b, sizeof *b)) return true;
    if (list->count == MOST_ROWS)
        return error_set(error, ERROR_USAGE,
                         "the sequence breakers are more than %d rows of tokens: give fewer",
                         MOST_ROWS);
    if (list->count == list->capacity) {
        size_t grown = 2 * list->capacity + 64;
        DryBreaker *more = realloc(list->at, grown * sizeof *more);
        if (!more) return error_set(error, ERROR_MEMORY, "no memory for sequence breakers");
        list->at = more;
        list->capacity = grown;
    }
    list->at[list->count++] = *b;
    return true;
}

// The token `head` ends with the first bytes of the breaker: its others, as tokens.
static bool add_tail(BreakerList *list, size_t first, const Tokenizer *tokenizer, int32_t head,
                     TextSpan rest, Error *error) {
    IdList ids = {0};
    DryBreaker b = {.head = head};
    bool good = tokenizer_encode(tokenizer, &ids, rest.text, rest.length, false, error);
    for (; good && b.tail_length < DRY_MOST_TAIL && (size_t)b.tail_length < ids.count;
         b.tail_length++)
        b.tail[b.tail_length] = ids.ids[b.tail_length];
    id_list_free(&ids);
    return good && push_breaker(list, first, &b, error);
}

// What `token`, whose bytes are `piece`, is to one breaker.
static bool add_token(BreakerList *list, const Tokenizer *tokenizer, int32_t token, TextSpan piece,
                      TextSpan breaker, Error *error) {
    DryBreaker whole = {.head = token};
    size_t first = list->count;
    if (memmem(piece.text, piece.length, breaker.text, breaker.length))
        return push_breaker(list, first, &whole, error);
    for (size_t at = 0; at < piece.length; at++) {
        size_t n = piece.length - at;
        if (n >= breaker.length || memcmp(piece.text + at, breaker.text, n) != 0) continue;
        TextSpan rest = {breaker.text + n, breaker.length - n};
        if (!add_tail(list, first, tokenizer, token, rest, error)) return false;
    }
    return true;
}

static bool find_all(BreakerList *list, const limpid_model *m, const char *const *texts,
                     size_t count, const int *stop, Error *error) {
    Tokenizer *tokenizer = m->own.tokenizer;
    int size = tokenizer_size(tokenizer), vocab_size = m->config->vocab_size;
    for (int32_t id = 0; id < size && id < vocab_size; id++) {
        if (!not_stopped(stop, error)) return false;
        char bytes[256]; // the tokenizer's own are gone after it encodes
        TextSpan piece = {bytes, 0};
        const char *text = tokenizer_piece(tokenizer, id, false, true, &piece.length);
        if (piece.length > sizeof bytes) piece.length = sizeof bytes;
        memcpy(bytes, text, piece.length);
        for (size_t i = 0; i < count; i++) {
            TextSpan breaker = {texts[i], strnlen(texts[i], MOST_BYTES)};
            if (!add_token(list, tokenizer, id, piece, breaker, error)) return false;
        }
    }
    return true;
}

bool breakers_find(BreakerList *list, const limpid_model *m, const limpid_sampling *s,
                   const int *stop, Error *error) {
    bool given = s->dry_breakers;
    size_t count = given ? s->n_dry_breakers : sizeof DEFAULTS / sizeof *DEFAULTS;
    if (!count) return true;
    if (!m->own.tokenizer) {
        error_copy(error, &m->no_tokenizer);
        return error_prefix(error, "sequence breakers (DRY works without any)");
    }
    return find_all(list, m, given ? s->dry_breakers : DEFAULTS, count, stop, error);
}
