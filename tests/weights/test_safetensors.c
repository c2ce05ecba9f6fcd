// One safetensors file in memory: what the format allows, what it forbids (HOSTILE S01 - S17, S19),
// each refusal beside an accepted twin.
#include "tests/support/changed_bytes.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/test.h"
#include "weights/hf/safetensors.h"

#include <time.h>

typedef struct Parsed {
    SafetensorsTensor *tensors;
    size_t count;
    Arena arena;
    Error error;
    bool good;
} Parsed;

// The bytes are copied to the end of a block of their own, so that ASan sees a read past them.
static Parsed parse(const void *bytes, size_t size) {
    Parsed p = {0};
    uint8_t *copy = malloc(size + !size);
    memcpy(copy, bytes, size);
    p.good = safetensors_parse(&p.tensors, &p.count, bytes_over(copy, size, &p.error), &p.arena);
    free(copy);
    return p;
}

// A file of the header `json` and `data_bytes` zeros.
static Parsed parse_header(const char *json, size_t length, size_t data_bytes) {
    size_t size = 8 + length + data_bytes;
    char *file = calloc(1, size);
    for (size_t i = 0; i < 8; i++)
        file[i] = (char)(length >> (8 * i));
    memcpy(file + 8, json, length);
    Parsed p = parse(file, size);
    free(file);
    return p;
}

typedef struct Case {
    const char *json;
    size_t data_bytes;
    const char *message; // part of it; NULL: accepted
} Case;

static void check_cases(const Case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        Parsed p = parse_header(cases[i].json, strlen(cases[i].json), cases[i].data_bytes);
        arena_free(&p.arena);
        const char *json = cases[i].json;
        if (!cases[i].message) {
            CHECK(p.good, "%.200s: %s", json, p.error.message);
            continue;
        }
        CHECK(!p.good, "accepted: %.200s", json);
        CHECK_INT(p.error.code, ERROR_FILE);
        CHECK(strstr(p.error.message, cases[i].message), "%.200s: \"%s\" is not in \"%s\"", json,
              cases[i].message, p.error.message);
    }
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end   \
    "]}"
#define CASES(array) array, sizeof array / sizeof *array

Test(safetensors, lists_names_types_shapes_and_places) {
    static const float A[6] = {1, 2, 3, 4, 5, 6};
    static const uint16_t B[2] = {0x3f80, 0x4000};
    WriterTensor list[] = {{"a", "F32", 2, {2, 3}, A, sizeof A},
                           {"b", "BF16", 1, {2}, B, sizeof B},
                           {"none", "F16", 2, {0, 4}, NULL, 0},
                           {"one", "F32", 0, {0}, A + 5, 4}};
    size_t size;
    char *file = safetensors_bytes(&size, list, 4, 5);
    SafetensorsTensor *tensors;
    size_t count;
    Arena arena = {0};
    Error error = {0};
    CHECK(safetensors_parse(&tensors, &count, bytes_over(file, size, &error), &arena), "%s",
          error.message);
    CHECK_INT(count, 4);
    CHECK_STRING(tensors[0].plan.name, "a");
    CHECK(tensors[0].plan.n_dims == 2 && tensors[0].plan.shape[0] == 2 &&
          tensors[0].plan.shape[1] == 3 && tensors[0].plan.bytes == 24);
    CHECK(!memcmp(tensors[0].plan.data, A, sizeof A));
    CHECK(tensors[1].plan.dtype == DTYPE_BF16 && !memcmp(tensors[1].plan.data, B, sizeof B));
    CHECK(tensors[2].plan.bytes == 0 && tensors[3].plan.n_dims == 0 && tensors[3].plan.bytes == 4);
    CHECK_INT(tensors[3].plan.offset, size - 4);
    arena_free(&arena);
    free(file);
}

