// The charsmap of a SentencePiece model, row T07 of the hostile corpus: a trie that is
// read without bounds checks, once it has been checked.
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/tokenizer.h"

// A model whose charsmap has `depth` nested rules a, aa, ... -> b, with `count` bytes changed.
static ModelWriter with_charsmap(unsigned depth, size_t offset, const void *change, size_t count,
                                 size_t cut) {
    ModelWriter w = model_small();
    size_t size;
    uint8_t *map = charsmap_of_runs(depth, "b", &size);
    if (count) memcpy(map + offset, change, count);
    model_normalizer(&w, true, map, size - cut);
    free(map);
    return w;
}

static void map_refused(unsigned depth, size_t offset, uint32_t unit, const char *cause) {
    ModelWriter w = with_charsmap(depth, offset, &unit, 4, 0);
    model_refused(&w, cause);
}

Test(charsmap, charsmaps_that_are_right_are_obeyed) {
    ModelWriter w = with_charsmap(1, 0, NULL, 0, 0);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "aab", false), "\xe2\x96\x81|b|b|b"); // a -> b
    tokenizer_close(t);
    w = with_charsmap(3, 0, NULL, 0, 0);
    t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "aaaab", false), "\xe2\x96\x81|b|b|b"); // aaa -> b, a -> b, b
    tokenizer_close(t);
    w = with_charsmap(33, 0, NULL, 0, 0);
    model_fine(&w);
    w = model_small();
    model_normalizer(&w, true, "", 0); // an empty one is none
    model_fine(&w);
}

// What stands behind the text is not read: "aa" would be a rule.
Test(charsmap, rules_end_with_the_text) {
    ModelWriter w = with_charsmap(2, 0, NULL, 0, 0);
    Tokenizer *t = model_taken(&w);
    IdList ids = {0};
    Error error = {0};
    CHECK(tokenizer_encode(t, &ids, "baa", 2, false, &error));
    CHECK_INT(ids.count, 3); // U+2581, b, and b for a
    id_list_free(&ids);
    tokenizer_close(t);
}

Test(charsmap, replacements_are_held_to_a_limit) {
    for (size_t length = 64; length <= 65; length++) {
        char to[66] = "";
        memset(to, 'b', length);
        size_t size;
        uint8_t *map = charsmap_of_runs(1, to, &size);
        ModelWriter w = {0};
        model_usual_pieces(&w, false);
        model_piece(&w, "b", 1, -1, 1);
        model_trainer(&w, 1, false);
        model_normalizer(&w, false, map, size);
        free(map);
        if (length == 64)
            model_fine(&w);
        else
            model_refused(&w, "charsmap: a replacement of more than 64 bytes");
    }
}

// A text may be 16 times as long when normalised, and U+2581 before it.
Test(charsmap, a_text_that_rules_make_too_long_is_refused) {
    char to[66] = "", text[2000];
    memset(to, 'b', 64);
    size_t size;
    uint8_t *map = charsmap_of_runs(1, to, &size);
    for (unsigned type = 1; type <= 2; type++) {
        ModelWriter w = model_small();
        model_trainer(&w, type, false);
        model_normalizer(&w, true, map, size);
        Tokenizer *t = model_taken(&w);
        IdList ids = {0};
        Error error = {0};
        memset(text, 'a', sizeof text);
        memset(text, '?', 3); // 3 and 64 bytes from four
        CHECK(!tokenizer_encode(t, &ids, text, sizeof text, false, &error));
        CHECK_INT(error.code, ERROR_FILE);
        CHECK_STRING(error.message,
                     "a text of 2000 bytes has more than 32003 when normalised (--limits)");
        error.code = 0;
        CHECK(!tokenizer_encode(t, &ids, text, 4, false, &error)); // 3 + 3 + 64 of 67
        error.code = 0;
        memset(text, '?', 4);
        CHECK(tokenizer_encode(t, &ids, text, 5, false, &error)); // 3 + 4 + 64 of 83
        memset(text, '?', 16);
        CHECK(tokenizer_encode(t, &ids, text, 21, false, &error)); // 3 + 16 + 5 * 64 of 339
        id_list_free(&ids);
        tokenizer_close(t);
    }
    // A text of any length may have 96 MiB.
    enum { LONG = 8 << 20 };
    ModelWriter w = model_small();
    model_normalizer(&w, true, map, size);
    free(map);
    Tokenizer *t = model_taken(&w);
    char *long_text = malloc(LONG);
    memset(long_text, 'a', LONG);
    IdList ids = {0};
    Error error = {0};
    CHECK(!tokenizer_encode(t, &ids, long_text, LONG, false, &error));
    CHECK_STRING(error.message,
                 "a text of 8388608 bytes has more than 100663296 when normalised (--limits)");
    free(long_text);
    tokenizer_close(t);
}

