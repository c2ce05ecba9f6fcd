// Tests are written once over this header, which maps them to Criterion or, with TEST_PLAIN, to a
// small main in support.c: for `make core`, which links libc alone, and for sanitizers, whose
// reports Criterion ignores.
//
//     Test(softmax, survives_large_scores) {
//         CHECK(sum > 0, "sum is %g", sum);
//         CHECK_NEAR(sum, 1.0, 1e-6);
//     }
//
// A failed CHECK ends its test. SKIP prints why a test cannot run here and ends it.
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The emulator of a GPU (tests/cuda) runs a kernel some hundred times slower than the cpu backend
// computes the same: where it is at work, tests take fewer or smaller cases, which reach the same
// branches.
#ifndef TEST_EMULATED
#define TEST_EMULATED 0
#endif
#define EMULATED(emulated, elsewhere) (TEST_EMULATED ? (emulated) : (elsewhere))
#define SANITIZED(sanitized, elsewhere) (TEST_SANITIZED ? (sanitized) : (elsewhere))

#ifdef TEST_PLAIN

typedef struct TestCase {
    const char *suite, *name;
    void (*run)(void);
    struct TestCase *next;
} TestCase;
void test_register(TestCase *test);
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define Test(suite_, name_)                                                                        \
    static void test_##suite_##_##name_(void);                                                     \
    __attribute__((constructor)) static void register_##suite_##_##name_(void) {                   \
        static TestCase test = {#suite_, #name_, test_##suite_##_##name_, NULL};                   \
        test_register(&test);                                                                      \
    }                                                                                              \
    static void test_##suite_##_##name_(void)
#define TEST_FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) test_skip(__VA_ARGS__)

#else

#include <criterion/criterion.h>
#define TEST_FAIL(...) cr_assert_fail(__VA_ARGS__)
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "SKIPPED %s:%d: ", __FILE__, __LINE__);                                    \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        cr_skip_test(__VA_ARGS__);                                                                 \
    } while (0)

#endif

// The condition is an argument and not part of the format: it may hold a '%'.
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) TEST_FAIL("(%s)%s", #condition, test_text(" " __VA_ARGS__));             \
    } while (0)

#define CHECK_INT(got, wanted)                                                                     \
    do {                                                                                           \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                          \
        if (got_ != wanted_) TEST_FAIL(#got ": got %lld, wanted %lld", got_, wanted_);             \
    } while (0)

// NaN is never near anything.
#define CHECK_NEAR(got, wanted, tolerance)                                                         \
    do {                                                                                           \
        double got_ = (double)(got), wanted_ = (double)(wanted);                                   \
        if (!(fabs(got_ - wanted_) <= (double)(tolerance)))                                        \
            TEST_FAIL(#got ": got %.9g, wanted %.9g", got_, wanted_);                              \
    } while (0)

#define CHECK_STRING(got, wanted)                                                                  \
    do {                                                                                           \
        const char *got_ = (got), *wanted_ = (wanted);                                             \
        if (strcmp(got_, wanted_)) TEST_FAIL(#got ": got \"%s\", wanted \"%s\"", got_, wanted_);   \
    } while (0)

// 1 under AddressSanitizer, where tests shorten their loops and need larger stacks.
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif
// 1 where a sanitizer's allocator ends the program in place of returning NULL.
#if TEST_SANITIZED || defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define TEST_OWN_ALLOCATOR 1
#else
#define TEST_OWN_ALLOCATOR 0
#endif

// 1 where an emulator runs the program (make aarch64 on another processor).
#ifndef TEST_CROSS
#define TEST_CROSS 0
#endif

// ---- support.c ----

// A formatted text, borrowed until the next call.
const char *test_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

// "../shared/data/" + name where it exists; elsewhere the test prints why and is skipped. This path
// and those below live until the program ends.
const char *test_data(const char *name);
// The same, but NULL where it does not exist.
const char *test_data_if_any(const char *name);
// A small model of that family with its reference.safetensors, as a Hugging Face directory: the one
// of ../shared/data/reference-models where that exists, else the one of build/tiny-models.
const char *test_reference_model(const char *name);
// As test_data for a real model's file, in the directory that LIMPID_MODELS names, else in models/.
const char *test_model_file(const char *name);

// A seeded generator, splitmix64: the same numbers on every machine.
typedef struct TestRandom {
    uint64_t state;
} TestRandom;
uint64_t test_random(TestRandom *random);
float test_random_float(TestRandom *random, float low, float high);
float test_random_normal(TestRandom *random); // mean 0, deviation 1

// The whole file, NUL-terminated, malloced; fails the test when it cannot be read.
char *test_read_file(const char *path, size_t *size);
void test_write_file(const char *path, const void *bytes, size_t size);

// A path inside a fresh temporary directory that is removed at exit. The same name gives the same
// file.
const char *test_temporary(const char *name);
// The same, where no other test of the program has put a file of that name.
const char *test_temporary_new(const char *name);

// How many entries a directory has besides . and ..
int test_entries(const char *directory);

// Runs a program with arguments (NULL-terminated, argv[0] first), `input` on stdin (or NULL: empty)
// and returns its exit code (128 + signal where one killed it), stdout and stderr (malloced,
// NUL-terminated).
typedef struct TestRun {
    int status;
    char *out, *err;
    size_t out_size, err_size;
    bool
        drops_output; // on a terminal: Ctrl-C would have dropped what was being written (no NOFLSH)
} TestRun;
TestRun test_run(const char *const *argv, const char *input, size_t input_size);
void test_run_free(TestRun *run);
