// Attention patterns by name, and how many (query, key) pairs they keep.
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

KeyPattern attention_pattern(const Config *config, int layer) {
    return (KeyPattern){.kind = PATTERN_CAUSAL, .window = config->layers[layer].window, .a = 1};
}

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

uint64_t attention_pattern_count(const KeyPattern *pattern, int n) {
    uint64_t count = 0;
    for (int p = 0; p < n; p++)
        for (int t = 0; t <= p; t++)
            count += key_visible(pattern, p, t);
    return count;
}
