// SentencePiece models in memory: parsed and checked, and texts encoded and decoded with what was
// accepted.
// Exercises: tokenizer/sentencepiece/ tokenizer/tokenizer.c
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "tests/fuzz/use_tokenizer.h"
#include "tokenizer/sentencepiece/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

// <unk>, <s>, U+2581, a, b, "ab" user-defined; trainer_spec { BPE }; then normalizer_spec with a
// charsmap of 3078 bytes: a becomes b.
static const char PIECES[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                             "\x0a\x0c\x0a\x03<s>\x15\0\0\0\0\x18\x03"
                             "\x0a\x0c\x0a\x03\xe2\x96\x81\x15\0\0\x80\xbf\x18\x01"
                             "\x0a\x0a\x0a\x01\x61\x15\0\0\x80\xbf\x18\x01"
                             "\x0a\x0a\x0a\x01\x62\x15\0\0\x80\xbf\x18\x01"
                             "\x0a\x0b\x0a\x02\x61\x62\x15\0\0\0\0\x18\x04"
                             "\x12\x02\x18\x02"
                             "\x1a\x8d\x18\x18\x01\x20\x00\x12\x86\x18";
enum { UNITS = 768, MAP_SIZE = 4 + 4 * UNITS + 2, BASE_SIZE = sizeof PIECES - 1 + MAP_SIZE };

static void make_base(uint8_t *base) {
    uint32_t units[1 + UNITS] = {4 * UNITS};
    for (size_t i = 1; i <= UNITS; i++)
        units[i] = 1u << 31;
    units[1 + 0] = 256u << 10;
    units[1 + (256 ^ 'a')] = (256u ^ 'a' ^ 512) << 10 | 1u << 8 | 'a';
    memcpy(base, PIECES, sizeof PIECES - 1);
    memcpy(base + sizeof PIECES - 1, units, sizeof units);
    memcpy(base + BASE_SIZE - 2, "b", 2);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    uint8_t base[BASE_SIZE];
    make_base(base);
    return fuzz_mutate(data, size, room, seed, fuzz_walk_protobuf, base, sizeof base);
}

// A text of what the input is.
static void use(const uint8_t *bytes, size_t size, const uint8_t *data, size_t count) {
    Error error = {0};
    Tokenizer *t = tokenizer_new(&error);
    if (t && sentencepiece_open(t, bytes, size, &error))
        fuzz_use_tokenizer(t, (const char *)data, count < 512 ? count : 512);
    else if (!error.code)
        abort();
    tokenizer_close(t);
}

// Once as it is, once as a unigram model: of two trainer_specs the last counts.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    static const uint8_t UNIGRAM[] = {0x12, 2, 0x18, 1};
    uint8_t base[BASE_SIZE];
    size_t size;
    make_base(base);
    uint8_t *bytes = fuzz_patched(&size, data, count, base, sizeof base);
    if (!bytes) return 0;
    use(bytes, size, data, count);
    uint8_t *other = malloc(size + sizeof UNIGRAM);
    if (other) {
        memcpy(other, bytes, size);
        memcpy(other + size, UNIGRAM, sizeof UNIGRAM);
        use(other, size + sizeof UNIGRAM, data, count);
    }
    free(other);
    free(bytes);
    return 0;
}
