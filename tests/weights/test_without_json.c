// The reader of safetensors headers in builds without a JSON library: what limpid writes comes
// back, what it does not write is refused, no byte makes it read past the text.
#include "tests/test.h"
#include "weights/hf/safetensors.h"
#include "weights/out/write.h"

static const char *written(void) {
    static const WriteTensor TENSORS[] = {{"a \"b\" \\ \x01 \xc3\xa4", "F32", 2, {2, 3}},
                                          {"ids", "I64", 1, {3}},
                                          {"none", "F16", 1, {0}},
                                          {"one", "F32", 0, {0}}};
    static const WriteMetadata METADATA[] = {{"precision", "f32"}, {"order", "x\ny\n\"z\""}};
    static const float A[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t IDS[3] = {7, 8, 9};
    const char *path = test_temporary("written.safetensors");
    Error error = {0};
    SafetensorsWriter *out = safetensors_writer_open(&(OutputFile){.path = path, .force = true},
                                                     TENSORS, 4, METADATA, 2, &error);
    bool good = out && safetensors_writer_put(out, 0, 0, A, 24, &error) &&
                safetensors_writer_put(out, 1, 0, IDS, 24, &error) &&
                safetensors_writer_put(out, 3, 0, A + 4, 4, &error) &&
                safetensors_writer_finish(out, &error);
    CHECK(good, "%s", error.message);
    safetensors_writer_close(out);
    return path;
}

Test(without_json, reads_what_limpid_writes) {
    SafetensorsFile file;
    Error error = {0};
    const char *value;
    CHECK(safetensors_open(&file, written(), &error), "%s", error.message);
    CHECK_INT(file.count, 4);
    const SafetensorsTensor *a = safetensors_find(&file, "a \"b\" \\ \x01 \xc3\xa4");
    const SafetensorsTensor *ids = safetensors_find(&file, "ids");
    const SafetensorsTensor *one = safetensors_find(&file, "one");
    CHECK(a && a->plan.n_dims == 2 && a->plan.shape[0] == 2 && a->plan.shape[1] == 3);
    CHECK(a->plan.dtype == DTYPE_F32 && ((const float *)a->plan.data)[5] == 6);
    CHECK(ids && ids->plan.dtype == DTYPE_COUNT && ((const int64_t *)ids->plan.data)[2] == 9);
    CHECK(one && one->plan.n_dims == 0 && ((const float *)one->plan.data)[0] == 5);
    CHECK(safetensors_metadata(&file, "order", &value, &error));
    CHECK_STRING(value, "x\ny\n\"z\"");
    CHECK(safetensors_metadata(&file, "precision", &value, &error));
    CHECK_STRING(value, "f32");
    CHECK(safetensors_metadata(&file, "orde", &value, &error) && !value);
    safetensors_close(&file);
}

// The header `text` and `data_bytes` zeros, at the end of a block of their own. NULL: accepted.
static void check(const char *text, size_t data_bytes, const char *message) {
    size_t length = strlen(text), count, size = 8 + length + data_bytes;
    uint8_t *bytes = calloc(1, size);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, text, length);
    SafetensorsTensor *tensors;
    Arena arena = {0};
    Error error = {0};
    bool good = safetensors_parse(&tensors, &count, bytes_over(bytes, size, &error), &arena);
    arena_free(&arena);
    free(bytes);
    CHECK(good == !message, "%s: %s", text, error.message);
    CHECK(good || (error.code == ERROR_FILE && strstr(error.message, message)), "%s: %s", text,
          error.message);
}

#define TENSOR(name, shape, range)                                                                 \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":" shape ",\"data_offsets\":" range "}"

