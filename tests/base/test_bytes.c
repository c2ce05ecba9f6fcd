// What all readers stand on: the bounded reader, the arena, the name index, mapped files.
#include "base/arena.h"
#include "base/bytes.h"
#include "base/mapping.h"
#include "base/text.h"
#include "tests/test.h"

#if TEST_SANITIZED
#include <sanitizer/asan_interface.h>
#endif
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- bytes ----

Test(bytes, numbers_are_little_endian) {
    const uint8_t data[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
                            0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f};
    Error error = {0};
    Bytes in = bytes_over(data, sizeof data, &error);
    CHECK_INT(bytes_u8(&in, "a"), 0x01);
    CHECK_INT(bytes_u16(&in, "b"), 0x0302);
    CHECK_INT(bytes_u32(&in, "c"), 0x07060504);
    CHECK(bytes_u64(&in, "d") == 0x0f0e0d0c0b0a0908u);
    CHECK(!in.failed && !bytes_left(&in));
}

Test(bytes, the_first_failure_sticks) {
    const uint8_t data[5] = {1, 0, 0, 0, 7};
    Error error = {0};
    Bytes in = bytes_over(data, sizeof data, &error);
    CHECK_INT(bytes_u32(&in, "version"), 1);
    CHECK_INT(bytes_u64(&in, "tensor count"), 0);
    CHECK(in.failed);
    CHECK_INT(bytes_u8(&in, "later"), 0); // there, but the reader has failed
    CHECK_INT(error.code, ERROR_FILE);
    CHECK_STRING(error.message, "offset 4: truncated: tensor count wants 8 bytes, 1 are left");
}

Test(bytes, a_number_that_is_cut_is_0) {
    static const uint8_t DATA[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t left = 0; left <= 8; left++) {
        uint8_t *data = malloc(left + !left); // so that a read past the end is seen
        memcpy(data, DATA, left);
        for (int kind = 0; kind < 5; kind++) {
            static const size_t SIZES[] = {1, 2, 4, 8, 4};
            Bytes in = bytes_over(data, left, NULL);
            bool zero = kind == 0   ? !bytes_u8(&in, "number")
                        : kind == 1 ? !bytes_u16(&in, "number")
                        : kind == 2 ? !bytes_u32(&in, "number")
                        : kind == 3 ? !bytes_u64(&in, "number")
                                    : bytes_f32(&in, "number") == 0;
            CHECK(zero == (left < SIZES[kind]) && zero == in.failed, "%d of %zu", kind, left);
            CHECK_INT(in.pos, zero ? 0 : SIZES[kind]);
            CHECK(!zero || !bytes_align(&in, 1, "padding"), "it has failed");
        }
        free(data);
    }
}

Test(bytes, counts_that_wrap_do_not_pass) {
    const uint8_t data[8] = {0};
    static const uint64_t COUNTS[] = {9, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        Bytes in = bytes_over(data, sizeof data, NULL);
        CHECK(!bytes_take(&in, COUNTS[i], "text"));
        CHECK(in.failed);
    }
    Bytes in = bytes_over(data, sizeof data, NULL);
    CHECK(bytes_take(&in, 8, "text") == data && bytes_take(&in, 0, "nothing"));
}

Test(bytes, alignment_stays_inside) {
    const uint8_t data[40] = {0};
    Bytes in = bytes_over(data, sizeof data, NULL);
    bytes_u8(&in, "a");
    CHECK(bytes_align(&in, 32, "padding") && in.pos == 32);
    CHECK(bytes_align(&in, 32, "padding") && in.pos == 32);
    bytes_u8(&in, "b");
    CHECK(!bytes_align(&in, 32, "padding"));
}

