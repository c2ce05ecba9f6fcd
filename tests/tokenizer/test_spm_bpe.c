// SPM-BPE on vocabularies made in the test: merges worked by hand, ids compared with the
// sentencepiece library on random models, steps counted, and long texts on a small stack.
#include "base/text.h"
#include "tests/support/files/long_texts.h"
#include "tests/support/files/sentencepiece_writer.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/bpe/spm.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

enum { MOST = 700 };

typedef struct Words {
    size_t count;
    char text[MOST][24];
    TextSpan tokens[MOST];
    float scores[MOST];
    uint8_t types[MOST];
} Words;

static int add(Words *w, const char *text, float score, TokenType type) {
    size_t i = w->count++;
    snprintf(w->text[i], sizeof w->text[i], "%s", text);
    w->tokens[i] = (TextSpan){w->text[i], strlen(w->text[i])};
    w->scores[i] = score;
    w->types[i] = (uint8_t)type;
    return (int)i;
}

static void add_specials(Words *w, bool bytes) {
    add(w, "<unk>", 0, TOKEN_UNKNOWN);
    add(w, "<s>", 0, TOKEN_CONTROL);
    add(w, "</s>", 0, TOKEN_CONTROL);
    for (int i = 0; bytes && i < 256; i++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", i);
        add(w, text, 0, TOKEN_BYTE);
    }
}

static Vocabulary vocabulary_of(const Words *w, int add_space_prefix) {
    Vocabulary v = VOCABULARY_ABSENT;
    v.model = "llama";
    v.n_tokens = w->count;
    v.tokens = w->tokens;
    v.scores = w->scores;
    v.types = w->types;
    v.add_space_prefix = add_space_prefix;
    return v;
}

static Tokenizer *open_words(const Words *w, int add_space_prefix) {
    Vocabulary vocabulary = vocabulary_of(w, add_space_prefix);
    return test_open_vocabulary(&vocabulary);
}

// ---- by hand ----

Test(spm_bpe, joins_by_score_and_leftmost_of_equals) {
    Words w = {.count = 0};
    add_specials(&w, false);
    add(&w, "\xe2\x96\x81", -9, TOKEN_NORMAL);
    add(&w, "a", -8, TOKEN_NORMAL);
    add(&w, "b", -8, TOKEN_NORMAL);
    add(&w, "ab", -3, TOKEN_NORMAL);
    add(&w, "ba", -2, TOKEN_NORMAL);
    add(&w, "aa", -4, TOKEN_NORMAL);
    Tokenizer *t = open_words(&w, 0);
    CHECK_STRING(test_pieces(t, "abab", false), "a|ba|b"); // "ba" -2 before "ab" -3
    CHECK_STRING(test_pieces(t, "aaaaa", false), "aa|aa|a");
    CHECK_STRING(test_pieces(t, "aab", false), "a|ab");
    CHECK_STRING(test_pieces(t, "", false), "");
    tokenizer_close(t);
    t = open_words(&w, -1); // absent: a space is put before the text
    CHECK_STRING(test_pieces(t, "ab", false), "\xe2\x96\x81|ab");
    CHECK_STRING(test_pieces(t, " ab", false), "\xe2\x96\x81|\xe2\x96\x81|ab");
    tokenizer_close(t);
}

Test(spm_bpe, what_is_no_piece_becomes_bytes_or_unknown) {
    Words w = {.count = 0};
    add_specials(&w, true);
    add(&w, "a", -1, TOKEN_NORMAL);
    Tokenizer *t = open_words(&w, 0);
    CHECK_STRING(test_pieces(t, "a\xe4\xb8\xad\n", false), "a|<0xE4>|<0xB8>|<0xAD>|<0x0A>");
    CHECK_STRING(test_pieces(t,
                             "\xff"
                             "a",
                             false),
                 "<0xFF>|a");
    CHECK_STRING(test_pieces(t, " ", false), "<0xE2>|<0x96>|<0x81>");
    tokenizer_close(t);
    Words poor = {.count = 0};
    add_specials(&poor, false);
    add(&poor, "a", -1, TOKEN_NORMAL);
    t = open_words(&poor, 0);
    CHECK_STRING(test_pieces(t, "xyzaxa\xe4\xb8\xad", false), "<unk>|a|<unk>|a|<unk>");
    size_t length;
    const char *shown = tokenizer_piece(t, 0, false, false, &length);
    CHECK(length == 5 && !memcmp(shown, " \xe2\x81\x87 ", 5)); // as the library decodes it
    tokenizer_close(t);
    poor.types[0] = TOKEN_NORMAL; // no unknown token either
    t = open_words(&poor, 0);
    CHECK_STRING(test_pieces(t, "xay", false), "a");
    tokenizer_close(t);
}

