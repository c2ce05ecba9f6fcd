// Byte-level BPE: merges worked by hand on a vocabulary made in the test, added tokens, and invalid
// vocabularies.
#include "tests/support/files/made_vocabulary.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/internal.h"

#include <time.h>

Test(byte_alphabet, is_the_published_one) {
    static const struct {
        uint8_t byte;
        const char *letter;
    } rows[] = {{' ', "\xc4\xa0"}, {'\n', "\xc4\x8a"}, {0, "\xc4\x80"},   {'!', "!"},
                {'~', "~"},        {127, "\xc4\xa1"},  {160, "\xc5\x82"}, {161, "\xc2\xa1"},
                {172, "\xc2\xac"}, {173, "\xc5\x83"},  {174, "\xc2\xae"}, {255, "\xc3\xbf"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char letter[ALPHABET_MAX + 1] = {0};
        alphabet_letter(letter, rows[i].byte);
        CHECK_STRING(letter, rows[i].letter);
    }
    for (int byte = 0; byte < 256; byte++) {
        char letter[ALPHABET_MAX], back;
        size_t n = alphabet_letter(letter, (uint8_t)byte);
        CHECK_INT(alphabet_decode(&back, letter, n), 1);
        CHECK_INT((uint8_t)back, byte);
    }
    int letters = 0;
    for (uint32_t c = 0; c < 0x110000; c++)
        letters += alphabet_byte(c) >= 0;
    CHECK_INT(letters, 256);
    CHECK_INT(alphabet_decode(NULL, " ", 1), -1);
    CHECK_INT(alphabet_decode(NULL, "\xc5\x84", 2), -1); // U+0144, one past the last
}

Test(byte_bpe, merges_the_lowest_rank_first_and_the_leftmost_of_equals) {
    MadeVocabulary made;
    made_vocabulary(&made, "gpt2",
                    (const char *const[]){"b c", "a b", "a bc", "a a", "aa aa", NULL});
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    test_check_ids(t, "abc", false, IDS(258)); // b c, then a bc; not a b
    test_check_ids(t, "abd", false, IDS(257, 'd'));
    test_check_ids(t, "aaa", false, IDS(259, 'a')); // the left pair
    test_check_ids(t, "aaaaa", false, IDS(260, 'a'));
    test_check_ids(t, "aaab", false, IDS(259, 257)); // a b has the lower rank
    test_check_ids(t, "aabc", false, IDS('a', 258));
    test_check_ids(t, "", false, (const int[]){-1});
    tokenizer_close(t);
}

// (left, right) by rank -> id 256 + rank, as the strings below spell them.
static const int LONG_MERGES[][2] = {{'b', 'c'}, {'a', 'b'}, {'a', 256}, {'a', 'a'},
                                     {259, 259}, {257, 258}, {'c', 260}};

// The definition of BPE, in as many rounds over the word as it has merges. Returns the number of
// ids.
static int merge_by_rounds(int *ids, int n) {
    enum { RANKS = sizeof LONG_MERGES / sizeof *LONG_MERGES };
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i + 1 < n; i++) {
            if (ids[i] != LONG_MERGES[rank][0] || ids[i + 1] != LONG_MERGES[rank][1]) continue;
            ids[i] = 256 + rank;
            for (int k = i + 1; k + 1 < n; k++)
                ids[k] = ids[k + 1];
            n--;
            rank = -1; // a lower rank may have become possible
            break;
        }
    }
    ids[n] = -1;
    return n;
}

Test(byte_bpe, merges_words_of_any_length_as_rounds_over_them_do) {
    MadeVocabulary made;
    made_vocabulary(
        &made, "gpt2",
        (const char *const[]){"b c", "a b", "a bc", "a a", "aa aa", "ab abc", "c aaaa", NULL});
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    unsigned random = 1;
    for (int length = 1; length <= 130; length++) {
        char word[131] = {0};
        int ids[131];
        for (int i = 0; i < length; i++) {
            random = random * 1103515245u + 12345u;
            ids[i] = word[i] = "aaabbc"[(random >> 16) % 6];
        }
        CHECK(merge_by_rounds(ids, length) > 0);
        test_check_ids(t, word, false, ids);
    }
    tokenizer_close(t);
}

