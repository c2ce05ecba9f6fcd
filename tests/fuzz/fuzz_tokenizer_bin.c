// tokenizer.bin in memory: opening, and encoding and decoding with what was accepted.
// Exercises: tokenizer/files/tokenizer_bin.c tokenizer/bpe/ tokenizer/tokenizer.c
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "tests/fuzz/use_tokenizer.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

// Six tokens: the longest has six bytes; scores 0, 0, 0, 0, -1 (0xbf800000), 0.
static const char BASE[] = "\6\0\0\0"
                           "\0\0\0\0\5\0\0\0<unk>"
                           "\0\0\0\0\5\0\0\0\n<s>\n"
                           "\0\0\0\0\6\0\0\0\n</s>\n"
                           "\0\0\0\0\6\0\0\0<0x41>"
                           "\0\0\x80\xbf\2\0\0\0 a"
                           "\0\0\0\0\1\0\0\0a";

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_tokenizer_bin, BASE, sizeof BASE - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *bytes = fuzz_patched(&size, data, count, BASE, sizeof BASE - 1);
    Error error = {0};
    Tokenizer *t = tokenizer_new(&error);
    int vocab_size = count % 3 ? 0 : 6;
    if (bytes && t && tokenizer_bin_open(t, bytes, size, vocab_size, &error))
        fuzz_use_tokenizer(t, (const char *)data, count < 512 ? count : 512);
    else if (!error.code)
        abort();
    tokenizer_close(t);
    free(bytes);
    return 0;
}
