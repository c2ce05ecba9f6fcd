// The flat scan before jansson, jansson with bounded memory, and getters that say which key was
// wrong.
//
//   json_parse     scan the text -> jansson parses it
//   json_members   for each member: scan to its end -> jansson parses "{" member "}"
//
// Why a scan first: jansson recurses for each bracket and takes up to 150 bytes for each value,
// many times the size of the text. The scan takes a constant amount of memory, and bounds both
// before jansson starts.
#include "base/json.h"

#include "base/bytes.h"
#include "base/text.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const JsonLimits JSON_CONFIG_LIMITS = {.bytes = 4 << 20, .values = 1 << 16, .large = true};

// What the scan needs to know of a text: only strings hide brackets and commas. And what jansson
// will need: room for the longest word.
typedef struct Scan {
    size_t depth, values;
    size_t word, longest_word; // bytes since the last comma or opening quote
    bool in_string, escaped;
} Scan;

// Inside a string only the closing quote matters, and a backslash hides the byte after it.
static void scan_string_byte(Scan *scan, char c) {
    if (scan->escaped)
        scan->escaped = false;
    else if (c == '\\')
        scan->escaped = true;
    else if (c == '"')
        scan->in_string = false;
}

// One byte. False: exit code 3 with `offset`.
static bool scan_byte(Scan *scan, char c, size_t offset, const JsonLimits *limits, Error *error) {
    if (c == '\0') // jansson passes over one behind a number
        return error_set(error, ERROR_FILE, "offset %zu: invalid JSON: a NUL byte", offset);
    if (++scan->word > scan->longest_word) scan->longest_word = scan->word;
    if (scan->in_string) {
        scan_string_byte(scan, c);
        return true;
    }
    switch (c) {
    case '"':
        scan->in_string = true;
        scan->word = 0;
        break;
    case '[':
    case '{':
        if (++scan->depth > LIMIT_JSON_DEPTH)
            return error_set(error, ERROR_FILE, "offset %zu: JSON nested deeper than %d", offset,
                             LIMIT_JSON_DEPTH);
        scan->values++; // at most one more value than there are commas between its brackets
        break;
    case ']':
    case '}':
        if (scan->depth) scan->depth--; // jansson complains about one too many
        break;
    case ',':
        scan->values++;
        scan->word = 0;
        break;
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

// The whole text. It need not be valid JSON: jansson checks that afterwards.
static bool scan_text(Scan *scan, const char *text, size_t size, const JsonLimits *limits,
                      Error *error) {
    if (size > limits->bytes)
        return error_set(error, ERROR_FILE, "%zu bytes of JSON (at most %zu)", size, limits->bytes);
    for (size_t i = 0; i < size; i++)
        if (!scan_byte(scan, text[i], i, limits, error)) return false;
    return true;
}

// ---- the parser ----

typedef struct JsonText {
    const char *bytes;
    size_t size;
    size_t offset;        // of the text in what the user knows, for messages
    size_t longest_word;  // a bound on the bytes of every string and number
    bool member;          // a member of an object: the brackets around it are added
    bool any, nul, large; // of JsonLimits
} JsonText;

// When jansson cannot grow the buffer of the current string or number, it drops a byte and goes on,
// past the end of the buffer if that byte was a closing quote; elsewhere it reports missing memory
// as a syntax error. So our allocator records the failure, serves requests from a reserve, and feed
// ends the text. jansson passes the allocator no context, so this needs globals (as mapping.c
// does). It goes on to the allocator that was there: the process may be another program's, which
// uses jansson too.
typedef struct Reserve {
    bool in_use; // memory has run out
    char *bytes; // owned
    size_t size, used, largest;
} Reserve;

static _Thread_local Reserve reserve;
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static json_malloc_t allocate_before; // malloc, unless the program has chosen another
static json_free_t release_before;

// For jansson: as before, until it fails once; then pieces of the reserve, 16-byte aligned. NULL
// when that is used up too, or for a request that is larger than any word needs.
static void *allocate(size_t size) {
    void *memory = reserve.in_use ? NULL : allocate_before(size);
    if (memory || !reserve.bytes) return memory;
    reserve.in_use = true;
    size_t room = (size + 15) & ~(size_t)15;
    if (size > reserve.largest || room > reserve.size - reserve.used) return NULL;
    reserve.used += room;
    return reserve.bytes + reserve.used - room;
}

// For jansson. Pieces of the reserve are not reused; it is freed as a whole.
static void release(void *memory) {
    uintptr_t at = (uintptr_t)memory, begin = (uintptr_t)reserve.bytes;
    if (!begin || at < begin || at >= begin + reserve.size) release_before(memory);
}

static void install_allocator(void) {
    json_get_alloc_funcs(&allocate_before, &release_before);
    json_set_alloc_funcs(allocate, release);
}

// jansson reads ahead by 1 KiB, or to the end of a shorter text; each byte of it makes at most one
// value of some 200 bytes. A word grows by doubling: larger requests are a container's, and their
// failure is seen.
enum { READ_AHEAD = 1024, VALUE_BYTES = 256 };

// A word of n bytes needs a buffer of up to 2 n. Pieces are not reused, so a buffer that doubles
// takes twice its last size in all; four times leaves room for the object around it.
static bool reserve_memory(const JsonText *text, Error *error) {
    pthread_once(&installed, install_allocator);
    size_t largest = 2 * text->longest_word + 4096, ahead = text->size + 2 * text->member;
    if (ahead > READ_AHEAD) ahead = READ_AHEAD;
    reserve = (Reserve){.largest = largest, .size = 4 * largest + VALUE_BYTES * ahead};
    reserve.bytes = malloc(reserve.size);
    return reserve.bytes || error_set(error, ERROR_MEMORY, "out of memory for JSON");
}

// What jansson has read of the text; `pos` counts a bracket in front too.
typedef struct Feed {
    const JsonText *text;
    size_t pos;
    Scan scan;         // what is in a string
    size_t number_end; // of the last number
    bool number_large;
} Feed;

static bool is_of_number(char c) {
    return c && strchr("+-.eE0123456789", c);
}

// Whether it is an integer that a json_int_t does not hold.
static bool number_is_large(const char *number, size_t length) {
    static const char MOST[] = "9223372036854775807", LEAST[] = "9223372036854775808";
    bool negative = length && *number == '-';
    size_t digits = length - negative, most = sizeof MOST - 1;
    number += negative;
    for (size_t i = 0; i < digits; i++)
        if (number[i] < '0' || number[i] > '9') return false;
    return digits > most || (digits == most && memcmp(number, negative ? LEAST : MOST, most) > 0);
}

// The byte at `i` as jansson gets it. The last three digits of an integer that is too large for it
// become an exponent: then it reads a real number. The length stays, for the offsets in messages.
//
//     1000000000000000019884624838656  ->  1000000000000000019884624838e+3
static char respelt(Feed *f, size_t i) {
    const JsonText *t = f->text;
    char c = t->bytes[i];
    if (f->scan.in_string) {
        scan_string_byte(&f->scan, c);
    } else if (c == '"') {
        f->scan.in_string = true;
    } else if (is_of_number(c)) {
        if (i >= f->number_end) {
            f->number_end = i;
            while (f->number_end < t->size && is_of_number(t->bytes[f->number_end]))
                f->number_end++;
            f->number_large = number_is_large(t->bytes + i, f->number_end - i);
        }
        if (f->number_large && i + 3 >= f->number_end) return "e+3"[i + 3 - f->number_end];
    }
    return c;
}

// For jansson: the next bytes of the text, 0 at its end, or as soon as memory has run out.
static size_t feed(void *buffer, size_t room, void *context) {
    Feed *f = context;
    const JsonText *t = f->text;
    char *out = buffer;
    size_t n = 0, around = t->member, end = t->size + 2 * around;
    if (reserve.in_use) return 0;
    for (; n < room && f->pos < end; n++, f->pos++) {
        bool bracket = around && (f->pos == 0 || f->pos == end - 1);
        if (bracket)
            out[n] = f->pos == 0 ? '{' : '}';
        else
            out[n] = t->large ? respelt(f, f->pos - around) : t->bytes[f->pos - around];
    }
    return n;
}

// Owned (json_decref). NULL: exit code 3 with the offset, or 5.
static json_t *load_text(const JsonText *text, Error *error) {
    json_error_t cause;
    if (!reserve_memory(text, error)) return NULL;
    size_t flags = JSON_REJECT_DUPLICATES;
    if (text->any) flags |= JSON_DECODE_ANY;
    if (text->nul) flags |= JSON_ALLOW_NUL;
    json_t *root = json_load_callback(feed, &(Feed){.text = text}, flags, &cause);
    if (reserve.in_use) {
        json_decref(root);
        root = NULL;
        error_set(error, ERROR_MEMORY, "out of memory for JSON");
    } else if (!root) {
        size_t position = text->offset + (size_t)(cause.position > 0 ? cause.position : 0);
        // "... without JSON_ALLOW_NUL" is said to programmers
        const char *hint = strstr(cause.text, " without JSON_");
        int length = (int)(hint ? (size_t)(hint - cause.text) : strlen(cause.text));
        error_set(error, ERROR_FILE, "offset %zu: invalid JSON: %.*s", position, length,
                  cause.text);
    }
    free(reserve.bytes);
    reserve = (Reserve){0};
    return root;
}

json_t *json_parse(const char *text, size_t size, const JsonLimits *limits, Error *error) {
    Scan scan = {0};
    if (text_is_foreign(text, size, "JSON file", error) ||
        !scan_text(&scan, text, size, limits, error))
        return NULL;
    JsonText whole = {text,
                      size,
                      .longest_word = scan.longest_word,
                      .any = limits->any,
                      .nul = limits->nul,
                      .large = limits->large};
    return load_text(&whole, error);
}

// ---- members of a large object ----

JsonMembers json_members(const char *text, size_t size, const JsonLimits *limits) {
    return (JsonMembers){.text = text, .size = size, .pos = 1, .limits = limits};
}

void json_members_end(JsonMembers *members) {
    json_decref(members->held);
    members->held = NULL;
}

size_t json_members_bound(const char *text, size_t size) {
    static const JsonLimits NONE = {.bytes = SIZE_MAX, .values = SIZE_MAX};
    Scan scan = {0};
    size_t count = 1;
    for (size_t i = 0; i < size; i++) {
        count += text[i] == ',' && !scan.in_string && scan.depth == 1;
        if (!scan_byte(&scan, text[i], i, &NONE, NULL)) break; // too deep: the walk will say so
    }
    return count;
}

// Where the member at `pos` ends: at the comma or bracket that is its object's. False: there is
// none. The scan begins inside the object, at depth 1, where only this object's commas and brackets
// end a member.
static bool member_end(JsonMembers *m, size_t *end, size_t *longest_word, Error *error) {
    Scan scan = {.depth = 1};
    for (size_t i = m->pos; i < m->size; i++) {
        char c = m->text[i];
        *end = i;
        *longest_word = scan.longest_word;
        if (scan.depth == 1 && !scan.in_string && (c == ',' || c == '}' || c == ']')) return true;
        if (!scan_byte(&scan, c, i, m->limits, error)) return false;
        if (i - m->pos >= m->limits->bytes)
            return error_set(error, ERROR_FILE, "offset %zu: more than %zu bytes in one member",
                             m->pos, m->limits->bytes);
    }
    return error_set(error, ERROR_FILE, "offset %zu: invalid JSON: the object does not end",
                     m->size);
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The first byte from `pos` on that is no space, or `end`.
static size_t skip_spaces(const char *text, size_t pos, size_t end) {
    while (pos < end && is_space(text[pos]))
        pos++;
    return pos;
}

// Parses m->text[pos .. end) as an object of one member. Offsets in messages count from the
// beginning of m->text, less the bracket that was added.
static bool parse_member(JsonMembers *m, size_t end, size_t longest_word, Error *error) {
    JsonText text = {m->text + m->pos, end - m->pos, m->pos - 1, longest_word, .member = true};
    m->held = load_text(&text, error);
    if (!m->held) return false;
    if (json_object_size(m->held) != 1)
        return error_set(error, ERROR_FILE, "offset %zu: invalid JSON: a member is missing", end);
    void *member = json_object_iter(m->held);
    m->key = json_object_iter_key(member);
    m->value = json_object_iter_value(member);
    return true;
}

// False: exit code 3 or 5. `held` stays NULL after the last member, and for an empty object.
static bool next_member(JsonMembers *m, Error *error) {
    size_t end = 0, longest_word = 0;
    bool first = m->pos == 1;
    if (!member_end(m, &end, &longest_word, error)) return false;
    char closing = m->text[end];
    bool empty = first && closing == '}' && skip_spaces(m->text, m->pos, end) == end;
    if (closing == ']')
        return error_set(error, ERROR_FILE, "offset %zu: invalid JSON: ']' ends an object", end);
    if (!empty && !parse_member(m, end, longest_word, error)) return false;
    m->pos = end + 1;
    if (closing == ',') return true;
    m->done = true;
    size_t behind = skip_spaces(m->text, m->pos, m->size);
    if (behind < m->size)
        return error_set(error, ERROR_FILE, "offset %zu: invalid JSON: more after the object",
                         behind);
    return true;
}

bool json_members_next(JsonMembers *members, Error *error) {
    json_members_end(members);
    if (members->done || members->failed) return false;
    members->failed = !next_member(members, error);
    return !members->failed && members->held;
}

// ---- getters ----

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

const char *json_to_string(const json_t *value, const char *what, Error *error) {
    const char *text = json_string_value(value);
    if (!text)
        wrong_kind(value, what, "a string", error);
    else if (strlen(text) != json_string_length(value))
        error_set(error, ERROR_FILE, "\"%s\": a NUL in a string", what);
    else
        return text;
    return NULL;
}

bool json_read_string(const json_t *object, const char *key, const char **out, Error *error) {
    const json_t *value = find(object, key);
    const char *text = value ? json_to_string(value, key, error) : NULL;
    if (text) *out = text;
    return text || !value;
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
