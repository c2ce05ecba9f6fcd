// The texts among the options of sampling: --logit-bias as numbers, and the sequence breakers of
// DRY as tokens.
//
//   "ID:BIAS,ID:BIAS"   ID an integer, BIAS a number with or without sign, or -inf. llama.cpp's
//                       spelling without a colon is read too: 15043+1, 15043-inf
//
// A breaker is a text, and a text is many rows of tokens: any token that holds it ends a
// repetition, and so does one that ends with its beginning before those that the rest is encoded
// as. That is llama.cpp's way, so that "\n" breaks at "}\n\n" as well:
//
//   breaker "ab"    x a b y   head, alone
//                   x a       head, then the tokens of "b"
#include "commands/shared/generation.h"
#include "commands/shared/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BIASES = 4096, MOST_BREAKER_BYTES = 40 };
static const char *const DEFAULT_BREAKERS[] = {"\n", ":", "\"", "*"};

// ---- logit bias ----

// One entry, which ends at `length`.
static bool parse_bias(LogitBias *out, const char *text, size_t length) {
    char item[64];
    int64_t id = 0;
    double bias = -INFINITY;
    if (length >= sizeof item) return false;
    memcpy(item, text, length);
    item[length] = '\0';
    size_t digits = strspn(item, "0123456789");
    const char *number = item + digits + (item[digits] == ':');
    if (number == item + digits && *number != '+' && *number != '-') return false;
    if (strcmp(number, "-inf") != 0 &&
        (!parse_number(&bias, number) || !(fabs(bias) <= 1e6))) // the sampler's own range
        return false;
    item[digits] = '\0';
    if (!parse_integer(&id, item) || id > INT32_MAX) return false;
    *out = (LogitBias){(int32_t)id, (float)bias};
    return true;
}

// All entries of all texts, into `out` where it is not NULL. How many there are; 0 with exit code 2
// where one is malformed.
static size_t parse_biases(LogitBias *out, const TextList *texts, Error *error) {
    size_t count = 0;
    for (int i = 0; i < texts->count; i++) {
        const char *text = texts->texts[i];
        for (size_t length = 0;; text += length + 1) {
            LogitBias bias;
            length = strcspn(text, ",");
            if (!parse_bias(&bias, text, length)) {
                error_set(error, ERROR_USAGE,
                          "--logit-bias: got \"%.*s\", wanted ID:BIAS, such as 5:+1.5, with a bias "
                          "-1e6 .. 1e6 or -inf",
                          length < 60 ? (int)length : 60, text);
                return 0;
            }
            if (out) out[count] = bias;
            count++;
            if (!text[length]) break;
        }
    }
    return count;
}

bool sampling_check(const Options *o, Error *error) {
    if (!o->logit_biases.count) return true;
    size_t count = parse_biases(NULL, &o->logit_biases, error);
    if (count <= MOST_BIASES) return count;
    return error_set(error, ERROR_USAGE, "--logit-bias: wanted at most %d entries, got %zu",
                     MOST_BIASES, count);
}

void sampling_note(const Options *o) {
    static const OptionId CUTS[] = {OPTION_TOP_K, OPTION_TOP_P, OPTION_MIN_P, OPTION_TYPICAL_P,
                                    OPTION_XTC_PROBABILITY};
    bool cuts = false;
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS; i++)
        cuts = cuts || option_given(o, CUTS[i]);
    if (o->mirostat && cuts && !o->quiet)
        note("--mirostat 2 takes the place of --top-k, --top-p, --min-p, --typical-p and --xtc-*");
}

static bool read_biases(SamplingLists *lists, const Options *o, Error *error) {
    size_t count = o->logit_biases.count ? parse_biases(NULL, &o->logit_biases, error) : 0;
    if (!sampling_check(o, error)) return false;
    lists->biases = malloc(count * sizeof *lists->biases + 1);
    if (!lists->biases) return error_set(error, ERROR_MEMORY, "no memory for %zu biases", count);
    lists->n_biases = count ? parse_biases(lists->biases, &o->logit_biases, error) : 0;
    return true;
}

// ---- sequence breakers ----

static bool push_breaker(SamplingLists *lists, size_t *capacity, const DryBreaker *b) {
    // A token may hold the beginning of a breaker twice.
    for (size_t i = lists->n_breakers; i-- > 0 && lists->breakers[i].head == b->head;)
        if (!memcmp(&lists->breakers[i], b, sizeof *b)) return true;
    if (lists->n_breakers == *capacity) {
        size_t grown = 2 * *capacity + 64;
        DryBreaker *more = realloc(lists->breakers, grown * sizeof *more);
        if (!more) return false;
        lists->breakers = more;
        *capacity = grown;
    }
    lists->breakers[lists->n_breakers++] = *b;
    return true;
}

