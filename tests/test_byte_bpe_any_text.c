// Byte-level BPE, what holds for any text: its bytes come back, long words take n log n steps and
// no stack.
#include "tests/support/made_vocabulary.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "tokenizer/unicode.h"

#include <pthread.h>
#include <time.h>
#include <utf8proc.h>

static void encode(Tokenizer *t, IdList *ids, const void *text, size_t length) {
    Error error = {0};
    ids->count = 0;
    if (!tokenizer_encode(t, ids, text, length, false, &error)) TEST_FAIL("%s", error.message);
}

typedef struct Loop {
    Tokenizer *t;
    IdList ids;
    char *decoded;
    size_t length;
} Loop;

static Loop loop_open(const char *path) {
    Error error = {0};
    Loop loop = {.t = test_open_tokenizer(path, &error), .decoded = malloc(1 << 16)};
    if (!loop.t) TEST_FAIL("%s", error.message);
    return loop;
}

static void loop_close(Loop *loop) {
    tokenizer_close(loop->t);
    id_list_free(&loop->ids);
    free(loop->decoded);
}

static void there_and_back(Loop *loop, const char *text, size_t length) {
    encode(loop->t, &loop->ids, text, length);
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

Test(byte_bpe_any_text, gives_any_bytes_back) {
    Loop loop = loop_open(test_data("tokenizers/gpt2"));
    check_any_bytes(&loop, TEST_SANITIZED ? 10000 : 1000000);
    loop_close(&loop);
}

Test(byte_bpe_any_text, gives_any_bytes_back_with_llama3) {
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

Test(byte_bpe_any_text, gives_the_normal_form_back_with_qwen) {
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
        encode(l->t, &ids, text, l->size >> (1 - i));
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

Test(byte_bpe_any_text, long_words_take_n_log_n_steps_and_no_stack) {
    Loop loop = loop_open(test_data("tokenizers/llama3"));
    check_long(loop.t, TEST_SANITIZED ? 1 << 16 : 1 << 20);
    CHECK(tokenizer_steps(loop.t) > 1000);
    loop_close(&loop);
}

Test(byte_bpe_any_text, long_words_take_n_log_n_steps_without_data) {
    MadeVocabulary made; // each merge doubles: "aaaa..." has a merge at every rank
    made_vocabulary(&made, "llama3",
                    (const char *const[]){"a a", "aa aa", "aaaa aaaa", "\xc4\xa0 \xc4\xa0", "a b",
                                          "1 1", "\xc4\x8a \xc4\x8a", "! !", NULL});
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    check_long(t, 1 << 17);
    tokenizer_close(t);
}
