// The twin of the files that need jansson, for builds without it (make JSON=0, make core). Of
// safetensors files it reads those that limpid writes (weights/out/safetensors.c), traces above
// all: members in that one order and spelling, no spaces but at the end. Everything else is
// refused.
//
// The parser walks the text once: Text is a position in it, and each take_ function moves the
// position past what it expects, or fails with what was wanted there.
#include "weights/container.h"
#include "weights/hf/safetensors.h"
#include "weights/out/outgoing.h"

#include "base/text.h"

#include <string.h>

// No config.json can be read, so no model of safetensors; convert cannot write one either.
static bool refuse(Error *error) {
    return error_set(error, ERROR_FILE, "this build reads no safetensors files (it has no JSON)");
}

bool safetensors_read(Checkpoint *checkpoint, Error *error) {
    (void)checkpoint;
    return refuse(error);
}

bool config_json_read(Checkpoint *checkpoint, OutlineFlags *flags, Error *error) {
    (void)checkpoint, (void)flags;
    return error_set(error, ERROR_FILE, "this build reads no config.json (it has no JSON)");
}

bool hf_config_write(Buffer *json, const Outgoing *out, Error *error) {
    (void)json, (void)out;
    return refuse(error);
}

void hf_generation_write(Buffer *json, const Checkpoint *from) {
    (void)json, (void)from;
}

// ---- the text of a header ----

typedef struct Text {
    const char *begin, *at, *end;
    Arena *arena; // where strings go; NULL: they are passed over
    Error *error;
} Text;

// The offset counts from the first byte of the JSON text.
static bool wrong(const Text *t, const char *wanted) {
    return error_set(t->error, ERROR_FILE,
                     "offset %zu: wanted %s, as limpid writes it (this build has no JSON)",
                     (size_t)(t->at - t->begin), wanted);
}

static bool starts_with(const Text *t, const char *literal) {
    size_t length = strlen(literal);
    return (size_t)(t->end - t->at) >= length && !memcmp(t->at, literal, length);
}

static bool take(Text *t, const char *literal) {
    if (!starts_with(t, literal)) return wrong(t, literal);
    t->at += strlen(literal);
    return true;
}

// -1: no lower-case hexadecimal digit.
static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

// One character of a string to out[4] and its length; 0: none. The writer escapes quotes,
// backslashes, control characters (\u00xx) and what was no UTF-8 (\ufffd).
static size_t take_character(Text *t, char *out) {
    size_t left = (size_t)(t->end - t->at), length;
    uint32_t c = 0;
    if (!left || (unsigned char)*t->at < 0x20) return 0;
    if (*t->at != '\\') {
        length = utf8_decode(t->at, left, &c);
        memcpy(out, t->at, length);
        t->at += length;
        return length;
    }
    if (left >= 2 && (t->at[1] == '"' || t->at[1] == '\\')) {
        *out = t->at[1];
        t->at += 2;
        return 1;
    }
    if (left < 6 || t->at[1] != 'u') return 0;
    for (int i = 2; i < 6; i++) {
        int digit = hex_digit(t->at[i]);
        if (digit < 0) return 0;
        c = c << 4 | (uint32_t)digit;
    }
    t->at += 6;
    // No NUL, which would end the string early, and no surrogate, which is no character.
    return c && (c < 0xd800 || c > 0xdfff) ? utf8_encode(out, c) : 0;
}

// *out: the string without its quotes, in the arena; NULL where there is none.
static bool take_string(Text *t, char **out) {
    if (!take(t, "\"")) return false;
    const char *closing = t->at; // no string is longer than its spelling
    while (closing < t->end && *closing != '"')
        closing += 1 + (*closing == '\\' && t->end - closing > 1);
    size_t used = 0, room = (size_t)(closing - t->at);
    *out = t->arena ? arena_alloc(t->arena, room + 1, 1, t->error) : NULL;
    if (t->arena && !*out) return false;
    while (t->at < t->end && *t->at != '"') {
        char character[4];
        size_t length = take_character(t, character);
        if (!length || length > room - used) return wrong(t, "a character");
        if (*out) memcpy(*out + used, character, length);
        used += length;
    }
    return take(t, "\"");
}

// Digits only, no sign, no leading zero: JSON's integers without the negative ones.
static bool take_number(Text *t, uint64_t *out) {
    const char *begin = t->at;
    *out = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        uint64_t digit = (uint64_t)(*t->at - '0');
        if (*out > (UINT64_MAX - digit) / 10) return wrong(t, "a number of 64 bits");
        *out = *out * 10 + digit;
    }
    if (t->at == begin || (*begin == '0' && t->at - begin > 1)) return wrong(t, "a number");
    return true;
}

// "__metadata__":{"key":"value",..}; *value is that of `key`, where both are given.
static bool take_metadata(Text *t, const char *key, const char **value) {
    if (!take(t, "\"__metadata__\":{")) return false;
    for (bool first = true; first || starts_with(t, ","); first = false) {
        char *name, *text;
        if (!first && !take(t, ",")) return false;
        if (!take_string(t, &name) || !take(t, ":") || !take_string(t, &text)) return false;
        if (key && name && !strcmp(name, key) && !*value) *value = text;
    }
    return take(t, "}");
}

// "name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}
static bool take_tensor(Text *t, SafetensorsHeader *h) {
    char *name, *type;
    uint64_t begin, end;
    if (!take_string(t, &name)) return false;
    SafetensorsTensor *tensor = safetensors_add(h, name, t->error);
    if (!tensor || !take(t, ":{\"dtype\":") || !take_string(t, &type) ||
        !safetensors_set_type(tensor, type, t->error) || !take(t, ",\"shape\":["))
        return false;
    for (uint32_t *n = &tensor->plan.n_dims; !starts_with(t, "]"); ++*n) {
        if (*n == 4) return wrong(t, "at most 4 dimensions");
        if ((*n && !take(t, ",")) || !take_number(t, &tensor->plan.shape[*n])) return false;
    }
    return safetensors_measure(tensor, t->error) && take(t, "],\"data_offsets\":[") &&
           take_number(t, &begin) && take(t, ",") && take_number(t, &end) && take(t, "]}") &&
           safetensors_place(h, tensor, begin, end, t->error);
}

// limpid writes __metadata__ first or not at all.
static bool at_metadata(const Text *t) {
    return starts_with(t, "\"__metadata__\":");
}

bool safetensors_read_text(SafetensorsHeader *h, const char *text, size_t length, Error *error) {
    Text t = {text, text + 1, text + length, NULL, error};
    // An upper bound: braces inside names count too.
    size_t braces = 0; // each tensor has one
    for (size_t i = 0; i < length; i++)
        braces += text[i] == '{';
    if (!safetensors_room(h, braces, error)) return false;
    h->metadata = at_metadata(&t);
    if (h->metadata && !take_metadata(&t, NULL, NULL)) return false;
    t.arena = h->arena;
    for (bool first = !h->metadata; !starts_with(&t, "}"); first = false)
        if ((!first && !take(&t, ",")) || !take_tensor(&t, h)) return false;
    for (t.at++; t.at < t.end; t.at++)
        if (*t.at != ' ') return wrong(&t, "spaces");
    return true;
}

bool safetensors_metadata(SafetensorsFile *file, const char *key, const char **value,
                          Error *error) {
    size_t length;
    const char *text = safetensors_header_text(file, &length);
    *value = NULL;
    Text t = {text, text + 1, text + length, &file->arena, error};
    return !at_metadata(&t) || take_metadata(&t, key, value);
}
