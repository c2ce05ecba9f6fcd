// Unigram models: the best sum worked out by hand, unknown characters, and the trie of pieces
// beside a search without one. What the library gives is compared in test_sentencepiece_oracle.c,
// and here for models whose corners it might take otherwise.
#include "base/text.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

typedef struct Piece {
    const char *text;
    float score;
    unsigned type;
} Piece;

// Of these pieces (text NULL behind the last); no dummy prefix.
static Tokenizer *open_pieces(const Piece *pieces) {
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    for (; pieces->text; pieces++)
        model_piece(&w, pieces->text, strlen(pieces->text), pieces->score, pieces->type);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    model_normalizer(&w, false, NULL, 0);
    return model_taken(&w);
}

static void check_pieces(const Piece *pieces, const char *text, const char *wanted) {
    Tokenizer *t = open_pieces(pieces);
    const char *got = test_pieces(t, text, false);
    CHECK(!strcmp(got, wanted), "\"%s\": %s, wanted %s", text, got, wanted);
    tokenizer_close(t);
}

#define PIECES(...) ((const Piece[]){__VA_ARGS__, {NULL, 0, 0}})

Test(unigram, the_highest_sum_wins) {
    check_pieces(PIECES({"a", -1, 1}, {"b", -1, 1}, {"c", -1, 1}, {"ab", -3, 1}, {"abc", -2.5f, 1}),
                 "abcab", "abc|a|b"); // -2.5 against -3 and -4; -2 against -3
    check_pieces(PIECES({"a", -1, 1}, {"b", -1, 1}, {"c", -1, 1}, {"ab", -3, 1}, {"abc", -3.5f, 1}),
                 "abc", "a|b|c"); // -3 against -3.5
    check_pieces(PIECES({"a", -4, 1}, {"ab", -1, 1}, {"bc", -1, 1}, {"c", -9, 1}), "abc",
                 "a|bc"); // -5 against -10: the longest first is not the best
}

// A later way must be better, not as good: the piece that begins first stays.
Test(unigram, of_equal_sums_the_one_found_first_wins) {
    check_pieces(PIECES({"a", -1, 1}, {"b", -1, 1}, {"ab", -2, 1}), "ab", "ab");
    check_pieces(PIECES({"a", -1, 1}, {"b", -1, 1}, {"c", -1, 1}, {"ab", -2, 1}, {"bc", -2, 1}),
                 "abc", "a|bc"); // bc ends with -3 before ab|c does
}

// Its score is the highest one for each byte, less 0.1; here 2 * 0 - 0.1, almost.
Test(unigram, user_defined_pieces_win) {
    check_pieces(PIECES({"x", -1, 1}, {"a", -0.01f, 1}, {"b", -0.01f, 1}, {"ab", 50, 4}), "xabx",
                 "x|a|b|x"); // -0.02 against -0.1
    check_pieces(PIECES({"x", -1, 1}, {"a", -0.06f, 1}, {"b", -0.06f, 1}, {"ab", -99, 4}), "xabx",
                 "x|ab|x");
    check_pieces(PIECES({"x", 2, 1}, {"xy", 3, 1}, {"yz", -99, 4}, {"z", 1, 1}), "xyz",
                 "x|yz"); // 2 + 2 * 3 - 0.1 against 3 + 1
}

Test(unigram, what_text_cannot_match_is_no_piece) {
    check_pieces(PIECES({"a", -1, 1}, {"ab", -1, 5}, {"b", -1, 5}, {"abc", -1, 3}), "abc",
                 "a|<unk>"); // unused, unused, control
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    model_piece(&w, "a", 1, -1, 5);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    model_refused(&w, "no piece that a text can match");
}