Test(spm_bpe, text_never_makes_control_or_byte_tokens) {
    Words w = {.count = 0};
    add_specials(&w, true);
    static const char *const PIECES[] = {"<", "s", ">", "<s", "s>",  "/",  "</",
                                         "0", "x", "A", "<0", "<0x", "0A", "0A>"};
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++)
        add(&w, PIECES[i], -(float)i, TOKEN_NORMAL);
    Tokenizer *t = open_words(&w, 0);
    CHECK_STRING(test_pieces(t, "<s>", false), "<s|>");
    CHECK_STRING(test_pieces(t, "a<s>", true), "<0x61>|<s>");
    CHECK_STRING(test_pieces(t, "</s>", false), "</|s>");
    CHECK_STRING(test_pieces(t, "<0x0A>", false), "<0x|0A>");
    CHECK_STRING(test_pieces(t, "<0x0A>", true), "<0x|0A>");
    tokenizer_close(t);
}

Test(spm_bpe, user_defined_pieces_are_cut_out_first) {
    Words w = {.count = 0};
    add_specials(&w, true);
    add(&w, "a", -1, TOKEN_NORMAL);
    add(&w, "aa", -1, TOKEN_NORMAL);
    add(&w, "ax", 0, TOKEN_USER_DEFINED);
    add(&w, "\xe2\x96\x81\xe2\x96\x81", 0, TOKEN_USER_DEFINED); // two spaces
    Tokenizer *t = open_words(&w, 0);
    CHECK_STRING(test_pieces(t, "aaax", false), "aa|ax");
    CHECK_STRING(test_pieces(t, "a  a", false), "a|\xe2\x96\x81\xe2\x96\x81|a");
    size_t length;
    const char *shown =
        tokenizer_piece(t, tokenizer_find(t, "\xe2\x96\x81\xe2\x96\x81"), false, false, &length);
    CHECK(length == 2 && !memcmp(shown, "  ", 2));
    tokenizer_close(t);
}

Test(spm_bpe, unused_pieces_help_to_join_but_are_taken_apart) {
    Words w = {.count = 0};
    add_specials(&w, false);
    add(&w, "a", -9, TOKEN_NORMAL);
    add(&w, "b", -9, TOKEN_NORMAL);
    add(&w, "c", -9, TOKEN_UNUSED); // one character: cannot be split
    add(&w, "ab", -1, TOKEN_UNUSED);
    add(&w, "abc", -2, TOKEN_UNUSED);
    add(&w, "abca", -3, TOKEN_NORMAL);
    Tokenizer *t = open_words(&w, 0);
    CHECK_STRING(test_pieces(t, "abca", false), "abca");
    CHECK_STRING(test_pieces(t, "abc", false), "a|b|c");
    CHECK_STRING(test_pieces(t, "abcb", false), "a|b|c|b");
    tokenizer_close(t);
}

