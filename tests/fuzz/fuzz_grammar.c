// Grammars and JSON schemas: any text is one or is refused; along a text that it allows, the mask
// of every state is the one of reading all tokens, every token in it can be read, and no other; and
// where few tokens are left, some token of it leads on to an end.
// Exercises: grammar/ base/json.c
#include "base/hash.h"
#include "grammar/matcher.h"
#include "tests/fuzz/patch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static const char *const WORDS[] = {"\":\"",
                                    "\",\"",
                                    "\"}",
                                    "\"]",
                                    "{\"",
                                    "[\"",
                                    "}}",
                                    "]]}",
                                    ", ",
                                    "true",
                                    "false",
                                    "null",
                                    "12",
                                    "-1.5e3",
                                    "abc",
                                    "the",
                                    " the",
                                    "\\u00e9",
                                    "aaaa",
                                    "aaaaaaaaaaaa",
                                    "ab",
                                    "\xc3\xa9",
                                    "\xc3",
                                    "\xe2\x82",
                                    "\x82\xac",
                                    "\n  ",
                                    "",
                                    "ababab",
                                    "   ",
                                    "}]}\"",
                                    "\"a\":1,\"b\":"};
enum { N_WORDS = sizeof WORDS / sizeof *WORDS, N_TOKENS = 256 + N_WORDS, STEPS = 8 };
enum { MASK_WORDS = (N_TOKENS + 63) / 64 };

static const char *const GRAMMARS[] = {
    "root ::= object\nvalue ::= object | array | string | number | \"true\"\n"
    "object ::= \"{\" ws (string \":\" ws value (\",\" ws string \":\" ws value)*)? \"}\" ws\n"
    "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\nstring ::= \"\\\"\" "
    "([^\"\\\\\\x7F\\x00-"
    "\\x1F] | \"\\\\\" ([\"\\\\nt] | \"u\" [0-9a-f]{4}))* \"\\\"\" ws\n"
    "number ::= \"-\"? [0-9]+ (\".\" [0-9]{1,9})?\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n",
    "root ::= [a-z]{1,100} \",\" [ab]{2,7} | \"[\" root \"]\"\n",
    "root ::= (\"a\"? [a-c]{0,30}){0,50} \"]\" x\nx ::= \"\" | y x\ny ::= \"(\" x \")\" | .\n",
    "root ::= ((\"a\" | \"ab\"){1,5} \"b\"{0,3}){1,8} [^a]*\n",
    "root ::= (item{0,3} \";\"){1,6}\nitem ::= [a-e]{2,40} | \"\\\"\" .{0,9} \"\\\"\"\n",
    "root ::= [\\u00e0-\\u20ac\\U0001F600] root | \"a\" | \"{\" root \"}\" \" \"?\n",
    "root ::= (\"{\" [a-z\"]{1,9} ){2,4} x\nx ::= \"}\"{2,5} | \",\" root\n",
    "root ::= \"a\"{3,} | ([ab] [ab]?){2,} | (root2 \"b\"){1,3}\nroot2 ::= \"a\" root?\n",
};
static const char *const SCHEMAS[] = {
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":7,\"maximum\":"
    "123}"
    ",\"b\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":5},\"c\":{\"$ref\":\"#/$defs/x\"}},"
    "\"required\":[\"b\"],\"$defs\":{\"x\":{\"type\":[\"null\",\"array\"]}}}",
    "{\"anyOf\":[{\"enum\":[1,\"a\",null]},{\"type\":\"array\",\"items\":{\"$ref\":\"#\"},"
    "\"minItems\":1,\"maxItems\":3},{\"const\":{\"k\":[]}}]}",
    "{\"prefixItems\":[{\"type\":\"string\",\"format\":\"date\"},true],\"items\":false}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":[\"k\"]"
    "}"
    ",{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}",
    "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\",\"exclusiveMaximum\":-3}}",
    "{\"properties\":{\"a\":{\"type\":\"number\",\"minimum\":0},\"b\":{},\"c\":{}}}",
    "{\"allOf\":[{\"maxItems\":2}],\"title\":\"t\"}",
    "{\"items\":{\"pattern\":\"^[a-z\\\"]{2,3}(\\\\d+|x.)?$\"},\"minItems\":2}",
};

static char bytes[256];
static TextSpan tokens[N_TOKENS];
static Trie trie;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = (TextSpan){&bytes[i], 1};
    }
    for (int i = 0; i < N_WORDS; i++)
        tokens[256 + i] = (TextSpan){WORDS[i], strlen(WORDS[i])};
    if (!trie_open(&trie, tokens, N_TOKENS, NULL)) abort();
    return 0;
}