Test(safetensors, s01_header_lengths) {
    static const uint64_t LENGTHS[] = {0, 1, UINT64_MAX, UINT64_MAX - 7, 100000001, 100000000, 3};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        char file[10] = {0};
        memcpy(file, &LENGTHS[i], 8);
        memcpy(file + 8, "{}", 2);
        Parsed p = parse(file, sizeof file);
        arena_free(&p.arena);
        CHECK(!p.good, "length %llu", (unsigned long long)LENGTHS[i]);
        CHECK_INT(p.error.code, ERROR_FILE);
        CHECK(strstr(p.error.message, LENGTHS[i] > 100000000 ? "at most 100000000" : "offset"),
              "length %llu: %s", (unsigned long long)LENGTHS[i], p.error.message);
    }
    for (size_t size = 0; size < 10; size++) {
        Parsed p = parse("\2\0\0\0\0\0\0\0{}", size);
        arena_free(&p.arena);
        CHECK(!p.good && p.error.code == ERROR_FILE, "%zu bytes", size);
    }
    Parsed p = parse("\2\0\0\0\0\0\0\0{}", 10); // no tensors: legal
    arena_free(&p.arena);
    CHECK(p.good && p.count == 0, "%s", p.error.message);
}

Test(safetensors, s02_to_s06_text_of_the_header) {
    static const Case LIST[] = {
        {" {}", 0, "offset 8: the header does not begin with '{'"},
        {"\xef\xbb\xbf{}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{}        ", 0, NULL},
        {"{\"a\xff\":1}", 0, "invalid JSON"},
        {"{\"a\xc0\xaf\":1}", 0, "invalid JSON"},
        {"{\"\\ud800\":1}", 0, "invalid JSON"},
        {"{\"\\u0000\":1}", 0, "invalid JSON"},
        {"{\"a\":", 0, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") ",}", 4, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "} x", 4, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "}{}", 4, "invalid JSON"},
        {"{/**/}", 0, "invalid JSON"},
        {"{,}", 0, "invalid JSON"},
        {"{]", 0, "invalid JSON"},
        {"{ }", 0, NULL},
        {"{}\n", 0, NULL},
        {"{}{}", 0, "invalid JSON: more after the object"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" twice"},
        {"{" TENSOR("a", "F32", "[1}", "0", "4") "}", 4, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "]", 4, "invalid JSON: ']' ends an object"},
        {"{\"a\",\"b\"}", 0, "invalid JSON"},
        {"{\"a\"}", 0, "invalid JSON"},
        {"{1}", 0, "invalid JSON"},
        {"{'a':1}", 0, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "}", 4, NULL},
    };
    check_cases(CASES(LIST));
    Parsed p = parse_header("{\0}\0", 4, 0); // UTF-16
    arena_free(&p.arena);
    CHECK(!p.good);
    size_t depth = 100000;
    char *deep = malloc(depth + 1);
    memset(deep, '[', depth);
    deep[0] = '{';
    p = parse_header(deep, depth, 0);
    arena_free(&p.arena);
    free(deep);
    CHECK(strstr(p.error.message, "nested deeper than 64"), "%s", p.error.message);
}

Test(safetensors, s07_s08_numbers_and_duplicates) {
    static const Case LIST[] = {
        {"{" TENSOR("a", "F32", "[01]", "0", "4") "}", 4, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[+1]", "0", "4") "}", 4, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1e0]", "0", "4") "}", 4, "wanted an integer, got a real"},
        {"{" TENSOR("a", "F32", "[1.0]", "0", "4") "}", 4, "wanted an integer, got a real"},
        {"{" TENSOR("a", "F32", "[true]", "0", "4") "}", 4, "wanted an integer, got true"},
        {"{" TENSOR("a", "F32", "[\"1\"]", "0", "4") "}", 4, "wanted an integer, got a string"},
        {"{" TENSOR("a", "F32", "[-0]", "0", "0") "}", 0, "a negative number"},
        {"{" TENSOR("a", "F32", "[1]", "-0", "4") "}", 4, "a negative number"},
        {"{" TENSOR("a", "F32", "[1]", "-4", "0") "}", 4, "a negative number"},
        {"{" TENSOR("a", "F32", "[18446744073709551616]", "0", "4") "}", 4, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "18446744073709551624", "12") "}", 12, "invalid JSON"},
        {"{" TENSOR("a", "F32", "[1]", "0.0", "4") "}", 4, "wanted an integer, got a real"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("a", "F32", "[1]", "4", "8") "}", 8,
         "tensor \"a\" appears twice"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("\\u0061", "F32", "[1]", "4", "8") "}",
         8, "tensor \"a\" appears twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "duplicate object key"},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "4", "8") "}", 8,
         NULL},
    };
    check_cases(CASES(LIST));
    char digits[600];
    int length =
        snprintf(digits, sizeof digits,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[%0400d1],\"data_offsets\":[0,4]}}", 0);
    memset(strchr(digits, '[') + 1, '1', 400);
    Parsed p = parse_header(digits, (size_t)length, 4);
    arena_free(&p.arena);
    CHECK(!p.good && strstr(p.error.message, "invalid JSON"), "%s", p.error.message);
}

