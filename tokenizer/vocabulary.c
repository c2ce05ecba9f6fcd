// The vocabulary of a tokenizer: spellings, types, scores and a hash table over the spellings, in
// one allocation; BOS and the stop ids.
//
// The hash table: n_buckets is at least twice the number of tokens, so a search meets an empty
// bucket after a few steps (linear probing). buckets[i] is id + 1. The hash has a random key, so
// that a file cannot be made whose spellings all fall into one bucket.
#include "tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

// The bucket that holds the spelling, or the empty bucket where it would be inserted.
static size_t bucket_of(const Tokenizer *t, const char *text, size_t length) {
    size_t i = (size_t)keyed_hash(&t->key, text, length) & (t->n_buckets - 1);
    for (; t->buckets[i]; i = (i + 1) & (t->n_buckets - 1)) {
        const TextSpan *spelling = &t->tokens[t->buckets[i] - 1];
        if (spelling->length == length && !memcmp(spelling->text, text, length)) break;
    }
    return i;
}

// -1 from an empty bucket: 0 - 1.
int32_t vocabulary_find(const Tokenizer *t, const char *text, size_t length) {
    int32_t id = t->n_buckets ? (int32_t)t->buckets[bucket_of(t, text, length)] - 1 : -1;
    return id < (int32_t)t->n_tokens ? id : -1; // tokenizer_limit leaves the table as it is
}

// Sets *total, the bytes of all spellings.
static bool total_length(const Vocabulary *v, size_t *total, Error *error) {
    if (!v->n_tokens) return error_set(error, ERROR_FILE, "vocabulary: no tokens");
    if (v->n_tokens > LIMIT_VOCAB)
        return error_set(error, ERROR_FILE, "vocabulary: %zu tokens (at most %d)", v->n_tokens,
                         LIMIT_VOCAB);
    *total = 0; // cannot overflow: 2^22 tokens of 2^16 bytes
    for (size_t i = 0; i < v->n_tokens; i++) {
        if (v->tokens[i].length > LIMIT_TOKEN_LENGTH)
            return error_set(error, ERROR_FILE, "token %zu: %zu bytes long (at most %d)", i,
                             v->tokens[i].length, LIMIT_TOKEN_LENGTH);
        *total += v->tokens[i].length;
    }
    return true;
}

// A bucket that is taken has the same spelling under a lower id, which stays.
static void copy_tokens(Tokenizer *t, const Vocabulary *v, char *text) {
    for (size_t i = 0; i < v->n_tokens; i++) {
        size_t length = v->tokens[i].length;
        if (length) memcpy(text, v->tokens[i].text, length);
        t->tokens[i] = (TextSpan){text, length};
        text += length;
        t->types[i] = v->types ? v->types[i] : TOKEN_NORMAL;
        if (t->scores) t->scores[i] = v->scores[i];
        uint32_t *bucket = &t->buckets[bucket_of(t, t->tokens[i].text, length)];
        if (!*bucket) *bucket = (uint32_t)i + 1;
    }
}

// Reserves the longest piece, so that decoding never allocates.
static bool reserve_piece(Tokenizer *t, Error *error) {
    size_t longest = 0;
    for (size_t i = 0; i < t->n_tokens; i++)
        if (t->tokens[i].length > longest) longest = t->tokens[i].length;
    if (vocabulary_piece_buffer(t, longest + PIECE_MARGIN)) return true;
    return error_set(error, ERROR_MEMORY, "out of memory for a token of %zu bytes", longest);
}

bool vocabulary_copy(Tokenizer *t, const Vocabulary *v, Error *error) {
    size_t total = 0;
    if (!total_length(v, &total, error)) return false;
    size_t n = v->n_tokens, n_buckets = 16;
    while (n_buckets < 2 * n)
        n_buckets *= 2;
    // Layout: [spans][buckets][scores][types][text], in falling order of alignment.
    size_t buckets_at = n * sizeof *t->tokens,
           scores_at = buckets_at + n_buckets * sizeof(uint32_t);
    size_t types_at = scores_at + (v->scores ? n * sizeof(float) : 0), text_at = types_at + n;
    char *arena = calloc(1, text_at + total);
    if (!arena) return error_set(error, ERROR_MEMORY, "out of memory for %zu tokens", n);
    t->tokens = (TextSpan *)(void *)arena;
    t->n_tokens = n;
    t->buckets = (uint32_t *)(void *)(arena + buckets_at);
    t->n_buckets = n_buckets;
    t->key = hash_key();
    t->scores = v->scores ? (float *)(void *)(arena + scores_at) : NULL;
    t->types = (uint8_t *)arena + types_at;
    copy_tokens(t, v, arena + text_at);
    return reserve_piece(t, error);
}

char *vocabulary_piece_buffer(Tokenizer *t, size_t size) {
    if (size > t->work->piece_capacity) {
        char *grown = realloc(t->work->piece, size);
        if (!grown) return NULL;
        t->work->piece = grown;
        t->work->piece_capacity = size;
    }
    return t->work->piece;
}

void vocabulary_add_stop(Tokenizer *t, int id) {
    if (id < 0 || (size_t)id >= t->n_tokens || t->n_stops == LIMIT_STOPS) return;
    for (size_t i = 0; i < t->n_stops; i++)
        if (t->stops[i] == id) return;
    t->stops[t->n_stops++] = id;
}

// With fullwidth lines (U+FF5C) and U+2581.
static const char HUNYUAN_END[] =
    "<\xef\xbd\x9chy_place\xe2\x96\x81holder\xe2\x96\x81no\xe2\x96\x81"
    "2\xef\xbd\x9c>";

static const char DEEPSEEK_END[] = "<\xef\xbd\x9c"
                                   "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>";

// `known`: names of end tokens, which many files leave unmarked.
void vocabulary_set_ids(Tokenizer *t, const Vocabulary *v, bool adds_bos) {
    static const char *const known[] = {
        "<|eot_id|>",        "<|eom_id|>",    "<|im_end|>",          "<|end|>",
        "<end_of_turn>",     "<|endoftext|>", "<|end_of_text|>",     "</s>",
        "<|assistant_end|>", "[|endofturn|]", "<|end_of_sentence|>", "<|eos|>",
        HUNYUAN_END,         DEEPSEEK_END};
    t->bos_id = v->bos_id >= 0 && (size_t)v->bos_id < t->n_tokens ? v->bos_id : -1;
    t->adds_bos = t->bos_id >= 0 && (v->add_bos >= 0 ? v->add_bos : adds_bos);
    vocabulary_add_stop(t, v->eos_id);
    vocabulary_add_stop(t, v->eot_id);
    vocabulary_add_stop(t, v->eom_id);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int32_t id = vocabulary_find(t, known[i], strlen(known[i]));
        // A normal token with such a spelling is ordinary text and no stop token.
        if (id >= 0 && (t->types[id] == TOKEN_CONTROL || t->types[id] == TOKEN_USER_DEFINED))
            vocabulary_add_stop(t, id);
    }
}
