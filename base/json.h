// json: a strict layer over jansson for untrusted text.
//
//     json_t *root = json_parse(text, size, &JSON_CONFIG_LIMITS, &error);
//     int layers = 32; // stays where the key is absent or null
//     bool good = root && json_read_int(root, "num_hidden_layers", &layers, &error);
//     json_decref(root);
//
// Size, depth and the number of values are checked by a flat scan before jansson, which recurses
// and allocates, sees a byte. Duplicate keys, bytes after the value, invalid UTF-8 and, unless the
// limits allow it, NUL inside a string and integers beyond 64 bits are refused.
#pragma once

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct JsonLimits {
    size_t bytes;
    size_t values;    // of all kinds; jansson takes up to 150 bytes for each
    bool no_negative; // a minus outside a string is refused, so that -0 is not read as 0
    bool nul;         // json_parse: strings may have \u0000, so they are read with their length
    bool any;         // json_parse: the text may be any value, not an object or an array alone
    bool large;       // json_parse: an integer beyond 64 bits is a real number, not an error
} JsonLimits;

// config.json and its like: 4 MiB, 2^16 values. Python writes integers of any size into them
// (transformers' "no limit" has 31 digits), which must not make the rest unreadable.
extern const JsonLimits JSON_CONFIG_LIMITS;

// The members of a large object one after another, each parsed by itself, so that memory holds one
// at a time. The caller checks for duplicate keys.
//
//     JsonMembers members = json_members(text, size, &limits);
//     while (json_members_next(&members, &error)) use(members.key, members.value);
//     json_members_end(&members);
//     if (members.failed) return false;
typedef struct JsonMembers {
    const char *key; // borrowed until the next call, like value
    const json_t *value;
    bool failed;
    // the walk's own
    const char *text;
    size_t size, pos;
    const JsonLimits *limits;
    json_t *held;
    bool done;
} JsonMembers;

// text[0] is '{'; `limits` hold for each member.
JsonMembers json_members(const char *text, size_t size, const JsonLimits *limits);
// False at the end, and on a failure (exit code 3 or 5, `failed`).
bool json_members_next(JsonMembers *members, Error *error);
void json_members_end(JsonMembers *members); // also in the middle

// An upper bound on the number of members: one more than the commas between them.
size_t json_members_bound(const char *text, size_t size);

// The value that text[0 .. size) spells, owned (json_decref), an object or an array unless
// limits->any. NULL: exit code 3 and a message with the offset.
json_t *json_parse(const char *text, size_t size, const JsonLimits *limits, Error *error);

// Each looks up `key`. Absent or null: *out stays as it is, true. Another type or out of range:
// false, exit code 3, a message that names the key, what is there and what is wanted.
bool json_read_int(const json_t *object, const char *key, int *out, Error *error);
bool json_read_float(const json_t *object, const char *key, float *out, Error *error); // finite
bool json_read_bool(const json_t *object, const char *key, bool *out, Error *error);
bool json_read_string(const json_t *object, const char *key, const char **out,
                      Error *error); // borrowed from `object`
bool json_read_object(const json_t *object, const char *key, const json_t **out, Error *error);
bool json_read_array(const json_t *object, const char *key, const json_t **out, Error *error);

// A non-negative integer, no other number: 2.0, -1 and true are refused. `what` names it.
bool json_to_size(const json_t *value, const char *what, uint64_t *out, Error *error);

// A string without NUL, borrowed from `value`. `what` names it. NULL: exit code 3.
const char *json_to_string(const json_t *value, const char *what, Error *error);

// "an integer", "null", ...; "nothing" for NULL. For messages.
const char *json_kind(const json_t *value);