Test(byte_bpe, never_merges_across_words) {
    MadeVocabulary made;
    made_vocabulary(&made, "gpt2", (const char *const[]){"a \xc4\xa0", "\xc4\xa0 a", NULL});
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    test_check_ids(t, "a a", false, IDS('a', 257));
    test_check_ids(t, "a ", false, IDS('a', ' '));
    tokenizer_close(t);
}

Test(byte_bpe, takes_a_word_that_is_a_token_only_where_merges_are_ignored) {
    MadeVocabulary made;
    made_vocabulary(&made, "gpt2", (const char *const[]){"a b", NULL});
    made_vocabulary_add(&made, "xyz", 3, TOKEN_NORMAL);
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    test_check_ids(t, "xyz", false, IDS('x', 'y', 'z'));
    tokenizer_close(t);
    made.vocabulary.pre = "llama-bpe";
    t = test_open_vocabulary(&made.vocabulary);
    test_check_ids(t, "xyz", false, IDS(257));
    test_check_ids(t, "wxyz", false, IDS('w', 'x', 'y', 'z'));
    tokenizer_close(t);
}

Test(byte_bpe, drops_a_byte_that_the_vocabulary_lacks) {
    MadeVocabulary made;
    made_vocabulary(&made, "gpt2", (const char *const[]){"a b", NULL});
    made.tokens[0xff] = (TextSpan){"zz", 2};
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    CHECK_INT(tokenizer_dropped(t), -1);
    test_check_ids(t, "xyz", false, IDS('x', 'y', 'z'));
    CHECK_INT(tokenizer_dropped(t), -1);
    test_check_ids(t, "x\xff", false, IDS('x'));
    CHECK_INT(tokenizer_dropped(t), 0xff);
    test_check_ids(t, "\xff", false, (const int[]){-1});
    tokenizer_close(t);
}

// Of every type: no byte of a text is lost.
Test(byte_bpe, a_letter_is_its_byte_whatever_its_type) {
    MadeVocabulary made;
    made_vocabulary(&made, "gpt2",
                    (const char *const[]){"a b", "\xc3\xa9 \xc4\xb3", NULL}); // E9 91
    made.types['!'] = TOKEN_CONTROL;
    made.types[' '] = TOKEN_UNUSED;
    made.types[0xe9] = TOKEN_USER_DEFINED; // U+E9
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    for (int special = 0; special < 2; special++) {
        test_check_ids(t, "x! y!", special, IDS('x', '!', ' ', 'y', '!'));
        test_check_ids(t, "\xe9\x91\xab", special, IDS(257, 0xab));
        test_check_ids(t, "x\xc3\xa9", special, IDS('x', 0xe9)); // its text
        test_check_ids(t, "\xe9\x92\xab", special, IDS(0xe9, 0x92, 0xab));
    }
    CHECK_INT(tokenizer_dropped(t), -1);
    tokenizer_close(t);
}

// ---- control and user-defined tokens ----

static Tokenizer *open_with_specials(MadeVocabulary *made) {
    made_vocabulary(made, "gpt2", (const char *const[]){"a b", NULL});
    made_vocabulary_add(made, "<|x|>", 5, TOKEN_CONTROL);        // 257
    made_vocabulary_add(made, "<|x|>y", 6, TOKEN_CONTROL);       // 258
    made_vocabulary_add(made, "<think>", 7, TOKEN_USER_DEFINED); // 259
    made_vocabulary_add(made, "<|end|>", 7, TOKEN_CONTROL);      // 260
    made->vocabulary.bos_id = 257;
    made->vocabulary.eos_id = 300; // outside: absent
    return test_open_vocabulary(&made->vocabulary);
}

