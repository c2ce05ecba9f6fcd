// The JSON layer: what the grammar allows and forbids, the limits on both sides, the getters.
// The cases follow RFC 8259 and the naming of JSONTestSuite: y_ must parse, n_ must not.
#include "base/json.h"
#include "tests/test.h"

#include <limits.h>
#include <math.h>

static bool parses(const char *text, size_t size, Error *error) {
    *error = (Error){0};
    json_t *root = json_parse(text, size, &JSON_CONFIG_LIMITS, error);
    json_decref(root);
    return root;
}

static const char *const YES[] = {
    "[]",
    "{}",
    "[[] ]",
    "[ ]",
    "[\"\"]",
    "[null, 1, \"1\", {}]",
    "[1\n]",
    " [1]",
    "[2] ",
    "[1,null,null,null,2]",
    "[0]",
    "[-0]",
    "[-1]",
    "[0e1]",
    "[0e+1]",
    "[1E22]",
    "[1E-2]",
    "[123e45]",
    "[123.456e78]",
    "[-0.000000000000000000000000000000000000000000000001]",
    "[9223372036854775807]",
    "[-9223372036854775808]",
    "{\"a\":\"b\",\"c\":[]}",
    "{\"\":0}",
    "{\"a\\u0062c\":1}",
    "{\"a\":{},\"b\":{}}",
    "{\n\"a\":\"b\"\n}",
    "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
    "[\"\\u0060\\u012a\\u12AB\"]",
    "[\"\\uD801\\udc37\"]",
    "[\"\\uFFFF\"]",
    "[\"\x7f\"]",
    "[\"\xe2\x82\xac\xf0\x9d\x84\x9e\"]",
    "[\"\\u0012\"]",
    "[\"[{,-:\"]",
    "[\"\\\\\",\"a\"]",
    "[true,false]",
};

Test(json, accepts_what_the_grammar_allows) {
    for (size_t i = 0; i < sizeof YES / sizeof *YES; i++) {
        Error error;
        CHECK(parses(YES[i], strlen(YES[i]), &error), "%s: %s", YES[i], error.message);
    }
}

static const char *const NO[] = {
    // structure
    "",
    " ",
    "[",
    "]",
    "{",
    "}",
    "[[]",
    "[]]",
    "[1,]",
    "[,1]",
    "[1,,2]",
    "[,]",
    "[1 2]",
    "[1:2]",
    "{]",
    "[}",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":1,}",
    "{,\"a\":1}",
    "{\"a\":1,,\"b\":2}",
    "{a:1}",
    "{1:1}",
    "{null:1}",
    "{'a':1}",
    "{\"a\":1 \"b\"}",
    "[1]x",
    "{}}",
    "{}{}",
    "{\"a\":true} \"x\"",
    "[1]#",
    "{\"a\":/*c*/1}",
    "// c\n[]",
    "[1,\n1\n,1",
    // top-level scalars, literals
    "1",
    "\"a\"",
    "null",
    "[nul]",
    "[True]",
    "[tru]",
    "[NaN]",
    "[Infinity]",
    "[-Infinity]",
    "[nan]",
    // numbers
    "[01]",
    "[-01]",
    "[+1]",
    "[1.]",
    "[.5]",
    "[-.5]",
    "[1e]",
    "[1e+]",
    "[1.e1]",
    "[0x1]",
    "[1_000]",
    "[--1]",
    "[-]",
    "[1a]",
    "[1e999]",
    "[-1e999]",
    "[1 000]",
    "[\xef\xbc\x91]",
    // strings
    "[\"]",
    "[\"a",
    "[\"\\\"]",
    "[\"\\x00\"]",
    "[\"\\a\"]",
    "[\"\\u12\"]",
    "[\"\\uqqqq\"]",
    "[\"\\ud800\"]",
    "[\"\\udc00\"]",
    "[\"\\ud800\\u0061\"]",
    "[\"\\ud800\\ud800\"]",
    "[\"\\u0000\"]",
    "[\"\n\"]",
    "[\"\t\"]",
    "[\"\x1f\"]",
    "['a']",
    "[\xe2\x80\x9c b\xe2\x80\x9d]",
    // encoding: overlong, lone continuation, surrogate, above U+10FFFF, cut short
    "[\"\xc0\x80\"]",
    "[\"\x80\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xf4\x90\x80\x80\"]",
    "[\"\xff\"]",
    "[\"\xe2\x82\"]",
    "[\xff]",
    // duplicate keys, spelt the same or not
    "{\"a\":1,\"a\":1}",
    "{\"a\":1,\"\\u0061\":2}",
    "{\"b\":{\"a\":1,\"a\":2}}",
};

