// Long runs of unknown characters: the library gets a shorter text, the ids are the same. With
// models written by hand; test_sentencepiece_oracle.c has published and trained ones.
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece/sentencepiece.h"
#include "tokenizer/sentencepiece/sentencepiece_c.h"

// A model with a rule that is longer than a character (aaa -> x), user-defined pieces, an unused
// one, and pieces whose characters are no pieces by themselves.
static ModelWriter model_of_corners(unsigned model_type) {
    static const struct {
        const char *text;
        unsigned type;
    } PIECES[] = {{"\xe2\x96\x81", 1}, {"b", 1}, {"c", 1},      {"bc", 1}, {"qu", 1},
                  {"ij", 1},           {"z", 5}, {"<mask>", 4}, {"aq", 4}, {"\xef\xbf\xbd", 1}};
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++)
        model_piece(&w, PIECES[i].text, strlen(PIECES[i].text), -1 - (float)i, PIECES[i].type);
    size_t size;
    uint8_t *charsmap = charsmap_of_runs(3, "x", &size);
    model_trainer(&w, model_type, false);
    model_normalizer(&w, true, charsmap, size);
    free(charsmap);
    return w;
}

Test(unknown_runs, runs_in_a_model_of_corners_keep_their_ids) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    static const char *const UNITS[] = {"a", "b", "c",      "q",  "u",  "i", "j", "z",   "x",
                                        "<", ">", "<mask>", "aq", "ma", " ", "?", "\xff"};
    for (unsigned model_type = 1; model_type <= 2; model_type++) {
        ModelWriter w = model_of_corners(model_type);
        model_same_as_library(w.bytes, w.size, UNITS, 17, 12);
        model_same_as_library(w.bytes, w.size, UNITS, 17, 900);
        model_writer_free(&w);
    }
}

// Characters that a run could be replaced by, in the order in which they are tried, are pieces
// here, the first of them piece 0; so is a text whose pairs are the only ones. None of them may
// stand for an unknown character.
Test(unknown_runs, what_stands_for_a_run_is_no_piece) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    static const char *const TAKEN[] = {"\xf4\x80\x80\x80", "\xf3\x80\x80\x80", "\xf2\x80\x80\x80",
                                        "\xf1\x80\x80\x80", "\xee\x80\x80"};
    static const char *const UNITS[] = {"?", "!", "\xf4\x80\x80\x80", "xyzw", "x", "w", "b"};
    for (size_t count = 1; count <= 5; count++) {
        ModelWriter w = {0};
        for (size_t i = 0; i < count; i++)
            model_piece(&w, TAKEN[i], strlen(TAKEN[i]), -1, 1);
        model_usual_pieces(&w, false);
        model_piece(&w, "b", 1, -2, 1);
        model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
        model_normalizer(&w, true, NULL, 0);
        model_same_as_library(w.bytes, w.size, UNITS, 7, 900);
        model_writer_free(&w);
    }
    ModelWriter w = {0};
    model_piece(&w, "xyzw", 4, -1, 1);
    model_usual_pieces(&w, false);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    model_normalizer(&w, true, NULL, 0);
    model_same_as_library(w.bytes, w.size, UNITS, 7, 900);
    model_writer_free(&w);
}

// A rule that gives a piece ends a run, one that gives an unknown character or nothing does not.
Test(unknown_runs, rules_give_pieces_unknown_characters_or_nothing) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    static const char *const GIVES[] = {"b", "?", "", "?b", "b?", "qu", "q"};
    static const char *const UNITS[] = {"a", "?", "!", "b", "q", "u", "\xff"};
    for (size_t i = 0; i < sizeof GIVES / sizeof *GIVES; i++) {
        ModelWriter w = {0};
        size_t size;
        uint8_t *charsmap = charsmap_of_runs(2, GIVES[i], &size);
        model_usual_pieces(&w, false);
        model_piece(&w, "b", 1, -1, 1);
        model_piece(&w, "qu", 2, -2, 1);
        model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
        model_normalizer(&w, true, charsmap, size);
        free(charsmap);
        if (i < 3) model_same_as_library(w.bytes, w.size, UNITS, 7, 900);
        char text[1300];
        memset(text, '?', sizeof text);
        text[400] = 'a'; // behind a run that is replaced and in front of another one
        text[800] = 'b';
        model_same_text(w.bytes, w.size, text, sizeof text);
        model_writer_free(&w);
    }
}

// ---- what the library sees ----