Test(safetensors, s09_s10_entries_and_types) {
    static const Case LIST[] = {
        {"{\"a\":{}}", 0, "tensor \"a\": wanted dtype, shape and data_offsets, got an object of 0"},
        {"{\"a\":[]}", 0, "got an array of 0"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "got an object of 2"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4],\"x\":1}}", 4,
         "\"shape\": wanted an array, got nothing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"x\":1}}", 4,
         "\"data_offsets\": wanted two integers, got nothing"},
        {"{\"a\":{\"x\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "\"dtype\": wanted a string, got nothing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
         "got an object of 4"},
        {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "\"dtype\": wanted a string, got an integer"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4,
         "\"shape\": wanted an array, got an integer"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4,
         "wanted two integers"},
        {"{" TENSOR("a", "F32", "[1]", "0", "\"4\"") "}", 4, "\"data_offsets\": wanted"},
        {"{" TENSOR("a", "F1", "[1]", "0", "4") "}", 4, "unknown dtype \"F1\""},
        {"{" TENSOR("a", "f32", "[1]", "0", "4") "}", 4, "unknown dtype \"f32\""},
        {"{" TENSOR("a", "", "[1]", "0", "4") "}", 4, "unknown dtype \"\""},
        {"{" TENSOR("a", "F4", "[3]", "0", "1") "}", 1, "ends inside a byte"},
        {"{" TENSOR("a", "F4", "[4]", "0", "2") "}", 2, NULL},
        {"{" TENSOR("a", "I64", "[1]", "0", "8") "}", 8, NULL}, // traces have ids
        {"{" TENSOR("a", "BOOL", "[3]", "0", "3") "}", 3, NULL},
    };
    check_cases(CASES(LIST));
    size_t length = 1 << 20;
    char *json = malloc(length + 100);
    strcpy(json, "{\"a\":{\"dtype\":\"");
    memset(json + 15, 'F', length);
    strcpy(json + 15 + length, "\",\"shape\":[1],\"data_offsets\":[0,4]}}");
    Parsed p = parse_header(json, strlen(json), 4);
    arena_free(&p.arena);
    free(json);
    CHECK(!p.good && strstr(p.error.message, "unknown dtype \"FFFFF"), "%s", p.error.message);
}

