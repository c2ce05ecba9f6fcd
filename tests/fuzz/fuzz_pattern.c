// Attention patterns as text: parsed or refused; how many keys a pattern keeps is counted again,
// pair by pair.
// Exercises: model/attention_pattern.c kernels/key_pattern.h commands/perplexity/patterns.c
#include "commands/perplexity/patterns.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

enum { MOST_POSITIONS = 64 };

static void count_again(const KeyPattern *pattern, int start, int count) {
    uint64_t keys = 0;
    int read = 0;
    for (int p = start; p < start + count; p++)
        for (int t = 0; t <= p; t++)
            keys += key_visible(pattern, p, t);
    for (int t = 0; t < start + count; t++) {
        bool seen = false;
        for (int p = start; p < start + count; p++)
            seen |= key_visible(pattern, p, t);
        read += seen;
    }
    if (attention_pattern_keys(pattern, start, count) != keys) abort();
    if (attention_pattern_read(pattern, start, count) != read) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    if (count < 3) return 0;
    char *text = strndup((const char *)data + 2, count - 2);
    int start = data[0] % MOST_POSITIONS, n = 1 + data[1] % MOST_POSITIONS;
    KeyPattern pattern;
    PatternTable table = {0};
    Error error = {0}, of_list = {0};
    if (!text) return 0;
    if (attention_pattern_parse(&pattern, text, &error) != !error.code) abort();
    if (!error.code) {
        count_again(&pattern, start, n);
        pattern = attention_pattern_within(&pattern, data[0] >> 4);
        count_again(&pattern, start, n);
    }
    if (patterns_parse(&table, text, &of_list) != !of_list.code) abort();
    patterns_free(&table);
    free(text);
    return 0;
}
