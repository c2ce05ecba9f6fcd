// limpid_grammar: the tokenizer's side of a grammar, its tokens as bytes; and a Constraint, which
// holds one text to it. What may come next is found in grammar/.
//
//     for each token   constraint_find    -> a mask of the vocabulary, which the sampler has
//                      constraint_refuses -> whether the sampled one leaves tokens enough to end
//                      constraint_accept  -> the bytes of the sampled token
//
// What ends a text is allowed where the grammar has the text as it is. Control tokens have no
// bytes, and are never allowed else.
#include "library/handles.h"

#include <stdlib.h>
#include <string.h>

struct limpid_grammar {
    limpid_model *model; // borrowed
    Grammar *grammar;
    Trie trie;
    Trie first_trie; // of the first token of a text; zeroed where it would be the same
    bool endless;
};

#ifdef WITHOUT_JSON
// In the place of grammar/json_schema.c.
char *grammar_of_json_schema(const char *text, size_t size, Error *error) {
    (void)text, (void)size;
    error_set(error, ERROR_FILE, "a schema is JSON, and this program was built without jansson");
    return NULL;
}
#endif

// ---- the vocabulary ----

static bool is_end(const limpid_grammar *g, int32_t id) {
    return !g->endless && limpid_ends(g->model, id);
}

static bool put_piece(Buffer *bytes, const limpid_grammar *g, int32_t id, bool first,
                      bool *differs) {
    size_t length = 0, other = 0;
    if (is_end(g, id)) return true;
    const char *piece = tokenizer_piece(g->model->own.tokenizer, id, first, false, &length);
    buffer_put(bytes, piece, length);
    if (differs) {
        tokenizer_piece(g->model->own.tokenizer, id, !first, false, &other);
        *differs = *differs || other != length;
    }
    return !bytes->failed;
}

// The bytes of every token; of those that end a text, and of control tokens, none. *differs (NULL
// is fine): some token has other bytes where it is not the first of a text.
static bool vocabulary_trie(Trie *trie, const limpid_grammar *g, bool first, bool *differs,
                            Error *error) {
    size_t n = (size_t)g->model->config->vocab_size;
    Buffer bytes = {0};
    TextSpan *tokens = calloc(n, sizeof *tokens);
    bool good = tokens;
    if (differs) *differs = false;
    for (size_t i = 0; good && i < n; i++) {
        size_t before = bytes.size;
        good = put_piece(&bytes, g, (int32_t)i, first, differs);
        tokens[i].length = bytes.size - before;
    }
    size_t at = 0;
    for (size_t i = 0; good && i < n; i++) { // the bytes stay where they are from here on
        tokens[i].text = (const char *)bytes.bytes + at;
        at += tokens[i].length;
    }
    good = good ? trie_open(trie, tokens, n, error)
                : error_set(error, ERROR_MEMORY, "no memory for a vocabulary of %zu tokens", n);
    free(tokens);
    buffer_free(&bytes);
    return good;
}

// ---- opening ----

static bool parse(limpid_grammar *g, bool is_schema, const char *text, size_t length,
                  Error *error) {
    if (length > LIMIT_GRAMMAR_BYTES)
        return error_set(error, ERROR_FILE, "a grammar of %zu bytes, at most %d", length,
                         LIMIT_GRAMMAR_BYTES);
    char *converted = is_schema ? grammar_of_json_schema(text, length, error) : NULL;
    if (!is_schema)
        g->grammar = grammar_parse(text, length, error);
    else if (converted)
        g->grammar = grammar_parse(converted, strlen(converted), error);
    free(converted);
    return g->grammar;
}

static bool any_token(const uint64_t *mask, size_t words) {
    uint64_t any = 0;
    for (size_t i = 0; i < words; i++)
        any |= mask[i];
    return any;
}

// Some text begins with a token.
static bool check_beginning(const limpid_grammar *g, Error *error) {
    Constraint c = {0};
    bool good = constraint_open(&c, g, g->model, NULL, error), found = false;
    found = good && matcher_complete(c.matcher);
    for (int first = 0; good && !found && first <= (g->first_trie.nodes != NULL); first++) {
        good = matcher_mask_slowly(c.matcher, first ? &g->first_trie : &g->trie, c.mask, error);
        found = good && any_token(c.mask, c.words);
    }
    constraint_close(&c);
    return good && (found || error_set(error, ERROR_USAGE,
                                       "no token of this vocabulary can begin a text of it"));
}