// An unknown character costs the lowest score less ten: -12 here.
Test(unigram, an_unknown_character_is_dear_and_a_run_is_one_token) {
    const Piece *pieces = PIECES({"a", -2, 1}, {"ab", -1, 1}, {"bxx", -2, 1}, {"x", -2, 1});
    check_pieces(pieces, "abxx", "a|bxx"); // -4 against -5
    check_pieces(pieces, "qab\xff\xe4\xb8\xad q", "<unk>|ab|<unk>");
    check_pieces(pieces, "bxxb", "bxx|<unk>");
    check_pieces(PIECES({"xy", 20.5f, 1}), "xy", "<unk>"); // 2 * 10.5 against 20.5
    check_pieces(PIECES({"xy", 20.5f, 1}, {"q", -99, 4}), "xy", "<unk>");
    check_pieces(PIECES({"xy", 19.5f, 1}), "xy", "xy"); // 2 * 9.5 against 19.5
    Tokenizer *t = open_pieces(pieces);
    char text[3001];
    memset(text, 'q', 3000);
    text[3000] = '\0';
    CHECK_STRING(test_pieces(t, text, false), "<unk>");
    tokenizer_close(t);
}

// Piece 0 is one like the others: with its score an unknown character is not worth -11, but -40.
Test(unigram, the_first_piece_may_be_the_lowest) {
    ModelWriter w = {0};
    model_piece(&w, "ab", 2, -30, 1);
    model_piece(&w, "a", 1, -1, 1);
    model_usual_pieces(&w, false);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
    model_normalizer(&w, false, NULL, 0);
    Tokenizer *t = model_taken(&w);
    CHECK_STRING(test_pieces(t, "ab", false), "ab");
    tokenizer_close(t);
}

// Behind a score of -2^25, where floats are 4 apart, 0.9 less is no less: then the piece that ends
// there first stays, as in the library.
Test(unigram, sums_are_float32) {
    const Piece *pieces = PIECES({"a", -0.9f, 1}, {"aa", -1.9f, 1}, {"B", -33554432, 1});
    check_pieces(pieces, "aa", "a|a");
    check_pieces(pieces, "Baa", "B|aa");
    check_pieces(pieces, "aaB", "a|a|B");
    // Also where what is put out at once are two pieces, since a third reaches across.
    pieces = PIECES({"a", -0.9f, 1}, {"aa", -1.9f, 1}, {"B", -33554432, 1}, {"c", -1, 1},
                    {"cB", -67108864, 1});
    check_pieces(pieces, "cBaa", "c|B|aa");
}

// No place in it is one that every way goes through.
Test(unigram, a_stretch_may_be_as_long_as_the_text) {
    Tokenizer *t = open_pieces(PIECES({"a", -1, 1}, {"aa", -1.5f, 1}, {"aaa", -2, 1}));
    enum { LENGTH = 300001 }; // 3 n + 1
    char *text = malloc(LENGTH);
    memset(text, 'a', LENGTH);
    IdList ids = {0};
    Error error = {0};
    CHECK(tokenizer_encode(t, &ids, text, LENGTH, false, &error));
    CHECK_INT(ids.count, LENGTH / 3 + 1);
    size_t lengths = 0;
    for (size_t i = 0; i < ids.count; i++)
        lengths += (size_t)ids.ids[i] - 2; // ids 3, 4, 5 have 1, 2, 3 bytes
    CHECK_INT(lengths, LENGTH);
    CHECK(tokenizer_steps(t) < 5 * LENGTH, "%llu steps", (unsigned long long)tokenizer_steps(t));
    id_list_free(&ids);
    free(text);
    tokenizer_close(t);
}

Test(unigram, pieces_that_end_inside_a_character_lead_nowhere) {
    const Piece *pieces = PIECES({"\xe4\xb8", -1, 1}, {"\xe4\xb8\xad", -5, 1}, {"a", -1, 1});
    check_pieces(pieces,
                 "a\xe4\xb8\xad"
                 "a\xe4\xb8\xae",
                 "a|\xe4\xb8\xad|a|<unk>");
}

// ---- limits: each node of a path is tried at each byte of a text ----

// count pieces a^1 suffix, a^2 suffix ..., of this type.
static ModelWriter model_of_runs(unsigned model_type, size_t count, const char *suffix,
                                 unsigned type) {
    char text[2000] = "";
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    model_piece(&w, "x", 1, -1, 1);
    for (size_t i = 1; i <= count; i++) {
        memset(text, 'a', i);
        strcpy(text + i, suffix);
        model_piece(&w, text, strlen(text), -1, type);
    }
    model_trainer(&w, model_type, false);
    return w;
}

