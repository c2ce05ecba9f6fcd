// SentencePiece models: rows T01 to T10 of the hostile corpus with valid counterparts (T07,
// charsmaps, in test_charsmap.c), and every length of a small model.
#include "tests/support/changed_bytes.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/tokenizer.h"

#define SPACE "\xe2\x96\x81" // U+2581

Test(sentencepiece, reads_a_small_model) {
    ModelWriter w = model_small();
    Tokenizer *t = model_taken(&w);
    CHECK_INT(tokenizer_size(t), 7);
    CHECK_INT(tokenizer_bos(t), 1);
    CHECK_STRING(test_pieces(t, "abba", false), "\xe2\x96\x81|ab|b|a");
    CHECK_STRING(test_pieces(t, "a xx", false), "\xe2\x96\x81|a|\xe2\x96\x81|<unk>");
    CHECK_STRING(test_pieces(t, "", false), "");
    CHECK_STRING(test_pieces(t, "<s>", false), "\xe2\x96\x81|<unk>");
    tokenizer_close(t);
}

Test(sentencepiece, every_length_but_whole_messages_is_refused) { // T01
    ModelWriter w = model_small();
    // A protobuf truncated between two messages is valid. All messages are shorter than 128 bytes.
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

static bool takes_and_encodes(const void *bytes, size_t size, Error *error) {
    IdList ids = {0};
    Tokenizer *t = sentencepiece_open_bytes(bytes, size, error);
    CHECK(!t || tokenizer_encode(t, &ids, "abba a", 6, true, error), "%s", error->message);
    for (size_t i = 0; i < ids.count; i++)
        CHECK(ids.ids[i] >= 0 && ids.ids[i] < tokenizer_size(t), "id %d", ids.ids[i]);
    id_list_free(&ids);
    tokenizer_close(t);
    return t;
}

Test(sentencepiece, any_byte_changed_is_a_vocabulary_or_an_error) {
    ModelWriter w = model_small();
    check_changed_bytes(takes_and_encodes, w.bytes, w.size, w.size, NULL, 0);
    model_writer_free(&w);
}

Test(sentencepiece, protobuf_that_is_none_is_refused) { // T02
    ModelWriter w = model_small();
    model_raw(&w, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    model_refused(&w, "a number of more than 64 bits");
    w = model_small(); // ten bytes are 64 bits, if the tenth is 1 at most
    model_raw(&w, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11);
    model_refused(&w, "a number of more than 64 bits");
    w = model_small();
    model_raw(&w, "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    model_fine(&w);
    w = model_small();
    model_raw(&w, "\x02\x00", 2);
    model_refused(&w, "not protobuf: field number 0");
    w = model_small();
    model_number(&w, 1u << 29, 0); // a tag of 33 bits
    model_refused(&w, "not protobuf: field number 536870912");
    for (unsigned wire = 3; wire < 8; wire++) {
        char cause[64];
        if (wire == 5) continue;
        w = model_small();
        model_tag(&w, 9, wire);
        snprintf(cause, sizeof cause, "field 9 has wire type %u (wanted 0, 1, 2 or 5)", wire);
        model_refused(&w, cause);
    }
    w = model_small();
    for (int i = 0; i < 100000; i++)
        model_tag(&w, 9, 3); // start-group without end: no recursion
    model_refused(&w, "field 9 has wire type 3");
    w = model_small();
    model_number(&w, 1, 5); // a piece that is a number
    model_refused(&w, "model: wire type 0, wanted 2");
    w = model_small();
    model_tag(&w, 200, 1); // unknown fields of every valid wire type are skipped
    model_raw(&w, "12345678", 8);
    model_tag(&w, 201, 5);
    model_raw(&w, "1234", 4);
    model_bytes(&w, 202, "\xff\xff\xff", 3);
    model_fine(&w);
}

Test(sentencepiece, half_a_tag_is_refused_and_unknown_fields_are_not) {
    ModelWriter w = model_small();
    model_raw(&w, "\x0a\x04\x0a\x01q\x80", 6);
    model_refused(&w, "truncated: field wants 1 bytes, 0 are left");
    w = model_small(); // a field in a piece, and self_test_data
    model_raw(&w, "\x0a\x05\x0a\x01q\x20\x07", 7);
    model_bytes(&w, 4, "\xff\xff", 2);
    Tokenizer *t = model_taken(&w);
    CHECK_INT(tokenizer_find(t, "q"), 7);
    tokenizer_close(t);
}

Test(sentencepiece, lengths_stay_inside_their_message) { // T03
    ModelWriter w = model_small();
    model_raw(&w, "\x4a\x05xxxx", 6);
    model_refused(&w, "truncated: field wants 5 bytes, 4 are left");
    w = model_small();
    model_raw(&w, "\x4a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    model_refused(&w, "truncated: field wants 18446744073709551615 bytes, 0 are left");
    w = (ModelWriter){0};
    model_raw(&w, "\x0a\x04\x0a\x09xy", 6); // the text is longer than its piece
    model_piece(&w, "abcdefghijkl", 12, 0, 1);
    model_refused(&w, "offset 4: truncated: field wants 9 bytes, 2 are left");
}

Test(sentencepiece, pieces_are_held_to_limits) { // T04
    static char large[4 << 20];
    memset(large, 'x', sizeof large);
    static const struct {
        const char *text;
        size_t length;
        const char *cause; // NULL: accepted
    } CASES[] = {{"", 0, "piece 7: empty"},
                 {large, 65536, NULL},
                 {large, 65537, "piece 7: 65537 bytes long (at most 65536)"},
                 {large, sizeof large, "piece 7: 4194304 bytes long"},
                 {"x\0y", 3, NULL},
                 {"\xff\xc0", 2, NULL},
                 {"ab", 2, "piece 7: the same text as piece 6"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ModelWriter w = model_small();
        model_piece(&w, CASES[i].text, CASES[i].length, -1, 1);
        if (CASES[i].cause)
            model_refused(&w, CASES[i].cause);
        else {
            Tokenizer *t = model_taken(&w);
            CHECK_STRING(test_pieces(t, "ab", false), "\xe2\x96\x81|ab");
            tokenizer_close(t);
        }
    }
}

Test(sentencepiece, scores_and_types_are_checked) { // T05
    static const float BAD[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        ModelWriter w = model_small();
        model_piece(&w, "c", 1, BAD[i], 1);
        model_refused(&w, "piece 7: its score is not finite");
    }
    for (unsigned type = 7; type < 100; type += 92) {
        ModelWriter w = model_small();
        model_piece(&w, "c", 1, 0, type);
        model_refused(&w, "piece 7: unknown type ");
    }
    ModelWriter w = model_small();
    model_raw(&w,
              "\x0a\x07\x0a\x01"
              "c\x18\x80\x80\x04",
              9); // type 65536, no score
    model_refused(&w, "piece 7: unknown type 65536 (wanted 1 to 6)");
    w = model_small();
    model_raw(&w,
              "\x0a\x05\x0a\x01"
              "c\x18\x00",
              7);
    model_refused(&w, "piece 7: unknown type 0");
    w = model_small();
    model_raw(&w,
              "\x0a\x03\x0a\x01"
              "c",
              5); // neither score nor type
    model_fine(&w);
}

Test(sentencepiece, unknown_and_byte_pieces_are_counted) { // T06
    ModelWriter w = {0};
    model_piece(&w, "a", 1, 0, 1);
    model_trainer(&w, 2, false);
    model_refused(&w, "0 unknown pieces (wanted 1)");
    w = model_small();
    model_piece(&w, "<unk2>", 6, 0, 2);
    model_refused(&w, "2 unknown pieces (wanted 1)");
    w = (ModelWriter){0}; // the unknown piece may be any one
    model_piece(&w, "a", 1, 0, 1);
    model_piece(&w, "<unk>", 5, 0, 2);
    model_trainer(&w, 2, false);
    model_normalizer(&w, false, NULL, 0);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "axa", false), "a|<unk>|a");
    tokenizer_close(t);
    w = model_small();
    model_piece(&w, "<0x41>", 6, 0, 6);
    model_refused(&w, "1 byte pieces (wanted 0, since byte_fallback is off)");
    w = model_small();
    model_piece(&w, "<0xZZ>", 6, 0, 6);
    model_refused(&w, "piece 7: a byte piece whose spelling is not <0xNN>");
    w = model_small();
    model_trainer(&w, 2, true);
    model_refused(&w, "0 byte pieces (wanted 256, since byte_fallback is on)");
    w = (ModelWriter){0}; // 256, but one twice and one not at all
    model_piece(&w, "<unk>", 5, 0, 2);
    for (int i = 0; i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i ? i : 1);
        model_piece(&w, text, 6, 0, 6);
    }
    model_trainer(&w, 2, true);
    model_refused(&w, "255 byte pieces (wanted 256");
    w = (ModelWriter){0};
    model_usual_pieces(&w, true);
    model_trainer(&w, 2, true);
    model_normalizer(&w, false, NULL, 0);
    t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "\xc3\xa9", false), "<0xC3>|<0xA9>");
    tokenizer_close(t);
    w = (ModelWriter){0}; // of two for one byte the first is used
    model_usual_pieces(&w, true);
    model_piece(&w, "<0xc3>", 6, 0, 6);
    model_trainer(&w, 2, true);
    model_normalizer(&w, false, NULL, 0);
    t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "\xc3\xa9", false), "<0xC3>|<0xA9>");
    tokenizer_close(t);
}

