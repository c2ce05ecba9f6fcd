// JSON schemas as grammars. Two judges that know nothing of grammars: jansson parses every text
// that was made, and the validator below, written from the specification, asks the schema. And
// tables by hand: what must be allowed, what must not, which keywords are refused.
#include "base/buffer.h"
#include "base/hash.h"
#include "grammar/matcher.h"
#include "tests/test.h"

#include <jansson.h>
#include <regex.h>

// ---- a validator, of the keywords that are followed ----

static bool validates(const json_t *root, const json_t *schema, const json_t *value);

static bool is_type(const json_t *value, const char *type) {
    static const char *const NAMES[] = {"object", "array",   "string",  "integer",
                                        "number", "boolean", "boolean", "null"};
    double number = json_number_value(value);
    if (!strcmp(type, "number")) return json_is_number(value);
    if (!strcmp(type, "integer")) return json_is_number(value) && floor(number) == number;
    if (json_is_real(value)) return false;
    return !strcmp(type, NAMES[json_typeof(value)]);
}

static bool type_fits(const json_t *types, const json_t *value) {
    if (!types) return true;
    if (json_is_string(types)) return is_type(value, json_string_value(types));
    for (size_t i = 0; i < json_array_size(types); i++)
        if (is_type(value, json_string_value(json_array_get(types, i)))) return true;
    return false;
}

static size_t characters(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

static double bound(const json_t *schema, const char *key, double absent) {
    const json_t *value = json_object_get(schema, key);
    return value ? json_number_value(value) : absent;
}

static bool in_bounds(const json_t *schema, double value, const char *least, const char *most) {
    return value >= bound(schema, least, -INFINITY) && value <= bound(schema, most, INFINITY);
}

static bool object_fits(const json_t *root, const json_t *schema, const json_t *value) {
    const json_t *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_object_get(value, json_string_value(json_array_get(required, i)))) return false;
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        const json_t *own = json_object_get(json_object_get(schema, "properties"), key);
        if (own ? !validates(root, own, member) : others && !validates(root, others, member))
            return false;
    }
    return true;
}

static bool array_fits(const json_t *root, const json_t *schema, const json_t *value) {
    const json_t *prefix = json_object_get(schema, "prefixItems");
    const json_t *items = json_object_get(schema, "items");
    if (!in_bounds(schema, (double)json_array_size(value), "minItems", "maxItems")) return false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *own = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (own && !validates(root, own, json_array_get(value, i))) return false;
    }
    return true;
}

static int count_valid(const json_t *root, const json_t *list, const json_t *value) {
    int count = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        count += validates(root, json_array_get(list, i), value);
    return count;
}

static bool validates(const json_t *root, const json_t *schema, const json_t *value) {
    if (json_is_boolean(schema)) return json_is_true(schema);
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    if (reference && !strcmp(reference, "#")) return validates(root, root, value);
    if (reference)
        return validates(root, json_object_get(json_object_get(root, "$defs"), reference + 8),
                         value);
    const json_t *list = json_object_get(schema, "enum");
    const json_t *one = json_object_get(schema, "const");
    bool found = !list;
    for (size_t i = 0; i < json_array_size(list); i++)
        found = found || json_equal(json_array_get(list, i), value);
    if (!found || (one && !json_equal(one, value))) return false;
    if ((list = json_object_get(schema, "anyOf")) && !count_valid(root, list, value)) return false;
    if ((list = json_object_get(schema, "oneOf")) && count_valid(root, list, value) != 1)
        return false;
    if (!type_fits(json_object_get(schema, "type"), value)) return false;
    if (json_is_object(value)) return object_fits(root, schema, value);
    if (json_is_array(value)) return array_fits(root, schema, value);
    if (json_is_string(value))
        return in_bounds(schema, (double)characters(json_string_value(value)), "minLength",
                         "maxLength");
    double number = json_number_value(value);
    return !json_is_number(value) || (in_bounds(schema, number, "minimum", "maximum") &&
                                      number > bound(schema, "exclusiveMinimum", -INFINITY) &&
                                      number < bound(schema, "exclusiveMaximum", INFINITY));
}

