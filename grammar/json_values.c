// Strings and numbers of a JSON schema as GBNF.
//
//     minimum 7, maximum 123    [7-9] | [1-9] [0-9] | "1" ([0-1] [0-9] | "2" [0-3])
#include "grammar/json_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void put_literal(Buffer *out, const char *bytes, size_t length) {
    buffer_print(out, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            buffer_print(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buffer_print(out, "\\x%02x", c);
        else
            buffer_put(out, &bytes[i], 1);
    }
    buffer_print(out, "\"");
}

void put_json_string(Buffer *out, const char *text) {
    Buffer quoted = {0};
    buffer_quote(&quoted, text, strlen(text));
    if (quoted.failed) out->failed = true;
    put_literal(out, (const char *)quoted.bytes, quoted.size);
    buffer_free(&quoted);
}

bool read_count(Conversion *c, const json_t *schema, const char *keyword, uint32_t *out) {
    const json_t *value = json_object_get(schema, keyword);
    json_int_t number = json_integer_value(value);
    if (!value) return true;
    if (!json_is_integer(value) || number < 0 || number > LIMIT_GRAMMAR_REPEAT)
        return schema_fail(c, "\"%s\": wanted an integer, 0 to %d", keyword, LIMIT_GRAMMAR_REPEAT);
    *out = (uint32_t)number;
    return true;
}

// ---- strings ----

