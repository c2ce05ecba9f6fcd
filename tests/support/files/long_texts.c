#include "tests/support/files/long_texts.h"

#include "tests/test.h"

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
static char *repeated(const char *unit) {
    char *text = malloc(SIZE);
    size_t n = strlen(unit);
    TestRandom random = {3};
    for (size_t i = 0; i < SIZE; i++)
        text[i] = n ? unit[i % n] : (char)test_random(&random);
    return text;
}

void test_long_texts(Tokenizer *t) {
    static const char *const UNITS[] = {"a", " ", "\n", "\xe4\xb8\x96", "1", "!", "ab", "a ", ""};
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++) {
        const char *name = UNITS[i][0] ? UNITS[i] : "random bytes";
        char *text = repeated(UNITS[i]);
        Long l = {.tokenizer = t, .text = text};
        run(&l);
        free(text);
        CHECK(!l.error.code, "\"%s\": %s", name, l.error.message);
        CHECK((double)l.steps[1] <= 2.3 * (double)l.steps[0] + 100 && l.steps[1] < 64ull * SIZE,
              "\"%s\": %llu steps, then %llu", name, (unsigned long long)l.steps[0],
              (unsigned long long)l.steps[1]);
        CHECK(TEST_SANITIZED || l.seconds < 2, "\"%s\": %g s", name, l.seconds);
    }
}