// ---- texts that a grammar makes ----

static Grammar *convert(const char *schema) {
    Error error = {0};
    char *text = grammar_of_json_schema(schema, strlen(schema), &error);
    CHECK(text, "%s: %s", schema, error.message);
    Grammar *grammar = grammar_parse(text, strlen(text), &error);
    CHECK(grammar, "%s: %s\n%s", schema, error.message, text);
    free(text);
    return grammar;
}

// Every byte is a token.
static Matcher *open_matcher(const Grammar *grammar, Trie *trie) {
    static char bytes[256];
    TextSpan tokens[256];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (TextSpan){&bytes[i], 1};
    }
    CHECK(trie_open(trie, tokens, 256, NULL), "no trie");
    Matcher *matcher = matcher_open(grammar, trie, NULL, NULL);
    CHECK(matcher, "no matcher");
    return matcher;
}

// Of the bytes that are allowed one at random, what ends something three times out of four: random
// texts would not end else. -1: there is none.
static int choose(const uint64_t *mask, uint64_t *random) {
    int chosen = -1, ending = -1;
    uint64_t n = 0, n_ending = 0;
    for (int i = 0; i < 256; i++) {
        if (!(mask[i / 64] >> i % 64 & 1)) continue;
        if (splitmix64(random) % ++n == 0) chosen = i;
        if (strchr("\"]},", i) && i && splitmix64(random) % ++n_ending == 0) ending = i;
    }
    return ending >= 0 && splitmix64(random) % 4 ? ending : chosen;
}

static void make_text(Matcher *matcher, Buffer *text, uint64_t *random) {
    bool fits;
    text->size = 0;
    CHECK(matcher_reset(matcher, NULL), "no reset");
    for (;;) {
        const uint64_t *mask = matcher_mask(matcher, NULL);
        bool ends = matcher_complete(matcher) && splitmix64(random) % 2;
        int byte = ends ? -1 : choose(mask, random);
        if (byte < 0) break;
        char c = (char)byte;
        CHECK(matcher_read(matcher, &c, 1, &fits, NULL) && fits, "0x%02x", byte);
        buffer_put(text, &c, 1);
    }
    CHECK(matcher_complete(matcher), "no end: %.*s", (int)text->size, text->bytes);
}

// Another schema: a free-form object may say a key twice.
static void check_schema(const char *schema_text, int n_texts) {
    Trie trie;
    Buffer text = {0};
    Grammar *grammar = convert(schema_text);
    Matcher *matcher = open_matcher(grammar, &trie);
    json_t *schema = json_loads(schema_text, JSON_DECODE_ANY, NULL);
    for (uint64_t random = 1; n_texts; n_texts--) {
        json_error_t error;
        make_text(matcher, &text, &random);
        json_t *value = json_loadb((char *)text.bytes, text.size, JSON_DECODE_ANY, &error);
        CHECK(value, "%s: %s: %.*s", schema_text, error.text, (int)text.size, text.bytes);
        CHECK(validates(schema, schema, value), "%s: %.*s", schema_text, (int)text.size,
              text.bytes);
        json_decref(value);
    }
    json_decref(schema);
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
    buffer_free(&text);
}