Test(spm_bpe, bad_vocabularies_are_refused) {
    Words w = {.count = 0};
    add_specials(&w, false);
    add(&w, "a", NAN, TOKEN_NORMAL);
    for (int i = 0; i < 4; i++) {
        static const char *const CAUSES[] = {"token 3: its score is NaN",
                                             "token 3: unknown type 99 (at most 6)", "no tokens",
                                             "65537 bytes long (at most 65536)"};
        static char large[65537];
        Vocabulary v = vocabulary_of(&w, 0);
        if (i > 0) w.scores[3] = 0;
        w.types[3] = i == 1 ? 99 : TOKEN_NORMAL;
        if (i == 2) v.n_tokens = 0;
        w.tokens[3] = i == 3 ? (TextSpan){large, sizeof large} : (TextSpan){"a", 1};
        Error error = {0};
        TokenizerSource source = {.vocabulary = &v};
        CHECK(!tokenizer_open(&source, &error), "%s", CAUSES[i]);
        CHECK_INT(error.code, ERROR_FILE);
        CHECK(strstr(error.message, CAUSES[i]), "%s", error.message);
    }
    w.tokens[3].length = 65536;
    static char fits[65536];
    w.tokens[3].text = fits;
    tokenizer_close(open_words(&w, 0));
    Vocabulary bare = vocabulary_of(&w, 0); // neither scores nor types
    bare.scores = NULL;
    bare.types = NULL;
    Tokenizer *t = test_open_vocabulary(&bare);
    CHECK_INT(tokenizer_type(t, 0), TOKEN_UNKNOWN);
    CHECK_INT(tokenizer_type(t, 1), TOKEN_CONTROL);
    tokenizer_close(t);
}

// ---- against the library ----

// The library puts the space prefix before it matches user-defined pieces, a GGUF's vocabulary
// after: so these have no space here.
static void check_against_library(const ModelWriter *w, TestRandom *random) {
    SentencePieceModel model;
    Error error = {0};
    CHECK(sentencepiece_model_read(&model, w->bytes, w->size, &error), "%s", error.message);
    Vocabulary v = {.model = "llama",
                    .n_tokens = model.n_pieces,
                    .tokens = model.pieces,
                    .scores = model.scores,
                    .types = model.types,
                    .unk_id = -1,
                    .add_space_prefix = 0};
    Tokenizer *t = test_open_vocabulary(&v);
    static char text[50 * 200];
    char *end = text;
    for (int round = 0; round < 50; round++) {
        static const char *const LETTERS[] = {"a", "b", "\xc3\xa9", " ", "z"};
        for (size_t n = test_random(random) % 60; n; n--)
            end += sprintf(end, "%s", LETTERS[test_random(random) % 5]);
        *end++ = '\n';
    }
    *end = '\0';
    same_as_spm_encode(t, w->bytes, w->size, text, (size_t)(end - text));
    tokenizer_close(t);
    sentencepiece_model_free(&model);
}

Test(spm_bpe, agrees_with_the_library_on_random_models) {
    TestRandom random = {1};
    for (int i = 0; i < 100; i++) {
        ModelWriter w = model_random(&random, SENTENCEPIECE_BPE, true);
        check_against_library(&w, &random);
        model_writer_free(&w);
    }
}

// ---- cost ----

// A vocabulary with many merges: runs of a letter and of spaces up to 16, and all bytes.
static Tokenizer *open_runs(void) {
    Words w = {.count = 0};
    add_specials(&w, true);
    for (int n = 1; n <= 16; n *= 2) {
        char a[24] = "", spaces[64] = "";
        for (int i = 0; i < n; i++)
            strcat(a, "a");
        for (int i = 0; i < n && i < 4; i++)
            strcat(spaces, SPM_SPACE);
        add(&w, a, -(float)n, TOKEN_NORMAL);
        if (n <= 4) add(&w, spaces, -(float)n, TOKEN_NORMAL);
    }
    add(&w, "\xe4\xb8\xad", -1, TOKEN_NORMAL);
    add(&w, "\xe4\xb8\xad\xe4\xb8\xad", -2, TOKEN_NORMAL);
    return open_words(&w, 1);
}

Test(spm_bpe, a_long_text_takes_n_log_n_steps) {
    Tokenizer *t = open_runs();
    test_long_texts(t);
    CHECK(tokenizer_steps(t) > 1000);
    tokenizer_close(t);
}

Test(spm_bpe, decoding_gives_the_bytes_back) {
    Tokenizer *t = open_runs();
    test_gives_bytes_back(t);
    tokenizer_close(t);
}