Test(bytes, checked_arithmetic_knows_its_edge) {
    uint64_t out;
    CHECK(mul_ok((uint64_t)1 << 32, ((uint64_t)1 << 32) - 1, &out));
    CHECK(!mul_ok((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
    CHECK(add_ok(UINT64_MAX - 1, 1, &out) && out == UINT64_MAX);
    CHECK(!add_ok(UINT64_MAX, 1, &out));
    CHECK(align_ok(33, 32, &out) && out == 64);
    CHECK(align_ok(UINT64_MAX - 31, 32, &out) && out == UINT64_MAX - 31);
    CHECK(!align_ok(UINT64_MAX - 30, 32, &out));
}

// ---- arena ----

Test(arena, pieces_are_zeroed_apart_and_aligned) {
    Arena arena = {0};
    uint8_t *pieces[300];
    for (size_t i = 0; i < 300; i++) {
        size_t size = i % 7 == 3 ? 40000 : i;
        pieces[i] = arena_alloc(&arena, size, 1, NULL);
        CHECK(pieces[i]);
        CHECK_INT((uintptr_t)pieces[i] & 63, 0);
        for (size_t j = 0; j < size; j++)
            CHECK_INT(pieces[i][j], 0);
        memset(pieces[i], (int)(i % 251), size);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t j = 0; j < (i % 7 == 3 ? 40000 : i); j += 97)
            CHECK_INT(pieces[i][j], i % 251);
    arena_free(&arena);
}

// So that a reader that overruns one of its arrays by a byte is found, as one of malloc would be.
Test(arena, address_sanitizer_sees_the_end_of_each_piece) {
#if TEST_SANITIZED
    Arena arena = {0};
    for (size_t size = 0; size < 300; size += 7) {
        uint8_t *piece = arena_alloc(&arena, size, 1, NULL);
        CHECK(!__asan_region_is_poisoned(piece, size));
        for (size_t i = 0; i < 64; i++)
            CHECK(__asan_address_is_poisoned(piece + size + i));
    }
    uint8_t *of_its_own = arena_alloc(&arena, 100001, 1, NULL);
    CHECK(__asan_region_is_poisoned(of_its_own, 100002) == of_its_own + 100001);
    arena_free(&arena);
#else
    SKIP("not built with AddressSanitizer");
#endif
}

Test(arena, sizes_that_overflow_are_no_memory) {
    Arena arena = {0};
    Error error = {0};
    CHECK(!arena_alloc(&arena, (uint64_t)1 << 61, 8, &error));
    CHECK_INT(error.code, ERROR_MEMORY);
    CHECK(!arena_alloc(&arena, UINT64_MAX, 1, NULL));
    arena_free(&arena);
}

// ---- names ----

static NameEntry entry(const char *text, uint32_t item) {
    return (NameEntry){{text, strlen(text)}, item};
}

Test(names, are_found_whatever_their_order) {
    NameEntry entries[] = {entry("b", 0), entry("a", 1), entry("abc", 2), entry("ab", 3)};
    NameIndex index;
    CHECK(names_index(&index, entries, 4, "key", NULL));
    CHECK_INT(names_find(&index, "b"), 0);
    CHECK_INT(names_find(&index, "ab"), 3);
    CHECK_INT(names_find(&index, "abc"), 2);
    CHECK_INT(names_find(&index, "abcd"), -1);
    CHECK_INT(names_find(&index, ""), -1);
}

Test(names, twice_is_refused_with_the_name) {
    NameEntry entries[] = {entry("x", 0), entry("y", 1), entry("x", 2)};
    NameIndex index;
    Error error = {0};
    CHECK(!names_index(&index, entries, 3, "key", &error));
    CHECK_STRING(error.message, "key \"x\" appears twice");
}

// ---- mapped files ----

Test(mapping, refuses_what_is_no_file) {
    static const char *const PATHS[] = {"/", "/dev/zero", "/no/such/file", ""};
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        Error error = {0};
        Mapping mapping;
        CHECK(!mapping_open(&mapping, PATHS[i], &error), "%s", PATHS[i]);
        CHECK_INT(error.code, ERROR_IO);
        mapping_close(&mapping);
    }
    Error error = {0};
    Mapping mapping;
    const char *fifo = test_temporary("fifo");
    CHECK(!mkfifo(fifo, 0600));
    CHECK(!mapping_open(&mapping, fifo, &error)); // and does not wait for a writer
    CHECK_INT(error.code, ERROR_IO);
}

Test(mapping, an_empty_file_is_a_bad_file) {
    Error error = {0};
    Mapping mapping;
    const char *path = test_temporary("empty");
    test_write_file(path, "", 0);
    CHECK(!mapping_open(&mapping, path, &error));
    CHECK_INT(error.code, ERROR_FILE);
}

Test(mapping, a_file_cut_short_gives_zeros_and_says_so) {
    size_t size = 5 * 4096;
    char *bytes = malloc(size);
    memset(bytes, 'x', size);
    const char *path = test_temporary("cut");
    test_write_file(path, bytes, size);
    free(bytes);
    Mapping mapping;
    mapping_guard();
    CHECK(mapping_open(&mapping, path, NULL));
    CHECK_INT(mapping.data[size - 1], 'x');
    CHECK(!mapping_damaged(&mapping));
    CHECK(!truncate(path, 4096));
    CHECK_INT(mapping.data[100], 'x');
    CHECK(!mapping_damaged(&mapping));
    CHECK_INT(mapping.data[3 * 4096 + 17], 0);
    CHECK(mapping_damaged(&mapping));
    mapping_drop(&mapping, mapping.data, size);
    CHECK_INT(mapping.data[4 * 4096], 0);
    mapping_close(&mapping);
    CHECK(mapping_open(&mapping, path, NULL)); // a new mapping starts undamaged
    CHECK(!mapping_damaged(&mapping));
    mapping_close(&mapping);
}

Test(mapping, a_fault_elsewhere_still_kills) {
    const char *path = test_temporary("other");
    test_write_file(path, "0123456789", 10);
    Mapping mapping;
    mapping_guard();
    CHECK(mapping_open(&mapping, path, NULL));
    pid_t child = fork();
    if (!child) {
        fclose(stderr); // a sanitizer would report it there
        raise(SIGBUS);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status), "status %d", status);
    mapping_close(&mapping);
}

Test(mapping, as_many_files_as_the_table_has_and_no_more) {
    static Mapping mappings[MAPPING_FILES];
    const char *path = test_temporary("many");
    Error error = {0};
    Mapping one_more;
    mapping_guard();
    test_write_file(path, "x", 1);
    for (int i = 0; i < MAPPING_FILES; i++)
        CHECK(mapping_open(&mappings[i], path, NULL) && mapping_seal(&mappings[i], NULL), "%d", i);
    CHECK(!mapping_open(&one_more, path, &error));
    CHECK_STRING(error.message, "more than 1024 files are open at once");
    mapping_close(&mappings[500]);
    CHECK(mapping_open(&mappings[500], path, NULL));
    for (int i = 0; i < MAPPING_FILES; i++)
        mapping_close(&mappings[i]);
}

Test(mapping, dropped_pages_come_back) {
    size_t size = 8 * 4096 + 5;
    uint8_t *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7);
    const char *path = test_temporary("drop");
    test_write_file(path, bytes, size);
    Mapping mapping;
    CHECK(mapping_open(&mapping, path, NULL));
    mapping_drop(&mapping, mapping.data + 100, size - 200);
    CHECK(!memcmp(mapping.data, bytes, size));
    mapping_drop(&mapping, mapping.data + 5, 10); // less than a page: nothing to do
    mapping_close(&mapping);
    free(bytes);
}

Test(text, a_path_beside_a_file_is_in_its_directory_and_of_any_length) {
    static const char *const CASES[][3] = {{"a/b/model.gguf", "tokenizer.bin", "a/b/tokenizer.bin"},
                                           {"model.gguf", "tokenizer.bin", "./tokenizer.bin"},
                                           {"/model.gguf", "x", "/x"},
                                           {"a/b/", "x", "a/b/x"},
                                           {"a/model.gguf", "", "a/"}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char *path = path_beside(CASES[i][0], CASES[i][1], NULL);
        CHECK_STRING(path, CASES[i][2]);
        free(path);
    }
    char *longest = text_print(NULL, "%06000d/x", 0), *beside = path_beside(longest, "yz", NULL);
    CHECK_INT(strlen(beside), 6003);
    CHECK_STRING(beside + 6000, "/yz");
    free(longest);
    free(beside);
}
