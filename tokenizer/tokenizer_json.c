// tokenizer.json, and vocab.json with merges.txt: the vocabulary, the merges, the added tokens.
// What is done to a text before and after is read by json_pipeline.c.
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/byte_bpe.h"
#include "tokenizer/json_pipeline.h"

#include <stdlib.h>
#include <string.h>

// The vocabulary while it is collected; spellings are borrowed from the JSON.
typedef struct Collected {
    TextSpan *tokens;  // (n_tokens) text NULL: none yet
    uint8_t *types;    // (n_tokens)
    AddedToken *added; // (n_added)
    size_t n_tokens, n_added;
} Collected;

// In a text of 11 MB, Qwen's, a value takes 19 bytes. With this the parsed form stays below 8 times
// the text, 32 MiB besides, whatever the values are.
static json_t *parse(TextSpan json, Error *error) {
    JsonLimits limits = {.bytes = SIZE_MAX, .values = (1u << 17) + json.length / 16};
    json_t *root = json_parse(json.text, json.length, &limits, error);
    if (!root || json_is_object(root)) return root;
    error_set(error, ERROR_FILE, "wanted an object, got %s", json_kind(root));
    json_decref(root);
    return NULL;
}

static void collected_free(Collected *c) {
    free(c->tokens);
    free(c->types);
    free(c->added);
}

static bool collected_init(Collected *c, size_t n_tokens, size_t n_added, Error *error) {
    *c = (Collected){.n_tokens = n_tokens};
    if (n_tokens > LIMIT_VOCAB)
        return error_set(error, ERROR_FILE, "vocabulary: %zu tokens (at most %d)", n_tokens,
                         LIMIT_VOCAB);
    c->tokens = calloc(n_tokens + 1, sizeof *c->tokens);
    c->types = calloc(n_tokens + 1, sizeof *c->types);
    c->added = calloc(n_added + 1, sizeof *c->added);
    return (c->tokens && c->types && c->added) ||
           error_set(error, ERROR_MEMORY, "out of memory for %zu tokens", n_tokens);
}

// Reads the id of a token: an integer below the number of tokens.
static bool read_id(const Collected *c, const json_t *value, const char *spelling, int32_t *id,
                    Error *error) {
    char shown[96];
    escape_bytes(shown, sizeof shown, spelling, strlen(spelling));
    if (!json_is_integer(value))
        return error_set(error, ERROR_FILE, "id of \"%s\": wanted an integer, got %s", shown,
                         json_kind(value));
    json_int_t number = json_integer_value(value);
    if (number < 0 || (uint64_t)number >= c->n_tokens)
        return error_set(error, ERROR_FILE,
                         "id of \"%s\": %" JSON_INTEGER_FORMAT " is outside 0 .. %zu (a gap, or "
                         "the same token twice)",
                         shown, number, c->n_tokens - 1);
    *id = (int32_t)number;
    return true;
}

static bool set_token(Collected *c, int32_t id, const char *spelling, TokenType type,
                      Error *error) {
    TextSpan *token = &c->tokens[id];
    size_t length = strlen(spelling);
    char old[64], new[64];
    if (token->text && (token->length != length || memcmp(token->text, spelling, length)))
        return error_set(error, ERROR_FILE, "id %d: both \"%s\" and \"%s\"", (int)id,
                         escape_bytes(old, sizeof old, token->text, token->length),
                         escape_bytes(new, sizeof new, spelling, length));
    *token = (TextSpan){spelling, length};
    c->types[id] = (uint8_t)type;
    return true;
}

static bool read_vocab(Collected *c, json_t *vocab, Error *error) {
    const char *spelling;
    json_t *value;
    json_object_foreach(vocab, spelling, value) {
        int32_t id;
        if (!read_id(c, value, spelling, &id, error) ||
            !set_token(c, id, spelling, TOKEN_NORMAL, error))
            return false;
    }
    return true;
}

// ---- added tokens ----

static bool read_added_token(Collected *c, const json_t *entry, const json_t *vocab, Error *error) {
    const char *content = NULL;
    bool special = false;
    AddedToken *added = &c->added[c->n_added];
    if (!json_read_string(entry, "content", &content, error) ||
        !json_read_bool(entry, "special", &special, error) ||
        !json_read_bool(entry, "lstrip", &added->lstrip, error) ||
        !json_read_bool(entry, "rstrip", &added->rstrip, error) ||
        !json_read_bool(entry, "single_word", &added->single_word, error))
        return false;
    if (!content) return error_set(error, ERROR_FILE, "an added token without \"content\"");
    if (!read_id(c, json_object_get(entry, "id"), content, &added->id, error)) return false;
    const json_t *known = json_object_get(vocab, content);
    if (known && json_integer_value(known) != added->id)
        return error_set(error, ERROR_FILE,
                         "added token %d has id %" JSON_INTEGER_FORMAT " in the vocabulary",
                         (int)added->id, json_integer_value(known));
    added->text = (TextSpan){content, strlen(content)};
    added->control = special;
    c->n_added++;
    return set_token(c, added->id, content, special ? TOKEN_CONTROL : TOKEN_USER_DEFINED, error);
}

