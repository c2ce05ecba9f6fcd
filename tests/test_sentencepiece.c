// SentencePiece models: rows T01 to T10 of the hostile corpus with their accepted twins, every
// length of a small model, and Debian's spm_train and spm_encode as an oracle.
#include "tests/support/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece_c.h"
#include "tokenizer/sentencepiece_check.h"
#include "tokenizer/tokenizer.h"

// Opens what `w` holds, frees `w`, and says what came of it.
static void check_refused(ModelWriter *w, const char *cause) {
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(w->bytes, w->size, &error);
    model_writer_free(w);
    CHECK(!t, "taken: %s", cause);
    CHECK(error.code == ERROR_FILE && strstr(error.message, cause), "%d \"%s\", wanted \"%s\"",
          error.code, error.message, cause);
}

static Tokenizer *check_taken(ModelWriter *w) {
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(w->bytes, w->size, &error);
    model_writer_free(w);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

static void check_fine(ModelWriter *w) {
    tokenizer_close(check_taken(w));
}

// A BPE model of "a", "b", "ab" and a space, which can be encoded without the library too.
static ModelWriter small_model(void) {
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    model_piece(&w, "\xe2\x96\x81", 3, -3, 1);
    model_piece(&w, "a", 1, -3, 1);
    model_piece(&w, "b", 1, -3, 0); // the type is left out: a normal piece
    model_piece(&w, "ab", 2, -1, 1);
    model_trainer(&w, SENTENCEPIECE_BPE, false);
    model_normalizer(&w, true, NULL, 0);
    return w;
}

Test(sentencepiece, reads_a_small_model) {
    ModelWriter w = small_model();
    Tokenizer *t = check_taken(&w);
    CHECK_INT(tokenizer_size(t), 7);
    CHECK_INT(tokenizer_bos(t), 1);
    CHECK_STRING(test_pieces(t, "abba", false), "\xe2\x96\x81|ab|b|a");
    CHECK_STRING(test_pieces(t, "a xx", false), "\xe2\x96\x81|a|\xe2\x96\x81|<unk>");
    CHECK_STRING(test_pieces(t, "", false), "");
    CHECK_STRING(test_pieces(t, "<s>", false), "\xe2\x96\x81|<unk>");
    tokenizer_close(t);
}

Test(sentencepiece, every_length_but_whole_messages_is_refused) { // T01
    ModelWriter w = small_model();
    // Cut between two messages, a protobuf is whole. All of these are shorter than 128 bytes.
    size_t end = 0;
    for (size_t size = 0; size < w.size; size++) {
        Error error = {0};
        if (size > end) end += 2u + w.bytes[end + 1];
        Tokenizer *t = sentencepiece_open_bytes(w.bytes, size, &error);
        CHECK(size == end || !t, "%zu bytes", size);
        if (!t) CHECK_INT(error.code, ERROR_FILE);
        tokenizer_close(t);
    }
    model_writer_free(&w);
    Error error = {0};
    CHECK(!sentencepiece_open_bytes(NULL, 0, &error));
    CHECK(strstr(error.message, "offset 0: no pieces"), "%s", error.message);
}

Test(sentencepiece, protobuf_that_is_none_is_refused) { // T02
    ModelWriter w = small_model();
    model_raw(&w, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    check_refused(&w, "a number of more than 64 bits");
    w = small_model(); // ten bytes are 64 bits, if the tenth is 1 at most
    model_raw(&w, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11);
    check_refused(&w, "a number of more than 64 bits");
    w = small_model();
    model_raw(&w, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    check_fine(&w);
    w = small_model();
    model_raw(&w, "\x02\x00", 2);
    check_refused(&w, "no protobuf: field number 0");
    w = small_model();
    model_number(&w, 1u << 29, 0); // a tag of 33 bits
    check_refused(&w, "no protobuf: field number 536870912");
    for (unsigned wire = 3; wire < 8; wire++) {
        char cause[64];
        if (wire == 5) continue;
        w = small_model();
        model_tag(&w, 9, wire);
        snprintf(cause, sizeof cause, "field 9 has wire type %u (wanted 0, 1, 2 or 5)", wire);
        check_refused(&w, cause);
    }
    w = small_model();
    for (int i = 0; i < 100000; i++)
        model_tag(&w, 9, 3); // start-group without end: no recursion
    check_refused(&w, "field 9 has wire type 3");
    w = small_model();
    model_number(&w, 1, 5); // a piece that is a number
    check_refused(&w, "model: wire type 0, wanted 2");
    w = small_model();
    model_tag(&w, 200, 1); // unknown fields of every lawful kind are passed over
    model_raw(&w, "12345678", 8);
    model_tag(&w, 201, 5);
    model_raw(&w, "1234", 4);
    model_bytes(&w, 202, "\xff\xff\xff", 3);
    check_fine(&w);
}

Test(sentencepiece, lengths_stay_inside_their_message) { // T03
    ModelWriter w = small_model();
    model_raw(&w, "\x4a\x05xxxx", 6);
    check_refused(&w, "truncated: field wants 5 bytes, 4 are left");
    w = small_model();
    model_raw(&w, "\x4a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    check_refused(&w, "truncated: field wants 18446744073709551615 bytes, 0 are left");
    w = (ModelWriter){0};
    model_raw(&w, "\x0a\x04\x0a\x09xy", 6); // the text is longer than its piece
    model_piece(&w, "abcdefghijkl", 12, 0, 1);
    check_refused(&w, "offset 4: truncated: field wants 9 bytes, 2 are left");
}

Test(sentencepiece, pieces_are_held_to_limits) { // T04
    static char large[4 << 20];
    memset(large, 'x', sizeof large);
    static const struct {
        const char *text;
        size_t length;
        const char *cause; // NULL: taken
    } CASES[] = {{"", 0, "piece 7: empty"},
                 {large, 65536, NULL},
                 {large, 65537, "piece 7: 65537 bytes long (at most 65536)"},
                 {large, sizeof large, "piece 7: 4194304 bytes long"},
                 {"x\0y", 3, NULL},
                 {"\xff\xc0", 2, NULL},
                 {"ab", 2, "sentencepiece: "}}; // the library knows two pieces spelt alike
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (i == 6 && !sentencepiece_available()) continue;
        ModelWriter w = small_model();
        model_piece(&w, CASES[i].text, CASES[i].length, -1, 1);
        if (CASES[i].cause)
            check_refused(&w, CASES[i].cause);
        else {
            Tokenizer *t = check_taken(&w);
            CHECK_STRING(test_pieces(t, "ab", false), "\xe2\x96\x81|ab");
            tokenizer_close(t);
        }
    }
}

Test(sentencepiece, scores_and_types_are_checked) { // T05
    static const float BAD[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        ModelWriter w = small_model();
        model_piece(&w, "c", 1, BAD[i], 1);
        check_refused(&w, "piece 7: its score is not finite");
    }
    for (unsigned type = 7; type < 100; type += 92) {
        ModelWriter w = small_model();
        model_piece(&w, "c", 1, 0, type);
        check_refused(&w, "piece 7: unknown type ");
    }
    ModelWriter w = small_model();
    model_raw(&w,
              "\x0a\x07\x0a\x01"
              "c\x18\x80\x80\x04",
              9); // type 65536, no score
    check_refused(&w, "piece 7: unknown type 65536 (wanted 1 to 6)");
    w = small_model();
    model_raw(&w,
              "\x0a\x05\x0a\x01"
              "c\x18\x00",
              7);
    check_refused(&w, "piece 7: unknown type 0");
    w = small_model();
    model_raw(&w,
              "\x0a\x03\x0a\x01"
              "c",
              5); // neither score nor type
    check_fine(&w);
}

Test(sentencepiece, unknown_and_byte_pieces_are_counted) { // T06
    ModelWriter w = {0};
    model_piece(&w, "a", 1, 0, 1);
    model_trainer(&w, 2, false);
    check_refused(&w, "0 unknown pieces (wanted 1)");
    w = small_model();
    model_piece(&w, "<unk2>", 6, 0, 2);
    check_refused(&w, "2 unknown pieces (wanted 1)");
    w = (ModelWriter){0}; // the unknown piece may be any one
    model_piece(&w, "a", 1, 0, 1);
    model_piece(&w, "<unk>", 5, 0, 2);
    model_trainer(&w, 2, false);
    model_normalizer(&w, false, NULL, 0);
    Tokenizer *t = check_taken(&w);
    CHECK_STRING(test_pieces(t, "axa", false), "a|<unk>|a");
    tokenizer_close(t);
    w = small_model();
    model_piece(&w, "<0x41>", 6, 0, 6);
    check_refused(&w, "1 byte pieces (wanted 0, since byte_fallback is off)");
    w = small_model();
    model_piece(&w, "<0xZZ>", 6, 0, 6);
    check_refused(&w, "piece 7: no byte is spelt like this byte piece");
    w = small_model();
    model_trainer(&w, 2, true);
    check_refused(&w, "0 byte pieces (wanted 256, since byte_fallback is on)");
    w = (ModelWriter){0}; // 256, but one twice and one not at all
    model_piece(&w, "<unk>", 5, 0, 2);
    for (int i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i ? i : 1);
        model_piece(&w, text, 6, 0, 6);
    }
    model_trainer(&w, 2, true);
    check_refused(&w, "255 byte pieces (wanted 256");
    w = (ModelWriter){0};
    model_usual_pieces(&w, true);
    model_trainer(&w, 2, true);
    model_normalizer(&w, false, NULL, 0);
    t = check_taken(&w);
    CHECK_STRING(test_pieces(t, "\xc3\xa9", false), "<0xC3>|<0xA9>");
    tokenizer_close(t);
}

Test(sentencepiece, too_many_pieces_and_none_are_refused) { // T08
    ModelWriter w = {0};
    model_trainer(&w, 2, false);
    check_refused(&w, "no pieces");
    for (int i = 0; i < 5000000; i++)
        model_raw(&w, "\x0a\x00", 2);
    check_refused(&w, "more than 4194304 pieces");
}

Test(sentencepiece, only_unigram_and_bpe_are_known) { // T09
    static const unsigned TYPES[] = {0, 3, 4, 99};
    for (int i = 0; i < 4; i++) {
        ModelWriter w = small_model();
        model_trainer(&w, TYPES[i], false);
        check_refused(&w, "(known: 1 unigram, 2 BPE)");
    }
    ModelWriter w = small_model();
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(w.bytes, w.size, &error);
    model_writer_free(&w);
    if (sentencepiece_available())
        CHECK(t && strstr(tokenizer_description(t), "unigram"));
    else
        CHECK(!t && strstr(error.message, "use a GGUF or a tokenizer.json"), "%s", error.message);
    tokenizer_close(t);
}

Test(sentencepiece, of_a_field_given_twice_the_last_counts) { // T10
    ModelWriter w = {0};
    model_trainer(&w, 4, true); // joined with the one that follows
    model_normalizer(&w, false, NULL, 0);
    ModelWriter rest = small_model();
    model_raw(&w, rest.bytes, rest.size);
    model_writer_free(&rest);
    Tokenizer *t = check_taken(&w);
    CHECK_STRING(test_pieces(t, "ab", false), "\xe2\x96\x81|ab");
    tokenizer_close(t);
    w = small_model();
    model_raw(&w,
              "\x0a\x0a\x0a\x01"
              "c\x0a\x01"
              "d\x18\x06\x18\x01",
              12); // text and type twice
    t = check_taken(&w);
    CHECK_INT(tokenizer_find(t, "d"), 7);
    CHECK_INT(tokenizer_find(t, "c"), -1);
    tokenizer_close(t);
}

Test(sentencepiece, user_defined_pieces_do_not_overrun_the_library) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    char text[81] = "";
    memset(text, 'u', 80);
    for (size_t n = 64; n <= 65; n++) {
        ModelWriter w = small_model();
        for (size_t i = 1; i <= n; i++)
            model_piece(&w, text, i, 0, 4);
        if (n == 65) {
            check_refused(&w, "more than 64 user-defined pieces begin one another");
            continue;
        }
        Tokenizer *t = check_taken(&w);
        CHECK_INT(strlen(test_pieces(t, text, false)), 3 + 1 + 64 + 1 + 16);
        tokenizer_close(t);
    }
    ModelWriter w = small_model();
    model_piece(&w, "u\0v", 3, 0, 4);
    check_refused(&w, "piece 7: user-defined, with a NUL inside");
}

// ---- charsmaps (T07) ----

// Takes a charsmap with `depth` nested rules a, aa, ... -> b, and changes `count` of its bytes.
static ModelWriter with_charsmap(unsigned depth, size_t offset, const void *change, size_t count,
                                 size_t cut) {
    ModelWriter w = small_model();
    size_t size;
    uint8_t *map = charsmap_of_runs(depth, "b", &size);
    if (count) memcpy(map + offset, change, count);
    model_normalizer(&w, true, map, size - cut);
    free(map);
    return w;
}

static void check_map_refused(unsigned depth, size_t offset, uint32_t unit, const char *cause) {
    ModelWriter w = with_charsmap(depth, offset, &unit, 4, 0);
    check_refused(&w, cause);
}

Test(sentencepiece, charsmaps_that_are_right_are_obeyed) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    ModelWriter w = with_charsmap(1, 0, NULL, 0, 0);
    Tokenizer *t = check_taken(&w);
    CHECK_STRING(test_pieces(t, "aab", false), "\xe2\x96\x81|b|b|b"); // a -> b
    tokenizer_close(t);
    w = with_charsmap(3, 0, NULL, 0, 0);
    t = check_taken(&w);
    CHECK_STRING(test_pieces(t, "aaaab", false), "\xe2\x96\x81|b|b|b"); // aaa -> b, a -> b, b
    tokenizer_close(t);
    w = with_charsmap(32, 0, NULL, 0, 0);
    check_fine(&w);
    w = small_model();
    model_normalizer(&w, true, "", 0); // an empty one is none
    check_fine(&w);
}