Test(byte_bpe, recognises_control_tokens_on_request_and_user_defined_ones_always) {
    MadeVocabulary made;
    Tokenizer *t = open_with_specials(&made);
    test_check_ids(t, "a<|x|>b", true, IDS('a', 257, 'b'));
    test_check_ids(t, "a<|x|>b", false, IDS('a', '<', '|', 'x', '|', '>', 'b'));
    test_check_ids(t, "<|x|>yz", true, IDS(258, 'z')); // the longest
    test_check_ids(t, "<|x|<|x|>", true, IDS('<', '|', 'x', '|', 257));
    test_check_ids(t, "a<think>b", false, IDS('a', 259, 'b'));
    test_check_ids(t, "a<think>b", true, IDS('a', 259, 'b'));
    test_check_ids(t, "<think><think>", false, IDS(259, 259));
    tokenizer_close(t);
}

Test(byte_bpe, answers_what_every_kind_answers) {
    MadeVocabulary made;
    Tokenizer *t = open_with_specials(&made);
    int32_t stops[4];
    size_t length;
    CHECK_INT(tokenizer_size(t), 261);
    CHECK_INT(tokenizer_bos(t), 257);
    CHECK(!tokenizer_adds_bos(t));
    CHECK_INT(tokenizer_stops(t, stops, 4), 1); // <|end|> by its name
    CHECK_INT(stops[0], 260);
    CHECK_INT(tokenizer_find(t, "<|x|>"), 257);
    CHECK_INT(tokenizer_find(t, "nothing"), -1);
    CHECK_INT(tokenizer_type(t, 259), TOKEN_USER_DEFINED);
    CHECK_INT(tokenizer_type(t, -1), TOKEN_UNDEFINED);
    CHECK_INT(tokenizer_spelling(t, 256).length, 2);
    CHECK_INT(tokenizer_spelling(t, 261).length, 0);
    tokenizer_piece(t, 257, false, false, &length);
    CHECK_INT(length, 0);
    CHECK(!memcmp(tokenizer_piece(t, 257, false, true, &length), "<|x|>", 5) && length == 5);
    CHECK(!memcmp(tokenizer_piece(t, 259, false, false, &length), "<think>", 7) && length == 7);
    CHECK(!memcmp(tokenizer_piece(t, ' ', true, false, &length), " ", 1) && length == 1);
    tokenizer_piece(t, 261, false, true, &length);
    CHECK_INT(length, 0);
    tokenizer_piece(t, INT32_MIN, false, true, &length);
    CHECK_INT(length, 0);
    CHECK_STRING(tokenizer_description(t), "byte-level BPE, pattern gpt2");
    tokenizer_close(t);
}

Test(byte_bpe, finds_one_of_many_specials_with_a_common_beginning_in_bounded_time) {
    enum { N = 10000 };
    static char names[N][32];
    static AddedToken list[N];
    Error error = {0};
    Tokenizer *t = tokenizer_new(&error);
    for (int i = 0; i < N; i++) {
        int n = snprintf(names[i], sizeof *names, "<|aaaaaaaaaaaa%06d|>", i);
        list[i] = (AddedToken){.text = {names[i], (size_t)n}, .id = i, .control = true};
    }
    CHECK(added_set(t, list, N, &error));
    size_t size = 1 << 20, begin, end, found = 0;
    char *text = malloc(size);
    for (size_t i = 0; i < size; i++) // all but the last byte of a name, again and again
        text[i] = names[i / 22 % N][i % 22 == 21 ? 0 : i % 22];
    memcpy(text + size - 22, names[4321], 22);
    clock_t start = clock();
    for (size_t at = 0; at < size; at = end, found++) {
        const AddedToken *a = added_next(t, text, at, size, true, &begin, &end);
        if (!a) break;
        CHECK_INT(a->id, 4321);
        CHECK_INT(begin, size - 22);
    }
    CHECK_INT(found, 1);
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 2);
    free(text);
    tokenizer_close(t);
}