// The token `head` ends with the first bytes of the breaker: its others, as tokens.
static bool add_tail(SamplingLists *lists, size_t *capacity, const Tokenizer *tokenizer,
                     int32_t head, TextSpan rest, Error *error) {
    IdList ids = {0};
    DryBreaker b = {.head = head};
    bool good = tokenizer_encode(tokenizer, &ids, rest.text, rest.length, false, error);
    for (; good && b.tail_length < DRY_MOST_TAIL && (size_t)b.tail_length < ids.count;
         b.tail_length++)
        b.tail[b.tail_length] = ids.ids[b.tail_length];
    id_list_free(&ids);
    if (!good || push_breaker(lists, capacity, &b)) return good;
    return error_set(error, ERROR_MEMORY, "no memory for sequence breakers");
}

// What `token`, whose bytes are `piece`, is to one breaker.
static bool add_token(SamplingLists *lists, size_t *capacity, const Tokenizer *tokenizer,
                      int32_t token, TextSpan piece, TextSpan breaker, Error *error) {
    DryBreaker whole = {.head = token};
    if (memmem(piece.text, piece.length, breaker.text, breaker.length))
        return push_breaker(lists, capacity, &whole) ||
               error_set(error, ERROR_MEMORY, "no memory for sequence breakers");
    for (size_t at = 0; at < piece.length; at++) {
        size_t n = piece.length - at;
        if (n >= breaker.length || memcmp(piece.text + at, breaker.text, n) != 0) continue;
        TextSpan rest = {breaker.text + n, breaker.length - n};
        if (!add_tail(lists, capacity, tokenizer, token, rest, error)) return false;
    }
    return true;
}

static bool find_breakers(SamplingLists *lists, Tokenizer *tokenizer, int vocab_size,
                          const char *const *texts, int count, Error *error) {
    size_t capacity = 0;
    int size = tokenizer_size(tokenizer) < vocab_size ? tokenizer_size(tokenizer) : vocab_size;
    for (int32_t id = 0; id < size; id++) {
        char bytes[256]; // the tokenizer's own are gone after it encodes
        TextSpan piece = {bytes, 0};
        const char *text = tokenizer_piece(tokenizer, id, false, true, &piece.length);
        if (piece.length > sizeof bytes) piece.length = sizeof bytes;
        memcpy(bytes, text, piece.length);
        for (int i = 0; i < count; i++) {
            size_t length = strlen(texts[i]);
            TextSpan breaker = {texts[i],
                                length < MOST_BREAKER_BYTES ? length : MOST_BREAKER_BYTES};
            if (!add_token(lists, &capacity, tokenizer, id, piece, breaker, error)) return false;
        }
    }
    return true;
}

static bool read_breakers(SamplingLists *lists, const Session *s, Error *error) {
    const TextList *given = &s->options->dry_breakers;
    enum { DEFAULTS = sizeof DEFAULT_BREAKERS / sizeof *DEFAULT_BREAKERS };
    bool none = given->count == 1 && !strcmp(given->texts[0], "none");
    if (s->options->dry_multiplier <= 0 || !s->options->dry_last || none) return true;
    if (!session_need_tokenizer(s, error))
        return error_prefix(error, "--dry-sequence-breaker none does without a tokenizer");
    return find_breakers(lists, s->tokenizer, s->config->vocab_size,
                         given->count ? given->texts : DEFAULT_BREAKERS,
                         given->count ? given->count : DEFAULTS, error);
}

// ---- both ----

bool sampling_add(SamplerOptions *out, SamplingLists *lists, const Session *s, Error *error) {
    const Options *o = s->options;
    if (!read_biases(lists, o, error) || !read_breakers(lists, s, error)) return false;
    out->biases = lists->biases;
    out->n_biases = lists->n_biases;
    out->xtc_probability = (float)o->xtc_probability;
    out->rule.xtc = o->xtc_probability > 0 ? (float)o->xtc_threshold : 0.0f;
    out->dry = (DryOptions){.multiplier = (float)o->dry_multiplier,
                            .base = (float)o->dry_base,
                            .allowed_length = (int)o->dry_allowed_length,
                            .last = (int)o->dry_last,
                            .breakers = lists->breakers,
                            .n_breakers = lists->n_breakers};
    out->mirostat_tau = o->mirostat ? (float)o->mirostat_ent : 0.0f;
    out->mirostat_eta = (float)o->mirostat_lr;
    return true;
}

void sampling_free(SamplingLists *lists) {
    free(lists->biases);
    free(lists->breakers);
}
