// GBNF: text -> tree. The format: https://github.com/ggml-org/llama.cpp, grammars/README.md.
//
//     rules       name ::= choice, up to the end of the line; a line that begins with | goes on
//     choice      sequence | sequence ..      a line may end behind |
//     sequence    item item ..                in a group over any number of lines
//     item        "text" [a-z] [^a-z] . name (choice), behind it * + ? {m} {m,} {m,n}
//
// Escapes in texts and classes: \n \r \t \\ \" \- \[ \] \xHH \uHHHH \UHHHHHHHH, a code point each.
#include "base/hash.h"
#include "grammar/internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Parser {
    Parsed *parsed;
    const char *at, *end;
    size_t line;
    int depth;       // of groups
    uint32_t *table; // (table_size) rule + 1 by its name, open addressing
    size_t table_size;
    HashKey key;
    Error *error;
} Parser;

bool array_room(void *at, size_t *capacity, size_t count, size_t size, Error *error) {
    if (count < *capacity) return true;
    size_t wanted = *capacity ? 2 * *capacity : 16;
    void *old;
    memcpy(&old, at, sizeof old); // a void ** would be another type than the array's
    void *grown = realloc(old, wanted * size);
    if (!grown) return error_set(error, ERROR_MEMORY, "no memory for a grammar");
    memcpy(at, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

void parsed_free(Parsed *p) {
    free(p->exprs.at);
    free(p->rules.at);
    free(p->ranges.at);
    free(p->bytes.at);
    *p = (Parsed){0};
}

static bool fail(Parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Parser *p, const char *format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char shown[4 * sizeof text];
    escape_bytes(shown, sizeof shown, text,
                 length < (int)sizeof text ? (size_t)length : sizeof text - 1);
    return error_set(p->error, ERROR_FILE, "line %zu: %s", p->line, shown);
}

static bool add_expr(Parser *p, Expr expr, uint32_t *index) {
    if (!ARRAY_ROOM(&p->parsed->exprs, p->error)) return false;
    *index = (uint32_t)p->parsed->exprs.count;
    p->parsed->exprs.at[p->parsed->exprs.count++] = expr;
    return true;
}

// ---- characters ----

static bool more(const Parser *p) {
    return p->at < p->end;
}

static bool sees(const Parser *p, char c) {
    return more(p) && *p->at == c;
}

// White space and comments; newlines too where they do not end anything.
static void skip_space(Parser *p, bool newlines) {
    for (; more(p); p->at++) {
        char c = *p->at;
        if (c == '#')
            while (p->at + 1 < p->end && p->at[1] != '\n')
                p->at++;
        else if (c == '\n' && newlines)
            p->line++;
        else if (c != ' ' && c != '\t' && c != '\r')
            return;
    }
}

static bool hex_digits(Parser *p, int count, uint32_t *out) {
    uint32_t value = 0;
    for (int i = 0; i < count; i++, p->at++) {
        char c = more(p) ? *p->at : '\0', low = (char)(c | 0x20);
        bool is_digit = c >= '0' && c <= '9', is_letter = low >= 'a' && low <= 'f';
        if (!is_digit && !is_letter) return fail(p, "an escape wants %d hexadecimal digits", count);
        value = value << 4 | (uint32_t)(is_digit ? c - '0' : low - 'a' + 10);
    }
    *out = value;
    if (value <= 0x10ffff && (value < 0xd800 || value > 0xdfff)) return true;
    return fail(p, "U+%04" PRIX32 " is no character", value);
}

static bool escape(Parser *p, uint32_t *out) {
    char c = more(p) ? *p->at++ : '\0';
    switch (c) {
    case 'n': *out = '\n'; return true;
    case 'r': *out = '\r'; return true;
    case 't': *out = '\t'; return true;
    case 'x': return hex_digits(p, 2, out);
    case 'u': return hex_digits(p, 4, out);
    case 'U': return hex_digits(p, 8, out);
    case '\\':
    case '"':
    case '-':
    case '[':
    case ']': *out = (uint32_t)c; return true;
    default: break;
    }
    return fail(p, "unknown escape \\%c", c);
}

// One character of a text or a class.
static bool character(Parser *p, uint32_t *out) {
    if (sees(p, '\\')) {
        p->at++;
        return escape(p, out);
    }
    size_t length = utf8_decode(p->at, (size_t)(p->end - p->at), out);
    if (!length) return fail(p, "not UTF-8");
    if (*out == '\n') p->line++;
    p->at += length;
    return true;
}

// ---- items ----

static bool literal(Parser *p, uint32_t *index) {
    Parsed *parsed = p->parsed;
    Expr expr = {.kind = EXPR_LITERAL, .begin = (uint32_t)parsed->bytes.count, .child = NONE};
    size_t line = p->line;
    for (p->at++; !sees(p, '"');) {
        uint32_t c;
        char bytes[4];
        if (!more(p)) {
            p->line = line;
            return fail(p, "a text without its closing \"");
        }
        if (!character(p, &c)) return false;
        size_t length = utf8_encode(bytes, c);
        for (size_t i = 0; i < length; i++) {
            if (!ARRAY_ROOM(&parsed->bytes, p->error)) return false;
            parsed->bytes.at[parsed->bytes.count++] = bytes[i];
        }
    }
    p->at++;
    expr.count = (uint32_t)parsed->bytes.count - expr.begin;
    if (!expr.count) expr.kind = EXPR_EMPTY;
    return add_expr(p, expr, index);
}

static bool add_range(Parser *p, uint32_t low, uint32_t high) {
    if (!ARRAY_ROOM(&p->parsed->ranges, p->error)) return false;
    p->parsed->ranges.at[p->parsed->ranges.count++] = (Range){low, high};
    return true;
}

static int compare_ranges(const void *a, const void *b) {
    const Range *x = a, *y = b;
    return x->low != y->low ? (x->low < y->low ? -1 : 1)
                            : (x->high > y->high) - (x->high < y->high);
}

// Sorts the ranges from `begin` on and joins those that touch.
static void join_ranges(Parsed *parsed, size_t begin) {
    Range *r = parsed->ranges.at + begin;
    size_t count = parsed->ranges.count - begin, kept = 0;
    if (!count) return;
    qsort(r, count, sizeof *r, compare_ranges);
    for (size_t i = 1; i < count; i++) {
        if (r[i].low > r[kept].high + 1)
            r[++kept] = r[i];
        else if (r[i].high > r[kept].high)
            r[kept].high = r[i].high;
    }
    parsed->ranges.count = begin + kept + 1;
}

// In place of the joined ranges from `begin` on: all other characters.
static bool invert_ranges(Parser *p, size_t begin) {
    Parsed *parsed = p->parsed;
    size_t count = parsed->ranges.count - begin;
    uint32_t from = 0;
    for (size_t i = 0; i < count; i++) {
        Range taken = parsed->ranges.at[begin + i];
        if (taken.low > from && !add_range(p, from, taken.low - 1)) return false;
        from = taken.high + 1;
    }
    if (from <= 0x10ffff && !add_range(p, from, 0x10ffff)) return false;
    parsed->ranges.count -= count;
    memmove(parsed->ranges.at + begin, parsed->ranges.at + begin + count,
            (parsed->ranges.count - begin) * sizeof(Range));
    return true;
}

static bool class_of_characters(Parser *p, uint32_t *index) {
    Parsed *parsed = p->parsed;
    size_t begin = parsed->ranges.count;
    p->at++;
    bool inverted = sees(p, '^');
    p->at += inverted;
    while (!sees(p, ']')) {
        uint32_t low, high;
        if (!more(p)) return fail(p, "a class without its closing ]");
        if (!character(p, &low)) return false;
        high = low;
        bool is_range = sees(p, '-') && p->at + 1 < p->end && p->at[1] != ']';
        p->at += is_range;
        if (is_range && !character(p, &high)) return false;
        if (high < low)
            return fail(p, "a range from U+%04" PRIX32 " down to U+%04" PRIX32, low, high);
        if (!add_range(p, low, high)) return false;
    }
    p->at++;
    if (parsed->ranges.count == begin) return fail(p, "an empty class");
    join_ranges(parsed, begin);
    if (inverted && !invert_ranges(p, begin)) return false;
    return add_expr(p,
                    (Expr){.kind = EXPR_CHARACTERS,
                           .begin = (uint32_t)begin,
                           .count = (uint32_t)(parsed->ranges.count - begin),
                           .child = NONE,
                           .next = NONE},
                    index);
}

static bool any_character(Parser *p, uint32_t *index) {
    uint32_t begin = (uint32_t)p->parsed->ranges.count;
    p->at++;
    return add_range(p, 0, 0x10ffff) && add_expr(p,
                                                 (Expr){.kind = EXPR_CHARACTERS,
                                                        .begin = begin,
                                                        .count = 1,
                                                        .child = NONE,
                                                        .next = NONE},
                                                 index);
}

// ---- names ----

static bool is_name_byte(char c) {
    char low = (char)(c | 0x20);
    return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static TextSpan take_name(Parser *p) {
    TextSpan name = {p->at, 0};
    while (more(p) && is_name_byte(*p->at))
        p->at++;
    name.length = (size_t)(p->at - name.text);
    return name;
}

// The rule of this name, a new one where it is the first time.
static bool find_rule(Parser *p, TextSpan name, uint32_t *rule) {
    Parsed *parsed = p->parsed;
    size_t at = (size_t)keyed_hash(&p->key, name.text, name.length) & (p->table_size - 1);
    for (; p->table[at]; at = (at + 1) & (p->table_size - 1)) {
        *rule = p->table[at] - 1;
        if (!span_compare(parsed->rules.at[*rule].name, name)) return true;
    }
    if (parsed->rules.count == LIMIT_GRAMMAR_RULES)
        return fail(p, "more than %d rules", LIMIT_GRAMMAR_RULES);
    if (!ARRAY_ROOM(&parsed->rules, p->error)) return false;
    *rule = (uint32_t)parsed->rules.count++;
    parsed->rules.at[*rule] = (ParsedRule){.name = name, .line = p->line, .expr = NONE};
    p->table[at] = *rule + 1;
    return true;
}

// ---- sequences ----

static bool choice(Parser *p, bool in_group, uint32_t *index);

static bool group(Parser *p, uint32_t *index) {
    size_t line = p->line;
    if (++p->depth > LIMIT_GRAMMAR_DEPTH)
        return fail(p, "groups nested deeper than %d", LIMIT_GRAMMAR_DEPTH);
    p->at++;
    skip_space(p, true);
    if (!choice(p, true, index)) return false;
    if (!sees(p, ')')) {
        if (more(p)) return fail(p, "wanted ), got '%c'", *p->at);
        p->line = line;
        return fail(p, "a group without its closing )");
    }
    p->at++;
    p->depth--;
    return true;
}

static bool item(Parser *p, uint32_t *index) {
    switch (*p->at) {
    case '"': return literal(p, index);
    case '[': return class_of_characters(p, index);
    case '.': return any_character(p, index);
    case '(': return group(p, index);
    case '<':
    case '!': return fail(p, "tokens of the vocabulary (<think>, <[1000]>) are not supported");
    default: break;
    }
    uint32_t rule;
    TextSpan name = take_name(p);
    return find_rule(p, name, &rule) &&
           add_expr(p, (Expr){.kind = EXPR_RULE, .rule = rule, .child = NONE, .next = NONE}, index);
}

static bool number(Parser *p, uint32_t *out) {
    uint64_t value = 0;
    size_t digits = decimal_take(p->at, (size_t)(p->end - p->at), &value);
    if (!digits) return fail(p, "a repetition is {m}, {m,} or {m,n}");
    if (value > LIMIT_GRAMMAR_REPEAT)
        return fail(p, "%" PRIu64 " repetitions (at most %d)", value, LIMIT_GRAMMAR_REPEAT);
    p->at += digits;
    *out = (uint32_t)value;
    return true;
}

// What is between braces.
static bool bounds(Parser *p, uint32_t *least, uint32_t *most) {
    p->at++;
    skip_space(p, false);
    if (!number(p, least)) return false;
    *most = *least;
    skip_space(p, false);
    if (sees(p, ',')) {
        p->at++;
        skip_space(p, false);
        *most = UNBOUNDED;
        if (!sees(p, '}') && !number(p, most)) return false;
        skip_space(p, false);
    }
    if (!sees(p, '}')) return fail(p, "a repetition is {m}, {m,} or {m,n}");
    p->at++;
    if (*most >= *least) return true;
    return fail(p, "at least %" PRIu32 " and at most %" PRIu32 " repetitions", *least, *most);
}

// Wraps the item where a repetition follows it.
static bool repetition(Parser *p, uint32_t *index, bool *is_one) {
    uint32_t least = 0, most = UNBOUNDED;
    *is_one = more(p) && *p->at && strchr("*+?{", *p->at);
    if (!*is_one) return true;
    char sign = *p->at;
    if (sign == '{' && !bounds(p, &least, &most)) return false;
    if (sign == '+') least = 1;
    if (sign == '?') most = 1;
    p->at += sign != '{';
    if (p->parsed->exprs.at[*index].kind == EXPR_REPEAT && ++p->depth > LIMIT_GRAMMAR_DEPTH)
        return fail(p, "repetitions nested deeper than %d", LIMIT_GRAMMAR_DEPTH);
    return add_expr(
        p, (Expr){.kind = EXPR_REPEAT, .child = *index, .next = NONE, .least = least, .most = most},
        index);
}

static bool begins_item(const Parser *p) {
    return more(p) && *p->at && (is_name_byte(*p->at) || strchr("\"[.(<!", *p->at));
}

// Appends the part to the list of `parent`, whose last one is *last.
static void append(Parser *p, uint32_t parent, uint32_t *last, uint32_t part) {
    Expr *exprs = p->parsed->exprs.at;
    exprs[part].next = NONE;
    if (*last == NONE)
        exprs[parent].child = part;
    else
        exprs[*last].next = part;
    *last = part;
}

static bool sequence(Parser *p, bool in_group, uint32_t *index) {
    uint32_t last = NONE, part;
    int depth = p->depth;
    if (!add_expr(p, (Expr){.kind = EXPR_SEQUENCE, .child = NONE, .next = NONE}, index))
        return false;
    while (begins_item(p)) {
        if (!item(p, &part)) return false;
        // Not across a line's end: what follows a rule there is another one.
        for (bool repeats = true; repeats;) {
            skip_space(p, in_group);
            if (!repetition(p, &part, &repeats)) return false;
        }
        p->depth = depth;
        append(p, *index, &last, part);
    }
    return true;
}

// Also where a later line begins with it, as no rule does.
static bool sees_alternative(Parser *p) {
    Parser here = *p;
    skip_space(p, true);
    if (sees(p, '|')) return true;
    *p = here;
    return false;
}

static bool choice(Parser *p, bool in_group, uint32_t *index) {
    uint32_t last = NONE, part;
    if (!add_expr(p, (Expr){.kind = EXPR_CHOICE, .child = NONE, .next = NONE}, index)) return false;
    for (;;) {
        if (!sequence(p, in_group, &part)) return false;
        append(p, *index, &last, part);
        if (!sees_alternative(p)) return true;
        p->at++;
        skip_space(p, true);
    }
}

// ---- rules ----

static bool rule_line(Parser *p) {
    uint32_t rule, expr;
    TextSpan name = take_name(p);
    char shown[60];
    if (!name.length) return fail(p, "wanted the name of a rule, got '%c'", *p->at);
    escape_bytes(shown, sizeof shown, name.text, name.length);
    skip_space(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3) != 0)
        return fail(p, "wanted ::= behind \"%s\"", shown);
    p->at += 3;
    if (!find_rule(p, name, &rule)) return false;
    p->parsed->rules.at[rule].line = p->line;
    if (p->parsed->rules.at[rule].expr != NONE)
        return fail(p, "rule \"%s\" is defined twice", shown);
    skip_space(p, true);
    if (!choice(p, false, &expr)) return false;
    p->parsed->rules.at[rule].expr = expr;
    if (more(p) && *p->at != '\n') return fail(p, "wanted the end of the line, got '%c'", *p->at);
    return true;
}

static bool check_rules(Parser *p) {
    Parsed *parsed = p->parsed;
    for (size_t i = 0; i < parsed->rules.count; i++) {
        const ParsedRule *rule = &parsed->rules.at[i];
        char shown[60];
        p->line = rule->line;
        if (rule->expr == NONE)
            return fail(p, "rule \"%s\" is not defined",
                        escape_bytes(shown, sizeof shown, rule->name.text, rule->name.length));
    }
    parsed->root = NONE;
    for (size_t i = 0; i < parsed->rules.count; i++)
        if (span_equals(parsed->rules.at[i].name, "root")) parsed->root = (uint32_t)i;
    return parsed->root != NONE ||
           error_set(p->error, ERROR_FILE, "a grammar wants a rule \"root\"");
}

bool gbnf_parse(Parsed *parsed, const char *text, size_t size, Error *error) {
    Parser p = {.parsed = parsed,
                .at = text,
                .end = text + size,
                .line = 1,
                .table_size = 4 * LIMIT_GRAMMAR_RULES,
                .key = hash_key(),
                .error = error};
    if (size > LIMIT_GRAMMAR_BYTES)
        return error_set(error, ERROR_FILE, "a grammar of %zu bytes (at most %d)", size,
                         LIMIT_GRAMMAR_BYTES);
    p.table = calloc(p.table_size, sizeof *p.table);
    if (!p.table) return error_set(error, ERROR_MEMORY, "no memory for a grammar");
    bool good = true;
    for (skip_space(&p, true); good && more(&p); skip_space(&p, true))
        good = rule_line(&p);
    good = good && check_rules(&p);
    free(p.table);
    return good;
}