Test(byte_bpe, strips_and_asks_for_whole_words) {
    Error error = {0};
    Tokenizer *t = tokenizer_new(&error);
    size_t begin, end;
    AddedToken list[] = {{.text = {"<L>", 3}, .id = 0, .lstrip = true},
                         {.text = {"<R>", 3}, .id = 1, .rstrip = true},
                         {.text = {"ab", 2}, .id = 2, .single_word = true}};
    CHECK(added_set(t, list, 3, &error));
    CHECK_INT(added_next(t, "x \xe3\x80\x80<L> y", 0, 10, false, &begin, &end)->id, 0);
    CHECK(begin == 1 && end == 8);
    CHECK_INT(added_next(t, "x <R>\t\n y", 0, 9, false, &begin, &end)->id, 1);
    CHECK(begin == 2 && end == 8);
    CHECK(!added_next(t,
                      "abc cab \xc3\xa9"
                      "ab ab_",
                      0, 16, false, &begin, &end));
    CHECK(added_next(t, "abc-ab.", 0, 7, false, &begin, &end) && begin == 4);
    tokenizer_close(t);
}

// ---- invalid vocabularies, each next to a valid one ----

static void check_refused(const MadeVocabulary *made, const char *cause) {
    Error error = {0};
    TokenizerSource source = {.vocabulary = &made->vocabulary};
    CHECK(!tokenizer_open(&source, &error), "accepted, wanted \"%s\"", cause);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, cause), "got \"%s\", wanted \"%s\"", error.message, cause);
}

Test(byte_bpe, refuses_broken_vocabularies) {
    static const char *const none[] = {NULL};
    static const char *const two[] = {"a b", "ab c", NULL};
    MadeVocabulary made;
    made_vocabulary(&made, "gpt2", two);
    tokenizer_close(test_open_vocabulary(&made.vocabulary));
    made.merges[1] = (TextSpan){"ab zz", 5};
    check_refused(&made, "merge 1: \"ab\" + \"zz\": the right side is no token");
    made.merges[1] = (TextSpan){"zz c", 4};
    check_refused(&made, "merge 1: \"zz\" + \"c\": the left side is no token");
    made.merges[1] = (TextSpan){"b c", 3};
    check_refused(&made, "the merged text is no token");
    made.merges[1] = (TextSpan){"abc", 3};
    check_refused(&made, "merge 1: \"abc\"");
    made.merges[1] = (TextSpan){"", 0};
    check_refused(&made, "merge 1");
    made.merges[1] = (TextSpan){"ab ", 3};
    check_refused(&made, "merge 1");
    made.merges[1] = (TextSpan){"a b", 3};
    check_refused(&made, "merge 1: \"a\" + \"b\": an earlier merge has the same pair");
    made_vocabulary(&made, "gpt2", none);
    tokenizer_close(test_open_vocabulary(&made.vocabulary));
    made.tokens[5] = (TextSpan){"a b", 3};
    check_refused(&made, "token 5: \"a b\" has a character outside the byte alphabet");
    made.types[5] = TOKEN_USER_DEFINED;
    tokenizer_close(test_open_vocabulary(&made.vocabulary));
    made_vocabulary(&made, "nosuch", none);
    check_refused(&made, "nosuch");
    made_vocabulary(&made, "gpt2", none);
    made.vocabulary.n_tokens = 0;
    check_refused(&made, "no tokens");
    made_vocabulary(&made, "gpt2", none);
    made.vocabulary.model = "bert";
    check_refused(&made, "tokenizer.ggml.model: unknown \"bert\" (known: llama, gpt2)");
}

