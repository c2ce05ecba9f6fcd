// Byte-level BPE: merges worked by hand on a vocabulary made here, and what holds for any bytes on
// the real ones.
#include "tests/test.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/kinds.h"
#include "tokenizer/unicode.h"

#include <pthread.h>
#include <time.h>
#include <utf8proc.h>

// ---- a vocabulary made here: 256 letters in the order of bytes, then one token per merge ----

typedef struct Made {
    Vocabulary vocabulary;
    TextSpan tokens[400], merges[100];
    uint8_t types[400];
    char letters[256][ALPHABET_MAX];
    char wholes[100][64];
} Made;

static void add_token(Made *made, const char *text, size_t length, TokenType type) {
    size_t i = made->vocabulary.n_tokens++;
    made->tokens[i] = (TextSpan){text, length};
    made->types[i] = (uint8_t)type;
}

// `merges`: "left right" each, NULL at the end. Their wholes are tokens 256, 257, ...
static void make(Made *made, const char *pre, const char *const *merges) {
    *made = (Made){0};
    made->vocabulary = (Vocabulary){.model = "gpt2",
                                    .pre = pre,
                                    .tokens = made->tokens,
                                    .types = made->types,
                                    .merges = made->merges,
                                    .bos_id = -1,
                                    .eos_id = -1,
                                    .eot_id = -1,
                                    .eom_id = -1,
                                    .unk_id = -1,
                                    .pad_id = -1,
                                    .add_bos = -1,
                                    .add_eos = -1,
                                    .add_space_prefix = -1};
    for (int byte = 0; byte < 256; byte++) {
        size_t n = alphabet_letter(made->letters[byte], (uint8_t)byte);
        add_token(made, made->letters[byte], n, TOKEN_NORMAL);
    }
    for (size_t i = 0; merges[i]; i++) {
        const char *space = strchr(merges[i] + 1, ' ');
        int n = snprintf(made->wholes[i], sizeof *made->wholes, "%.*s%s", (int)(space - merges[i]),
                         merges[i], space + 1);
        add_token(made, made->wholes[i], (size_t)n, TOKEN_NORMAL);
        made->merges[made->vocabulary.n_merges++] = (TextSpan){merges[i], strlen(merges[i])};
    }
}

static Tokenizer *open_made(const Made *made) {
    Error error = {0};
    TokenizerSource source = {.vocabulary = &made->vocabulary};
    Tokenizer *t = tokenizer_open(&source, &error);
    if (!t) TEST_FAIL("%s", error.message);
    return t;
}

static void encode(Tokenizer *t, IdList *ids, const void *text, size_t length, bool special) {
    Error error = {0};
    ids->count = 0;
    if (!tokenizer_encode(t, ids, text, length, special, &error)) TEST_FAIL("%s", error.message);
}

// wanted: ids, -1 at the end.
static void check_ids(Tokenizer *t, const char *text, bool special, const int *wanted) {
    IdList ids = {0};
    encode(t, &ids, text, strlen(text), special);
    for (size_t i = 0; i < ids.count && wanted[i] >= 0; i++)
        CHECK(ids.ids[i] == wanted[i], "\"%s\": id %zu is %d, wanted %d", text, i, ids.ids[i],
              wanted[i]);
    size_t n = 0;
    while (wanted[n] >= 0)
        n++;
    CHECK(ids.count == n, "\"%s\": %zu ids", text, ids.count);
    id_list_free(&ids);
}
#define IDS(...) ((const int[]){__VA_ARGS__, -1})

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
    Made made;
    make(&made, "gpt2", (const char *const[]){"b c", "a b", "a bc", "a a", "aa aa", NULL});
    Tokenizer *t = open_made(&made);
    check_ids(t, "abc", false, IDS(258)); // b c, then a bc; not a b
    check_ids(t, "abd", false, IDS(257, 'd'));
    check_ids(t, "aaa", false, IDS(259, 'a')); // the left pair
    check_ids(t, "aaaaa", false, IDS(260, 'a'));
    check_ids(t, "aaab", false, IDS(259, 257)); // a b has the lower rank
    check_ids(t, "aabc", false, IDS('a', 258));
    check_ids(t, "", false, (const int[]){-1});
    tokenizer_close(t);
}

Test(byte_bpe, never_merges_across_words) {
    Made made;
    make(&made, "gpt2", (const char *const[]){"a \xc4\xa0", "\xc4\xa0 a", NULL});
    Tokenizer *t = open_made(&made);
    check_ids(t, "a a", false, IDS('a', 257));
    check_ids(t, "a ", false, IDS('a', ' '));
    tokenizer_close(t);
}

