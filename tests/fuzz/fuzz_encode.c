// Any bytes as a prompt: with every splitting pattern they come back as they went in (Qwen's form C
// aside).
#include "tests/fuzz/use_tokenizer.h"
#include "tokenizer/byte_alphabet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

enum { N_PATTERNS = 8, N_MERGES = 8, N_TOKENS = 256 + N_MERGES + 2 };

static const char *const NAMES[N_PATTERNS] = {"gpt2",   "smollm",   "llama3",  "dbrx",
                                              "tekken", "nanochat", "default", "qwen2"};
static const char *const MERGES[N_MERGES][2] = {{"a b", "ab"},
                                                {"a a", "aa"},
                                                {"aa aa", "aaaa"},
                                                {"\xc4\xa0 \xc4\xa0", "\xc4\xa0\xc4\xa0"},
                                                {"\xc4\xa0 a", "\xc4\xa0"
                                                               "a"},
                                                {"\xc4\x8a \xc4\x8a", "\xc4\x8a\xc4\x8a"},
                                                {"1 1", "11"},
                                                {"' s", "'s"}};

static Tokenizer *open_pattern(const char *name) {
    static char letters[256][ALPHABET_MAX];
    TextSpan tokens[N_TOKENS], merges[N_MERGES];
    uint8_t types[N_TOKENS];
    memset(types, TOKEN_NORMAL, sizeof types);
    for (int i = 0; i < 256; i++)
        tokens[i] = (TextSpan){letters[i], alphabet_letter(letters[i], (uint8_t)i)};
    for (int i = 0; i < N_MERGES; i++) {
        merges[i] = (TextSpan){MERGES[i][0], strlen(MERGES[i][0])};
        tokens[256 + i] = (TextSpan){MERGES[i][1], strlen(MERGES[i][1])};
    }
    tokens[N_TOKENS - 2] = (TextSpan){"<s>", 3};
    types[N_TOKENS - 2] = TOKEN_CONTROL;
    tokens[N_TOKENS - 1] = (TextSpan){"<u>", 3};
    types[N_TOKENS - 1] = TOKEN_USER_DEFINED;
    Vocabulary v = {.model = "gpt2",
                    .pre = name,
                    .n_tokens = N_TOKENS,
                    .tokens = tokens,
                    .types = types,
                    .n_merges = N_MERGES,
                    .merges = merges};
    TokenizerSource source = {.vocabulary = &v};
    Tokenizer *t = tokenizer_open(&source, NULL);
    if (!t) abort();
    return t;
}

static void check_round_trip(Tokenizer *t, const char *text, size_t length) {
    IdList ids = {0};
    if (!tokenizer_encode(t, &ids, text, length, false, NULL)) abort();
    size_t at = 0;
    for (size_t i = 0; i < ids.count; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, ids.ids[i], i == 0, false, &n);
        if (n > length - at || memcmp(text + at, piece, n)) abort();
        at += n;
    }
    if (at != length) abort();
    id_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    static Tokenizer *tokenizers[N_PATTERNS]; // kept from one input to the next
    if (!count) return 0;
    size_t pattern = data[0] % N_PATTERNS;
    if (!tokenizers[pattern]) tokenizers[pattern] = open_pattern(NAMES[pattern]);
    char *text = malloc(count);
    if (!text) abort();
    memcpy(text, data + 1, count - 1);
    fuzz_use_tokenizer(tokenizers[pattern], text, count - 1);
    if (strcmp(NAMES[pattern], "qwen2")) check_round_trip(tokenizers[pattern], text, count - 1);
    free(text);
    return 0;
}