static const char *const SCHEMAS[] = {
    "{}",
    "true",
    "{\"type\":\"object\"}",
    "{\"type\":\"array\"}",
    "{\"type\":\"string\"}",
    "{\"type\":\"number\"}",
    "{\"type\":\"number\",\"minimum\":0}",
    "{\"type\":\"integer\"}",
    "{\"type\":[\"integer\",\"null\",\"boolean\"]}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":5}",
    "{\"minLength\":2}",
    "{\"type\":\"integer\",\"minimum\":7,\"maximum\":123}",
    "{\"type\":\"integer\",\"minimum\":-17,\"exclusiveMaximum\":209}",
    "{\"type\":\"integer\",\"exclusiveMinimum\":-1000,\"maximum\":-3}",
    "{\"type\":\"integer\",\"minimum\":0.5,\"maximum\":2.5}",
    "{\"type\":\"integer\",\"minimum\":100}",
    "{\"type\":\"integer\",\"maximum\":-99}",
    "{\"enum\":[1,\"a\\n\\\"\\u00e9\",null,[1,{\"b\":2.5}],true]}",
    "{\"type\":\"string\",\"enum\":[\"a\",2,\"b\"]}",
    "{\"const\":{\"a\":[]}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,\"maxItems\":4}",
    "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":0}",
    "{\"type\":\"array\",\"items\":{\"type\":\"null\"},\"maxItems\":1}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"null\"},"
    "\"minItems\":3,\"maxItems\":5}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},true],\"maxItems\":1}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"minItems\":3}",
    "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},"
    "\"c\":{\"type\":\"boolean\"}},\"required\":[\"a\",\"c\"],\"additionalProperties\":false}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},"
    "\"c\":{\"type\":\"boolean\"}},\"required\":[\"c\"]}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},"
    "\"c\\\"\\n\":{\"type\":\"boolean\"}}}",
    "{\"type\":\"object\",\"required\":[\"x\",\"y\"]}",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\",\"minimum\":1}}",
    "{\"type\":\"object\",\"additionalProperties\":false}",
    "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":2}]}",
    "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"null\"},{\"type\":\"array\"}]}",
    "{\"oneOf\":[{\"enum\":[1,2]},{\"const\":3}]}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]"
    "},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"},\"v\":{}},\"required\":[\"k\","
    "\"v\"]}]}",
    "{\"oneOf\":[{\"$ref\":\"#/$defs/cat\"},{\"$ref\":\"#/$defs/dog\"}],\"$defs\":{\"cat\":{"
    "\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"cat\"},\"lives\":{\"type\":"
    "\"integer\"}},\"required\":[\"k\"]},\"dog\":{\"type\":\"object\",\"properties\":{\"k\":{"
    "\"const\":\"dog\"}},\"required\":[\"k\"]}}}",
    "{\"allOf\":[{\"$ref\":\"#/$defs/x\"}],\"$defs\":{\"x\":{\"type\":\"null\"}}}",
    "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#\"}},"
    "\"required\":[\"v\"]}",
    "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/tree\"},\"$defs\":{\"tree\":{\"anyOf\":[{"
    "\"type\":\"null\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/tree\"},\"maxItems\":2}"
    "]}}}",
    "{\"title\":\"T\",\"description\":\"d\",\"default\":1,\"x-own\":2,\"type\":\"array\",\"items\":"
    "{\"type\":\"string\",\"examples\":[]},\"uniqueItems\":false}",
};

Test(json_schema, makes_only_texts_that_the_schema_accepts) {
    for (size_t i = 0; i < sizeof SCHEMAS / sizeof *SCHEMAS; i++)
        check_schema(SCHEMAS[i], TEST_SANITIZED ? 20 : 200);
}

// ---- by hand ----

static bool allows(const char *schema, const char *text) {
    Trie trie;
    Grammar *grammar = convert(schema);
    Matcher *matcher = open_matcher(grammar, &trie);
    bool fits = false;
    CHECK(matcher_read(matcher, text, strlen(text), &fits, NULL), "%s", text);
    fits = fits && matcher_complete(matcher);
    matcher_close(matcher);
    trie_close(&trie);
    grammar_close(grammar);
    return fits;
}