Test(byte_bpe, takes_a_word_that_is_a_token_only_where_merges_are_ignored) {
    Made made;
    make(&made, "gpt2", (const char *const[]){"a b", NULL});
    add_token(&made, "xyz", 3, TOKEN_NORMAL);
    Tokenizer *t = open_made(&made);
    check_ids(t, "xyz", false, IDS('x', 'y', 'z'));
    tokenizer_close(t);
    made.vocabulary.pre = "llama-bpe";
    t = open_made(&made);
    check_ids(t, "xyz", false, IDS(257));
    check_ids(t, "wxyz", false, IDS('w', 'x', 'y', 'z'));
    tokenizer_close(t);
}

Test(byte_bpe, drops_a_byte_that_the_vocabulary_lacks) {
    Made made;
    make(&made, "gpt2", (const char *const[]){"a b", NULL});
    made.tokens[0xff] = (TextSpan){"zz", 2};
    Tokenizer *t = open_made(&made);
    check_ids(t, "x\xff", false, IDS('x'));
    check_ids(t, "\xff", false, (const int[]){-1});
    tokenizer_close(t);
}

// ---- control and user-defined tokens ----

static Tokenizer *open_with_specials(Made *made) {
    make(made, "gpt2", (const char *const[]){"a b", NULL});
    add_token(made, "<|x|>", 5, TOKEN_CONTROL);        // 257
    add_token(made, "<|x|>y", 6, TOKEN_CONTROL);       // 258
    add_token(made, "<think>", 7, TOKEN_USER_DEFINED); // 259
    add_token(made, "<|end|>", 7, TOKEN_CONTROL);      // 260
    made->vocabulary.bos_id = 257;
    made->vocabulary.eos_id = 300; // outside: absent
    return open_made(made);
}

Test(byte_bpe, recognises_control_tokens_on_request_and_user_defined_ones_always) {
    Made made;
    Tokenizer *t = open_with_specials(&made);
    check_ids(t, "a<|x|>b", true, IDS('a', 257, 'b'));
    check_ids(t, "a<|x|>b", false, IDS('a', '<', '|', 'x', '|', '>', 'b'));
    check_ids(t, "<|x|>yz", true, IDS(258, 'z')); // the longest
    check_ids(t, "<|x|<|x|>", true, IDS('<', '|', 'x', '|', 257));
    check_ids(t, "a<think>b", false, IDS('a', 259, 'b'));
    check_ids(t, "a<think>b", true, IDS('a', 259, 'b'));
    check_ids(t, "<think><think>", false, IDS(259, 259));
    tokenizer_close(t);
}

