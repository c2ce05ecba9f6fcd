// Looking keys up, with their types checked.
//
// A value stays in the file as bytes until a getter asks for it: read_value (gguf.c) has checked
// only that it lies inside. Getters convert no types: a key has the one that the format gives it.
// What a missing key means is the caller's business.
#include "weights/gguf/gguf.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Columns: name for messages; bytes of an element, 0 where it varies. In the order of GgufType.
static const struct {
    const char *name;
    size_t size;
} TYPES[GGUF_TYPE_COUNT] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

const char *gguf_type_name(uint32_t type) {
    return type < GGUF_TYPE_COUNT ? TYPES[type].name : "?";
}

size_t gguf_type_size(uint32_t type) {
    return type < GGUF_TYPE_COUNT ? TYPES[type].size : 0;
}

// An architecture of at most 64 bytes and the longest key asked for.
typedef char KeyText[160];

// ".block_count" -> "llama.block_count" in `out`; a key without the dot is returned as it is.
static const char *full_key(const Gguf *g, const char *key, KeyText out) {
    if (*key != '.') return key;
    snprintf(out, sizeof(KeyText), "%s%s", g->architecture, key);
    return out;
}

// The key in the message is the full one, as it stands in the file.
bool gguf_fail(const Gguf *g, const char *key, Error *error, const char *format, ...) {
    KeyText name;
    char text[ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(error, ERROR_FILE, "key \"%s\": %s", full_key(g, key, name), text);
}

const GgufValue *gguf_find(const Gguf *g, const char *key) {
    KeyText name;
    int64_t item = names_find(&g->keys, full_key(g, key, name));
    return item < 0 ? NULL : &g->values[item];
}

// *value = NULL where the key is absent and need not be there.
static bool find_typed(const Gguf *g, const char *key, GgufType type, bool need,
                       const GgufValue **value, Error *error) {
    *value = gguf_find(g, key);
    if (!*value) return !need || gguf_fail(g, key, error, "is missing");
    return (*value)->type == type ||
           gguf_fail(g, key, error, "type %s, wanted %s", gguf_type_name((*value)->type),
                     gguf_type_name(type));
}

bool gguf_u32(const Gguf *g, const char *key, bool need, uint32_t *out, Error *error) {
    const GgufValue *value;
    if (!find_typed(g, key, GGUF_U32, need, &value, error)) return false;
    if (value) *out = load_u32(value->bytes);
    return true;
}

// Config holds ints. A u32 above 2^31 - 1 is out of every range and must not turn negative.
static bool to_int(const Gguf *g, const char *key, uint32_t number, int *out, Error *error) {
    if (number > INT_MAX) return gguf_fail(g, key, error, "%u is out of range", number);
    *out = (int)number;
    return true;
}

bool gguf_int(const Gguf *g, const char *key, bool need, int *out, Error *error) {
    const GgufValue *value;
    if (!find_typed(g, key, GGUF_U32, need, &value, error)) return false;
    return !value || to_int(g, key, load_u32(value->bytes), out, error);
}

bool gguf_f32(const Gguf *g, const char *key, bool need, float *out, Error *error) {
    const GgufValue *value;
    if (!find_typed(g, key, GGUF_F32, need, &value, error)) return false;
    if (value) *out = load_f32(value->bytes);
    return true;
}

bool gguf_bool(const Gguf *g, const char *key, bool *out, Error *error) {
    const GgufValue *value;
    if (!find_typed(g, key, GGUF_BOOL, false, &value, error)) return false;
    if (value) *out = *value->bytes != 0;
    return true;
}

bool gguf_text(const Gguf *g, const char *key, bool need, TextSpan *out, Error *error) {
    const GgufValue *value;
    if (!find_typed(g, key, GGUF_STRING, need, &value, error)) return false;
    if (value) *out = (TextSpan){(const char *)value->bytes, (size_t)value->count};
    return true;
}

bool gguf_array(const Gguf *g, const char *key, uint32_t element, const GgufValue **out,
                Error *error) {
    if (!find_typed(g, key, GGUF_ARRAY, false, out, error)) return false;
    if (!*out || (*out)->element == element) return true;
    return gguf_fail(g, key, error, "array of %s, wanted %s", gguf_type_name((*out)->element),
                     gguf_type_name(element));
}

// Written as an array by converters of models whose layers may differ. limpid has one size for all
// layers, so the entries must agree. i32 and u32 have the same bytes in the range of an int.
bool gguf_per_layer(const Gguf *g, const char *key, bool need, int n_layers, int *out,
                    Error *error) {
    const GgufValue *value = gguf_find(g, key);
    if (!value || value->type != GGUF_ARRAY) return gguf_int(g, key, need, out, error);
    if (value->element != GGUF_I32 && value->element != GGUF_U32)
        return gguf_fail(g, key, error, "array of %s, wanted i32 or u32",
                         gguf_type_name(value->element));
    if (value->count != (uint64_t)n_layers)
        return gguf_fail(g, key, error, "%llu elements for %d layers",
                         (unsigned long long)value->count, n_layers);
    uint32_t first = load_u32(value->bytes);
    for (uint64_t i = 1; i < value->count; i++)
        if (load_u32(value->bytes + 4 * i) != first)
            return gguf_fail(g, key, error, "differs between layers, which is not supported");
    return to_int(g, key, first, out, error);
}