Test(charsmap, charsmaps_that_lead_astray_are_refused) {
    ModelWriter w;
    for (size_t size = 1; size < 4; size++) {
        w = model_small();
        model_normalizer(&w, true, "\1\1\1", size);
        model_refused(&w, "charsmap: ");
    }
    w = with_charsmap(1, 0, NULL, 0, 2); // no texts
    model_refused(&w, "charsmap: a trie of 3072 bytes in 3072");
    w = with_charsmap(1, 0, NULL, 0, 1); // a text without a NUL
    model_refused(&w, "charsmap: the last replacement has no terminating NUL");
    map_refused(1, 0, 3076, "charsmap: a trie of 3076 bytes in 3074");
    map_refused(1, 0, 3070, "charsmap: a trie of 3070 bytes");
    map_refused(1, 0, 3068, "leads to unit 767 of 767");
    map_refused(1, 0, 1020, "charsmap: a trie of 1020 bytes");
    map_refused(1, 0, UINT32_MAX, "charsmap: a trie of 4294967295 bytes");
    // units: the root at 4, 'a' at 4 + 4 * (256 ^ 97), the leaf of "a" at 4 + 4 * 512
    size_t a = 256 ^ 'a';
    map_refused(1, 4, 768u << 10, "charsmap: unit 0 leads to unit 1023 of 768");
    map_refused(1, 4, 0x7ffffc00 | 1u << 9, "charsmap: unit 0 leads to unit");
    map_refused(1, 4 + 4 * a, 'a' | 1u << 8 | (uint32_t)(a ^ 768) << 10,
                "charsmap: unit 353 leads to unit 1023 of 768");
    map_refused(1, 4 + 4 * a, 'a' | 1u << 8 | (uint32_t)(a ^ 256) << 10,
                "charsmap: a cycle through unit 353");
    map_refused(1, 4 + 4 * a, 'a' | (uint32_t)a << 10,
                "charsmap: a cycle through unit 0"); // through the root
    map_refused(1, 4 + 4 * 512, 1u << 31 | 2, "charsmap: replacement at 2 of 2 bytes");
    w = model_small(); // decoding ignores its rules, and so does opening
    ModelWriter spec = {0};
    model_bytes(&spec, 2, "\1\1\1", 3);
    model_bytes(&w, 5, spec.bytes, spec.size);
    model_writer_free(&spec);
    model_fine(&w);
}

// Units can be shared: "bc" leads to where "a" does, the beginning of a run of 256. So there is a
// path of 257 bytes, and no rule may have so many: a text is followed for 256.
Test(charsmap, shared_parts_make_no_rule_longer) {
    size_t size;
    uint8_t *map = charsmap_of_runs(257, "x", &size);
    uint32_t last = 256 * 258, b = 256 ^ 'b', c = last ^ 'c';
    uint32_t units[3] = {1u << 31, (b ^ last) << 10 | 'b', (c ^ 512) << 10 | 1u << 8 | 'c'};
    memcpy(map + 4 + 4 * (size_t)((256 * 257) ^ 'a'), &units[0], 4); // the run ends at 256
    memcpy(map + 4 + 4 * (size_t)b, &units[1], 4);
    memcpy(map + 4 + 4 * (size_t)c, &units[2], 4);
    ModelWriter w = model_small();
    model_piece(&w, "x", 1, -3, 1);
    model_normalizer(&w, false, map, size);
    free(map);
    Tokenizer *t = model_taken(&w);
    char text[258] = "bc";
    memset(text + 2, 'a', 255);
    CHECK_STRING(test_pieces(t, text, false), "x|x"); // "bc" and 254 a, one a
    tokenizer_close(t);
}

