// What the safetensors writer writes, read back by the reader and looked at byte by byte.
#include "base/json.h"
#include "tests/test.h"
#include "weights/hf/safetensors.h"
#include "weights/out/write.h"

#include <sys/stat.h>
#include <unistd.h>

static SafetensorsWriter *begin(const char *path, const WriteTensor *tensors, size_t n) {
    Error error = {0};
    SafetensorsWriter *w = safetensors_writer_open(&(OutputFile){.path = path, .force = true},
                                                   tensors, n, NULL, 0, &error);
    CHECK(w, "%s", error.message);
    return w;
}

static void put(SafetensorsWriter *w, size_t tensor, uint64_t offset, const void *data,
                size_t bytes) {
    Error error = {0};
    CHECK(safetensors_writer_put(w, tensor, offset, data, bytes, &error), "%s", error.message);
}

static void finish(SafetensorsWriter *w) {
    Error error = {0};
    CHECK(safetensors_writer_finish(w, &error), "%s", error.message);
    safetensors_writer_close(w);
}

static void open_file(SafetensorsFile *file, const char *path) {
    Error error = {0};
    CHECK(safetensors_open(file, path, &error), "%s", error.message);
}

static void check_tensor(const SafetensorsFile *file, const char *name, const char *type,
                         uint32_t rank, const void *bytes, size_t size) {
    const SafetensorsTensor *t = safetensors_find(file, name);
    CHECK(t, "no tensor \"%s\"", name);
    CHECK_STRING(t->type->name, type);
    CHECK_INT(t->plan.n_dims, rank);
    CHECK_INT(t->plan.bytes, size);
    CHECK(!memcmp(t->plan.data, bytes, size), "\"%s\" has other bytes", name);
}

static void check_not_open(const WriteTensor *tensors, size_t n, const char *because) {
    const char *path = test_temporary("refused.safetensors");
    Error error = {0};
    SafetensorsWriter *w = safetensors_writer_open(&(OutputFile){.path = path, .force = true},
                                                   tensors, n, NULL, 0, &error);
    CHECK(!w, "wanted \"%s\"", because);
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK(strstr(error.message, because), "\"%s\" is not in \"%s\"", because, error.message);
    CHECK(access(path, F_OK), "a file was made");
}

// The smallest file, byte by byte as the format says.
Test(write_safetensors, one_tensor_byte_by_byte) {
    static const char WANTED[] = "\x38\0\0\0\0\0\0\0"
                                 "{\"x\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
                                 "  \x2a\0\0\0";
    const char *path = test_temporary("one.safetensors");
    int32_t value = 42;
    WriteTensor tensor = {"x", "I32", 1, {1}};
    SafetensorsWriter *w = begin(path, &tensor, 1);
    put(w, 0, 0, &value, 4);
    finish(w);
    size_t size;
    char *bytes = test_read_file(path, &size);
    CHECK_INT(size, sizeof WANTED - 1);
    CHECK(!memcmp(bytes, WANTED, size), "got %s", bytes + 8);
    free(bytes);
}

Test(write_safetensors, comes_back_with_every_type_and_rank) {
    const char *path = test_temporary("types.safetensors");
    static const uint16_t HALVES[6] = {1, 2, 3, 4, 5, 6};
    static const float FLOATS[4] = {1.5f, -2, 3, 4};
    static const int64_t WIDE[1] = {-7};
    static const int32_t INTS[2] = {5, -6};
    const WriteTensor tensors[] = {
        {"half", "F16", 2, {2, 3}}, {"floats", "F32", 4, {1, 2, 2, 1}}, {"none", "F32", 2, {0, 4}},
        {"scalar", "I64", 0, {0}},  {"brain", "BF16", 3, {1, 3, 1}},    {"ints", "I32", 1, {2}}};
    SafetensorsWriter *w = begin(path, tensors, 6);
    put(w, 1, 8, FLOATS + 2, 8); // the second piece first
    put(w, 0, 0, HALVES, 12);
    put(w, 5, 0, INTS, 8);
    put(w, 3, 0, WIDE, 8);
    put(w, 4, 0, HALVES + 2, 6);
    put(w, 1, 0, FLOATS, 8);
    finish(w);
    SafetensorsFile file;
    open_file(&file, path);
    CHECK_INT(file.count, 6);
    check_tensor(&file, "half", "F16", 2, HALVES, 12);
    check_tensor(&file, "floats", "F32", 4, FLOATS, 16);
    check_tensor(&file, "none", "F32", 2, "", 0);
    check_tensor(&file, "scalar", "I64", 0, WIDE, 8);
    check_tensor(&file, "brain", "BF16", 3, HALVES + 2, 6);
    check_tensor(&file, "ints", "I32", 1, INTS, 8);
    // Wide ones first, else in the order given; each at a multiple of its element.
    static const char *const ORDER[] = {"scalar", "floats", "none", "ints", "half", "brain"};
    for (size_t i = 0; i < 6; i++) {
        CHECK_STRING(file.tensors[i].plan.name, ORDER[i]);
        CHECK(file.tensors[i].plan.offset % (file.tensors[i].type->bits / 8) == 0, "%s", ORDER[i]);
    }
    safetensors_close(&file);
}

