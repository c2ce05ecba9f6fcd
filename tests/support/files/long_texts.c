#include "tests/support/files/long_texts.h"

#include "tests/test.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

enum {
    SIZE = TEST_SANITIZED ? 1 << 16 : 1 << 20,
    STACK = TEST_SANITIZED ? 1 << 20 : 128 << 10,
};

typedef struct Long {
    const Tokenizer *tokenizer;
    const char *text;  // SIZE bytes, encoded once by half, once whole
    uint64_t steps[2]; // of the half, of the whole
    double seconds;    // for the whole
    Error error;
} Long;

static void *encode(void *argument) {
    Long *l = argument;
    for (int i = 0; i < 2 && !l->error.code; i++) {
        IdList ids = {0};
        uint64_t before = tokenizer_steps(l->tokenizer);
        struct timespec from, to;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        tokenizer_encode(l->tokenizer, &ids, l->text, (size_t)SIZE >> (1 - i), false, &l->error);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        l->seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        l->steps[i] = tokenizer_steps(l->tokenizer) - before;
        id_list_free(&ids);
    }
    return NULL;
}

static void run(Long *l) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(!pthread_attr_setstacksize(&attributes, STACK));
    CHECK(!pthread_create(&thread, &attributes, encode, l));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

// Repeats the unit; "": random bytes.
static char *repeated(const char *unit, size_t size) {
    char *text = malloc(size);
    size_t n = strlen(unit);
    TestRandom random = {3};
    for (size_t i = 0; i < size; i++)
        text[i] = n ? unit[i % n] : (char)test_random(&random);
    return text;
}

static const char *name_of(const char *unit) {
    return unit[0] ? unit : "random bytes";
}

// A megabyte: steps by half and whole, and an upper bound on the time.
static void check_megabyte(const Tokenizer *t, const char *unit) {
    char *text = repeated(unit, SIZE);
    Long l = {.tokenizer = t, .text = text};
    run(&l);
    free(text);
    CHECK(!l.error.code, "\"%s\": %s", name_of(unit), l.error.message);
    CHECK((double)l.steps[1] <= 2.3 * (double)l.steps[0] + 100 && l.steps[1] < 64ull * SIZE,
          "\"%s\": %llu steps, then %llu", name_of(unit), (unsigned long long)l.steps[0],
          (unsigned long long)l.steps[1]);
    CHECK(TEST_SANITIZED || l.seconds < 2, "\"%s\": %g s", name_of(unit), l.seconds);
}

static double encode_seconds(const Tokenizer *t, const char *text, size_t size) {
    IdList ids = {0};
    Error error = {0};
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    CHECK(tokenizer_encode(t, &ids, text, size, false, &error), "%s", error.message);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    id_list_free(&ids);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

// Four times the text takes about four times as long, and not sixteen times. The least of several
// times, since other work on the machine makes some longer; sanitizers' times say nothing.
static void check_linear(const Tokenizer *t, const char *unit) {
    enum { PART = TEST_SANITIZED ? 1 << 12 : 1 << 15, TRIES = 20 };
    char *text = repeated(unit, 4 * PART);
    double part = INFINITY, whole = INFINITY;
    for (int i = 0; i < TRIES && (i < 2 || (whole > 8 * part && !TEST_SANITIZED)); i++) {
        part = fmin(part, encode_seconds(t, text, PART));
        whole = fmin(whole, encode_seconds(t, text, 4 * PART));
    }
    free(text);
    CHECK(TEST_SANITIZED || whole <= 8 * part + 1e-4,
          "\"%s\": %g s for %d bytes, %g s for four times as many", name_of(unit), part, (int)PART,
          whole);
}

// Prints how long a megabyte of the unit takes.
static void tell_seconds(const Tokenizer *t, const char *unit) {
    char *text = repeated(unit, SIZE), bytes[40] = "";
    double seconds = encode_seconds(t, text, SIZE);
    for (size_t i = 0; unit[i] && i < 12; i++)
        snprintf(bytes + 3 * i, sizeof bytes - 3 * i, " %02x", (unsigned char)unit[i]);
    fprintf(stderr, "%.3f s, a megabyte of%s\n", seconds, unit[0] ? bytes : " random bytes");
    free(text);
}

void test_long_texts(Tokenizer *t) {
    static const char *const UNITS[] = {"a", " ", "\n", "\xe4\xb8\x96", "1", "!", "ab", "a ", ""};
    // Jamo alone and composing, marks in both orders, what special tokens begin with, white space
    // of several kinds, emoji with joiners, what NFKC expands, and bytes that are not UTF-8.
    static const char *const MORE[] = {"\t",
                                       "<",
                                       ">",
                                       "<s>",
                                       "<|",
                                       " \n",
                                       "\n\na",
                                       "\r\n",
                                       "aA",
                                       "'s'",
                                       "123 ",
                                       "_.-",
                                       "\xc2\xa0",
                                       "\xe2\x96\x81",
                                       "\xe4\xb8\x96\xe7\x95\x8c",
                                       "\xf0\x9f\x98\x80",
                                       "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9",
                                       "\xcc\x81",
                                       "a\xcc\x81\xcc\xa3",
                                       "\xcc\xa3\xcc\x81\xcc\x96",
                                       "\xe1\x84\x80",
                                       "\xe1\x85\xa1",
                                       "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
                                       "\xef\xb7\xba",
                                       "\xff",
                                       "\xe4\xb8",
                                       "\xc0\x80",
                                       "\xf4\x80\x80\x80"};
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        check_megabyte(t, UNITS[i]);
    for (size_t i = 0; i < sizeof MORE / sizeof *MORE; i++)
        check_linear(t, MORE[i]);
    if (!getenv("LIMPID_LONG_TEXTS")) return;
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        tell_seconds(t, UNITS[i]);
    for (size_t i = 0; i < sizeof MORE / sizeof *MORE; i++)
        tell_seconds(t, MORE[i]);
}
