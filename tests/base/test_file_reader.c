// Files that are copied, and the part of a mapped file that is loaded: what has been read stays,
// whatever becomes of the file, and a change is told.
#include "base/bytes.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file_of(const char *name, char letter, size_t size) {
    const char *path = test_temporary(name);
    char *bytes = malloc(size);
    memset(bytes, letter, size);
    test_write_file(path, bytes, size);
    free(bytes);
    return path;
}

// Writes over the file as it is, a second after the beginning of time.
static void overwrite(const char *path, char letter, size_t size) {
    char *bytes = malloc(size);
    memset(bytes, letter, size);
    int descriptor = open(path, O_WRONLY);
    CHECK(pwrite(descriptor, bytes, size, 0) == (ssize_t)size);
    close(descriptor);
    free(bytes);
    CHECK(!utimensat(AT_FDCWD, path, (struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}, 0));
}

static void check_error(const Error *error, ErrorCode code, const char *message) {
    CHECK_INT(error->code, code);
    CHECK(strstr(error->message, message), "\"%s\" does not say \"%s\"", error->message, message);
}

// ---- whole files ----

Test(file_copy, has_the_bytes_of_the_file) {
    const char *path = file_of("whole", 'a', 100000);
    FileCopy copy;
    CHECK(file_copy_open(&copy, path, 100000, NULL));
    CHECK_INT(copy.size, 100000);
    overwrite(path, 'b', 100000);
    for (size_t i = 0; i < copy.size; i++)
        CHECK_INT(copy.bytes[i], 'a');
    file_copy_close(&copy);
    file_copy_close(&copy);
}

Test(file_copy, refuses_what_is_no_file_or_too_large) {
    // The last two are regular files that say they are empty.
    static const char *const PATHS[] = {"/", "/dev/zero",      "/no/such/file",
                                        "",  "/proc/self/mem", "/proc/self/status"};
    FileCopy copy;
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        Error error = {0};
        CHECK(!file_copy_open(&copy, PATHS[i], 1000, &error), "%s", PATHS[i]);
        CHECK_INT(error.code, ERROR_IO);
    }
    Error error = {0}, large = {0};
    CHECK(!file_copy_open(&copy, file_of("empty", 'a', 0), 1000, &error));
    check_error(&error, ERROR_FILE, "the file is empty");
    const char *path = file_of("large", 'a', 1001);
    CHECK(!file_copy_open(&copy, path, 1000, &large));
    check_error(&large, ERROR_FILE, "a file of 1001 bytes, at most 1000 are read");
    CHECK(file_copy_open(&copy, path, 1001, NULL));
    file_copy_close(&copy);
}

// ---- changes between opening and the end ----

Test(file_reader, tells_that_a_file_was_written_to_cut_or_extended) {
    static const struct {
        size_t size;
        const char *message;
    } ROWS[] = {{5000, "the file was written to while it was read: try again once it is whole"},
                {4000, "the file was cut short while it was read, to 4000 of 5000 bytes"},
                {6000, "the file was written to while it was read"}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const char *path = file_of("changes", 'a', 5000);
        FileReader reader;
        char bytes[5000];
        Error error = {0}, other = {0};
        CHECK(file_reader_open(&reader, path, NULL));
        CHECK(file_reader_get(&reader, bytes, 0, 5000, NULL));
        overwrite(path, 'b', 10);
        CHECK(!truncate(path, (off_t)ROWS[i].size));
        bool there = ROWS[i].size >= 5000;
        CHECK(file_reader_get(&reader, bytes, 10, 4990, &error) == there);
        if (!there) check_error(&error, ERROR_IO, ROWS[i].message);
        CHECK(!file_reader_finish(&reader, &other));
        check_error(&other, ERROR_IO, ROWS[i].message);
        CHECK(file_reader_finish(&reader, NULL), "closed ones are fine");
    }
}

Test(file_reader, is_content_with_a_file_that_is_only_read) {
    const char *path = file_of("quiet", 'a', 5000);
    struct timespec far_off[2] = {{.tv_sec = INT64_MAX / 2}, {.tv_sec = INT64_MAX / 2}};
    CHECK(!utimensat(AT_FDCWD, path, far_off, 0));
    FileReader reader;
    char bytes[5000];
    Error error = {0};
    CHECK(file_reader_open(&reader, path, NULL));
    free(test_read_file(path, NULL));
    CHECK(!chmod(path, 0400));
    CHECK(file_reader_get(&reader, bytes, 0, 5000, NULL));
    CHECK(file_reader_finish(&reader, &error), "%s", error.message);
}