Test(sentencepiece, too_many_pieces_and_none_are_refused) { // T08
    ModelWriter w = {0};
    model_trainer(&w, 2, false);
    model_refused(&w, "no pieces");
    for (int i = 0; i < 5000000; i++)
        model_raw(&w, "\x0a\x00", 2);
    // A file of that size is refused before it is read; what reads it has its own limit.
    SentencePieceModel model;
    Error error = {0};
    CHECK(!sentencepiece_model_read(&model, w.bytes, w.size, &error));
    CHECK(strstr(error.message, "more than 524288 pieces"), "%s", error.message);
    sentencepiece_model_free(&model);
    model_refused(&w, "10000000 bytes: too large for a SentencePiece model (at most 8388608)");
}

Test(sentencepiece, only_unigram_and_bpe_are_known) { // T09
    static const unsigned TYPES[] = {0, 3, 4, 99};
    for (int i = 0; i < 4; i++) {
        ModelWriter w = model_small();
        model_trainer(&w, TYPES[i], false);
        model_refused(&w, "(known: 1 unigram, 2 BPE)");
    }
    ModelWriter w = model_small();
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    Error error = {0};
    Tokenizer *t = sentencepiece_open_bytes(w.bytes, w.size, &error);
    model_writer_free(&w);
    CHECK(t && strstr(tokenizer_description(t), "unigram"), "%s", error.message);
    tokenizer_close(t);
}

