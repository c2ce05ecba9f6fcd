// Encoding a word: bytes -> letters of the byte alphabet -> one symbol each -> merges -> ids.
//
//   " the"  ->  "Ġthe"  ->  Ġ t h e  ->  Ġt he  ->  Ġthe  ->  262
//
// A byte that the vocabulary lacks (SmolLM2 has no 0x04) is dropped, as the tokenizers library
// does.
//
// Order of the parts: the alphabet, encoding, the rule for vocabularies without merges, decoding,
// opening. Words come from split/, the merge loop is in merging.c.
#include "tokenizer/bpe/byte_bpe.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the byte alphabet ----

// The bytes that are remapped: 0-32, 127-160, 173.
//
//     byte     0 .. 32   33 .. 126   127 .. 160   161 .. 172   173     174 .. 255
//     U+       0100 ..   the same    0121 ..      the same     0143    the same
size_t alphabet_letter(char *out, uint8_t byte) {
    uint32_t letter = byte;
    if (byte <= 32)
        letter = 256u + byte;
    else if (byte >= 127 && byte <= 160)
        letter = 256u + 33 + (byte - 127u);
    else if (byte == 173)
        letter = 256u + 67;
    return utf8_encode(out, letter);
}

int alphabet_byte(uint32_t c) {
    if (c >= 256) {
        if (c <= 256 + 32) return (int)c - 256;
        if (c <= 256 + 66) return (int)c - 256 - 33 + 127;
        return c == 256 + 67 ? 173 : -1;
    }
    return c <= 32 || (c >= 127 && c <= 160) || c == 173 ? -1 : (int)c;
}

ptrdiff_t alphabet_decode(char *out, const char *spelling, size_t length) {
    ptrdiff_t n = 0;
    for (size_t i = 0; i < length;) {
        uint32_t c;
        size_t step = utf8_decode(spelling + i, length - i, &c);
        int byte = step ? alphabet_byte(c) : -1;
        if (byte < 0) return -1;
        if (out) out[n] = (char)byte;
        n++;
        i += step;
    }
    return n;
}

// ---- state ----

typedef struct ByteBpe {
    Pretokenizer *pretokenizer;
    MergeTable merges;
    MergeRule rule;
    const void *rule_context;
    SplitRule split;
    bool ignore_merges;
    int32_t byte_ids[256]; // -1: no token
    char *spelling;        // (ALPHABET_MAX * capacity) the word in the byte alphabet
    Symbol *symbols;       // (capacity)
    size_t capacity;       // in bytes of a word; grows with the longest word
} ByteBpe;

static void byte_bpe_close(Tokenizer *t) {
    ByteBpe *bpe = t->state;
    if (!bpe) return;
    pretokenizer_close(bpe->pretokenizer);
    merge_table_free(&bpe->merges);
    free(bpe->spelling);
    free(bpe->symbols);
    free(bpe);
    t->state = NULL;
}

// ---- encoding ----

// Grows to the longest word so far; the contents need not be kept. Positions are 32 bits in Symbol.
static bool reserve(ByteBpe *bpe, size_t length, Error *error) {
    if (length <= bpe->capacity) return true;
    if (length >= UINT32_MAX / ALPHABET_MAX)
        return error_set(error, ERROR_USAGE, "a word of %zu bytes is too long", length);
    size_t capacity = length < 256 ? 256 : length;
    free(bpe->spelling);
    free(bpe->symbols);
    bpe->spelling = malloc(capacity * ALPHABET_MAX);
    bpe->symbols = malloc(capacity * sizeof *bpe->symbols);
    bpe->capacity = bpe->spelling && bpe->symbols ? capacity : 0;
    if (!bpe->capacity)
        return error_set(error, ERROR_MEMORY, "out of memory for a word of %zu bytes", length);
    return true;
}