static bool read_added(Collected *c, const json_t *list, const json_t *vocab, Error *error) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_added_token(c, json_array_get(list, i), vocab, error)) continue;
        return error_prefix(error, "added_tokens");
    }
    return true;
}

static size_t count_new(const json_t *list, const json_t *vocab) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *content =
            json_string_value(json_object_get(json_array_get(list, i), "content"));
        count += !content || !json_object_get(vocab, content);
    }
    return count;
}

// ---- ids with a meaning, which the file does not name ----

static int find_any(const Tokenizer *t, const char *const *names) {
    for (; *names; names++) {
        int id = tokenizer_find(t, *names);
        if (id >= 0 && t->types[id] == TOKEN_CONTROL) return id;
    }
    return -1;
}

static void set_ids(Tokenizer *t, const char *first_token, bool adds_bos) {
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", NULL};
    static const char *const ends[] = {"<eos>", NULL};
    Vocabulary v = {.eot_id = -1, .eom_id = -1, .add_bos = -1};
    v.bos_id = first_token ? tokenizer_find(t, first_token) : find_any(t, begins);
    v.eos_id = find_any(t, ends);
    vocabulary_set_ids(t, &v, first_token || adds_bos);
}

static bool finish_vocabulary(Tokenizer *t, const Collected *c, Error *error) {
    for (size_t i = 0; i < c->n_tokens; i++)
        if (!c->tokens[i].text)
            return error_set(error, ERROR_FILE, "vocabulary: no token has id %zu", i);
    Vocabulary v = {.n_tokens = c->n_tokens, .tokens = c->tokens, .types = c->types};
    return vocabulary_copy(t, &v, error) && added_set(t, c->added, c->n_added, error);
}

// ---- tokenizer.json ----

// A merge is "left right", or in newer files ["left", "right"].
static bool read_merge(MergeTable *table, Tokenizer *t, const json_t *merge, Error *error) {
    const char *line = json_string_value(merge);
    if (line) return merge_table_add_line(table, t, (TextSpan){line, strlen(line)}, error);
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    if (json_array_size(merge) != 2 || !left || !right)
        return error_set(error, ERROR_FILE, "merge %zu: wanted a string or two, got %s",
                         table->count, json_kind(merge));
    return merge_table_add(table, t, (TextSpan){left, strlen(left)},
                           (TextSpan){right, strlen(right)}, error);
}

static bool read_merges(MergeTable *table, Tokenizer *t, const json_t *merges, Error *error) {
    size_t count = json_array_size(merges);
    bool good = merge_table_init(table, count, error);
    for (size_t i = 0; good && i < count; i++)
        good = read_merge(table, t, json_array_get(merges, i), error);
    if (!good) merge_table_free(table);
    return good;
}

typedef struct ModelFields {
    json_t *vocab;
    const json_t *merges;
    const char *unk_token;
    bool fuse_unk, byte_fallback, ignore_merges;
} ModelFields;

static bool read_model(ModelFields *m, const json_t *model, Error *error) {
    const char *type = "BPE", *prefix = "", *suffix = "";
    float dropout = 0;
    if (!json_read_string(model, "type", &type, error) ||
        !json_read_string(model, "continuing_subword_prefix", &prefix, error) ||
        !json_read_string(model, "end_of_word_suffix", &suffix, error) ||
        !json_read_float(model, "dropout", &dropout, error) ||
        !json_read_string(model, "unk_token", &m->unk_token, error) ||
        !json_read_bool(model, "fuse_unk", &m->fuse_unk, error) ||
        !json_read_bool(model, "byte_fallback", &m->byte_fallback, error) ||
        !json_read_bool(model, "ignore_merges", &m->ignore_merges, error))
        return error_prefix(error, "model");
    char shown[64];
    if (strcmp(type, "BPE"))
        return error_set(error, ERROR_FILE, "model: type \"%s\" is not known here (known: BPE)",
                         escape_bytes(shown, sizeof shown, type, strlen(type)));
    if (*prefix || *suffix || dropout != 0)
        return error_set(error, ERROR_FILE,
                         "model: continuing_subword_prefix, end_of_word_suffix and dropout are not "
                         "known here");
    m->vocab = json_object_get(model, "vocab");
    m->merges = json_object_get(model, "merges");
    if (!json_is_object(m->vocab) || !json_is_array(m->merges))
        return error_set(error, ERROR_FILE,
                         "model: wanted \"vocab\", an object, and \"merges\", an "
                         "array; got %s and %s",
                         json_kind(m->vocab), json_kind(m->merges));
    return true;
}