static const struct {
    const char *schema, *text;
    bool allowed;
} TEXTS[] = {
    {" true\n", "[{\"a\": null}, 1]", true},
    {"true", "{1}", false},
    {"{\"type\":\"string\"}", "\"a\\u00e9\\n\\ud83d\\ude00\xc3\xa9\"", true},
    {"{\"type\":\"string\"}", "\"\\ud83d\"", false},
    {"{\"type\":\"string\"}", "\"\\u0000\"", false},
    {"{\"type\":\"string\"}", "\"\n\"", false},
    {"{\"maxLength\":1}", "\"\\ud83d\\ude00\"", true},
    {"{\"maxLength\":1}", "\"ab\"", false},
    {"{\"type\":\"number\"}", "-0.5e-10", true},
    {"{\"type\":\"number\"}", "01", false},
    {"{\"type\":\"number\"}", "1e999", false},
    {"{\"type\":\"integer\"}", "-0", false},
    {"{\"anyOf\":[{\"$id\":\"x\",\"const\":{\"$ref\":\"#/a\"}}]}", "{\"$ref\":\"#/a\"}", true},
    {"{\"enum\":[0.1,0.3]}", "0.3", true}, // not 0.29999999999999999
    {"{\"const\":[0.1,{\"a\":1e-7}]}", "[0.1,{\"a\":1e-7}]", true},
    {"{\"const\":0.30000000000000004}", "0.30000000000000004", true}, // 0.1 + 0.2
    {"{\"type\":\"integer\",\"format\":\"uint8\"}", "255", true},
    {"{\"type\":\"integer\",\"format\":\"uint8\"}", "256", false},
    {"{\"type\":\"integer\",\"format\":\"uint8\"}", "-1", false},
    {"{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":-3}", "2147483647", true},
    {"{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":-3}", "2147483648", false},
    {"{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":-3}", "-4", false},
    {"{\"type\":\"integer\",\"format\":\"unix-time\"}", "-4", true},
    {"{\"properties\":{\"a\":{\"$id\":\"#/properties/a\",\"$ref\":\"#/$defs/n\"}},\"required\":["
     "\"a\"],\"$defs\":{\"n\":{\"$id\":\"http://x/n\",\"type\":\"null\"}}}",
     "{\"a\":null}", true},
    {"{\"type\":\"integer\"}", "1.0", false},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2024-02-28\"", true},
    {"{\"type\":\"string\",\"format\":\"date\"}", "\"2024-13-01\"", false},
    {"{\"type\":\"string\",\"format\":\"time\"}", "\"23:59:00.25+01:00\"", true},
    {"{\"type\":\"string\",\"format\":\"date-time\"}", "\"2024-02-28T23:59:00Z\"", true},
    {"{\"format\":\"uuid\"}", "\"12345678-9abc-def0-1234-56789abcdef0\"", true},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"b\":1}", true},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"a\":1, \"b\":1}", true},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"a\":1}", false},
    {"{\"properties\":{\"a\":{},\"b\":{}},\"required\":[\"b\"]}", "{\"b\":1,\"c\":2}", false},
    {"{\"properties\":{\"a\":{},\"b\":{}}}", "{}", true},
    {"{\"properties\":{\"a\":{},\"b\":{}}}", "{\"b\":1}", true},
    {"{\"properties\":{\"a\":{},\"b\":{}}}", "{\"a\":1,\n  \"b\":[2, {\"c\":null}]}", true},
    {"{\"properties\":{\"a\":{},\"b\":{}}}", "{\"a\":1,}", false},
    {"{\"$ref\":\"#/$defs/a~1b%20c\",\"$defs\":{\"a/b c\":{\"type\":\"null\"}}}", "null", true},
};

Test(json_schema, allows_by_hand) {
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        CHECK(allows(TEXTS[i].schema, TEXTS[i].text) == TEXTS[i].allowed, "%s: %s", TEXTS[i].schema,
              TEXTS[i].text);
}

