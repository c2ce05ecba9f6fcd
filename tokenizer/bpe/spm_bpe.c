// SPM-BPE, the algorithm of SentencePiece's BPE models and of llama2.c: spaces become U+2581, the
// text is split into characters, and of all neighbours whose concatenation is a token, those with
// the highest score are merged first. Byte fallback: what is no token at the end is encoded as
// bytes.
//
// Source: sentencepiece's bpe_model.cc, version 0.1.97, for the order of merges, for runs of
// unknown characters, and for pieces of type UNUSED, which may occur between merges but not in the
// output.
//
//     normalise         " the cat" -> "▁the▁cat" (of a .model: sentencepiece/normalizer.c)
//     word_end          cut where no piece reaches across: less to merge at a time
//     split_characters  one symbol a character, id -1 where it is no token
//     merge_symbols     with spm_rule: priority by score
//     spm_put           ids; byte fallback for what is no token; UNUSED pieces split again
#include "tokenizer/bpe/spm.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Range { // bytes of the normalised text
    uint32_t start, length;
} Range;

struct SpmBpe {
    SpmUnknown unknown;      // for vocabularies that come without a .model
    const PieceTrie *frozen; // NULL: none
    size_t longest;          // bytes of the longest piece
    bool before_space[256];  // some piece has U+2581 directly after this byte
    // If there are pieces of type UNUSED, else NULL: the length of each piece's left half when the
    // pair was last a candidate, and a stack to split such pieces again.
    uint32_t *left_length; // (n_tokens)
    Range *pending;        // (longest + 1)
};

// Whether text can match this token: control, byte and unknown tokens never do.
static bool matches_text(const Tokenizer *t, int32_t id) {
    return id >= 0 && (t->types[id] == TOKEN_NORMAL || t->types[id] == TOKEN_USER_DEFINED ||
                       t->types[id] == TOKEN_UNUSED || t->types[id] == TOKEN_UNDEFINED);
}

// The id of a token that text can match, or -1.
static int32_t find_piece(const Tokenizer *t, const char *text, size_t length) {
    int32_t id = vocabulary_find(t, text, length);
    return matches_text(t, id) ? id : -1;
}

// ---- merging ----

typedef struct Segment { // the context of the MergeRule
    const SpmBpe *spm;
    const Tokenizer *tokenizer;
    const char *text; // normalised
} Segment;

// An integer per score: the higher the score, the lower the integer. IEEE floats of one sign are in
// the order of their bits: those of positive scores are inverted, below all negative ones, whose
// bits grow as the score falls.
static uint32_t priority_of(float score) {
    uint32_t bits;
    score += 0.0f; // -0 is 0
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

static bool is_frozen(const Segment *segment, const Symbol *symbol) {
    return segment->spm->frozen && symbol->id >= 0 &&
           segment->tokenizer->types[symbol->id] == TOKEN_USER_DEFINED;
}

// Two symbols may be merged where their text is a token, of any type that text matches. Where it is
// UNUSED, the length of the left part is noted for put_unused, as sentencepiece notes the pair.
static bool spm_rule(const void *context, const Symbol *left, const Symbol *right,
                     uint32_t *priority, int32_t *id) {
    const Segment *segment = context;
    const Tokenizer *t = segment->tokenizer;
    const SpmBpe *spm = segment->spm;
    size_t length = (size_t)left->length + right->length;
    if (length > spm->longest || is_frozen(segment, left) || is_frozen(segment, right))
        return false;
    *id = find_piece(t, segment->text + left->start, length);
    if (*id < 0) return false;
    *priority = priority_of(t->scores ? t->scores[*id] : 0);
    if (spm->left_length && t->types[*id] == TOKEN_UNUSED) spm->left_length[*id] = left->length;
    return true;
}

// ---- output ----

// Splits a piece of type UNUSED into the two that were merged, and these again, left to right;
// right halves wait on the stack `pending`. Each half is shorter than its piece, so this ends.
static bool put_unused(SpmOutput *out, const Segment *segment, int32_t id, Range range) {
    const Tokenizer *t = segment->tokenizer;
    const SpmBpe *spm = segment->spm;
    const char *text = segment->text;
    size_t n_pending = 0;
    for (;;) {
        uint32_t left = id >= 0 && t->types[id] == TOKEN_UNUSED ? spm->left_length[id] : 0;
        if (left && left < range.length) {
            spm->pending[n_pending++] = (Range){range.start + left, range.length - left};
            range.length = left;
        } else {
            if (!spm_put(out, id, text + range.start, range.length)) return false;
            if (!n_pending) return true;
            range = spm->pending[--n_pending];
        }
        id = find_piece(t, text + range.start, range.length);
    }
}

// ---- encoding ----

// Writes the text with U+2581 for each space; with `prefix` (add_dummy_prefix) one more in front.
static size_t normalise(char *out, const char *text, size_t length, bool prefix) {
    size_t n = 0;
    if (prefix) {
        memcpy(out, SPM_SPACE, SPM_SPACE_LENGTH);
        n = SPM_SPACE_LENGTH;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') {
            memcpy(out + n, SPM_SPACE, SPM_SPACE_LENGTH);
            n += SPM_SPACE_LENGTH;
        } else {
            out[n++] = text[i];
        }
    }
    return n;
}

