// JSON schema -> GBNF. Every text that the grammar allows is JSON that the schema accepts. Not the
// other way: of what a schema leaves open, one form is written.
//
//     followed     type enum const anyOf oneOf allOf (of one) $ref (inside the file) $defs
//                  properties required additionalProperties; items prefixItems minItems maxItems
//                  minLength maxLength pattern format (date, time, date-time, uuid); minimum
//                  maximum exclusiveMinimum exclusiveMaximum of integers, minimum 0 of numbers
//     annotations  title description default examples $schema $id $comment deprecated readOnly
//                  writeOnly x-...
//     refused      all others, by name; so are those above where one beside them cannot be followed
//
// A schema that is true accepts any value, as {} does.
//
// Properties come in the order of the schema. Others come only where the schema has no properties.
#include "grammar/json_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const JsonLimits LIMITS = {.bytes = LIMIT_GRAMMAR_BYTES, .values = 1 << 16, .any = true};

// What every schema may call. Numbers stay inside what a double or 64 bits can hold; no escape is
// half a pair, or U+0000, which C programs cannot take.
static const char COMMON[] =
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"
    "hex ::= [0-9a-fA-F]\n"
    "char ::= [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" code)\n"
    "code ::= \"000\" [1-9a-fA-F] | \"00\" [1-9a-fA-F] hex | \"0\" [1-9a-fA-F] hex hex | "
    "[1-9a-cA-CefEF] hex hex hex | [dD] [0-7] hex hex | "
    "[dD] [89abAB] hex hex \"\\\\u\" [dD] [c-fC-F] hex hex\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"0\" | \"-\"? [1-9] [0-9]{0,14}\n"
    "positive ::= (\"0\" | [1-9] [0-9]{0,14}) (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9] [0-9]?)?\n"
    "number ::= \"-\"? positive\n"
    "boolean ::= \"true\" | \"false\"\n"
    "object ::= \"{\" ws (pair (ws \",\" ws pair)* ws)? \"}\"\n"
    "pair ::= string ws \":\" ws value\n"
    "array ::= \"[\" ws (value (ws \",\" ws value)* ws)? \"]\"\n"
    "value ::= object | array | string | number | boolean | \"null\"\n";

bool schema_fail(Conversion *c, const char *format, ...) {
    char text[250];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(c->error, ERROR_FILE, "%.80s: %s", c->path, text);
}

// ---- rules ----

static size_t bucket_of(const Conversion *c, const json_t *schema) {
    return keyed_hash(&c->key, &schema, sizeof schema) & (c->table_size - 1);
}

// The rule of a schema, a new one where it is the first time. `path` is copied then.
static bool rule_of(Conversion *c, const json_t *schema, const char *path, uint32_t *rule) {
    size_t at = bucket_of(c, schema);
    for (; c->table[at]; at = (at + 1) & (c->table_size - 1)) {
        *rule = c->table[at] - 1;
        if (c->schemas.at[*rule].schema == schema) return true;
    }
    if (2 * c->schemas.count >= LIMIT_GRAMMAR_RULES)
        return schema_fail(c, "a schema of more than %d parts", LIMIT_GRAMMAR_RULES / 2);
    if (!ARRAY_ROOM(&c->schemas, c->error)) return false;
    const char *copy = arena_text(&c->arena, path, strlen(path), c->error);
    if (!copy) return false;
    *rule = (uint32_t)c->schemas.count++;
    c->schemas.at[*rule] = (Subschema){schema, copy};
    c->table[at] = *rule + 1;
    return true;
}

bool put_rule_of(Conversion *c, const json_t *schema, const char *name, const char *index) {
    char path[300];
    uint32_t rule;
    snprintf(path, sizeof path, "%.200s%s%s%s%.60s", c->path, name ? "/" : "", name ? name : "",
             index ? "/" : "", index ? index : "");
    if (!rule_of(c, schema, path, &rule)) return false;
    buffer_print(&c->out, "r%u", rule);
    return true;
}

bool put_rule_at(Conversion *c, const json_t *schema, const char *name, size_t index) {
    char text[24];
    snprintf(text, sizeof text, "%zu", index);
    return put_rule_of(c, schema, name, text);
}

// ---- keywords ----

static bool is_one_of(const char *word, const char *const *list) {
    for (; *list; list++)
        if (!strcmp(word, *list)) return true;
    return false;
}

static const char *const ANNOTATIONS[] = {
    "title", "description", "default",    "examples", "$schema",   "$id",           "$comment",
    "$defs", "definitions", "deprecated", "readOnly", "writeOnly", "discriminator", NULL};

