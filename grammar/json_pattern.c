// The keyword `pattern` of a JSON schema: a regular expression (ECMA-262) as GBNF, inside the
// quotes of a JSON string.
//
//     ^\d{3}-[a-z"]+$     [0-9]{3} "-" ([a-z] | "\\\"")+
//
// Followed: characters, . [classes] \d \w \s \D \W \S, groups, |, * + ? {m,n}, ^ and $ around the
// whole. A pattern without ^ or $ may stand anywhere in a value; here the value is what it matches
// and nothing more. Also . and [^..] leave out what JSON escapes, \s is a space, \S of ASCII. All
// else is refused: lookahead, backreferences, \b, lazy quantifiers, code points by number.
#include "grammar/json_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct Pattern {
    Conversion *c;
    const char *text, *at, *end; // `end`: without the $
    int depth;
} Pattern;

static bool refuse(const Pattern *p, const char *what) {
    return schema_fail(p->c, "\"pattern\": %s at byte %zu is not supported", what,
                       (size_t)(p->at - p->text));
}

static const char DIGIT[] = "0-9", WORD[] = "a-zA-Z0-9_", SPACE[] = " ";
static const char NO_SPACE[] = "[!#-\\x5B\\x5D-~]";
static const char SPACES[] =
    " \\u00A0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000\\uFEFF";
static const char HIDDEN[] = "\"\\\\\\x7F\\x00-\\x1F"; // what a JSON string escapes, in a class

// What \d, \w or \s stands for, in a class; NULL: c is none of them.
static const char *class_of(char c) {
    return c == 'd' ? DIGIT : c == 'w' ? WORD : c == 's' ? SPACE : NULL;
}

// An escaped character that stands for itself or for a control. False: refused.
static bool escaped(Pattern *p, uint32_t *out) {
    static const char NAMES[] = "nrtfv", MEANINGS[] = "\n\r\t\f\v";
    static const char ITSELF[] = "^$\\.*+?()[]{}|/-\"'#,:;=!@%&~` <>";
    char c = p->at < p->end ? *p->at : '\0';
    const char *name = c ? strchr(NAMES, c) : NULL;
    if (!name && (!c || !strchr(ITSELF, c))) return refuse(p, "the escape");
    *out = name ? (uint32_t)MEANINGS[name - NAMES] : (uint32_t)c;
    p->at++;
    return true;
}

static bool character(Pattern *p, uint32_t *out) {
    if (*p->at == '\\') {
        p->at++;
        return escaped(p, out);
    }
    size_t length = utf8_decode(p->at, (size_t)(p->end - p->at), out);
    p->at += length;
    return length || refuse(p, "what is not UTF-8");
}

// As it stands in a JSON string.
static void put_character(Buffer *out, uint32_t code) {
    char bytes[5] = "", quoted[16];
    bytes[utf8_encode(bytes, code)] = '\0';
    Buffer json = {0};
    buffer_quote(&json, bytes, strlen(bytes));
    if (json.failed) {
        out->failed = true;
    } else {
        snprintf(quoted, sizeof quoted, "%.*s", (int)json.size - 2, (const char *)json.bytes + 1);
        put_literal(out, quoted, strlen(quoted));
    }
    buffer_free(&json);
}

// One of a class of GBNF.
static void put_member(Buffer *out, uint32_t code) {
    char bytes[4];
    if (code == ']' || code == '[' || code == '^' || code == '-' || code < 0x20)
        buffer_print(out, "\\x%02x", (unsigned)code);
    else
        buffer_put(out, bytes, utf8_encode(bytes, code));
}

// The part of a range that needs no escape in JSON, and is no end of one: between these.
static void put_range(Buffer *out, uint32_t low, uint32_t high) {
    static const uint32_t SPECIAL[] = {0x1f, '"', '\\', 0x7f};
    if (low < 0x20) low = 0x20;
    for (size_t i = 0; i < 4; i++) {
        if (low > SPECIAL[i] || high < SPECIAL[i]) continue;
        if (low < SPECIAL[i]) put_range(out, low, SPECIAL[i] - 1);
        low = SPECIAL[i] + 1;
    }
    if (low > high) return;
    put_member(out, low);
    if (low == high) return;
    buffer_print(out, "-");
    put_member(out, high);
}

// ---- classes ----

// What is in a class: members for GBNF, and characters that JSON escapes.
typedef struct Members {
    Buffer plain;
    bool escaped[0x80]; // by their codes
    size_t n_escaped;
} Members;

static bool is_hidden(uint32_t code) {
    return code < 0x20 || code == '"' || code == '\\' || code == 0x7f;
}

static void add_escaped(Members *m, uint32_t code) {
    m->n_escaped += !m->escaped[code];
    m->escaped[code] = true;
}

// Members as they stand; a range takes those characters that need no escape, and " and \ too.
static bool add_member(Pattern *p, Members *m, bool inverted) {
    if (*p->at == '\\' && p->at + 1 < p->end && class_of(p->at[1])) {
        buffer_print(&m->plain, "%s", inverted && p->at[1] == 's' ? SPACES : class_of(p->at[1]));
        p->at += 2;
        return true;
    }
    uint32_t low, high;
    if (!character(p, &low)) return false;
    high = low;
    if (p->at + 1 < p->end && *p->at == '-' && p->at[1] != ']') {
        p->at++;
        if (!character(p, &high)) return false;
    }
    if (high < low) return refuse(p, "a range that falls");
    // Of an inverted class they are left out anyway.
    for (uint32_t code = low; !inverted && code <= high && code <= 0x7f; code++)
        if (is_hidden(code)) add_escaped(m, code);
    put_range(&m->plain, low, high);
    return true;
}

