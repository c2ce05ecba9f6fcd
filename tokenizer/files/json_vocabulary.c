// The vocabulary and the added tokens of a tokenizer.json.
//
//     "vocab": {"!": 0, ..}          spelling -> id, normal tokens
//     "added_tokens": [{"id", "content", "special", "lstrip", "rstrip", "single_word"}, ..]
//
// Added tokens may be in "vocab" too, then with the same id, or come after it in the order of the
// list. The number of tokens is counted first; an id at or above it means a gap.
#include "tokenizer/files/json_parts.h"

#include <stdlib.h>
#include <string.h>

// One more of each, so that an empty list is not a NULL.
static bool allocate(JsonVocabulary *v, size_t n_tokens, size_t n_added, Error *error) {
    *v = (JsonVocabulary){.n_tokens = n_tokens};
    if (n_tokens > LIMIT_VOCAB)
        return error_set(error, ERROR_FILE, "vocabulary: %zu tokens (at most %d)", n_tokens,
                         LIMIT_VOCAB);
    v->tokens = calloc(n_tokens + 1, sizeof *v->tokens);
    v->types = calloc(n_tokens + 1, sizeof *v->types);
    v->added = calloc(n_added + 1, sizeof *v->added);
    return (v->tokens && v->types && v->added) ||
           error_set(error, ERROR_MEMORY, "out of memory for %zu tokens", n_tokens);
}

// False with the reason: no integer, or out of range.
static bool fail_id(const JsonVocabulary *v, const json_t *value, const char *spelling,
                    Error *error) {
    char shown[96];
    escape_bytes(shown, sizeof shown, spelling, strlen(spelling));
    if (!json_is_integer(value))
        return error_set(error, ERROR_FILE, "id of \"%s\": wanted an integer, got %s", shown,
                         json_kind(value));
    return error_set(error, ERROR_FILE,
                     "id of \"%s\": %" JSON_INTEGER_FORMAT
                     " is outside 0 .. %zu (ids have a gap, or "
                     "a token occurs twice)",
                     shown, json_integer_value(value), v->n_tokens - 1);
}

// Reads the id of a token: an integer below the number of tokens.
static bool read_id(const JsonVocabulary *v, const json_t *value, const char *spelling, int32_t *id,
                    Error *error) {
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number >= v->n_tokens)
        return fail_id(v, value, spelling, error);
    *id = (int32_t)number;
    return true;
}

// Two spellings for one id are an error; the same spelling twice is an added token that is in
// "vocab".
static bool set_token(JsonVocabulary *v, int32_t id, const char *spelling, TokenType type,
                      Error *error) {
    TextSpan *token = &v->tokens[id];
    size_t length = strlen(spelling);
    char old[64], new[64];
    if (token->text && (token->length != length || memcmp(token->text, spelling, length)))
        return error_set(error, ERROR_FILE, "id %d: both \"%s\" and \"%s\"", (int)id,
                         escape_bytes(old, sizeof old, token->text, token->length),
                         escape_bytes(new, sizeof new, spelling, length));
    *token = (TextSpan){spelling, length};
    v->types[id] = (uint8_t)type;
    return true;
}

// The spellings stay in the JSON, which lives until json_vocabulary_finish has copied them.
static bool read_vocab(JsonVocabulary *v, json_t *vocab, Error *error) {
    const char *spelling;
    json_t *value;
    json_object_foreach(vocab, spelling, value) {
        int32_t id = -1;
        if (!read_id(v, value, spelling, &id, error) ||
            !set_token(v, id, spelling, TOKEN_NORMAL, error))
            return false;
    }
    return true;
}

// ---- added tokens ----

// "special" tokens are control tokens; the others are user-defined and always match.
static bool read_added_token(JsonVocabulary *v, const json_t *entry, const json_t *vocab,
                             Error *error) {
    const char *content = NULL;
    bool special = false;
    AddedToken *added = &v->added[v->n_added];
    if (!json_read_string(entry, "content", &content, error) ||
        !json_read_bool(entry, "special", &special, error) ||
        !json_read_bool(entry, "lstrip", &added->lstrip, error) ||
        !json_read_bool(entry, "rstrip", &added->rstrip, error) ||
        !json_read_bool(entry, "single_word", &added->single_word, error))
        return false;
    if (!content) return error_set(error, ERROR_FILE, "an added token without \"content\"");
    if (!read_id(v, json_object_get(entry, "id"), content, &added->id, error)) return false;
    const json_t *known = json_object_get(vocab, content);
    if (known && json_integer_value(known) != added->id)
        return error_set(error, ERROR_FILE,
                         "added token %d has id %" JSON_INTEGER_FORMAT " in the vocabulary",
                         (int)added->id, json_integer_value(known));
    added->text = (TextSpan){content, strlen(content)};
    added->control = special;
    v->n_added++;
    return set_token(v, added->id, content, special ? TOKEN_CONTROL : TOKEN_USER_DEFINED, error);
}

// The token read last, where it is not in "vocab": the next of these has the id `next`.
static bool check_order(const JsonVocabulary *v, const json_t *vocab, size_t *next, Error *error) {
    const AddedToken *added = &v->added[v->n_added - 1];
    char shown[96];
    if (json_object_get(vocab, added->text.text) || (size_t)added->id == (*next)++) return true;
    return error_set(error, ERROR_FILE,
                     "id of \"%s\": %d, wanted %zu, the next behind the vocabulary",
                     escape_bytes(shown, sizeof shown, added->text.text, added->text.length),
                     (int)added->id, *next - 1);
}

static bool read_added(JsonVocabulary *v, const json_t *list, const json_t *vocab, Error *error) {
    size_t next = json_object_size(vocab);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_added_token(v, json_array_get(list, i), vocab, error) &&
            check_order(v, vocab, &next, error))
            continue;
        return error_prefix(error, "added_tokens");
    }
    return true;
}

// Added tokens that are not in "vocab" enlarge the vocabulary.
static size_t count_new(const json_t *list, const json_t *vocab) {
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *content =
            json_string_value(json_object_get(json_array_get(list, i), "content"));
        count += !content || !json_object_get(vocab, content);
    }
    return count;
}

// ---- both together ----

bool json_vocabulary_init(JsonVocabulary *v, json_t *vocab, const json_t *added, Error *error) {
    return allocate(v, json_object_size(vocab) + count_new(added, vocab), json_array_size(added),
                    error) &&
           read_vocab(v, vocab, error) && read_added(v, added, vocab, error);
}

bool json_vocabulary_finish(const JsonVocabulary *v, Tokenizer *t, Error *error) {
    for (size_t i = 0; i < v->n_tokens; i++)
        if (!v->tokens[i].text)
            return error_set(error, ERROR_FILE, "vocabulary: no token has id %zu", i);
    Vocabulary plain = {.n_tokens = v->n_tokens, .tokens = v->tokens, .types = v->types};
    return vocabulary_copy(t, &plain, error) && added_set(t, v->added, v->n_added, error);
}

void json_vocabulary_free(JsonVocabulary *v) {
    free(v->tokens);
    free(v->types);
    free(v->added);
}