// The end of the word that begins at `start`: the next U+2581 that no piece has after the byte
// before it. No merge can cross this point, so words can be merged one at a time with the same
// result.
static size_t word_end(const SpmBpe *spm, const char *text, size_t start, size_t length) {
    for (size_t i = start + 1; i + SPM_SPACE_LENGTH <= length; i++) {
        if (text[i] == SPM_SPACE[0] && !memcmp(text + i, SPM_SPACE, SPM_SPACE_LENGTH) &&
            !spm->before_space[(uint8_t)text[i - 1]])
            return i;
    }
    return length;
}

// Decides how many symbols are allocated, once for all words.
static size_t longest_word(const SpmBpe *spm, const char *text, size_t length) {
    size_t longest = 0;
    for (size_t start = 0, end; start < length; start = end) {
        end = word_end(spm, text, start, length);
        if (end - start > longest) longest = end - start;
    }
    return longest;
}

// One symbol per frozen piece, per character and per invalid byte.
static size_t split_characters(const Segment *segment, Symbol *symbols, size_t start, size_t end) {
    const PieceTrie *frozen = segment->spm->frozen;
    size_t count = 0;
    for (size_t i = start; i < end;) {
        const char *at = segment->text + i;
        uint32_t codepoint;
        size_t n = frozen ? piece_trie_longest(frozen, at, end - i) : 0;
        if (!n) n = utf8_decode(at, end - i, &codepoint);
        if (!n) n = 1;
        symbols[count++] = (Symbol){.start = (uint32_t)i,
                                    .length = (uint32_t)n,
                                    .id = find_piece(segment->tokenizer, at, n)};
        i += n;
    }
    return count;
}

// Merges the symbols of one word and puts out those that are left.
static bool encode_word(const Segment *segment, SpmOutput *out, Symbol *symbols, size_t count) {
    const Tokenizer *t = segment->tokenizer;
    if (!merge_symbols(symbols, count, spm_rule, segment, &t->work->steps, out->error))
        return false;
    // symbols[0] is never merged into another, so the list begins there.
    for (uint32_t i = 0; i < count; i = symbols[i].next) {
        const Symbol *s = &symbols[i];
        bool unused = s->id >= 0 && t->types[s->id] == TOKEN_UNUSED;
        bool good = unused ? put_unused(out, segment, s->id, (Range){s->start, s->length})
                           : spm_put(out, s->id, segment->text + s->start, s->length);
        if (!good) return false;
    }
    return true;
}

bool spm_bpe_encode(const SpmBpe *spm, const Tokenizer *t, SpmOutput *out, const char *text,
                    size_t length) {
    if (length > UINT32_MAX - 2) // of Symbol
        return error_set(out->error, ERROR_MEMORY, "a text of %zu bytes is too long", length);
    Segment segment = {spm, t, text};
    size_t longest = longest_word(spm, text, length); // in bytes, so at least its characters
    bool fits = longest < SIZE_MAX / sizeof(Symbol);
    Symbol *symbols = fits ? malloc((longest + 1) * sizeof *symbols) : NULL;
    if (!symbols)
        return error_set(out->error, ERROR_MEMORY, "out of memory for a word of %zu bytes",
                         longest);
    bool good = true;
    for (size_t start = 0, end; good && start < length; start = end) {
        end = word_end(spm, text, start, length);
        size_t count = split_characters(&segment, symbols, start, end);
        good = encode_word(&segment, out, symbols, count);
    }
    free(symbols);
    return good;
}

// The space prefix is put before every segment, also after an added token, as llama.cpp does.
static bool spm_encode(const Tokenizer *t, IdList *ids, const char *text, size_t length,
                       bool after_token, Error *error) {
    (void)after_token;
    char *normal = calloc(length + 1, SPM_SPACE_LENGTH); // which checks the product
    if (!normal)
        return error_set(error, ERROR_MEMORY, "out of memory for a text of %zu bytes", length);
    size_t count = normalise(normal, text, length, t->prefixes_space);
    const SpmBpe *spm = t->state;
    SpmOutput out = {.unknown = &spm->unknown, .ids = ids, .error = error};
    bool good = spm_bpe_encode(spm, t, &out, normal, count);
    free(normal);
    return good;
}

static void spm_close(Tokenizer *t) {
    spm_bpe_free(t->state);
}

static bool spm_describe(const Tokenizer *t, Vocabulary *out, Arena *arena, Error *error) {
    (void)arena;
    (void)error;
    out->model = "llama";
    out->add_space_prefix = t->prefixes_space;
    return true;
}

static const TokenizerKind SPM_BPE = {spm_encode, spm_piece, spm_close, spm_describe};

// ---- opening ----

