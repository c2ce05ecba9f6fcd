// Patterns by name and by count. The counts for 64 positions are those of the published masks, each
// combined with the causal mask.
#include "model/model.h"
#include "tests/test.h"

static KeyPattern parse(const char *text) {
    KeyPattern pattern;
    Error error = {0};
    CHECK(attention_pattern_parse(&pattern, text, &error), "%s: %s", text, error.message);
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
        CHECK_INT(attention_pattern_keys(&pattern, 0, 64), WANTED[i].count);
    }
    // Block 8 of 60 positions: the last block is short, and every row still sees itself.
    KeyPattern block = parse("block:8");
    for (int p = 0; p < 60; p++)
        CHECK(key_visible(&block, p, p), "row %d is empty", p);
}

// Every count is that of the double loop, from any position on.
Test(attention_pattern, counts_of_unions_are_those_of_the_definition) {
    static const char *const TEXTS[] = {"causal",
                                        "window:5",
                                        "local:8+global:4",
                                        "strided:3+strided:4",
                                        "block:7+global:2",
                                        "window:3+strided:9",
                                        "strided:4+strided:6+strided:10+strided:15",
                                        "strided:1000+strided:999+strided:4194304",
                                        "local:64+global:4+strided:10+block:3"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        KeyPattern pattern = parse(TEXTS[i]);
        uint64_t all = 0, later = 0;
        for (int p = 0; p < 150; p++)
            for (int t = 0; t <= p; t++) {
                all += key_visible(&pattern, p, t);
                later += p >= 40 && key_visible(&pattern, p, t);
            }
        CHECK_INT(attention_pattern_keys(&pattern, 0, 150), all);
        CHECK_INT(attention_pattern_keys(&pattern, 40, 110), later);
    }
    // 33 keys around and 4 in front.
    KeyPattern sparse = parse("local:64+global:4");
    CHECK_INT(attention_pattern_keys(&sparse, 2000, 1), 37);
}

// Within windows too: all queries of a pass together see so many keys.
Test(attention_pattern, keys_that_a_pass_reads_are_those_that_some_query_sees) {
    static const char *const TEXTS[] = {
        "causal",           "window:9",  "local:8+global:4", "strided:3+strided:4",
        "block:7+global:2", "global:70", "window:3+block:5", "strided:9+local:6+global:1"};
    static const int WINDOWS[] = {0, 1, 12, 50}, COUNTS[] = {1, 2, 30};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS * 4 * 3; i++) {
        KeyPattern named = parse(TEXTS[i / 12]);
        KeyPattern pattern = attention_pattern_within(&named, WINDOWS[i % 4]);
        for (int start = 0, n = COUNTS[i / 4 % 3]; start < 90; start++) {
            int read = 0;
            for (int t = 0; t < start + n; t++) {
                bool seen = false;
                for (int p = start; p < start + n; p++)
                    seen |= key_visible(&pattern, p, t);
                read += seen;
            }
            CHECK_INT(attention_pattern_read(&pattern, start, n), read);
        }
    }
}

Test(attention_pattern, what_shows_all_leaves_no_parts) {
    KeyPattern causal = parse("local:8+causal"), window = parse("window:9");
    CHECK(!causal.n_parts && !causal.window, "causal");
    CHECK(!window.n_parts && window.window == 9, "a window is what models have");
    CHECK_INT(parse("window:9+global:1").n_parts, 2);
}

// W keys with the row's own: sum of min(p + 1, W). A layer keeps its window.
Test(attention_pattern, a_window_of_a_layer) {
    static Model model;
    model.config.layers[1].window = 10;
    KeyPattern whole = model_pattern(&model, 0), window = model_pattern(&model, 1);
    CHECK_INT(attention_pattern_keys(&whole, 0, 64), 2080);
    CHECK_INT(attention_pattern_keys(&window, 0, 64), 55 + 54 * 10);
    CHECK(key_visible(&window, 20, 11) && !key_visible(&window, 20, 10), "the edge");
    model.pattern = parse("window:20+global:4");
    window = model_pattern(&model, 1);
    CHECK(key_visible(&window, 9, 0) && !key_visible(&window, 20, 0), "within the window");
    model.pattern = parse("window:6");
    CHECK_INT(model_pattern(&model, 0).window, 6);
    CHECK_INT(model_pattern(&model, 1).window, 6);
    model.pattern = parse("window:60");
    CHECK_INT(model_pattern(&model, 1).window, 10);
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
                                        "block:99999999999999999999",
                                        "local:4+",
                                        "+local:4",
                                        "local:4++global:2",
                                        "local:4+global",
                                        "local:1+local:2+local:3+local:4+local:5"};
    KeyPattern pattern;
    Error error = {0};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        error = (Error){0};
        CHECK(!attention_pattern_parse(&pattern, WRONG[i], &error), "%s", WRONG[i]);
        CHECK_INT(error.code, ERROR_USAGE);
    }
    error = (Error){0};
    CHECK(!attention_pattern_parse(&pattern, "local:64+globl:4", &error) &&
              strstr(error.message, ": \"globl:4\" is none of causal, window:N"),
          "%s", error.message);
    CHECK_INT(parse("block:4194304").parts[0].a, 4194304);
}
