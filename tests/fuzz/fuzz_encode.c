// Any bytes as a prompt: with every splitting pattern they come back as they went in (Qwen's form C
// aside).
// Exercises: tokenizer/split/ tokenizer/bpe/ tokenizer/added_tokens.c tokenizer/tokenizer.c
#include "tests/fuzz/use_tokenizer.h"
#include "tests/support/files/made_vocabulary.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

enum { N_PATTERNS = 10 };

static const char *const NAMES[N_PATTERNS] = {"gpt2",          "smollm",   "llama3",  "dbrx",
                                              "tekken",        "nanochat", "default", "gpt-4o",
                                              "hunyuan-dense", "qwen2"};
static const char *const MERGES[] = {
    "a b", "a a", "aa aa", "\xc4\xa0 \xc4\xa0", "\xc4\xa0 a", "\xc4\x8a \xc4\x8a",
    "1 1", "' s", NULL};

static Tokenizer *open_pattern(const char *name) {
    MadeVocabulary made;
    made_vocabulary(&made, name, MERGES);
    made_vocabulary_add(&made, "<s>", 3, TOKEN_CONTROL);
    made_vocabulary_add(&made, "<u>", 3, TOKEN_USER_DEFINED);
    TokenizerSource source = {.vocabulary = &made.vocabulary};
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