Test(unigram, the_trie_of_pieces_has_a_limited_depth) {
    static const struct {
        unsigned model_type;
        const char *suffix; // with one no piece begins with another
        unsigned type;
    } ROWS[] = {{1, "", 1}, {1, "b", 1}, {1, "b", 4}, {2, "", 4}, {2, "b", 4}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        // The root, a node for each a, and one for the b behind the last; of "b" alone there is
        // none.
        size_t most = 255;
        ModelWriter w = model_of_runs(ROWS[i].model_type, most, ROWS[i].suffix, ROWS[i].type);
        model_fine(&w);
        w = model_of_runs(ROWS[i].model_type, most + 1, ROWS[i].suffix, ROWS[i].type);
        model_refused(&w, "a trie of pieces 257 nodes deep (at most 256)");
    }
    ModelWriter w = model_of_runs(2, 300, "", 1); // BPE has no trie of normal pieces
    model_fine(&w);
}

Test(unigram, pieces_are_at_most_1024_bytes_long) {
    char text[1026];
    memset(text, 'y', sizeof text);
    for (unsigned row = 0; row < 3; row++) {
        for (size_t length = 1024; length <= 1025; length++) {
            ModelWriter w = model_of_runs(row == 1 ? 2 : 1, 1, "", 1);
            model_piece(&w, text, length, -1, row ? 4 : 1);
            if (length == 1024) {
                Tokenizer *t = model_taken(&w);
                IdList ids = {0};
                Error error = {0};
                CHECK(tokenizer_encode(t, &ids, text, 1024, false, &error));
                CHECK_INT(ids.count, 2); // U+2581 is unknown
                CHECK_INT(ids.ids[1], 5);
                id_list_free(&ids);
                tokenizer_close(t);
            } else {
                model_refused(&w, "piece 5: 1025 bytes long (at most 1024)");
            }
        }
    }
}