// "a" becomes the text that begins at the second byte of the replacements.
Test(charsmap, a_replacement_may_begin_anywhere) {
    size_t size;
    uint8_t *map = charsmap_of_runs(1, "ab", &size);
    memcpy(map + 4 + 4 * 512, &(uint32_t){1u << 31 | 1}, 4);
    ModelWriter w = model_small();
    model_normalizer(&w, false, map, size);
    free(map);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "aa", false), "b|b");
    tokenizer_close(t);
}

// One block of units: the root, and no rule.
Test(charsmap, the_smallest_trie_has_256_units) {
    uint32_t units[1 + 256] = {4 * 256};
    units[1] = 1u << 10;
    for (size_t i = 2; i <= 256; i++)
        units[i] = 1u << 31;
    char map[sizeof units + 1] = "";
    memcpy(map, units, sizeof units);
    ModelWriter w = model_small();
    model_normalizer(&w, true, map, sizeof map);
    model_fine(&w);
}

// Below "a" and "b" are the same two rules: the second is no more than the first, on either way.
Test(charsmap, two_ways_into_the_same_rules_are_fine) {
    size_t size;
    uint8_t *map = charsmap_of_runs(2, "x", &size);
    uint32_t b = 256 ^ 'b', c = 512 ^ 'c';
    uint32_t units[2] = {(b ^ 512) << 10 | 1u << 8 | 'b', (c ^ 768) << 10 | 1u << 8 | 'c'};
    memcpy(map + 4 + 4 * (size_t)b, &units[0], 4);
    memcpy(map + 4 + 4 * (size_t)c, &units[1], 4);
    ModelWriter w = model_small();
    model_piece(&w, "x", 1, -3, 1);
    model_normalizer(&w, false, map, size);
    free(map);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "aaacbabcb", false), "x|x|x|x|x"); // aa ac ba bc b
    tokenizer_close(t);
}

Test(charsmap, no_change_of_a_charsmap_harms) {
    TestRandom random = {5};
    size_t taken = 0;
    for (int i = 0; i < 2000; i++) {
        uint32_t unit = (uint32_t)test_random(&random);
        size_t place = test_random(&random) % 4;
        size_t offset = place == 0   ? 0
                        : place == 1 ? 4
                        : place == 2 ? 4 + 4 * (256 ^ 'a')
                                     : 4 + 4 * (test_random(&random) % 1024);
        if (test_random(&random) % 2) unit = (unit & 0x3ff) << 10 | 'a' | (unit >> 22 & 0x100);
        ModelWriter w = with_charsmap(2, offset, &unit, 4, 0);
        Error error = {0};
        Tokenizer *t = sentencepiece_open_bytes(w.bytes, w.size, &error);
        model_writer_free(&w);
        taken += t != NULL;
        if (t)
            test_pieces(t, "aaab bab a\xc3\xa9\xff\x01", false);
        else
            CHECK_INT(error.code, ERROR_FILE);
        tokenizer_close(t);
    }
    CHECK(taken > 0 && taken < 2000, "%zu taken", taken);
}

// A run of `depth` bytes of which only the longest few are rules.
static void rule_of(unsigned depth, const char *cause) {
    size_t size;
    uint8_t *map = charsmap_of_runs(depth, "", &size); // which gives nothing
    for (unsigned k = 1; k + 4 < depth; k++)
        map[4 + 4 * (size_t)((256 * k) ^ 'a') + 1] &= 0xfe; // bit 8: a rule ends here
    ModelWriter w = model_small();
    model_normalizer(&w, true, map, size);
    free(map);
    if (cause)
        model_refused(&w, cause);
    else
        model_fine(&w);
}

Test(charsmap, rules_have_256_bytes_and_no_more) {
    rule_of(1, NULL); // the replacements are one NUL
    rule_of(256, NULL);
    rule_of(257, "charsmap: a rule of more than 256 bytes");
    rule_of(400, "charsmap: a rule of more than 256 bytes");
}