Test(sentencepiece, of_a_field_given_twice_the_last_counts) { // T10
    ModelWriter w = {0};
    model_trainer(&w, 4, true); // merged with the next one
    model_normalizer(&w, false, NULL, 0);
    ModelWriter rest = model_small();
    model_raw(&w, rest.bytes, rest.size);
    model_writer_free(&rest);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "ab", false), "\xe2\x96\x81|ab");
    tokenizer_close(t);
    w = model_small();
    model_raw(&w,
              "\x0a\x0a\x0a\x01"
              "c\x0a\x01"
              "d\x18\x06\x18\x01",
              12); // text and type twice
    t = model_taken(&w);
    CHECK_INT(tokenizer_find(t, "d"), 7);
    CHECK_INT(tokenizer_find(t, "c"), -1);
    tokenizer_close(t);
}

// Any number of them may begin with one another, and one may hold a NUL.
Test(sentencepiece, user_defined_pieces_are_found_in_full) {
    char text[81] = "";
    memset(text, 'u', 80);
    ModelWriter w = model_small();
    for (size_t i = 1; i <= 70; i++)
        model_piece(&w, text, i, 0, 4);
    model_piece(&w, "u\0v", 3, 0, 4);
    Tokenizer *t = model_taken(&w);
    CHECK_INT(strlen(test_pieces(t, text, false)), 3 + 1 + 70 + 1 + 10);
    IdList ids = {0};
    Error error = {0};
    CHECK(tokenizer_encode(t, &ids, "u\0v", 3, false, &error));
    CHECK_INT(ids.count, 2);
    CHECK_INT(ids.ids[1], 7 + 70);
    id_list_free(&ids);
    tokenizer_close(t);
}