Test(unigram, decoding_gives_the_bytes_back) {
    ModelWriter w = {0};
    model_usual_pieces(&w, true);
    static const char *const TEXTS[] = {SPM_SPACE,      "a",   "aa", SPM_SPACE SPM_SPACE,
                                        "\xe4\xb8\xad", "\xc3"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        model_piece(&w, TEXTS[i], strlen(TEXTS[i]), -1 - (float)i, 1);
    model_trainer(&w, SENTENCEPIECE_UNIGRAM, true);
    model_normalizer(&w, true, NULL, 0);
    Tokenizer *t = model_taken(&w);
    test_gives_bytes_back(t);
    tokenizer_close(t);
}

// ---- corners, as the library takes them ----

// A rule that is longer than a character (aaa -> x), user-defined pieces, an unused one, and pieces
// whose characters are no pieces by themselves.
static ModelWriter model_of_corners(unsigned model_type) {
    static const Piece CORNERS[] = {{"\xe2\x96\x81", -1, 1},
                                    {"b", -2, 1},
                                    {"c", -3, 1},
                                    {"bc", -4, 1},
                                    {"qu", -5, 1},
                                    {"ij", -6, 1},
                                    {"z", -7, 5},
                                    {"<mask>", -8, 4},
                                    {"aq", -9, 4},
                                    {"\xef\xbf\xbd", -10, 1}};
    ModelWriter w = {0};
    model_usual_pieces(&w, false);
    for (size_t i = 0; i < sizeof CORNERS / sizeof *CORNERS; i++)
        model_piece(&w, CORNERS[i].text, strlen(CORNERS[i].text), CORNERS[i].score,
                    CORNERS[i].type);
    size_t size;
    uint8_t *charsmap = charsmap_of_runs(3, "x", &size);
    model_trainer(&w, model_type, false);
    model_normalizer(&w, true, charsmap, size);
    free(charsmap);
    return w;
}

Test(unigram, corners_have_the_ids_of_the_library) {
    static const char *const UNITS[] = {"a", "b", "c",      "q",  "u",  "i", "j", "z",   "x",
                                        "<", ">", "<mask>", "aq", "ma", " ", "?", "\xff"};
    for (unsigned model_type = 1; model_type <= 2; model_type++) {
        ModelWriter w = model_of_corners(model_type);
        model_same_as_library(w.bytes, w.size, UNITS, 17, 12);
        model_same_as_library(w.bytes, w.size, UNITS, 17, 900);
        model_writer_free(&w);
    }
}

// Of one rule: pieces, unknown characters, both, or nothing.
Test(unigram, whatever_rules_give_has_the_ids_of_the_library) {
    static const char *const GIVES[] = {"b", "?", "", "?b", "b?", "qu", "q", " ", "  b"};
    static const char *const UNITS[] = {"a", "?", "!", "b", "q", "u", "\xff", " "};
    for (size_t i = 0; i < sizeof GIVES / sizeof *GIVES; i++) {
        ModelWriter w = {0}, spec = {0};
        size_t size;
        uint8_t *charsmap = charsmap_of_runs(2, GIVES[i], &size);
        model_usual_pieces(&w, false);
        model_piece(&w, "b", 1, -1, 1);
        model_piece(&w, "qu", 2, -2, 1);
        model_piece(&w, SPM_SPACE, 3, -2, 1);
        model_trainer(&w, SENTENCEPIECE_UNIGRAM, false);
        model_bytes(&spec, 2, charsmap, size); // and remove_extra_whitespaces, by default
        model_bytes(&w, 3, spec.bytes, spec.size);
        free(charsmap);
        model_same_as_library(w.bytes, w.size, UNITS, 8, 9);
        model_writer_free(&spec);
        model_writer_free(&w);
    }
}

// ---- the trie ----

// The next longer piece that the text begins with, among all.
static int32_t next_of_all(const TextSpan *pieces, size_t count, size_t longer, const char *text,
                           size_t length) {
    int32_t found = -1;
    for (size_t i = 0; i < count; i++)
        if (pieces[i].length > longer && pieces[i].length <= length &&
            !memcmp(text, pieces[i].text, pieces[i].length) &&
            (found < 0 || pieces[i].length < pieces[found].length))
            found = (int32_t)i;
    return found;
}

// Texts of up to 9 of `letters` bytes, of which the first is a NUL.
static size_t random_text(char *text, TestRandom *random, unsigned letters) {
    size_t length = 1 + test_random(random) % 9;
    for (size_t i = 0; i < length; i++)
        text[i] = (char)(test_random(random) % letters * 85);
    return length;
}

Test(unigram, the_trie_finds_each_piece_that_a_text_begins_with) {
    enum { PIECES = 60, ROOM = 16 };
    TestRandom random = {4};
    for (int round = 0; round < 400; round++) {
        char texts[PIECES][ROOM], text[ROOM];
        TextSpan pieces[PIECES];
        uint8_t types[PIECES];
        size_t count = 0, wanted = test_random(&random) % PIECES;
        unsigned letters = 1 + (unsigned)test_random(&random) % 4;
        for (size_t tries = 0; count < wanted && tries < 500; tries++) {
            pieces[count] = (TextSpan){texts[count], random_text(texts[count], &random, letters)};
            types[count] = TOKEN_NORMAL;
            size_t same = 0;
            while (span_compare(pieces[same], pieces[count]))
                same++;
            count += same == count;
        }
        PieceTrie trie;
        Error error = {0};
        Tokenizer t = {.n_tokens = count, .tokens = pieces, .types = types};
        CHECK(piece_trie_open(&trie, &t, 1u << TOKEN_NORMAL, &error));
        CHECK(trie.n_nodes <= 2 * count + 1, "%zu nodes of %zu pieces", trie.n_nodes, count);
        for (int i = 0; i < 50; i++) {
            size_t length = random_text(text, &random, letters), longer = 0;
            uint32_t node = 0;
            for (int32_t id = 0; id >= 0; longer = id < 0 ? longer : pieces[id].length) {
                id = piece_trie_next(&trie, &node, text, length);
                CHECK_INT(id, next_of_all(pieces, count, longer, text, length));
                if (id < 0) CHECK_INT(piece_trie_longest(&trie, text, length), longer);
            }
        }
        piece_trie_close(&trie);
    }
}
