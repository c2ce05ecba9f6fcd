// tokenizer.json, and vocab.json with merges.txt: the "model" with its merges, and the special
// tokens. json_vocabulary.c reads the vocabulary, json_pipeline.c the other parts.
//
//     open_whole   tokenizer.json: pipeline -> fields of "model" -> vocabulary -> merges -> ids
//     open_pair    vocab.json, merges.txt: vocabulary -> merges -> control tokens -> byte-level BPE
#include "tokenizer/internal.h"

#include "tokenizer/bpe/byte_bpe.h"
#include "tokenizer/files/json_parts.h"

#include <stdio.h>
#include <string.h>

// Limits the number of JSON values, for memory: jansson takes up to 150 bytes for each. In Qwen's
// tokenizer.json (11 MB) a value takes 19 bytes of text on average. With this limit the parsed form
// takes less than 8 times the text plus 32 MiB.
static json_t *parse(TextSpan json, Error *error) {
    JsonLimits limits = {.bytes = SIZE_MAX, .values = (1u << 17) + json.length / 16};
    json_t *root = json_parse(json.text, json.length, &limits, error);
    if (!root || json_is_object(root)) return root;
    error_set(error, ERROR_FILE, "wanted an object, got %s", json_kind(root));
    json_decref(root);
    return NULL;
}

// ---- BOS and EOS, which the file does not mark ----

// The first of the names that is a control token; -1: none is.
static int find_any(const Tokenizer *t, const char *const *names) {
    for (; *names; names++) {
        int id = tokenizer_find(t, *names);
        if (id >= 0 && t->types[id] == TOKEN_CONTROL) return id;
    }
    return -1;
}

// first_token: of the post_processor, or NULL. adds_bos: also without one.
static void set_ids(Tokenizer *t, const char *first_token, bool adds_bos) {
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>", "<|bos|>", NULL};
    static const char *const ends[] = {"<eos>", NULL};
    Vocabulary v = {.eot_id = -1, .eom_id = -1, .add_bos = -1};
    v.bos_id = first_token ? tokenizer_find(t, first_token) : find_any(t, begins);
    v.eos_id = find_any(t, ends);
    vocabulary_set_ids(t, &v, first_token || adds_bos);
}

// ---- tokenizer.json ----

// A merge is "left right", or in newer files ["left", "right"].
static bool read_merge(MergeTable *table, Tokenizer *t, const json_t *merge, Error *error) {
    const char *line = json_string_value(merge);
    if (line) return merge_table_add_line(table, t, (TextSpan){line, strlen(line)}, error);
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    if (json_array_size(merge) != 2 || !left || !right)
        return error_set(error, ERROR_FILE, "merge %zu: wanted a string or two strings, got %s",
                         table->count, json_kind(merge));
    return merge_table_add(table, t, (TextSpan){left, strlen(left)},
                           (TextSpan){right, strlen(right)}, error);
}

// On a failure the table is freed; on success the algorithm takes it over.
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

// The fields of "model" that matter. Only BPE: Unigram and WordPiece are other algorithms. dropout
// makes ids random, prefix and suffix are of other families.
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
        return error_set(error, ERROR_FILE, "model: type \"%s\" is not supported (known: BPE)",
                         escape_bytes(shown, sizeof shown, type, strlen(type)));
    if (*prefix || *suffix || dropout != 0)
        return error_set(error, ERROR_FILE,
                         "model: continuing_subword_prefix, end_of_word_suffix and dropout are not "
                         "supported");
    m->vocab = json_object_get(model, "vocab");
    m->merges = json_object_get(model, "merges");
    if (!json_is_object(m->vocab) || !json_is_array(m->merges))
        return error_set(error, ERROR_FILE,
                         "model: wanted \"vocab\", an object, and \"merges\", an "
                         "array; got %s and %s",
                         json_kind(m->vocab), json_kind(m->merges));
    return true;
}

// A byte without a token encodes to nothing: but to unk_token, where the file has one.
static bool check_bytes(const ModelFields *m, Error *error) {
    char shown[64];
    for (int byte = 0; m->unk_token && byte < 256; byte++) {
        char letter[ALPHABET_MAX + 1] = "";
        alphabet_letter(letter, (uint8_t)byte);
        if (json_object_get(m->vocab, letter)) continue;
        return error_set(error, ERROR_FILE, "model: unk_token \"%s\", and no token for byte 0x%02x",
                         escape_bytes(shown, sizeof shown, m->unk_token, strlen(m->unk_token)),
                         (unsigned)byte);
    }
    return true;
}