// Fills bpe->spelling and bpe->symbols; returns the number of symbols.
// A byte without a token gets no symbol, but stays in the spelling, for ignore_merges and for the
// positions of its neighbours.
static size_t spell(ByteBpe *bpe, const char *word, size_t length, size_t *spelling_length) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = (uint8_t)word[i];
        size_t n = alphabet_letter(bpe->spelling + at, byte);
        if (bpe->byte_ids[byte] >= 0)
            bpe->symbols[count++] =
                (Symbol){.start = (uint32_t)at, .length = (uint32_t)n, .id = bpe->byte_ids[byte]};
        at += n;
    }
    *spelling_length = at;
    return count;
}

typedef struct Encoding {
    const Tokenizer *tokenizer;
    IdList *ids;
} Encoding;

static void note_dropped(const Tokenizer *t, const char *word, size_t length) {
    const ByteBpe *bpe = t->state;
    for (size_t i = 0; i < length; i++)
        if (bpe->byte_ids[(uint8_t)word[i]] < 0) drop_byte(t->work, (uint8_t)word[i]);
}

// A WordVisitor. A word that is a token needs no merging where ignore_merges is set.
static bool encode_word(void *context, const char *word, size_t length, Error *error) {
    const Encoding *encoding = context;
    const Tokenizer *t = encoding->tokenizer;
    ByteBpe *bpe = t->state;
    if (!reserve(bpe, length, error)) return false;
    size_t spelling_length, count = spell(bpe, word, length, &spelling_length);
    if (bpe->ignore_merges) {
        int32_t id = vocabulary_find(t, bpe->spelling, spelling_length);
        if (id >= 0 && t->types[id] == TOKEN_NORMAL) return id_list_push(encoding->ids, id, error);
    }
    if (count < length) note_dropped(t, word, length);
    if (!count) return true;
    if (!merge_symbols(bpe->symbols, count, bpe->rule, bpe->rule_context, &t->work->steps, error))
        return false;
    for (size_t i = 0; i < count; i++)
        if (bpe->symbols[i].length && !id_list_push(encoding->ids, bpe->symbols[i].id, error))
            return false;
    return true;
}

// after_token does not matter: byte-level BPE puts nothing in front of a text.
static bool byte_bpe_encode(const Tokenizer *t, IdList *ids, const char *text, size_t length,
                            bool after_token, Error *error) {
    (void)after_token;
    const ByteBpe *bpe = t->state;
    return pretokenizer_split(bpe->pretokenizer, text, length, encode_word, &(Encoding){t, ids},
                              error);
}

// The MergeRule of tiktoken: the rank of a merge is the id of the merged token. The two symbols are
// adjacent in bpe->spelling.
//
// Not found is -1, whose priority is not used.
static bool merged_is_token(const void *context, const Symbol *left, const Symbol *right,
                            uint32_t *priority, int32_t *id) {
    const Tokenizer *t = context;
    const ByteBpe *bpe = t->state;
    *id = vocabulary_find(t, bpe->spelling + left->start, (size_t)left->length + right->length);
    *priority = (uint32_t)*id;
    return *id >= 0 && t->types[*id] == TOKEN_NORMAL;
}

// ---- decoding ----

static const char *byte_bpe_piece(Tokenizer *t, int32_t id, bool first, size_t *length) {
    (void)first;
    const TextSpan *spelling = &t->tokens[id];
    *length = spelling->length;
    if (t->types[id] != TOKEN_NORMAL) return spelling->text; // added tokens are plain text
    *length = (size_t)alphabet_decode(t->work->piece, spelling->text, spelling->length);
    return t->work->piece;
}

// ---- opening ----