// All integers of a range, and none beside it.
Test(json_schema, knows_every_integer_of_a_range) {
    static const int RANGES[][2] = {{0, 0},    {0, 9},     {7, 123},   {99, 101},  {-5, 5},
                                    {-12, -3}, {-101, 99}, {100, 999}, {109, 190}, {1, 1000}};
    for (size_t r = 0; r < sizeof RANGES / sizeof *RANGES; r++) {
        char schema[100], text[20];
        snprintf(schema, sizeof schema, "{\"type\":\"integer\",\"minimum\":%d,\"maximum\":%d}",
                 RANGES[r][0], RANGES[r][1]);
        Trie trie;
        Grammar *grammar = convert(schema);
        Matcher *matcher = open_matcher(grammar, &trie);
        for (int i = -1100; i <= 1100; i++) {
            bool fits;
            snprintf(text, sizeof text, "%d", i);
            CHECK(matcher_reset(matcher, NULL) &&
                      matcher_read(matcher, text, strlen(text), &fits, NULL),
                  "%d", i);
            bool wanted = i >= RANGES[r][0] && i <= RANGES[r][1];
            CHECK((fits && matcher_complete(matcher)) == wanted, "%s: %d", schema, i);
        }
        matcher_close(matcher);
        trie_close(&trie);
        grammar_close(grammar);
    }
}

static const char *const REFUSED[][2] = {
    {"{\"type\":\"string\",\"pattern\":7}", "#: \"pattern\": wanted a string"},
    {"{\"pattern\":\"a\",\"minLength\":2}", "\"pattern\" beside a length"},
    {"{\"type\":\"string\",\"format\":\"date\",\"minLength\":2}", "\"format\" beside a length"},
    {"{\"type\":7}", "\"type\": wanted a name or a list of them"},
    {"{\"enum\":7}", "\"enum\": wanted an array"},
    {"{\"anyOf\":7}", "\"anyOf\": wanted a list of schemas"},
    {"{\"type\":\"integer\",\"minimum\":\"a\"}", "\"minimum\": wanted a number"},
    {"{\"properties\":7}", "\"properties\": wanted an object"},
    {"{\"properties\":{\"a\":{}},\"required\":7}", "\"required\": wanted a list of names"},
    {"{\"properties\":{\"a\":{}},\"required\":[7]}", "\"required\": wanted a list of names"},
    {"{\"prefixItems\":7}", "\"prefixItems\": wanted a list of schemas"},
    {"{\"prefixItems\":[{}],\"items\":false,\"minItems\":2}", "but \"items\" is false"},
    {"{\"multipleOf\":2}", "#: the keyword \"multipleOf\" is not supported"},
    {"{\"items\":{\"uniqueItems\":true}}", "#/items: the keyword \"uniqueItems\""},
    {"{\"properties\":{\"a\":{\"not\":{}}}}", "#/properties/a: the keyword \"not\""},
    {"{\"patternProperties\":{}}", "\"patternProperties\""},
    {"{\"typo\":1}", "the keyword \"typo\""},
    {"{\"type\":\"string\",\"format\":\"email\"}", "\"format\": \"email\" is not supported"},
    {"{\"type\":\"number\",\"maximum\":2}", "\"maximum\" is supported for integers alone"},
    {"{\"type\":\"number\",\"minimum\":2}", "\"minimum\" other than 0"},
    {"{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}", "no integer of up to 15 digits"},
    {"{\"type\":\"integer\",\"minimum\":1.1,\"maximum\":1.9}", "no integer of up to 15 digits"},
    {"{\"minLength\":3,\"maxLength\":2}", "minLength 3 is more than maxLength 2"},
    {"{\"minItems\":3,\"maxItems\":2}", "minItems 3 is more than maxItems 2"},
    {"{\"minLength\":-1}", "\"minLength\": wanted an integer"},
    {"{\"type\":\"text\"}", "#: \"type\": \"text\" is no JSON type (object, array, string, "
                            "integer, number, boolean, null)"},
    {"{\"type\":7}", "\"type\": wanted a name"},
    {"{\"enum\":[]}", "no value of \"enum\" has the type"},
    {"{\"enum\":[1],\"minimum\":0}", "\"minimum\" beside \"enum\" is not supported"},
    {"{\"type\":\"object\",\"anyOf\":[{}]}", "\"type\" beside \"anyOf\" is not supported"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "schemas 0 and 1 may both"},
    {"{\"oneOf\":[{\"const\":1},{\"type\":\"string\"},{\"enum\":[2,1.0]}]}", "0 and 2 may both"},
    {"{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{}}}",
     "0 and 1 may both"},
    {"{\"allOf\":[{},{}]}", "\"allOf\" of more than one"},
    {"{\"$ref\":\"#/$defs/no\"}", "\"$ref\": there is no #/$defs/no"},
    {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"$id\":\"http://x/a\",\"items\":{\"$ref\":\"#/"
     "$defs/b\"}}"
     ",\"b\":{}}}",
     "\"$ref\" below the \"$id\" http://x/a is not supported"},
    {"{\"$ref\":\"#/$defs/a/properties/x\",\"$defs\":{\"a\":{\"$id\":\"http://x/"
     "a\",\"properties\":{"
     "\"x\":{\"$ref\":\"#/$defs/b\"}}},\"b\":{\"type\":\"boolean\"}}}",
     "\"$ref\" below the \"$id\" http://x/a is not supported"},
    {"{\"$ref\":\"other.json\"}", "\"$ref\": there is no other.json in this file"},
    {"{\"items\":[{}]}", "\"items\": wanted a schema"},
    {"{\"items\":3}", "#/items: wanted a schema, got an integer"},
    {"{\"prefixItems\":[false]}", "#/prefixItems/0: no text satisfies the schema false"},
    {"{\"required\":[\"a\"],\"additionalProperties\":false}", "\"a\" is required, and no property"},
    {"[]", "#: wanted a schema, got an array"},
    {"3", "#: wanted a schema, got an integer"},
    {" false\n", "#: no text satisfies the schema false"},
    {"true false", "invalid JSON"},
    {"", "invalid JSON"},
    {"{\"type\":\"string\",}", "invalid JSON"},
    {"{\"type\":\"string\",\"type\":\"null\"}", "duplicate"},
};

