// Attention patterns: what a layer sees, patterns by name, and how many keys they keep. Which pair
// a pattern keeps is defined once, by key_visible in kernels/key_pattern.h; the backends skip the
// rest. Queries p = 0 .. 5 from top to bottom, keys t = 0 .. 5 from left to right:
//
//   causal     window:2   local:2    strided:3  global:1   block:2    window:2+global:1
//   x.....     x.....     x.....     x.....     x.....     x.....     x.....
//   xx....     xx....     xx....     xx....     xx....     xx....     xx....
//   xxx...     .xx...     .xx...     x.x...     x.x...     xxx...     xxx...
//   xxxx..     ..xx..     ..xx..     x..x..     x..x..     xxxx..     x.xx..
//   xxxxx.     ...xx.     ...xx.     x..xx.     x...x.     ..xxx.     x..xx.
//   xxxxxx     ....xx     ....xx     x..x.x     x....x     ..xxxx     x...xx
//
// A window W keeps the last W keys of each query; models have those, the rest are experiments.
#include "base/text.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

// The narrower of two windows; 0 is none.
static int narrower(int a, int b) {
    return !a || (b && b < a) ? b : a;
}

KeyPattern attention_pattern_within(const KeyPattern *pattern, int window) {
    KeyPattern within = *pattern;
    within.window = narrower(within.window, window);
    return within;
}

KeyPattern model_pattern(const Model *m, int layer) {
    return attention_pattern_within(&m->pattern, m->config.layers[layer].window);
}

// ---- by name ----

static const char *const NAMES[] = {"window", "local", "strided", "global", "block"};
enum { N_NAMES = sizeof NAMES / sizeof *NAMES }; // in the order of PatternKind

// "local:64", without an end.
static bool parse_part(PatternPart *part, const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    if (!colon || colon[1] < '1' || colon[1] > '9') return false; // an integer >= 1
    uint64_t a = 0;
    size_t digits = (size_t)(text + length - colon) - 1;
    if (decimal_take(colon + 1, digits, &a) != digits || a > LIMIT_CONTEXT) return false;
    for (int i = 0; i < N_NAMES; i++) {
        if (strlen(NAMES[i]) != (size_t)(colon - text) || memcmp(text, NAMES[i], strlen(NAMES[i])))
            continue;
        *part = (PatternPart){(PatternKind)i, (int)a};
        return true;
    }
    return false;
}

static bool refuse_part(const char *text, const char *part, size_t length, Error *error) {
    return error_set(error, ERROR_USAGE,
                     "pattern \"%.80s\": \"%.*s\" is none of causal, window:N, local:N, strided:N, "
                     "global:N, block:N (N from 1 to %d), joined by +",
                     text, (int)(length < 40 ? length : 40), part, LIMIT_CONTEXT);
}

bool attention_pattern_parse(KeyPattern *pattern, const char *text, Error *error) {
    bool causal = false;
    *pattern = (KeyPattern){0};
    for (const char *part = text;; part++) {
        size_t length = strcspn(part, "+");
        if (pattern->n_parts == PATTERN_MAX_PARTS)
            return error_set(error, ERROR_USAGE, "pattern \"%.80s\": more than %d parts", text,
                             PATTERN_MAX_PARTS);
        if (length == 6 && !memcmp(part, "causal", 6))
            causal = true;
        else if (parse_part(&pattern->parts[pattern->n_parts], part, length))
            pattern->n_parts++;
        else
            return refuse_part(text, part, length, error);
        part += length;
        if (!*part) break;
    }
    // What shows all keys leaves no parts; a window alone is what models have.
    if (causal)
        *pattern = (KeyPattern){0};
    else if (pattern->n_parts == 1 && pattern->parts->kind == PATTERN_WINDOW)
        *pattern = (KeyPattern){.window = pattern->parts->a};
    return true;
}

void attention_pattern_print(char out[PATTERN_TEXT], const KeyPattern *pattern) {
    int used = snprintf(out, PATTERN_TEXT, "causal");
    if (pattern->window) used = snprintf(out, PATTERN_TEXT, "window:%d", pattern->window);
    for (int i = 0; i < pattern->n_parts; i++) {
        const PatternPart *part = &pattern->parts[i];
        bool first = !i && !pattern->window;
        if (first) used = 0;
        used += snprintf(out + used, PATTERN_TEXT - (size_t)used, "%s%s:%d", first ? "" : "+",
                         NAMES[part->kind], part->a);
    }
}

// ---- counts ----

// sum of min(p + 1, window) over p < n
static uint64_t keys_of_first(int window, int n) {
    uint64_t count = (uint64_t)n, w = (uint64_t)window;
    if (!window || window >= n) return count * (count + 1) / 2;
    return w * (w + 1) / 2 + (count - w) * w;
}

// The multiples of some stride, by inclusion and exclusion: of each subset of the strides, the
// least common multiple, and whether its multiples are added or subtracted.
typedef struct Multiples {
    int64_t common[1 << PATTERN_MAX_PARTS];
    int sign[1 << PATTERN_MAX_PARTS], count;
} Multiples;

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) { // x becomes the greatest common divisor
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

static Multiples multiples_of(const KeyReach *r) {
    Multiples m = {.common = {1}, .sign = {-1}, .count = 1}; // of no stride, left out at the end
    for (int i = 0; i < r->n_strides; i++)
        for (int k = 0, n = m.count; k < n; k++) {
            int64_t common = common_multiple(m.common[k], r->strides[i]);
            // What no position reaches stays there, so that nothing overflows.
            m.common[m.count] = common < INT32_MAX ? common : INT32_MAX;
            m.sign[m.count++] = -m.sign[k];
        }
    return m;
}

// Those in 0 .. end - 1.
static int64_t multiples_below(const Multiples *m, int end) {
    int64_t count = 0;
    for (int i = 1; i < m->count; i++)
        count += m->sign[i] * ((end + m->common[i] - 1) / m->common[i]);
    return count;
}

static int64_t reach_keys(const KeyReach *r, const Multiples *m) {
    int first = r->prefix > r->low ? r->prefix : r->low; // all between low and it are visible
    if (first >= r->suffix) return r->last - r->low + 1;
    int64_t between = multiples_below(m, r->suffix) - multiples_below(m, first);
    return first - r->low + between + r->last - r->suffix + 1;
}

uint64_t attention_pattern_keys(const KeyPattern *pattern, int start, int count) {
    if (!pattern->n_parts)
        return keys_of_first(pattern->window, start + count) -
               keys_of_first(pattern->window, start);
    KeyReach reach = key_reach(pattern, start);
    Multiples multiples = multiples_of(&reach);
    uint64_t keys = 0;
    for (int p = start; p < start + count; p++) {
        reach = key_reach(pattern, p);
        keys += (uint64_t)reach_keys(&reach, &multiples);
    }
    return keys;
}

// Each query sees its own block, window or all keys up to itself, so these follow one another from
// where the first query's begin; prefix and strides are the same for all.
int attention_pattern_read(const KeyPattern *pattern, int start, int count) {
    KeyReach reach = key_reach(pattern, start);
    Multiples multiples = multiples_of(&reach);
    reach.last = start + count - 1;
    return (int)reach_keys(&reach, &multiples);
}