Test(json, refuses_what_the_grammar_forbids) {
    for (size_t i = 0; i < sizeof NO / sizeof *NO; i++) {
        Error error;
        CHECK(!parses(NO[i], strlen(NO[i]), &error), "%s was accepted", NO[i]);
        CHECK_INT(error.code, ERROR_FILE);
        CHECK(strstr(error.message, "invalid JSON"), "%s: %s", NO[i], error.message);
    }
    Error error;
    CHECK(!parses("[]\0", 3, &error), "trailing NUL");
    CHECK(!parses("[\"a\0b\"]", 7, &error), "NUL inside a string");
    CHECK(!parses("[\0]", 3, &error), "NUL between tokens");
    CHECK(!parses("[1\0]", 4, &error), "NUL behind a number");
    CHECK(!parses("\xff\xfe[\0]\0", 6, &error) && strstr(error.message, "UTF-16"), "%s",
          error.message);
    CHECK(!parses("[\0]\0", 4, &error) && strstr(error.message, "UTF-16"), "%s", error.message);
    CHECK(!parses("\xef\xbb\xbf[]", 5, &error) && strstr(error.message, "byte order mark"), "%s",
          error.message);
}

// `open` repeated, then what closes it.
static char *nested(const char *open, char close, size_t depth, size_t *size) {
    size_t step = strlen(open);
    char *text = malloc(depth * (step + 1) + 1);
    for (size_t i = 0; i < depth; i++)
        memcpy(text + i * step, open, step);
    text[depth * step] = '1';
    memset(text + depth * step + 1, close, depth);
    *size = depth * (step + 1) + 1;
    return text;
}

Test(json, depth_64_passes_65_does_not_and_depth_costs_no_stack) {
    static const struct {
        const char *open;
        char close;
        size_t depth;
        bool good;
    } CASES[] = {{"[", ']', 64, true},       {"[", ']', 65, false},
                 {"{\"a\":", '}', 64, true}, {"{\"a\":", '}', 65, false},
                 {"[", ']', 100000, false},  {"{\"a\":", '}', 50000, false}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        size_t size;
        char *text = nested(CASES[i].open, CASES[i].close, CASES[i].depth, &size);
        Error error;
        bool good = parses(text, size, &error);
        free(text);
        CHECK(good == CASES[i].good, "case %zu: %s", i, error.message);
        CHECK(good || strstr(error.message, "nested deeper than 64"), "%s", error.message);
    }
}

Test(json, limits_hold_on_both_sides) {
    Error error = {0};
    json_t *root = json_parse("[1,2,3]", 7, &(JsonLimits){.bytes = 7, .values = 3}, &error);
    CHECK(root, "%s", error.message);
    json_decref(root);
    CHECK(!json_parse("[1,2,3]", 7, &(JsonLimits){.bytes = 6, .values = 3}, &error));
    CHECK_STRING(error.message, "7 bytes of JSON (at most 6)");
    error = (Error){0};
    CHECK(!json_parse("[1,2,3]", 7, &(JsonLimits){.bytes = 7, .values = 2}, &error));
    CHECK_STRING(error.message, "offset 4: JSON with more than 2 values");
    error = (Error){0};
    JsonLimits unsigned_only = {.bytes = 99, .values = 9, .no_negative = true};
    CHECK(!json_parse("[-0]", 4, &unsigned_only, &error));
    CHECK_STRING(error.message, "offset 1: a negative number");
    root = json_parse("[\"-0\"]", 6, &unsigned_only, &error);
    CHECK(root, "a minus inside a string");
    json_decref(root);
    CHECK(!json_parse("true", 4, &(JsonLimits){.bytes = 4, .values = 1}, &error));
    error = (Error){0};
    root = json_parse("true", 4, &(JsonLimits){.bytes = 4, .values = 1, .any = true}, &error);
    CHECK(json_is_true(root), "%s", error.message);
    json_decref(root);
}