static const char *const FOLLOWED[] = {"type",
                                       "enum",
                                       "const",
                                       "anyOf",
                                       "oneOf",
                                       "allOf",
                                       "$ref",
                                       "properties",
                                       "required",
                                       "additionalProperties",
                                       "items",
                                       "prefixItems",
                                       "minItems",
                                       "maxItems",
                                       "minLength",
                                       "maxLength",
                                       "pattern",
                                       "format",
                                       "minimum",
                                       "maximum",
                                       "exclusiveMinimum",
                                       "exclusiveMaximum",
                                       NULL};

static bool is_annotation(const char *keyword) {
    return !strncmp(keyword, "x-", 2) || is_one_of(keyword, ANNOTATIONS);
}

// uniqueItems: false says nothing.
static bool check_keywords(Conversion *c, const json_t *schema) {
    const char *keyword;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value) {
        bool says_nothing = !strcmp(keyword, "uniqueItems") && json_is_false(value);
        if (!says_nothing && !is_annotation(keyword) && !is_one_of(keyword, FOLLOWED))
            return schema_fail(c, "the keyword \"%.40s\" is not supported", keyword);
    }
    return true;
}

// Nothing but this keyword, annotations, and `also` (NULL: none) says what is valid.
static bool check_alone(Conversion *c, const json_t *schema, const char *only, const char *also) {
    const char *keyword;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value) {
        bool fine =
            is_annotation(keyword) || !strcmp(keyword, only) || (also && !strcmp(keyword, also));
        if (!fine) return schema_fail(c, "\"%.40s\" beside \"%s\" is not supported", keyword, only);
    }
    return true;
}

// ---- enum and const ----

enum { N_TYPES = 7 }; // null boolean integer number string array object

// With as few digits as give the same numbers again: 0.3 is not 0.29999999999999999. NULL: no
// memory.
static char *short_text(const json_t *value) {
    char *text = NULL;
    bool same = false;
    for (size_t digits = 15; digits <= 17 && !same; digits++) {
        free(text);
        text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *again = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
        same = !text || json_equal(again, value);
        json_decref(again);
    }
    return text;
}

static bool put_value(Conversion *c, const json_t *value) {
    char *text = short_text(value);
    if (!text) return error_set(c->error, ERROR_MEMORY, "no memory for a schema");
    put_literal(&c->out, text, strlen(text));
    free(text);
    return true;
}

static bool has_type(const json_t *value, const char *type) {
    double real = json_real_value(value);
    if (!strcmp(type, "integer"))
        return json_is_integer(value) || (json_is_real(value) && floor(real) >= real);
    if (!strcmp(type, "number")) return json_is_number(value);
    if (!strcmp(type, "string")) return json_is_string(value);
    if (!strcmp(type, "boolean")) return json_is_boolean(value);
    if (!strcmp(type, "array")) return json_is_array(value);
    if (!strcmp(type, "object")) return json_is_object(value);
    return !strcmp(type, "null") && json_is_null(value);
}

// `types`: a name, a list of them, or NULL.
static bool fits_types(const json_t *value, const json_t *types) {
    if (!types) return true;
    if (json_is_string(types)) return has_type(value, json_string_value(types));
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type && has_type(value, type)) return true;
    }
    return false;
}

static bool put_values(Conversion *c, const json_t *schema) {
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const");
    const json_t *types = json_object_get(schema, "type");
    size_t count = one ? 1 : json_array_size(list), written = 0;
    if (!check_alone(c, schema, one ? "const" : "enum", "type")) return false;
    if (!one && !json_is_array(list)) return schema_fail(c, "\"enum\": wanted an array");
    if (json_array_size(types) > N_TYPES)
        return schema_fail(c, "\"type\": more than the %d there are", N_TYPES);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = one ? one : json_array_get(list, i);
        if (!fits_types(value, types)) continue;
        if (written++) buffer_print(&c->out, " | ");
        if (!put_value(c, value)) return false;
    }
    return written || schema_fail(c, "no value of \"%s\" has the type", one ? "const" : "enum");
}

// ---- several schemas ----

static bool put_any(Conversion *c, const json_t *schema, const char *keyword) {
    const json_t *list = json_object_get(schema, keyword);
    size_t count = json_array_size(list);
    if (!check_alone(c, schema, keyword, NULL)) return false;
    if (!count) return schema_fail(c, "\"%s\": wanted a list of schemas", keyword);
    if (!strcmp(keyword, "allOf") && count > 1)
        return schema_fail(c, "\"allOf\" of more than one schema is not supported");
    if (!strcmp(keyword, "oneOf") && !schemas_exclude(c, list)) return false;
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_print(&c->out, " | ");
        if (!put_rule_at(c, json_array_get(list, i), keyword, i)) return false;
    }
    return true;
}

