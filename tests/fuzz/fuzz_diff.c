// diff: two files, which may come from other programs, are paired and compared, or refused.
// Exercises: commands/trace/ weights/hf/safetensors.c weights/hf/safetensors_json.c base/
#include "commands/trace/trace_diff.h"
#include "tests/fuzz/file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/patch.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

// Three tokens, vocabulary 4, two heads; all of the data is zero.
static const char JSON[] =
    "{\"__metadata__\":{\"order\":\"embed\\nattn\\nlm_head\",\"precision\":\"f32\",\"kv\":\"f16\"},"
    "\"input_ids\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
    "\"embed\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[24,36]},"
    "\"attn\":{\"dtype\":\"F32\",\"shape\":[2,3,3],\"data_offsets\":[36,108]},"
    "\"lm_head\":{\"dtype\":\"F32\",\"shape\":[3,4],\"data_offsets\":[108,156]}}";

// Other tokens than JSON has, and logits for the first of them alone.
static const char FEW[] =
    "{\"__metadata__\":{\"kv\":\"f32\"},"
    "\"input_ids\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[0,24]},"
    "\"lm_head\":{\"dtype\":\"F32\",\"shape\":[1,4],\"data_offsets\":[24,40]}}";

static uint8_t base[1024], few[1024];
static size_t base_size, few_size;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    base_size = fuzz_safetensors(base, JSON, 156, 0);
    few_size = fuzz_safetensors(few, FEW, 40, 0);
    few[few_size - 40 + 16] = 1; // the third token is 1, in `base` it is 0
    if (!freopen("/dev/null", "w", stdout)) abort();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return fuzz_mutate(data, size, room, seed, fuzz_walk_safetensors, base, base_size);
}

static void compare(TraceDiff *diff, bool json) {
    Budget budget;
    Error error = {0};
    double gaps[2];
    if (!trace_diff_budget(diff, &budget, &error)) abort();
    int64_t position = trace_diff_tokens(diff);
    DiffReport report = {diff, &budget, "a", "b", true};
    if (position >= 0) {
        trace_token_gaps(diff, (uint64_t)position, gaps);
        diff_report_tokens(&report, (uint64_t)position, json);
    }
    if (!trace_diff_run(diff, &budget, NULL, NULL, &error)) abort();
    (json ? diff_report_json : diff_report_print)(&report);
}

// The first byte: 1 as fuzz_patched, 2 the names that match "*attn*", 4 the other file is the same
// one, 8 JSON, 16 the other file is `few`.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t count) {
    size_t size;
    uint8_t *file = fuzz_patched(&size, data, count, base, base_size);
    uint8_t flags = count ? data[0] : 0;
    TextList only = {.texts = {"*attn*"}, .count = flags >> 1 & 1};
    TraceDiff diff;
    Error error = {0};
    if (!file) return 0;
    const char *a = fuzz_file(0, file, size);
    const char *b = flags & 4    ? a
                    : flags & 16 ? fuzz_file(1, few, few_size)
                                 : fuzz_file(1, base, base_size);
    if (trace_diff_open(&diff, a, b, &only, &error)) {
        fuzz_guard(&diff.a.mapping);
        fuzz_guard(&diff.b.mapping);
        compare(&diff, flags & 8);
        fuzz_unguard(&diff.a.mapping);
        fuzz_unguard(&diff.b.mapping);
        trace_diff_close(&diff);
    } else if (!error.code || !error.message[0]) {
        abort();
    }
    free(file);
    return 0;
}