static bool open_kind(Tokenizer *t, JsonPipeline *pipeline, const ModelFields *m,
                      MergeTable *merges, Error *error) {
    if (pipeline->byte_level)
        return byte_bpe_open(t, merges, &pipeline->rule, m->ignore_merges, error);
    if (!m->byte_fallback || m->ignore_merges) {
        merge_table_free(merges);
        return error_set(error, ERROR_FILE,
                         "model: neither ByteLevel nor byte_fallback (byte_fallback %s, "
                         "ignore_merges %s)",
                         m->byte_fallback ? "true" : "false", m->ignore_merges ? "true" : "false");
    }
    pipeline->options.byte_fallback = m->byte_fallback;
    pipeline->options.fuse_unk = m->fuse_unk;
    pipeline->options.unk_id = m->unk_token ? tokenizer_find(t, m->unk_token) : -1;
    return fallback_bpe_open(t, merges, &pipeline->options, error);
}

static bool open_whole(Tokenizer *t, const json_t *root, const char *pretokenizer, Error *error) {
    JsonPipeline pipeline;
    ModelFields m = {0};
    MergeTable merges;
    Collected c;
    const json_t *added = NULL;
    if (!json_pipeline_read(&pipeline, root, error) ||
        !read_model(&m, json_object_get(root, "model"), error) ||
        !json_read_array(root, "added_tokens", &added, error))
        return false;
    if (pretokenizer && !split_rule_find(&pipeline.rule, pretokenizer, NULL, error)) return false;
    bool good = collected_init(&c, json_object_size(m.vocab) + count_new(added, m.vocab),
                               json_array_size(added), error) &&
                read_vocab(&c, m.vocab, error) && read_added(&c, added, m.vocab, error) &&
                finish_vocabulary(t, &c, error);
    collected_free(&c);
    if (!good || !read_merges(&merges, t, m.merges, error)) return false;
    // Llama 3's prompts begin with BOS, though its early files do not say so.
    set_ids(t, pipeline.first_token, tokenizer_find(t, "<|begin_of_text|>") >= 0);
    return open_kind(t, &pipeline, &m, &merges, error);
}

// ---- vocab.json and merges.txt ----

static bool read_merges_text(MergeTable *table, Tokenizer *t, TextSpan text, Error *error) {
    size_t lines = 0, number = 0;
    for (size_t i = 0; i < text.length; i++)
        lines += text.text[i] == '\n';
    if (!merge_table_init(table, lines + 1, error)) return false;
    for (size_t at = 0; at < text.length;) {
        const char *line = text.text + at;
        const char *newline = memchr(line, '\n', text.length - at);
        size_t length = newline ? (size_t)(newline - line) : text.length - at;
        at += length + 1;
        number++;
        if (length && line[length - 1] == '\r') length--;
        if (number == 1 && length >= 8 && !memcmp(line, "#version", 8)) continue;
        if (merge_table_add_line(table, t, (TextSpan){line, length}, error)) continue;
        char place[48];
        snprintf(place, sizeof place, "merges.txt line %zu", number);
        return error_prefix(error, place);
    }
    return true;
}

// The pair does not say which tokens are control tokens: those between < and > that neither stand
// for a byte nor come out of a merge ("<|endoftext|>").
static void find_controls(Tokenizer *t, const MergeTable *merges) {
    for (size_t i = 0; i < t->n_tokens; i++) {
        TextSpan s = t->tokens[i];
        if (s.length > 2 && s.text[0] == '<' && s.text[s.length - 1] == '>')
            t->types[i] = TOKEN_CONTROL;
    }
    merge_table_mark(merges, t->types, TOKEN_NORMAL);
}

static bool open_pair(Tokenizer *t, json_t *vocab, TextSpan text, const char *pretokenizer,
                      Error *error) {
    SplitRule rule;
    MergeTable merges = {0};
    Collected c;
    if (!split_rule_find(&rule, pretokenizer, "gpt2", error)) return false;
    bool good = collected_init(&c, json_object_size(vocab), 0, error) &&
                read_vocab(&c, vocab, error) && finish_vocabulary(t, &c, error);
    collected_free(&c);
    good = good && read_merges_text(&merges, t, text, error);
    if (good) find_controls(t, &merges);
    good = good && added_from_types(t, error);
    if (!good) {
        merge_table_free(&merges);
        return false;
    }
    set_ids(t, NULL, false);
    return byte_bpe_open(t, &merges, &rule, false, error);
}

bool tokenizer_json_open(Tokenizer *t, TextSpan json, TextSpan merges, const char *pretokenizer,
                         Error *error) {
    json_t *root = parse(json, error);
    if (!root) return false;
    bool good;
    if (json_is_object(json_object_get(root, "model")))
        good = open_whole(t, root, pretokenizer, error);
    else if (merges.text)
        good = open_pair(t, root, merges, pretokenizer, error);
    else
        good = error_set(error, ERROR_FILE,
                         "neither a tokenizer.json (no \"model\") nor a "
                         "vocab.json with merges.txt beside it");
    json_decref(root);
    return good;
}
