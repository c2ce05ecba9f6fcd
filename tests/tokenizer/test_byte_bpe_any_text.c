// Byte-level BPE on any text: decoding gives its bytes, long words take O(n log n) steps and no
// recursion.
#include "base/text.h"
#include "tests/support/files/long_texts.h"
#include "tests/support/files/made_vocabulary.h"
#include "tests/support/tokenizers.h"
#include "tests/test.h"
#include "weights/checkpoint.h"

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

// A public tokenizer where it exists, else 256 bytes and a few merges under its splitting pattern.
static Loop loop_of(const char *name, const char *pattern) {
    static MadeVocabulary made;
    const char *path = test_data_if_any(name);
    if (path) return loop_open(path);
    made_vocabulary(&made, pattern,
                    (const char *const[]){"a a", "aa aa", "\xc4\xa0 a", "1 1", "\xc4\xa0 \xc4\xa0",
                                          "\xc4\x8a \xc4\x8a", "! !", "a b", NULL});
    return (Loop){.t = test_open_vocabulary(&made.vocabulary), .decoded = malloc(1 << 16)};
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

enum { RANDOM_TEXTS = TEST_SANITIZED ? 10000 : 200000 };

static void check_any_bytes(const char *name, const char *pattern) {
    Loop opened = loop_of(name, pattern), *loop = &opened;
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
    for (int i = 0; i < RANDOM_TEXTS; i++)
        check_same(loop, text, random_bytes(&random, text, 24));
    loop_close(loop);
}

Test(byte_bpe_any_text, gives_any_bytes_back_with_gpt2) {
    check_any_bytes("tokenizers/gpt2", "gpt2");
}

Test(byte_bpe_any_text, gives_any_bytes_back_with_llama3) {
    check_any_bytes("tokenizers/llama3", "llama3");
}

// Bytes without a token in SmolLM2's vocabulary are dropped, as in the reference.
static size_t without_lacking(char *out, const char *text, size_t length) {
    static const char LACKING[] = "\x04\x06\x13\x14\x16\x1d\xc0\xc1\xf1\xf2\xf5\xf6\xf7\xf8\xf9\xfa"
                                  "\xfb\xfc\xfd\xfe\xff";
    size_t n = 0;
    for (size_t i = 0; i < length; i++)
        if (!memchr(LACKING, text[i], sizeof LACKING - 1)) out[n++] = text[i];
    return n;
}

Test(byte_bpe_any_text, gives_any_bytes_back_with_smollm2) {
    Error error = {0};
    Checkpoint *checkpoint;
    const char *path = test_model_file("SmolLM2-135M-Instruct.Q4_1.gguf");
    CHECK(checkpoint_open_vocabulary(&checkpoint, path, &error), "%s", error.message);
    Loop loop = {.t = test_open_vocabulary(checkpoint_vocabulary(checkpoint)),
                 .decoded = malloc(1 << 16)};
    TestRandom random = {5};
    char text[64], wanted[64];
    for (int i = 0; i < 65536 + RANDOM_TEXTS; i++) {
        size_t length = 2;
        text[0] = (char)(i >> 8), text[1] = (char)i;
        if (i >= 65536) length = random_bytes(&random, text, 24);
        size_t n = without_lacking(wanted, text, length);
        there_and_back(&loop, text, length);
        CHECK(loop.length == n && !memcmp(loop.decoded, wanted, n), "text %d", i);
    }
    test_long_texts(loop.t);
    loop_close(&loop);
    checkpoint_close(checkpoint);
}

// NFC by utf8proc's own function, of each valid part of the text.
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
    Loop loop = loop_of("tokenizers/qwen3", "qwen2");
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
    for (int i = 0; i < RANDOM_TEXTS; i++) {
        size_t n = 0;
        for (uint64_t k = test_random(&random) % 12; k && i % 10 == 0; k--)
            n += utf8_encode(text + n, marks[test_random(&random) % 14]);
        if (n) check_normal(&loop, text, n);
        check_normal(&loop, text, random_bytes(&random, text, 24));
    }
    loop_close(&loop);
}

// ---- long texts ----

static void check_long_texts(const char *name, const char *pattern) {
    Loop loop = loop_of(name, pattern);
    test_long_texts(loop.t);
    CHECK(tokenizer_steps(loop.t) > 1000);
    loop_close(&loop);
}

Test(byte_bpe_any_text, a_long_text_takes_n_log_n_steps_with_gpt2) {
    check_long_texts("tokenizers/gpt2", "gpt2");
}

Test(byte_bpe_any_text, a_long_text_takes_n_log_n_steps_with_llama3) {
    check_long_texts("tokenizers/llama3", "llama3");
}

Test(byte_bpe_any_text, a_long_text_takes_n_log_n_steps_with_qwen) {
    check_long_texts("tokenizers/qwen3", "qwen2");
}

Test(byte_bpe_any_text, a_long_text_takes_n_log_n_steps_without_data) {
    MadeVocabulary made; // each merge doubles: "aaaa..." has a merge at every rank
    made_vocabulary(&made, "llama3",
                    (const char *const[]){"a a", "aa aa", "aaaa aaaa", "\xc4\xa0 \xc4\xa0", "a b",
                                          "1 1", "\xc4\x8a \xc4\x8a", "! !", NULL});
    Tokenizer *t = test_open_vocabulary(&made.vocabulary);
    test_long_texts(t);
    CHECK(tokenizer_steps(t) > 1000);
    tokenizer_close(t);
}