// `text` shortened for a unigram model that has b, qu and pieces that are not found in a text, in
// memory of exactly its size.
static size_t shortened(char *out, const char *text, size_t length) {
    ModelWriter w = {0};
    model_piece(&w, "\1", 1, -1, 1); // behind the types in memory: where one too many is read
    model_usual_pieces(&w, false);
    model_piece(&w, "b", 1, -1, 1);
    model_piece(&w, "qu", 2, -2, 1);
    model_piece(&w, "!", 1, 0, 3);  // control
    model_piece(&w, "z", 1, -3, 5); // unused
    model_piece(&w, "<mask>", 6, 0, 4);
    static int n; // other pieces each time, so that the tables of them are others
    for (int i = 0; i < 6; i++, n++)
        model_piece(&w, test_text("\2%d", n), strlen(test_text("\2%d", n)), -4, 1);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    model_normalizer(&w, true, NULL, 0);
    SentencePieceModel model;
    Error error = {0};
    CHECK(sentencepiece_model_read(&model, w.bytes, w.size, &error), "%s", error.message);
    Tokenizer *t = sentencepiece_open_bytes(w.bytes, w.size, &error);
    CHECK(t, "%s", error.message);
    KnownCharacters *known = known_characters(&model, t, &error);
    char *from = malloc(length), *to = malloc(length);
    memcpy(from, text, length);
    size_t left = shorten_unknown_runs(to, from, length, known);
    memcpy(out, to, left);
    free(from);
    free(to);
    known_characters_free(known);
    tokenizer_close(t);
    sentencepiece_model_free(&model);
    model_writer_free(&w);
    return left;
}

#define STAND_IN "\xf4\x80\x80\x80"

// Of `count` times the unit, and what follows them.
Test(unknown_runs, of_more_than_256_become_one_character) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    static const struct {
        const char *unit;
        size_t count;
        const char *rest, *wanted; // NULL: the text as it is
    } ROWS[] = {
        {"?", 256, "", NULL},
        {"?", 257, "", STAND_IN},
        {"?", 900, "", STAND_IN},
        {"\xe4\xb8\xad", 300, "", STAND_IN},
        {"\xff", 300, "", STAND_IN},
        {"!", 300, "", STAND_IN},
        {"z", 300, "", STAND_IN},
        {"b", 300, "", NULL},
        {" ", 300, "", NULL},
        {"qu", 300, "", NULL},
        {"?", 300, "b?", STAND_IN "b?"},
        {"?", 300, "<mask>", STAND_IN "<mask>"},
        {"?", 300, "<mas", STAND_IN "<mas"}, // its neighbours are some in a piece
        {"?", 300, "\xe4\xb8", STAND_IN},
        {"q", 300, "u", STAND_IN "qu"},
        {"q", 257, "u", NULL}, // 256 without the last
        {"q", 258, "u", STAND_IN "qu"},
        {"u", 300, "q", STAND_IN},
        {"u", 257, "\xff", STAND_IN}, // a piece ends with u, and nothing follows it there
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        char text[2000] = "", out[2000] = "";
        for (size_t n = 0; n < ROWS[i].count; n++)
            strcat(text, ROWS[i].unit);
        strcat(text, ROWS[i].rest);
        out[shortened(out, text, strlen(text))] = '\0';
        CHECK(!strcmp(out, ROWS[i].wanted ? ROWS[i].wanted : text), "row %zu: %s", i, out);
    }
}

// A corner at a time: a rule that gives nothing, a piece of a known character and one that is none,
// and a rule that begins as what stands for a run does.
typedef struct Corner {
    const char *piece; // more than a model of corners has; "": none
    const char *rule;  // one byte of a rule instead of a; "": a
    const char *to;
} Corner;

static ModelWriter model_of_corner(const Corner *corner) {
    ModelWriter w = model_of_corners(1);
    if (*corner->piece) model_piece(&w, corner->piece, strlen(corner->piece), -9, 1);
    size_t size;
    uint8_t *charsmap = charsmap_of_runs(1, corner->to, &size);
    if (*corner->rule) { // block 0 is the root's, unit 512 the leaf: sentencepiece_writer.c
        uint32_t byte = (uint8_t)*corner->rule, pos = 256 ^ byte;
        uint32_t unit = (pos ^ 512) << 10 | 1u << 8 | byte;
        memcpy(charsmap + 4 + 4 * (size_t)pos, &unit, sizeof unit);
    }
    model_normalizer(&w, true, charsmap, size);
    free(charsmap);
    return w;
}

Test(unknown_runs, each_corner_of_a_model_keeps_the_ids) {
    if (!sentencepiece_available()) SKIP("built without sentencepiece");
    static const char *const UNITS[] = {"a", "b", "Q", "bQ", " ", "?", "\xff", "\xf4\x80\x80\x80"};
    static const Corner CORNERS[] = {
        {"", "", ""},      // a is left out
        {"", "", "?!"},    // ... two characters that are unknown
        {"", "", "qu"},    // a becomes a piece whose letters are none
        {"bQ", "", "x"},   // b is a piece, Q is none
        {"", "\xf4", "x"}, // the first stand-in begins a rule
    };
    for (size_t i = 0; i < sizeof CORNERS / sizeof *CORNERS; i++) {
        ModelWriter w = model_of_corner(&CORNERS[i]);
        model_same_as_library(w.bytes, w.size, UNITS, 8, 12);
        model_same_as_library(w.bytes, w.size, UNITS, 8, 900);
        model_writer_free(&w);
    }
}
