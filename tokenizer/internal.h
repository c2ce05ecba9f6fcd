// What the kinds of tokenizer share, inside this folder: struct Tokenizer, its vocabulary, the
// texts that are cut out before a kind sees the rest, and the entry points of every kind.
//
// A kind's open function gets a zeroed Tokenizer and fills it: vocabulary_copy, added_set or
// added_from_types, ids, description, `kind` and `state`. On failure it returns false with `error`
// set and leaves what it made in the Tokenizer: tokenizer_close takes half-built ones.
#pragma once

#include "tokenizer/tokenizer.h"

#include "base/arena.h"
#include "base/limits.h"

enum {
    LIMIT_ADDED_BYTES = 1024, // of one text that is cut out: it bounds the search at each byte
    LIMIT_STOPS = 32,
};

// What a kind does. `text` is a stretch without added tokens in it, never empty.
typedef struct TokenizerKind {
    // Appends the ids of the stretch. `after_token`: an added token stands directly before it;
    // else it begins the text.
    bool (*encode)(const Tokenizer *tokenizer, IdList *ids, const char *text, size_t length,
                   bool after_token, Error *error);
    // The bytes that a token adds to a text (tokenizer_piece); never called for control tokens nor
    // with an id out of range. Borrowed until the next call.
    const char *(*piece)(Tokenizer *tokenizer, int32_t id, bool first, size_t *length);
    void (*close)(Tokenizer *tokenizer); // frees `state`; may be NULL where there is none
    // What the kind knows beyond spellings, types and scores, as a GGUF would say it: model, pre,
    // merges, scores, add_space_prefix, into `out`, which has the rest (export.h).
    bool (*describe)(const Tokenizer *tokenizer, Vocabulary *out, Arena *arena, Error *error);
} TokenizerKind;

// A text that is cut out before anything else sees it. Control tokens are recognised on request,
// user-defined ones always.
typedef struct AddedToken {
    TextSpan text; // as it stands in a text, which need not be its spelling
    int32_t id;
    bool control;
    bool lstrip, rstrip; // takes the white space before, after it along
    bool single_word;    // only where no word character touches it
} AddedToken;

// What changes while a tokenizer is used, so that encoding takes a const Tokenizer. One thread at a
// time.
typedef struct TokenizerWork {
    uint64_t steps; // of merging
    char *piece;    // (piece_capacity) bytes of the token shown last
    size_t piece_capacity;
} TokenizerWork;

struct Tokenizer {
    const TokenizerKind *kind;
    void *state; // the kind's own

    // The vocabulary, in one allocation; by vocabulary_copy.
    size_t n_tokens;
    TextSpan *tokens;  // (n_tokens) spellings
    uint8_t *types;    // (n_tokens) TokenType
    float *scores;     // (n_tokens) or NULL
    uint32_t *buckets; // open addressing over the spellings: id + 1, 0 is empty
    size_t n_buckets;  // a power of two

    // What is cut out, sorted by text, in one allocation; by added_set.
    AddedToken *added;
    size_t n_added;
    bool added_first[256]; // bytes that some added token begins with

    int bos_id;          // -1: none
    bool adds_bos;       // a prompt begins with it
    bool prefixes_space; // a space is set before every stretch of text (SPM kinds)
    int32_t stops[LIMIT_STOPS];
    size_t n_stops;
    char description[96];

    TokenizerWork *work;
};

// A Tokenizer with nothing in it; NULL: exit code 5 (tokenizer.c).
Tokenizer *tokenizer_new(Error *error);

// ---- vocabulary.c ----

// Copies spellings, types and scores (where there are any; absent types are TOKEN_NORMAL) and
// indexes the spellings. Of two tokens that are spelt alike the lower id is found. False: exit
// code 3 (no tokens, too many, a spelling too long), 5.
bool vocabulary_copy(Tokenizer *tokenizer, const Vocabulary *vocabulary, Error *error);

// Id of the token spelt exactly so, of any type, or -1.
int32_t vocabulary_find(const Tokenizer *tokenizer, const char *text, size_t length);

// A buffer of at least `size` bytes in tokenizer->work for kind->piece; NULL: out of memory, which
// cannot happen up to the longest spelling + PIECE_MARGIN: vocabulary_copy made that room.
enum { PIECE_MARGIN = 8 };
char *vocabulary_piece_buffer(Tokenizer *tokenizer, size_t size);

// An id of `vocabulary` into bos_id, adds_bos and stops: those of `eos`, `eot`, `eom` that are in
// the vocabulary, and the well-known names. `adds_bos` is what is meant where the file does not
// say.
void vocabulary_set_ids(Tokenizer *tokenizer, const Vocabulary *vocabulary, bool adds_bos);
void vocabulary_add_stop(Tokenizer *tokenizer, int id); // once; out of range: nothing happens

// ---- added.c ----

// Takes a copy of the list. False: exit code 3 (an empty text, one too long, two alike), 5.
bool added_set(Tokenizer *tokenizer, const AddedToken *list, size_t count, Error *error);

// The list from the vocabulary's types: control and user-defined tokens, as they are spelt.
bool added_from_types(Tokenizer *tokenizer, Error *error);

// The first added token in text[from .. length), the longest one where several begin there, or
// NULL. Its place with stripped white space is text[*begin .. *end).
const AddedToken *added_next(const Tokenizer *tokenizer, const char *text, size_t from,
                             size_t length, bool special, size_t *begin, size_t *end);
