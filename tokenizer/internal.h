// Shared by all tokenization algorithms in this folder: struct Tokenizer, its vocabulary and its
// added tokens. Nothing outside tokenizer/ includes this file, except tests.
//
// An algorithm (byte-level BPE, SPM-BPE, ...) is a TokenizerKind: a table of functions. Its open
// function gets a Tokenizer from tokenizer_new and fills it: vocabulary_copy, added_set or
// added_from_types, ids, description, `kind` and `state`. On failure it returns false with `error`
// set; tokenizer_close frees what was filled so far.
#pragma once

#include "tokenizer/tokenizer.h"

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"

enum {
    LIMIT_ADDED_BYTES = 512, // of one added token; bounds the search at each byte of a text
    LIMIT_STOPS = 32,
};

// One algorithm. Added tokens have already been split off: encode sees the text between them.
typedef struct TokenizerKind {
    // Appends the ids of one segment, which is never empty. `after_token`: the segment follows an
    // added token; otherwise it begins the text.
    bool (*encode)(const Tokenizer *tokenizer, IdList *ids, const char *text, size_t length,
                   bool after_token, Error *error);
    // The bytes that a token decodes to (tokenizer_piece). The caller has checked that the id is in
    // range and no control token. Borrowed until the next call.
    const char *(*piece)(Tokenizer *tokenizer, int32_t id, bool first, size_t *length);
    void (*close)(Tokenizer *tokenizer); // frees `state`; NULL: there is no state
    // For tokenizer_export: fills the GGUF fields that only the algorithm knows: model,
    // pre, merges, scores, add_space_prefix. The other fields of `out` are set already.
    bool (*describe)(const Tokenizer *tokenizer, Vocabulary *out, Arena *arena, Error *error);
} TokenizerKind;

// An added token: its text is matched before normalisation and pre-tokenization, and becomes one
// id. Control tokens are matched only if the caller of tokenizer_encode asks (`special`),
// user-defined ones always.
typedef struct AddedToken {
    TextSpan text; // as written in a prompt; may differ from the spelling in the vocabulary
    int32_t id;
    bool control;
    bool lstrip, rstrip; // the match includes the white space before it, after it
    bool single_word;    // matches only if no word character (\w) is next to it
} AddedToken;

// The mutable part, apart so that encoding takes a const Tokenizer. One thread at a time.
typedef struct TokenizerWork {
    uint64_t steps;   // of the merge loop, for tokenizer_steps
    bool has_dropped; // a byte, since it has no token; the first is `dropped`
    uint8_t dropped;
    char *piece; // (piece_capacity) bytes of the token decoded last
    size_t piece_capacity;
} TokenizerWork;

// A byte of the text is left out: the first one is kept for tokenizer_dropped.
static inline void drop_byte(TokenizerWork *work, uint8_t byte) {
    if (!work->has_dropped) work->dropped = byte;
    work->has_dropped = true;
}

struct Tokenizer {
    const TokenizerKind *kind;
    void *state; // of the algorithm

    // The vocabulary, in one allocation. Set by vocabulary_copy.
    size_t n_tokens;
    TextSpan *tokens;  // (n_tokens) spellings
    uint8_t *types;    // (n_tokens) TokenType
    float *scores;     // (n_tokens) or NULL
    uint32_t *buckets; // hash table over the spellings, open addressing: id + 1, 0 is empty
    size_t n_buckets;  // a power of two
    HashKey key;

    // The added tokens, sorted by text, in one allocation. Set by added_set.
    AddedToken *added;
    size_t n_added;
    bool added_first[256]; // whether some added token begins with this byte

    int bos_id;          // -1: none
    bool adds_bos;       // a prompt begins with BOS
    bool prefixes_space; // SPM: a space is put before every segment (add_dummy_prefix)
    int32_t stops[LIMIT_STOPS];
    size_t n_stops;
    char description[96];

    const Vocabulary *source; // of a GGUF, borrowed; NULL: a file
    uint64_t file_digest;

    TokenizerWork *work;
};

// An empty Tokenizer; NULL: exit code 5 (tokenizer.c).
Tokenizer *tokenizer_new(Error *error);

// ---- vocabulary.c ----

// Copies spellings, types (absent: all TOKEN_NORMAL) and scores (absent: NULL) and builds the hash
// table over the spellings. If two tokens have the same spelling, the lower id is found. False:
// exit code 3 (no tokens, too many, a spelling too long), 5.
bool vocabulary_copy(Tokenizer *tokenizer, const Vocabulary *vocabulary, Error *error);

// The id of the token with exactly this spelling, of any type, or -1.
int32_t vocabulary_find(const Tokenizer *tokenizer, const char *text, size_t length);

// A buffer of at least `size` bytes in tokenizer->work, for kind->piece. NULL: out of memory; never
// for sizes up to the longest spelling + PIECE_MARGIN, which vocabulary_copy has reserved.
enum { PIECE_MARGIN = 8 };
char *vocabulary_piece_buffer(Tokenizer *tokenizer, size_t size);

// Sets bos_id, adds_bos and the stop ids: eos, eot and eom if the vocabulary has them, and the
// well-known names (<|im_end|> ...). `adds_bos` is the default where vocabulary->add_bos is absent.
void vocabulary_set_ids(Tokenizer *tokenizer, const Vocabulary *vocabulary, bool adds_bos);
void vocabulary_add_stop(Tokenizer *tokenizer, int id); // ignores duplicates, ids out of range

// ---- added_tokens.c ----

// Copies the list. False: exit code 3 (a text that is empty, too long or listed twice), 5.
bool added_set(Tokenizer *tokenizer, const AddedToken *list, size_t count, Error *error);

// The added tokens are those of type control or user-defined; their text is their spelling.
bool added_from_types(Tokenizer *tokenizer, Error *error);

// The first added token in text[from .. length), or NULL; the longest if several begin at the same
// byte. text[*begin .. *end) is the match, including white space that lstrip and rstrip take.
const AddedToken *added_next(const Tokenizer *tokenizer, const char *text, size_t from,
                             size_t length, bool special, size_t *begin, size_t *end);

// ---- readers of tokenizer files (files/) ----

// Each fills a Tokenizer from tokenizer_new. False: exit code 2 (unknown `pretokenizer`), 3, 5.
// SentencePiece .model files are read in sentencepiece/; the vocabulary of a GGUF arrives parsed.
// The bytes are a copy of the file (tokenizer/open.c), needed until the function returns.

// tokenizer.json, or vocab.json with `merges`, the text of merges.txt (tokenizer_json.c).
// `pretokenizer`: the name of a pattern that overrides the file's, or NULL.
bool tokenizer_json_open(Tokenizer *tokenizer, TextSpan json, TextSpan merges,
                         const char *pretokenizer, Error *error);

// The text format of tiktoken: lines of "base64 rank" (tiktoken.c).
bool tiktoken_open(Tokenizer *tokenizer, TextSpan text, const char *pretokenizer, Error *error);

// llama2.c's tokenizer.bin (tokenizer_bin.c). vocab_size: the model's, which must match; 0:
// unknown.
bool tokenizer_bin_open(Tokenizer *tokenizer, const uint8_t *bytes, size_t size, int vocab_size,
                        Error *error);
