// Patterns by name and by count. The counts for 64 positions are those of the published masks, each
// combined with the causal mask.
#include "model/model.h"
#include "tests/test.h"

static KeyPattern parse(const char *text) {
    KeyPattern pattern;
    CHECK(attention_pattern_parse(&pattern, text), "%s", text);
    return pattern;
}

Test(attention_pattern, counts_of_64_positions) {
    static const struct {
        const char *text;
        int count;
    } WANTED[] = {
        {"causal", 2080}, {"local:8", 310}, {"strided:4", 592}, {"global:4", 310}, {"block:8", 736},
    };
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        KeyPattern pattern = parse(WANTED[i].text);
        CHECK_INT(attention_pattern_count(&pattern, 64), WANTED[i].count);
    }
    // Block 8 of 60 positions: the last block is short, and every row still sees itself.
    KeyPattern block = parse("block:8");
    for (int p = 0; p < 60; p++)
        CHECK(key_visible(&block, p, p), "row %d is empty", p);
}

// W keys with the row's own: sum of min(p + 1, W).
Test(attention_pattern, a_window_of_a_layer) {
    static Config config;
    config.layers[1].window = 10;
    KeyPattern whole = attention_pattern(&config, 0), window = attention_pattern(&config, 1);
    CHECK_INT(attention_pattern_count(&whole, 64), 2080);
    CHECK_INT(attention_pattern_count(&window, 64), 55 + 54 * 10);
    CHECK(key_visible(&window, 20, 11) && !key_visible(&window, 20, 10), "the edge");
}

Test(attention_pattern, refuses_other_texts) {
    static const char *const WRONG[] = {"",
                                        "local",
                                        "local:",
                                        "local:0",
                                        "local:-4",
                                        "local:+4",
                                        "local: 4",
                                        "local:4x",
                                        "causal:4",
                                        "diagonal:4",
                                        "loca:4",
                                        "block:4194305",
                                        "block:99999999999999999999"};
    KeyPattern pattern;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        CHECK(!attention_pattern_parse(&pattern, WRONG[i]), "%s", WRONG[i]);
    CHECK_INT(parse("block:4194304").a, 4194304);
}
