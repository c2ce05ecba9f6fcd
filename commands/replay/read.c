// Reads a recording. The file may come from anybody: each key is looked up, its type and range are
// checked, and what is not looked up is not used.
#include "base/file_reader.h"
#include "base/json.h"
#include "commands/replay/replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// A token is 9 values, an id of the prompt 1. The text, which is not read, may have a byte 0.
static const JsonLimits LIMITS = {
    .bytes = RECORDING_MOST_BYTES, .values = 12 * RECORDING_MOST_TOKENS, .nul = true};

// ---- values, each needed; false or NULL: exit code 3 with the key ----

static bool missing(const char *key, Error *error) {
    return error_set(error, ERROR_FILE, "\"%s\" is missing", key);
}

static const json_t *need(const json_t *object, const char *key, Error *error) {
    const json_t *value = json_object_get(object, key);
    if (!value) missing(key, error);
    return value;
}

static bool wrong_kind(const char *key, const char *wanted, const json_t *value, Error *error) {
    return error_set(error, ERROR_FILE, "\"%s\": wanted %s, got %s", key, wanted, json_kind(value));
}

static bool read_integer(const json_t *value, const char *key, double low, double high,
                         int64_t *out, Error *error) {
    if (!value) return missing(key, error);
    if (!json_is_integer(value)) return wrong_kind(key, "an integer", value, error);
    *out = json_integer_value(value);
    if ((double)*out >= low && (double)*out <= high) return true;
    return error_set(error, ERROR_FILE, "\"%s\": wanted %.0f .. %.0f, got %" PRId64, key, low, high,
                     *out);
}

static bool read_number(const json_t *value, const char *key, double low, double high, double *out,
                        Error *error) {
    if (!value) return missing(key, error);
    if (!json_is_number(value)) return wrong_kind(key, "a number", value, error);
    *out = json_number_value(value);
    if (*out >= low && *out <= high) return true;
    return error_set(error, ERROR_FILE, "\"%s\": wanted %g .. %g, got %g", key, low, high, *out);
}

static const char *read_string(const json_t *value, const char *key, Error *error) {
    if (value) return json_to_string(value, key, error);
    missing(key, error);
    return NULL;
}

// A string that the recording owns.
static bool read_text(Recording *r, const json_t *value, const char *key, const char **out,
                      Error *error) {
    const char *text = read_string(value, key, error);
    *out = text ? arena_text(&r->arena, text, json_string_length(value), error) : NULL;
    return *out;
}

// 16 hexadecimal digits.
static bool read_hash(const json_t *value, const char *key, uint64_t *out, Error *error) {
    const char *text = read_string(value, key, error);
    if (!text) return false;
    static const char DIGITS[] = "0123456789abcdef";
    if (strlen(text) != FNV_HEX - 1 || strspn(text, DIGITS) != FNV_HEX - 1)
        return error_set(error, ERROR_FILE, "\"%s\": wanted %d hexadecimal digits, got \"%.40s\"",
                         key, FNV_HEX - 1, text);
    *out = 0;
    for (; *text; text++)
        *out = *out << 4 | (uint64_t)(strchr(DIGITS, *text) - DIGITS);
    return true;
}

// An array of at most `most` values. NULL: exit code 3.
static const json_t *need_array(const json_t *object, const char *key, size_t most, Error *error) {
    const json_t *array = need(object, key, error);
    if (!array) return NULL;
    if (!json_is_array(array))
        wrong_kind(key, "an array", array, error);
    else if (json_array_size(array) > most)
        error_set(error, ERROR_FILE, "\"%s\": wanted at most %zu values, got %zu", key, most,
                  json_array_size(array));
    else
        return array;
    return NULL;
}

// ---- options ----

static bool read_texts(Recording *r, const json_t *options, const char *key, TextList *out,
                       Error *error) {
    const json_t *array = need_array(options, key, OPTIONS_MAX_STOPS, error);
    if (!array) return false;
    out->count = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char **text = &out->texts[out->count++];
        if (!read_text(r, json_array_get(array, i), key, text, error)) return false;
        if (!**text) return error_set(error, ERROR_FILE, "\"%s\": a text is empty", key);
    }
    return true;
}

static bool read_choice(const json_t *value, const OptionRow *row, int *out, Error *error) {
    const char *text = read_string(value, row->name, error);
    if (!text || parse_choice(out, row->choices, text)) return text;
    return error_set(error, ERROR_FILE, "\"%s\": wanted one of %s, got \"%.40s\"", row->name,
                     row->choices, text);
}