// The bits of an element, as the format's table has them; 8 elements are as many bytes.
Test(safetensors, every_type_has_its_size) {
    static const struct {
        const char *name;
        int bits;
    } TYPES[] = {
        {"F32", 32},    {"F16", 16},        {"BF16", 16},       {"F64", 64},    {"I64", 64},
        {"U64", 64},    {"I32", 32},        {"U32", 32},        {"I16", 16},    {"U16", 16},
        {"I8", 8},      {"U8", 8},          {"BOOL", 8},        {"C64", 64},    {"F8_E5M2", 8},
        {"F8_E4M3", 8}, {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
        {"F4", 4},      {"F8_E5M2FNUZ", 8},
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        for (int bytes = TYPES[i].bits - 1; bytes <= TYPES[i].bits + 1; bytes++) {
            const char *json = test_text("{\"a\":{\"dtype\":\"%s\",\"shape\":[8],"
                                         "\"data_offsets\":[0,%d]}}",
                                         TYPES[i].name, bytes);
            Parsed p = parse_header(json, strlen(json), (size_t)bytes);
            arena_free(&p.arena);
            CHECK(p.good == (bytes == TYPES[i].bits), "%s: %s", json, p.error.message);
        }
}

Test(safetensors, s11_s12_shape_against_range) {
    static const Case LIST[] = {
        {"{" TENSOR("a", "F32", "[2]", "0", "4") "}", 4, "span 4 bytes, dtype and shape 8"},
        {"{" TENSOR("a", "F16", "[2]", "0", "4") "}", 4, NULL},
        {"{" TENSOR("a", "F32", "[4294967296,4294967296,2]", "0", "4") "}", 4,
         "does not fit 64 bits"},
        {"{" TENSOR("a", "F32", "[4611686018427387906]", "0", "8") "}", 8, "does not fit 64 bits"},
        {"{" TENSOR("a", "F32", "[576460752303423489]", "0", "4") "}", 4, "does not fit 64 bits"},
        {"{" TENSOR("a", "F32", "[1]", "4", "0") "}", 4, "are outside the 4 bytes of data"},
        {"{" TENSOR("a", "F32", "[1]", "0", "8") "}", 4, "are outside the 4 bytes of data"},
        {"{" TENSOR("a", "F32", "[2]", "0", "8") "}", 4, "are outside the 4 bytes of data"},
        {"{" TENSOR("a", "F32", "[1]", "9223372036854775807", "9223372036854775807") "}", 4,
         "are outside the 4 bytes of data"},
        {"{" TENSOR("a", "F32", "[1]", "18446744073709551615", "3") "}", 4, "invalid JSON"},
    };
    check_cases(CASES(LIST));
}

// An offset that no file would have, beside what a longer file would have.
Test(safetensors, a_wrong_offset_makes_no_file_incomplete) {
    static const struct {
        const char *json;
        bool incomplete;
    } LIST[] = {
        {"{" TENSOR("a", "F32", "[2]", "0", "8") "}", true},
        {"{" TENSOR("a", "F32", "[1]", "0", "4") "," TENSOR("b", "F32", "[1]", "4", "8") "}", true},
        {"{" TENSOR("a", "F32", "[1]", "8", "12") "}", false},
        {"{" TENSOR("a", "F32", "[1]", "0", "8") "}", false},
        {"{" TENSOR("a", "U8", "[4]", "9223372036854775803", "9223372036854775807") "}", false},
    };
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        Parsed p = parse_header(LIST[i].json, strlen(LIST[i].json), 4);
        arena_free(&p.arena);
        CHECK(!p.good && strstr(p.error.message, "are outside the 4 bytes of data"), "%s",
              p.error.message);
        CHECK(LIST[i].incomplete == !!strstr(p.error.message, "incomplete"), "%s", p.error.message);
    }
}

Test(safetensors, s13_s14_s19_no_hole_no_overlap_nothing_behind) {
    static const Case LIST[] = {
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "3", "7") "}", 7,
         "offset 116: tensor \"b\" overlaps"},
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "0", "4") "}", 4,
         "overlaps"},
        {"{" TENSOR("a", "U8", "[4]", "1", "5") "}", 5, "leaves a hole"},
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "5", "9") "}", 9,
         "tensor \"b\" leaves a hole"},
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "}", 5, "1 bytes after the last tensor"},
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "}", 4000, "3996 bytes after the last tensor"},
        {"{}", 1, "1 bytes after the last tensor"},
        {"{" TENSOR("a", "U8", "[0]", "2", "2") "," TENSOR("b", "U8", "[4]", "0", "4") "}", 4,
         "overlaps"},
        {"{" TENSOR("b", "U8", "[4]", "4", "8") "," TENSOR("a", "U8", "[4]", "0", "4") "}", 8,
         NULL},
        {"{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("b", "U8", "[1]", "1", "2") "}", 2,
         NULL},
        {"{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("n", "U8", "[0]", "0", "0") "}", 1,
         NULL}, // the empty one first, whatever comes first in the header
        {"{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("n", "U8", "[0]", "4", "4") "," TENSOR(
             "b", "U8", "[4]", "4", "8") "}",
         8, NULL},
    };
    check_cases(CASES(LIST));
}

Test(safetensors, s15_ranks) {
    static const Case LIST[] = {
        {"{" TENSOR("a", "F32", "[]", "0", "4") "}", 4, NULL},
        {"{" TENSOR("a", "F32", "[0]", "0", "0") "}", 0, NULL},
        {"{" TENSOR("a", "F32", "[4294967296,0,1]", "0", "0") "}", 0, NULL},
        {"{" TENSOR("a", "F32", "[1,1,1,1]", "0", "4") "}", 4, NULL},
        {"{" TENSOR("a", "F32", "[1,1,1,1,1]", "0", "4") "}", 4, "5 dimensions (at most 4)"},
        {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "9 dimensions"},
    };
    check_cases(CASES(LIST));
}