Test(write_safetensors, names_and_metadata_of_any_letters) {
    static const char NAME[] = "a \"quoted\" \\ name\nwith \x01 and \x7f and caf\xc3\xa9";
    const WriteMetadata metadata[] = {{"prompt \"x\"", "one\ntwo\t\xff three"}, {"empty", ""}};
    const char *path = test_temporary("names.safetensors");
    WriteTensor tensor = {NAME, "F16", 1, {1}};
    Error error = {0};
    SafetensorsWriter *w = safetensors_writer_open(&(OutputFile){.path = path, .force = true},
                                                   &tensor, 1, metadata, 2, &error);
    CHECK(w, "%s", error.message);
    put(w, 0, 0, "ab", 2);
    finish(w);
    SafetensorsFile file;
    open_file(&file, path);
    check_tensor(&file, NAME, "F16", 1, "ab", 2);
    const char *text = (const char *)file.mapping.data + 8;
    size_t length = file.mapping.data[0] + 256u * file.mapping.data[1];
    CHECK(length % 8 == 0, "a header of %zu bytes", length);
    while (text[length - 1] == ' ')
        length--;
    json_t *header = json_parse(text, length, &JSON_CONFIG_LIMITS, &error);
    CHECK(header, "%s", error.message);
    json_t *said = json_object_get(header, "__metadata__");
    CHECK_STRING(json_string_value(json_object_get(said, "prompt \"x\"")),
                 "one\ntwo\t\xef\xbf\xbd three");
    CHECK_STRING(json_string_value(json_object_get(said, "empty")), "");
    json_decref(header);
    safetensors_close(&file);
}

Test(write_safetensors, no_tensors_at_all) {
    const char *path = test_temporary("nothing.safetensors");
    finish(begin(path, NULL, 0));
    SafetensorsFile file;
    open_file(&file, path);
    CHECK_INT(file.count, 0);
    CHECK_INT(file.mapping.size, 16);
    safetensors_close(&file);
}

Test(write_safetensors, finish_wants_every_byte) {
    const char *path = test_temporary("holes.safetensors");
    const WriteTensor tensors[] = {{"a", "F32", 1, {2}}, {"b", "F32", 1, {2}}};
    Error error = {0};
    SafetensorsWriter *w = begin(path, tensors, 2);
    put(w, 0, 0, "12345678", 8);
    put(w, 1, 4, "1234", 4);
    CHECK(!safetensors_writer_finish(w, &error), "finished");
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK(strstr(error.message, "\"b\": 4 of its 8 bytes were never written"), "%s", error.message);
    safetensors_writer_close(w);
    CHECK(access(path, F_OK), "a file was made");
}

Test(write_safetensors, a_tensor_takes_its_own_bytes_only) {
    const char *path = test_temporary("more.safetensors");
    const WriteTensor tensors[] = {{"a", "F32", 1, {2}}, {"b", "F32", 1, {2}}};
    SafetensorsWriter *w = begin(path, tensors, 2);
    Error error = {0};
    CHECK(!safetensors_writer_put(w, 0, 4, "12345678", 8, &error), "reaches into b");
    CHECK_INT(error.code, ERROR_USAGE);
    CHECK(!safetensors_writer_put(w, 0, UINT64_MAX, "1", 1, NULL), "around the corner");
    CHECK(!safetensors_writer_put(w, 2, 0, "1", 1, NULL), "a third tensor");
    put(w, 0, 0, "12345678", 8);
    CHECK(!safetensors_writer_put(w, 0, 0, "1234", 4, NULL), "twice");
    safetensors_writer_close(w);
}

Test(write_safetensors, refuses_what_no_file_can_hold) {
    const uint64_t half = (uint64_t)1 << 63;
    check_not_open(&(WriteTensor){"", "F32", 0, {0}}, 1, "can be called");
    check_not_open(&(WriteTensor){"__metadata__", "F32", 0, {0}}, 1, "can be called");
    check_not_open(&(WriteTensor){"bad \xff", "F32", 0, {0}}, 1, "can be called \"bad \\xff\"");
    check_not_open(&(WriteTensor){"a", "Q4_0", 0, {0}}, 1, "no element type \"Q4_0\"");
    check_not_open(&(WriteTensor){"a", "F32", 5, {1, 1, 1, 1}}, 1, "does not fit");
    check_not_open(&(WriteTensor){"a", "F32", 2, {half, 2}}, 1, "does not fit");
    check_not_open((WriteTensor[]){{"a", "F16", 0, {0}}, {"a", "F32", 0, {0}}}, 2, "twice");
    check_not_open((WriteTensor[]){{"a", "F32", 1, {half / 4}}, {"b", "F32", 1, {half / 4}}}, 2,
                   "do not fit a file");
}

Test(write_safetensors, a_path_that_cannot_be) {
    Error error = {0};
    WriteTensor tensor = {"a", "F32", 0, {0}};
    CHECK(!safetensors_writer_open(
              &(OutputFile){.path = "no/such/directory.safetensors", .force = true}, &tensor, 1,
              NULL, 0, &error),
          "opened");
    CHECK_INT(error.code, ERROR_IO);
    CHECK(strstr(error.message, "no/such/directory.safetensors: "), "%s", error.message);
    // More than any disk has.
    tensor = (WriteTensor){"a", "F32", 1, {(uint64_t)1 << 58}};
    CHECK(!safetensors_writer_open(&(OutputFile){.path = test_temporary("vast"), .force = true},
                                   &tensor, 1, NULL, 0, NULL),
          "2^60");
}

Test(write_safetensors, as_many_tensors_as_the_limit_says) {
    size_t n = LIMIT_TENSORS + 1;
    WriteTensor *tensors = calloc(n, sizeof *tensors);
    char(*names)[8] = malloc(n * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof *names, "%zu", i);
        tensors[i] = (WriteTensor){.name = names[i], .type = "F32", .rank = 1}; // of no bytes
    }
    check_not_open(tensors, n, "65537 tensors in one file (at most 65536)");
    const char *path = test_temporary("most.safetensors");
    finish(begin(path, tensors, n - 1));
    SafetensorsFile file;
    open_file(&file, path);
    check_tensor(&file, "65535", "F32", 1, "", 0);
    safetensors_close(&file);
    free(tensors);
    free(names);
}
