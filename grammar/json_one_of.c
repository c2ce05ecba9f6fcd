// oneOf accepts a value that exactly one schema accepts. A grammar cannot count how many do, so it
// is followed where no value can be accepted by two: by their types, their constants, or a required
// property that has other constants in each ("kind": {"const": "circle"}).
#include "grammar/json_internal.h"

#include <string.h>

enum { OF_NULL = 1, OF_BOOLEAN = 2, OF_NUMBER = 4, OF_STRING = 8, OF_ARRAY = 16, OF_OBJECT = 32 };
enum { OF_ANY = 63 };

// Of a whole schema: some 100 ms.
enum { MOST_STEPS = 1 << 21 };

// A step of comparing. False: they are used up.
static bool spend(Conversion *c) {
    return ++c->compared < MOST_STEPS;
}

static int bit_of(const char *type) {
    static const char *const NAMES[] = {"null", "boolean", "number", "string", "array", "object"};
    if (!type) return OF_ANY;
    for (int i = 0; i < 6; i++)
        if (!strcmp(type, NAMES[i])) return 1 << i;
    return !strcmp(type, "integer") ? OF_NUMBER : OF_ANY;
}

static int bit_of_value(const json_t *value) {
    if (json_is_null(value)) return OF_NULL;
    if (json_is_boolean(value)) return OF_BOOLEAN;
    if (json_is_number(value)) return OF_NUMBER;
    if (json_is_string(value)) return OF_STRING;
    return json_is_array(value) ? OF_ARRAY : OF_OBJECT;
}

// The i-th constant of the schema; NULL: there are no more, or it has none.
static const json_t *constant(const json_t *schema, size_t i) {
    const json_t *one = json_object_get(schema, "const");
    return one ? (i ? NULL : one) : json_array_get(json_object_get(schema, "enum"), i);
}

// The types that it may accept.
static int types_of(Conversion *c, const json_t *schema) {
    const json_t *types = json_object_get(schema, "type");
    int bits = 0;
    for (size_t i = 0; constant(schema, i) && spend(c); i++)
        bits |= bit_of_value(constant(schema, i));
    if (bits) return bits;
    if (!json_is_array(types)) return bit_of(json_string_value(types));
    for (size_t i = 0; i < json_array_size(types) && spend(c); i++)
        bits |= bit_of(json_string_value(json_array_get(types, i)));
    return bits;
}

// 1 and 1.0 are the same value; beyond that, numbers are compared as they are written.
static bool are_equal(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b))
        return !(json_number_value(a) < json_number_value(b)) &&
               !(json_number_value(a) > json_number_value(b));
    if (json_is_array(a) || json_is_object(a)) return bit_of_value(a) == bit_of_value(b);
    return json_equal(a, b);
}

static bool constants_exclude(Conversion *c, const json_t *a, const json_t *b) {
    if (!constant(a, 0) || !constant(b, 0)) return false;
    for (size_t i = 0; constant(a, i); i++)
        for (size_t j = 0; constant(b, j); j++)
            if (!spend(c) || are_equal(constant(a, i), constant(b, j))) return false;
    return true;
}

static bool requires(Conversion *c, const json_t *schema, const char *name) {
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required) && spend(c); i++) {
        const char *other = json_string_value(json_array_get(required, i));
        if (other && !strcmp(other, name)) return true;
    }
    return false;
}

// Both are objects.
static bool properties_exclude(Conversion *c, const json_t *a, const json_t *b) {
    const json_t *others = json_object_get(b, "properties");
    const char *name;
    json_t *value;
    if (types_of(c, a) != OF_OBJECT || types_of(c, b) != OF_OBJECT) return false;
    json_object_foreach(json_object_get(a, "properties"), name, value) {
        if (!spend(c)) return false;
        if (requires(c, a, name) && requires(c, b, name) &&
            constants_exclude(c, value, json_object_get(others, name)))
            return true;
    }
    return false;
}

static bool exclude(Conversion *c, const json_t *a, const json_t *b) {
    return !(types_of(c, a) & types_of(c, b)) || constants_exclude(c, a, b) ||
           properties_exclude(c, a, b);
}

bool schemas_exclude(Conversion *c, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t j = 0; j < i; j++) {
            const json_t *a = schema_behind(c, json_array_get(list, j), &c->compared);
            const json_t *b = schema_behind(c, json_array_get(list, i), &c->compared);
            bool good = a && b && spend(c) && exclude(c, a, b);
            if (c->compared >= MOST_STEPS)
                return schema_fail(c, "\"oneOf\": too many schemas and constants to compare (anyOf "
                                      "takes them)");
            if (!good)
                return schema_fail(c,
                                   "\"oneOf\": schemas %zu and %zu may both accept a value (anyOf "
                                   "takes it)",
                                   j, i);
        }
    return true;
}