// "cab" would be the best merge and the best sum, and the rule would make "cb" of "ca".
Test(sentencepiece, user_defined_pieces_are_neither_merged_nor_normalised) {
    for (unsigned type = 1; type <= 2; type++) {
        ModelWriter w = model_small();
        size_t size;
        uint8_t *charsmap = charsmap_of_runs(1, "b", &size);
        model_piece(&w, "ca", 2, 0, 4);
        model_piece(&w, "cab", 3, 9, 1);
        model_trainer(&w, type, false);
        model_normalizer(&w, false, charsmap, size);
        free(charsmap);
        Tokenizer *t = model_taken(&w);
        CHECK_STRING(test_pieces(t, "cabaca", false), "ca|b|b|ca");
        tokenizer_close(t);
    }
}

// The library gives those of U+FFFD: then no decoding gives the byte back.
Test(sentencepiece, a_byte_that_is_no_utf8_is_its_token) {
    for (unsigned type = 1; type <= 2; type++) {
        ModelWriter w = {0};
        model_usual_pieces(&w, true);
        model_piece(&w, "a", 1, -1, 1);
        model_trainer(&w, type, true);
        model_normalizer(&w, false, NULL, 0);
        Tokenizer *t = model_taken(&w);
        CHECK_STRING(test_pieces(t,
                                 "\xff"
                                 "aa\xe4\xb8",
                                 false),
                     "<0xFF>|a|a|<0xE4>|<0xB8>");
        CHECK_STRING(test_pieces(t, "\xef\xbf\xbd", false), "<0xEF>|<0xBF>|<0xBD>");
        tokenizer_close(t);
        w = model_small(); // without byte tokens it is U+FFFD
        model_piece(&w, "\xef\xbf\xbd", 3, -1, 1);
        model_trainer(&w, type, false);
        t = model_taken(&w);
        CHECK_STRING(test_pieces(t, "\xff", false), SPACE "|\xef\xbf\xbd");
        tokenizer_close(t);
    }
}

Test(sentencepiece, user_defined_pieces_beside_one_another_are_fine) {
    ModelWriter w = model_small();
    char text[3] = "u0"; // none of 74 is the beginning of another one
    for (; text[1] < 'z'; text[1]++)
        model_piece(&w, text, 2, 0, 4);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "u1au2", false), "\xe2\x96\x81|u1|a|u2");
    tokenizer_close(t);
}

// A message of `field` that holds one field of a wire type that it does not have.
static void wire_refused(uint32_t message, uint32_t field, unsigned wire, const char *cause) {
    ModelWriter w = model_small(), inner = {0};
    if (message == 1) model_bytes(&inner, 1, "new", 3);
    model_tag(&inner, field, wire);
    model_raw(&inner, "\0\0\0\0", wire == 5 ? 4 : 1); // zero, or of no bytes
    model_bytes(&w, message, inner.bytes, inner.size);
    model_writer_free(&inner);
    model_refused(&w, cause);
}