// ---- $ref ----

// The next part of a JSON pointer, up to a slash or `size` - 1 bytes: ~1 is a slash, ~0 a tilde.
// What is in a URI besides may be %XX.
static size_t take_part(const char *at, char *out, size_t size) {
    size_t length = 0, used = 0;
    for (; at[used] && at[used] != '/' && length + 1 < size; used++) {
        char c = at[used];
        if (c == '~' && (at[used + 1] == '0' || at[used + 1] == '1'))
            c = at[++used] == '1' ? '/' : '~';
        else if (c == '%' && strspn(at + used + 1, "0123456789abcdefABCDEF") >= 2) {
            static const char DIGITS[] = "0123456789abcdef";
            c = (char)((strchr(DIGITS, at[used + 1] | 0x20) - DIGITS) << 4 |
                       (strchr(DIGITS, at[used + 2] | 0x20) - DIGITS));
            used += 2;
        }
        out[length++] = c;
    }
    out[length] = '\0';
    return used;
}

// The value at "#/$defs/name"; NULL: there is none, or it is no place in this file.
static const json_t *find_target(const Conversion *c, const char *reference) {
    const json_t *target = c->root;
    if (!reference || *reference != '#' || (reference[1] && reference[1] != '/')) return NULL;
    for (const char *at = reference + 1; target && *at == '/';) {
        char part[256];
        uint64_t index = 0;
        at += 1 + take_part(at + 1, part, sizeof part);
        if (*at && *at != '/') return NULL; // longer than any name that is looked for
        size_t digits = decimal_take(part, strlen(part), &index);
        target = json_is_array(target) && digits == strlen(part) ? json_array_get(target, index)
                                                                 : json_object_get(target, part);
    }
    return target;
}

const json_t *schema_behind(const Conversion *c, const json_t *schema, size_t *steps) {
    enum { MOST_STEPS = 16 };
    for (int i = 0; i < MOST_STEPS; i++) {
        const json_t *reference = json_object_get(schema, "$ref");
        ++*steps;
        if (!reference) return schema;
        *steps += json_string_length(reference) / 4;
        schema = find_target(c, json_string_value(reference));
    }
    return NULL;
}

static bool put_reference(Conversion *c, const json_t *schema) {
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    const json_t *target = find_target(c, reference);
    uint32_t rule;
    if (!check_alone(c, schema, "$ref", NULL)) return false;
    if (!target)
        return schema_fail(c, "\"$ref\": there is no %.80s in this file (as #/$defs/name is)",
                           reference ? reference : "text");
    if (!rule_of(c, target, reference, &rule)) return false;
    buffer_print(&c->out, "r%u", rule);
    return true;
}

// ---- types ----

static bool put_type(Conversion *c, const json_t *schema, const char *type) {
    if (!strcmp(type, "string")) return put_string(c, schema);
    if (!strcmp(type, "integer")) return put_integer(c, schema);
    if (!strcmp(type, "number")) return put_number(c, schema);
    if (!strcmp(type, "array")) return put_array(c, schema);
    if (!strcmp(type, "object")) return put_object(c, schema);
    bool known = !strcmp(type, "boolean") || !strcmp(type, "null");
    if (!known)
        return schema_fail(c,
                           "\"type\": \"%.40s\" is no JSON type (object, array, string, integer, "
                           "number, boolean, null)",
                           type);
    buffer_print(&c->out, "%s", *type == 'b' ? "boolean" : "\"null\"");
    return true;
}

// The type that the keywords are of, where none is named.
static const char *type_of_keywords(const json_t *schema) {
    static const char *const KEYWORDS[][2] = {{"properties", "object"},
                                              {"required", "object"},
                                              {"additionalProperties", "object"},
                                              {"items", "array"},
                                              {"prefixItems", "array"},
                                              {"minItems", "array"},
                                              {"maxItems", "array"},
                                              {"minLength", "string"},
                                              {"maxLength", "string"},
                                              {"format", "string"},
                                              {"pattern", "string"},
                                              {"minimum", "number"},
                                              {"maximum", "number"},
                                              {"exclusiveMinimum", "number"},
                                              {"exclusiveMaximum", "number"}};
    for (size_t i = 0; i < sizeof KEYWORDS / sizeof *KEYWORDS; i++)
        if (json_object_get(schema, KEYWORDS[i][0])) return KEYWORDS[i][1];
    return NULL;
}

