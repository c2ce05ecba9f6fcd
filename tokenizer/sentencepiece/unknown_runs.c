// Replaces long runs of unknown characters before the library sees them.
//
// The text is read in the steps of the library's normalizer: at each place the longest user-defined
// piece, else the longest rule of the charsmap, else one character (U+FFFD for an invalid byte). A
// step is unknown if no piece can cover any character that it gives: none is a piece by itself,
// and none stands beside its neighbour in any piece. A run of such steps becomes one character
// whose first byte occurs in no piece and in no rule. So no match reaches from the text before into
// it, and the text around it is normalised as before.
#include "tokenizer/sentencepiece/sentencepiece.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { CODE_POINTS = 0x110000, REPLACEMENT = 0xfffd };

// Runs as long as this are left as they are. The library adds the scores of a text as float32, so
// that a segmentation could depend on how many unknown characters stand before it.
enum { KEPT = 256 };

struct KnownCharacters {
    uint8_t bits[CODE_POINTS / 8]; // characters that are pieces
    uint64_t *pairs;               // (n_pairs) sorted: neighbours in a piece, not both known
    size_t n_pairs;
    TextSpan *user_defined; // (n_user_defined) sorted; their text is the tokenizer's
    size_t n_user_defined;
    char *charsmap; // owned
    size_t charsmap_size;
    char stand_in[5]; // a character; empty: there is none, and no run is replaced
};

// One bit for each code point: 136 KiB.
static bool is_known(const KnownCharacters *known, uint32_t c) {
    return known->bits[c / 8] >> (c % 8) & 1;
}

static void set_known(KnownCharacters *known, uint32_t c) {
    known->bits[c / 8] |= (uint8_t)(1u << (c % 8));
}

// The next character and its length. An invalid byte counts as U+FFFD, as in the library.
static size_t next_character(const char *text, size_t length, uint32_t *c) {
    size_t n = utf8_decode(text, length, c);
    if (n) return n;
    *c = REPLACEMENT;
    return 1;
}

// ---- what the pieces say ----