Test(safetensors, s17_metadata_is_strings_only) {
    static const Case LIST[] = {
        {"{\"__metadata__\":{\"format\":\"pt\"}}", 0, NULL},
        {"{\"__metadata__\":{\"a\":\"\\u001b[2J\"}}", 0, NULL}, // data; whoever shows it escapes it
        {"{\"__metadata__\":{\"a\":1}}", 0, "\"a\" is an integer, not a string"},
        {"{\"__metadata__\":{\"\\u001b\":{}}}", 0, "\"\\x1b\" is an object, not a string"},
        {"{\"__metadata__\":[]}", 0, "\"__metadata__\": wanted an object, got an array"},
        {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", 0, "invalid JSON"},
    };
    check_cases(CASES(LIST));
    // memory is bounded: one member may have 8 MiB, and 23 bytes of it stand around the value
    static const size_t LENGTHS[] = {(8 << 20) - 23, (8 << 20) - 22, 50 << 20};
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        char *json = malloc(LENGTHS[i] + 100);
        size_t at = (size_t)sprintf(json, "{\"__metadata__\":{\"a\":\"");
        memset(json + at, 'x', LENGTHS[i]);
        strcpy(json + at + LENGTHS[i], "\"}}");
        Parsed p = parse_header(json, at + LENGTHS[i] + 3, 0);
        arena_free(&p.arena);
        free(json);
        CHECK(p.good == (i == 0), "%zu bytes: %s", LENGTHS[i], p.error.message);
        CHECK(p.good || strstr(p.error.message, "more than 8388608 bytes in one member"));
    }
}

Test(safetensors, metadata_is_found_by_its_key) {
    static const char HEADER[] = "{\"__metadata__\":{\"model\":\"a \\\"b\\\"\",\"empty\":\"\"}}";
    uint64_t length = sizeof HEADER - 1;
    char bytes[8 + sizeof HEADER];
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, HEADER, sizeof HEADER);
    const char *path = test_temporary("metadata.safetensors"), *value;
    test_write_file(path, bytes, 8 + (size_t)length);
    SafetensorsFile file;
    Error error = {0};
    CHECK(safetensors_open(&file, path, &error), "%s", error.message);
    CHECK(safetensors_metadata(&file, "model", &value, &error));
    CHECK_STRING(value, "a \"b\"");
    CHECK(safetensors_metadata(&file, "empty", &value, &error));
    CHECK_STRING(value, "");
    CHECK(safetensors_metadata(&file, "mode", &value, &error) && !value);
    safetensors_close(&file);
    test_write_file(path, "\2\0\0\0\0\0\0\0{}", 10);
    CHECK(safetensors_open(&file, path, &error), "%s", error.message);
    CHECK(safetensors_metadata(&file, "model", &value, &error) && !value);
    safetensors_close(&file);
}

// As the first member, between two and as the last, however it is spelt.
Test(safetensors, metadata_is_found_wherever_it_is) {
    static const char *const HEADERS[] = {
        "{ \"__metadata__\":{\"model\":\"a\"},%s, %s}",
        "{%s ,\t\"__metadata__\" : {\"model\":\"a\"} ,%s}",
        "{%s,%s,\"\\u005f_metadata__\":{\"model\":\"a\"}}",
    };
    static const char X[] = "\"x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    static const char Y[] =
        "\"__metadata\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
    const char *path = test_temporary("metadata.safetensors"), *value;
    for (int i = 0; i < 3; i++) {
        char bytes[400] = {0};
        snprintf(bytes + 8, sizeof bytes - 8, HEADERS[i], X, Y);
        uint64_t length = strlen(bytes + 8);
        memcpy(bytes, &length, 8);
        test_write_file(path, bytes, 8 + (size_t)length);
        SafetensorsFile file;
        Error error = {0};
        CHECK(safetensors_open(&file, path, &error), "%s", error.message);
        CHECK_INT(file.count, 2);
        for (int again = 0; again < 2; again++) {
            CHECK(safetensors_metadata(&file, "model", &value, &error), "%s", error.message);
            CHECK_STRING(value, "a");
        }
        CHECK(safetensors_metadata(&file, "dtype", &value, &error) && !value, "of a tensor");
        safetensors_close(&file);
    }
}