static bool put_types(Conversion *c, const json_t *schema) {
    const json_t *types = json_object_get(schema, "type");
    const char *type = types ? json_string_value(types) : type_of_keywords(schema);
    if (type) return put_type(c, schema, type);
    if (!types) {
        buffer_print(&c->out, "value");
        return true;
    }
    if (!json_array_size(types)) return schema_fail(c, "\"type\": wanted a name or a list of them");
    for (size_t i = 0; i < json_array_size(types); i++) {
        type = json_string_value(json_array_get(types, i));
        if (!type) return schema_fail(c, "\"type\": wanted a name or a list of them");
        if (i >= N_TYPES) return schema_fail(c, "\"type\": more than the %d there are", N_TYPES);
        if (i) buffer_print(&c->out, " | ");
        if (!put_type(c, schema, type)) return false;
    }
    return true;
}

// One rule's expression.
static bool put_schema(Conversion *c, const json_t *schema) {
    static const char *const SEVERAL[] = {"anyOf", "oneOf", "allOf"};
    if (json_is_true(schema)) {
        buffer_print(&c->out, "value");
        return true;
    }
    if (json_is_false(schema)) return schema_fail(c, "no text satisfies the schema false");
    if (!json_is_object(schema))
        return schema_fail(c, "wanted a schema, got %s", json_kind(schema));
    if (!check_keywords(c, schema)) return false;
    if (json_object_get(schema, "$ref")) return put_reference(c, schema);
    for (size_t i = 0; i < 3; i++)
        if (json_object_get(schema, SEVERAL[i])) return put_any(c, schema, SEVERAL[i]);
    if (json_object_get(schema, "enum") || json_object_get(schema, "const"))
        return put_values(c, schema);
    return put_types(c, schema);
}

// By an "$id" inside of the file a "$ref" to "#..." below it means a place in another one: refused,
// wherever it stands but in values. *refers: there is such a "$ref".
static bool check_bases(Conversion *c, const json_t *value, bool *refers) {
    static const char *const VALUES[] = {"const", "enum", "default", "examples", NULL};
    const char *key, *base = json_string_value(json_object_get(value, "$id"));
    json_t *member;
    bool below = false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!check_bases(c, json_array_get(value, i), &below)) return false;
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        const char *text = json_string_value(member);
        if (text && !strcmp(key, "$ref") && *text == '#') below = true;
        if (!is_one_of(key, VALUES) && !check_bases(c, member, &below)) return false;
    }
    if (below && base && *base && *base != '#' && value != c->root)
        return schema_fail(c, "\"$ref\" below the \"$id\" %.80s is not supported", base);
    *refers |= below;
    return true;
}

// Rules are written in the order in which they were first called, until no new one comes.
static bool convert(Conversion *c) {
    uint32_t rule;
    bool refers = false;
    c->path = "#";
    if (!check_bases(c, c->root, &refers) || !rule_of(c, c->root, "#", &rule)) return false;
    buffer_print(&c->out, "root ::= r0\n%s", COMMON);
    for (; c->written < c->schemas.count; c->written++) {
        Subschema next = c->schemas.at[c->written];
        c->path = next.path;
        buffer_print(&c->out, "r%zu ::= ", c->written);
        if (!put_schema(c, next.schema)) return false;
        buffer_print(&c->out, "\n");
        if (c->out.size > LIMIT_GRAMMAR_BYTES)
            return schema_fail(c, "the grammar of the schema has more than %d bytes",
                               LIMIT_GRAMMAR_BYTES);
    }
    buffer_put(&c->out, "", 1);
    return !c->out.failed || error_set(c->error, ERROR_MEMORY, "no memory for a schema");
}

char *grammar_of_json_schema(const char *text, size_t size, Error *error) {
    json_t *root = json_parse(text, size, &LIMITS, error);
    if (!root) return NULL;
    Conversion c = {
        .root = root, .table_size = 2 * LIMIT_GRAMMAR_RULES, .key = hash_key(), .error = error};
    c.table = calloc(c.table_size, sizeof *c.table);
    bool good = c.table ? convert(&c) : error_set(error, ERROR_MEMORY, "no memory for a schema");
    if (!good) {
        buffer_free(&c.out);
        c.out = (Buffer){0};
    }
    free(c.table);
    free(c.schemas.at);
    arena_free(&c.arena);
    json_decref(root);
    return (char *)c.out.bytes;
}
