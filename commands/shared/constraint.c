// The tokenizer's side of a grammar: its tokens as bytes, the ids that end a text, the mask for the
// sampler. What may come next is found in grammar/.
#include "commands/shared/constraint.h"
#include "base/file_reader.h"
#include "commands/shared/interrupt.h"
#include "grammar/matcher.h"

#include <stdlib.h>
#include <string.h>

struct Constraint {
    const Session *session; // borrowed
    const char *option, *path;
    Grammar *grammar;
    Trie trie;
    Trie first_trie; // of the first token of a text; zeroed where it would be the same
    Matcher *matcher;
    uint64_t *mask; // (words) of the model's vocabulary
    size_t words;
    Sampler *sampler; // between constraint_begin and constraint_end; borrowed
    bool first;       // no token yet, and the first one's bytes are its own
    size_t read;      // bytes of the text so far
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

static bool put_piece(Buffer *bytes, const Session *s, int32_t id, bool first, bool *differs) {
    size_t length = 0, other = 0;
    if (!s->options->ignore_eos && session_stops_at(s, id)) return true;
    const char *piece = tokenizer_piece(s->tokenizer, id, first, false, &length);
    buffer_put(bytes, piece, length);
    if (differs) {
        tokenizer_piece(s->tokenizer, id, !first, false, &other);
        *differs = *differs || other != length;
    }
    return !bytes->failed;
}

// The bytes of every token; of those that end a text, and of control tokens, none. *differs (NULL
// is fine): some token has other bytes where it is not the first of a text.
static bool vocabulary_trie(Trie *trie, const Session *s, bool first, bool *differs, Error *error) {
    size_t n = (size_t)s->config->vocab_size;
    Buffer bytes = {0};
    TextSpan *tokens = calloc(n, sizeof *tokens);
    bool good = tokens;
    if (differs) *differs = false;
    for (size_t i = 0; good && i < n; i++) {
        size_t before = bytes.size;
        good = put_piece(&bytes, s, (int32_t)i, first, differs);
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

static bool read_grammar(Constraint *c, bool is_schema, Error *error) {
    FileCopy copy;
    if (!file_copy_open(&copy, c->path, LIMIT_GRAMMAR_BYTES, error))
        return error_prefix(error, c->path);
    const char *text = (const char *)copy.bytes;
    char *converted = is_schema ? grammar_of_json_schema(text, copy.size, error) : NULL;
    if (!is_schema)
        c->grammar = grammar_parse(text, copy.size, error);
    else if (converted)
        c->grammar = grammar_parse(converted, strlen(converted), error);
    free(converted);
    file_copy_close(&copy);
    return c->grammar || error_prefix(error, c->path);
}

// llama.cpp's option of this name takes the grammar itself.
static bool check_path(const Constraint *c, Error *error) {
    const char *own = c->path + strspn(c->path, " \t\r\n");
    if (!strstr(own, "::=") && *own != '{') return true;
    return error_set(error, ERROR_USAGE, "%s takes the name of a file, not the text itself",
                     c->option);
}

static bool find_mask(Constraint *c, Error *error) {
    if (c->first) return matcher_mask_slowly(c->matcher, &c->first_trie, c->mask, error);
    const uint64_t *mask = matcher_mask(c->matcher, error);
    if (mask) memcpy(c->mask, mask, c->words * sizeof *mask);
    return mask;
}

static bool any_token(const Constraint *c) {
    uint64_t any = 0;
    for (size_t i = 0; i < c->words; i++)
        any |= c->mask[i];
    return any;
}

// Before the model is loaded: some text begins with a token.
static bool check_beginning(Constraint *c, Error *error) {
    bool found = matcher_complete(c->matcher);
    for (int first = 0; !found && first <= (c->first_trie.nodes != NULL); first++) {
        c->first = first;
        if (!find_mask(c, error)) return error_prefix(error, c->path);
        found = any_token(c);
    }
    return found || error_set(error, ERROR_USAGE,
                              "%s %s: no token of this vocabulary can begin a text of it",
                              c->option, c->path);
}

static bool open_all(Constraint *c, bool is_schema, Error *error) {
    const Session *s = c->session;
    bool differs;
    c->words = mask_words((size_t)s->config->vocab_size);
    c->mask = calloc(c->words, sizeof *c->mask);
    if (!c->mask) return error_set(error, ERROR_MEMORY, "no memory for a grammar's mask");
    if (!check_path(c, error) || !session_need_tokenizer(s, error) ||
        !read_grammar(c, is_schema, error) || !vocabulary_trie(&c->trie, s, false, &differs, error))
        return false;
    if (differs && !vocabulary_trie(&c->first_trie, s, true, NULL, error)) return false;
    c->matcher = matcher_open(c->grammar, &c->trie, interrupt_flag(), error);
    return c->matcher ? check_beginning(c, error) : error_prefix(error, c->path);
}

bool constraint_open(Constraint **constraint, const Session *s, Error *error) {
    const Options *o = s->options;
    *constraint = NULL;
    if (!o->grammar && !o->json_schema) return true;
    if (o->grammar && o->json_schema)
        return error_set(error, ERROR_USAGE, "a text has one of --grammar and --json-schema");
    Constraint *c = calloc(1, sizeof *c);
    if (!c) return error_set(error, ERROR_MEMORY, "no memory for a grammar");
    c->session = s;
    c->path = o->grammar ? o->grammar : o->json_schema;
    c->option = o->grammar ? "--grammar" : "--json-schema";
    if (open_all(c, !o->grammar, error)) {
        *constraint = c;
        return true;
    }
    constraint_close(c);
    return false;
}

void constraint_close(Constraint *c) {
    if (!c) return;
    matcher_close(c->matcher);
    grammar_close(c->grammar);
    trie_close(&c->trie);
    trie_close(&c->first_trie);
    free(c->mask);
    free(c);
}

// ---- one text ----

bool constraint_begin(Constraint *c, Sampler *sampler, bool first, Error *error) {
    c->sampler = sampler;
    c->first = first && c->first_trie.nodes;
    c->read = 0;
    sampler_allow(sampler, c->mask);
    return matcher_reset(c->matcher, error) || error_prefix(error, c->path);
}

void constraint_end(Constraint *c) {
    if (c->sampler) sampler_allow(c->sampler, NULL);
    c->sampler = NULL;
}

static void allow_stops(Constraint *c) {
    const limpid_model *m = c->session->file;
    for (size_t i = 0; i < m->n_stops; i++)
        if (m->stops[i] < c->session->config->vocab_size)
            c->mask[m->stops[i] / 64] |= (uint64_t)1 << m->stops[i] % 64;
}

bool constraint_next(Constraint *c, bool *ended, Error *error) {
    if (!find_mask(c, error)) return error_prefix(error, c->path);
    bool any = any_token(c);
    *ended = !any && matcher_complete(c->matcher);
    if (!any && !*ended)
        return error_set(error, ERROR_USAGE,
                         "%s %s: no token of this vocabulary can follow the %zu bytes so far",
                         c->option, c->path, c->read);
    if (matcher_complete(c->matcher) && !c->session->options->ignore_eos) allow_stops(c);
    return true;
}

bool constraint_accept(Constraint *c, int32_t id, Error *error) {
    size_t length = 0;
    bool fits = false, allowed = c->mask[id / 64] >> id % 64 & 1;
    const char *piece = tokenizer_piece(c->session->tokenizer, id, c->first, false, &length);
    c->first = false;
    c->read += length;
    if (allowed && !matcher_read(c->matcher, piece, length, &fits, error))
        return error_prefix(error, c->path);
    return fits ||
           error_set(error, ERROR_USAGE,
                     "%s %s: every token that it allows has probability 0 (after %zu bytes)",
                     c->option, c->path, c->read - length);
}

bool constraint_complete(const Constraint *c) {
    return matcher_complete(c->matcher);
}