// Without parsing 65,536 tensors before it for each key: that was 0.08 s a key.
Test(safetensors, metadata_behind_many_tensors_is_found_at_once) {
    enum { MOST = 65536, KEYS = 100 };
    size_t room = (size_t)MOST * 80 + 100, length = 8;
    char *bytes = malloc(room);
    bytes[length++] = '{';
    for (int i = 0; i < MOST; i++)
        length +=
            (size_t)snprintf(bytes + length, room - length,
                             "\"%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", i);
    length +=
        (size_t)snprintf(bytes + length, room - length, "\"__metadata__\":{\"model\":\"a\"}}");
    uint64_t header = length - 8;
    memcpy(bytes, &header, 8);
    const char *path = test_temporary("many.safetensors"), *value;
    test_write_file(path, bytes, length);
    free(bytes);
    SafetensorsFile file;
    Error error = {0};
    CHECK(safetensors_open(&file, path, &error), "%s", error.message);
    clock_t started = clock();
    for (int i = 0; i < KEYS; i++) {
        CHECK(safetensors_metadata(&file, "model", &value, &error), "%s", error.message);
        CHECK_STRING(value, "a");
    }
    double seconds = (double)(clock() - started) / CLOCKS_PER_SEC;
    CHECK(seconds < 1, "%g s for %d keys", seconds, (int)KEYS);
    safetensors_close(&file);
}

// n tensors, all over the same byte (overlapping from the second on) or each over its own.
static Parsed parse_many(size_t n, bool same) {
    char *json = malloc(n * 80 + 2);
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += (size_t)sprintf(json + length,
                                  "%c\"%zu\":{\"dtype\":\"U8\",\"shape\":[1],"
                                  "\"data_offsets\":[%zu,%zu]}",
                                  i ? ',' : '{', i, same ? 0 : i, same ? 1 : i + 1);
    json[length++] = '}';
    Parsed p = parse_header(json, length, same ? 1 : n);
    arena_free(&p.arena);
    free(json);
    return p;
}

Test(safetensors, no_more_tensors_than_there_is_room_for) {
    static const size_t ASKED[] = {2, LIMIT_TENSORS, LIMIT_TENSORS + 1};
    for (size_t i = 0; i < 3; i++) {
        Arena arena = {0};
        Error error = {0};
        SafetensorsHeader header = {.arena = &arena};
        size_t room = i ? LIMIT_TENSORS : 2;
        CHECK(safetensors_room(&header, ASKED[i], &error) && header.room == room);
        for (size_t n = 0; n < room; n++)
            CHECK(safetensors_add(&header, "x", &error), "%zu of %zu", n, room);
        CHECK(!safetensors_add(&header, "x", &error) && header.count == room);
        CHECK(strstr(error.message, test_text("more than %zu tensors", room)), "%s", error.message);
        arena_free(&arena);
    }
}

Test(safetensors, s13_many_tensors_on_both_sides_of_the_limit) {
    Parsed p = parse_many(65536, false);
    CHECK(p.good && p.count == 65536, "%s", p.error.message);
    p = parse_many(65537, false);
    CHECK(!p.good && strstr(p.error.message, "more than 65536 tensors"), "%s", p.error.message);
    p = parse_many(60000, true);
    CHECK(!p.good && strstr(p.error.message, "overlaps"), "%s", p.error.message);
    p = parse_many(200000, true);
    CHECK(!p.good && strstr(p.error.message, "more than 65536 tensors"), "%s", p.error.message);
}

static bool parses(const void *bytes, size_t size, Error *error) {
    Parsed p = parse(bytes, size);
    arena_free(&p.arena);
    *error = p.error;
    return p.good;
}