Test(json_schema, refuses_by_name_what_it_cannot_follow) {
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        Error error = {0};
        const char *schema = REFUSED[i][0];
        CHECK(!grammar_of_json_schema(schema, strlen(schema), &error), "%s", schema);
        CHECK_INT(error.code, ERROR_FILE);
        CHECK(strstr(error.message, REFUSED[i][1]), "%s: \"%s\"", schema, error.message);
    }
}

// `count` times `format` with first, first + 1, .. and a comma between, in a text that the caller
// frees.
static char *listed(const char *format, int first, int count) {
    size_t size = (size_t)count * 24 + 1, at = 0;
    char *text = malloc(size);
    for (int i = 0; i < count; i++) {
        if (i) text[at++] = ',';
        at += (size_t)snprintf(text + at, size - at, format, first + i);
    }
    return text;
}

// What comparing each with each would take minutes for.
Test(json_schema, long_lists_take_no_time_or_are_refused) {
    enum { MANY = 30000, NAMES = 5000 }; // of the names the grammar has 100 bytes each
    char *low = listed("%d", 0, MANY), *high = listed("%d", MANY, MANY);
    char *names = listed("\"n%d\"", 0, NAMES), *schemas = listed("{\"const\":%d}", 0, MANY);
    size_t size = strlen(low) + strlen(high) + strlen(schemas) + 200;
    char *schema = malloc(size);
    Error error = {0};
    snprintf(schema, size, "{\"oneOf\":[{\"enum\":[%s]},{\"enum\":[%s]}]}", low, high);
    CHECK(!grammar_of_json_schema(schema, strlen(schema), &error), "two long lists");
    CHECK(strstr(error.message, "too many schemas and constants"), "%s", error.message);
    snprintf(schema, size, "{\"oneOf\":[%s]}", schemas);
    CHECK(!grammar_of_json_schema(schema, strlen(schema), &error), "many schemas");
    CHECK(strstr(error.message, "too many schemas and constants"), "%s", error.message);
    // The effort is that of the whole schema, however many lists share the constants.
    size_t at = (size_t)snprintf(schema, size, "{\"$defs\":{\"a\":{\"enum\":[%.6000s", low);
    while (schema[at - 1] != ',')
        at--;
    at += (size_t)snprintf(schema + at, size - at, "-1]},\"b\":{\"enum\":[%.6000s", high);
    while (schema[at - 1] != ',')
        at--;
    at += (size_t)snprintf(schema + at, size - at, "-2]}},\"prefixItems\":[");
    for (int i = 0; i < 500; i++)
        at += (size_t)snprintf(schema + at, size - at,
                               "%s{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/b\"}]}",
                               i ? "," : "");
    snprintf(schema + at, size - at, "]}");
    CHECK(!grammar_of_json_schema(schema, strlen(schema), &error), "many lists");
    CHECK(strstr(error.message, "too many schemas and constants"), "%s", error.message);
    char *types = listed("\"object\"", 0, 8);
    for (int i = 0; i < 2; i++) {
        error = (Error){0};
        snprintf(schema, size, i ? "{\"enum\":[1],\"type\":[%s]}" : "{\"type\":[%s]}", types);
        CHECK(!grammar_of_json_schema(schema, strlen(schema), &error), "many types");
        CHECK(strstr(error.message, "more than the 7 there are"), "%s", error.message);
    }
    free(types);
    snprintf(schema, size, "{\"required\":[%s,\"n7\"]}", names);
    char *text = grammar_of_json_schema(schema, strlen(schema), &error);
    CHECK(text, "%s", error.message);
    const char *seventh = strstr(text, "n7\\\"");
    CHECK(seventh && !strstr(seventh + 1, "n7\\\""), "n7 is there once");
    CHECK(strstr(text, "n4999"), "the last name");
    free(text);
    free(schema);
    free(schemas);
    free(names);
    free(high);
    free(low);
}

