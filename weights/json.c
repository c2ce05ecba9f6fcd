// The flat scan before jansson, and getters that say which key was wrong.
#include "weights/json.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

const JsonLimits JSON_CONFIG_LIMITS = {.bytes = 4 << 20, .values = 1 << 18};

// What the scan needs to know of a text: only strings hide brackets and commas.
typedef struct Scan {
    size_t depth, values;
    bool in_string, escaped;
} Scan;

static bool scan_byte(Scan *scan, char c, size_t offset, const JsonLimits *limits, Error *error) {
    if (scan->in_string) {
        if (scan->escaped)
            scan->escaped = false;
        else if (c == '\\')
            scan->escaped = true;
        else if (c == '"')
            scan->in_string = false;
        return true;
    }
    switch (c) {
    case '"': scan->in_string = true; break;
    case '[':
    case '{':
        if (++scan->depth > JSON_MAX_DEPTH)
            return error_set(error, ERROR_FILE, "offset %zu: JSON nested deeper than %d", offset,
                             JSON_MAX_DEPTH);
        scan->values++; // at most one more value than there are commas between its brackets
        break;
    case ']':
    case '}':
        if (scan->depth) scan->depth--; // jansson complains about one too many
        break;
    case ',': scan->values++; break;
    case '-':
        if (limits->no_negative)
            return error_set(error, ERROR_FILE, "offset %zu: a negative number", offset);
        break;
    default: break;
    }
    if (scan->values > limits->values)
        return error_set(error, ERROR_FILE, "offset %zu: JSON with more than %zu values", offset,
                         limits->values);
    return true;
}

static bool scan_text(const char *text, size_t size, const JsonLimits *limits, Error *error) {
    if (size > limits->bytes)
        return error_set(error, ERROR_FILE, "%zu bytes of JSON (at most %zu)", size, limits->bytes);
    Scan scan = {0};
    for (size_t i = 0; i < size; i++)
        if (!scan_byte(&scan, text[i], i, limits, error)) return false;
    return true;
}

json_t *json_parse(const char *text, size_t size, const JsonLimits *limits, Error *error) {
    if (!scan_text(text, size, limits, error)) return NULL;
    json_error_t cause;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &cause);
    if (root) return root;
    if (json_error_code(&cause) == json_error_out_of_memory)
        error_set(error, ERROR_MEMORY, "out of memory for %zu bytes of JSON", size);
    else
        error_set(error, ERROR_FILE, "offset %d: invalid JSON: %s", cause.position, cause.text);
    return NULL;
}

const char *json_kind(const json_t *value) {
    if (!value) return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "something unknown";
}

// The value of `key`, or NULL where it is absent or null.
static const json_t *find(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static bool wrong_kind(const json_t *value, const char *key, const char *wanted, Error *error) {
    return error_set(error, ERROR_FILE, "\"%s\": wanted %s, got %s", key, wanted, json_kind(value));
}

bool json_read_int(const json_t *object, const char *key, int *out, Error *error) {
    const json_t *value = find(object, key);
    if (!value) return true;
    if (!json_is_integer(value)) return wrong_kind(value, key, "an integer", error);
    json_int_t number = json_integer_value(value);
    if (number < INT_MIN || number > INT_MAX)
        return error_set(error, ERROR_FILE, "\"%s\": %" JSON_INTEGER_FORMAT " is out of range", key,
                         number);
    *out = (int)number;
    return true;
}

bool json_read_float(const json_t *object, const char *key, float *out, Error *error) {
    const json_t *value = find(object, key);
    if (!value) return true;
    if (!json_is_number(value)) return wrong_kind(value, key, "a number", error);
    float number = (float)json_number_value(value);
    if (!isfinite(number))
        return error_set(error, ERROR_FILE, "\"%s\": %g is out of range", key,
                         json_number_value(value));
    *out = number;
    return true;
}

bool json_read_bool(const json_t *object, const char *key, bool *out, Error *error) {
    const json_t *value = find(object, key);
    if (!value) return true;
    if (!json_is_boolean(value)) return wrong_kind(value, key, "true or false", error);
    *out = json_is_true(value);
    return true;
}

bool json_read_string(const json_t *object, const char *key, const char **out, Error *error) {
    const json_t *value = find(object, key);
    if (!value) return true;
    if (!json_is_string(value)) return wrong_kind(value, key, "a string", error);
    *out = json_string_value(value);
    return true;
}

bool json_read_object(const json_t *object, const char *key, const json_t **out, Error *error) {
    const json_t *value = find(object, key);
    if (!value) return true;
    if (!json_is_object(value)) return wrong_kind(value, key, "an object", error);
    *out = value;
    return true;
}

bool json_read_array(const json_t *object, const char *key, const json_t **out, Error *error) {
    const json_t *value = find(object, key);
    if (!value) return true;
    if (!json_is_array(value)) return wrong_kind(value, key, "an array", error);
    *out = value;
    return true;
}

bool json_to_size(const json_t *value, const char *what, uint64_t *out, Error *error) {
    if (!json_is_integer(value))
        return error_set(error, ERROR_FILE, "%s: wanted an integer, got %s", what,
                         json_kind(value));
    json_int_t number = json_integer_value(value);
    if (number < 0)
        return error_set(error, ERROR_FILE, "%s: %" JSON_INTEGER_FORMAT " is negative", what,
                         number);
    *out = (uint64_t)number;
    return true;
}
