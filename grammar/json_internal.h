// Parts of the conversion of JSON schemas: json_schema.c follows the schemas, json_values.c and
// json_containers.c write what the keywords of one type mean. Nothing outside grammar/ includes
// this file.
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/json.h"
#include "grammar/internal.h"

// A schema and the rule that it becomes, "r0", "r1", ..
typedef struct Subschema {
    const json_t *schema;
    const char *path; // "#/properties/age"
} Subschema;

typedef struct Conversion {
    const json_t *root;
    Buffer out;               // rules of GBNF
    ARRAY(Subschema) schemas; // in the order of their rules
    size_t written;           // of them
    uint32_t *table;          // (table_size) rule + 1 by its schema, open addressing
    size_t table_size;
    HashKey key;
    Arena arena;
    size_t compared;  // steps that telling the schemas of oneOf apart has taken
    const char *path; // of the schema that is being written
    Error *error;
} Conversion;

// False, with the path of the schema: exit code 3.
bool schema_fail(Conversion *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Appends the name of the schema's rule, which is written later. `name` and `index` say where it is
// in the one at hand: "properties", "age"; NULL: nothing.
bool put_rule_of(Conversion *c, const json_t *schema, const char *name, const char *index);
bool put_rule_at(Conversion *c, const json_t *schema, const char *name, size_t index);

// The schema itself, or what its $ref leads to; NULL: nowhere. *steps: how many there were, or
// more.
const json_t *schema_behind(const Conversion *c, const json_t *schema, size_t *steps);

// Appends bytes as a text of GBNF; a JSON string in one.
void put_literal(Buffer *out, const char *bytes, size_t length);
void put_json_string(Buffer *out, const char *text);

// A non-negative integer that is there, and below the limit of repetitions; else *out as it is.
bool read_count(Conversion *c, const json_t *schema, const char *keyword, uint32_t *out);

// Each appends an expression.
bool put_string(Conversion *c, const json_t *schema);
bool put_pattern(Conversion *c, const char *pattern); // json_pattern.c
bool put_integer(Conversion *c, const json_t *schema);
bool put_number(Conversion *c, const json_t *schema);
bool put_array(Conversion *c, const json_t *schema);
bool put_object(Conversion *c, const json_t *schema);

// json_one_of.c: no value is accepted by two of the schemas. False, with the first two that may
// have one in common, also where it is not seen that they have none.
bool schemas_exclude(Conversion *c, const json_t *list);