// A part of a pointer that is longer than any is no shorter one.
Test(json_schema, a_long_reference_is_not_cut) {
    char name[257], schema[1200];
    Error error = {0};
    memset(name, 'a', 256);
    name[256] = '\0';
    snprintf(schema, sizeof schema,
             "{\"$ref\":\"#/$defs/%s\",\"$defs\":{\"%.255s\":{\"type\":\"null\"}}}", name, name);
    CHECK(!grammar_of_json_schema(schema, strlen(schema), &error), "taken");
    CHECK(strstr(error.message, "there is no"), "%s", error.message);
}

// A schema that calls itself before it says anything, or without end.
Test(json_schema, of_nothing_but_itself_has_no_text) {
    static const char *const SELF[] = {
        "{\"$ref\":\"#\"}", "{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}"};
    for (size_t i = 0; i < 2; i++) {
        Error error = {0};
        char *text = grammar_of_json_schema(SELF[i], strlen(SELF[i]), &error);
        CHECK(text, "%s", error.message);
        CHECK(!grammar_parse(text, strlen(text), &error), "%s", SELF[i]);
        CHECK_INT(error.code, ERROR_FILE);
        free(text);
    }
}

// ---- patterns: POSIX regular expressions are the other judge ----

// The same expression in both languages, and the letters that values are made of.
static const struct {
    const char *pattern, *posix, *letters;
} PATTERNS[] = {
    {"^[a-c]{2,3}$", "^[a-c]{2,3}$", "abcd"},
    {"^(ab|c)+d?$", "^(ab|c)+d?$", "abcd"},
    {"^a.b$", "^a.b$", "ab. "},
    {"^\\d\\d-\\w$", "^[0-9][0-9]-[a-zA-Z0-9_]$", "07-a"},
    {"^(?:a|)b*$", "^(a|)b*$", "abc"},
    {"^[^ab]+$", "^[^ab]+$", "abc-"},
    {"^a\\.b\\\\?$", "^a[.]b\\\\?$", "ab.\\"},
    {"^[a\"-]{1,4}$", "^[\"a-]{1,4}$", "a\"-b"},
    {"^\\D\\W\\S$", "^[^0-9][^a-zA-Z0-9_][^ ]$", "0a- "},
    {"^[!-~]{3}$", "^[!-~]{3}$", "a\"\\ "},
    {"^[\\s^a-]+$", "^[ ^a-]+$", "^a- "},
    // More members than there are characters, and one behind them.
    {"^[\x01-\x1f\x01-\x1f\x01-\x1f\"b]+$", "^[\x01-\x1f\"b]+$", "\"ab"},
    {"^$", "^$", "ab"},
};