Test(json, a_nul_is_in_strings_alone_and_where_the_limits_allow_it) {
    static const char TEXT[] = "{\"a\":\"x\\u0000y\"}", KEY[] = "{\"\\u0000\":1}";
    JsonLimits limits = {.bytes = 99, .values = 9};
    Error error = {0};
    CHECK(!json_parse(TEXT, sizeof TEXT - 1, &limits, &error));
    CHECK(strstr(error.message, "\\u0000 is not allowed"), "%s", error.message);
    limits.nul = true;
    error = (Error){0};
    json_t *root = json_parse(TEXT, sizeof TEXT - 1, &limits, &error);
    const json_t *value = json_object_get(root, "a");
    CHECK(json_string_length(value) == 3 && !memcmp(json_string_value(value), "x\0y", 3), "%s",
          error.message);
    const char *as_text = NULL; // which would end at the NUL
    CHECK(!json_read_string(root, "a", &as_text, &error) && !as_text);
    CHECK_STRING(error.message, "\"a\": a NUL in a string");
    json_decref(root);
    CHECK(!json_parse(KEY, sizeof KEY - 1, &limits, &error));
    CHECK(!json_parse("[\"\0\"]", 5, &limits, &error), "the byte itself is never one");
}

// Of small files: config.json and the like.
Test(json, a_small_file_has_4_mib_and_65536_values) {
    enum { BYTES = 4 << 20, VALUES = 1 << 16 };
    char *text = malloc(BYTES + 1);
    Error error;
    for (int n = VALUES; n <= VALUES + 1; n++) {
        for (int i = 0; i < n; i++)
            memcpy(text + 2 * i, i ? ",1" : "[1", 2);
        text[2 * n] = ']';
        CHECK_INT(parses(text, 2 * (size_t)n + 1, &error), n == VALUES);
    }
    CHECK_STRING(error.message, "offset 131072: JSON with more than 65536 values");
    memset(text, ' ', BYTES + 1);
    memcpy(text, "[]", 2);
    CHECK(parses(text, BYTES, &error) && !parses(text, BYTES + 1, &error));
    CHECK_STRING(error.message, "4194305 bytes of JSON (at most 4194304)");
    free(text);
}

typedef struct Values {
    int i;
    float f;
    bool b;
    const char *s;
    const json_t *o, *a;
} Values;

static bool read_all(const json_t *root, Values *v, Error *error) {
    return json_read_int(root, "i", &v->i, error) && json_read_float(root, "f", &v->f, error) &&
           json_read_bool(root, "b", &v->b, error) && json_read_string(root, "s", &v->s, error) &&
           json_read_object(root, "o", &v->o, error) && json_read_array(root, "a", &v->a, error);
}

Test(json, getters_read_and_leave_what_is_absent_alone) {
    static const char TEXT[] = "{\"i\":-7,\"f\":2,\"b\":true,\"s\":\"x\",\"o\":{},\"a\":[]}";
    static const char NULLS[] = "{\"i\":null,\"f\":null,\"b\":null,\"s\":null,\"o\":null,"
                                "\"a\":null}";
    Error error = {0};
    Values v = {.i = 1};
    json_t *root = json_parse(TEXT, sizeof TEXT - 1, &JSON_CONFIG_LIMITS, &error);
    CHECK(root && read_all(root, &v, &error), "%s", error.message);
    CHECK(v.i == -7 && v.f == 2 && v.b && v.o && v.a);
    CHECK_STRING(v.s, "x");
    json_decref(root);
    v = (Values){.i = 1, .f = 0.5f, .s = "kept"};
    root = json_parse(NULLS, sizeof NULLS - 1, &JSON_CONFIG_LIMITS, &error);
    CHECK(root && read_all(root, &v, &error), "%s", error.message);
    CHECK(v.i == 1 && v.f == 0.5f && !v.b && !v.o && !v.a);
    CHECK_STRING(v.s, "kept");
    json_decref(root);
}