// Fills before_space, which word_end asks.
static void record_spaces(SpmBpe *spm, TextSpan spelling) {
    for (size_t i = 1; i + SPM_SPACE_LENGTH <= spelling.length; i++) {
        if (!memcmp(spelling.text + i, SPM_SPACE, SPM_SPACE_LENGTH))
            spm->before_space[(uint8_t)spelling.text[i - 1]] = true;
    }
}

// For pieces of type UNUSED.
static bool make_stack(SpmBpe *spm, size_t n_tokens) {
    spm->left_length = calloc(n_tokens, sizeof *spm->left_length);
    spm->pending = calloc(spm->longest + 1, sizeof *spm->pending);
    return spm->left_length && spm->pending;
}

SpmBpe *spm_bpe_new(const Tokenizer *t, const PieceTrie *frozen, Error *error) {
    SpmBpe *spm = calloc(1, sizeof *spm);
    bool unused = false;
    if (spm) {
        spm->frozen = frozen;
        spm_unknown_set(&spm->unknown, t);
    }
    for (size_t i = 0; spm && i < t->n_tokens; i++) {
        if (t->tokens[i].length > spm->longest) spm->longest = t->tokens[i].length;
        unused |= t->types[i] == TOKEN_UNUSED;
        if (matches_text(t, (int32_t)i)) record_spaces(spm, t->tokens[i]);
    }
    if (spm && (!unused || make_stack(spm, t->n_tokens))) return spm;
    spm_bpe_free(spm);
    error_set(error, ERROR_MEMORY, "out of memory for a tokenizer");
    return NULL;
}

void spm_bpe_free(SpmBpe *spm) {
    if (!spm) return;
    free(spm->left_length);
    free(spm->pending);
    free(spm);
}

static bool open_state(Tokenizer *t, int unk_id, Error *error) {
    SpmBpe *spm = t->state = spm_bpe_new(t, NULL, error);
    if (spm && unk_id >= 0 && (size_t)unk_id < t->n_tokens) spm->unknown.id = unk_id;
    return spm;
}

// Other formats than GGUF reach this too, so types and scores are checked again.
static bool check_tokens(const Vocabulary *v, Error *error) {
    for (size_t i = 0; i < v->n_tokens; i++) {
        if (v->scores && isnan(v->scores[i]))
            return error_set(error, ERROR_FILE, "token %zu: its score is NaN", i);
        if (v->types && v->types[i] > TOKEN_BYTE)
            return error_set(error, ERROR_FILE, "token %zu: unknown type %d (at most %d)", i,
                             v->types[i], TOKEN_BYTE);
    }
    return true;
}

// For files without token types: byte tokens are found by their spelling, special tokens by their
// id.
//
// NULL: out of memory. Owned by the caller.
static uint8_t *infer_types(const Vocabulary *v) {
    uint8_t *types = malloc(v->n_tokens + 1);
    if (!types) return NULL;
    for (size_t i = 0; i < v->n_tokens; i++) {
        uint8_t byte;
        types[i] = (int)i == v->unk_id                          ? TOKEN_UNKNOWN
                   : (int)i == v->bos_id || (int)i == v->eos_id ? TOKEN_CONTROL
                   : spm_byte_spelling(v->tokens[i], &byte)     ? TOKEN_BYTE
                                                                : TOKEN_NORMAL;
    }
    return types;
}

// `given`, or if that is absent (-1) the `usual` id in vocabularies of the Llama family, unless its
// token type contradicts.
//
// 0, 1 and 2 are unk, bos and eos there: the defaults of llama.cpp and of tokenizer.bin.
static int id_or(int given, int usual, const Vocabulary *v, TokenType type) {
    if (given >= 0) return given;
    bool fits = (size_t)usual < v->n_tokens && (!v->types || v->types[usual] == type);
    return fits ? usual : -1;
}

// add_space_prefix is true unless the file says no; BOS is added unless it says no.
bool spm_bpe_open_vocabulary(Tokenizer *t, const Vocabulary *vocabulary, Error *error) {
    Vocabulary v = *vocabulary;
    v.unk_id = id_or(v.unk_id, 0, &v, TOKEN_UNKNOWN);
    v.bos_id = id_or(v.bos_id, 1, &v, TOKEN_CONTROL);
    v.eos_id = id_or(v.eos_id, 2, &v, TOKEN_CONTROL);
    if (!check_tokens(&v, error)) return false;
    uint8_t *inferred = v.types ? NULL : infer_types(&v);
    if (!v.types && !inferred)
        return error_set(error, ERROR_MEMORY, "out of memory for %zu tokens", v.n_tokens);
    if (inferred) v.types = inferred;
    t->kind = &SPM_BPE;
    bool good = vocabulary_copy(t, &v, error) && open_state(t, v.unk_id, error) &&
                spm_added_tokens(t, true, error);
    free(inferred);
    if (!good) return false;
    t->prefixes_space = v.add_space_prefix != 0;
    vocabulary_set_ids(t, &v, true);
    snprintf(t->description, sizeof t->description, "SPM-BPE, %zu tokens", t->n_tokens);
    return true;
}