static size_t put_quoted(char *out, const char *value) {
    size_t length = 0;
    out[length++] = '"';
    for (; *value; value++) {
        if (*value == '"' || *value == '\\') out[length++] = '\\';
        out[length++] = *value;
    }
    out[length++] = '"';
    return length;
}

// Escapes that JSON demands and a pattern of all but some leaves out.
static bool is_left_out(const char *pattern, const char *value) {
    return strpbrk(value, "\"\\") && (strchr(pattern, '.') || strstr(pattern, "[^"));
}

Test(json_schema, a_pattern_allows_what_a_regular_expression_does) {
    enum { LONGEST = 5 };
    for (size_t p = 0; p < sizeof PATTERNS / sizeof *PATTERNS; p++) {
        char value[LONGEST + 1], quoted[2 * LONGEST + 2];
        json_t *own = json_pack("{s:s}", "pattern", PATTERNS[p].pattern);
        char *dumped = json_dumps(own, 0);
        Trie trie;
        Grammar *grammar = convert(dumped);
        Matcher *matcher = open_matcher(grammar, &trie);
        regex_t regex;
        CHECK(!regcomp(&regex, PATTERNS[p].posix, REG_EXTENDED | REG_NOSUB), "%zu", p);
        int n_letters = (int)strlen(PATTERNS[p].letters), n_matches = 0;
        for (int number = 0, all = 1, i = 0; i <= LONGEST; i++, all *= n_letters, number = 0)
            for (; number < all; number++) {
                bool fits;
                for (int j = 0, rest = number; j < i; j++, rest /= n_letters)
                    value[j] = PATTERNS[p].letters[rest % n_letters];
                value[i] = '\0';
                size_t length = put_quoted(quoted, value);
                CHECK(matcher_reset(matcher, NULL) &&
                          matcher_read(matcher, quoted, length, &fits, NULL),
                      "%s", value);
                bool wanted = !regexec(&regex, value, 0, NULL, 0);
                if (wanted && is_left_out(PATTERNS[p].pattern, value)) continue;
                n_matches += wanted;
                CHECK((fits && matcher_complete(matcher)) == wanted, "%s: %s: wanted %d", dumped,
                      value, wanted);
            }
        CHECK(n_matches > 0, "%s matches nothing", dumped);
        regfree(&regex);
        free(dumped);
        json_decref(own);
        matcher_close(matcher);
        trie_close(&trie);
        grammar_close(grammar);
    }
}

Test(json_schema, a_pattern_that_is_more_is_refused) {
    static const char *const PATTERNS_REFUSED[] = {
        "a(?=b)", "(a)\\1", "\\bword", "a*?",      "a**", "(a",  "a)",      "[a",     "[]", "[b-a]",
        "a{,3}",  "a{2",    "a{}",     "a{1,2,3}", "*a",  "a$b", "\\u0041", "\\p{L}", "a^", "\\"};
    for (size_t i = 0; i < sizeof PATTERNS_REFUSED / sizeof *PATTERNS_REFUSED; i++) {
        Error error = {0};
        json_t *schema = json_pack("{s:s}", "pattern", PATTERNS_REFUSED[i]);
        char *text = json_dumps(schema, 0);
        CHECK(!grammar_of_json_schema(text, strlen(text), &error), "%s", text);
        CHECK_INT(error.code, ERROR_FILE);
        CHECK(strstr(error.message, "#: \"pattern\": ") && strstr(error.message, " at byte "),
              "%s: %s", text, error.message);
        free(text);
        json_decref(schema);
    }
}