// Ranks of a tiktoken file give no merges, so such a tokenizer cannot be written to a GGUF.
static bool byte_bpe_describe(const Tokenizer *t, Vocabulary *out, Arena *arena, Error *error) {
    const ByteBpe *bpe = t->state;
    out->model = "gpt2";
    out->scores = NULL;
    out->pre = split_rule_gguf_name(&bpe->split, bpe->ignore_merges);
    if (!out->pre)
        return error_set(error, ERROR_FILE, "its pre-tokenizer pattern has no name in a GGUF");
    if (!bpe->merges.count)
        return error_set(error, ERROR_FILE, "it has token ranks instead of merges (tiktoken)");
    out->n_merges = bpe->merges.count;
    return merge_table_list(&bpe->merges, t, &out->merges, arena, error);
}

static const TokenizerKind BYTE_BPE = {byte_bpe_encode, byte_bpe_piece, byte_bpe_close,
                                       byte_bpe_describe};

// Every normal token must be spelt in the byte alphabet.
//
// alphabet_decode then never fails while decoding.
static bool check_spellings(const Tokenizer *t, Error *error) {
    for (size_t i = 0; i < t->n_tokens; i++) {
        char shown[96];
        const TextSpan *spelling = &t->tokens[i];
        if (t->types[i] == TOKEN_NORMAL &&
            alphabet_decode(NULL, spelling->text, spelling->length) < 0)
            return error_set(error, ERROR_FILE,
                             "token %zu: \"%s\" has a character outside the byte alphabet", i,
                             escape_bytes(shown, sizeof shown, spelling->text, spelling->length));
    }
    return true;
}

// byte_ids: the symbols that a word begins with, looked up once. A control or added token of one
// letter is its byte too, as in the tokenizers library: no byte of a text may be lost.
static void find_bytes(const Tokenizer *t, size_t n_model, int32_t *byte_ids) {
    for (int byte = 0; byte < 256; byte++) {
        char letter[ALPHABET_MAX];
        size_t n = alphabet_letter(letter, (uint8_t)byte);
        int32_t id = vocabulary_find(t, letter, n);
        byte_ids[byte] = id >= 0 && (size_t)id < n_model ? id : -1;
    }
}

// bpe->rule_context points into bpe, which does not move.
bool byte_bpe_open(Tokenizer *t, MergeTable *merges, const SplitRule *rule, bool ignore_merges,
                   size_t n_model, Error *error) {
    ByteBpe *bpe = t->state = calloc(1, sizeof *bpe);
    if (!bpe) {
        if (merges) merge_table_free(merges);
        return error_set(error, ERROR_MEMORY, "out of memory for a tokenizer");
    }
    t->kind = &BYTE_BPE;
    bpe->rule = merges ? merge_table_rule : merged_is_token;
    bpe->rule_context = merges ? (const void *)&bpe->merges : t;
    if (merges) {
        bpe->merges = *merges;
        *merges = (MergeTable){0};
    }
    bpe->ignore_merges = ignore_merges;
    bpe->split = *rule;
    bpe->pretokenizer = pretokenizer_open(rule, error);
    if (!bpe->pretokenizer || !check_spellings(t, error)) return false;
    find_bytes(t, n_model, bpe->byte_ids);
    snprintf(t->description, sizeof t->description, "byte-level BPE, pattern %s",
             split_rule_name(rule));
    return true;
}

// A GGUF without tokenizer.ggml.pre has llama.cpp's pattern "default".
bool byte_bpe_open_vocabulary(Tokenizer *t, const Vocabulary *v, const char *pretokenizer,
                              Error *error) {
    SplitRule rule;
    if (!split_rule_find(&rule, pretokenizer, v->pre ? v->pre : "default", error) ||
        !vocabulary_copy(t, v, error) || !added_from_types(t, error))
        return false;
    vocabulary_set_ids(t, v, rule.adds_bos);
    MergeTable merges;
    bool good = merge_table_init(&merges, v->n_merges, error);
    for (size_t i = 0; good && i < v->n_merges; i++)
        good = merge_table_add_line(&merges, t, v->merges[i], error);
    if (good) return byte_bpe_open(t, &merges, &rule, rule.ignore_merges, t->n_tokens, error);
    merge_table_free(&merges);
    return false;
}