// ByteLevel covers every byte; without it, byte_fallback has to, or text would be lost.
static bool open_algorithm(Tokenizer *t, JsonPipeline *pipeline, const ModelFields *m,
                           MergeTable *merges, Error *error) {
    if (pipeline->byte_level && !check_bytes(m, error)) {
        merge_table_free(merges);
        return false;
    }
    if (pipeline->byte_level)
        return byte_bpe_open(t, merges, &pipeline->rule, m->ignore_merges,
                             json_object_size(m->vocab), error);
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
    if (m->unk_token && pipeline->options.unk_id < 0) {
        char shown[64];
        merge_table_free(merges);
        return error_set(error, ERROR_FILE, "model: unk_token \"%s\" is no token",
                         escape_bytes(shown, sizeof shown, m->unk_token, strlen(m->unk_token)));
    }
    return fallback_bpe_open(t, merges, &pipeline->options, error);
}

// The library refuses other keys too. Lengths of texts are the caller's business, so truncation and
// padding are passed over.
static bool check_keys(const json_t *root, Error *error) {
    static const char *const known[] = {"version",      "truncation",     "padding",
                                        "added_tokens", "normalizer",     "pre_tokenizer",
                                        "decoder",      "post_processor", "model"};
    const char *key, *version = "1.0";
    json_t *value;
    char shown[64];
    json_object_foreach((json_t *)root, key, value) {
        size_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(key, known[i]))
            i++;
        if (i == n)
            return error_set(error, ERROR_FILE, "unknown key \"%s\"",
                             escape_bytes(shown, sizeof shown, key, strlen(key)));
    }
    if (!json_read_string(root, "version", &version, error)) return false;
    return !strcmp(version, "1.0") ||
           error_set(error, ERROR_FILE, "version \"%s\" is not supported (known: 1.0)",
                     escape_bytes(shown, sizeof shown, version, strlen(version)));
}

// Everything read from `root` is copied before the caller frees it.
static bool open_whole(Tokenizer *t, const json_t *root, const char *pretokenizer, Error *error) {
    JsonPipeline pipeline;
    ModelFields m = {0};
    MergeTable merges;
    JsonVocabulary v;
    const json_t *added = NULL;
    if (!check_keys(root, error) || !json_pipeline_read(&pipeline, root, error) ||
        !read_model(&m, json_object_get(root, "model"), error) ||
        !json_read_array(root, "added_tokens", &added, error) ||
        !json_pipeline_check_added(&pipeline, added, error))
        return false;
    if (pretokenizer && !split_rule_find(&pipeline.rule, pretokenizer, NULL, error)) return false;
    bool good =
        json_vocabulary_init(&v, m.vocab, added, error) && json_vocabulary_finish(&v, t, error);
    json_vocabulary_free(&v);
    if (!good || !read_merges(&merges, t, m.merges, error)) return false;
    // Llama 3's prompts begin with BOS, although its first tokenizer.json has no post_processor for
    // it.
    set_ids(t, pipeline.first_token, tokenizer_find(t, "<|begin_of_text|>") >= 0);
    return open_algorithm(t, &pipeline, &m, &merges, error);
}

// ---- vocab.json and merges.txt ----

// One merge a line, the first has rank 0. The first line may be "#version: 0.2".
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

// The two files do not mark control tokens. They are the tokens in angle brackets ("<|endoftext|>")
// that no merge yields.
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
    JsonVocabulary v;
    if (!split_rule_find(&rule, pretokenizer, "gpt2", error)) return false;
    bool good =
        json_vocabulary_init(&v, vocab, NULL, error) && json_vocabulary_finish(&v, t, error);
    json_vocabulary_free(&v);
    good = good && read_merges_text(&merges, t, text, error);
    if (good) find_controls(t, &merges);
    good = good && added_from_types(t, error);
    if (!good) {
        merge_table_free(&merges);
        return false;
    }
    set_ids(t, NULL, false);
    return byte_bpe_open(t, &merges, &rule, false, t->n_tokens, error);
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
        good =
            error_set(error, ERROR_FILE,
                      "neither a tokenizer.json (no \"model\") nor a vocab.json with merges.txt in "
                      "the same directory");
    json_decref(root);
    return good;
}
