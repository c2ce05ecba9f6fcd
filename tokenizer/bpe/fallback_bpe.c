// BPE with byte fallback. A segment of text is one word: spaces become U+2581, each character one
// symbol. Characters that are no token become byte tokens or the unknown token before any merge.
//
//     "Hi Ü"   ->  "▁Hi▁Ü"  ->  ▁ H i ▁ <0xC3> <0x9C>  ->  ▁Hi ▁ <0xC3> <0x9C>
//              prefix, spaces   one symbol a character    merges by rank
//
// SPM-BPE (spm_bpe.c) merges by score and falls back to bytes at the end; here ranks decide, and
// bytes stand in before the first merge. Source: the BPE model of the tokenizers library
// (models/bpe/model.rs).
#include "tokenizer/bpe/spm.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct FallbackBpe {
    MergeTable merges;
    FallbackOptions options;
    int32_t byte_ids[256]; // -1: no token
} FallbackBpe;

static void fallback_close(Tokenizer *t) {
    FallbackBpe *bpe = t->state;
    if (bpe) merge_table_free(&bpe->merges);
    free(bpe);
    t->state = NULL;
}

// ---- encoding ----

typedef struct Word {
    char *text; // (3 * bytes of the segment, and a prefix)
    size_t length;
    Symbol *symbols; // at most one per byte
    size_t count;
} Word;

// Whether a space is put in front of the segment, by the option's rule (spm.h).
static bool wants_prefix(const FallbackOptions *o, const char *text, size_t length,
                         bool after_token) {
    bool begins_with_space = text[0] == ' ' || (length >= SPM_SPACE_LENGTH &&
                                                !memcmp(text, SPM_SPACE, SPM_SPACE_LENGTH));
    switch (o->prefix) {
    case PREFIX_FIRST: return !after_token && !begins_with_space;
    case PREFIX_ALWAYS: return !begins_with_space;
    case PREFIX_ADDED: return true;
    default: return false;
    }
}

// The room has been computed by fallback_encode.
static void append(Word *word, const char *text, size_t length) {
    memcpy(word->text + word->length, text, length);
    word->length += length;
}

// Spaces of the text and the prefix become U+2581, where the option is set.
static void normalise(Word *word, const FallbackOptions *o, const char *text, size_t length,
                      bool after_token) {
    const char *space = o->spaces ? SPM_SPACE : " ";
    if (wants_prefix(o, text, length, after_token)) append(word, space, strlen(space));
    for (size_t i = 0; i < length; i++)
        if (text[i] == ' ')
            append(word, space, strlen(space));
        else
            append(word, text + i, 1);
}

static void add_symbol(Word *word, size_t start, size_t length, int32_t id) {
    word->symbols[word->count++] =
        (Symbol){.start = (uint32_t)start, .length = (uint32_t)length, .id = id};
}

// All bytes of the character have to be tokens; otherwise it is unknown as a whole.
static bool bytes_are_tokens(const FallbackBpe *bpe, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (bpe->byte_ids[(uint8_t)text[i]] < 0) return false;
    return bpe->options.byte_fallback;
}

// Neighbours are fused where the option is set. Without an unknown token the character is dropped.
static void add_unknown(const Tokenizer *t, Word *word, size_t start, size_t length) {
    const FallbackBpe *bpe = t->state;
    int32_t unk = bpe->options.unk_id;
    if (unk < 0) {
        drop_byte(t->work, (uint8_t)word->text[start]);
        return;
    }
    Symbol *last = word->count ? &word->symbols[word->count - 1] : NULL;
    bool touches = last && last->id == unk && (size_t)last->start + last->length == start;
    if (bpe->options.fuse_unk && touches)
        last->length += (uint32_t)length;
    else
        add_symbol(word, start, length, unk);
}

// Fills word->symbols: a token for each character, or its bytes, or the unknown token.
static void split_characters(const Tokenizer *t, const FallbackBpe *bpe, Word *word) {
    uint32_t c;
    for (size_t at = 0, n; at < word->length; at += n) {
        n = utf8_decode(word->text + at, word->length - at, &c);
        int32_t id = n ? vocabulary_find(t, word->text + at, n) : -1;
        if (id >= 0 && t->types[id] == TOKEN_CONTROL) id = -1; // which text never becomes
        if (!n) n = 1; // an invalid byte: only a byte token matches it
        if (id >= 0)
            add_symbol(word, at, n, id);
        else if (bytes_are_tokens(bpe, word->text + at, n))
            for (size_t i = at; i < at + n; i++)
                add_symbol(word, i, 1, bpe->byte_ids[(uint8_t)word->text[i]]);
        else
            add_unknown(t, word, at, n);
    }
}