// A difference of one byte or of one nanosecond counts, and the size does even where the time of
// modification stays.
Test(file_reader, tells_the_smallest_change) {
    static const struct {
        off_t size;
        long nanoseconds;
        const char *message; // NULL: no change
    } ROWS[] = {{5000, 7, NULL},
                {4999, 7, "the file was cut short while it was read, to 4999 of 5000 bytes"},
                {5001, 7, "the file was written to while it was read"},
                {5000, 8, "the file was written to while it was read"}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const char *path = file_of("smallest", 'a', 5000);
        struct timespec before[2] = {{.tv_sec = 5}, {.tv_sec = 5, .tv_nsec = 7}}, after[2];
        memcpy(after, before, sizeof after);
        after[1].tv_nsec = ROWS[i].nanoseconds;
        FileReader reader;
        Error error = {0};
        CHECK(!utimensat(AT_FDCWD, path, before, 0));
        CHECK(file_reader_open(&reader, path, NULL));
        CHECK(reader.size == 5000 && reader.modified == 5000000007u);
        CHECK(!truncate(path, ROWS[i].size) && !utimensat(AT_FDCWD, path, after, 0));
        CHECK(file_reader_finish(&reader, &error) == !ROWS[i].message, "%s", error.message);
        if (ROWS[i].message) check_error(&error, ERROR_IO, ROWS[i].message);
    }
}

// As it is in a program that was started without standard input.
Test(file_reader, the_descriptor_may_be_0) {
    const char *path = file_of("zero", 'a', 100);
    FileReader reader = {0};
    Error error = {0};
    int input = dup(0);
    close(0);
    bool opened = file_reader_open(&reader, path, &error);
    int descriptor = reader.descriptor;
    overwrite(path, 'b', 100);
    bool unchanged = !opened || file_reader_finish(&reader, &error);
    bool open_still = fcntl(0, F_GETFD) >= 0;
    if (input >= 0) dup2(input, 0);
    close(input);
    CHECK(opened && descriptor == 0, "%d", descriptor);
    CHECK(!unchanged && !open_still);
    check_error(&error, ERROR_IO, "the file was written to while it was read");
}

// ---- reads that fail ----

// What the next calls of pread do: fail with this errno, or read one byte where it is 0. Linked
// with --wrap=pread.
static const int *answers;
static size_t n_answers;

ssize_t __real_pread(int descriptor, void *to, size_t count, off_t at);
ssize_t __wrap_pread(int descriptor, void *to, size_t count, off_t at);
ssize_t __wrap_pread(int descriptor, void *to, size_t count, off_t at) {
    if (!n_answers) return __real_pread(descriptor, to, count, at);
    n_answers--;
    int answer = *answers++;
    if (!answer) return __real_pread(descriptor, to, 1, at);
    errno = answer;
    return -1;
}

static void answer_with(const int *with, size_t count) {
    answers = with;
    n_answers = count;
}

Test(file_reader, goes_on_after_a_read_that_was_interrupted_or_short) {
    static const int ANSWERS[] = {EINTR, 0, EINTR, EINTR, 0};
    const char *path = test_temporary("interrupted");
    test_write_file(path, "0123456789", 10);
    FileReader reader;
    char bytes[9] = "";
    Error error = {0};
    CHECK(file_reader_open(&reader, path, NULL));
    answer_with(ANSWERS, 5);
    CHECK(file_reader_get(&reader, bytes, 2, 8, &error), "%s", error.message);
    CHECK_STRING(bytes, "23456789");
    // The errno of an earlier call says nothing about the end of the file.
    CHECK(!truncate(path, 5));
    errno = EINTR;
    CHECK(!file_reader_get(&reader, bytes, 2, 8, &error));
    check_error(&error, ERROR_IO, "cut short while it was read, to 5 of 10 bytes");
    file_reader_close(&reader);
}