static bool open_grammar(limpid_grammar *g, int flags, const char *text, size_t length,
                         Error *error) {
    int kind = flags & ~LIMPID_ENDLESS;
    bool differs;
    g->endless = flags & LIMPID_ENDLESS;
    if (kind != LIMPID_GBNF && kind != LIMPID_JSON_SCHEMA)
        return error_set(error, ERROR_USAGE,
                         "flags: got %d, wanted LIMPID_GBNF or LIMPID_JSON_SCHEMA", flags);
    if (!text) return error_set(error, ERROR_USAGE, "there is no text of a grammar");
    if (!g->model->own.tokenizer) return error_copy(error, &g->model->no_tokenizer);
    return parse(g, kind == LIMPID_JSON_SCHEMA, text, length, error) &&
           vocabulary_trie(&g->trie, g, false, &differs, error) &&
           (!differs || vocabulary_trie(&g->first_trie, g, true, NULL, error)) &&
           check_beginning(g, error);
}

limpid_grammar *limpid_grammar_open(limpid_model *m, int flags, const char *text, size_t length,
                                    limpid_error *error) {
    Error cause = {0};
    limpid_grammar *g = model_given(m, &cause) ? calloc(1, sizeof *g) : NULL;
    if (g) g->model = m;
    bool good = g ? open_grammar(g, flags, text, length, &cause)
                  : error_set(&cause, ERROR_MEMORY, "no memory for a grammar");
    if (library_result(error, good, &cause)) return g;
    limpid_grammar_close(g);
    return NULL;
}

void limpid_grammar_close(limpid_grammar *g) {
    if (!g) return;
    grammar_close(g->grammar);
    trie_close(&g->trie);
    trie_close(&g->first_trie);
    free(g);
}

// ---- one text ----

bool constraint_open(Constraint *c, const limpid_grammar *g, const limpid_model *m, const int *stop,
                     Error *error) {
    if (g->model != m) return error_set(error, ERROR_USAGE, "the grammar is of another model");
    c->grammar = g;
    c->words = mask_words((size_t)m->config->vocab_size);
    c->mask = calloc(c->words, sizeof *c->mask);
    c->other = calloc(c->words, sizeof *c->other);
    if (!c->mask || !c->other)
        return error_set(error, ERROR_MEMORY, "no memory for a grammar's mask");
    c->matcher = matcher_open(g->grammar, &g->trie, stop, error);
    return c->matcher;
}

void constraint_close(Constraint *c) {
    matcher_close(c->matcher);
    id_list_free(&c->text);
    free(c->mask);
    free(c->other);
}

void constraint_begin(Constraint *c, bool begins) {
    c->begins = begins && c->grammar->first_trie.nodes;
    c->text.count = c->most = 0;
    c->is_behind = true;
    c->has_mask = false;
}

void constraint_forget(Constraint *c, size_t n) {
    c->text.count -= n < c->text.count ? n : c->text.count;
    c->is_behind = true;
    c->has_mask = false;
}

// The bytes of token number `index` of the text.
static const char *piece_of(const Constraint *c, int32_t id, size_t index, size_t *length) {
    return tokenizer_piece(c->grammar->model->own.tokenizer, id, c->begins && !index, false,
                           length);
}

// What ends a text has no bytes. *fits: the grammar has those of this token.
static bool read_token(Constraint *c, int32_t id, size_t index, bool *fits, Error *error) {
    size_t length = 0;
    *fits = matcher_complete(c->matcher);
    if (is_end(c->grammar, id)) return true;
    const char *piece = piece_of(c, id, index, &length);
    if (!matcher_read(c->matcher, piece, length, fits, error)) return false;
    *fits = *fits && length; // control tokens have no bytes
    if (*fits) c->bytes += length;
    return true;
}

// After constraint_begin and constraint_forget: the matcher reads what is left of the text.
static bool catch_up(Constraint *c, Error *error) {
    bool fits;
    if (!c->is_behind) return true;
    c->bytes = 0;
    if (!matcher_reset(c->matcher, error)) return false;
    for (size_t i = 0; i < c->text.count; i++)
        if (!read_token(c, c->text.ids[i], i, &fits, error)) return false;
    c->is_behind = false;
    return true;
}

static void allow_ends(Constraint *c) {
    const limpid_model *m = c->grammar->model;
    for (size_t i = 0; i < m->n_stops && !c->grammar->endless; i++)
        if (m->stops[i] < m->config->vocab_size)
            c->mask[m->stops[i] / 64] |= (uint64_t)1 << m->stops[i] % 64;
}

