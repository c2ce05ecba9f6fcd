// vocab.json and merges.txt, apart at the first NUL; without one, tiktoken's lines.
// Exercises: tokenizer/files/ tokenizer/bpe/ base/json.c
#include "tests/fuzz/patch.h"
#include "tests/fuzz/use_tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);

static const char PAIR[] = "{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"\xc4\xa0"
                           "ab\":4,\"<|e|>\":5}"
                           "\0#version: 0.2\na b\n\xc4\xa0 ab\n";
static const char LINES[] = "YQ== 0\nYg== 1\nIA== 2\nYWI= 3\nYWJh 4\n/w== 5\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    bool lines = count && data[0] & 2;
    size_t size;
    char *text = (char *)fuzz_patched(&size, data, count, lines ? LINES : PAIR,
                                      lines ? sizeof LINES - 1 : sizeof PAIR - 1);
    Error error = {0};
    Tokenizer *t = tokenizer_new(&error);
    if (!text || !t) abort();
    char *nul = memchr(text, '\0', size);
    bool good;
    if (nul) {
        TextSpan vocab = {text, (size_t)(nul - text)};
        TextSpan merges = {nul + 1, size - vocab.length - 1};
        good = tokenizer_json_open(t, vocab, merges, NULL, &error);
    } else {
        good = tiktoken_open(t, (TextSpan){text, size}, NULL, &error);
    }
    if (good == (error.code != ERROR_NONE)) abort();
    if (good) fuzz_use_tokenizer(t, text, size);
    tokenizer_close(t);
    free(text);
    return 0;
}