// Of the formats, those that a grammar can spell without a calendar; months have 28 days here.
static const char *format_of(const char *name) {
    static const char DATE[] = "[0-9]{4} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" (\"0\" [1-9] | "
                               "\"1\" [0-9] | \"2\" [0-8])";
    static const char TIME[] = "(\"0\" [0-9] | \"1\" [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" "
                               "[0-5] [0-9] (\".\" [0-9]{1,6})? (\"Z\" | [-+] (\"0\" [0-9] | "
                               "\"1\" [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9])";
    static const char BOTH[] =
        "[0-9]{4} \"-\" (\"0\" [1-9] | \"1\" [0-2]) \"-\" (\"0\" [1-9] | \"1\" [0-9] | \"2\" "
        "[0-8]) "
        "\"T\" (\"0\" [0-9] | \"1\" [0-9] | \"2\" [0-3]) \":\" [0-5] [0-9] \":\" [0-5] [0-9] "
        "(\".\" [0-9]{1,6})? (\"Z\" | [-+] (\"0\" [0-9] | \"1\" [0-9] | \"2\" [0-3]) \":\" [0-5] "
        "[0-9])";
    static const char UUID[] = "hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}";
    static const char *const FORMATS[][2] = {
        {"date", DATE}, {"time", TIME}, {"date-time", BOTH}, {"uuid", UUID}};
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        if (!strcmp(name, FORMATS[i][0])) return FORMATS[i][1];
    return NULL;
}

bool put_string(Conversion *c, const json_t *schema) {
    uint32_t least = 0, most = UNBOUNDED;
    const json_t *format = json_object_get(schema, "format");
    const json_t *pattern = json_object_get(schema, "pattern");
    if (!read_count(c, schema, "minLength", &least) || !read_count(c, schema, "maxLength", &most))
        return false;
    if (most < least)
        return schema_fail(c, "minLength %" PRIu32 " is more than maxLength %" PRIu32, least, most);
    bool bounded = least || most != UNBOUNDED;
    if (pattern) {
        if (!json_is_string(pattern)) return schema_fail(c, "\"pattern\": wanted a string");
        if (bounded || format)
            return schema_fail(c, "\"pattern\" beside a length or a format is not supported");
        return put_pattern(c, json_string_value(pattern));
    }
    if (format) {
        const char *name = json_string_value(format), *form = name ? format_of(name) : NULL;
        if (!form)
            return schema_fail(c, "\"format\": \"%.40s\" is not supported", name ? name : "");
        if (bounded) return schema_fail(c, "\"format\" beside a length is not supported");
        buffer_print(&c->out, "\"\\\"\" %s \"\\\"\"", form);
    } else if (!bounded) {
        buffer_print(&c->out, "string");
    } else if (most == UNBOUNDED) {
        buffer_print(&c->out, "\"\\\"\" char{%" PRIu32 ",} \"\\\"\"", least);
    } else {
        buffer_print(&c->out, "\"\\\"\" char{%" PRIu32 ",%" PRIu32 "} \"\\\"\"", least, most);
    }
    return true;
}

// ---- integers ----

enum { MOST_DIGITS = 15 }; // so that doubles hold them exactly
static const int64_t LARGEST = 999999999999999;

static void put_digits(Buffer *out, char low, char high) {
    if (low == high)
        buffer_print(out, "\"%c\" ", low);
    else
        buffer_print(out, "[%c-%c] ", low, high);
}

static void put_any_digits(Buffer *out, size_t count) {
    if (count) buffer_print(out, "[0-9]{%zu} ", count);
}

// Numbers of as many digits as `low`, not below it.
static void put_from(Buffer *out, const char *low) {
    size_t rest = strlen(low);
    if (strspn(low, "0") == rest) {
        put_any_digits(out, rest);
        return;
    }
    buffer_print(out, "(");
    put_digits(out, *low, *low);
    put_from(out, low + 1);
    if (*low < '9') {
        buffer_print(out, "| ");
        put_digits(out, (char)(*low + 1), '9');
        put_any_digits(out, rest - 1);
    }
    buffer_print(out, ") ");
}

// .. not above `high`.
static void put_upto(Buffer *out, const char *high) {
    size_t rest = strlen(high);
    if (strspn(high, "9") == rest) {
        put_any_digits(out, rest);
        return;
    }
    buffer_print(out, "(");
    put_digits(out, *high, *high);
    put_upto(out, high + 1);
    if (*high > '0') {
        buffer_print(out, "| ");
        put_digits(out, '0', (char)(*high - 1));
        put_any_digits(out, rest - 1);
    }
    buffer_print(out, ") ");
}

// Numbers from low to high, of as many digits each.
static void put_between(Buffer *out, const char *low, const char *high) {
    for (; *low && *low == *high; low++, high++)
        put_digits(out, *low, *low);
    if (!*low) return;
    buffer_print(out, "(");
    put_digits(out, *low, *low);
    put_from(out, low + 1);
    if (*high - *low > 1) {
        buffer_print(out, "| ");
        put_digits(out, (char)(*low + 1), (char)(*high - 1));
        put_any_digits(out, strlen(low) - 1);
    }
    buffer_print(out, "| ");
    put_digits(out, *high, *high);
    put_upto(out, high + 1);
    buffer_print(out, ") ");
}

// 0 <= low <= high: a choice for each number of digits.
static void put_natural(Buffer *out, int64_t low, int64_t high) {
    char from[24], upto[24];
    int64_t power = 10;
    for (bool first = true; low <= high; first = false, low = power) {
        while (power <= low)
            power *= 10;
        snprintf(from, sizeof from, "%" PRId64, low);
        snprintf(upto, sizeof upto, "%" PRId64, high < power ? high : power - 1);
        if (!first) buffer_print(out, "| ");
        put_between(out, from, upto);
    }
}

// A bound as an integer; `step` for the exclusive one. Bounds that are no integers are moved
// inside.
static bool read_bound(Conversion *c, const json_t *schema, const char *keyword, int step,
                       int64_t *bound) {
    const json_t *value = json_object_get(schema, keyword);
    double number = json_number_value(value);
    bool is_lower = step > 0 || !strcmp(keyword, "minimum");
    if (!value) return true;
    if (!json_is_number(value)) return schema_fail(c, "\"%s\": wanted a number", keyword);
    double whole = is_lower ? ceil(number) : floor(number);
    if (whole == number) whole += step;
    if (whole > (double)LARGEST) whole = (double)LARGEST + 1;
    if (whole < (double)-LARGEST) whole = (double)-LARGEST - 1;
    int64_t found = (int64_t)whole;
    if (is_lower ? found > *bound : found < *bound) *bound = found;
    return true;
}

// OpenAPI's formats of integers; those with more digits than integers have here bound only the
// sign.
static void read_width(const json_t *schema, int64_t *low, int64_t *high) {
    static const struct {
        const char *name;
        int64_t low, high;
    } WIDTHS[] = {{"int8", INT8_MIN, INT8_MAX},    {"uint8", 0, UINT8_MAX},
                  {"int16", INT16_MIN, INT16_MAX}, {"uint16", 0, UINT16_MAX},
                  {"int32", INT32_MIN, INT32_MAX}, {"uint32", 0, UINT32_MAX},
                  {"uint64", 0, LARGEST},          {"uint", 0, LARGEST}};
    const char *format = json_string_value(json_object_get(schema, "format"));
    for (size_t i = 0; format && i < sizeof WIDTHS / sizeof *WIDTHS; i++) {
        if (strcmp(format, WIDTHS[i].name) != 0) continue;
        *low = WIDTHS[i].low;
        *high = WIDTHS[i].high;
    }
}

bool put_integer(Conversion *c, const json_t *schema) {
    int64_t low = -LARGEST, high = LARGEST;
    read_width(schema, &low, &high);
    if (!read_bound(c, schema, "minimum", 0, &low) ||
        !read_bound(c, schema, "exclusiveMinimum", 1, &low) ||
        !read_bound(c, schema, "maximum", 0, &high) ||
        !read_bound(c, schema, "exclusiveMaximum", -1, &high))
        return false;
    if (low > high)
        return schema_fail(c, "no integer of up to %d digits is in its bounds", MOST_DIGITS);
    if (low == -LARGEST && high == LARGEST) {
        buffer_print(&c->out, "integer");
        return true;
    }
    if (low < 0) {
        buffer_print(&c->out, "\"-\" (");
        put_natural(&c->out, high < 0 ? -high : 1, -low);
        buffer_print(&c->out, high < 0 ? ")" : ") | ");
    }
    if (high >= 0) put_natural(&c->out, low < 0 ? 0 : low, high);
    return true;
}

// A bound of numbers with a fraction would need a digit's choice to depend on all before it.
bool put_number(Conversion *c, const json_t *schema) {
    static const char *const BOUNDS[] = {"maximum", "exclusiveMinimum", "exclusiveMaximum"};
    const json_t *least = json_object_get(schema, "minimum");
    for (size_t i = 0; i < 3; i++)
        if (json_object_get(schema, BOUNDS[i]))
            return schema_fail(c, "\"%s\" is supported for integers alone", BOUNDS[i]);
    if (least && (!json_is_number(least) || json_number_value(least) != 0))
        return schema_fail(c, "\"minimum\" other than 0 is supported for integers alone");
    buffer_print(&c->out, least ? "positive" : "number");
    return true;
}
