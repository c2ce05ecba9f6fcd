// Grammars and JSON schemas: any text is one or is refused; along a text that it allows, the mask
// of every state is the one of reading all tokens, every token in it can be read, and no other.
// Exercises: grammar/ base/json.c
#include "base/hash.h"
#include "grammar/matcher.h"

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
    // A state that is no end goes on: every byte is a token.
    int token = choose(mask, random), other = (int)(splitmix64(random) % N_TOKENS);
    if (token < 0 && !matcher_complete(m)) abort();
    bool allowed = mask[other / 64] >> other % 64 & 1;
    if (!allowed && tokens[other].length && !try_token(m, other, false)) return false;
    return token >= 0 && try_token(m, token, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    Error error = {0};
    if (count < 2) return 0;
    const char *text = (const char *)data + 2;
    char *converted = NULL;
    size_t size = count - 2;
    if (data[0] & 1) {
        converted = grammar_of_json_schema(text, size, &error);
        if (!converted != (error.code != 0)) abort();
        if (!converted) return 0;
        text = converted;
        size = strlen(converted);
    }
    Grammar *grammar = grammar_parse(text, size, &error);
    if (!grammar != (error.code != 0)) abort();
    // What is wrong with a schema's grammar is never its form.
    if (!grammar && converted && strstr(error.message, "wanted")) abort();
    Matcher *m = grammar ? matcher_open(grammar, &trie, NULL, &error) : NULL;
    if (grammar && !m) check_limit(&error);
    uint64_t random = data[1];
    for (int step = 0; m && step < STEPS; step++)
        if (!follow(m, &random)) break;
    matcher_close(m);
    grammar_close(grammar);
    free(converted);
    return 0;
}