Test(sentencepiece, charsmaps_that_lead_astray_are_refused) {
    ModelWriter w;
    for (size_t size = 1; size < 4; size++) {
        w = small_model();
        model_normalizer(&w, true, "\1\1\1", size);
        check_refused(&w, "charsmap: ");
    }
    w = with_charsmap(33, 0, NULL, 0, 0);
    check_refused(&w, "charsmap: more than 32 rules begin one another");
    w = with_charsmap(1, 0, NULL, 0, 2); // no texts
    check_refused(&w, "charsmap: a trie of 3072 bytes in 3072");
    w = with_charsmap(1, 0, NULL, 0, 1); // a text without an end
    check_refused(&w, "charsmap: the last replacement has no end");
    check_map_refused(1, 0, 3076, "charsmap: a trie of 3076 bytes in 3074");
    check_map_refused(1, 0, 3070, "charsmap: a trie of 3070 bytes");
    check_map_refused(1, 0, 3068, "leads to unit 767 of 767");
    check_map_refused(1, 0, 1020, "charsmap: a trie of 1020 bytes");
    check_map_refused(1, 0, UINT32_MAX, "charsmap: a trie of 4294967295 bytes");
    // units: the root at 4, 'a' at 4 + 4 * (256 ^ 97), the leaf of "a" at 4 + 4 * 512
    size_t a = 256 ^ 'a';
    check_map_refused(1, 4, 768u << 10, "charsmap: unit 0 leads to unit 1023 of 768");
    check_map_refused(1, 4, 0x7ffffc00 | 1u << 9, "charsmap: unit 0 leads to unit");
    check_map_refused(1, 4 + 4 * a, 'a' | 1u << 8 | (uint32_t)(a ^ 768) << 10,
                      "charsmap: unit 353 leads to unit 1023 of 768");
    check_map_refused(1, 4 + 4 * a, 'a' | 1u << 8 | (uint32_t)(a ^ 256) << 10,
                      "charsmap: unit 353 leads back to itself");
    check_map_refused(1, 4 + 4 * a, 'a' | (uint32_t)a << 10,
                      "charsmap: unit 0 leads back to itself"); // by way of the root
    check_map_refused(1, 4 + 4 * 512, 1u << 31 | 2, "charsmap: replacement at 2 of 2 bytes");
    // The same holds for the rules that decoding would use.
    w = small_model();
    ModelWriter spec = {0};
    model_bytes(&spec, 2, "\1\1\1", 3);
    model_bytes(&w, 5, spec.bytes, spec.size);
    model_writer_free(&spec);
    check_refused(&w, "charsmap: ");
}

// Units can be shared: b, c and then the second 'a' of a run of 32 make a path of 33 matches.
Test(sentencepiece, shared_parts_of_a_charsmap_are_counted_on_every_path) {
    size_t size;
    uint8_t *map = charsmap_of_runs(33, "b", &size);
    uint32_t last = 256 * 34, b = 256 ^ 'b', c = last ^ 'c';
    uint32_t units[3] = {1u << 31, (b ^ last) << 10 | 1u << 8 | 'b',
                         (c ^ 512) << 10 | 1u << 8 | 'c'};
    memcpy(map + 4 + 4 * (size_t)((256 * 33) ^ 'a'), &units[0], 4); // the run ends at 32
    memcpy(map + 4 + 4 * (size_t)b, &units[1], 4);
    ModelWriter w = small_model();
    model_normalizer(&w, true, map, size);
    if (sentencepiece_available())
        check_fine(&w);
    else
        model_writer_free(&w);
    memcpy(map + 4 + 4 * (size_t)c, &units[2], 4);
    w = small_model();
    model_normalizer(&w, true, map, size);
    free(map);
    check_refused(&w, "charsmap: more than 32 rules begin one another");
}

Test(sentencepiece, no_change_of_a_charsmap_harms) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
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
