// Opening a tokenizer of whatever kind, cutting added tokens out of a text, and the questions that
// have the same answer for all kinds.
#include "tokenizer/tokenizer.h"

#include "tokenizer/kinds.h"
#include "tokenizer/source.h"

#include <stdlib.h>
#include <string.h>

static bool open_vocabulary(Tokenizer *t, const TokenizerSource *source, Error *error) {
    const Vocabulary *v = source->vocabulary;
    if (!v || !v->model) return error_set(error, ERROR_FILE, "the file holds no tokenizer");
    if (!strcmp(v->model, "llama")) return spm_bpe_open_vocabulary(t, v, error);
    if (!strcmp(v->model, "gpt2"))
        return byte_bpe_open_vocabulary(t, v, source->pretokenizer, error);
    char shown[64];
    return error_set(error, ERROR_FILE, "tokenizer.ggml.model: unknown \"%s\" (known: llama, gpt2)",
                     escape_bytes(shown, sizeof shown, v->model, strlen(v->model)));
}

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

Tokenizer *tokenizer_open(const TokenizerSource *source, Error *error) {
    Tokenizer *t = tokenizer_new(error);
    if (!t) return NULL;
    bool good =
        source->path ? tokenizer_open_path(t, source, error) : open_vocabulary(t, source, error);
    if (good) return t;
    tokenizer_close(t);
    return NULL;
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

bool id_list_push(IdList *list, int32_t id, Error *error) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        int32_t *grown = capacity > SIZE_MAX / sizeof *grown
                             ? NULL
                             : realloc(list->ids, capacity * sizeof *grown);
        if (!grown) return error_set(error, ERROR_MEMORY, "out of memory for %zu ids", capacity);
        list->ids = grown;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return true;
}

void id_list_free(IdList *list) {
    free(list->ids);
    *list = (IdList){0};
}

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

int tokenizer_bos(const Tokenizer *t) {
    return t->bos_id;
}

bool tokenizer_adds_bos(const Tokenizer *t) {
    return t->adds_bos;
}

size_t tokenizer_stops(const Tokenizer *t, int32_t *out, size_t capacity) {
    for (size_t i = 0; i < t->n_stops && i < capacity; i++)
        out[i] = t->stops[i];
    return t->n_stops;
}

const char *tokenizer_description(const Tokenizer *t) {
    return t->description;
}

uint64_t tokenizer_steps(const Tokenizer *t) {
    return t->work->steps;
}