Test(json, integers_go_as_far_as_an_int) {
    static const char *const TEXTS[] = {"{\"i\":2147483647}", "{\"i\":-2147483648}"};
    for (int i = 0; i < 2; i++) {
        Error error = {0};
        int got = 0;
        json_t *root = json_parse(TEXTS[i], strlen(TEXTS[i]), &JSON_CONFIG_LIMITS, &error);
        CHECK(json_read_int(root, "i", &got, &error), "%s", error.message);
        CHECK_INT(got, i ? INT_MIN : INT_MAX);
        json_decref(root);
    }
}

// As real numbers, where the limits say so, and otherwise not at all.
Test(json, integers_beyond_64_bits_are_no_integers) {
    static const struct {
        const char *text;
        bool integer;
        double value;
    } CASES[] = {{"[9223372036854775807]", true, 0x1p63},
                 {"[9223372036854775808]", false, 0x1p63},
                 {"[-9223372036854775808]", true, -0x1p63},
                 {"[-9223372036854775809]", false, -0x1p63},
                 {"[9007199254740993]", true, 0x1p53}, // as a double
                 {"[ 1000000000000000019884624838656 ]", false, 1e30},
                 {"[0.9223372036854775808123, 1e30]", false, 0.9223372036854775808123},
                 {"[12345678901234567890.5]", false, 12345678901234567890.5},
                 {"[1E00000000000000000000001]", false, 10}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *text = CASES[i].text;
        Error error = {0};
        json_t *root = json_parse(text, strlen(text), &JSON_CONFIG_LIMITS, &error);
        CHECK(root, "%s: %s", text, error.message);
        const json_t *value = json_array_get(root, 0);
        CHECK(json_is_integer(value) == CASES[i].integer, "%s", text);
        double read = json_number_value(value), wanted = CASES[i].value;
        CHECK(fabs(read - wanted) <= 1e-15 * fabs(wanted), "%s: %.17g", text, read);
        json_decref(root);
    }
    Error error = {0};
    CHECK(!parses("[123456789012345678901234567890, 00]", 36, &error));
    CHECK(strstr(error.message, "offset 34"), "%s", error.message);
    CHECK(!parses("[012345678901234567890123]", 26, &error));
    CHECK(parses("[\"\\\"12345678901234567890123\"]", 29, &error), "%s", error.message);
    static const JsonLimits INTEGERS = {.bytes = 99, .values = 9};
    CHECK(!json_parse("[9223372036854775808]", 21, &INTEGERS, &error));
    CHECK(strstr(error.message, "too big integer"), "%s", error.message);
}

static void check_size(const char *text, const char *message, uint64_t wanted) {
    Error error = {0};
    uint64_t got = 0;
    json_t *root = json_parse(text, strlen(text), &JSON_CONFIG_LIMITS, &error);
    bool good = json_to_size(json_array_get(root, 0), "it", &got, &error);
    json_decref(root);
    CHECK(good == !message && good == !error.code && got == wanted, "%s", error.message);
    CHECK(good || !strcmp(error.message, message), "%s", error.message);
}

Test(json, a_size_is_an_integer_from_0_on) {
    check_size("[0]", NULL, 0);
    check_size("[9223372036854775807]", NULL, INT64_MAX);
    check_size("[-1]", "it: -1 is negative", 0);
    check_size("[1.0]", "it: wanted an integer, got a real number", 0);
    check_size("[]", "it: wanted an integer, got nothing", 0);
}