static bool read_unsigned(const json_t *value, const char *key, uint64_t *out, Error *error) {
    const char *text = read_string(value, key, error);
    if (!text || parse_unsigned(out, text)) return text;
    return error_set(error, ERROR_FILE, "\"%s\": wanted an integer 0 .. 2^64-1, got \"%.40s\"", key,
                     text);
}

// The range of a value is that of the option on the command line.
static bool read_option(Recording *r, const json_t *options, OptionId id, Error *error) {
    const OptionRow *row = recorded_option(id);
    void *field = (char *)&r->options + row->offset;
    bool may_lack = recorded_if_given(id) && !json_object_get(options, row->name);
    const json_t *value = may_lack ? NULL : need(options, row->name, error);
    int64_t integer = 0;
    if (!value) return may_lack;
    r->options.given[id] = !json_is_null(value);
    switch (row->kind) {
    case KIND_FLAG:
        *(bool *)field = json_is_true(value);
        return json_is_boolean(value) || wrong_kind(row->name, "true or false", value, error);
    case KIND_TEXT:
        *(const char **)field = NULL;
        return json_is_null(value) || read_text(r, value, row->name, field, error);
    case KIND_TEXTS: return read_texts(r, options, row->name, field, error);
    case KIND_INTEGER: return read_integer(value, row->name, row->low, row->high, field, error);
    case KIND_UNSIGNED: return read_unsigned(value, row->name, field, error);
    case KIND_NUMBER: return read_number(value, row->name, row->low, row->high, field, error);
    case KIND_CHOICE: return read_choice(value, row, field, error);
    case KIND_LIST:
        if (!read_integer(value, row->name, row->low, row->high, &integer, error)) return false;
        *(IntegerList *)field = (IntegerList){{(int)integer}, 1};
    }
    return true;
}

static bool read_options(Recording *r, const json_t *root, Error *error) {
    const json_t *options = need(root, "options", error);
    for (size_t i = 0; options && RECORDED_OPTIONS[i] != OPTION_COUNT; i++)
        if (!read_option(r, options, RECORDED_OPTIONS[i], error))
            return error_prefix(error, "options");
    KeyPattern pattern;
    Error cause = {0};
    const char *text = r->options.pattern;
    bool good = options && (!text || attention_pattern_parse(&pattern, text, &cause)) &&
                sampling_check(&r->options, &cause) &&
                sampling_check_tokens(&r->options, r->vocab_size, &cause);
    if (good || !options) return good;
    if (cause.code == ERROR_MEMORY) return error_copy(error, &cause);
    return error_set(error, ERROR_FILE, "options: %s", cause.message);
}

// ---- the parts of a recording ----

static bool read_model(Recording *r, const json_t *root, Error *error) {
    const json_t *model = need(root, "model", error);
    uint64_t digest = 0;
    int64_t vocab_size = 0;
    if (!model) return false;
    if (!read_text(r, json_object_get(model, "path"), "path", &r->options.model, error) ||
        !read_hash(json_object_get(model, "digest"), "digest", &digest, error) ||
        !read_integer(json_object_get(model, "vocab_size"), "vocab_size", 1, LIMIT_VOCAB,
                      &vocab_size, error))
        return error_prefix(error, "model");
    snprintf(r->digest, sizeof r->digest, "%016" PRIx64, digest);
    r->vocab_size = (int)vocab_size;
    return true;
}

// A token id of the recording's vocabulary.
static bool read_id(const Recording *r, const json_t *value, const char *key, int32_t *out,
                    Error *error) {
    int64_t id = 0;
    if (!read_integer(value, key, 0, r->vocab_size - 1, &id, error)) return false;
    *out = (int32_t)id;
    return true;
}

static bool read_prompt(Recording *r, const json_t *root, Error *error) {
    static const char KEY[] = "prompt_ids";
    const json_t *array = need_array(root, KEY, RECORDING_MOST_TOKENS, error);
    if (!array) return false;
    if (!json_array_size(array)) return error_set(error, ERROR_FILE, "\"%s\" is empty", KEY);
    for (size_t i = 0; i < json_array_size(array); i++) {
        int32_t id;
        if (!read_id(r, json_array_get(array, i), KEY, &id, error) ||
            !id_list_push(&r->prompt, id, error))
            return false;
    }
    return true;
}