static bool merge_word(const Tokenizer *t, const FallbackBpe *bpe, Word *word, IdList *ids,
                       Error *error) {
    if (!word->count) return true;
    if (!merge_symbols(word->symbols, word->count, merge_table_rule, &bpe->merges, &t->work->steps,
                       error))
        return false;
    for (size_t i = 0; i < word->count; i++)
        if (word->symbols[i].length && !id_list_push(ids, word->symbols[i].id, error)) return false;
    return true;
}

// Room: every byte may be a space of three bytes, and one prefix.
static bool fallback_encode(const Tokenizer *t, IdList *ids, const char *text, size_t length,
                            bool after_token, Error *error) {
    const FallbackBpe *bpe = t->state;
    if (length >= UINT32_MAX / SPM_SPACE_LENGTH - 1)
        return error_set(error, ERROR_USAGE, "a text of %zu bytes is too long", length);
    size_t room = SPM_SPACE_LENGTH * (length + 1), spaces = 1;
    for (size_t i = 0; i < length; i++)
        spaces += text[i] == ' ';
    Word word = {.text = malloc(room),
                 .symbols = malloc((length + SPM_SPACE_LENGTH * spaces) * sizeof *word.symbols)};
    bool good = word.text && word.symbols;
    if (good) {
        normalise(&word, &bpe->options, text, length, after_token);
        split_characters(t, bpe, &word);
        good = merge_word(t, bpe, &word, ids, error);
    } else {
        error_set(error, ERROR_MEMORY, "out of memory for %zu bytes of text", length);
    }
    free(word.text);
    free(word.symbols);
    return good;
}

// ---- opening ----

// Exported as SPM-BPE: the lower the rank of a merge, the higher the score of its token. Tokens
// that no merge yields get the lowest score.
//
// False, exit code 3, where spaces stay spaces: no GGUF has that.
static bool fallback_describe(const Tokenizer *t, Vocabulary *out, Arena *arena, Error *error) {
    const FallbackBpe *bpe = t->state;
    float *scores = arena_alloc(arena, t->n_tokens, sizeof *scores, error);
    uint8_t *types = arena_alloc(arena, t->n_tokens, 1, error);
    if (!scores || !types) return false;
    for (size_t i = 0; i < t->n_tokens; i++)
        scores[i] = -1e9f;
    merge_table_scores(&bpe->merges, scores, t->n_tokens);
    memcpy(types, t->types, t->n_tokens);
    if (bpe->options.unk_id >= 0) types[bpe->options.unk_id] = TOKEN_UNKNOWN;
    out->model = "llama";
    out->scores = scores;
    out->types = types;
    out->unk_id = bpe->options.unk_id;
    out->add_space_prefix = bpe->options.prefix != PREFIX_NEVER;
    return bpe->options.spaces ||
           error_set(error, ERROR_FILE, "it does not replace spaces by U+2581");
}

static const TokenizerKind FALLBACK_BPE = {fallback_encode, spm_piece, fallback_close,
                                           fallback_describe};

bool fallback_bpe_open(Tokenizer *t, MergeTable *merges, const FallbackOptions *options,
                       Error *error) {
    FallbackBpe *bpe = t->state = calloc(1, sizeof *bpe);
    if (!bpe) {
        merge_table_free(merges);
        return error_set(error, ERROR_MEMORY, "out of memory for a tokenizer");
    }
    t->kind = &FALLBACK_BPE;
    bpe->merges = *merges;
    *merges = (MergeTable){0};
    bpe->options = *options;
    t->prefixes_space = options->drops_space;
    for (int byte = 0; byte < 256; byte++) {
        char spelling[8];
        snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
        int32_t id = bpe->byte_ids[byte] = vocabulary_find(t, spelling, 6);
        // From now on the spelling "<0x0A>" decodes to its byte.
        if (id >= 0 && options->byte_fallback) t->types[id] = TOKEN_BYTE;
    }
    snprintf(t->description, sizeof t->description, "BPE with byte fallback, merges by rank");
    return true;
}