Test(sentencepiece, fields_of_another_wire_type_are_named) {
    wire_refused(1, 1, 0, "piece: wire type 0, wanted 2");
    wire_refused(1, 2, 0, "score: wire type 0, wanted 5");
    wire_refused(1, 3, 2, "piece type: wire type 2, wanted 0");
    wire_refused(2, 3, 2, "model_type: wire type 2, wanted 0");
    wire_refused(2, 24, 2, "suffix: wire type 2, wanted 0");
    wire_refused(2, 35, 5, "byte_fallback: wire type 5, wanted 0");
    wire_refused(2, 46, 0, "bos_piece: wire type 0, wanted 2");
    wire_refused(2, 47, 0, "eos_piece: wire type 0, wanted 2");
    wire_refused(3, 2, 0, "charsmap: wire type 0, wanted 2");
    wire_refused(3, 3, 2, "dummy prefix: wire type 2, wanted 0");
    wire_refused(3, 4, 2, "extra whitespaces: wire type 2, wanted 0");
    wire_refused(3, 5, 2, "escape whitespaces: wire type 2, wanted 0");
}

// Names of other control pieces, as the trainer spec has them.
Test(sentencepiece, bos_and_eos_are_the_pieces_that_the_file_names) {
    static const char *const NAMES[] = {"<begin>", "<end>", "<end!"};
    for (unsigned named = 0; named < 2; named++) {
        ModelWriter w = model_small(), spec = {0};
        for (size_t i = 0; i < 3; i++)
            model_piece(&w, NAMES[i], strlen(NAMES[i]), 0, 3);
        if (named) model_bytes(&spec, 46, "<begin>", 7);
        if (named) model_bytes(&spec, 47, "<end!", 5);
        model_bytes(&w, 2, spec.bytes, spec.size);
        model_writer_free(&spec);
        Tokenizer *t = model_taken(&w);
        int32_t stops[4];
        CHECK_INT(tokenizer_bos(t), named ? 7 : 1);
        CHECK(tokenizer_adds_bos(t));
        CHECK_INT(tokenizer_stops(t, stops, 4), named ? 2 : 1);
        CHECK_INT(stops[0], named ? 9 : 2);
        CHECK(!named || stops[1] == 2); // </s>, which is known by its name
        tokenizer_close(t);
    }
}

