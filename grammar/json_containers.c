// Arrays and objects of a JSON schema as GBNF.
//
//     {"a": required, "b", "c": required}     "{" ws a (ws "," ws b)? ws "," ws c ws "}"
//     {"a", "b": required}                    "{" ws (a ws "," ws)? b ws "}"
//     {"a", "b"}                              "{" ws ((a (ws "," ws b)? | b) ws)? "}"
#include "grammar/json_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char COMMA[] = "ws \",\" ws ";

// ---- arrays ----

typedef struct ArrayShape {
    const json_t *prefix; // NULL: none
    size_t n_prefix;
    const json_t *items;  // NULL: any value
    uint32_t least, most; // of the items behind the prefix
} ArrayShape;

// Items behind a prefix that the schema says nothing about come only where minItems wants them.
static bool read_array(Conversion *c, const json_t *schema, ArrayShape *a) {
    uint32_t least = 0, most = UNBOUNDED;
    *a = (ArrayShape){.prefix = json_object_get(schema, "prefixItems"),
                      .items = json_object_get(schema, "items")};
    if (!read_count(c, schema, "minItems", &least) || !read_count(c, schema, "maxItems", &most))
        return false;
    if (most < least)
        return schema_fail(c, "minItems %" PRIu32 " is more than maxItems %" PRIu32, least, most);
    if (a->prefix && !json_is_array(a->prefix))
        return schema_fail(c, "\"prefixItems\": wanted a list of schemas");
    if (json_is_array(a->items))
        return schema_fail(c, "\"items\": wanted a schema (a list of them is \"prefixItems\")");
    a->n_prefix = json_array_size(a->prefix);
    if (a->n_prefix > most) a->n_prefix = most;
    uint32_t prefix = (uint32_t)a->n_prefix;
    a->least = least > prefix ? least - prefix : 0;
    a->most = most == UNBOUNDED ? UNBOUNDED : most - prefix;
    if (json_is_false(a->items) || (!a->items && prefix)) a->most = a->least;
    if (json_is_false(a->items) && a->least)
        return schema_fail(c, "minItems %" PRIu32 ", but \"items\" is false", least);
    return true;
}

static bool put_item(Conversion *c, const ArrayShape *a) {
    if (a->items) return put_rule_of(c, a->items, "items", NULL);
    buffer_print(&c->out, "value");
    return true;
}

// The items, at least one of them: item (, item){least - 1, most - 1}
static bool put_items(Conversion *c, const ArrayShape *a) {
    uint32_t least = a->least ? a->least - 1 : 0;
    if (!put_item(c, a)) return false;
    buffer_print(&c->out, " (%s", COMMA);
    if (!put_item(c, a)) return false;
    buffer_print(&c->out, "){%" PRIu32 ",", least);
    if (a->most != UNBOUNDED) buffer_print(&c->out, "%" PRIu32, a->most - 1);
    buffer_print(&c->out, "} ");
    return true;
}

bool put_array(Conversion *c, const json_t *schema) {
    ArrayShape a;
    if (!read_array(c, schema, &a)) return false;
    buffer_print(&c->out, "\"[\" ws ");
    for (size_t i = 0; i < a.n_prefix; i++) {
        if (i) buffer_print(&c->out, "%s", COMMA);
        if (!put_rule_at(c, json_array_get(a.prefix, i), "prefixItems", i)) return false;
        buffer_print(&c->out, " ");
    }
    if (a.most) {
        const char *comma = a.n_prefix ? COMMA : "";
        buffer_print(&c->out, "(%s", comma);
        if (!put_items(c, &a)) return false;
        buffer_print(&c->out, "%s", a.least ? ") " : ")? ");
    }
    buffer_print(&c->out, "ws \"]\"");
    return true;
}

// ---- objects ----

typedef struct Property {
    const char *name;
    const json_t *schema; // NULL: any value
    bool required;
} Property;

typedef ARRAY(Property) Properties;

// An index of the names in the list `required`, whose entries the caller frees. Of a name that
// stands twice one place is found.
static bool index_required(Conversion *c, const json_t *required, NameIndex *index) {
    size_t count = json_array_size(required);
    NameEntry *entries = calloc(count + 1, sizeof *entries);
    Error twice = {0};
    *index = (NameIndex){0};
    if (!entries) return error_set(c->error, ERROR_MEMORY, "no memory for a grammar");
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(required, i));
        if (!name) {
            free(entries);
            return schema_fail(c, "\"required\": wanted a list of names");
        }
        entries[i] = (NameEntry){{name, strlen(name)}, (uint32_t)i};
    }
    (void)names_index(index, entries, count, "name", &twice);
    return true;
}