Test(file_reader, a_read_that_fails_is_an_error_and_leaves_nothing) {
    static const struct {
        int number;
        ErrorCode code;
        const char *message;
    } ROWS[] = {{EIO, ERROR_IO, "cannot read it: Input/output error"},
                {ENOMEM, ERROR_MEMORY, "cannot read it: Cannot allocate memory"}};
    const char *path = file_of("failing", 'a', 100);
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        FileCopy copy;
        FileReader reader;
        Error error = {0}, empty = {0};
        answer_with(&ROWS[i].number, 1);
        CHECK(!file_copy_open(&copy, path, 100, &error) && !copy.bytes && !copy.size);
        check_error(&error, ROWS[i].code, ROWS[i].message);
        answer_with(&ROWS[i].number, 1);
        CHECK(!file_reader_open(&reader, file_of("no-bytes", 'a', 0), &empty));
        check_error(&empty, ROWS[i].code, ROWS[i].message);
        CHECK_INT(n_answers, 0);
    }
}

// ---- the loaded part of a mapping ----

enum { MAPPED = 1 << 20, LOADED = 70000 };

Test(mapping, what_is_loaded_stays_and_the_rest_is_the_file) {
    const char *path = file_of("loaded", 'a', MAPPED);
    Mapping mapping;
    mapping_guard();
    CHECK(mapping_open(&mapping, path, NULL));
    CHECK_INT(mapping.loaded, 0);
    CHECK(mapping_load(&mapping, LOADED, NULL) && mapping_load(&mapping, 10, NULL));
    size_t loaded = mapping.loaded;
    CHECK(loaded >= LOADED && loaded < MAPPED / 2, "%zu bytes", loaded);
    CHECK(mapping_seal(&mapping, NULL));
    overwrite(path, 'b', MAPPED);
    for (size_t i = 0; i < MAPPED; i++)
        CHECK(mapping.data[i] == (i < loaded ? 'a' : 'b'), "byte %zu is %c", i, mapping.data[i]);
    mapping_drop(&mapping, mapping.data, MAPPED);
    CHECK(!truncate(path, 1));
    for (size_t i = 0; i < loaded; i++)
        CHECK_INT(mapping.data[i], 'a');
    CHECK(!mapping_damaged(&mapping));
    CHECK_INT(mapping.data[loaded], 0);
    CHECK(mapping_damaged(&mapping));
    mapping_close(&mapping);
}

Test(mapping, loads_all_of_a_file_of_any_size) {
    static const size_t SIZES[] = {1, 4095, 4096, 4097, 65536, 65537, 200001};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const char *path = file_of("sizes", 'a', SIZES[i]);
        Mapping mapping;
        CHECK(mapping_open(&mapping, path, NULL));
        CHECK(mapping_load(&mapping, SIZES[i], NULL) && mapping_seal(&mapping, NULL));
        CHECK_INT(mapping.loaded, SIZES[i]);
        overwrite(path, 'b', SIZES[i]);
        CHECK(mapping.data[0] == 'a' && mapping.data[SIZES[i] - 1] == 'a');
        mapping_close(&mapping);
    }
}

Test(mapping, a_change_between_two_loads_is_told) {
    const char *path = file_of("between", 'a', MAPPED);
    Mapping mapping;
    Error error = {0}, cut = {0};
    CHECK(mapping_open(&mapping, path, NULL) && mapping_load(&mapping, 100, NULL));
    overwrite(path, 'b', MAPPED);
    CHECK(mapping_load(&mapping, MAPPED / 2, NULL));
    CHECK(!mapping_seal(&mapping, &error));
    check_error(&error, ERROR_IO, "was written to while it was read");
    mapping_close(&mapping);
    CHECK(mapping_open(&mapping, path, NULL) && mapping_load(&mapping, 100, NULL));
    CHECK(!truncate(path, 100000));
    CHECK(!mapping_load(&mapping, MAPPED, &cut));
    check_error(&cut, ERROR_IO, "cut short while it was read, to 100000 of 1048576 bytes");
    mapping_close(&mapping);
}

Test(mapping, memory_in_place_of_a_file_is_loaded) {
    static const char TEXT[] = "text";
    Mapping mapping = mapping_of_memory("name", TEXT, 4);
    CHECK(mapping_load(&mapping, 4, NULL) && mapping_seal(&mapping, NULL));
    CHECK(mapping.data == (const uint8_t *)TEXT && !mapping_damaged(&mapping));
    mapping_close(&mapping);
}