Test(without_json, refuses_what_limpid_does_not_write) {
    check("{}", 0, NULL);
    check("{}   ", 0, NULL);
    check("{" TENSOR("a", "[2,2]", "[0,4]") "}", 4, NULL);
    check("{\"__metadata__\":{\"k\":\"v\"}}", 0, NULL);
    check("{" TENSOR("a", "[4]", "[0,4]") "," TENSOR("b", "[4]", "[4,8]") "}", 8, NULL);
    check("{ }", 0, "offset 1: wanted");
    check("{}x", 0, "offset 2: wanted spaces");
    check("{", 0, "does not begin with");
    check("{,}", 0, "offset 1");
    check("{\"a\"}", 0, "offset 4");
    check("{" TENSOR("a", "[4]", "[0,4]") ",}", 4, "wanted");
    check("{\"a\": {}}", 0, "offset 4");
    check("{" TENSOR("a", "[4.0]", "[0,4]") "}", 4, "wanted");
    check("{" TENSOR("a", "[-4]", "[0,4]") "}", 4, "wanted a number");
    check("{" TENSOR("a", "[04]", "[0,4]") "}", 4, "wanted a number");
    check("{" TENSOR("a", "[18446744073709551616]", "[0,4]") "}", 4, "64 bits");
    check("{" TENSOR("a", "[4294967296,4294967296]", "[0,4]") "}", 4, "does not fit 64 bits");
    check("{" TENSOR("a", "[1,1,1,1,4]", "[0,4]") "}", 4, "at most 4 dimensions");
    check("{" TENSOR("a", "[4]", "[0,8]") "}", 4, "outside the 4 bytes");
    check("{" TENSOR("a", "[4]", "[0,3]") "}", 4, "span 3 bytes");
    check("{" TENSOR("a", "[4]", "[0,4]") "}", 5, "1 bytes after the last");
    check("{" TENSOR("a", "[4]", "[0,4]") "," TENSOR("a", "[4]", "[4,8]") "}", 8, "twice");
    check("{" TENSOR("a", "[4]", "[0,4]") "," TENSOR("b", "[4]", "[3,7]") "}", 7, "overlaps");
    check("{" TENSOR("\\u0000", "[4]", "[0,4]") "}", 4, "wanted a character");
    check("{" TENSOR("\\ud800", "[4]", "[0,4]") "}", 4, "wanted a character");
    check("{" TENSOR("\\n", "[4]", "[0,4]") "}", 4, "wanted a character");
    check("{" TENSOR("\xff", "[4]", "[0,4]") "}", 4, "wanted a character");
    check("{" TENSOR("a\\", "[4]", "[0,4]") "}", 4, "wanted");
    check("{\"__metadata__\":{}}", 0, "wanted");
    check("{\"__metadata__\":{\"k\":1}}", 0, "wanted");
}

Test(without_json, survives_any_cut_and_any_byte) {
    size_t size, count;
    char *bytes = test_read_file(written(), &size);
    size_t header = (size_t)(uint8_t)bytes[0] + (size_t)(uint8_t)bytes[1] * 256;
    for (size_t at = 8; at < 8 + header; at++) {
        for (int value = 0; value < 256; value += TEST_SANITIZED ? 13 : 3) {
            SafetensorsTensor *tensors;
            Arena arena = {0};
            Error error = {0};
            char *copy = malloc(size), old = bytes[at];
            bytes[at] = (char)value;
            memcpy(copy, bytes, size);
            bytes[at] = old;
            bool good = safetensors_parse(&tensors, &count, bytes_over(copy, size, &error), &arena);
            arena_free(&arena);
            free(copy);
            CHECK(good || error.code == ERROR_FILE, "byte %zu is %d", at, value);
        }
    }
    for (size_t cut = 0; cut < size; cut++) {
        SafetensorsTensor *tensors;
        Arena arena = {0};
        Error error = {0};
        char *copy = malloc(cut + !cut);
        memcpy(copy, bytes, cut);
        bool good = safetensors_parse(&tensors, &count, bytes_over(copy, cut, &error), &arena);
        arena_free(&arena);
        free(copy);
        CHECK(!good && error.code == ERROR_FILE, "%zu of %zu bytes", cut, size);
    }
    free(bytes);
}
