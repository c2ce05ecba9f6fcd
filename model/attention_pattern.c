// Attention patterns by name, and how many (query, key) pairs they keep. Which pair a pattern keeps
// is defined once, by key_visible in kernels/kernels.h; the backends skip the rest. All are causal,
// so only the lower triangle counts. Queries p = 0 .. 5 from top to bottom, keys t = 0 .. 5 from
// left to right:
//
//   causal     local:2    strided:3  global:1   block:2
//   x.....     x.....     x.....     x.....     x.....
//   xx....     xx....     xx....     xx....     xx....
//   xxx...     .xx...     x.x...     x.x...     xxx...
//   xxxx..     ..xx..     x..x..     x..x..     xxxx..
//   xxxxx.     ...xx.     x..xx.     x...x.     ..xxx.
//   xxxxxx     ....xx     x..x.x     x....x     ..xxxx
//
// A window W (which models have; `local` is an experiment) keeps the last W keys of each query.
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

KeyPattern attention_pattern(const Config *config, int layer) {
    return (KeyPattern){.kind = PATTERN_CAUSAL, .window = config->layers[layer].window, .a = 1};
}

// The kinds that take a parameter. "causal" takes none and is handled before the table is read.
static const struct {
    const char *name;
    PatternKind kind;
} NAMES[] = {
    {"local", PATTERN_LOCAL},
    {"strided", PATTERN_STRIDED},
    {"global", PATTERN_GLOBAL},
    {"block", PATTERN_BLOCK},
};

bool attention_pattern_parse(KeyPattern *pattern, const char *text) {
    *pattern = (KeyPattern){.kind = PATTERN_CAUSAL, .a = 1};
    if (!strcmp(text, "causal")) return true;
    const char *colon = strchr(text, ':');
    if (!colon || colon[1] < '1' || colon[1] > '9') return false; // an integer >= 1
    char *end = NULL;
    long a = strtol(colon + 1, &end, 10);
    if (*end || a > LIMIT_CONTEXT) return false;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        size_t length = strlen(NAMES[i].name);
        if (length != (size_t)(colon - text) || strncmp(text, NAMES[i].name, length)) continue;
        *pattern = (KeyPattern){.kind = NAMES[i].kind, .a = (int)a};
        return true;
    }
    return false;
}

// By testing every pair, O(n^2): it then cannot disagree with what attention computes. Without a
// pattern the count is n (n + 1) / 2.
uint64_t attention_pattern_count(const KeyPattern *pattern, int n) {
    uint64_t count = 0;
    for (int p = 0; p < n; p++)
        for (int t = 0; t <= p; t++)
            count += key_visible(pattern, p, t);
    return count;
}