Test(safetensors, a_file_cut_at_any_length_is_refused_and_any_byte_changed_is_survived) {
    static const float A[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    WriterTensor list[] = {{"a", "F32", 2, {2, 3}, A, 24},
                           {"b", "F16", 1, {3}, A, 6},
                           {"empty", "F32", 1, {0}, NULL, 0},
                           {"c", "F32", 1, {2}, A, 8}};
    size_t size;
    char *file = safetensors_bytes(&size, list, 4, 3);
    for (size_t cut = 0; cut < size; cut++) {
        Parsed p = parse(file, cut);
        arena_free(&p.arena);
        CHECK(!p.good && p.error.code == ERROR_FILE, "%zu of %zu bytes", cut, size);
        // From the header on it is known how many bytes there should be.
        const char *said =
            cut < size - 38
                ? "the file is incomplete: "
                : test_text("the file is incomplete: %zu of at least %zu bytes (is it a "
                            "download that was interrupted?): header: tensor \"",
                            cut, size);
        CHECK(!strncmp(p.error.message, said, strlen(said)), "%zu: %s", cut, p.error.message);
    }
    check_changed_bytes(parses, file, size, size - 38, NULL, 0); // 38: the numbers
    free(file);
}

Test(safetensors, a_plain_file_opens_and_says_why_it_does_not) {
    static const float A[2] = {1, 2};
    WriterTensor list[] = {{"x", "F32", 1, {2}, A, 8}};
    size_t size;
    char *bytes = safetensors_bytes(&size, list, 1, 0);
    const char *path = test_temporary("plain.safetensors");
    test_write_file(path, bytes, size);
    SafetensorsFile file;
    Error error = {0};
    CHECK(safetensors_open(&file, path, &error), "%s", error.message);
    CHECK(safetensors_find(&file, "x") && !safetensors_find(&file, "y"));
    CHECK(!memcmp(safetensors_find(&file, "x")->plan.data, A, 8));
    safetensors_close(&file);
    test_write_file(path, bytes, size - 1);
    CHECK(!safetensors_open(&file, path, &error));
    CHECK(error.code == ERROR_FILE && !strncmp(error.message, path, strlen(path)), "%s",
          error.message);
    error = (Error){0};
    CHECK(!safetensors_open(&file, test_temporary("absent"), &error));
    CHECK_INT(error.code, ERROR_IO);
    free(bytes);
}

static void check_open(const void *bytes, size_t size, const char *message) {
    const char *path = test_temporary("other.safetensors");
    test_write_file(path, bytes, size);
    SafetensorsFile file;
    Error error = {0};
    bool opened = safetensors_open(&file, path, &error);
    CHECK(opened == !message && !opened == !!error.code, "%s", error.message);
    CHECK(opened || strstr(error.message, message), "\"%s\" is not in \"%s\"", message,
          error.message);
    if (opened) safetensors_close(&file);
}

// The length of a header may begin as a byte order mark does: FE FF 01.
Test(safetensors, a_length_is_no_byte_order_mark) {
    enum { LENGTH = 0x1fffe };
    static char file[8 + LENGTH];
    static const char HEADER[] = "{\"__metadata__\":{\"a\":\"b\"}}";
    memset(file, ' ', sizeof file);
    memcpy(file, "\xfe\xff\1\0\0\0\0", 8);
    memcpy(file + 8, HEADER, sizeof HEADER - 1);
    check_open(file, sizeof file, NULL);
    check_open(file, 8, "header wants 131070 bytes");
}

Test(safetensors, another_file_in_its_place_is_called_by_its_name) {
    static const char POINTER[] = "version https://git-lfs.github.com/spec/v1\noid sha256:1";
    check_open(POINTER, sizeof POINTER - 1, "a Git LFS pointer, not the tensors");
    check_open("\xff\xfe{\0}\0", 6, "UTF-16"); // too short for a length and a brace
    check_open("GGUF\3\0\0\0\0", 9, "this is a GGUF model");
    check_open("GGUF\3\0\0\0", 8, "header of 14064895815 bytes");
    check_open("PK\3\4 and more, in an archive", 28, "zip");
    check_open("PK\3\4", 4, "truncated");
    for (size_t length = 510; length <= 514; length++) {
        char text[514];
        memset(text, 'x', length);
        check_open(text, length, "this is a text");
        memset(text, 0, length); // and a header of no bytes
        check_open(text, length, length < 512 ? "bytes are 0" : "its first 512 bytes are 0");
        text[100] = 1;
        check_open(text, length, "the header does not begin with");
    }
}

// The length of this header spells "PK", which a zip archive begins with.
Test(safetensors, a_length_that_spells_a_magic_is_a_length) {
    enum { LENGTH = 'P' | 'K' << 8 };
    static const char JSON[] = "{" TENSOR("a", "F32", "[1]", "0", "4") "}";
    char *bytes = calloc(1, 8 + LENGTH + 4);
    memcpy(bytes, "PK", 2);
    memset(bytes + 8, ' ', LENGTH);
    memcpy(bytes + 8, JSON, sizeof JSON - 1);
    check_open(bytes, 8 + LENGTH + 4, NULL);
    free(bytes);
}