// Only a limit may stop it.
static void check_limit(const Error *error) {
    if (error->code != ERROR_FILE || !strstr(error->message, "too ambiguous")) abort();
}

// One token of the mask, by chance; -1: there is none.
static int choose(const uint64_t *mask, uint64_t *random) {
    int chosen = -1;
    uint64_t n = 0;
    for (int i = 0; i < N_TOKENS; i++)
        if (mask[i / 64] >> i % 64 & 1 && splitmix64(random) % ++n == 0) chosen = i;
    return chosen;
}

// Reads a token that must fit, or must not. False: a limit.
static bool try_token(Matcher *m, int token, bool wanted) {
    Error error = {0};
    bool fits = wanted;
    if (!matcher_read(m, tokens[token].text, tokens[token].length, &fits, &error)) {
        check_limit(&error);
        return false;
    }
    if (fits != wanted) abort();
    return true;
}

// With as many tokens as the shortest completion needs, some token leads on. False: a limit.
static bool check_bound(Matcher *m, const uint64_t *mask) {
    Error error = {0};
    uint32_t needs;
    uint64_t some[MASK_WORDS], any = 0;
    memcpy(some, mask, sizeof some);
    bool good = matcher_needs(m, NULL, 0, UINT32_MAX, &needs, &error);
    if (good && (needs == 0) != matcher_complete(m)) abort();
    bool bounded = good && needs > 0 && needs < MATCHER_ENDLESS;
    if (bounded) good = matcher_narrow(m, &trie, needs - 1, some, &error);
    for (int i = 0; i < MASK_WORDS; i++)
        any |= some[i];
    if (bounded && good && !any) abort();
    if (!good) check_limit(&error);
    return good;
}

// False: a limit, or the end of the text.
static bool follow(Matcher *m, uint64_t *random) {
    Error error = {0};
    uint64_t mask[MASK_WORDS], slow[MASK_WORDS];
    const uint64_t *found = matcher_mask(m, &error);
    if (found) memcpy(mask, found, sizeof mask);
    if (!found || !matcher_mask_slowly(m, &trie, slow, &error)) {
        check_limit(&error);
        return false;
    }
    if (memcmp(mask, slow, sizeof mask)) abort();
    if (!check_bound(m, mask)) return false;
    // A state that is no end goes on: every byte is a token.
    int token = choose(mask, random), other = (int)(splitmix64(random) % N_TOKENS);
    if (token < 0 && !matcher_complete(m)) abort();
    bool allowed = mask[other / 64] >> other % 64 & 1;
    if (!allowed && tokens[other].length && !try_token(m, other, false)) return false;
    return token >= 0 && try_token(m, token, true);
}

// NULL: the schema is refused.
static char *convert(const char *text, size_t *size) {
    Error error = {0};
    char *converted = grammar_of_json_schema(text, *size, &error);
    if (!converted != (error.code != 0)) abort();
    *size = converted ? strlen(converted) : 0;
    return converted;
}

static void use(const char *text, size_t size, bool converted, uint64_t random) {
    Error error = {0};
    Grammar *grammar = grammar_parse(text, size, &error);
    if (!grammar != (error.code != 0)) abort();
    // What is wrong with a schema's grammar is never its form.
    if (!grammar && converted && strstr(error.message, "wanted")) abort();
    Matcher *m = grammar ? matcher_open(grammar, &trie, NULL, &error) : NULL;
    if (grammar && !m) check_limit(&error);
    // Masks are the same with it; what it may run into is memory.
    if (m && size % 2 && !matcher_prepare(m, &error)) check_limit(&error);
    for (int step = 0; m && step < STEPS; step++)
        if (!follow(m, &random)) break;
    matcher_close(m);
    grammar_close(grammar);
}

// A byte that chooses, one for the random numbers, an input of fuzz_patched.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    if (count < 3) return 0;
    bool is_schema = data[0] & 1;
    const char *base = (is_schema ? SCHEMAS : GRAMMARS)[data[0] >> 1 & 7];
    size_t size;
    char *text = (char *)fuzz_patched(&size, data + 2, count - 2, base, strlen(base));
    if (!text) return 0;
    char *converted = is_schema ? convert(text, &size) : NULL;
    if (!is_schema || converted) use(converted ? converted : text, size, is_schema, data[1]);
    free(converted);
    free(text);
    return 0;
}