// ---- the bounded reader over a file ----

Test(bytes, over_a_file_load_what_is_taken) {
    const char *path = file_of("taken", 'a', MAPPED);
    Mapping mapping;
    Error error = {0};
    CHECK(mapping_open(&mapping, path, NULL));
    Bytes in = bytes_of_file(&mapping, &error);
    CHECK(bytes_left(&in) == MAPPED && !mapping.loaded);
    CHECK_INT(bytes_u8(&in, "first"), 'a');
    const uint8_t *taken = bytes_take(&in, LOADED, "taken");
    overwrite(path, 'b', MAPPED);
    for (size_t i = 0; i < LOADED; i++)
        CHECK_INT(taken[i], 'a');
    CHECK(!bytes_take(&in, MAPPED, "more") && in.failed);
    check_error(&error, ERROR_FILE, "truncated: more wants 1048576 bytes");
    mapping_close(&mapping);
}

Test(bytes, that_can_not_be_loaded_are_an_error_of_reading) {
    const char *path = file_of("gone", 'a', MAPPED);
    Mapping mapping;
    Error error = {0};
    CHECK(mapping_open(&mapping, path, NULL));
    Bytes in = bytes_of_file(&mapping, &error);
    CHECK_INT(bytes_u8(&in, "first"), 'a');
    CHECK(!truncate(path, 1));
    CHECK(!bytes_take(&in, MAPPED / 2, "half") && in.failed);
    check_error(&error, ERROR_IO, "cut short");
    CHECK(!bytes_take(&in, 1, "one"), "sticky");
    mapping_close(&mapping);
}

Test(bytes, as_much_metadata_as_the_limit_and_no_more) {
    const char *path = file_of("holes", 'a', 1);
    CHECK(!truncate(path, (off_t)LIMIT_METADATA + 4096));
    for (int more = 0; more < 2; more++) {
        Mapping mapping;
        Error error = {0};
        CHECK(mapping_open(&mapping, path, NULL));
        Bytes in = bytes_of_file(&mapping, &error);
        CHECK(bytes_take(&in, 8, "length"));
        CHECK((bytes_take(&in, LIMIT_METADATA - 8 + (uint64_t)more, "string") == NULL) == more,
              "%s", error.message);
        if (more)
            check_error(&error, ERROR_FILE, "offset 8: more than 268435456 bytes of metadata");
        mapping_close(&mapping);
    }
}

// What is loaded comes in steps; the byte behind a step is the first of the next.
Test(bytes, of_a_file_are_loaded_up_to_the_last_that_is_taken) {
    const char *path = file_of("steps", 'a', MAPPED);
    Mapping mapping;
    CHECK(mapping_open(&mapping, path, NULL));
    Bytes in = bytes_of_file(&mapping, NULL);
    CHECK(bytes_take(&in, 1, "first"));
    size_t step = mapping.loaded;
    CHECK(bytes_take(&in, step - 1, "the rest of the step") && mapping.loaded == step);
    const uint8_t *next = bytes_take(&in, 1, "next");
    CHECK(mapping.loaded > step);
    overwrite(path, 'b', MAPPED);
    CHECK_INT(*next, 'a');
    mapping_close(&mapping);
}

// The limit is on what is copied.
Test(bytes, of_memory_have_no_limit) {
    size_t size = (size_t)LIMIT_METADATA + 1;
    uint8_t *memory = calloc(1, size);
    CHECK(memory);
    Mapping mapping = mapping_of_memory("memory", memory, size);
    Error error = {0};
    Bytes in = bytes_of_file(&mapping, &error);
    CHECK(bytes_take(&in, size, "all") == memory, "%s", error.message);
    mapping_close(&mapping);
    free(memory);
}

Test(bytes, strings_have_their_length_in_front) {
    static const uint8_t BYTES[] = {2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 1, 0, 0, 0, 0, 0, 0, 0};
    Error error = {0};
    Bytes in = bytes_over(BYTES, sizeof BYTES, &error);
    TextSpan text = bytes_string(&in, "string");
    CHECK(span_equals(text, "ab"));
    text = bytes_string(&in, "string");
    CHECK(!text.text && !text.length && in.failed);
    check_error(&error, ERROR_FILE, "offset 18: truncated: string wants 1 bytes, 0 are left");
}
