// replay: any recording is read whole, or refused with one error.
// Exercises: commands/replay/read.c commands/shared/recording.c commands/shared/option_rows.c
// base/json.c
#include "commands/replay/replay.h"
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

static const char BASE[] =
    "{\"format\":\"limpid-recording 1\",\"limpid\":\"0.1.0\",\"device\":\"cpu\","
    "\"model\":{\"path\":\"builtin\",\"digest\":\"aaaef3c04738fe52\",\"vocab_size\":2048},"
    "\"options\":{\"temp\":1,\"top-p\":0.9,\"top-k\":0,\"min-p\":0,\"typical-p\":1,"
    "\"repeat-penalty\":1,\"presence-penalty\":0,\"frequency-penalty\":0,\"repeat-last-n\":0,"
    "\"seed\":\"2912408115750630593\",\"max-tokens\":2,\"stop\":[\"x\"],\"ignore-eos\":false,"
    "\"special\":false,\"tokenizer\":null,\"threads\":2,\"ctx-size\":4,\"kv\":\"f16\","
    "\"precision\":\"a16\",\"pattern\":\"local:2\",\"no-cache\":false,"
    "\"logit-bias\":[\"5:-inf,6:+1\"],\"dry-multiplier\":1,\"dry-sequence-breaker\":[\"x\"],"
    "\"mirostat\":\"2\"},\"prompt_ids\":[1,435],"
    "\"tokens\":[{\"id\":462,\"uniform\":0.617163658,\"hash\":\"dbe72392baa8cb3e\","
    "\"logit\":12.3477955,\"probability\":0.833419984,\"other\":{\"id\":406,"
    "\"logit\":10.6158752,\"probability\":0.147468922}},{\"id\":262,\"uniform\":0.29946816,"
    "\"hash\":\"c8de2807672ca1be\",\"logit\":10.0246563,\"probability\":0.991675131,"
    "\"other\":null}],\"stop\":\"length\",\"text\":\" upon a\"}";

static Options defaults;

// Aborts where what it accepts is out of range.
static bool reads(const void *bytes, size_t size) {
    Recording r = {0};
    Error error = {0};
    bool good = recording_read(&r, fuzz_file(0, bytes, size), &defaults, &error);
    if (good != !error.code) abort();
    if (good && (!r.prompt.count || (int64_t)r.prompt.count > r.options.context)) abort();
    for (size_t i = 0; good && i < r.n_tokens; i++) {
        const RecordedToken *t = &r.tokens[i];
        if (t->id < 0 || t->id >= r.vocab_size || t->other >= r.vocab_size) abort();
        if (!(t->uniform >= 0 && t->uniform < 1)) abort();
    }
    recording_free(&r);
    return good;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    char name[] = "run", *arguments[] = {name, NULL};
    if (!options_parse(&defaults, FOR_REPLAY, 1, arguments, NULL)) abort();
    if (!reads(BASE, sizeof BASE - 1)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_json, BASE, sizeof BASE - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *text = fuzz_patched(&size, data, count, BASE, sizeof BASE - 1);
    if (text) reads(text, size);
    free(text);
    return 0;
}