// Where the first token has bytes of its own, the count would be that of another text.
static bool find_least(Constraint *c, Error *error) {
    Error cause = {0};
    c->least = MATCHER_ENDLESS;
    return c->begins || matcher_needs(c->matcher, NULL, 0, UINT32_MAX, &c->least, &cause) ||
           cause.code == ERROR_FILE || error_copy(error, &cause);
}

static bool find_mask(Constraint *c, Error *error) {
    if (!c->text.count && !find_least(c, error)) return false;
    if (c->begins && !c->text.count)
        return matcher_mask_slowly(c->matcher, &c->grammar->first_trie, c->mask, error);
    const uint64_t *mask = matcher_mask(c->matcher, error);
    if (mask) memcpy(c->mask, mask, c->words * sizeof *mask);
    return mask;
}

bool constraint_find(Constraint *c, bool *ended, Error *error) {
    c->problem = (Error){0};
    if (!c->has_mask) {
        c->is_narrow = c->gives_up = false;
        if (!catch_up(c, error) || !find_mask(c, error)) return false;
        bool any = any_token(c->mask, c->words), complete = matcher_complete(c->matcher);
        if (!any && !complete)
            return error_set(error, ERROR_USAGE,
                             "no token of this vocabulary can follow the %zu bytes so far",
                             c->bytes);
        if (complete) allow_ends(c);
        c->must_end = !any;
        c->has_mask = true;
    }
    *ended = c->must_end;
    return true;
}

bool constraint_allows(const Constraint *c, int32_t id) {
    return c->mask[id / 64] >> id % 64 & 1;
}

void constraint_within(Constraint *c, size_t tokens) {
    size_t count = c->text.count;
    c->most = !tokens ? 0 : tokens < SIZE_MAX - count ? count + tokens : SIZE_MAX;
    c->has_mask = false; // it may be that of another bound
}

static void exchange_masks(Constraint *c) {
    for (size_t i = 0; i < c->words; i++) {
        uint64_t other = c->other[i];
        c->other[i] = c->mask[i];
        c->mask[i] = other;
    }
}

// Only tokens behind which `left` complete the text, in the mask; *any: there are some, else it is
// as it was.
static bool narrow_mask(Constraint *c, uint32_t left, bool *any) {
    const limpid_grammar *g = c->grammar;
    const Trie *trie = c->begins && !c->text.count ? &g->first_trie : &g->trie;
    memcpy(c->other, c->mask, c->words * sizeof *c->mask);
    bool good = matcher_narrow(c->matcher, trie, left, c->other, &c->problem);
    *any = good && any_token(c->other, c->words);
    c->is_narrow = *any;
    if (*any) exchange_masks(c);
    return good;
}

// A narrow mask whose tokens the sampler's other options ban.
static bool give_up(Constraint *c) {
    exchange_masks(c);
    c->is_narrow = false;
    c->gives_up = true;
    return true;
}

// A text that cannot be completed in time from where it is, whatever comes, is left as it is; so is
// one of a grammar too ambiguous to tell.
bool constraint_refuses(void *context, int32_t id) {
    Constraint *c = context;
    size_t length = 0, behind = c->text.count + 1; // tokens of the text with this one
    uint32_t now, then;
    bool any = false;
    if (!c->most || c->gives_up) return false;
    if (!constraint_allows(c, id)) return c->is_narrow && give_up(c);
    if (is_end(c->grammar, id)) return false;
    size_t more = behind < c->most ? c->most - behind : 0;
    uint32_t left = more < MATCHER_ENDLESS ? (uint32_t)more : MATCHER_ENDLESS - 1;
    const char *piece = piece_of(c, id, c->text.count, &length);
    bool good = matcher_needs(c->matcher, piece, length, left, &then, &c->problem);
    if (good && then > left)
        good = matcher_needs(c->matcher, NULL, 0, left + 1, &now, &c->problem) &&
               (now > left + 1 || narrow_mask(c, left, &any));
    if (c->problem.code == ERROR_FILE) c->problem = (Error){0};
    return good && any;
}

bool constraint_accept(Constraint *c, int32_t id, Error *error) {
    bool fits = false;
    if (!catch_up(c, error) || !id_list_push(&c->text, id, error)) return false;
    c->text.count--;
    if (!read_token(c, id, c->text.count, &fits, error)) return false;
    if (!fits)
        return error_set(error, ERROR_USAGE,
                         "the grammar does not allow token %d behind the %zu bytes so far", (int)id,
                         c->bytes);
    c->text.count++;
    c->has_mask = false;
    return true;
}

bool constraint_complete(Constraint *c, bool *complete, Error *error) {
    if (!catch_up(c, error)) return false;
    *complete = matcher_complete(c->matcher);
    return true;
}