static int compare_pairs(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t pair_of(uint32_t a, uint32_t b) {
    return (uint64_t)a << 32 | b;
}

static bool is_pair(const KnownCharacters *known, uint32_t a, uint32_t b) {
    uint64_t pair = pair_of(a, b);
    return known->n_pairs &&
           bsearch(&pair, known->pairs, known->n_pairs, sizeof pair, compare_pairs);
}

// The neighbours in a piece of which one is no piece itself; out NULL: only counts them.
//
// Pairs of two known characters are left out: they are known by themselves.
static size_t list_pairs(const KnownCharacters *known, TextSpan piece, uint64_t *out) {
    size_t count = 0;
    uint32_t before = ' ', c;
    for (size_t at = 0; at < piece.length; before = c) {
        bool first = at == 0;
        at += next_character(piece.text + at, piece.length - at, &c);
        if (first || (is_known(known, before) && is_known(known, c))) continue;
        if (out) out[count] = pair_of(before, c);
        count++;
    }
    return count;
}

// Pieces that the library finds in a text. A BPE model also merges unused ones.
static bool is_found(const Tokenizer *t, size_t i, bool bpe) {
    return t->types[i] == TOKEN_NORMAL || t->types[i] == TOKEN_USER_DEFINED ||
           (bpe && t->types[i] == TOKEN_UNUSED);
}

// Known characters first, since pairs depend on them; then pairs are counted, then listed.
static bool add_pieces(KnownCharacters *known, const Tokenizer *t, bool bpe) {
    size_t n_pairs = 0, n_user = 0;
    uint32_t c;
    for (size_t i = 0; i < t->n_tokens; i++) {
        if (!is_found(t, i, bpe)) continue;
        TextSpan piece = t->tokens[i];
        if (next_character(piece.text, piece.length, &c) == piece.length) set_known(known, c);
        n_user += t->types[i] == TOKEN_USER_DEFINED;
    }
    for (size_t i = 0; i < t->n_tokens; i++)
        if (is_found(t, i, bpe)) n_pairs += list_pairs(known, t->tokens[i], NULL);
    known->pairs = malloc((n_pairs + 1) * sizeof *known->pairs);
    known->user_defined = malloc((n_user + 1) * sizeof *known->user_defined);
    if (!known->pairs || !known->user_defined) return false;
    for (size_t i = 0; i < t->n_tokens; i++) {
        if (!is_found(t, i, bpe)) continue;
        known->n_pairs += list_pairs(known, t->tokens[i], known->pairs + known->n_pairs);
        if (t->types[i] == TOKEN_USER_DEFINED)
            known->user_defined[known->n_user_defined++] = t->tokens[i];
    }
    qsort(known->pairs, known->n_pairs, sizeof *known->pairs, compare_pairs);
    spans_sort(known->user_defined, known->n_user_defined);
    return true;
}

// A character whose first byte begins nothing: of private use or unassigned.
static void choose_stand_in(KnownCharacters *known, const Tokenizer *t, const bool *in_rules) {
    static const char *const CHOICE[] = {"\xf4\x80\x80\x80", "\xf3\x80\x80\x80", "\xf2\x80\x80\x80",
                                         "\xf1\x80\x80\x80", "\xee\x80\x80"};
    bool used[256] = {false};
    for (size_t i = 0; i < t->n_tokens; i++)
        for (size_t at = 0; at < t->tokens[i].length; at++)
            used[(uint8_t)t->tokens[i].text[at]] = true;
    for (size_t i = 0; i < sizeof CHOICE / sizeof *CHOICE && !*known->stand_in; i++) {
        uint8_t first = (uint8_t)CHOICE[i][0];
        if (used[first] || in_rules[first]) continue;
        memcpy(known->stand_in, CHOICE[i], strlen(CHOICE[i]) + 1);
    }
}

// A space is always known: the normalizer makes U+2581 of it.
KnownCharacters *known_characters(const SentencePieceModel *model, const Tokenizer *t,
                                  Error *error) {
    KnownCharacters *known = calloc(1, sizeof *known);
    TextSpan charsmap = model->normalizer.charsmap;
    bool good = known != NULL;
    if (good) {
        set_known(known, ' ');
        set_known(known, 0x2581);
        known->charsmap_size = charsmap.length;
        known->charsmap = malloc(charsmap.length + 1);
        good = known->charsmap && add_pieces(known, t, model->model_type == SENTENCEPIECE_BPE);
    }
    if (good) {
        if (charsmap.length) memcpy(known->charsmap, charsmap.text, charsmap.length);
        choose_stand_in(known, t, model->normalizer.bytes);
        return known;
    }
    known_characters_free(known);
    error_set(error, ERROR_MEMORY, "out of memory for a table of characters");
    return NULL;
}

void known_characters_free(KnownCharacters *known) {
    if (!known) return;
    free(known->pairs);
    free(known->user_defined);
    free(known->charsmap);
    free(known);
}

// ---- steps ----

// What a step of the normalizer reads, and what it gives.
typedef struct Step {
    size_t length;
    TextSpan gives;
} Step;

// The longest user-defined piece, else the longest rule, else one character.
static Step next_step(const KnownCharacters *known, const char *text, size_t length) {
    uint32_t c;
    Step step = {0};
    step.length = spans_longest_prefix(known->user_defined, known->n_user_defined, text, length);
    step.gives = (TextSpan){text, step.length};
    if (step.length) return step;
    TextSpan charsmap = {known->charsmap, known->charsmap_size};
    step.length = charsmap_longest(charsmap, text, length, &step.gives);
    if (step.length) return step;
    step.length = next_character(text, length, &c);
    step.gives = c == REPLACEMENT ? (TextSpan){"\xef\xbf\xbd", 3} : (TextSpan){text, step.length};
    return step;
}

// Characters that no piece covers by themselves or together. *first and *last are set.
static bool is_unknown(const KnownCharacters *known, TextSpan span, uint32_t *first,
                       uint32_t *last) {
    bool unknown = true;
    for (size_t at = 0; at < span.length;) {
        uint32_t c;
        bool begins = at == 0;
        at += next_character(span.text + at, span.length - at, &c);
        unknown = unknown && !is_known(known, c) && (begins || !is_pair(known, *last, c));
        if (begins) *first = c;
        *last = c;
    }
    return unknown;
}

// ---- runs ----

// The text so far, and the run of unknown steps that it ends with.
typedef struct Shortened {
    char *out;
    size_t used;
    size_t run, last; // where the run and its last step begin
    size_t count;     // of its steps
} Shortened;

// The run ends at `end`; what follows it in `out` stays.
//
// Runs up to KEPT steps stay as they are.
static void end_run(Shortened *s, size_t end, const KnownCharacters *known) {
    size_t length = strlen(known->stand_in);
    if (s->count > KEPT && length) {
        memcpy(s->out + s->run, known->stand_in, length);
        memmove(s->out + s->run + length, s->out + end, s->used - end);
        s->used -= end - s->run - length;
    }
    s->count = 0;
}

// A step that forms a pair with the one before it ends the run before that one: both may be part of
// a piece.
size_t shorten_unknown_runs(char *out, const char *text, size_t length,
                            const KnownCharacters *known) {
    Shortened s = {.out = out};
    uint32_t before = ' ', first = ' ', last = ' ';
    for (size_t at = 0; at < length;) {
        Step step = next_step(known, text + at, length - at);
        bool unknown = is_unknown(known, step.gives, &first, &last);
        // A rule may give nothing: such a step neither ends a run nor belongs to one.
        bool gives = step.gives.length > 0, joined = gives && is_pair(known, before, first);
        if (joined && s.count) {
            s.count--;
            end_run(&s, s.last, known);
        } else if (gives && (joined || !unknown)) {
            end_run(&s, s.used, known);
        }
        if (gives && unknown && !joined) {
            if (!s.count) s.run = s.used;
            s.last = s.used;
            s.count++;
        }
        memmove(out + s.used, text + at, step.length);
        s.used += step.length;
        at += step.length;
        if (gives) before = last;
    }
    end_run(&s, s.used, known);
    return s.used;
}