static bool put_class(Pattern *p) {
    Buffer *out = &p->c->out;
    Members m = {0};
    p->at++;
    bool good = true, inverted = p->at < p->end && *p->at == '^';
    p->at += inverted;
    while (good && p->at < p->end && *p->at != ']')
        good = add_member(p, &m, inverted);
    if (good && p->at == p->end) good = refuse(p, "a class without its end");
    if (good && !m.plain.size && !m.n_escaped && !inverted) good = refuse(p, "an empty class");
    p->at++;
    if (m.plain.failed) out->failed = true;
    buffer_print(out, "(");
    if (m.plain.size || inverted)
        buffer_print(out, "[%s%.*s%s]", inverted ? "^" : "", (int)m.plain.size,
                     m.plain.size ? (const char *)m.plain.bytes : "", inverted ? HIDDEN : "");
    bool first = !m.plain.size;
    for (uint32_t code = 0; code < sizeof m.escaped; code++) {
        if (!m.escaped[code]) continue;
        buffer_print(out, first ? "" : " | ");
        first = false;
        put_character(out, code);
    }
    buffer_print(out, ")");
    buffer_free(&m.plain);
    return good;
}

// ---- the expression ----

static bool put_choice(Pattern *p);

static bool put_group(Pattern *p) {
    if (++p->depth > LIMIT_GRAMMAR_DEPTH / 2) return refuse(p, "a group so deep");
    p->at++;
    if (p->at + 1 < p->end && *p->at == '?') {
        if (p->at[1] != ':') return refuse(p, "(?");
        p->at += 2;
    }
    buffer_print(&p->c->out, "(");
    if (!put_choice(p)) return false;
    if (p->at == p->end) return refuse(p, "a group without its end");
    buffer_print(&p->c->out, ")");
    p->at++;
    p->depth--;
    return true;
}

static bool put_escape(Pattern *p) {
    uint32_t code;
    char c = p->at + 1 < p->end ? p->at[1] : '\0';
    const char *set = class_of((char)(c | 0x20));
    if (set && c) {
        bool inverted = !(c & 0x20);
        if (c == 'S')
            buffer_print(&p->c->out, "%s", NO_SPACE);
        else
            buffer_print(&p->c->out, "[%s%s%s]", inverted ? "^" : "", set, inverted ? HIDDEN : "");
        p->at += 2;
        return true;
    }
    if (!character(p, &code)) return false;
    put_character(&p->c->out, code);
    return true;
}

static bool put_atom(Pattern *p) {
    uint32_t code;
    switch (*p->at) {
    case '(': return put_group(p);
    case '[': return put_class(p);
    case '\\': return put_escape(p);
    case '.':
        buffer_print(&p->c->out, "[^\\u2028\\u2029%s]", HIDDEN); // the ends of lines
        p->at++;
        return true;
    case '^':
    case '$':
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
    case ']': return refuse(p, "what stands");
    default: break;
    }
    if (!character(p, &code)) return false;
    put_character(&p->c->out, code);
    return true;
}

// Bytes of {m}, {m,} or {m,n}; 0: it is none.
static size_t bounds_length(const char *text, const char *end) {
    uint64_t number;
    size_t length = 1, digits = decimal_take(text + 1, (size_t)(end - text - 1), &number);
    if (!digits) return 0;
    length += digits;
    if (text + length < end && text[length] == ',') {
        length++;
        length += decimal_take(text + length, (size_t)(end - text) - length, &number);
    }
    return text + length < end && text[length] == '}' ? length + 1 : 0;
}

// A quantifier is the same in GBNF.
static bool put_quantifier(Pattern *p) {
    size_t length = p->at < p->end && strchr("*+?", *p->at);
    if (p->at < p->end && *p->at == '{') {
        length = bounds_length(p->at, p->end);
        if (!length) return refuse(p, "the quantifier");
    }
    buffer_put(&p->c->out, p->at, length);
    p->at += length;
    if (length && p->at < p->end && strchr("*+?{", *p->at)) return refuse(p, "the quantifier");
    buffer_print(&p->c->out, " ");
    return true;
}

static bool put_choice(Pattern *p) {
    bool empty = true;
    for (; p->at < p->end && *p->at != ')'; empty = false) {
        if (*p->at == '|') {
            buffer_print(&p->c->out, empty ? "\"\" | " : "| ");
            p->at++;
            continue;
        }
        if (!put_atom(p) || !put_quantifier(p)) return false;
    }
    if (empty || p->at[-1] == '|') buffer_print(&p->c->out, "\"\"");
    return true;
}

bool put_pattern(Conversion *c, const char *text) {
    Pattern p = {.c = c, .text = text, .at = text, .end = text + strlen(text)};
    bool has_end = p.end > text && p.end[-1] == '$' && (p.end - text < 2 || p.end[-2] != '\\');
    p.end -= has_end;
    p.at += p.at < p.end && *p.at == '^';
    // ^a|b$ anchors a alone and b alone.
    buffer_print(&c->out, "\"\\\"\" (");
    if (!put_choice(&p)) return false;
    if (p.at < p.end) return refuse(&p, "a ) without its (");
    buffer_print(&c->out, ") \"\\\"\"");
    return true;
}