Test(byte_bpe, answers_what_every_kind_answers) {
    Made made;
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

// ---- refused vocabularies, each beside one that is accepted ----

static void check_refused(const Made *made, const char *cause) {
    Error error = {0};
    TokenizerSource source = {.vocabulary = &made->vocabulary};
    CHECK(!tokenizer_open(&source, &error), "accepted, wanted \"%s\"", cause);
    CHECK_INT(error.code, ERROR_FILE);
    CHECK(strstr(error.message, cause), "got \"%s\", wanted \"%s\"", error.message, cause);
}

Test(byte_bpe, refuses_broken_vocabularies) {
    static const char *const none[] = {NULL};
    static const char *const two[] = {"a b", "ab c", NULL};
    Made made;
    make(&made, "gpt2", two);
    tokenizer_close(open_made(&made));
    made.merges[1] = (TextSpan){"ab zz", 5};
    check_refused(&made, "merge 1: \"ab\" + \"zz\": the right one is no token");
    made.merges[1] = (TextSpan){"zz c", 4};
    check_refused(&made, "merge 1: \"zz\" + \"c\": the left one is no token");
    made.merges[1] = (TextSpan){"b c", 3};
    check_refused(&made, "together they are no token");
    made.merges[1] = (TextSpan){"abc", 3};
    check_refused(&made, "merge 1: \"abc\"");
    made.merges[1] = (TextSpan){"", 0};
    check_refused(&made, "merge 1");
    made.merges[1] = (TextSpan){"ab ", 3};
    check_refused(&made, "merge 1");
    made.merges[1] = (TextSpan){"a b", 3};
    check_refused(&made, "merge 1: \"a\" + \"b\": the same pair");
    make(&made, "gpt2", none);
    tokenizer_close(open_made(&made));
    made.tokens[5] = (TextSpan){"a b", 3};
    check_refused(&made, "token 5: \"a b\" has a character that stands for no byte");
    made.types[5] = TOKEN_USER_DEFINED;
    tokenizer_close(open_made(&made));
    make(&made, "nosuch", none);
    check_refused(&made, "nosuch");
    make(&made, "gpt2", none);
    made.vocabulary.n_tokens = 0;
    check_refused(&made, "no tokens");
    make(&made, "gpt2", none);
    made.vocabulary.model = "bert";
    check_refused(&made, "tokenizer.ggml.model: unknown \"bert\" (known: llama, gpt2)");
}

Test(byte_bpe, limits_hold_on_both_sides) {
    Made made;
    char *text = malloc(LIMIT_TOKEN_LENGTH + 2);
    memset(text, 'q', LIMIT_TOKEN_LENGTH + 2);
    make(&made, "gpt2", (const char *const[]){NULL});
    add_token(&made, text, LIMIT_TOKEN_LENGTH, TOKEN_NORMAL);
    tokenizer_close(open_made(&made));
    made.tokens[256].length++;
    check_refused(&made, "token 256: 65537 bytes long");
    make(&made, "gpt2", (const char *const[]){NULL});
    add_token(&made, text, LIMIT_ADDED_BYTES, TOKEN_CONTROL);
    tokenizer_close(open_made(&made));
    made.tokens[256].length++;
    check_refused(&made, "added token 256: 1025 bytes long");
    made.tokens[256].length = 0;
    check_refused(&made, "added token 256: empty");
    made.vocabulary.n_tokens = LIMIT_VOCAB + 1;
    check_refused(&made, "4194305 tokens (at most 4194304)");
    made.vocabulary.n_tokens = 256;
    made.vocabulary.n_merges = LIMIT_MERGES + 1;
    check_refused(&made, "4194305 merges (at most 4194304)");
    free(text);
}

// ---- what holds for any bytes ----

typedef struct Loop {
    Tokenizer *t;
    IdList ids;
    char *decoded;
    size_t length;
} Loop;

static Loop loop_open(const char *path) {
    Error error = {0};
    TokenizerSource source = {.path = path};
    Loop loop = {.t = tokenizer_open(&source, &error), .decoded = malloc(1 << 16)};
    if (!loop.t) TEST_FAIL("%s", error.message);
    return loop;
}

static void loop_close(Loop *loop) {
    tokenizer_close(loop->t);
    id_list_free(&loop->ids);
    free(loop->decoded);
}

static void there_and_back(Loop *loop, const char *text, size_t length) {
    encode(loop->t, &loop->ids, text, length, false);
    loop->length = 0;
    for (size_t i = 0; i < loop->ids.count; i++) {
        size_t n;
        const char *piece = tokenizer_piece(loop->t, loop->ids.ids[i], i == 0, false, &n);
        memcpy(loop->decoded + loop->length, piece, n);
        loop->length += n;
    }
}

static void check_same(Loop *loop, const char *text, size_t length) {
    there_and_back(loop, text, length);
    CHECK(loop->length == length && !memcmp(loop->decoded, text, length),
          "%zu bytes beginning with %02x", length, (uint8_t)text[0]);
}

static size_t random_bytes(TestRandom *random, char *out, size_t capacity) {
    size_t n = test_random(random) % capacity + 1;
    uint64_t kind = test_random(random) % 3;
    for (size_t i = 0; i < n; i++) {
        uint64_t r = test_random(random);
        out[i] = (char)(kind == 0   ? r
                        : kind == 1 ? (uint64_t) " \n\t'ab1!\xc3\xa9\xe4\xb8\x96\xff"[r % 15]
                                    : 0x20 + r % 0x60);
    }
    return n;
}

static void check_any_bytes(Loop *loop, int n_random) {
    char text[64];
    for (int a = 0; a < 256; a++) {
        text[0] = (char)a;
        check_same(loop, text, 1);
        for (int b = 0; b < 256; b++) {
            text[1] = (char)b;
            check_same(loop, text, 2);
        }
    }
    for (uint32_t c = 0; c < 0x110000; c += TEST_SANITIZED ? 7 : 1)
        if (c < 0xd800 || c >= 0xe000) check_same(loop, text, utf8_encode(text, c));
    TestRandom random = {20240};
    for (int i = 0; i < n_random; i++)
        check_same(loop, text, random_bytes(&random, text, 24));
}

Test(byte_bpe, gives_any_bytes_back) {
    Loop loop = loop_open(test_data("tokenizers/gpt2"));
    check_any_bytes(&loop, TEST_SANITIZED ? 10000 : 1000000);
    loop_close(&loop);
}

Test(byte_bpe, gives_any_bytes_back_with_llama3) {
    Loop loop = loop_open(test_data("tokenizers/llama3"));
    check_any_bytes(&loop, 10000);
    loop_close(&loop);
}

// The form C by utf8proc's own function, of each valid stretch.
static size_t normal_form(char *out, const char *text, size_t length) {
    size_t n = 0;
    for (size_t at = 0, end; at < length; at = end) {
        uint32_t c;
        for (end = at; end < length;) {
            size_t step = utf8_decode(text + end, length - end, &c);
            if (!step) break;
            end += step;
        }
        if (end == at) {
            out[n++] = text[end++];
            continue;
        }
        utf8proc_uint8_t *normal;
        utf8proc_ssize_t size =
            utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(end - at), &normal,
                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        memcpy(out + n, normal, (size_t)size);
        n += (size_t)size;
        free(normal);
    }
    return n;
}

static void check_normal(Loop *loop, const char *text, size_t length) {
    char wanted[1024];
    size_t n = normal_form(wanted, text, length);
    there_and_back(loop, text, length);
    CHECK(loop->length == n && !memcmp(loop->decoded, wanted, n), "%zu bytes beginning with %02x",
          length, (uint8_t)text[0]);
}

Test(byte_bpe, gives_the_normal_form_back_with_qwen) {
    Loop loop = loop_open(test_data("tokenizers/qwen3"));
    char text[96];
    for (int a = 0; a < 65536; a++) {
        text[0] = (char)(a >> 8), text[1] = (char)a;
        check_normal(&loop, text, 2);
    }
    for (uint32_t c = 0; c < 0x110000; c += TEST_SANITIZED ? 7 : 1)
        if (c < 0xd800 || c >= 0xe000) check_normal(&loop, text, utf8_encode(text, c));
    static const uint32_t marks[] = {'a',    'e',   0x301, 0x323, 0x327, 0x1100, 0x1161,
                                     0x11a8, 0x93c, 0x915, 0x300, 0xc5,  0xac00, ' '};
    TestRandom random = {7};
    for (int i = 0; i < (TEST_SANITIZED ? 1000 : 30000); i++) {
        size_t n = 0;
        for (uint64_t k = test_random(&random) % 12; k; k--)
            n += utf8_encode(text + n, marks[test_random(&random) % 14]);
        if (n) check_normal(&loop, text, n);
        check_normal(&loop, text, random_bytes(&random, text, 24));
    }
    loop_close(&loop);
}

// ---- O(n log n), flat stack ----

typedef struct Long {
    Tokenizer *t;
    const char *unit; // repeated; NULL: random bytes
    size_t size;      // encoded once by half, once whole
    uint64_t steps[2];
    double seconds; // for the whole
} Long;

// Runs in a thread with a small stack.
static void *encode_long(void *argument) {
    Long *l = argument;
    char *text = malloc(l->size + 8);
    TestRandom random = {3};
    size_t unit = l->unit ? strlen(l->unit) : 1;
    for (size_t i = 0; i < l->size; i += unit)
        if (l->unit)
            memcpy(text + i, l->unit, unit);
        else
            text[i] = (char)test_random(&random);
    for (int i = 0; i < 2; i++) {
        IdList ids = {0};
        uint64_t before = tokenizer_steps(l->t);
        clock_t start = clock();
        encode(l->t, &ids, text, l->size >> (1 - i), false);
        l->seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        l->steps[i] = tokenizer_steps(l->t) - before;
        id_list_free(&ids);
    }
    free(text);
    return NULL;
}

static void check_long(Tokenizer *t, size_t size) {
    static const char *const units[] = {"a", " ", "\n", "\xe4\xb8\x96", "1", NULL, "ab", "!"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        Long l = {.t = t, .unit = units[i], .size = size};
        pthread_t thread;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, TEST_SANITIZED ? 1 << 20 : 128 << 10);
        CHECK(!pthread_create(&thread, &attributes, encode_long, &l));
        pthread_join(thread, NULL);
        pthread_attr_destroy(&attributes);
        CHECK((double)l.steps[1] <= 2.3 * (double)l.steps[0], "\"%s\": %llu steps, then %llu",
              units[i] ? units[i] : "random", (unsigned long long)l.steps[0],
              (unsigned long long)l.steps[1]);
        CHECK(TEST_SANITIZED || l.seconds < 2, "\"%s\": %g s", units[i] ? units[i] : "random",
              l.seconds);
    }
}

Test(byte_bpe, long_words_take_n_log_n_steps_and_no_stack) {
    Loop loop = loop_open(test_data("tokenizers/llama3"));
    check_long(loop.t, TEST_SANITIZED ? 1 << 16 : 1 << 20);
    CHECK(tokenizer_steps(loop.t) > 1000);
    loop_close(&loop);
}

Test(byte_bpe, long_words_take_n_log_n_steps_without_data) {
    Made made; // each merge doubles: "aaaa..." has a merge at every rank
    make(&made, "llama3",
         (const char *const[]){"a a", "aa aa", "aaaa aaaa", "\xc4\xa0 \xc4\xa0", "a b", "1 1",
                               "\xc4\x8a \xc4\x8a", "! !", NULL});
    Tokenizer *t = open_made(&made);
    check_long(t, 1 << 17);
    tokenizer_close(t);
}
