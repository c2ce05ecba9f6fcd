// tokenizer.json: any text becomes a tokenizer that works, or one message.
// Exercises: tokenizer/files/ tokenizer/bpe/ tokenizer/split/ tokenizer/added_tokens.c base/json.c
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"
#include "tests/fuzz/use_tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#define SPACE "\xe2\x96\x81"

static const char *const BASES[] = {
    "{\"added_tokens\":[{\"id\":5,\"content\":\"<|x|>\",\"lstrip\":true,\"special\":true},"
    "{\"id\":6,\"content\":\"<t>\",\"single_word\":true}],\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
    "\"individual_digits\":true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,"
    "\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"\xc4\xa0"
    "ab\":4},"
    "\"merges\":[\"a b\",[\"\xc4\xa0\",\"ab\"]]}}",
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
    "\"" SPACE "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE
    "\"}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
    "\"<unk>\"}}]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Strip\","
    "\"content\":\" \",\"start\":1,\"stop\":0}]},\"model\":{\"unk_token\":\"<unk>\","
    "\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"" SPACE "\":1,\"a\":2,"
    "\"b\":3,\"<0xC3>\":4,\"ab\":5,\"" SPACE "ab\":6},\"merges\":[\"a b\",\"" SPACE " ab\"]}}",
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_json, BASES[seed & 1],
                       strlen(BASES[seed & 1]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    const char *base = BASES[count ? data[0] >> 1 & 1 : 0];
    size_t size;
    char *text = (char *)fuzz_patched(&size, data, count, base, strlen(base));
    Error error = {0};
    Tokenizer *t = tokenizer_new(&error);
    if (!text || !t) abort();
    bool good = tokenizer_json_open(t, (TextSpan){text, size}, (TextSpan){NULL, 0}, NULL, &error);
    if (good == (error.code != ERROR_NONE)) abort();
    if (good) fuzz_use_tokenizer(t, text, size);
    tokenizer_close(t);
    free(text);
    return 0;
}