static bool add_property(Conversion *c, Properties *list, Property property) {
    if (!ARRAY_ROOM(list, c->error)) return false;
    list->at[list->count++] = property;
    return true;
}

// Those of `properties` in their order, then what is required besides.
static bool read_properties(Conversion *c, const json_t *schema, Properties *list) {
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *name;
    json_t *value;
    NameIndex index;
    if (properties && !json_is_object(properties))
        return schema_fail(c, "\"properties\": wanted an object");
    if (required && !json_is_array(required))
        return schema_fail(c, "\"required\": wanted a list of names");
    if (!index_required(c, required, &index)) return false;
    bool good = true;
    json_object_foreach((json_t *)(uintptr_t)properties, name, value) {
        good =
            good && add_property(c, list, (Property){name, value, names_find(&index, name) >= 0});
    }
    for (size_t i = 0; good && i < json_array_size(required); i++) {
        name = json_string_value(json_array_get(required, i));
        if (json_object_get(properties, name) || names_find(&index, name) != (int64_t)i) continue;
        good = json_is_false(others)
                   ? schema_fail(c, "\"%.40s\" is required, and no property", name)
                   : add_property(c, list, (Property){name, others, true});
    }
    free(index.entries);
    return good;
}

static bool put_property(Conversion *c, const Property *p) {
    put_json_string(&c->out, p->name);
    buffer_print(&c->out, " ws \":\" ws ");
    if (!p->schema) {
        buffer_print(&c->out, "value");
        return true;
    }
    return put_rule_of(c, p->schema, "properties", p->name);
}

// An optional one in front of the first that is required has its comma behind it, others before.
static bool put_around(Conversion *c, const Properties *list, size_t first) {
    for (size_t i = 0; i < list->count; i++) {
        const Property *p = &list->at[i];
        buffer_print(&c->out, i == first ? "" : i > first && p->required ? COMMA : "(");
        if (i > first && !p->required) buffer_print(&c->out, "%s", COMMA);
        if (!put_property(c, p)) return false;
        if (i < first) buffer_print(&c->out, " %s", COMMA);
        buffer_print(&c->out, p->required ? " " : ")? ");
    }
    buffer_print(&c->out, "ws \"}\"");
    return true;
}

// None is required: any may be the first. rN-pI is the property I, rN-qI what may follow behind it.
static bool put_optional(Conversion *c, const Properties *list) {
    size_t n = c->written;
    buffer_print(&c->out, "\"{\" ws ((");
    for (size_t i = 0; i < list->count; i++)
        buffer_print(&c->out, "%sr%zu-p%zu r%zu-q%zu", i ? " | " : "", n, i, n, i);
    buffer_print(&c->out, ") ws)? \"}\"");
    for (size_t i = 0; i < list->count; i++) {
        buffer_print(&c->out, "\nr%zu-p%zu ::= ", n, i);
        if (!put_property(c, &list->at[i])) return false;
        buffer_print(&c->out, "\nr%zu-q%zu ::= ", n, i);
        if (i + 1 < list->count)
            buffer_print(&c->out, "(%sr%zu-p%zu)? r%zu-q%zu", COMMA, n, i + 1, n, i + 1);
        else
            buffer_print(&c->out, "\"\"");
    }
    return true;
}

bool put_object(Conversion *c, const json_t *schema) {
    Properties list = {0};
    const json_t *others = json_object_get(schema, "additionalProperties");
    bool good = read_properties(c, schema, &list);
    size_t first = 0;
    while (first < list.count && !list.at[first].required)
        first++;
    if (good && !list.count && json_is_false(others)) {
        buffer_print(&c->out, "\"{\" ws \"}\"");
    } else if (good && !list.count && json_is_object(others)) {
        buffer_print(&c->out, "\"{\" ws (");
        for (int i = 0; good && i < 2; i++) {
            buffer_print(&c->out, "%s%s", i ? " (" : "", i ? COMMA : "");
            buffer_print(&c->out, "string ws \":\" ws ");
            good = put_rule_of(c, others, "additionalProperties", NULL);
        }
        buffer_print(&c->out, ")* ws)? \"}\"");
    } else if (good && !list.count) {
        buffer_print(&c->out, "object");
    } else if (good && first < list.count) {
        buffer_print(&c->out, "\"{\" ws ");
        good = put_around(c, &list, first);
    } else if (good) {
        good = put_optional(c, &list);
    }
    free(list.at);
    return good;
}