Test(byte_bpe, limits_hold_on_both_sides) {
    MadeVocabulary made;
    char *text = malloc(LIMIT_TOKEN_LENGTH + 2);
    memset(text, 'q', LIMIT_TOKEN_LENGTH + 2);
    made_vocabulary(&made, "gpt2", (const char *const[]){NULL});
    made_vocabulary_add(&made, text, LIMIT_TOKEN_LENGTH, TOKEN_NORMAL);
    tokenizer_close(test_open_vocabulary(&made.vocabulary));
    made.tokens[256].length++;
    check_refused(&made, "token 256: 65537 bytes long");
    made_vocabulary(&made, "gpt2", (const char *const[]){NULL});
    made_vocabulary_add(&made, text, LIMIT_ADDED_BYTES, TOKEN_CONTROL);
    tokenizer_close(test_open_vocabulary(&made.vocabulary));
    made.tokens[256].length++;
    check_refused(&made, "added token 256: 513 bytes long");
    made.tokens[256].length = 0;
    check_refused(&made, "added token 256: its text is empty");
    free(text);
}

// Units of two letters, repeated: any two repetitions of a unit concatenate to a third, so that few
// tokens have many merges. The other tokens are numbers.
typedef struct Largest {
    TextSpan *tokens, *merges;
    char (*units)[2 * 2 * 32 + 2]; // "xyxy...xy xyxy...xy": every merge is a part of it
    char (*numbers)[8];
    Vocabulary vocabulary;
} Largest;

static void largest_unit(Largest *l, char *unit, char x, char y) {
    Vocabulary *v = &l->vocabulary;
    char *middle = unit + 64;
    for (int i = 0; i < 129; i++)
        unit[i] = (i + (i > 64)) % 2 ? y : x;
    *middle = ' ';
    for (size_t k = 1; k <= 32; k++)
        l->tokens[v->n_tokens++] = (TextSpan){unit, 2 * k};
    for (size_t a = 1; a < 32; a++)
        for (size_t b = 1; a + b <= 32 && v->n_merges <= LIMIT_MERGES; b++)
            l->merges[v->n_merges++] = (TextSpan){middle - 2 * a, 2 * a + 1 + 2 * b};
}

static void largest_init(Largest *l) {
    *l = (Largest){.tokens = calloc(LIMIT_VOCAB + 1, sizeof *l->tokens),
                   .merges = calloc(LIMIT_MERGES + 1, sizeof *l->merges),
                   .units = calloc(94 * 94, sizeof *l->units),
                   .numbers = calloc(LIMIT_VOCAB + 1, sizeof *l->numbers),
                   .vocabulary = VOCABULARY_ABSENT};
    Vocabulary *v = &l->vocabulary;
    v->model = "gpt2";
    v->tokens = l->tokens;
    v->merges = l->merges;
    for (int u = 0; u < 94 * 94; u++)
        largest_unit(l, l->units[u], (char)('!' + u / 94), (char)('!' + u % 94));
    while (v->n_tokens <= LIMIT_VOCAB) { // seven digits: no repetition of two letters
        char *number = l->numbers[v->n_tokens];
        snprintf(number, 8, "%07zu", v->n_tokens);
        l->tokens[v->n_tokens++] = (TextSpan){number, 7};
    }
}

Test(byte_bpe, as_many_tokens_and_merges_as_the_limits_say) {
    Largest l;
    largest_init(&l);
    Vocabulary *v = &l.vocabulary;
    CHECK(v->n_tokens == LIMIT_VOCAB + 1 && v->n_merges == LIMIT_MERGES + 1);
    Error error = {0};
    TokenizerSource source = {.vocabulary = v};
    CHECK(!tokenizer_open(&source, &error));
    CHECK(strstr(error.message, "4194305 tokens (at most 4194304)"), "%s", error.message);
    v->n_tokens--;
    error = (Error){0};
    CHECK(!tokenizer_open(&source, &error));
    CHECK(strstr(error.message, "4194305 merges (at most 4194304)"), "%s", error.message);
    v->n_merges--;
    Tokenizer *t = test_open_vocabulary(v);
    CHECK_INT(tokenizer_size(t), LIMIT_VOCAB);
    CHECK_INT(tokenizer_find(t, "4194303"), LIMIT_VOCAB - 1);
    tokenizer_close(t);
    free(l.tokens);
    free(l.merges);
    free(l.units);
    free(l.numbers);
}