// id, logit and probability of the token that was sampled, or of the likeliest other one.
static bool read_candidate(const Recording *r, const json_t *object, int32_t *id, float *logit,
                           double *probability, Error *error) {
    double number = 0;
    if (!read_id(r, json_object_get(object, "id"), "id", id, error) ||
        !read_number(json_object_get(object, "logit"), "logit", (double)-INFINITY, INFINITY,
                     &number, error) ||
        !read_number(json_object_get(object, "probability"), "probability", 0, 1 + 1e-6,
                     probability, error))
        return false;
    *logit = (float)number;
    return isfinite(*logit) || error_set(error, ERROR_FILE, "\"logit\": %g is too large", number);
}

static bool read_token(const Recording *r, const json_t *value, RecordedToken *t, Error *error) {
    double uniform = 0;
    if (!json_is_object(value)) return wrong_kind("tokens", "objects", value, error);
    // Below 1 as a float32 too: the largest is 1 - 2^-24.
    if (!read_candidate(r, value, &t->id, &t->logit, &t->probability, error) ||
        !read_number(json_object_get(value, "uniform"), "uniform", 0, 1 - 0x1p-24, &uniform,
                     error) ||
        !read_hash(json_object_get(value, "hash"), "hash", &t->hash, error))
        return false;
    t->uniform = (float)uniform;
    const json_t *other = need(value, "other", error);
    t->other = -1;
    if (!other || json_is_null(other)) return other;
    return read_candidate(r, other, &t->other, &t->other_logit, &t->other_probability, error) ||
           error_prefix(error, "other");
}

static bool read_tokens(Recording *r, const json_t *root, Error *error) {
    const json_t *array = need_array(root, "tokens", RECORDING_MOST_TOKENS, error);
    if (!array) return false;
    for (size_t i = 0; i < json_array_size(array); i++) {
        RecordedToken token = {0};
        char place[32];
        snprintf(place, sizeof place, "tokens[%zu]", i);
        if (!read_token(r, json_array_get(array, i), &token, error))
            return error_prefix(error, place);
        if (!recording_add(r, &token, error)) return false;
    }
    return true;
}

static bool read_stop(Recording *r, const json_t *root, Error *error) {
    const char *name = read_string(json_object_get(root, "stop"), "stop", error);
    if (!name) return false;
    for (r->stop = STOP_EOS; r->stop <= STOP_INTERRUPT; r->stop++)
        if (!strcmp(name, stop_reason_name(r->stop))) return true;
    return error_set(error, ERROR_FILE, "\"stop\": \"%.40s\" is no reason to stop", name);
}

static bool read_format(Recording *r, const json_t *root, Error *error) {
    const char *format = json_string_value(json_object_get(root, "format"));
    if (!format || strcmp(format, RECORDING_FORMAT) != 0)
        return error_set(error, ERROR_FILE, "not a recording: \"format\" is not \"%s\"",
                         RECORDING_FORMAT);
    return read_text(r, json_object_get(root, "limpid"), "limpid", &r->version, error) &&
           read_text(r, json_object_get(root, "device"), "device", &r->device, error);
}

// What no single key shows.
static bool check_counts(const Recording *r, Error *error) {
    int64_t context = r->options.context, prompt = (int64_t)r->prompt.count;
    int64_t tokens = (int64_t)r->n_tokens;
    if (prompt > context)
        return error_set(error, ERROR_FILE, "a prompt of %" PRId64 " in a context of %" PRId64,
                         prompt, context);
    if (tokens <= r->options.max_tokens && tokens <= context - prompt + 1) return true;
    return error_set(error, ERROR_FILE,
                     "%" PRId64 " tokens, more than \"max-tokens\" or the context allow", tokens);
}

static bool read_all(Recording *r, const json_t *root, Error *error) {
    return read_format(r, root, error) && read_model(r, root, error) &&
           read_options(r, root, error) && read_prompt(r, root, error) &&
           read_tokens(r, root, error) && read_stop(r, root, error) && check_counts(r, error);
}

bool recording_read(Recording *r, const char *path, const Options *defaults, Error *error) {
    FileCopy copy;
    r->options = *defaults;
    if (!file_copy_open(&copy, path, RECORDING_MOST_BYTES, error)) return error_prefix(error, path);
    json_t *root = json_parse((const char *)copy.bytes, copy.size, &LIMITS, error);
    bool good = root && read_all(r, root, error);
    json_decref(root);
    file_copy_close(&copy);
    return good || error_prefix(error, path);
}