// What a normalizer may do is seen in the pieces.
Test(sentencepiece, what_the_normalizer_says_is_followed) {
    static const struct {
        uint32_t message, field;
        unsigned value;
        const char *wanted; // of " a  b"
    } ROWS[] = {
        {3, 9, 0, SPACE "|" SPACE "|a|" SPACE "|" SPACE "|b"}, // no such field
        {3, 3, 0, SPACE "|a|" SPACE "|" SPACE "|b"},
        {3, 3, 1, SPACE "|" SPACE "|a|" SPACE "|" SPACE "|b"},
        {3, 4, 1, SPACE "|a|" SPACE "|b"},
        {3, 5, 0, "<unk>|a|<unk>|b"},
        {2, 24, 1, SPACE "|a|" SPACE "|" SPACE "|b|" SPACE},
        {2, 25, 1, SPACE "|" SPACE "|a|" SPACE "|" SPACE "|b"},
        {5, 3, 0, SPACE "|" SPACE "|a|" SPACE "|" SPACE "|b"}, // of the denormalizer
        {5, 5, 0, SPACE "|" SPACE "|a|" SPACE "|" SPACE "|b"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        ModelWriter w = model_small(), inner = {0};
        model_number(&inner, ROWS[i].field, ROWS[i].value);
        model_bytes(&w, ROWS[i].message, inner.bytes, inner.size);
        model_writer_free(&inner);
        Tokenizer *t = model_taken(&w);
        const char *pieces = test_pieces(t, " a  b", false);
        CHECK(!strcmp(pieces, ROWS[i].wanted), "row %zu: %s", i, pieces);
        tokenizer_close(t);
    }
}

Test(sentencepiece, spaces_that_are_not_escaped_stay_spaces) {
    for (unsigned type = 1; type <= 2; type++) {
        ModelWriter w = model_small(), spec = {0};
        model_piece(&w, " ", 1, -3, 1);
        model_piece(&w, " a", 2, -1, 1);
        model_trainer(&w, type, false);
        model_number(&spec, 4, 1);
        model_number(&spec, 5, 0);
        model_bytes(&w, 3, spec.bytes, spec.size);
        model_writer_free(&spec);
        Tokenizer *t = model_taken(&w);
        CHECK_STRING(test_pieces(t, "a  a b ", false), " a| a| |b");
        tokenizer_close(t);
    }
}

// Not even the dummy prefix; nor does a text of which rules leave nothing.
Test(sentencepiece, of_spaces_alone_nothing_is_left) {
    for (unsigned type = 1; type <= 2; type++) {
        ModelWriter w = model_small(), spec = {0};
        size_t size;
        uint8_t *charsmap = charsmap_of_runs(1, "", &size);
        model_trainer(&w, type, false);
        model_bytes(&spec, 2, charsmap, size);
        model_number(&spec, 3, 1);
        model_number(&spec, 4, 1);
        model_bytes(&w, 3, spec.bytes, spec.size);
        model_writer_free(&spec);
        free(charsmap);
        Tokenizer *t = model_taken(&w);
        CHECK_STRING(test_pieces(t, "   ", false), "");
        CHECK_STRING(test_pieces(t, " aa ", false), ""); // the prefix is a trailing space then
        CHECK_STRING(test_pieces(t, " ab ", false), SPACE "|b");
        tokenizer_close(t);
    }
}

Test(sentencepiece, bos_and_eos_have_their_usual_names_in_a_unigram_model) {
    ModelWriter w = model_small();
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    Tokenizer *t = model_taken(&w);
    int32_t stops[4];
    CHECK_INT(tokenizer_bos(t), 1);
    CHECK(tokenizer_adds_bos(t));
    CHECK_INT(tokenizer_stops(t, stops, 4), 1);
    CHECK_INT(stops[0], 2);
    tokenizer_close(t);
}

// llama.cpp's vocabularies have no normalizer and are no unigram models.
Test(sentencepiece, what_a_gguf_cannot_say_is_not_exported) {
    for (int unigram = 0; unigram < 2; unigram++) {
        ModelWriter w = model_small(), spec = {0};
        if (unigram) model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
        model_number(&spec, 5, 0);
        model_bytes(&w, 3, spec.bytes, spec.size);
        model_writer_free(&spec);
        Tokenizer *t = model_taken(&w);
        Vocabulary out = {0};
        Error error = {0};
        CHECK(!t->kind->describe(t, &out, NULL, &error));
        CHECK_STRING(error.message,
                     unigram ? "it is a unigram model" : "its normalizer changes the text");
        tokenizer_close(t);
    }
}

// llama.cpp splits a text at them too.
Test(sentencepiece, user_defined_pieces_can_be_exported) {
    ModelWriter w = model_small();
    model_piece(&w, "<mask>", 6, 0, 4);
    Tokenizer *t = model_taken(&w);
    Vocabulary out = {0};
    Error error = {0};
    CHECK(t->kind->describe(t, &out, NULL, &error), "%s", error.message);
    CHECK_STRING(out.model, "llama");
    CHECK_INT(out.add_space_prefix, 1);
    tokenizer_close(t);
}

// With byte pieces nothing is unknown: a run of anything has three ids a character.
Test(sentencepiece, a_unigram_model_with_bytes_has_no_unknown_characters) {
    ModelWriter w = {0};
    model_usual_pieces(&w, true);
    model_piece(&w, "a", 1, -1, 1);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, true);
    model_normalizer(&w, false, NULL, 0);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "a\xe2\x82\xac", false), "a|<0xE2>|<0x82>|<0xAC>");
    tokenizer_close(t);
}