Test(json, getters_name_the_key_what_is_there_and_what_is_wanted) {
    static const struct {
        const char *text, *message;
    } CASES[] = {
        {"{\"i\":\"64\"}", "\"i\": wanted an integer, got a string"},
        {"{\"i\":64.0}", "\"i\": wanted an integer, got a real number"},
        {"{\"i\":true}", "\"i\": wanted an integer, got true"},
        {"{\"i\":2147483648}", "\"i\": 2147483648 is out of range"},
        {"{\"i\":-2147483649}", "\"i\": -2147483649 is out of range"},
        {"{\"f\":[]}", "\"f\": wanted a number, got an array"},
        {"{\"f\":1e39}", "\"f\": 1e+39 is out of range"},
        {"{\"b\":1}", "\"b\": wanted true or false, got an integer"},
        {"{\"s\":{}}", "\"s\": wanted a string, got an object"},
        {"{\"o\":[]}", "\"o\": wanted an object, got an array"},
        {"{\"a\":false}", "\"a\": wanted an array, got false"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Error error = {0};
        Values v = {0};
        json_t *root =
            json_parse(CASES[i].text, strlen(CASES[i].text), &JSON_CONFIG_LIMITS, &error);
        bool good = read_all(root, &v, &error);
        json_decref(root);
        CHECK(!good, "%s", CASES[i].text);
        CHECK_INT(error.code, ERROR_FILE);
        CHECK_STRING(error.message, CASES[i].message);
    }
}

// ---- members of a large object ----

// The keys of all members and, after a '!', the message of what ended them.
static const char *members_of(const char *text, const JsonLimits *limits) {
    static char keys[600];
    Error error = {0};
    keys[0] = '\0';
    JsonMembers members = json_members(text, strlen(text), limits);
    while (json_members_next(&members, &error))
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s ", members.key);
    CHECK(members.failed == (error.code != ERROR_NONE));
    CHECK(!json_members_next(&members, &error), "there is more behind the end");
    json_members_end(&members);
    if (error.code) snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "!%s", error.message);
    return keys;
}

Test(json, members_come_one_by_one) {
    static const JsonLimits LIMITS = {.bytes = 20, .values = 4};
    static const struct {
        const char *text, *keys;
    } CASES[] = {
        {"{}", ""},
        {"{ \t\r\n}", ""},
        {"{} \n", ""},
        {"{\"a\":1}", "a "},
        {"{\"a\":1,\"b\":[1,{}]} ", "a b "},
        {"{\"a,}]\":\"\\\"},\"}", "a,}] "},
        {"{\"a\":tru}", "!offset 8: invalid JSON: invalid token near 'tru'"},
        {"{\"a\":1,\"b\":tru}", "a !offset 14: invalid JSON: invalid token near 'tru'"},
        {"{} x", "!offset 3: invalid JSON: more after the object"},
        {"{,}", "!offset 1: invalid JSON: a member is missing"},
        {"{\"a\":1,}", "a !offset 7: invalid JSON: a member is missing"},
        {"{\"a\":1]", "!offset 6: invalid JSON: ']' ends an object"},
        {"{\"a\":1", "!offset 6: invalid JSON: the object does not end"},
        {"{\"a\":[1,2,3]}", "a "},
        {"{\"a\":[1,2,3,4]}", "a "},
        {"{\"a\":[1,2,3,4,5]}", "!offset 13: JSON with more than 4 values"},
        {"{\"a\":\"45678901234567\"}", "a "},
        {"{\"a\":\"45678901234567\"}", "a "},
        {"{\"a\":\"456789012345678\"}", "!offset 1: more than 20 bytes in one member"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *keys = members_of(CASES[i].text, &LIMITS);
        CHECK(!strcmp(keys, CASES[i].keys), "%s: \"%s\", wanted \"%s\"", CASES[i].text, keys,
              CASES[i].keys);
    }
}

Test(json, members_are_bounded_by_the_commas_of_their_object) {
    static const struct {
        const char *text;
        size_t bound;
    } CASES[] = {
        {"{}", 1},
        {"{\"a\":1,\"b\":2}", 2},
        {"{\"a,\":[1,2,3],\"b\":{\"c\":1,\"d\":2}}", 2},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        CHECK_INT(json_members_bound(CASES[i].text, strlen(CASES[i].text)), CASES[i].bound);
    // Nothing counts behind brackets that are too deep: here 64 of 65 are closed again.
    char deep[200] = "";
    memset(deep, '[', 65);
    memset(deep + 65, ']', 64);
    strcpy(deep + 129, ",1,2");
    CHECK_INT(json_members_bound(deep, strlen(deep)), 1);
}
